#include "fabric/local/local_ring.h"

#include <string.h>

kvr_status local_ring_done(const struct local_shared *shared, uint32_t settled, uint32_t posted,
                           uint32_t *ret_count)
{
    uint32_t done = atomic_load_explicit(&shared->done, memory_order_acquire);

    if (done - settled > posted - settled)
        return KVR_MALFORMED;
    *ret_count = done - settled;
    return KVR_OK;
}

kvr_status local_ring_outcome(const struct local_shared *shared, uint32_t index)
{
    uint8_t failed =
        atomic_load_explicit(&shared->failed[index % LOCAL_WRITES], memory_order_relaxed);

    if (failed == LOCAL_UNCOPIED)
        return KVR_COPY_FAILED;
    return failed == LOCAL_ARRIVED ? KVR_OK : KVR_RAIL_FAILED;
}

kvr_status local_ring_waiting(const struct local_shared *shared, uint32_t taken,
                              uint32_t *ret_count)
{
    uint32_t count = atomic_load_explicit(&shared->posted, memory_order_acquire) - taken;

    if (count > LOCAL_WRITES)
        return KVR_MALFORMED;
    if (atomic_load_explicit(&shared->ended, memory_order_relaxed) != 0)
        count = 0;
    *ret_count = count;
    return KVR_OK;
}

kvr_status local_ring_take(const struct local_shared *shared, uint32_t index,
                           struct local_command *ret_command)
{
    const struct local_command *command = &shared->commands[index % LOCAL_WRITES];

    ret_command->immediate = command->immediate;
    ret_command->piece_count = command->piece_count;
    /* The copy is what is looked at from here on, whatever becomes of the original. */
    atomic_signal_fence(memory_order_seq_cst);
    if (ret_command->piece_count == 0 || ret_command->piece_count > KVR_CHUNK_PIECES_MAX)
        return KVR_MALFORMED;
    memcpy(ret_command->pieces, command->pieces,
           ret_command->piece_count * sizeof(command->pieces[0]));
    atomic_signal_fence(memory_order_seq_cst);
    return KVR_OK;
}

void local_ring_finish(struct local_shared *shared, uint32_t taken, const kvr_status *outcomes,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum local_failed failed = outcomes[i] == KVR_OK            ? LOCAL_ARRIVED
                                   : outcomes[i] == KVR_COPY_FAILED ? LOCAL_UNCOPIED
                                                                    : LOCAL_FAILED;

        atomic_store_explicit(&shared->failed[(taken + i) % LOCAL_WRITES], (uint8_t)failed,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&shared->done, taken + count, memory_order_release);
}

void local_ring_sleep(struct local_shared *shared, enum local_side side)
{
    atomic_store_explicit(&shared->asleep[side], 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void local_ring_wake(struct local_shared *shared, enum local_side side)
{
    atomic_store_explicit(&shared->asleep[side], 0, memory_order_relaxed);
}

bool local_ring_must_wake(struct local_shared *shared, enum local_side side)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&shared->asleep[side], memory_order_relaxed) != 0 &&
           atomic_exchange(&shared->asleep[side], 0) != 0;
}
