/* A stranger at the control port of an agent: speaks TLS as its arguments say, and prints the end.
 *
 *   tls_knock PORT [certificate=FILE key=FILE] [priority=STRING] [cut=BYTES] [pieces=BYTES]
 *             [send=FILE] [record=FILE] [plain] [from=ADDRESS]
 *     Shakes hands, sends the file (frames), reads until the other side ends. cut: sends so many
 *     bytes of TLS and then only waits. pieces: writes so few bytes at a time. plain: the file goes
 *     without TLS. record: keeps its bytes of TLS, as they are on the wire. Prints "alert NAME",
 *     "closed", "cut" or "answered BYTES".
 *   tls_knock PORT open=COUNT seconds=N
 *     So many connections that send the first bytes of a handshake, held for N seconds; closed ones
 *     are opened again. */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int port, fd;
static size_t cut = SIZE_MAX, pieces = SIZE_MAX, sent;
static const char *from = "127.0.0.1";
static const char *certificate, *key, *priority = "NORMAL:-VERS-ALL:+VERS-TLS1.3", *file;
static FILE *record;

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct timeval patience = {.tv_sec = 20};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(s, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
    inet_pton(AF_INET, from, &own.sin_addr);
    if (bind(s, (struct sockaddr *)&own, sizeof(own)) != 0 ||
        connect(s, (struct sockaddr *)&to, sizeof(to)) != 0) {
        close(s);
        return -1;
    }
    return s;
}

static ssize_t push(gnutls_transport_ptr_t self, const void *bytes, size_t count)
{
    const char *at = bytes;

    (void)self;
    for (size_t done = 0; done < count;) {
        size_t now = count - done < pieces ? count - done : pieces;

        if (sent + now > cut)
            now = cut - sent;
        if (now == 0)
            return (ssize_t)count; /* as if it were on its way */
        if (send(fd, at + done, now, MSG_NOSIGNAL) != (ssize_t)now)
            return -1;
        if (record != NULL)
            fwrite(at + done, 1, now, record);
        sent += now;
        done += now;
    }
    return (ssize_t)count;
}

static ssize_t pull(gnutls_transport_ptr_t self, void *room, size_t bytes)
{
    (void)self;
    return recv(fd, room, bytes, 0);
}

static size_t content(char *room, size_t bytes)
{
    FILE *stream = file != NULL ? fopen(file, "re") : NULL;
    size_t got = stream != NULL ? fread(room, 1, bytes, stream) : 0;

    if (stream != NULL)
        fclose(stream);
    return got;
}

static int plainly(void)
{
    char data[65536];
    size_t bytes = content(data, sizeof(data));
    ssize_t got, all = 0;

    (void)!send(fd, data, bytes, MSG_NOSIGNAL);
    while ((got = recv(fd, data, sizeof(data) - 1, 0)) > 0) {
        data[got] = '\0';
        for (ssize_t i = 0; i < got; i++)
            putchar(data[i] >= 32 && data[i] < 127 ? data[i] : '.');
        all += got;
    }
    printf("\nanswered %zd\n", all);
    return 0;
}

static int politely(void)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    char data[65536];
    size_t bytes = content(data, sizeof(data)), all = 0;
    ssize_t result;

    gnutls_certificate_allocate_credentials(&credentials);
    if (certificate != NULL && gnutls_certificate_set_x509_key_file(credentials, certificate, key,
                                                                    GNUTLS_X509_FMT_PEM) < 0)
        return 2;
    gnutls_init(&session, GNUTLS_CLIENT);
    if (gnutls_priority_set_direct(session, priority, NULL) < 0)
        return 2;
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_push_function(session, push);
    gnutls_transport_set_pull_function(session, pull);
    result = gnutls_handshake(session);
    if (result == 0 && bytes > 0)
        result = gnutls_record_send(session, data, bytes);
    while (result >= 0 && (result = gnutls_record_recv(session, data, sizeof(data))) > 0)
        all += (size_t)result;
    if (result == GNUTLS_E_FATAL_ALERT_RECEIVED)
        printf("alert %s\n", gnutls_alert_get_name(gnutls_alert_get(session)));
    else
        printf("%s\n", all > 0 ? "answered" : result == 0 ? "closed" : "cut");
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    return 0;
}

static int half_open(int count, int seconds)
{
    static const unsigned char begin[] = {0x16, 3, 1, 2, 0, 1};
    int *fds = calloc((size_t)count, sizeof(int)), opened = 0;
    time_t end = time(NULL) + seconds;
    char byte;

    while (time(NULL) < end) {
        for (int i = 0; i < count; i++) {
            if (fds[i] > 0 && recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
                continue;
            if (fds[i] > 0)
                close(fds[i]);
            fds[i] = dial();
            if (fds[i] > 0) {
                (void)!send(fds[i], begin, sizeof(begin), MSG_NOSIGNAL);
                opened++;
            }
        }
        usleep(10000);
    }
    printf("opened %d\n", opened);
    free(fds);
    return 0;
}

int main(int argc, char **argv)
{
    int count = 0, seconds = 0;
    bool plain = false;

    port = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        value = value != NULL ? value + 1 : argv[i];
        if (strncmp(argv[i], "certificate=", 12) == 0)
            certificate = value;
        else if (strncmp(argv[i], "key=", 4) == 0)
            key = value;
        else if (strncmp(argv[i], "priority=", 9) == 0)
            priority = value;
        else if (strncmp(argv[i], "send=", 5) == 0)
            file = value;
        else if (strncmp(argv[i], "record=", 7) == 0)
            record = fopen(value, "we");
        else if (strncmp(argv[i], "from=", 5) == 0)
            from = value;
        else if (strncmp(argv[i], "cut=", 4) == 0)
            cut = (size_t)atol(value);
        else if (strncmp(argv[i], "pieces=", 7) == 0)
            pieces = (size_t)atol(value);
        else if (strncmp(argv[i], "open=", 5) == 0)
            count = atoi(value);
        else if (strncmp(argv[i], "seconds=", 8) == 0)
            seconds = atoi(value);
        else
            plain = true;
    }
    if (count > 0)
        return half_open(count, seconds);
    fd = dial();
    if (fd < 0)
        return 1;
    return plain ? plainly() : politely();
}
