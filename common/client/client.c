/* Opening and closing a connection. */
#include "client/client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/memfd.h"
#include "base/pidfd.h"
#include "client/client_agent.h"

#define WHERE "kvrail"

/* The wait between tries, while the listening queue is full or an ended engine holds a place. */
#define RETRY_NS 2000000

int client_ms_left(kvr_ns deadline)
{
    kvr_ns now = kvr_clock_now(), left;

    if (now >= deadline)
        return 0;
    left = (deadline - now + KVR_MS - 1) / KVR_MS;
    return left < INT_MAX ? (int)left : INT_MAX;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static kvr_status connect_socket(const char *path, kvr_ns deadline, int *ret_socket,
                                 struct kvr_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    kvr_status status;
    int fd;

    if (path == NULL || path[0] == '\0' || strlen(path) >= sizeof(address.sun_path))
        return kvr_error_set(error, KVR_INVALID, WHERE, "the socket path must have 1 to %zu bytes",
                             sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kvr_error_system(error, WHERE, errno, "cannot make a socket");
    while (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        if ((errno == EAGAIN || errno == EINTR) && client_ms_left(deadline) > 0) {
            nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
            continue;
        }
        status = errno == EAGAIN
                     ? kvr_error_set(error, KVR_TIMED_OUT, WHERE,
                                     "the agent at %s took no connection in time: it has stopped, "
                                     "or others wait there",
                                     path)
                     : kvr_error_system(error, WHERE, errno, "cannot reach an agent at %s", path);
        close(fd);
        return status;
    }
    status = client_agent_check(fd, path, error);
    if (status != KVR_OK) {
        close(fd);
        return status;
    }
    *ret_socket = fd;
    return KVR_OK;
}

/* false: it is too long. */
static bool copy_name(char *to, size_t capacity, const char *from)
{
    size_t length = from != NULL ? strlen(from) : 0;

    if (length >= capacity)
        return false;
    memcpy(to, from != NULL ? from : "", length);
    to[length] = '\0';
    return true;
}

static kvr_status attach_of(const struct kvrail_identity *identity, struct kvr_req_attach *attach,
                            struct kvr_error *error)
{
    struct kvr_rank *rank = &attach->rank;

    if (!copy_name(attach->name, sizeof(attach->name), identity->name) ||
        !copy_name(attach->compat.model, sizeof(attach->compat.model), identity->model))
        return kvr_error_set(error, KVR_INVALID, WHERE, "name and model have at most %d bytes",
                             KVR_NAME_BYTES - 1);
    if (!copy_name(attach->compat.dtype, sizeof(attach->compat.dtype), identity->dtype))
        return kvr_error_set(error, KVR_INVALID, WHERE, "dtype has at most 15 bytes");
    if (identity->tp >= identity->tp_size || identity->pp >= identity->pp_size)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "rank tp %u of %u, pp %u of %u is not a rank", identity->tp,
                             identity->tp_size, identity->pp, identity->pp_size);
    memcpy(rank->engine.bytes, identity->engine, sizeof(rank->engine.bytes));
    rank->generation = identity->generation;
    rank->tp = identity->tp;
    rank->tp_size = identity->tp_size;
    rank->pp = identity->pp;
    rank->pp_size = identity->pp_size;
    attach->compat.layers_total = identity->layers_total;
    attach->compat.kv_heads_total = identity->kv_heads_total;
    attach->compat.head_dim = identity->head_dim;
    return KVR_OK;
}

/* The packet, and our own pidfd: without it the agent sees the end of the socket alone, which a
 * child of ours may hold open. */
static kvr_status send_with_pidfd(struct kvrail *client, size_t bytes)
{
    int own = kvr_pidfd_open(getpid());
    struct kvr_packet_fds fds = {.count = own >= 0, .fds = {own}};
    kvr_status status = kvr_packet_send(client->socket, client->packet, bytes, &fds);

    kvr_packet_fds_close(&fds);
    if (own >= 0 && status == KVR_AGAIN) /* this user has too many descriptors under way */
        status = kvr_packet_send(client->socket, client->packet, bytes, NULL);
    return status;
}

static kvr_status send_attach(struct kvrail *client, const struct kvrail_identity *identity,
                              struct kvr_error *error)
{
    struct kvr_request request = {.kind = KVR_REQ_ATTACH};
    size_t bytes;
    kvr_status status = attach_of(identity, &request.attach, error);

    if (status != KVR_OK)
        return status;
    status = kvr_request_encode(&request, client->packet, sizeof(client->packet), &bytes);
    if (status != KVR_OK)
        return kvr_error_set(error, status, WHERE, "name, model and dtype must be printable UTF-8");
    status = kvr_packet_check(client->socket, bytes, error);
    if (status == KVR_OK)
        status = send_with_pidfd(client, bytes);
    /* A full agent refuses without waiting for us: its sentence is read even if sending fails. */
    return status == KVR_PEER_LOST ? KVR_OK : status;
}

static kvr_status take_shared(struct kvrail *client, struct kvr_packet_fds *fds,
                              struct kvr_error *error)
{
    void *page;

    if (fds->count != KVR_ATTACHED_FDS && fds->count != KVR_ATTACHED_FDS + 1)
        return kvr_error_set(error, KVR_MALFORMED, WHERE,
                             "the agent sent %u descriptors instead of %d or %d", fds->count,
                             KVR_ATTACHED_FDS, KVR_ATTACHED_FDS + 1);
    if (fds->count > KVR_ATTACHED_FDS) {
        kvr_status status =
            kvr_revocation_words_map(fds->fds[KVR_ATTACHED_FDS], &client->revocation_words, error);

        if (status != KVR_OK)
            return status;
    }
    if (!kvr_memfd_holds(fds->fds[0], sizeof(struct kvr_shared_page)))
        return kvr_error_set(error, KVR_MALFORMED, WHERE,
                             "the agent's shared page is short or not sealed");
    page = mmap(NULL, sizeof(struct kvr_shared_page), PROT_READ | PROT_WRITE, MAP_SHARED,
                fds->fds[0], 0);
    if (page == MAP_FAILED)
        return kvr_error_system(error, WHERE, errno, "cannot map the shared page");
    client->page = page;
    client->agent_pidfd = fds->fds[2];
    client->doorbell = fds->fds[1];
    close(fds->fds[0]);
    if (client->revocation_words != NULL)
        close(fds->fds[KVR_ATTACHED_FDS]);
    fds->count = 0;
    return KVR_OK;
}

static kvr_status take_answer(struct kvrail *client, const struct kvr_notice *notice,
                              struct kvr_packet_fds *fds, struct kvr_error *error)
{
    if (notice->kind == KVR_NOTICE_REFUSED && notice->status == KVR_VERSION &&
        strstr(notice->detail, "the agent") ==
            NULL) /* agents of protocol 2 do not say what to do */
        return kvr_error_set(error, notice->status, WHERE,
                             "%s: upgrade the agent, then restart the engine", notice->detail);
    if (notice->kind == KVR_NOTICE_REFUSED)
        return kvr_error_set(
            error, notice->status < 0 || notice->status == KVR_AGAIN ? notice->status : KVR_REFUSED,
            WHERE, "%s", notice->detail);
    if (notice->kind != KVR_NOTICE_ATTACHED)
        return kvr_error_set(error, KVR_MALFORMED, WHERE, "the agent answered an attach with %s",
                             kvr_notice_name(notice->kind));
    if (notice->payload_bytes >= sizeof(client->address))
        return kvr_error_set(error, KVR_MALFORMED, WHERE, "the agent's address has %u bytes",
                             notice->payload_bytes);
    memcpy(client->agent, notice->agent, sizeof(client->agent));
    client->abilities = notice->abilities;
    if (notice->payload_bytes > 0)
        memcpy(client->address, notice->payload, notice->payload_bytes);
    return take_shared(client, fds, error);
}

static kvr_status await_attached(struct kvrail *client, kvr_ns deadline, struct kvr_error *error)
{
    struct pollfd readable = {.fd = client->socket, .events = POLLIN};
    struct kvr_packet_fds fds;
    struct kvr_notice notice;
    size_t bytes;
    kvr_status status;

    for (;;) {
        status = kvr_packet_receive(client->socket, client->packet, sizeof(client->packet), &bytes,
                                    &fds);
        if (status != KVR_AGAIN)
            break;
        if (client_ms_left(deadline) == 0)
            return kvr_error_set(error, KVR_TIMED_OUT, WHERE, "the agent did not answer in time");
        (void)poll(&readable, 1, client_ms_left(deadline));
    }
    if (status == KVR_PEER_LOST)
        return kvr_error_set(error, KVR_AGENT_LOST, WHERE,
                             "the agent closed the connection without an answer");
    if (status == KVR_OK)
        status = kvr_notice_decode(client->decoder, client->packet, bytes, &notice, error);
    if (status == KVR_OK)
        status = take_answer(client, &notice, &fds, error);
    kvr_packet_fds_close(&fds);
    return status;
}

static kvr_status watch_socket(struct kvrail *client, struct kvr_error *error)
{
    struct epoll_event socket_event = {.events = EPOLLIN, .data.fd = client->socket};
    struct epoll_event ready_event = {.events = EPOLLIN}, timer_event = {.events = EPOLLIN};

    client->epoll = epoll_create1(EPOLL_CLOEXEC);
    client->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->watch.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (client->epoll < 0 || client->ready_fd < 0 || client->watch.timer < 0)
        return kvr_error_system(error, WHERE, errno, "cannot make an event descriptor");
    ready_event.data.fd = client->ready_fd;
    timer_event.data.fd = client->watch.timer;
    if (epoll_ctl(client->epoll, EPOLL_CTL_ADD, client->socket, &socket_event) != 0 ||
        epoll_ctl(client->epoll, EPOLL_CTL_ADD, client->ready_fd, &ready_event) != 0 ||
        epoll_ctl(client->epoll, EPOLL_CTL_ADD, client->watch.timer, &timer_event) != 0)
        return kvr_error_system(error, WHERE, errno, "cannot watch the agent's socket");
    return KVR_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static struct kvrail *client_new(void)
{
    struct kvrail *client = calloc(1, sizeof(*client));

    if (client == NULL)
        return NULL;
    client->socket = client->epoll = client->ready_fd = -1;
    client->agent_pidfd = client->doorbell = client->watch.timer = -1;
    client->watch.expire_at = client->watch.at_next = KVR_NEVER;
    client->decoder = kvr_engine_decoder_open();
    /* Untouched memory costs nothing: the queues are seldom used. */
    client->queue_memory = malloc(CLIENT_QUEUE_BYTES + CLIENT_STASH_BYTES);
    if (client->decoder == NULL || client->queue_memory == NULL) {
        kvrail_close(client);
        return NULL;
    }
    kvr_packet_queue_init(&client->out, client->queue_memory, CLIENT_QUEUE_BYTES);
    kvr_packet_queue_init(&client->stash, client->queue_memory + CLIENT_QUEUE_BYTES,
                          CLIENT_STASH_BYTES);
    for (uint32_t i = 0; i < KVRAIL_HANDLES_MAX; i++)
        client->free_ring[i] = (uint16_t)i;
    client->free_count = KVRAIL_HANDLES_MAX;
    return client;
}

kvrail_status client_tell(struct kvrail_error *error, const struct kvr_error *from)
{
    if (error != NULL) {
        error->status = (kvrail_status)from->status;
        error->os_errno = from->os_errno;
        memcpy(error->detail, from->detail, sizeof(error->detail));
        memset(error->reserved, 0, sizeof(error->reserved));
    }
    return (kvrail_status)from->status;
}

static kvr_status attach_once(struct kvrail *client, const char *path,
                              const struct kvrail_identity *identity, kvr_ns deadline,
                              struct kvr_error *error)
{
    kvr_status status = connect_socket(path, deadline, &client->socket, error);

    if (status == KVR_OK)
        status = send_attach(client, identity, error);
    if (status == KVR_OK)
        status = await_attached(client, deadline, error);
    return status;
}

/* While ended engines hold every place, the agent answers AGAIN; its sentence is kept in case time
 * runs out. */
static kvr_status attach(struct kvrail *client, const char *path,
                         const struct kvrail_identity *identity, kvr_ns deadline,
                         struct kvr_error *error)
{
    struct kvr_error full = {0};
    kvr_status status;

    for (;;) {
        status = attach_once(client, path, identity, deadline, error);
        if (status == KVR_AGAIN)
            full = *error;
        if (status != KVR_AGAIN || client_ms_left(deadline) == 0)
            break;
        close(client->socket);
        client->socket = -1;
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
    if (full.status != KVR_AGAIN || (status != KVR_AGAIN && status != KVR_TIMED_OUT))
        return status;
    *error = full;
    return KVR_FULL;
}

kvrail_status kvrail_open(const char *socket_path, const struct kvrail_identity *identity,
                          uint32_t timeout_ms, struct kvrail **ret_connection,
                          struct kvrail_error *error)
{
    kvr_ns deadline = kvr_clock_now() + timeout_ms * KVR_MS;
    struct kvr_error reason = {0};
    struct kvrail *client = client_new();
    struct kvrail_identity own;
    kvr_status status;

    if (client == NULL) {
        kvr_error_set(&reason, KVR_NO_MEMORY, WHERE, "no memory for a connection");
        return client_tell(error, &reason);
    }
    status = CLIENT_COPY(&own, identity, identity, &reason);
    if (status == KVR_OK)
        status = attach(client, socket_path, &own, deadline, &reason);
    if (status == KVR_OK)
        status = watch_socket(client, &reason);
    if (status != KVR_OK) {
        kvrail_close(client);
        reason.status = status;
        return client_tell(error, &reason);
    }
    *ret_connection = client;
    return KVRAIL_OK;
}

/* Best effort: the agent sees the end of the connection too. */
static void say_detach(struct kvrail *client)
{
    struct kvr_request request = {.kind = KVR_REQ_DETACH};
    size_t bytes;

    client_flush(client);
    if (kvr_request_encode(&request, client->packet, sizeof(client->packet), &bytes) != KVR_OK ||
        kvr_packet_send(client->socket, client->packet, bytes, NULL) != KVR_OK)
        return;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void kvrail_close(struct kvrail *connection)
{
    if (connection == NULL)
        return;
    if (connection->phase == CLIENT_LIVE && connection->page != NULL)
        say_detach(connection);
    client_words_close(connection);
    client_flush_close(connection);
    if (connection->page != NULL)
        munmap(connection->page, sizeof(*connection->page));
    kvr_revocation_words_close(connection->revocation_words);
    close_if_open(connection->socket);
    close_if_open(connection->epoll);
    close_if_open(connection->ready_fd);
    close_if_open(connection->watch.timer);
    close_if_open(connection->agent_pidfd);
    close_if_open(connection->doorbell);
    kvr_engine_decoder_close(connection->decoder);
    free(connection->queue_memory);
    free(connection);
}

const char *kvrail_agent_name(const struct kvrail *connection)
{
    return connection->agent;
}

const char *kvrail_agent_address(const struct kvrail *connection)
{
    return connection->address;
}

int kvrail_event_fd(const struct kvrail *connection)
{
    return connection->epoll;
}

const struct kvrail_error *kvrail_last_error(const struct kvrail *connection)
{
    return &connection->error;
}
