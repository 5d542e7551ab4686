/* Device memory, and its handles for other processes. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda_memory.h"

#define ALLOCATIONS_MAX 2048

/* ---- allocations --------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_allocation allocations[ALLOCATIONS_MAX];

/* The name is "fake-cuda-1", or "fake-cuda-1-cards". */
static int name_of(int fd, bool *ret_for_cards)
{
    char path[64], target[64] = "";
    int gpu = -1;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (readlink(path, target, sizeof(target) - 1) < 0 ||
        sscanf(target, "/memfd:fake-cuda-%d", &gpu) != 1)
        return -1;
    *ret_for_cards = strstr(target, "-cards") != NULL;
    return gpu;
}

int fake_gpu_of(int fd)
{
    bool for_cards;

    return name_of(fd, &for_cards);
}

struct fake_allocation *fake_allocation_new(int kind, int fd, size_t bytes)
{
    struct fake_allocation *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS_MAX && found == NULL; i++)
        if (!allocations[i].used)
            found = &allocations[i];
    assert(found != NULL);
    *found = (struct fake_allocation){.used = true,
                                      .kind = kind,
                                      .fd = fd,
                                      .gpu = fake_gpu_of(fd),
                                      .device = fake_current_device(),
                                      .bytes = bytes};
    (void)name_of(fd, &found->for_cards);
    pthread_mutex_unlock(&lock);
    return found;
}

struct fake_allocation *fake_allocation_make(int kind, int gpu, bool for_cards, size_t bytes)
{
    char name[32];
    int fd;

    snprintf(name, sizeof(name), "fake-cuda-%d%s", gpu, for_cards ? "-cards" : "");
    fd = memfd_create(name, MFD_CLOEXEC);
    if (bytes > 0 && fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        return fake_allocation_new(kind, fd, bytes);
    if (fd >= 0)
        close(fd);
    return NULL;
}

bool fake_allocation_map(struct fake_allocation *allocation, uint8_t *at, size_t bytes)
{
    void *base = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at != NULL ? MAP_FIXED : 0),
                      allocation->fd, 0);

    if (base == MAP_FAILED)
        return false;
    pthread_mutex_lock(&lock);
    allocation->mapped_bytes = bytes;
    allocation->base = base;
    pthread_mutex_unlock(&lock);
    return true;
}

void fake_allocation_end(struct fake_allocation *allocation)
{
    pthread_mutex_lock(&lock);
    if (allocation->base != NULL)
        munmap(allocation->base, allocation->mapped_bytes);
    close(allocation->fd);
    *allocation = (struct fake_allocation){.used = false};
    pthread_mutex_unlock(&lock);
}

