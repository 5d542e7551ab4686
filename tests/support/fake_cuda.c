/* The driver itself: devices, contexts, and its functions by name. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_cuda_memory.h"

#define GPUS_MAX 8
#define PRIMARY  3 /* the context of device 0 */

__thread bool fake_in_host_function;
static __thread CUcontext current;
static _Atomic pid_t started_by;
static _Atomic int retained[GPUS_MAX];
static _Atomic unsigned retains;
static _Atomic CUresult broken;

/* ---- GPUs ---------------------------------------------------------------------------------- */

static int machine_count(void)
{
    const char *count = getenv("FAKE_CUDA_GPUS");

    if (getenv("FAKE_CUDA_NO_GPU") != NULL)
        return 0;
    return count != NULL ? atoi(count) : 1;
}

int fake_gpu(CUdevice device)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");

    if (device < 0 || device >= GPUS_MAX)
        return -1;
    if (at == NULL)
        return device < machine_count() ? device : -1;
    for (; device > 0 && at != NULL; device--)
        at = (at = strchr(at, ',')) != NULL ? at + 1 : NULL;
    return at != NULL && *at >= '0' && atoi(at) < machine_count() ? atoi(at) : -1;
}

static int visible_count(void)
{
    int count = 0;

    while (fake_gpu(count) >= 0)
        count++;
    return count;
}

CUdevice fake_device(int gpu)
{
    for (CUdevice device = 0; device < visible_count(); device++)
        if (fake_gpu(device) == gpu)
            return device;
    return -1;
}

CUdevice fake_current_device(void)
{
    return (CUdevice)((uintptr_t)current - PRIMARY);
}

/* ---- start --------------------------------------------------------------------------------- */

