#include "fabric/local/fabric_local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/entropy.h"
#include "fabric/local/fabric_local_state.h"

#define WINDOW_BYTES     (64u << 20) /* no buffer fills: it covers the writer thread's next turn */
/* A GPU moves that in a tenth of a millisecond or two, of which its turn costs ten microseconds. */
#define WINDOW_BYTES_GPU (512u << 20)
#define LOOK_POLLS       64u /* a thread that does not sleep looks at its sockets so often, */
#define LATE_POLLS       16u /* or so many polls later while there is something to do */

void kvr_fabric_local_facts(struct kvr_rail_facts *ret_facts)
{
    *ret_facts = (struct kvr_rail_facts){
        .provider = KVR_FABRIC_LOCAL,
        .provider_path = KVR_FABRIC_LOCAL,
        .name = KVR_FABRIC_LOCAL,
        .write = {.pieces_local = KVR_IOV_MAX,
                  .pieces_remote = KVR_IOV_MAX,
                  .bytes_max = LOCAL_WRITE_BYTES,
                  .outstanding_max = LOCAL_WRITES,
                  .window_bytes = WINDOW_BYTES},
        .immediate_bits = 64,
        .has_wait_fd = true,
        .progress_manual = true,
        .same_host_only = true,
        .target_copies = true,
        .moves_pages = true,
    };
}

/* ---- rails ----------------------------------------------------------------------------------- */

static void rail_close(struct kvr_rail *rail)
{
    if (rail == NULL)
        return;
    local_copier_close(rail->copier);
    pthread_cond_destroy(&rail->let_go);
    pthread_mutex_destroy(&rail->lock);
    free(rail->memories.rows);
    free(rail->registered);
    free(rail);
}

