/* Links: targets that we write to, and writers that write to us, come and go. */
#include "fabric/local/fabric_local_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memfd.h"
#include "fabric/local/fabric_local.h"
#include "wire/abstract_socket.h"

#define EVENTS_MAX 64

/* The data of an epoll event: its kind in the upper half, an index in the lower. */
enum about {
    ABOUT_LISTENER,
    ABOUT_TARGET,
    ABOUT_WRITER,
};

static uint64_t about(enum about kind, uint32_t index)
{
    return (uint64_t)kind << 32 | index;
}

/* The listener is edge-triggered: without descriptors left, a waiting writer must not keep the
 * thread awake. */
static struct epoll_event event_of(enum about kind, uint32_t index)
{
    return (struct epoll_event){.events = EPOLLIN | (kind == ABOUT_LISTENER ? EPOLLET : 0u),
                                .data.u64 = about(kind, index)};
}

static bool watch(const struct kvr_endpoint *endpoint, int socket, enum about kind, uint32_t index)
{
    struct epoll_event event = event_of(kind, index);

    return epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_ADD, socket, &event) == 0;
}

bool local_watch_listener(const struct kvr_endpoint *endpoint)
{
    return watch(endpoint, endpoint->listener, ABOUT_LISTENER, 0);
}

/* ---- targets --------------------------------------------------------------------------------- */

void local_target_shut(struct local_target *target)
{
    (void)shutdown(target->socket, SHUT_RDWR);
}

void local_target_close(struct kvr_rail *rail, struct local_target *target)
{
    target->broken = true;
    if (target->socket < 0)
        return;
    atomic_store_explicit(&target->shared->ended, 1, memory_order_release);
    pthread_mutex_lock(&rail->lock);
    close(target->socket);
    target->socket = -1;
    target->awaited = 0;
    pthread_cond_broadcast(&rail->let_go);
    pthread_mutex_unlock(&rail->lock);
}

void local_target_lets_go(struct kvr_rail *rail, struct local_target *target, uint32_t count)
{
    pthread_mutex_lock(&rail->lock);
    target->awaited -= count < target->awaited ? count : target->awaited;
    pthread_cond_broadcast(&rail->let_go);
    pthread_mutex_unlock(&rail->lock);
}

static void target_free(struct local_target *target)
{
    if (target == NULL)
        return;
    if (target->shared != NULL)
        kvr_memfd_unmap(target->shared, sizeof(*target->shared));
    free((void *)target->told);
    free(target->told_extents);
    free(target);
}

static kvr_status target_open(uint64_t nonce, struct local_target *target, struct kvr_error *error)
{
    void *shared = NULL;
    int fd = -1;
    kvr_status status;

    KVR_TRY(kvr_memfd_create("kvrail-local", sizeof(struct local_shared), "fabric", &fd, error));
    status = kvr_memfd_map(fd, 0, sizeof(struct local_shared), true, &shared, error);
    target->shared = shared;
    if (status == KVR_OK)
        target->socket = local_connect(nonce, error);
    if (status == KVR_OK && target->socket < 0)
        status = KVR_PEER_LOST;
    if (status == KVR_OK && local_say_hello(target->socket, nonce, fd) != KVR_OK)
        status = kvr_error_set(error, KVR_PEER_LOST, "fabric", "the peer's endpoint is gone");
    close(fd);
    return status;
}

static uint32_t free_place(const struct kvr_endpoint *endpoint)
{
    uint32_t index = 0;

    while (index < endpoint->target_reach && endpoint->targets[index] != NULL)
        index++;
    return index;
}

static kvr_status check_address(const uint8_t *address, uint32_t bytes,
                                struct local_address *ret_address, struct kvr_error *error)
{
    if (bytes == sizeof(*ret_address)) {
        memcpy(ret_address, address, sizeof(*ret_address));
        if (ret_address->magic == LOCAL_MAGIC)
            return KVR_OK;
    }
    return kvr_error_set(error, KVR_INVALID, "fabric",
                         "a peer's address of %u bytes is not of the kind that rail local uses",
                         bytes);
}

/* The listening process sees a writer come and go. */
kvr_status kvr_fabric_local_reaches(const uint8_t *address, uint32_t bytes, struct kvr_error *error)
{
    struct local_address wanted = {0};
    int fd;

    KVR_TRY(check_address(address, bytes, &wanted, error));
    fd = local_connect(wanted.nonce, error);
    if (fd < 0)
        return KVR_PEER_LOST;
    close(fd);
    return KVR_OK;
}