CUresult fake_started(void)
{
    if (fake_in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    return started_by == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult fake_ready(void)
{
    CUresult code = fake_started();

    if (code != CUDA_SUCCESS)
        return code;
    return current != NULL && retained[fake_current_device()] > 0 ? broken
                                                                  : CUDA_ERROR_INVALID_CONTEXT;
}

void fake_break(CUresult code)
{
    broken = code;
}

/* A process that was forked from one that had started it cannot. */
CUresult fake_Init(unsigned flags)
{
    if (started_by != 0 && started_by != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    started_by = getpid();
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_DriverGetVersion(int *ret)
{
    *ret = getenv("FAKE_CUDA_NO_BATCH") != NULL ? 12040 : 12080;
    return CUDA_SUCCESS;
}

CUresult fake_GetErrorName(CUresult code, const char **ret)
{
    *ret = code == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

CUresult fake_GetErrorString(CUresult code, const char **ret)
{
    (void)code;
    *ret = "as the fake driver says";
    return CUDA_SUCCESS;
}

CUresult fake_DeviceGetCount(int *ret)
{
    *ret = visible_count();
    return fake_started();
}

CUresult fake_DeviceGet(CUdevice *ret, int ordinal)
{
    *ret = ordinal;
    return fake_gpu(ordinal) >= 0 ? fake_started() : CUDA_ERROR_INVALID_DEVICE;
}

CUresult fake_DeviceGetName(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "fake GPU");
    return CUDA_SUCCESS;
}

/* In capital letters, which the kernel does not use. */
CUresult fake_DeviceGetPCIBusId(char *name, int bytes, CUdevice device)
{
    if (fake_gpu(device) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    return snprintf(name, (size_t)bytes, "0000:%02X:00.0", 0x9a + fake_gpu(device)) < bytes
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_DeviceGetUuid(CUuuid *ret, CUdevice device)
{
    if (fake_gpu(device) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    memset(ret->bytes, 0x5a, sizeof(ret->bytes));
    ret->bytes[0] = (char)fake_gpu(device);
    return CUDA_SUCCESS;
}

/* FAKE_CUDA_FLUSHES: streams flush too. */
static int flush_options(void)
{
    const char *options = getenv("FAKE_CUDA_FLUSH_OPTIONS");

    if (options != NULL)
        return atoi(options);
    return CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST |
           (getenv("FAKE_CUDA_FLUSHES") != NULL ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS
                                                : 0);
}

static int write_ordering(void)
{
    const char *ordering = getenv("FAKE_CUDA_ORDERING");

    return ordering != NULL ? atoi(ordering) : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
}

CUresult fake_FlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                       CUflushGPUDirectRDMAWritesScope scope)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flush_options() & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) == 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    return getenv("FAKE_CUDA_NO_FLUSH_NOW") != NULL ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

/* FAKE_CUDA_MPS: 1, or "unknown" as an older driver answers. */
static CUresult mps(int *ret)
{
    const char *enabled = getenv("FAKE_CUDA_MPS");

    *ret = enabled != NULL && *enabled == '1';
    return enabled != NULL && strcmp(enabled, "unknown") == 0 ? CUDA_ERROR_INVALID_VALUE
                                                              : fake_started();
}

/* Of a GPU behind PCIe. Functions that are not listed here have no caller yet. */
CUresult fake_DeviceGetAttribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    if ((int)attribute == 133) /* MPS_ENABLED, which older headers lack */
        return mps(ret);
    if (attribute == CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES)
        *ret = getenv("FAKE_CUDA_FLUSHES") != NULL;
    else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)
        *ret = write_ordering();
    else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)
        *ret = flush_options();
    else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)
        *ret = getenv("FAKE_CUDA_NO_RDMA") == NULL;
    else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
        *ret = getenv("FAKE_CUDA_NO_RDMA") == NULL && getenv("FAKE_CUDA_NO_VMM_RDMA") == NULL;
    else if (attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
        *ret = getenv("FAKE_CUDA_NO_DMABUF") == NULL;
    else if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        *ret = 4;
    else if (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)
        *ret = !fake_other_addresses();
    else
        return CUDA_ERROR_INVALID_VALUE;
    return fake_started();
}

CUresult fake_DevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
    CUresult code = fake_started();

    if (code != CUDA_SUCCESS)
        return code;
    if (fake_gpu(device) < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    retained[device]++;
    retains++;
    *ret = (CUcontext)(uintptr_t)(PRIMARY + (unsigned)device);
    return CUDA_SUCCESS;
}

__attribute__((visibility("default"))) int fake_cuda_contexts(CUdevice device)
{
    return retained[device];
}

__attribute__((visibility("default"))) unsigned fake_cuda_retains(void)
{
    return retains;
}

static bool any_retained(void)
{
    for (int i = 0; i < GPUS_MAX; i++)
        if (retained[i] > 0)
            return true;
    return false;
}

/* With the last one go its memory and what it pinned, but for VMM allocations. */
CUresult fake_DevicePrimaryCtxRelease(CUdevice device)
{
    if (fake_gpu(device) < 0 || retained[device] == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--retained[device] == 0) {
        fake_memory_end(device);
        broken = CUDA_SUCCESS;
    }
    if (!any_retained())
        fake_pinned_end();
    return fake_started();
}

CUresult fake_CtxSetCurrent(CUcontext context)
{
    CUdevice device = (CUdevice)((uintptr_t)context - PRIMARY);
    CUresult code = fake_started();

    if (code != CUDA_SUCCESS)
        return code;
    if (context != NULL && (fake_gpu(device) < 0 || retained[device] == 0))
        return CUDA_ERROR_INVALID_CONTEXT;
    current = context;
    return CUDA_SUCCESS;
}

CUresult fake_CtxGetCurrent(CUcontext *ret)
{
    *ret = current;
    return fake_started();
}

CUresult fake_CtxGetDevice(CUdevice *ret)
{
    CUresult code = fake_ready();

    if (code == CUDA_SUCCESS)
        *ret = fake_current_device();
    return code;
}

/* ---- by name ------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) CUresult
fake_get(const char *symbol, void **ret, int version, cuuint64_t flags,
         CUdriverProcAddressQueryResult *found) __asm__("cuGetProcAddress_v2");

CUresult fake_get(const char *symbol, void **ret, int version, cuuint64_t flags,
                  CUdriverProcAddressQueryResult *found)
{
    bool old = getenv("FAKE_CUDA_NO_BATCH") != NULL && version == 12080;

    (void)flags;
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
#define X(name, of)                                                                                \
    if (strcmp(symbol, "cu" #name) == 0 && version == (of) && !old) {                              \
        PFN_cu##name##_v##of function = fake_##name;                                               \
        *ret = (void *)function;                                                                   \
        return CUDA_SUCCESS;                                                                       \
    }
    FAKE_CUDA_LIST(X)
#undef X
    *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_ERROR_NOT_FOUND;
}
