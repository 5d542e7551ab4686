/* Device memory, its handles and descriptors, and host memory that is pinned. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda.h"

#define ALLOCATIONS_MAX 256
#define GRAIN           ((size_t)2 << 20)

/* ---- memory -------------------------------------------------------------------------------- */

struct allocation {
    bool used, mapped; /* mapped: at `base`, of `bytes` */
    bool vmm;
    int fd;
    uint8_t *base;
    size_t bytes;
};

struct handle { /* what stands in the 64 bytes of an IPC handle */
    uint64_t mark, bytes;
    int32_t pid, fd;
};
#define HANDLE_MARK 0x6b767266616b6521u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation allocations[ALLOCATIONS_MAX];

static struct allocation *allocation_new(int fd, size_t bytes)
{
    struct allocation *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS_MAX && found == NULL; i++)
        if (!allocations[i].used)
            found = &allocations[i];
    assert(found != NULL);
    *found = (struct allocation){.used = true, .fd = fd, .bytes = bytes};
    pthread_mutex_unlock(&lock);
    return found;
}

static bool allocation_map(struct allocation *allocation, uint8_t *at)
{
    void *base = mmap(at, allocation->bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | (at != NULL ? MAP_FIXED : 0), allocation->fd, 0);

    allocation->mapped = base != MAP_FAILED;
    allocation->base = allocation->mapped ? base : NULL;
    return allocation->mapped;
}

static struct allocation *allocation_at(CUdeviceptr address)
{
    for (int i = 0; i < ALLOCATIONS_MAX; i++) {
        struct allocation *at = &allocations[i];

        if (at->used && at->mapped && address >= (uintptr_t)at->base &&
            address - (uintptr_t)at->base < at->bytes)
            return at;
    }
    return NULL;
}

bool fake_is_device(uint64_t address, uint64_t bytes)
{
    const struct allocation *allocation = allocation_at(address);

    return bytes == 0 || (allocation != NULL &&
                          address - (uintptr_t)allocation->base + bytes <= allocation->bytes);
}

static void allocation_end(struct allocation *allocation)
{
    if (allocation->mapped)
        munmap(allocation->base, allocation->bytes);
    close(allocation->fd);
    allocation->used = false;
}

