/* garbage --kind KIND --address ADDRESS --sessions N --seed S
 *         [--certificate FILE --key FILE [--name NAME]] [--port-file FILE] [--shape NAME]
 *
 * Plays N malformed sessions against a port, one after another. Each is of a shape drawn from the
 * seed, or of the one named, and bounded in time and bytes.
 *
 *   engine   ADDRESS is an engine socket     control  HOST:PORT of a prefill-agent
 *   http     HOST:PORT of a scheduler        rail     HOST:PORT of a provider's listening socket
 *   source   HOST:PORT to listen on, for decode-agents that dial; the port goes into --port-file
 *
 * With a certificate the sessions run over TLS.
 *
 * Whatever the port answers is read or left unread; only a port that takes no connection within 5 s
 * is a failure (exit 1). The last line says how many sessions of each shape were played. */
#include "tests/support/garbage.h"
#include "tests/support/garbage_tls.h"

#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const struct garbage_kind *const kinds[] = {
    &garbage_engine, &garbage_control, &garbage_crowd, &garbage_hello,
    &garbage_http,   &garbage_rail,    &garbage_source};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct arguments {
    const struct garbage_kind *kind;
    const char *address, *certificate, *key, *name, *port_file, *shape;
    int listener;
    unsigned long sessions;
    uint64_t seed;
};

/* ---- the connection ---- */

/* Sessions of the control port come from many hosts: of one host few may begin in a second. A flood
 * comes from one. */
static int leave_from(const struct arguments *arguments, unsigned long number, int fd)
{
    uint32_t host = INADDR_LOOPBACK + 1 + (uint32_t)(number % 200);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(host)}};

    if (arguments->kind != &garbage_control)
        return 0;
    return bind(fd, (struct sockaddr *)&own, sizeof(own));
}

static int connect_once(const struct arguments *arguments, unsigned long number)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in host = {.sin_family = AF_INET};
    const char *colon = strrchr(arguments->address, ':');
    char text[64];
    int fd, failed;

    if (arguments->kind == &garbage_engine) {
        snprintf(path.sun_path, sizeof(path.sun_path), "%s", arguments->address);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        failed = fd < 0 || connect(fd, (struct sockaddr *)&path, sizeof(path)) != 0;
    } else {
        snprintf(text, sizeof(text), "%.*s", (int)(colon - arguments->address), arguments->address);
        host.sin_port = htons((uint16_t)atoi(colon + 1));
        fd = inet_pton(AF_INET, text, &host.sin_addr) == 1
                 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)
                 : -1;
        failed = fd < 0 || leave_from(arguments, number, fd) != 0 ||
                 connect(fd, (struct sockaddr *)&host, sizeof(host)) != 0;
    }
    if (failed && fd >= 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* One that dials us; -1: none has in time. */
static int accept_patiently(const struct arguments *arguments)
{
    struct pollfd readable = {.fd = arguments->listener, .events = POLLIN};

    return poll(&readable, 1, 120000) > 0 ? accept(arguments->listener, NULL, NULL) : -1;
}

static bool start_listening(struct arguments *arguments)
{
    struct sockaddr_in host = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(host);
    FILE *file;

    arguments->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(arguments->listener, (struct sockaddr *)&host, sizeof(host)) != 0 ||
        listen(arguments->listener, 16) != 0 ||
        getsockname(arguments->listener, (struct sockaddr *)&host, &bytes) != 0)
        return false;
    file = arguments->port_file != NULL ? fopen(arguments->port_file, "we") : NULL;
    if (file == NULL)
        return false;
    fprintf(file, "%u\n", ntohs(host.sin_port));
    return fclose(file) == 0;
}

static int connect_patiently(const struct arguments *arguments, unsigned long number)
{
    for (int tries = 0; tries < 100; tries++) {
        int fd = connect_once(arguments, number);

        if (fd >= 0)
            return fd;
        garbage_pause(50);
    }
    return -1;
}

