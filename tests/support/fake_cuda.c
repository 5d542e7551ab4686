/* A libcuda.so.1 of host memory, so that device_cuda and the clients' CUDA helpers run where there
 * is no GPU. It proves that the calls fit together: arguments, order, ends, and what is refused. It
 * proves nothing about a GPU.
 *
 * Addresses are those of the process; an allocation is a memfd, so that other processes can open
 * it. What a stream is given is queued, and done when an event or the stream is asked for the
 * second time: whoever does not wait for the end finds that out. */
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "device/copy_kernel.h"

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
static bool started;
static __thread CUcontext current;

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

static CUresult fake_MemAlloc(CUdeviceptr *ret, size_t bytes)
{
    struct allocation *allocation;

    if (current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (memory_new(bytes, &allocation) != CUDA_SUCCESS || !allocation_map(allocation, NULL))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (uintptr_t)allocation->base;
    return CUDA_SUCCESS;
}

static CUresult fake_MemFree(CUdeviceptr address)
{
    struct allocation *allocation = allocation_at(address);

    if (allocation == NULL || (uintptr_t)allocation->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    allocation_end(allocation);
    return CUDA_SUCCESS;
}

static CUresult fake_MemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
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

static CUresult fake_MemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
                                                 CUmemRangeHandleType type,
                                                 unsigned long long flags)
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

static CUresult fake_PointerGetAttribute(void *data, CUpointer_attribute attribute,
                                         CUdeviceptr address)
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

static CUresult fake_IpcGetMemHandle(CUipcMemHandle *ret, CUdeviceptr address)
{
    const struct allocation *allocation = allocation_at(address);
    struct handle handle = {.mark = HANDLE_MARK, .pid = getpid()};

    if (allocation == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    handle.bytes = allocation->bytes;
    handle.fd = allocation->fd;
    memset(ret, 0, sizeof(*ret));
    memcpy(ret, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

static CUresult fake_IpcOpenMemHandle(CUdeviceptr *ret, CUipcMemHandle opaque, unsigned flags)
{
    struct handle handle;
    struct allocation *allocation;
    char path[64];
    FILE *file;

    (void)flags;
    memcpy(&handle, &opaque, sizeof(handle));
    if (current == NULL)
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

static CUresult fake_IpcCloseMemHandle(CUdeviceptr address)
{
    return fake_MemFree(address);
}

/* ---- VMM ----------------------------------------------------------------------------------- */

static CUresult fake_MemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *properties,
                                                 CUmemAllocationGranularity_flags option)
{
    (void)properties, (void)option;
    *ret = GRAIN;
    return CUDA_SUCCESS;
}

static CUresult fake_MemCreate(CUmemGenericAllocationHandle *ret, size_t bytes,
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

static CUresult fake_MemRelease(CUmemGenericAllocationHandle handle)
{
    allocation_end((struct allocation *)(uintptr_t)handle);
    return CUDA_SUCCESS;
}

static CUresult fake_MemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *address)
{
    struct allocation *allocation = allocation_at((uintptr_t)address);

    if (allocation == NULL || !allocation->vmm)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (uintptr_t)allocation_new(dup(allocation->fd), allocation->bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle handle,
                                                CUmemAllocationHandleType type,
                                                unsigned long long flags)
{
    (void)type, (void)flags;
    *(int *)ret = dup(((struct allocation *)(uintptr_t)handle)->fd);
    return CUDA_SUCCESS;
}

static CUresult fake_MemImportFromShareableHandle(CUmemGenericAllocationHandle *ret, void *os,
                                                  CUmemAllocationHandleType type)
{
    off_t bytes = lseek((int)(intptr_t)os, 0, SEEK_END);

    (void)type;
    if (bytes <= 0 || (size_t)bytes % GRAIN != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (uintptr_t)allocation_new(dup((int)(intptr_t)os), (size_t)bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_MemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t alignment,
                                       CUdeviceptr address, unsigned long long flags)
{
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)alignment, (void)address, (void)flags;
    *ret = (uintptr_t)base;
    return base != MAP_FAILED && bytes % GRAIN == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemAddressFree(CUdeviceptr address, size_t bytes)
{
    return munmap((void *)(uintptr_t)address, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct allocation *allocation = (struct allocation *)(uintptr_t)handle;

    (void)flags;
    if (offset != 0 || bytes > allocation->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return allocation_map(allocation, (uint8_t *)(uintptr_t)address) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemUnmap(CUdeviceptr address, size_t bytes)
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

static CUresult fake_MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
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

static CUresult fake_MemHostRegister(void *base, size_t bytes, unsigned flags)
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

static CUresult fake_MemHostUnregister(void *base)
{
    for (int i = 0; i < 64; i++) {
        if (pinned[i].base != base)
            continue;
        pinned[i].base = NULL;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool is_pinned(const uint8_t *base, size_t bytes)
{
    for (int i = 0; i < 64; i++)
        if (pinned[i].base != NULL && base >= pinned[i].base &&
            base + bytes <= pinned[i].base + pinned[i].bytes)
            return true;
    return false;
}

static CUresult fake_MemHostGetDevicePointer(CUdeviceptr *ret, void *base, unsigned flags)
{
    (void)flags;
    *ret = (uintptr_t)base;
    return is_pinned(base, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- streams ------------------------------------------------------------------------------- */

struct work {
    struct work *next;
    struct kvr_copy_piece piece;
    CUhostFn host;
    void *data;
    uint64_t *word, value;
    struct CUevent_st *event;
};

struct CUstream_st {
    struct work *first, *last;
};

struct CUevent_st {
    struct CUstream_st *stream; /* it was recorded there and not reached; NULL */
    bool asked;
};

static bool mapped(uint64_t address, uint64_t bytes)
{
    const struct allocation *allocation = allocation_at(address);

    return bytes == 0 || (allocation != NULL &&
                          address - (uintptr_t)allocation->base + bytes <= allocation->bytes);
}

static CUresult queue(CUstream stream, const struct work *work)
{
    struct work *copy = malloc(sizeof(*copy));

    if (current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *copy = *work;
    copy->next = NULL;
    if (stream->last != NULL)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    return CUDA_SUCCESS;
}

static void run(CUstream stream)
{
    while (stream->first != NULL) {
        struct work *work = stream->first;

        stream->first = work->next;
        if (work->next == NULL)
            stream->last = NULL;
        if (work->host != NULL)
            work->host(work->data);
        else if (work->word != NULL)
            __atomic_store_n(work->word, work->value, __ATOMIC_SEQ_CST);
        else if (work->event != NULL)
            work->event->stream = NULL;
        else
            memcpy((void *)(uintptr_t)work->piece.to, (const void *)(uintptr_t)work->piece.from,
                   work->piece.bytes);
        free(work);
    }
}

static CUresult fake_StreamCreate(CUstream *ret, unsigned flags)
{
    (void)flags;
    *ret = calloc(1, sizeof(**ret));
    return current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult fake_StreamSynchronize(CUstream stream)
{
    run(stream);
    return CUDA_SUCCESS;
}

static CUresult fake_StreamDestroy(CUstream stream)
{
    run(stream);
    free(stream);
    return CUDA_SUCCESS;
}

static CUresult fake_MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream)
{
    struct work work = {.piece = {.from = (uintptr_t)from, .to = to, .bytes = bytes}};

    return mapped(to, bytes) ? queue(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    struct work work = {.piece = {.from = from, .to = (uintptr_t)to, .bytes = bytes}};

    return mapped(from, bytes) ? queue(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_StreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    (void)stream;
    *ret = getenv("FAKE_CUDA_CAPTURING") != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                 : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult fake_StreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags)
{
    struct work work = {.word = (uint64_t *)(uintptr_t)address, .value = value};

    (void)flags;
    if (getenv("FAKE_CUDA_NO_MEMORY_OPERATIONS") != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    return queue(stream, &work);
}

static CUresult fake_StreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                       unsigned flags)
{
    (void)flags;
    run(stream);
    while (__atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_SEQ_CST) < value)
        usleep(100);
    return CUDA_SUCCESS;
}

static CUresult fake_LaunchHostFunc(CUstream stream, CUhostFn host, void *data)
{
    struct work work = {.host = host, .data = data};

    return queue(stream, &work);
}

static CUresult fake_EventCreate(CUevent *ret, unsigned flags)
{
    (void)flags;
    *ret = calloc(1, sizeof(**ret));
    return CUDA_SUCCESS;
}

static CUresult fake_EventRecord(CUevent event, CUstream stream)
{
    struct work work = {.event = event};

    event->stream = stream;
    event->asked = false;
    return queue(stream, &work);
}

static CUresult fake_EventQuery(CUevent event)
{
    if (event->stream == NULL)
        return CUDA_SUCCESS;
    if (event->asked)
        run(event->stream);
    event->asked = true;
    return event->stream == NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult fake_EventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

/* ---- the kernel ---------------------------------------------------------------------------- */

static CUresult fake_ModuleLoadDataEx(CUmodule *ret, const void *image, unsigned count,
                                      CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    if (*(const uint32_t *)image != 0xba55ed50) /* a fat binary begins so */
        return CUDA_ERROR_INVALID_IMAGE;
    *ret = (CUmodule)(uintptr_t)1;
    return CUDA_SUCCESS;
}

static CUresult fake_ModuleUnload(CUmodule module)
{
    return module == (CUmodule)(uintptr_t)1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_ModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
    (void)module;
    *ret = (CUfunction)(uintptr_t)2;
    return strcmp(name, KVR_COPY_KERNEL) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult fake_LaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                                  unsigned threads, unsigned threads_y, unsigned threads_z,
                                  unsigned shared, CUstream stream, void **arguments, void **extra)
{
    const struct kvr_copy_piece *pieces =
        (const struct kvr_copy_piece *)(uintptr_t) * (CUdeviceptr *)arguments[0];
    uint32_t count = *(uint32_t *)arguments[1];

    (void)function, (void)threads_y, (void)threads_z, (void)shared, (void)extra;
    if (x == 0 || y == 0 || z != 1 || threads != KVR_COPY_THREADS ||
        !is_pinned((const uint8_t *)pieces, count * sizeof(*pieces)))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < count; i++) {
        struct work work = {.piece = pieces[i]};

        /* One end is the GPU's, the other pinned. */
        if (!(mapped(pieces[i].from, pieces[i].bytes) &&
              is_pinned((uint8_t *)(uintptr_t)pieces[i].to, pieces[i].bytes)) &&
            !(mapped(pieces[i].to, pieces[i].bytes) &&
              is_pinned((uint8_t *)(uintptr_t)pieces[i].from, pieces[i].bytes)))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (queue(stream, &work) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    return CUDA_SUCCESS;
}

/* ---- the driver ---------------------------------------------------------------------------- */

static CUresult fake_Init(unsigned flags)
{
    started = true;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_DriverGetVersion(int *ret)
{
    *ret = 12040;
    return CUDA_SUCCESS;
}

static CUresult fake_GetErrorName(CUresult code, const char **ret)
{
    *ret = code == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

static CUresult fake_GetErrorString(CUresult code, const char **ret)
{
    (void)code;
    *ret = "as the fake driver says";
    return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetCount(int *ret)
{
    *ret = getenv("FAKE_CUDA_NO_GPU") == NULL ? 1 : 0;
    return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult fake_DeviceGet(CUdevice *ret, int ordinal)
{
    *ret = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult fake_DeviceGetName(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "fake GPU");
    return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetPCIBusId(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "0000:00:00.0");
    return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetAttribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *ret = 1;
    return CUDA_SUCCESS;
}

static CUresult fake_DevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
    (void)device;
    *ret = (CUcontext)(uintptr_t)3;
    return CUDA_SUCCESS;
}

static CUresult fake_DevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

static CUresult fake_CtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

static CUresult fake_CtxGetCurrent(CUcontext *ret)
{
    *ret = current;
    return CUDA_SUCCESS;
}

/* ---- by name ------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) CUresult
fake_get(const char *symbol, void **ret, int version, cuuint64_t flags,
         CUdriverProcAddressQueryResult *found) __asm__("cuGetProcAddress_v2");

CUresult fake_get(const char *symbol, void **ret, int version, cuuint64_t flags,
                  CUdriverProcAddressQueryResult *found)
{
    (void)flags;
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
#define X(name, of)                                                                                \
    if (strcmp(symbol, "cu" #name) == 0 && version == (of)) {                                      \
        PFN_cu##name##_v##of function = fake_##name;                                               \
        *ret = (void *)function;                                                                   \
        return CUDA_SUCCESS;                                                                       \
    }
    KVR_CUDA_LIST(X)
#undef X
    *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_ERROR_NOT_FOUND;
}
