/* NVIDIA's driver, found when it is needed: libcuda.so.1 is opened at run time, so that one binary
 * serves hosts with and without a GPU. Only where the build has a CUDA toolkit's headers
 * (KVRAIL_HAVE_CUDA); no other file includes this. */
#ifndef KVR_BASE_CUDA_DRIVER_H
#define KVR_BASE_CUDA_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "base/status.h"
#include "base/types.h"

/* X(function without "cu", the API version that has this form of it) */
#define KVR_CUDA_LIST(X)                                                                           \
    X(Init, 2000)                                                                                  \
    X(DriverGetVersion, 2020)                                                                      \
    X(GetErrorName, 6000)                                                                          \
    X(GetErrorString, 6000)                                                                        \
    X(DeviceGetCount, 2000)                                                                        \
    X(DeviceGet, 2000)                                                                             \
    X(DeviceGetName, 2000)                                                                         \
    X(DeviceGetAttribute, 2000)                                                                    \
    X(DeviceGetPCIBusId, 4010)                                                                     \
    X(DeviceGetUuid, 11040)                                                                        \
    X(DevicePrimaryCtxRetain, 7000)                                                                \
    X(DevicePrimaryCtxRelease, 11000)                                                              \
    X(CtxSetCurrent, 4000)                                                                         \
    X(CtxGetCurrent, 4000)                                                                         \
    X(CtxGetDevice, 2000)                                                                          \
    X(MemAlloc, 3020)                                                                              \
    X(MemFree, 3020)                                                                               \
    X(MemGetAddressRange, 3020)                                                                    \
    X(MemGetHandleForAddressRange, 11070)                                                          \
    X(FlushGPUDirectRDMAWrites, 11030)                                                             \
    X(PointerGetAttribute, 4000)                                                                   \
    X(MemHostRegister, 6050)                                                                       \
    X(MemHostUnregister, 4000)                                                                     \
    X(MemHostGetDevicePointer, 3020)                                                               \
    X(MemcpyHtoDAsync, 3020)                                                                       \
    X(MemcpyDtoHAsync, 3020)                                                                       \
    X(MemcpyDtoDAsync, 3020)                                                                       \
    X(IpcGetMemHandle, 4010)                                                                       \
    X(IpcOpenMemHandle, 11000)                                                                     \
    X(IpcCloseMemHandle, 4010)                                                                     \
    X(MemGetAllocationGranularity, 10020)                                                          \
    X(MemCreate, 10020)                                                                            \
    X(MemRelease, 10020)                                                                           \
    X(MemRetainAllocationHandle, 11000)                                                            \
    X(MemExportToShareableHandle, 10020)                                                           \
    X(MemImportFromShareableHandle, 10020)                                                         \
    X(MemAddressReserve, 10020)                                                                    \
    X(MemAddressFree, 10020)                                                                       \
    X(MemMap, 10020)                                                                               \
    X(MemUnmap, 10020)                                                                             \
    X(MemSetAccess, 10020)                                                                         \
    X(StreamCreate, 2000)                                                                          \
    X(StreamDestroy, 4000)                                                                         \
    X(StreamSynchronize, 2000)                                                                     \
    X(StreamWaitEvent, 3020)                                                                       \
    X(StreamIsCapturing, 10000)                                                                    \
    X(StreamWriteValue64, 11070)                                                                   \
    X(StreamWaitValue64, 11070)                                                                    \
    X(LaunchHostFunc, 10000)                                                                       \
    X(EventCreate, 2000)                                                                           \
    X(EventRecord, 2000)                                                                           \
    X(EventQuery, 2000)                                                                            \
    X(EventDestroy, 4000)                                                                          \
    X(ModuleLoadDataEx, 2010)                                                                      \
    X(ModuleUnload, 2000)                                                                          \
    X(ModuleGetFunction, 2000)                                                                     \
    X(LaunchKernel, 4000)

/* The same for functions that later drivers have; NULL elsewhere. */
#if CUDA_VERSION >= 12080
#define KVR_CUDA_LATER_LIST(X) X(MemcpyBatchAsync, 12080)
#else
#define KVR_CUDA_LATER_LIST(X)
#endif

struct kvr_cuda {
#define X(name, version) PFN_cu##name##_v##version name;
    KVR_CUDA_LIST(X)
    KVR_CUDA_LATER_LIST(X)
#undef X
    int version; /* of the driver's API: 12040 */
    int device_count;
};

/* The driver, started once for the process and never let go. UNSUPPORTED with a sentence that says
 * what this host lacks: no driver, an old one, no GPU. Any thread. */
KVR_MUST_CHECK kvr_status kvr_cuda_open(const struct kvr_cuda **ret_cuda, struct kvr_error *error);

/* Fills *error with `what` and the driver's own words, unless code is CUDA_SUCCESS. */
kvr_status kvr_cuda_check(const struct kvr_cuda *cuda, CUresult code, struct kvr_error *error,
                          const char *what);

/* The GPU of an ordinal of this process. */
KVR_MUST_CHECK kvr_status kvr_cuda_gpu(const struct kvr_cuda *cuda, int32_t ordinal,
                                       struct kvr_gpu *ret_gpu, struct kvr_error *error);
/* The ordinal of that GPU in this process. INVALID, with a sentence: this process does not see it.
 */
KVR_MUST_CHECK kvr_status kvr_cuda_ordinal(const struct kvr_cuda *cuda, const struct kvr_gpu *gpu,
                                           int32_t *ret_ordinal, struct kvr_error *error);

/* This process shares the GPU by MPS: its kernels run beside those of the other clients. False
 * where the driver is too old to know. Without MPS only one process's kernels run at a time. */
bool kvr_cuda_mps(const struct kvr_cuda *cuda, CUdevice device);

/* The order of writes of cards to that GPU's memory, for work of the GPU itself. */
kvr_write_order kvr_cuda_write_order(const struct kvr_cuda *cuda, CUdevice device);
/* Makes what cards have written visible to the GPU of the current context. */
KVR_MUST_CHECK kvr_status kvr_cuda_flush_writes(const struct kvr_cuda *cuda,
                                                struct kvr_error *error);

/* Of a VMM allocation that other processes can open by a POSIX descriptor, and that cards can reach
 * where the GPU supports that. */
CUmemAllocationProp kvr_cuda_shareable(const struct kvr_cuda *cuda, CUdevice device);
/* Sets the granularity of such allocations. */
KVR_MUST_CHECK kvr_status kvr_cuda_granularity(const struct kvr_cuda *cuda, CUdevice device,
                                               size_t *ret_bytes, struct kvr_error *error);

/* A dmabuf of the whole pages of the host in which [address, address + bytes) lies; those are of
 * 64 KiB on some hosts. The address is at *ret_offset of the dmabuf. The caller closes it. */
KVR_MUST_CHECK kvr_status kvr_cuda_dmabuf(const struct kvr_cuda *cuda, CUdeviceptr address,
                                          uint64_t bytes, const char *what, int *ret_fd,
                                          uint64_t *ret_offset, struct kvr_error *error);

#endif
