#include "device/device_emulated.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "device/device_memory.h"

struct emulated_copy {
    uint64_t token;
    kvr_device_way way;
    kvr_ns ends_at;
    bool fails;
    uint32_t moved, piece_count;
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
};

struct device_emulated {
    struct kvr_device device;
    struct kvr_device_emulated_options options;
    struct kvr_rng rng;
    _Atomic(struct device_memory *)
        released;      /* until it closes: a copy that is wrong may name them */
    kvr_ns busy_until; /* the engine moves bytes of one copy at a time */
    uint32_t count;
    struct emulated_copy *copies[KVR_DEVICE_COPIES_MAX]; /* under way, first ending first; the rest
                                                            are free */
};

static kvr_status emulated_import(struct kvr_device *device, const struct kvr_device_import *import,
                                  struct kvr_device_memory **ret_memory, struct kvr_error *error)
{
    if (import->neighbour && ((const struct device_emulated *)device)->options.blind)
        return kvr_error_set(error, KVR_UNSUPPORTED, "device",
                             "this emulated device sees no memory of its neighbours");
    return device_memory_open(import, true, ret_memory, error);
}

/* Any thread. If a copy reads the memory afterwards (a planted bug), the test must report it, not
 * crash. */
static void emulated_release(struct kvr_device *device, struct kvr_device_memory *head)
{
    struct device_emulated *emulated = (struct device_emulated *)device;
    struct device_memory *memory = (struct device_memory *)head;

    if (memory == NULL)
        return;
    device_memory_unmap(memory);
    memory->next_released = atomic_load(&emulated->released);
    while (!atomic_compare_exchange_weak(&emulated->released, &memory->next_released, memory))
        continue;
}

/* Providers that do not know this memory report that they reach no device memory. */
static struct kvr_device_hint emulated_hint(const struct kvr_device_memory *memory)
{
    const struct device_memory *emulated = (const struct device_memory *)memory;

    return (struct kvr_device_hint){
        .addressable = true, .address = (uintptr_t)emulated->base, .dmabuf = -1};
}

static kvr_status emulated_pin(struct kvr_device *device, void *base, uint64_t bytes,
                               struct kvr_error *error)
{
    (void)device, (void)base, (void)bytes, (void)error;
    return KVR_OK;
}

static void emulated_unpin(struct kvr_device *device, void *base)
{
    (void)device, (void)base;
}

static bool lost(const struct emulated_copy *copy)
{
    for (uint32_t i = 0; i < copy->piece_count; i++)
        if (atomic_load(&((struct device_memory *)copy->pieces[i].memory)->lost))
            return true;
    return false;
}

static void move(struct device_emulated *emulated, struct emulated_copy *copy, uint32_t end)
{
    for (; copy->moved < end; copy->moved++) {
        if (emulated->options.moving != NULL)
            emulated->options.moving(emulated->options.self, copy->way, &copy->pieces[copy->moved]);
        if (((struct device_memory *)copy->pieces[copy->moved].memory)->base != NULL)
            device_memory_copy(copy->way, &copy->pieces[copy->moved]);
    }
}

static kvr_ns takes(struct device_emulated *emulated, kvr_ns now,
                    const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    const struct kvr_device_emulated_options *options = &emulated->options;
    kvr_ns latency = options->latency_ns;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < piece_count; i++)
        bytes += pieces[i].bytes;
    if (emulated->busy_until < now)
        emulated->busy_until = now;
    if (options->bytes_per_us > 0)
        emulated->busy_until += bytes * KVR_US / options->bytes_per_us;
    if (kvr_rng_percent(&emulated->rng, 10))
        latency += kvr_rng_below(&emulated->rng, 3 * options->latency_ns + 1);
    return emulated->busy_until + latency;
}

static kvr_status emulated_copy(struct kvr_device *device, kvr_ns now, kvr_device_way way,
                                const struct kvr_device_piece *pieces, uint32_t piece_count,
                                uint64_t token)
{
    struct device_emulated *emulated = (struct device_emulated *)device;
    uint32_t at = emulated->count;
    struct emulated_copy *copy;

    if (!kvr_device_pieces_fit(pieces, piece_count))
        return KVR_INVALID;
    if (emulated->count == emulated->options.copies_max)
        return KVR_AGAIN;
    copy = emulated->copies[at];
    copy->token = token;
    copy->way = way;
    copy->piece_count = piece_count;
    copy->moved = 0;
    memcpy(copy->pieces, pieces, piece_count * sizeof(*pieces));
    if (lost(copy))
        return KVR_COPY_FAILED;
    copy->fails = kvr_rng_below(&emulated->rng, 1000) < emulated->options.fail_promille;
    copy->ends_at = takes(emulated, now, pieces, piece_count);
    move(emulated, copy, piece_count / 2);
    for (; at > 0 && emulated->copies[at - 1]->ends_at > copy->ends_at; at--)
        emulated->copies[at] = emulated->copies[at - 1];
    emulated->copies[at] = copy;
    emulated->count++;
    return KVR_OK;
}

