/* The driver itself: devices, contexts, and its functions by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda.h"

__thread CUcontext fake_context;
static bool started;

CUresult fake_Init(unsigned flags)
{
    started = true;
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
    return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
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

CUresult fake_DeviceGetAttribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *ret = 1;
    return CUDA_SUCCESS;
}

CUresult fake_DevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
    (void)device;
    *ret = (CUcontext)(uintptr_t)3;
    return CUDA_SUCCESS;
}

CUresult fake_DevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

CUresult fake_CtxSetCurrent(CUcontext context)
{
    fake_context = context;
    return CUDA_SUCCESS;
}

CUresult fake_CtxGetCurrent(CUcontext *ret)
{
    *ret = fake_context;
    return CUDA_SUCCESS;
}

CUresult fake_CtxGetDevice(CUdevice *ret)
{
    *ret = 0;
    return fake_context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
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