struct fake_allocation *fake_allocation_at(CUdeviceptr address)
{
    struct fake_allocation *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS_MAX && found == NULL; i++) {
        struct fake_allocation *at = &allocations[i];

        if (at->used && at->base != NULL && address >= (uintptr_t)at->base &&
            address - (uintptr_t)at->base < at->mapped_bytes)
            found = at;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

struct fake_allocation *fake_allocation_of(CUmemGenericAllocationHandle handle)
{
    for (int i = 0; i < ALLOCATIONS_MAX; i++)
        if ((uintptr_t)&allocations[i] == handle && allocations[i].used &&
            allocations[i].kind == FAKE_VMM && !allocations[i].released)
            return &allocations[i];
    return NULL;
}

static bool lies_in(const struct fake_allocation *allocation, uint64_t address, uint64_t bytes)
{
    return allocation != NULL &&
           bytes <= allocation->mapped_bytes - (address - (uintptr_t)allocation->base);
}

bool fake_is_device(uint64_t address, uint64_t bytes)
{
    const struct fake_allocation *allocation = fake_allocation_at(address);
    uint64_t here;

    if (bytes == 0 || allocation == NULL)
        return bytes == 0;
    if (allocation->kind != FAKE_VMM)
        return lies_in(allocation, address, bytes);
    here = allocation->mapped_bytes - (address - (uintptr_t)allocation->base);
    return allocation->accessible &&
           (bytes <= here || fake_is_device(address + here, bytes - here));
}

uint8_t *fake_seen(uint64_t address, uint64_t bytes)
{
    return fake_is_device(address, bytes) ? (uint8_t *)(uintptr_t)address
                                          : fake_pinned_seen(address, bytes);
}

void fake_memory_end(CUdevice device)
{
    for (int i = 0; i < ALLOCATIONS_MAX; i++)
        if (allocations[i].used && allocations[i].kind != FAKE_VMM &&
            allocations[i].device == device)
            fake_allocation_end(&allocations[i]);
}

/* ---- plain --------------------------------------------------------------------------------- */

CUresult fake_MemAlloc(CUdeviceptr *ret, size_t bytes)
{
    struct fake_allocation *allocation;
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    allocation = fake_allocation_make(FAKE_PLAIN, fake_gpu(fake_current_device()), true, bytes);
    if (allocation == NULL || !fake_allocation_map(allocation, NULL, bytes))
        return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (uintptr_t)allocation->base;
    return CUDA_SUCCESS;
}

CUresult fake_MemFree(CUdeviceptr address)
{
    struct fake_allocation *allocation = fake_allocation_at(address);
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (allocation == NULL || (uintptr_t)allocation->base != address ||
        allocation->kind != FAKE_PLAIN)
        return CUDA_ERROR_INVALID_VALUE;
    fake_allocation_end(allocation);
    return CUDA_SUCCESS;
}

/* Of a GPU that no other process uses. */
CUresult fake_MemGetInfo(size_t *ret_free, size_t *ret_total)
{
    CUresult code = fake_ready();

    *ret_total = (size_t)1 << 36;
    *ret_free = *ret_total;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS_MAX; i++)
        if (allocations[i].used)
            *ret_free -= allocations[i].bytes;
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- attributes of an address -------------------------------------------------------------- */

CUresult fake_MemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    const struct fake_allocation *allocation = fake_allocation_at(address);
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (allocation == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = (uintptr_t)allocation->base;
    if (bytes != NULL)
        *bytes = allocation->mapped_bytes;
    return CUDA_SUCCESS;
}

CUresult fake_PointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    const struct fake_allocation *allocation = fake_allocation_at(address);

    if (allocation == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = getenv("FAKE_CUDA_ORDINAL") != NULL ? atoi(getenv("FAKE_CUDA_ORDINAL"))
                                                           : fake_device(allocation->gpu);
    else if (attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
        *(int *)data = allocation->for_cards;
    else if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
        *(int *)data = allocation->kind == FAKE_PLAIN && getenv("FAKE_CUDA_POOL") == NULL;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return fake_started();
}

/* No memory of VMM has this one. */
CUresult fake_PointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                  CUdeviceptr address)
{
    const struct fake_allocation *allocation = fake_allocation_at(address);
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (value == NULL || allocation == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    return allocation->kind == FAKE_VMM ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* Over several allocations: of the size, with bytes of its own that no test reads. */
static int dmabuf_of(const struct fake_allocation *allocation, CUdeviceptr address, size_t bytes)
{
    int fd;

    if (lies_in(allocation, address, bytes))
        return fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0);
    fd = memfd_create("fake-cuda-dmabuf", MFD_CLOEXEC);
    return fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 ? fd : -1;
}

/* A host of arm64 may have pages of 64 KiB. */
static size_t host_page_bytes(void)
{
    const char *bytes = getenv("FAKE_CUDA_PAGE_BYTES");

    return bytes != NULL ? (size_t)atol(bytes) : 4096;
}

/* Of memory of this process, and of whole pages inside it. */
CUresult fake_MemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
                                          CUmemRangeHandleType type, unsigned long long flags)
{
    const struct fake_allocation *allocation = fake_allocation_at(address);
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (allocation == NULL || allocation->kind == FAKE_IPC || bytes == 0 ||
        !fake_is_device(address, bytes) || address % host_page_bytes() != 0 ||
        bytes % host_page_bytes() != 0 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (getenv("FAKE_CUDA_NO_DMABUF") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (getenv("FAKE_CUDA_DMABUF_OF_ONE") != NULL && !lies_in(allocation, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)handle = dmabuf_of(allocation, address, bytes);
    return CUDA_SUCCESS;
}

/* ---- IPC ----------------------------------------------------------------------------------- */

struct handle { /* the 64 bytes of an IPC handle */
    uint64_t mark, bytes;
    int32_t pid, fd;
};
#define HANDLE_MARK 0x6b767266616b6521u

CUresult fake_IpcGetMemHandle(CUipcMemHandle *ret, CUdeviceptr address)
{
    const struct fake_allocation *allocation = fake_allocation_at(address);
    struct handle handle = {.mark = HANDLE_MARK, .pid = getpid()};
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (allocation == NULL || allocation->kind != FAKE_PLAIN || getenv("FAKE_CUDA_POOL") != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (getenv("FAKE_CUDA_NO_IPC") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    handle.bytes = allocation->bytes;
    handle.fd = allocation->fd;
    memset(ret, 0, sizeof(*ret));
    memcpy(ret, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

static struct fake_allocation *opened_already(uint64_t origin)
{
    for (int i = 0; i < ALLOCATIONS_MAX; i++)
        if (allocations[i].used && allocations[i].kind == FAKE_IPC &&
            allocations[i].origin == origin)
            return &allocations[i];
    return NULL;
}

static struct fake_allocation *open_other(const struct handle *handle)
{
    struct fake_allocation *allocation;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fake_device(fake_gpu_of(fd)) < 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    allocation = fake_allocation_new(FAKE_IPC, fd, handle->bytes);
    if (!fake_allocation_map(allocation, NULL, handle->bytes)) {
        fake_allocation_end(allocation);
        return NULL;
    }
    return allocation;
}

/* A process cannot open its own, but for a test that plays both. */
CUresult fake_IpcOpenMemHandle(CUdeviceptr *ret, CUipcMemHandle opaque, unsigned flags)
{
    struct fake_allocation *allocation;
    CUresult code = fake_ready();
    struct handle handle;
    uint64_t origin;

    memcpy(&handle, &opaque, sizeof(handle));
    if (code != CUDA_SUCCESS)
        return code;
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.mark != HANDLE_MARK)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle.pid == getpid() && getenv("FAKE_CUDA_OWN_IPC") == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    origin = (uint64_t)handle.pid << 32 | (uint32_t)handle.fd;
    allocation = opened_already(origin);
    if (allocation == NULL)
        allocation = open_other(&handle);
    if (allocation == NULL)
        return CUDA_ERROR_MAP_FAILED;
    allocation->origin = origin;
    allocation->opened++;
    *ret = (uintptr_t)allocation->base;
    return CUDA_SUCCESS;
}

CUresult fake_IpcCloseMemHandle(CUdeviceptr address)
{
    struct fake_allocation *allocation = fake_allocation_at(address);
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (allocation == NULL || allocation->kind != FAKE_IPC ||
        (uintptr_t)allocation->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (--allocation->opened == 0)
        fake_allocation_end(allocation);
    return CUDA_SUCCESS;
}
