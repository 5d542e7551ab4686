#include "device/allocation.h"

#include <string.h>
#include <unistd.h>

#include "base/memfd.h"

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

static kvr_status open_vmm(const struct kvr_device *device, uint64_t bytes,
                           struct kvr_allocation *allocation, struct kvr_error *error)
{
    CUmemAllocationProp wanted = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
    };
    const struct kvr_cuda *cuda;
    CUmemGenericAllocationHandle handle = 0;
    size_t grain = 1;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = kvr_cuda_check(
            cuda,
            cuda->MemGetAllocationGranularity(&grain, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            error, "the granularity of VMM allocations");
    if (status == KVR_OK)
        status = kvr_cuda_check(
            cuda, cuda->MemCreate(&handle, (bytes + grain - 1) / grain * grain, &wanted, 0), error,
            "device memory");
    if (status != KVR_OK)
        return status;
    status = kvr_cuda_check(
        cuda,
        cuda->MemExportToShareableHandle(&allocation->import.fd, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        error, "a descriptor of device memory");
    if (status != KVR_OK) {
        (void)cuda->MemRelease(handle);
        return status;
    }
    allocation->import.kind = KVR_DEVICE_VMM;
    allocation->handle = handle;
    return KVR_OK;
}

static kvr_status open_plain(uint64_t bytes, struct kvr_allocation *allocation,
                             struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUdeviceptr address = 0;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = kvr_cuda_check(cuda, cuda->MemAlloc(&address, bytes), error, "device memory");
    allocation->import.kind = KVR_DEVICE_MAPPED;
    allocation->import.address = (void *)(uintptr_t)address;
    allocation->import.fd = -1;
    return status;
}

static kvr_status open_cuda(const struct kvr_device *device, uint64_t bytes,
                            struct kvr_allocation *allocation, struct kvr_error *error)
{
    if (open_vmm(device, bytes, allocation, error) == KVR_OK)
        return KVR_OK;
    return open_plain(bytes, allocation, error);
}

static void release_cuda(const struct kvr_allocation *allocation)
{
    const struct kvr_cuda *cuda;

    if (kvr_cuda_open(&cuda, NULL) != KVR_OK)
        return;
    if (allocation->import.kind == KVR_DEVICE_VMM)
        (void)cuda->MemRelease(allocation->handle);
    else
        (void)cuda->MemFree((uintptr_t)allocation->import.address);
}

#else

static kvr_status open_cuda(const struct kvr_device *device, uint64_t bytes,
                            struct kvr_allocation *allocation, struct kvr_error *error)
{
    (void)device, (void)bytes, (void)allocation;
    return kvr_error_set(error, KVR_UNSUPPORTED, "device", "a build without CUDA has no GPU");
}

static void release_cuda(const struct kvr_allocation *allocation)
{
    (void)allocation;
}

#endif

kvr_status kvr_allocation_open(const struct kvr_device *device, uint64_t bytes,
                               struct kvr_allocation *ret_allocation, struct kvr_error *error)
{
    struct kvr_allocation allocation = {.import = {.kind = KVR_DEVICE_MEMFD, .bytes = bytes}};
    kvr_status status;

    if (strcmp(device->ops->name, "cuda") == 0)
        status = open_cuda(device, bytes, &allocation, error);
    else
        status = kvr_memfd_create("kvrail-device", bytes, "device", &allocation.import.fd, error);
    if (status == KVR_OK)
        *ret_allocation = allocation;
    return status;
}

void kvr_allocation_close(struct kvr_allocation *allocation)
{
    if (allocation->import.bytes == 0)
        return;
    if (allocation->import.fd >= 0)
        close(allocation->import.fd);
    if (allocation->import.kind != KVR_DEVICE_MEMFD)
        release_cuda(allocation);
    allocation->import.bytes = 0;
}
