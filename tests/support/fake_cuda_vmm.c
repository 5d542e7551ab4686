/* Device memory in three steps: made, mapped into reserved addresses, and made accessible. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda_memory.h"

#define RESERVED_MAX 256

static struct reserved {
    uint8_t *base;
    size_t bytes;
} reserved[RESERVED_MAX];

static bool are_known(const CUmemAllocationProp *properties)
{
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           fake_gpu(properties->location.id) >= 0 &&
           (properties->allocFlags.gpuDirectRDMACapable == 0 ||
            getenv("FAKE_CUDA_NO_VMM_RDMA") == NULL) &&
           (properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
            properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CUresult fake_MemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *properties,
                                          CUmemAllocationGranularity_flags option)
{
    if (!are_known(properties) || option != CU_MEM_ALLOC_GRANULARITY_MINIMUM)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = FAKE_GRAIN;
    return fake_started();
}

/* ---- handles ------------------------------------------------------------------------------- */

CUresult fake_MemCreate(CUmemGenericAllocationHandle *ret, size_t bytes,
                        const CUmemAllocationProp *properties, unsigned long long flags)
{
    struct fake_allocation *allocation;

    if (fake_started() != CUDA_SUCCESS)
        return fake_started();
    if (bytes == 0 || bytes % FAKE_GRAIN != 0 || !are_known(properties) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    allocation = fake_allocation_make(FAKE_VMM, fake_gpu(properties->location.id),
                                      properties->allocFlags.gpuDirectRDMACapable != 0, bytes);
    if (allocation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->shareable =
        properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *ret = (uintptr_t)allocation;
    return CUDA_SUCCESS;
}

CUresult fake_MemRelease(CUmemGenericAllocationHandle handle)
{
    struct fake_allocation *allocation = fake_allocation_of(handle);

    if (allocation == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    allocation->released = true;
    if (allocation->base == NULL)
        fake_allocation_end(allocation);
    return fake_started();
}

static CUmemGenericAllocationHandle handle_of(int fd, size_t bytes, bool shareable)
{
    struct fake_allocation *allocation =
        fake_allocation_new(FAKE_VMM, fcntl(fd, F_DUPFD_CLOEXEC, 0), bytes);

    allocation->shareable = shareable;
    return (uintptr_t)allocation;
}

CUresult fake_MemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *address)
{
    const struct fake_allocation *allocation = fake_allocation_at((uintptr_t)address);

    if (allocation == NULL || allocation->kind != FAKE_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = handle_of(allocation->fd, allocation->bytes, allocation->shareable);
    return fake_started();
}

CUresult fake_MemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle handle,
                                         CUmemAllocationHandleType type, unsigned long long flags)
{
    const struct fake_allocation *allocation = fake_allocation_of(handle);

    if (allocation == NULL || !allocation->shareable || flags != 0 ||
        type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (getenv("FAKE_CUDA_NO_VMM") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)ret = fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0);
    return fake_started();
}

CUresult fake_MemImportFromShareableHandle(CUmemGenericAllocationHandle *ret, void *os,
                                           CUmemAllocationHandleType type)
{
    int fd = (int)(intptr_t)os;
    off_t bytes = lseek(fd, 0, SEEK_END);

    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fake_gpu_of(fd) < 0 || bytes <= 0 ||
        (size_t)bytes % FAKE_GRAIN != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_device(fake_gpu_of(fd)) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret = handle_of(fd, (size_t)bytes, true);
    return fake_started();
}

/* ---- addresses ----------------------------------------------------------------------------- */

/* Aligned as the GPU's large pages are. */
static uint8_t *reserve(size_t bytes)
{
    uint8_t *wide = mmap(NULL, bytes + FAKE_GRAIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t head;

    if (wide == MAP_FAILED)
        return NULL;
    head = (FAKE_GRAIN - (uintptr_t)wide % FAKE_GRAIN) % FAKE_GRAIN;
    if (head > 0)
        munmap(wide, head);
    munmap(wide + head + bytes, FAKE_GRAIN - head);
    return wide + head;
}

static struct reserved *reserved_by(const uint8_t *base)
{
    for (int i = 0; i < RESERVED_MAX; i++)
        if (reserved[i].base == base)
            return &reserved[i];
    return NULL;
}

CUresult fake_MemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t alignment,
                                CUdeviceptr address, unsigned long long flags)
{
    struct reserved *place = reserved_by(NULL);

    if (bytes == 0 || bytes % FAKE_GRAIN != 0 || alignment % FAKE_GRAIN != 0 || address != 0 ||
        flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (place == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *place = (struct reserved){.base = reserve(bytes), .bytes = bytes};
    *ret = (uintptr_t)place->base;
    return place->base != NULL ? fake_started() : CUDA_ERROR_OUT_OF_MEMORY;
}

/* All of it, and nothing is mapped there. */
CUresult fake_MemAddressFree(CUdeviceptr address, size_t bytes)
{
    struct reserved *place = reserved_by((uint8_t *)(uintptr_t)address);

    if (address == 0 || place == NULL || place->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
        if (fake_allocation_at(address + at) != NULL)
            return CUDA_ERROR_INVALID_VALUE;
    munmap(place->base, place->bytes);
    place->base = NULL;
    return fake_started();
}

static bool is_reserved(CUdeviceptr address, size_t bytes)
{
    for (int i = 0; i < RESERVED_MAX; i++) {
        CUdeviceptr base = (uintptr_t)reserved[i].base;

        if (base != 0 && address >= base && address - base <= reserved[i].bytes &&
            bytes <= reserved[i].bytes - (address - base))
            return true;
    }
    return false;
}

CUresult fake_MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct fake_allocation *allocation = fake_allocation_of(handle);

    if (allocation == NULL || allocation->base != NULL || offset != 0 || flags != 0 || bytes == 0 ||
        bytes > allocation->bytes || bytes % FAKE_GRAIN != 0 || address % FAKE_GRAIN != 0 ||
        !is_reserved(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
        if (fake_allocation_at(address + at) != NULL)
            return CUDA_ERROR_INVALID_VALUE;
    allocation->accessible = false;
    return fake_allocation_map(allocation, (uint8_t *)(uintptr_t)address, bytes)
               ? fake_started()
               : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct fake_allocation *mapped_exactly(CUdeviceptr address, size_t bytes)
{
    struct fake_allocation *allocation = fake_allocation_at(address);

    return allocation != NULL && allocation->kind == FAKE_VMM &&
                   (uintptr_t)allocation->base == address && allocation->mapped_bytes == bytes
               ? allocation
               : NULL;
}

/* The addresses stay reserved. */
CUresult fake_MemUnmap(CUdeviceptr address, size_t bytes)
{
    struct fake_allocation *allocation = mapped_exactly(address, bytes);

    if (allocation == NULL || mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return CUDA_ERROR_INVALID_VALUE;
    allocation->base = NULL;
    if (allocation->released)
        fake_allocation_end(allocation);
    return fake_started();
}

/* Of whole mappings, side by side. */
CUresult fake_MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    struct fake_allocation *allocation;

    if (bytes == 0 || count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        fake_gpu(access->location.id) < 0 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr at = address; at < address + bytes; at += allocation->mapped_bytes) {
        allocation = fake_allocation_at(at);
        if (allocation == NULL || mapped_exactly(at, allocation->mapped_bytes) == NULL ||
            allocation->mapped_bytes > address + bytes - at)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (CUdeviceptr at = address; at < address + bytes; at += allocation->mapped_bytes) {
        allocation = fake_allocation_at(at);
        allocation->accessible = true;
    }
    return fake_started();
}
