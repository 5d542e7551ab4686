#include "device/device_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memfd.h"

static kvr_status map(const struct kvr_device_import *import, uint8_t **ret_base,
                      struct kvr_error *error)
{
    kvr_status status = kvr_memfd_check(import->fd, import->offset, import->bytes, "device", error);
    void *base;

    if (status != KVR_OK)
        return status;
    base = mmap(NULL, import->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, import->fd,
                (off_t)import->offset);
    if (base == MAP_FAILED)
        return kvr_error_system(error, "device", errno, "mmap of a region of %llu bytes",
                                (unsigned long long)import->bytes);
    *ret_base = base;
    return KVR_OK;
}

kvr_status device_memory_open(const struct kvr_device_import *import, bool any_fd,
                              struct kvr_device_memory **ret_memory, struct kvr_error *error)
{
    bool by_fd = import->kind == KVR_DEVICE_MEMFD ||
                 (any_fd && (import->kind == KVR_DEVICE_DMABUF || import->kind == KVR_DEVICE_VMM));
    struct device_memory *memory;
    uint8_t *base = import->address;

    if (!by_fd && import->kind != KVR_DEVICE_MAPPED)
        return kvr_error_set(error, KVR_UNSUPPORTED, "device",
                             "this device imports host memory only, by descriptor or address");
    if (by_fd) {
        kvr_status status = map(import, &base, error);

        if (status != KVR_OK)
            return status;
    }
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        if (by_fd)
            munmap(base, import->bytes);
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a region");
    }
    memory->memory.bytes = import->bytes;
    memory->base = base;
    memory->mapped_bytes = by_fd ? import->bytes : 0;
    *ret_memory = &memory->memory;
    return KVR_OK;
}

void device_memory_unmap(struct device_memory *memory)
{
    if (memory->mapped_bytes > 0)
        munmap(memory->base, memory->mapped_bytes);
    memory->base = NULL;
    memory->mapped_bytes = 0;
}

void device_memory_close(struct kvr_device_memory *head)
{
    struct device_memory *memory = (struct device_memory *)head;

    if (memory == NULL)
        return;
    device_memory_unmap(memory);
    free(memory);
}

void device_memory_copy(kvr_device_way way, const struct kvr_device_piece *piece)
{
    uint8_t *bytes = ((struct device_memory *)piece->memory)->base + piece->offset;

    if (way == KVR_DEVICE_GATHER)
        memcpy(piece->host, bytes, piece->bytes);
    else
        memcpy(bytes, piece->host, piece->bytes);
}

void device_memory_move(const struct kvr_device_move *piece)
{
    memcpy(((struct device_memory *)piece->target)->base + piece->target_offset,
           ((const struct device_memory *)piece->source)->base + piece->source_offset,
           piece->bytes);
}
