#include "fabric/sim/fabric_null.h"

#include <stdlib.h>

#include "fabric/sim/fabric_null_state.h"

#define WRITES_MAX KVR_FABRIC_NULL_WRITES_MAX

struct kvr_memory {
    struct kvr_remote_key key;
};

struct kvr_endpoint {
    uint32_t in_flight;
    uint32_t first, last, seen;    /* counts that wrap; seen: last, when it was polled */
    uint64_t contexts[WRITES_MAX]; /* of writes under way, first to last */
};

static kvr_status rail_open(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    const struct kvr_fabric_null *null = self;
    struct kvr_rail *rail = calloc(1, sizeof(*rail));

    (void)options;
    if (rail == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a rail");
    rail->options = null;
    rail->facts = (struct kvr_rail_facts){
        .provider = "null",
        .provider_path = "null",
        .name = "null",
        .write = {.pieces_local = null->pieces,
                  .pieces_remote = null->pieces,
                  .bytes_max = UINT64_MAX,
                  .outstanding_max = WRITES_MAX},
        .progress_manual = true,
    };
    *ret_rail = rail;
    return KVR_OK;
}

static void rail_close(struct kvr_rail *rail)
{
    free(rail);
}

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

static kvr_status memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct kvr_memory *memory = calloc(1, sizeof(*memory));

    (void)rail;
    if (memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a registration");
    memory->key.base = (uint64_t)(uintptr_t)span->base;
    *ret_memory = memory;
    return KVR_OK;
}

static void memory_release(struct kvr_memory *memory)
{
    free(memory);
}

static struct kvr_remote_key memory_key(const struct kvr_memory *memory)
{
    return memory->key;
}

static kvr_status endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    struct kvr_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint");
    endpoint->in_flight = rail->options->in_flight;
    *ret_endpoint = endpoint;
    return KVR_OK;
}

static void endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                             uint32_t *ret_bytes)
{
    (void)endpoint;
    ret_address[0] = 0;
    *ret_bytes = 1;
}

static void endpoint_stop(struct kvr_endpoint *endpoint)
{
    endpoint->first = endpoint->last;
}

static void endpoint_close(struct kvr_endpoint *endpoint)
{
    free(endpoint);
}

static kvr_status peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error)
{
    (void)endpoint, (void)address, (void)bytes, (void)error;
    *ret_peer = 0;
    return KVR_OK;
}

static void peer_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    (void)endpoint, (void)peer;
}

static kvr_status post(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    if (endpoint->last - endpoint->first == WRITES_MAX)
        return KVR_AGAIN;
    endpoint->contexts[endpoint->last++ % WRITES_MAX] = write->context;
    return KVR_OK;
}

/* While writes follow, in_flight of them stay; when none has followed, all complete. */
static unsigned poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                     unsigned capacity)
{
    uint32_t stay = endpoint->seen != endpoint->last ? endpoint->in_flight : 0;
    unsigned count = 0;

    endpoint->seen = endpoint->last;
    while (count < capacity && endpoint->last - endpoint->first > stay)
        ret_completions[count++] = (struct kvr_completion){
            .kind = KVR_COMPLETION_WRITTEN,
            .has_context = true,
            .context = endpoint->contexts[endpoint->first++ % WRITES_MAX],
        };
    return count;
}

static int endpoint_wait_fd(const struct kvr_endpoint *endpoint)
{
    (void)endpoint;
    return -1;
}

static bool endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    return endpoint->first == endpoint->last;
}

void kvr_fabric_null(const struct kvr_fabric_null *options, struct kvr_fabric *ret_fabric)
{
    static const struct kvr_fabric_ops ops = KVR_FABRIC_OPS;

    *ret_fabric = (struct kvr_fabric){.ops = &ops, .self = (void *)(uintptr_t)options};
}