static CUresult memory_new(size_t bytes, struct allocation **ret)
{
    int fd = memfd_create("fake-cuda", MFD_CLOEXEC);

    if (bytes == 0 || fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = allocation_new(fd, bytes);
    return CUDA_SUCCESS;
}

CUresult fake_MemAlloc(CUdeviceptr *ret, size_t bytes)
{
    struct allocation *allocation;

    if (fake_context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (memory_new(bytes, &allocation) != CUDA_SUCCESS || !allocation_map(allocation, NULL))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (uintptr_t)allocation->base;
    return CUDA_SUCCESS;
}

CUresult fake_MemFree(CUdeviceptr address)
{
    struct allocation *allocation = allocation_at(address);

    if (allocation == NULL || (uintptr_t)allocation->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    allocation_end(allocation);
    return CUDA_SUCCESS;
}

CUresult fake_MemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    const struct allocation *allocation = allocation_at(address);

    if (allocation == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = (uintptr_t)allocation->base;
    if (bytes != NULL)
        *bytes = allocation->bytes;
    return CUDA_SUCCESS;
}

CUresult fake_MemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
                                          CUmemRangeHandleType type, unsigned long long flags)
{
    const struct allocation *allocation = allocation_at(address);

    (void)type, (void)flags;
    if (allocation == NULL || address % 4096 != 0 || bytes % 4096 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (getenv("FAKE_CUDA_NO_DMABUF") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)handle = dup(allocation->fd);
    return CUDA_SUCCESS;
}

CUresult fake_PointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    if (allocation_at(address) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = getenv("FAKE_CUDA_ORDINAL") != NULL ? atoi(getenv("FAKE_CUDA_ORDINAL")) : 0;
    else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult fake_IpcGetMemHandle(CUipcMemHandle *ret, CUdeviceptr address)
{
    const struct allocation *allocation = allocation_at(address);
    struct handle handle = {.mark = HANDLE_MARK, .pid = getpid()};

    if (allocation == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (getenv("FAKE_CUDA_NO_IPC") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    handle.bytes = allocation->bytes;
    handle.fd = allocation->fd;
    memset(ret, 0, sizeof(*ret));
    memcpy(ret, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

CUresult fake_IpcOpenMemHandle(CUdeviceptr *ret, CUipcMemHandle opaque, unsigned flags)
{
    struct handle handle;
    struct allocation *allocation;
    char path[64];
    FILE *file;

    (void)flags;
    memcpy(&handle, &opaque, sizeof(handle));
    if (fake_context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (handle.mark != HANDLE_MARK)
        return CUDA_ERROR_INVALID_HANDLE;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle.pid, handle.fd);
    file = fopen(path, "r+");
    if (file == NULL)
        return CUDA_ERROR_MAP_FAILED;
    allocation = allocation_new(dup(fileno(file)), handle.bytes);
    fclose(file);
    if (!allocation_map(allocation, NULL))
        return CUDA_ERROR_MAP_FAILED;
    *ret = (uintptr_t)allocation->base;
    return CUDA_SUCCESS;
}

CUresult fake_IpcCloseMemHandle(CUdeviceptr address)
{
    return fake_MemFree(address);
}

/* ---- VMM ----------------------------------------------------------------------------------- */

CUresult fake_MemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *properties,
                                          CUmemAllocationGranularity_flags option)
{
    (void)properties, (void)option;
    *ret = GRAIN;
    return CUDA_SUCCESS;
}

CUresult fake_MemCreate(CUmemGenericAllocationHandle *ret, size_t bytes,
                        const CUmemAllocationProp *properties, unsigned long long flags)
{
    struct allocation *allocation;

    (void)properties, (void)flags;
    if (bytes % GRAIN != 0 || memory_new(bytes, &allocation) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    allocation->vmm = true;
    *ret = (uintptr_t)allocation;
    return CUDA_SUCCESS;
}

CUresult fake_MemRelease(CUmemGenericAllocationHandle handle)
{
    allocation_end((struct allocation *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

CUresult fake_MemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *address)
{
    struct allocation *allocation = allocation_at((uintptr_t)address);

    if (allocation == NULL || !allocation->vmm)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (uintptr_t)allocation_new(dup(allocation->fd), allocation->bytes);
    return CUDA_SUCCESS;
}

CUresult fake_MemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle handle,
                                         CUmemAllocationHandleType type, unsigned long long flags)
{
    (void)type, (void)flags;
    if (getenv("FAKE_CUDA_NO_VMM") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)ret = dup(((struct allocation *)(uintptr_t)handle)->fd);
    return CUDA_SUCCESS;
}

CUresult fake_MemImportFromShareableHandle(CUmemGenericAllocationHandle *ret, void *os,
                                           CUmemAllocationHandleType type)
{
    off_t bytes = lseek((int)(intptr_t)os, 0, SEEK_END);

    (void)type;
    if (bytes <= 0 || (size_t)bytes % GRAIN != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (uintptr_t)allocation_new(dup((int)(intptr_t)os), (size_t)bytes);
    return CUDA_SUCCESS;
}

CUresult fake_MemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t alignment,
                                CUdeviceptr address, unsigned long long flags)
{
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)alignment, (void)address, (void)flags;
    *ret = (uintptr_t)base;
    return base != MAP_FAILED && bytes % GRAIN == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_MemAddressFree(CUdeviceptr address, size_t bytes)
{
    return munmap((void *)(uintptr_t)address, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct allocation *allocation = (struct allocation *)(uintptr_t)handle;

    (void)flags;
    if (offset != 0 || bytes > allocation->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return allocation_map(allocation, (uint8_t *)(uintptr_t)address) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_MemUnmap(CUdeviceptr address, size_t bytes)
{
    struct allocation *allocation = allocation_at(address);

    if (allocation == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    allocation->mapped = false;
    return mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    (void)bytes, (void)access, (void)count;
    return allocation_at(address) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- pinned memory ------------------------------------------------------------------------- */

static struct {
    uint8_t *base;
    size_t bytes;
} pinned[64];

CUresult fake_MemHostRegister(void *base, size_t bytes, unsigned flags)
{
    (void)flags;
    for (int i = 0; i < 64; i++) {
        if (pinned[i].base != NULL)
            continue;
        pinned[i].base = base;
        pinned[i].bytes = bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_MemHostUnregister(void *base)
{
    for (int i = 0; i < 64; i++) {
        if (pinned[i].base != base)
            continue;
        pinned[i].base = NULL;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

bool fake_is_pinned(const uint8_t *base, size_t bytes)
{
    for (int i = 0; i < 64; i++)
        if (pinned[i].base != NULL && base >= pinned[i].base &&
            base + bytes <= pinned[i].base + pinned[i].bytes)
            return true;
    return false;
}

CUresult fake_MemHostGetDevicePointer(CUdeviceptr *ret, void *base, unsigned flags)
{
    (void)flags;
    *ret = (uintptr_t)base;
    return fake_is_pinned(base, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