void garbage_pause(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static ssize_t send_now(struct garbage *garbage, const void *bytes, size_t count)
{
    if (garbage->tls != NULL)
        return garbage_tls_send(garbage, bytes, count);
    return send(garbage->socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive_now(struct garbage *garbage, void *bytes, size_t capacity)
{
    if (garbage->tls != NULL)
        return garbage_tls_receive(garbage, bytes, capacity);
    return recv(garbage->socket, bytes, capacity, MSG_DONTWAIT);
}

/* What the other side said is of no interest, but it must not stop for being unread. */
static void drain(struct garbage *garbage)
{
    char answer[65536];

    while (garbage->reads && receive_now(garbage, answer, sizeof(answer)) > 0)
        continue;
}

const struct kvr_secret garbage_secret = {.bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9}};

bool garbage_send(struct garbage *garbage, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    struct pollfd writable = {.fd = garbage->socket, .events = POLLOUT};

    for (size_t sent = 0; sent < count || count == 0;) {
        ssize_t now = send_now(garbage, at + sent, count - sent);

        drain(garbage);
        if (now >= 0)
            sent += (size_t)now;
        else if (errno != EAGAIN || poll(&writable, 1, garbage->patience_ms) <= 0)
            return false; /* closed, or it takes no more */
        if (count == 0)
            break;
    }
    return true;
}

size_t garbage_receive(struct garbage *garbage, void *bytes, size_t capacity, int ms)
{
    struct pollfd readable = {.fd = garbage->socket, .events = POLLIN};
    ssize_t count;

    count =
        garbage->tls != NULL ? receive_now(garbage, bytes, capacity) : 0; /* GnuTLS may hold some */
    if (count > 0)
        return (size_t)count;
    if (poll(&readable, 1, ms) <= 0)
        return 0;
    count = receive_now(garbage, bytes, capacity);
    return count > 0 ? (size_t)count : 0;
}

/* ---- ways of being wrong that every kind has ---- */

void garbage_random(struct garbage *garbage, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)kvr_rng_next(&garbage->rng);
}

void garbage_mutate(struct garbage *garbage, uint8_t *bytes, size_t count)
{
    uint64_t changes = kvr_rng_between(&garbage->rng, 1, 6);

    for (uint64_t i = 0; i < changes && count > 0; i++) {
        size_t at = (size_t)kvr_rng_below(&garbage->rng, count);

        bytes[at] = kvr_rng_percent(&garbage->rng, 50)
                        ? (uint8_t)kvr_rng_next(&garbage->rng)
                        : (uint8_t)(bytes[at] ^ 1u << kvr_rng_below(&garbage->rng, 8));
    }
}

uint64_t garbage_number(struct garbage *garbage, uint64_t good)
{
    static const uint64_t limits[] = {0,          1,          UINT16_MAX, 65536,     1ull << 20,
                                      1ull << 31, UINT32_MAX, 1ull << 40, INT64_MAX, UINT64_MAX};

    if (kvr_rng_percent(&garbage->rng, 70))
        return good;
    if (kvr_rng_percent(&garbage->rng, 40))
        return good + kvr_rng_below(&garbage->rng, 3) - 1;
    return limits[kvr_rng_below(&garbage->rng, sizeof(limits) / sizeof(limits[0]))];
}

static void shape_nothing(struct garbage *garbage)
{
    (void)garbage; /* connected, and gone */
}

static void shape_silence(struct garbage *garbage)
{
    garbage_pause((unsigned)kvr_rng_between(&garbage->rng, 1, 60));
}

static void shape_noise(struct garbage *garbage)
{
    static uint8_t bytes[65536];
    size_t count = (size_t)kvr_rng_between(&garbage->rng, 1, sizeof(bytes));

    garbage_random(garbage, bytes, count);
    (void)garbage_send(garbage, bytes, count);
}

static const struct garbage_shape common_shapes[] = {
    {"nothing", shape_nothing}, {"silence", shape_silence}, {"noise", shape_noise}};
#define COMMON_SHAPES (sizeof(common_shapes) / sizeof(common_shapes[0]))

/* ---- sessions ---- */

static const struct garbage_shape *choose(struct garbage *garbage, const struct garbage_kind *kind,
                                          const char *name)
{
    for (size_t i = 0; name != NULL && i < kind->shape_count; i++)
        if (strcmp(kind->shapes[i].name, name) == 0)
            return &kind->shapes[i];
    if (kind->shape_count > 1 && kvr_rng_percent(&garbage->rng, 15))
        return &common_shapes[kvr_rng_below(&garbage->rng, COMMON_SHAPES)];
    return &kind->shapes[kvr_rng_below(&garbage->rng, kind->shape_count)];
}

static bool play(const struct arguments *arguments, unsigned long number, const char **ret_shape)
{
    struct garbage garbage = {.name = arguments->name};
    const struct garbage_shape *shape;
    struct linger reset = {.l_onoff = 1};

    kvr_rng_init(&garbage.rng, arguments->seed * 1000003 + number);
    garbage.patience_ms = 200;
    shape = choose(&garbage, arguments->kind, arguments->shape);
    *ret_shape = shape->name;
    garbage.reads = kvr_rng_percent(&garbage.rng, 70);
    garbage.socket = arguments->listener > 0 ? accept_patiently(arguments)
                                             : connect_patiently(arguments, number);
    if (garbage.socket < 0)
        return false;
    if (!garbage_tls_loaded() || garbage_tls_begin(&garbage, arguments->listener > 0))
        shape->play(&garbage);
    garbage_tls_end(&garbage);
    if (kvr_rng_percent(&garbage.rng, 30)) /* gone without a word: the other side gets a reset */
        (void)setsockopt(garbage.socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(garbage.socket);
    return true;
}

static void count_shape(const char *shape, bool tell)
{
    static const char *names[32];
    static unsigned counts[32];
    unsigned i = 0;

    while (!tell && i < 31 && names[i] != NULL && names[i] != shape)
        i++;
    if (!tell) {
        names[i] = shape;
        counts[i]++;
        return;
    }
    for (; i < 32 && names[i] != NULL; i++)
        printf(" %s %u", names[i], counts[i]);
    printf("\n");
}

/* ---- main ---- */

static const struct argp_option options[] = {
    {"kind", 'k', "KIND", 0, "engine, control, crowd, hello, http, rail or source", 0},
    {"address", 'a', "ADDRESS", 0, "a socket's path, or HOST:PORT", 0},
    {"sessions", 'n', "N", 0, "how many (100)", 0},
    {"seed", 's', "S", 0, "which (1)", 0},
    {"certificate", 'c', "FILE", 0, "of sessions over TLS", 0},
    {"key", 'y', "FILE", 0, "of the certificate", 0},
    {"name", 'm', "NAME", 0, "of the certificate: what crowd and hello are called", 0},
    {"shape", 'e', "NAME", 0, "of every session", 0},
    {"port-file", 'p', "FILE", 0, "gets the port that a source listens on", 0},
    {0}};

static error_t take_option(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;

    switch (key) {
    case 'k':
        for (size_t i = 0; i < KINDS; i++)
            if (strcmp(value, kinds[i]->name) == 0)
                arguments->kind = kinds[i];
        return 0;
    case 'a':
        arguments->address = value;
        return 0;
    case 'c':
        arguments->certificate = value;
        return 0;
    case 'y':
        arguments->key = value;
        return 0;
    case 'm':
        arguments->name = value;
        return 0;
    case 'e':
        arguments->shape = value;
        return 0;
    case 'p':
        arguments->port_file = value;
        return 0;
    case 'n':
        arguments->sessions = strtoul(value, NULL, 10);
        return 0;
    case 's':
        arguments->seed = strtoull(value, NULL, 10);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, take_option, NULL, "Plays malformed sessions.",
                                     NULL,    NULL,        NULL};
    struct arguments arguments = {.sessions = 100, .seed = 1};
    const char *shape = NULL;

    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (arguments.kind == NULL || arguments.address == NULL ||
        (arguments.kind != &garbage_engine && strrchr(arguments.address, ':') == NULL)) {
        fprintf(stderr, "garbage: --kind and --address are needed, see --help\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (arguments.certificate != NULL &&
        (arguments.key == NULL || !garbage_tls_load(arguments.certificate, arguments.key))) {
        fprintf(stderr, "garbage: the certificate cannot be used\n");
        return 2;
    }
    if (arguments.kind == &garbage_source && !start_listening(&arguments)) {
        fprintf(stderr, "garbage: cannot listen: %s\n", strerror(errno));
        return 1;
    }
    for (unsigned long i = 0; i < arguments.sessions; i++) {
        if (!play(&arguments, i, &shape)) {
            fprintf(stderr, "garbage: session %lu: %s takes no connection: %s\n", i,
                    arguments.address, strerror(errno));
            return 1;
        }
        count_shape(shape, false);
    }
    printf("garbage: %lu sessions of %s, seed %llu:", arguments.sessions, arguments.kind->name,
           (unsigned long long)arguments.seed);
    count_shape(NULL, true);
    return 0;
}
