#include "filter/filter_server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "filter/filter_listener.h"
#include "filter/filter_rules.h"

#define COUNT_NS   (2 * KVR_S)             /* how often agents hear what was kept from them */
#define GREET_NS   (5 * KVR_S)             /* a connection without HELLO ends */
#define PER_TURN   64                      /* packets of one agent in a row */
#define SLOTS      (FILTER_AGENTS_MAX + 8) /* the others have not said HELLO yet */
#define PLACE_NONE UINT32_MAX

struct filter_connection {
    int fd; /* -1: free */
    pid_t pid;
    uid_t uid;
    kvr_ns since;
    uint32_t agent; /* in the book; PLACE_NONE: it has not said HELLO */
    uint64_t base, counted;
};

struct filter_server {
    struct filter_server_options options;
    int listener, signals;
    struct filter_rules *rules;
    struct filter_book *book;
    kvr_ns count_at;
    struct filter_connection connections[SLOTS];
};

/* ---- opening and closing ---- */

static kvr_status listen_at(const char *path, int *ret_fd, struct kvr_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (path[0] == '\0' || strlen(path) >= sizeof(address.sun_path))
        return kvr_error_set(error, KVR_INVALID, "filter", "--socket must have 1 to %zu bytes",
                             sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kvr_error_system(error, "filter", errno, "cannot make a socket");
    /* Every process may connect: its user is looked at then. */
    (void)unlink(path);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(path, 0666) != 0 || listen(fd, 64) != 0) {
        kvr_status status = kvr_error_system(error, "filter", errno, "cannot listen at %s", path);

        close(fd);
        return status;
    }
    *ret_fd = fd;
    return KVR_OK;
}

kvr_status filter_server_open(const struct filter_server_options *options,
                              struct filter_server **ret_server, struct kvr_error *error)
{
    struct filter_server *server = calloc(1, sizeof(*server));
    kvr_status status;

    if (server == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "filter", "no memory for the server");
    server->options = *options;
    server->listener = server->signals = -1;
    for (uint32_t i = 0; i < SLOTS; i++)
        server->connections[i].fd = -1;
    server->book = calloc(1, sizeof(*server->book));
    status = server->book != NULL
                 ? filter_rules_open(&server->rules, error)
                 : kvr_error_set(error, KVR_NO_MEMORY, "filter", "no memory for its book");
    if (status == KVR_OK)
        status = listen_at(options->socket, &server->listener, error);
    if (status != KVR_OK) {
        filter_server_close(server);
        return status;
    }
    server->book->sink = filter_rules_sink(server->rules);
    server->book->first = options->first;
    server->book->last = options->last;
    *ret_server = server;
    return KVR_OK;
}

void filter_server_close(struct filter_server *server)
{
    if (server == NULL)
        return;
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (server->connections[i].fd >= 0)
            close(server->connections[i].fd);
    }
    if (server->listener >= 0) {
        close(server->listener);
        (void)unlink(server->options.socket);
    }
    if (server->signals >= 0)
        close(server->signals);
    filter_rules_close(server->rules);
    free(server->book);
    free(server);
}

/* ---- one agent ---- */