kvr_status local_peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                             uint64_t *ret_peer, struct kvr_error *error)
{
    struct local_address wanted = {0};
    uint32_t index = free_place(endpoint);
    struct local_target *target;
    kvr_status status;

    KVR_TRY(check_address(address, bytes, &wanted, error));
    if (index == LOCAL_LINKS_MAX)
        return kvr_error_set(error, KVR_FULL, "fabric", "rail local writes to %u peers already",
                             LOCAL_LINKS_MAX);
    target = calloc(1, sizeof(*target));
    if (target != NULL)
        target->told = calloc(LOCAL_MEMORIES_MAX, sizeof(target->told[0]));
    if (target == NULL || target->told == NULL) {
        target_free(target);
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a peer");
    }
    target->socket = -1;
    status = target_open(wanted.nonce, target, error);
    if (status == KVR_OK && !watch(endpoint, target->socket, ABOUT_TARGET, index))
        status = kvr_error_set(error, KVR_SYSTEM, "fabric", "no room to watch a peer's socket");
    if (status != KVR_OK) {
        if (target->socket >= 0)
            close(target->socket);
        target_free(target);
        return status;
    }
    pthread_mutex_lock(&endpoint->rail->lock);
    endpoint->targets[index] = target;
    if (index == endpoint->target_reach)
        endpoint->target_reach++;
    local_memories_introduce(endpoint->rail, target);
    pthread_mutex_unlock(&endpoint->rail->lock);
    *ret_peer = index;
    return KVR_OK;
}

void local_peer_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    struct local_target *target = endpoint->targets[peer];

    local_target_close(endpoint->rail, target);
    pthread_mutex_lock(&endpoint->rail->lock);
    endpoint->targets[peer] = NULL;
    pthread_mutex_unlock(&endpoint->rail->lock);
    target_free(target);
}

/* ---- writers --------------------------------------------------------------------------------- */

void local_writer_close(struct kvr_endpoint *endpoint, uint32_t index)
{
    struct local_writer *writer = endpoint->writers[index];

    endpoint->writers[index] = NULL;
    close(writer->socket);
    if (writer->shared != NULL)
        kvr_memfd_unmap(writer->shared, sizeof(*writer->shared));
    for (uint32_t i = 0; i < writer->mappings.count; i++)
        local_mapping_close(&writer->mappings.rows[i]);
    free(writer->mappings.rows);
    local_told_close(writer);
    free(writer);
}

/* Writers beyond the limit are refused: their socket is closed. */
static void take_in(struct kvr_endpoint *endpoint, int socket)
{
    uint32_t index = 0;
    struct local_writer *writer = calloc(1, sizeof(*writer));

    while (index < endpoint->writer_reach && endpoint->writers[index] != NULL)
        index++;
    if (writer == NULL || index == LOCAL_LINKS_MAX ||
        !watch(endpoint, socket, ABOUT_WRITER, index)) {
        close(socket);
        free(writer);
        return;
    }
    writer->socket = socket;
    endpoint->writers[index] = writer;
    if (index == endpoint->writer_reach)
        endpoint->writer_reach++;
}

kvr_status local_writer_hear(struct kvr_endpoint *endpoint, uint32_t index)
{
    kvr_status status = local_hear(endpoint->writers[index], endpoint->nonce);

    if (status != KVR_OK && status != KVR_AGAIN)
        local_writer_close(endpoint, index);
    return status;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Other users' connections may fill the queue: those behind them are looked at in the next turn, of
 * which the kernel reminds us when it is asked anew. */
static void listener_look(struct kvr_endpoint *endpoint)
{
    struct epoll_event event = event_of(ABOUT_LISTENER, 0);
    int socket;

    while ((socket = kvr_abstract_accept(endpoint->listener)) >= 0)
        take_in(endpoint, socket);
    if (errno == EBUSY)
        (void)epoll_ctl(endpoint->epoll_fd, EPOLL_CTL_MOD, endpoint->listener, &event);
}

static void look_at(struct kvr_endpoint *endpoint, uint64_t subject)
{
    uint32_t index = (uint32_t)subject;
    struct local_target *target;
    uint32_t gone = 0;
    kvr_status status;

    switch ((enum about)(subject >> 32)) {
    case ABOUT_LISTENER:
        listener_look(endpoint);
        return;
    case ABOUT_TARGET:
        target = endpoint->targets[index];
        if (target == NULL || target->socket < 0)
            return;
        status = local_hear_target(target->socket, &gone);
        if (gone > 0)
            local_target_lets_go(endpoint->rail, target, gone);
        if (status != KVR_OK && status != KVR_AGAIN)
            local_target_close(endpoint->rail, target);
        return;
    case ABOUT_WRITER:
        if (endpoint->writers[index] != NULL)
            (void)local_writer_hear(endpoint, index);
    }
}

void local_sockets_look(struct kvr_endpoint *endpoint)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(endpoint->epoll_fd, events, EVENTS_MAX, 0);

    for (int i = 0; i < count; i++)
        look_at(endpoint, events[i].data.u64);
}

void local_links_close(struct kvr_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->target_reach; i++)
        if (endpoint->targets[i] != NULL)
            local_peer_remove(endpoint, i);
    for (uint32_t i = 0; i < endpoint->writer_reach; i++)
        if (endpoint->writers[i] != NULL)
            local_writer_close(endpoint, i);
}