static kvr_status rail_open(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    pthread_condattr_t monotonic;
    struct kvr_rail *rail;
    kvr_status status;

    (void)self;
    if (options->name[0] != '\0' && strcmp(options->name, KVR_FABRIC_LOCAL) != 0)
        return kvr_error_set(error, KVR_NOT_FOUND, "fabric",
                             "provider local has no rail named '%s': it has one, which needs no "
                             "name",
                             options->name);
    rail = calloc(1, sizeof(*rail));
    if (rail == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a rail");
    pthread_mutex_init(&rail->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&rail->let_go, &monotonic);
    pthread_condattr_destroy(&monotonic);
    kvr_fabric_local_facts(&rail->facts);
    rail->unseen = options->unseen;
    if (options->device_memory)
        rail->facts.write.window_bytes = WINDOW_BYTES_GPU;
    rail->memories.rows = calloc(LOCAL_MEMORIES_MAX, sizeof(rail->memories.rows[0]));
    rail->registered =
        (struct kvr_memory **)calloc(LOCAL_MEMORIES_MAX, sizeof(struct kvr_memory *));
    if (rail->memories.rows == NULL || rail->registered == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a rail's regions");
    else
        status = local_copier_open(options->copy_threads, &rail->copier, error);
    if (status != KVR_OK) {
        rail_close(rail);
        return status;
    }
    *ret_rail = rail;
    return KVR_OK;
}

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static void leave_rail(const struct kvr_endpoint *endpoint)
{
    struct kvr_rail *rail = endpoint->rail;

    pthread_mutex_lock(&rail->lock);
    for (struct kvr_endpoint **at = &rail->endpoints; *at != NULL; at = &(*at)->next)
        if (*at == endpoint) {
            *at = endpoint->next;
            break;
        }
    pthread_mutex_unlock(&rail->lock);
}

static void endpoint_stop(struct kvr_endpoint *endpoint)
{
    if (endpoint->listener < 0)
        return;
    close(endpoint->listener);
    endpoint->listener = -1;
    local_links_close(endpoint);
    leave_rail(endpoint);
}

static void endpoint_close(struct kvr_endpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    endpoint_stop(endpoint);
    if (endpoint->epoll_fd >= 0)
        close(endpoint->epoll_fd);
    free(endpoint->batch);
    free(endpoint);
}

static kvr_status open_descriptors(struct kvr_endpoint *endpoint, struct kvr_error *error)
{
    endpoint->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (endpoint->epoll_fd < 0)
        return kvr_error_system(error, "fabric", errno, "rail local has no descriptor to sleep on");
    endpoint->listener = local_listen(endpoint->nonce, error);
    if (endpoint->listener < 0)
        return KVR_SYSTEM;
    if (!local_watch_listener(endpoint))
        return kvr_error_system(error, "fabric", errno, "rail local cannot watch its socket");
    return KVR_OK;
}

/* The address is a random number: no two are the same. */
static kvr_status endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    struct kvr_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    kvr_status status;

    if (endpoint == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint");
    endpoint->rail = rail;
    endpoint->nonce = kvr_random_u64();
    endpoint->listener = endpoint->epoll_fd = -1;
    endpoint->batch = local_batch_new();
    status = endpoint->batch != NULL
                 ? open_descriptors(endpoint, error)
                 : kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint");
    if (status != KVR_OK) {
        endpoint_close(endpoint);
        return status;
    }
    pthread_mutex_lock(&rail->lock);
    endpoint->next = rail->endpoints;
    rail->endpoints = endpoint;
    pthread_mutex_unlock(&rail->lock);
    *ret_endpoint = endpoint;
    return KVR_OK;
}

static void endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                             uint32_t *ret_bytes)
{
    struct local_address address = {.magic = LOCAL_MAGIC, .nonce = endpoint->nonce};

    memcpy(ret_address, &address, sizeof(address));
    *ret_bytes = sizeof(address);
}

static void look(struct kvr_endpoint *endpoint)
{
    endpoint->polls = 0;
    local_sockets_look(endpoint);
}

/* This thread polls from here on: a bell would cost a system call on either side. */
static void wake(struct kvr_endpoint *endpoint)
{
    endpoint->slept = false;
    for (uint32_t i = 0; i < endpoint->target_reach; i++)
        if (endpoint->targets[i] != NULL && !endpoint->targets[i]->broken)
            local_ring_wake(endpoint->targets[i]->shared, LOCAL_WRITER);
    for (uint32_t i = 0; i < endpoint->writer_reach; i++)
        if (endpoint->writers[i] != NULL && endpoint->writers[i]->shared != NULL)
            local_ring_wake(endpoint->writers[i]->shared, LOCAL_TARGET);
}

/* Bells are read after what they rang for: bytes do not wait for them. */
static unsigned poll_endpoint(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                              unsigned capacity)
{
    unsigned count;

    if (endpoint->listener < 0)
        return 0;
    if (endpoint->slept)
        wake(endpoint);
    local_ring_targets(endpoint);
    count = local_settle(endpoint, ret_completions, capacity);
    count += local_land(endpoint, ret_completions + count, capacity - count);
    if (endpoint->polls++ >= LOOK_POLLS + (count > 0 ? LATE_POLLS : 0))
        look(endpoint);
    return count;
}

static int endpoint_wait_fd(const struct kvr_endpoint *endpoint)
{
    return endpoint->epoll_fd;
}

static bool endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    local_ring_targets(endpoint);
    if (endpoint->polls >= LOOK_POLLS)
        look(endpoint);           /* else the last bell would ring on */
    endpoint->polls = LOOK_POLLS; /* a socket wakes a sleeping thread */
    endpoint->slept = true;
    for (uint32_t i = 0; i < endpoint->target_reach; i++)
        if (endpoint->targets[i] != NULL && !endpoint->targets[i]->broken)
            local_ring_sleep(endpoint->targets[i]->shared, LOCAL_WRITER);
    for (uint32_t i = 0; i < endpoint->writer_reach; i++)
        if (endpoint->writers[i] != NULL && endpoint->writers[i]->shared != NULL)
            local_ring_sleep(endpoint->writers[i]->shared, LOCAL_TARGET);
    return !local_settles(endpoint) && !local_lands(endpoint);
}

void kvr_fabric_local(struct kvr_fabric *ret_fabric)
{
    static const struct kvr_fabric_ops ops = {
        .rail_open = rail_open,
        .rail_close = rail_close,
        .rail_facts = rail_facts,
        .memory_register = local_memory_register,
        .memory_release = local_memory_release,
        .memory_key = local_memory_key,
        .endpoint_open = endpoint_open,
        .endpoint_address = endpoint_address,
        .endpoint_stop = endpoint_stop,
        .endpoint_close = endpoint_close,
        .peer_insert = local_peer_insert,
        .peer_remove = local_peer_remove,
        .write = local_write,
        .poll = poll_endpoint,
        .endpoint_wait_fd = endpoint_wait_fd,
        .endpoint_may_sleep = endpoint_may_sleep,
    };

    *ret_fabric = (struct kvr_fabric){.ops = &ops};
}