static bool say(const struct filter_connection *connection, kvr_filter_kind kind, uint64_t value)
{
    struct kvr_filter_message message = {.kind = kind, .value = value};
    uint8_t bytes[KVR_FILTER_MESSAGE_BYTES];

    kvr_filter_encode(&message, bytes);
    return send(connection->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof(bytes);
}

/* Its rules go with the next commit. */
static void let_go(struct filter_server *server, struct filter_connection *connection,
                   const char *why)
{
    close(connection->fd);
    connection->fd = -1;
    if (connection->agent == PLACE_NONE)
        return;
    filter_book_detach(server->book, connection->agent);
    kvr_log_info("agent of process %d has gone (%s): its rules are removed", (int)connection->pid,
                 why);
}

static void refuse(struct filter_server *server, struct filter_connection *connection,
                   kvr_filter_refusal refusal)
{
    (void)say(connection, KVR_FILTER_REFUSED, refusal);
    kvr_log_warning("process %d of user %u is refused: %s", (int)connection->pid,
                    (unsigned)connection->uid, kvr_filter_refusal_text(refusal));
    let_go(server, connection, "refused");
}

static kvr_filter_refusal greet(struct filter_server *server, struct filter_connection *connection,
                                const struct kvr_filter_message *message)
{
    uint64_t counts[FILTER_AGENTS_MAX];
    struct kvr_error error;
    kvr_filter_refusal refusal;

    if (message->value != KVR_FILTER_VERSION)
        return KVR_FILTER_REFUSAL_VERSION;
    refusal = filter_book_attach(server->book, connection->uid, &connection->agent);
    if (refusal != KVR_FILTER_REFUSAL_NONE)
        return refusal;
    if (filter_rules_counts(server->rules, counts, &error) == KVR_OK)
        connection->base = connection->counted = counts[connection->agent];
    kvr_log_info("agent of process %d, user %u, has come", (int)connection->pid,
                 (unsigned)connection->uid);
    return say(connection, KVR_FILTER_DONE, 0) ? KVR_FILTER_REFUSAL_NONE
                                               : KVR_FILTER_REFUSAL_MALFORMED;
}

static kvr_status take(struct filter_server *server, struct filter_connection *connection,
                       const struct kvr_filter_message *message, struct kvr_error *error)
{
    kvr_filter_refusal refusal;
    uint32_t uid;

    if (message->kind == KVR_FILTER_COMMIT && connection->agent != PLACE_NONE) {
        KVR_TRY(filter_rules_commit(server->rules, error));
        if (!say(connection, KVR_FILTER_DONE, message->value))
            let_go(server, connection, "it takes no answers");
        return KVR_OK;
    }
    if ((message->kind == KVR_FILTER_HELLO) != (connection->agent == PLACE_NONE))
        refusal = KVR_FILTER_REFUSAL_MALFORMED;
    else if (message->kind == KVR_FILTER_HELLO)
        refusal = greet(server, connection, message);
    else if (message->kind == KVR_FILTER_PORT &&
             (filter_listener_user(&message->address, message->first, &uid) != KVR_OK ||
              uid != connection->uid))
        refusal = KVR_FILTER_REFUSAL_LISTENER;
    else
        refusal = filter_book_take(server->book, connection->agent, message);
    if (refusal != KVR_FILTER_REFUSAL_NONE)
        refuse(server, connection, refusal);
    return KVR_OK;
}

static kvr_status packet_take(struct filter_server *server, struct filter_connection *connection,
                              const uint8_t *packet, size_t bytes, struct kvr_error *error)
{
    struct kvr_filter_message message;

    if (bytes % KVR_FILTER_MESSAGE_BYTES != 0) {
        refuse(server, connection, KVR_FILTER_REFUSAL_MALFORMED);
        return KVR_OK;
    }
    for (size_t at = 0; at < bytes && connection->fd >= 0; at += KVR_FILTER_MESSAGE_BYTES) {
        if (kvr_filter_decode(packet + at, true, &message) != KVR_OK)
            refuse(server, connection, KVR_FILTER_REFUSAL_MALFORMED);
        else
            KVR_TRY(take(server, connection, &message, error));
    }
    return KVR_OK;
}

static kvr_status hear(struct filter_server *server, struct filter_connection *connection,
                       struct kvr_error *error)
{
    uint8_t packet[KVR_FILTER_PACKET_MAX * KVR_FILTER_MESSAGE_BYTES];

    for (unsigned i = 0; i < PER_TURN && connection->fd >= 0; i++) {
        ssize_t bytes = recv(connection->fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);

        if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
            return KVR_OK;
        if (bytes <= 0)
            let_go(server, connection, "its connection has ended");
        else if ((size_t)bytes > sizeof(packet))
            refuse(server, connection, KVR_FILTER_REFUSAL_MALFORMED);
        else
            KVR_TRY(packet_take(server, connection, packet, (size_t)bytes, error));
    }
    return KVR_OK;
}

static bool user_allowed(const struct filter_server *server, uid_t uid)
{
    for (uint32_t i = 0; i < server->options.user_count; i++) {
        if (server->options.users[i] == uid)
            return true;
    }
    return false;
}

static void welcome(struct filter_server *server, kvr_ns now)
{
    struct filter_connection *connection = NULL;
    struct ucred peer = {.pid = 0, .uid = (uid_t)-1};
    socklen_t bytes = sizeof(peer);
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    for (uint32_t i = 0; i < SLOTS && connection == NULL; i++) {
        if (server->connections[i].fd < 0)
            connection = &server->connections[i];
    }
    if (connection == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
        close(fd);
        return;
    }
    *connection = (struct filter_connection){
        .fd = fd, .pid = peer.pid, .uid = peer.uid, .since = now, .agent = PLACE_NONE};
    if (!user_allowed(server, peer.uid))
        refuse(server, connection, KVR_FILTER_REFUSAL_USER);
}

/* ---- all of them ---- */

static void counts_tell(struct filter_server *server, kvr_ns now)
{
    uint64_t counts[FILTER_AGENTS_MAX];
    struct kvr_error error;

    server->count_at = now + COUNT_NS;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct filter_connection *connection = &server->connections[i];

        if (connection->fd >= 0 && connection->agent == PLACE_NONE &&
            now - connection->since > GREET_NS)
            let_go(server, connection, "it said nothing");
    }
    if (filter_rules_counts(server->rules, counts, &error) != KVR_OK)
        return;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct filter_connection *connection = &server->connections[i];

        if (connection->fd < 0 || connection->agent == PLACE_NONE ||
            counts[connection->agent] == connection->counted)
            continue;
        connection->counted = counts[connection->agent];
        if (!say(connection, KVR_FILTER_COUNT, connection->counted - connection->base))
            let_go(server, connection, "it takes no answers");
    }
}

static kvr_status turn(struct filter_server *server, struct pollfd *polled, kvr_ns now,
                       struct kvr_error *error)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (server->connections[i].fd >= 0 && polled[2 + i].fd == server->connections[i].fd &&
            polled[2 + i].revents != 0)
            KVR_TRY(hear(server, &server->connections[i], error));
    }
    if (polled[1].revents != 0)
        welcome(server, now);
    if (now >= server->count_at)
        counts_tell(server, now);
    return filter_rules_commit(server->rules, error); /* what is left of agents that went */
}

kvr_status filter_server_run(struct filter_server *server, const sigset_t *signals,
                             struct kvr_error *error)
{
    server->signals = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (server->signals < 0)
        return kvr_error_system(error, "filter", errno, "cannot wait for signals");
    for (;;) {
        struct pollfd polled[2 + SLOTS] = {{.fd = server->signals, .events = POLLIN},
                                           {.fd = server->listener, .events = POLLIN}};
        bool agents = false;

        for (uint32_t i = 0; i < SLOTS; i++) {
            polled[2 + i] = (struct pollfd){.fd = server->connections[i].fd, .events = POLLIN};
            agents = agents || server->connections[i].fd >= 0;
        }
        if (poll(polled, 2 + SLOTS, agents ? (int)(COUNT_NS / KVR_MS) : -1) < 0 && errno != EINTR)
            return kvr_error_system(error, "filter", errno, "cannot wait for agents");
        if (polled[0].revents != 0)
            return KVR_OK;
        KVR_TRY(turn(server, polled, kvr_clock_now(), error));
        kvr_log_tick();
    }
}
