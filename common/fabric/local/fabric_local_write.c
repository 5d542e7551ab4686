/* The writer's side: puts commands into the ring, and reads their outcomes from it. */
#include "fabric/local/fabric_local_state.h"

/* The target gets the memory's descriptors before the first command that reads from there. */
static kvr_status introduce(struct local_target *target, const struct kvr_memory *memory)
{
    kvr_status status;

    if (!memory->local)
        return KVR_INVALID;
    pthread_mutex_lock(&memory->rail->lock);
    status = local_memory_introduce(memory, target);
    pthread_mutex_unlock(&memory->rail->lock);
    return status;
}

static kvr_status fill(struct local_target *target, const struct kvr_fabric_write *write,
                       struct local_command *command)
{
    command->immediate = write->immediate;
    command->piece_count = write->piece_count;
    for (unsigned i = 0; i < write->piece_count; i++) {
        const struct kvr_fabric_piece *piece = &write->pieces[i];
        const struct kvr_memory *memory = piece->memory;
        const _Atomic uint32_t *told = &target->told[LOCAL_INDEX(memory->name)];

        if (atomic_load_explicit(told, memory_order_acquire) != memory->name) {
            KVR_TRY(introduce(target, memory));
        }
        command->pieces[i] = (struct local_piece){
            .key = piece->key,
            .target_offset = piece->remote,
            .source_offset = (uint64_t)((const uint8_t *)piece->local - memory->base),
            .source = memory->name,
            .bytes = (uint32_t)piece->bytes,
        };
    }
    return KVR_OK;
}

static void ring(struct local_target *target)
{
    target->unrung = false;
    if (local_ring_must_wake(target->shared, LOCAL_TARGET))
        local_ring_bell(target->socket);
}

kvr_status local_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    struct local_target *target = endpoint->targets[write->peer];
    kvr_status status = KVR_AGAIN;

    if (target->broken)
        return KVR_RAIL_FAILED;
    if (target->posted - target->settled < LOCAL_WRITES)
        status = fill(target, write, local_ring_next(target->shared, target->posted));
    if (status != KVR_OK) {
        if (target->unrung)
            ring(target);
        return status == KVR_AGAIN ? KVR_AGAIN : KVR_RAIL_FAILED;
    }
    target->contexts[target->posted % LOCAL_WRITES] = write->context;
    local_ring_post(target->shared, target->posted++);
    target->unrung = true;
    if (!write->more)
        ring(target);
    return KVR_OK;
}

void local_ring_targets(struct kvr_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->target_reach; i++) {
        struct local_target *target = endpoint->targets[i];

        if (target != NULL && target->unrung && !target->broken)
            ring(target);
    }
}

static unsigned settle(struct kvr_rail *rail, struct local_target *target,
                       struct kvr_completion *ret_completions, unsigned capacity)
{
    uint32_t done = 0, count;
    kvr_status status = local_ring_done(target->shared, target->settled, target->posted, &done);

    if (status != KVR_OK)
        local_target_close(rail, target); /* it does not know what it does */
    count = target->broken ? target->posted - target->settled : done;
    count = count < capacity ? count : capacity;
    for (uint32_t i = 0; i < count; i++) {
        kvr_status outcome =
            i < done ? local_ring_outcome(target->shared, target->settled) : KVR_RAIL_FAILED;

        ret_completions[i] = (struct kvr_completion){
            .kind = outcome == KVR_OK ? KVR_COMPLETION_WRITTEN : KVR_COMPLETION_FAILED,
            .has_context = true,
            .context = target->contexts[target->settled % LOCAL_WRITES],
            .status = outcome,
        };
        target->settled++;
    }
    return count;
}

unsigned local_settle(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                      unsigned capacity)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < endpoint->target_reach && count < capacity; i++) {
        struct local_target *target = endpoint->targets[i];

        if (target != NULL && target->posted != target->settled)
            count += settle(endpoint->rail, target, ret_completions + count, capacity - count);
    }
    return count;
}

bool local_settles(const struct kvr_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->target_reach; i++) {
        const struct local_target *target = endpoint->targets[i];
        uint32_t done = 0;

        if (target == NULL || target->posted == target->settled)
            continue;
        if (target->broken ||
            local_ring_done(target->shared, target->settled, target->posted, &done) != KVR_OK ||
            done > 0)
            return true;
    }
    return false;
}