static unsigned emulated_poll(struct kvr_device *device, kvr_ns now,
                              struct kvr_device_copied *ret_copied, unsigned capacity)
{
    struct device_emulated *emulated = (struct device_emulated *)device;
    unsigned count = 0;

    while (count < capacity && emulated->count > 0 && emulated->copies[0]->ends_at <= now) {
        struct emulated_copy *copy = emulated->copies[0];
        bool fails = copy->fails || lost(copy);

        if (copy->fails && emulated->options.failing != NULL)
            emulated->options.failing(emulated->options.self);
        if (!fails)
            move(emulated, copy, copy->piece_count);
        ret_copied[count++] = (struct kvr_device_copied){
            .token = copy->token, .status = fails ? KVR_COPY_FAILED : KVR_OK};
        emulated->count--;
        memmove(&emulated->copies[0], &emulated->copies[1],
                emulated->count * sizeof(emulated->copies[0]));
        emulated->copies[emulated->count] = copy;
    }
    return count;
}

static bool loses(const struct kvr_device_move *piece)
{
    return atomic_load(&((struct device_memory *)piece->source)->lost) ||
           atomic_load(&((struct device_memory *)piece->target)->lost);
}

/* The caller waits for at least the latency of a copy. A move that fails has moved half of its
 * bytes. */
static kvr_status emulated_move(struct kvr_device *device, const struct kvr_device_move *pieces,
                                uint32_t piece_count)
{
    struct device_emulated *emulated = (struct device_emulated *)device;
    struct timespec latency = {.tv_nsec = (long)(emulated->options.latency_ns % KVR_S)};
    bool fails = kvr_rng_below(&emulated->rng, 1000) < emulated->options.fail_promille;

    if (!kvr_device_moves_fit(pieces, piece_count))
        return KVR_INVALID;
    for (uint32_t i = 0; i < piece_count; i++) {
        if (loses(&pieces[i]) || (fails && i >= piece_count / 2))
            return KVR_COPY_FAILED;
        device_memory_move(&pieces[i]);
    }
    if (latency.tv_nsec > 0)
        (void)nanosleep(&latency, NULL);
    return KVR_OK;
}

static void emulated_close(struct kvr_device *device)
{
    struct device_emulated *emulated = (struct device_emulated *)device;

    for (struct device_memory *at = atomic_load(&emulated->released), *next; at != NULL;
         at = next) {
        next = at->next_released;
        free(at);
    }
    for (uint32_t i = 0; i < KVR_DEVICE_COPIES_MAX; i++)
        free(emulated->copies[i]);
    free(emulated);
}

static const struct kvr_device_ops emulated_ops = {
    .name = "emulated",
    .import = emulated_import,
    .release = emulated_release,
    .hint = emulated_hint,
    .pin = emulated_pin,
    .unpin = emulated_unpin,
    .copy = emulated_copy,
    .poll = emulated_poll,
    .move = emulated_move,
    .close = emulated_close,
};

kvr_status kvr_device_emulated_open(const struct kvr_device_emulated_options *options,
                                    struct kvr_device **ret_device, struct kvr_error *error)
{
    struct device_emulated *emulated = calloc(1, sizeof(*emulated));
    bool made = emulated != NULL;

    for (uint32_t i = 0; made && i < KVR_DEVICE_COPIES_MAX; i++)
        made = (emulated->copies[i] = malloc(sizeof(struct emulated_copy))) != NULL;
    if (!made) {
        if (emulated != NULL)
            emulated_close(&emulated->device);
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a device");
    }
    emulated->device = (struct kvr_device){.ops = &emulated_ops, .ordinal = 0};
    emulated->options = *options;
    if (options->copies_max == 0 || options->copies_max > KVR_DEVICE_COPIES_MAX)
        emulated->options.copies_max = KVR_DEVICE_COPIES_MAX;
    kvr_rng_init(&emulated->rng, options->seed);
    *ret_device = &emulated->device;
    return KVR_OK;
}

uint8_t *kvr_device_emulated_address(const struct kvr_device_piece *piece)
{
    return ((struct device_memory *)piece->memory)->base + piece->offset;
}

kvr_ns kvr_device_emulated_next(const struct kvr_device *device)
{
    const struct device_emulated *emulated = (const struct device_emulated *)device;

    return emulated->count > 0 ? emulated->copies[0]->ends_at : KVR_NEVER;
}

void kvr_device_emulated_lose(struct kvr_device_memory *memory)
{
    atomic_store(&((struct device_memory *)memory)->lost, true);
}
