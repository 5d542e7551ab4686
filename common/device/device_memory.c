#include "device/device_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "base/undumped.h"

static kvr_status map(const struct kvr_device_import *import, uint8_t **ret_base,
                      struct kvr_error *error)
{
    void *base;

    KVR_TRY(kvr_memfd_check(import->fd, import->offset, import->bytes, "device", error));
    base = mmap(NULL, import->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, import->fd,
                (off_t)import->offset);
    if (base == MAP_FAILED)
        return kvr_error_system(error, "device", errno, "mmap of a region of %llu bytes",
                                (unsigned long long)import->bytes);
    kvr_undumped(base, import->bytes);
    *ret_base = base;
    return KVR_OK;
}

/* Maps extents side by side into one reserved range. */
static kvr_status map_extents(const struct kvr_device_import *import, uint64_t whole,
                              uint8_t **ret_base, struct kvr_error *error)
{
    const struct kvr_extents *extents = import->extents;
    uint8_t *base = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at = base;
    kvr_status status = KVR_OK;

    if (base == MAP_FAILED)
        return kvr_error_system(error, "device", errno, "addresses for a region of %llu bytes",
                                (unsigned long long)whole);
    for (uint32_t i = 0; i < extents->count && status == KVR_OK; i++) {
        const struct kvr_extent *extent = &extents->at[i];
        void *mapped = NULL;

        status = kvr_memfd_check(extent->fd, 0, extent->bytes, "device", error);
        if (status == KVR_OK)
            mapped = mmap(at, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                          extent->fd, 0);
        if (mapped == MAP_FAILED)
            status =
                kvr_error_system(error, "device", errno, "mmap of allocation %u of a region", i);
        at += extent->bytes;
    }
    kvr_undumped(base, whole);
    if (status != KVR_OK)
        munmap(base, whole);
    else
        *ret_base = base;
    return status;
}

static kvr_status map_any(const struct kvr_device_import *import, struct device_memory *memory,
                          struct kvr_error *error)
{
    uint64_t whole = import->bytes;
    kvr_status status = KVR_OK;

    if (import->extents == NULL) {
        status = map(import, &memory->mapped, error);
        memory->base = memory->mapped;
    } else {
        status = kvr_extents_check(import->extents, import->offset, import->bytes,
                                   (uint64_t)sysconf(_SC_PAGESIZE), "device", &whole, error);
        if (status == KVR_OK)
            status = map_extents(import, whole, &memory->mapped, error);
        if (status == KVR_OK)
            memory->base = memory->mapped + import->offset;
    }
    if (status == KVR_OK)
        memory->mapped_bytes = whole;
    return status;
}

kvr_status device_memory_open(const struct kvr_device_import *import, bool any_fd,
                              struct kvr_device_memory **ret_memory, struct kvr_error *error)
{
    bool by_fd = import->kind == KVR_DEVICE_MEMFD ||
                 (any_fd && (import->kind == KVR_DEVICE_DMABUF || import->kind == KVR_DEVICE_VMM));
    struct device_memory *memory;
    kvr_status status = KVR_OK;

    if (!by_fd && import->kind != KVR_DEVICE_MAPPED)
        return kvr_error_set(error, KVR_UNSUPPORTED, "device",
                             "this device imports host memory only, by descriptor or address");
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a region");
    memory->memory.bytes = import->bytes;
    memory->base = import->address;
    if (by_fd)
        status = map_any(import, memory, error);
    if (status != KVR_OK) {
        free(memory);
        return status;
    }
    *ret_memory = &memory->memory;
    return KVR_OK;
}

void device_memory_unmap(struct device_memory *memory)
{
    if (memory->mapped_bytes > 0)
        munmap(memory->mapped, memory->mapped_bytes);
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
