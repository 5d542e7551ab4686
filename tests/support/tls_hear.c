/* A server of TLS 1.3 that keeps what its first client says: it asks for a certificate, believes
 * any, and writes the first bytes within to a file.
 *
 *   tls_hear CERTIFICATE KEY PORT-FILE FILE */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static bool write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "we");

    if (file == NULL)
        return false;
    fwrite(bytes, 1, count, file);
    return fclose(file) == 0;
}

/* Of the first connection; the port goes into the file. */
static int accept_one(const char *port_file)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(own);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[16];

    if (bind(listener, (struct sockaddr *)&own, sizeof(own)) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&own, &bytes) != 0 ||
        !write_file(port_file, text,
                    (size_t)snprintf(text, sizeof(text), "%u\n", ntohs(own.sin_port))))
        return -1;
    return accept(listener, NULL, NULL);
}

int main(int argc, char **argv)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    char data[16384];
    ssize_t count;
    int fd;

    if (argc != 5 || gnutls_certificate_allocate_credentials(&credentials) != 0 ||
        gnutls_certificate_set_x509_key_file(credentials, argv[1], argv[2], GNUTLS_X509_FMT_PEM) <
            0)
        return 2;
    fd = accept_one(argv[3]);
    if (fd < 0 || gnutls_init(&session, GNUTLS_SERVER) != 0)
        return 1;
    (void)gnutls_priority_set_direct(session, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
    gnutls_transport_set_int(session, fd);
    if (gnutls_handshake(session) != 0)
        return 1;
    count = gnutls_record_recv(session, data, sizeof(data));
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(fd);
    return count > 0 && write_file(argv[4], data, (size_t)count) ? 0 : 1;
}
