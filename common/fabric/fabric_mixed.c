#include "fabric/fabric_provider.h"

static struct kvr_fabric_owner *owner(void *object)
{
    return object;
}

static const struct kvr_fabric_ops *ops_of(const void *object)
{
    return ((const struct kvr_fabric_owner *)object)->ops;
}

static kvr_status rail_open(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    struct kvr_fabric fabric;

    (void)self;
    kvr_fabric_of(options->provider, &fabric);
    KVR_TRY(fabric.ops->rail_open(fabric.self, options, ret_rail, error));
    owner(*ret_rail)->ops = fabric.ops;
    return KVR_OK;
}

static void rail_close(struct kvr_rail *rail)
{
    if (rail != NULL)
        ops_of(rail)->rail_close(rail);
}

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    return ops_of(rail)->rail_facts(rail);
}

static kvr_status memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    KVR_TRY(ops_of(rail)->memory_register(rail, span, ret_memory, error));
    owner(*ret_memory)->ops = ops_of(rail);
    return KVR_OK;
}

static void memory_release(struct kvr_memory *memory)
{
    if (memory != NULL)
        ops_of(memory)->memory_release(memory);
}

static struct kvr_remote_key memory_key(const struct kvr_memory *memory)
{
    return ops_of(memory)->memory_key(memory);
}

static kvr_status endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    KVR_TRY(ops_of(rail)->endpoint_open(rail, ret_endpoint, error));
    owner(*ret_endpoint)->ops = ops_of(rail);
    return KVR_OK;
}

static void endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                             uint32_t *ret_bytes)
{
    ops_of(endpoint)->endpoint_address(endpoint, ret_address, ret_bytes);
}

static void endpoint_stop(struct kvr_endpoint *endpoint)
{
    ops_of(endpoint)->endpoint_stop(endpoint);
}

static void endpoint_close(struct kvr_endpoint *endpoint)
{
    if (endpoint != NULL)
        ops_of(endpoint)->endpoint_close(endpoint);
}

static kvr_status peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error)
{
    return ops_of(endpoint)->peer_insert(endpoint, address, bytes, ret_peer, error);
}

static void peer_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    ops_of(endpoint)->peer_remove(endpoint, peer);
}

static kvr_status peer_close(struct kvr_endpoint *endpoint, uint64_t *peer)
{
    return ops_of(endpoint)->peer_close != NULL ? ops_of(endpoint)->peer_close(endpoint, peer)
                                                : KVR_OK;
}

static kvr_status post(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    return ops_of(endpoint)->write(endpoint, write);
}

static unsigned poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                     unsigned capacity)
{
    return ops_of(endpoint)->poll(endpoint, ret_completions, capacity);
}

static int endpoint_wait_fd(const struct kvr_endpoint *endpoint)
{
    return ops_of(endpoint)->endpoint_wait_fd(endpoint);
}

static bool endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    return ops_of(endpoint)->endpoint_may_sleep(endpoint);
}

void kvr_fabric_mixed(struct kvr_fabric *ret_fabric)
{
    static struct kvr_fabric_ops ops = KVR_FABRIC_OPS;

    ops.peer_close = peer_close;

    *ret_fabric = (struct kvr_fabric){.ops = &ops};
}
