/* The driver itself: devices, contexts, and its functions by name. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_cuda_memory.h"

#define PRIMARY ((CUcontext)(uintptr_t)3)

__thread bool fake_in_host_function;
static __thread CUcontext current;
static _Atomic pid_t started_by;
static _Atomic int retained;
static _Atomic CUresult broken;

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
    return current != NULL && retained > 0 ? broken : CUDA_ERROR_INVALID_CONTEXT;
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
    *ret = 12040;
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
    *ret = getenv("FAKE_CUDA_NO_GPU") == NULL ? 1 : 0;
    return fake_started();
}

CUresult fake_DeviceGet(CUdevice *ret, int ordinal)
{
    *ret = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult fake_DeviceGetName(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "fake GPU");
    return CUDA_SUCCESS;
}

CUresult fake_DeviceGetPCIBusId(char *name, int bytes, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "0000:00:00.0");
    return CUDA_SUCCESS;
}

/* Of a GPU behind PCIe. Functions that are not listed here have no caller yet. */
CUresult fake_DeviceGetAttribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    if (attribute == CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES)
        *ret = getenv("FAKE_CUDA_FLUSHES") != NULL;
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
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    retained++;
    *ret = PRIMARY;
    return CUDA_SUCCESS;
}

/* With the last one go its memory and what it pinned, but for VMM allocations. */
CUresult fake_DevicePrimaryCtxRelease(CUdevice device)
{
    if (device != 0 || retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--retained == 0) {
        fake_memory_end();
        broken = CUDA_SUCCESS;
    }
    return fake_started();
}

CUresult fake_CtxSetCurrent(CUcontext context)
{
    CUresult code = fake_started();

    if (code != CUDA_SUCCESS)
        return code;
    if (context != NULL && (context != PRIMARY || retained == 0))
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
    *ret = 0;
    return fake_ready();
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
