/* A client of TLS 1.3 that would rather show a session ticket than prove its identity again.
 *
 *   tls_ticket PORT TICKET [certificate=FILE key=FILE] [say=TEXT]
 *     Shakes hands and offers the ticket that the file TICKET holds, if there is one; says the
 *     text, and reads for a second. A ticket that comes is written to the file. Prints "resumed"
 *     or "anew", then whether one came ("ticket" or "none"), and the first line of the answer; or
 *     "alert NAME".
 *   tls_ticket own TICKET certificate=FILE key=FILE
 *     Writes a ticket of a server of its own, with that certificate. */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char priority[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3";
static const char *ticket_file, *certificate, *key, *say;
static gnutls_certificate_credentials_t credentials;
static char answer[65536];

/* ---- the two sides ---- */

static gnutls_session_t session_of(unsigned flags, int fd)
{
    gnutls_session_t session;

    if (gnutls_init(&session, flags) != 0 ||
        gnutls_priority_set_direct(session, priority, NULL) != 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials) != 0)
        exit(2);
    gnutls_transport_set_int(session, fd);
    return session;
}

/* Shakes hands, which gives a ticket, and ends. */
static void *serve(void *socket)
{
    gnutls_session_t session = session_of(GNUTLS_SERVER, *(int *)socket);
    gnutls_datum_t secret;

    if (gnutls_session_ticket_key_generate(&secret) != 0 ||
        gnutls_session_ticket_enable_server(session, &secret) != 0)
        exit(2);
    if (gnutls_handshake(session) == 0)
        (void)gnutls_bye(session, GNUTLS_SHUT_WR);
    gnutls_deinit(session);
    gnutls_free(secret.data);
    return NULL;
}

/* ---- tickets ---- */

static void offer(gnutls_session_t session)
{
    gnutls_datum_t data;

    if (gnutls_load_file(ticket_file, &data) != 0)
        return;
    if (gnutls_session_set_data(session, data.data, data.size) != 0)
        exit(2);
    gnutls_free(data.data);
}

/* Whether a ticket has come; it is then in the file. */
static bool keep(gnutls_session_t session)
{
    gnutls_datum_t data;
    FILE *file;

    if (!(gnutls_session_get_flags(session) & GNUTLS_SFLAGS_SESSION_TICKET))
        return false;
    if (gnutls_session_get_data2(session, &data) != 0 || (file = fopen(ticket_file, "we")) == NULL)
        exit(2);
    fwrite(data.data, 1, data.size, file);
    gnutls_free(data.data);
    return fclose(file) == 0;
}

/* ---- a session of each kind ---- */

/* Until the other side ends, or has been silent for a second. Returns the last result. */
static ssize_t hear(gnutls_session_t session)
{
    size_t used = 0;
    ssize_t result;

    gnutls_record_set_timeout(session, 1000);
    do {
        result = gnutls_record_recv(session, answer + used, sizeof(answer) - 1 - used);
        used += result > 0 ? (size_t)result : 0;
    } while ((result > 0 || result == GNUTLS_E_AGAIN) && used < sizeof(answer) - 1);
    answer[used] = '\0';
    return result;
}

static int make_own(void)
{
    int ends[2];
    pthread_t server;
    gnutls_session_t session;
    bool kept;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ||
        pthread_create(&server, NULL, serve, &ends[1]) != 0)
        return 2;
    session = session_of(GNUTLS_CLIENT, ends[0]);
    kept = gnutls_handshake(session) == 0 && hear(session) == 0 && keep(session);
    pthread_join(server, NULL);
    gnutls_deinit(session);
    return kept ? 0 : 1;
}

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        exit(1);
    return fd;
}

static int try_ticket(int port)
{
    gnutls_session_t session = session_of(GNUTLS_CLIENT, dial(port));
    ssize_t result;

    offer(session);
    result = gnutls_handshake(session);
    if (result == 0 && say != NULL)
        result = gnutls_record_send(session, say, strlen(say));
    if (result >= 0)
        result = hear(session);
    if (result == GNUTLS_E_FATAL_ALERT_RECEIVED)
        printf("alert %s\n", gnutls_alert_get_name(gnutls_alert_get(session)));
    else
        printf("%s %s %.*s\n", gnutls_session_is_resumed(session) ? "resumed" : "anew",
               keep(session) ? "ticket" : "none", (int)strcspn(answer, "\r\n"), answer);
    gnutls_deinit(session);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    ticket_file = argv[2];
    for (int i = 3; i < argc; i++) {
        if (strncmp(argv[i], "certificate=", 12) == 0)
            certificate = argv[i] + 12;
        else if (strncmp(argv[i], "key=", 4) == 0)
            key = argv[i] + 4;
        else if (strncmp(argv[i], "say=", 4) == 0)
            say = argv[i] + 4;
    }
    if (gnutls_certificate_allocate_credentials(&credentials) != 0 ||
        (certificate != NULL && gnutls_certificate_set_x509_key_file(credentials, certificate, key,
                                                                     GNUTLS_X509_FMT_PEM) < 0))
        return 2;
    return strcmp(argv[1], "own") == 0 ? make_own() : try_ticket(atoi(argv[1]));
}
