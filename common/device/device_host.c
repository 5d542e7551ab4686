/* Host memory as a device: the call itself copies by memcpy. */
#include <stdlib.h>

#include "device/device_memory.h"

struct device_host {
    struct kvr_device device;
    uint64_t tokens[KVR_DEVICE_COPIES_MAX]; /* copied and not yet reported, a queue */
    uint32_t first, count;
};

static kvr_status host_import(struct kvr_device *device, const struct kvr_device_import *import,
                              struct kvr_device_memory **ret_memory, struct kvr_error *error)
{
    (void)device;
    return device_memory_open(import, false, ret_memory, error);
}

static void host_release(struct kvr_device *device, struct kvr_device_memory *memory)
{
    (void)device;
    device_memory_close(memory);
}

static struct kvr_device_hint host_hint(const struct kvr_device_memory *memory)
{
    const struct device_memory *host = (const struct device_memory *)memory;

    return (struct kvr_device_hint){
        .addressable = true, .address = (uintptr_t)host->base, .dmabuf = -1, .ordinal = -1};
}

static kvr_status host_pin(struct kvr_device *device, void *base, uint64_t bytes,
                           struct kvr_error *error)
{
    (void)device, (void)base, (void)bytes, (void)error; /* a processor reads any page */
    return KVR_OK;
}

static void host_unpin(struct kvr_device *device, void *base)
{
    (void)device, (void)base;
}

static kvr_status host_copy(struct kvr_device *device, kvr_ns now, kvr_device_way way,
                            const struct kvr_device_piece *pieces, uint32_t piece_count,
                            uint64_t token)
{
    struct device_host *host = (struct device_host *)device;

    (void)now;
    if (!kvr_device_pieces_fit(pieces, piece_count))
        return KVR_INVALID;
    if (host->count == KVR_DEVICE_COPIES_MAX)
        return KVR_AGAIN;
    for (uint32_t i = 0; i < piece_count; i++)
        device_memory_copy(way, &pieces[i]);
    host->tokens[(host->first + host->count++) % KVR_DEVICE_COPIES_MAX] = token;
    return KVR_OK;
}

static unsigned host_poll(struct kvr_device *device, kvr_ns now,
                          struct kvr_device_copied *ret_copied, unsigned capacity)
{
    struct device_host *host = (struct device_host *)device;
    unsigned count = 0;

    (void)now;
    for (; count < capacity && host->count > 0; count++) {
        ret_copied[count] =
            (struct kvr_device_copied){.token = host->tokens[host->first], .status = KVR_OK};
        host->first = (host->first + 1) % KVR_DEVICE_COPIES_MAX;
        host->count--;
    }
    return count;
}

static kvr_status host_move(struct kvr_device *device, const struct kvr_device_move *pieces,
                            uint32_t piece_count)
{
    (void)device;
    if (!kvr_device_moves_fit(pieces, piece_count))
        return KVR_INVALID;
    for (uint32_t i = 0; i < piece_count; i++)
        device_memory_move(&pieces[i]);
    return KVR_OK;
}

static void host_close(struct kvr_device *device)
{
    free(device);
}

kvr_status kvr_device_host_open(struct kvr_device **ret_device, struct kvr_error *error)
{
    static const struct kvr_device_ops ops = {
        .name = "host",
        .import = host_import,
        .release = host_release,
        .hint = host_hint,
        .pin = host_pin,
        .unpin = host_unpin,
        .copy = host_copy,
        .poll = host_poll,
        .move = host_move,
        .close = host_close,
    };
    struct device_host *host = calloc(1, sizeof(*host));

    if (host == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a device");
    host->device = (struct kvr_device){.ops = &ops, .ordinal = -1, .copy_bytes = 1 << 20};
    *ret_device = &host->device;
    return KVR_OK;
}
