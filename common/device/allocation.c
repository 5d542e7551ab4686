#include "device/allocation.h"

#include <string.h>
#include <unistd.h>

#include "base/memfd.h"

#define EMULATED_GRAIN (64u << 10)

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

static kvr_status grain_cuda(const struct kvr_device *device, uint64_t *ret_grain,
                             struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    size_t grain = 0;

    KVR_TRY(kvr_cuda_open(&cuda, error));
    KVR_TRY(kvr_cuda_granularity(cuda, device->ordinal, &grain, error));
    *ret_grain = grain;
    return KVR_OK;
}

/* Afterwards the descriptor alone keeps the memory. */
static kvr_status create_vmm(const struct kvr_device *device, uint64_t bytes, int *ret_fd,
                             struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp wanted;
    kvr_status status;

    KVR_TRY(kvr_cuda_open(&cuda, error));
    wanted = kvr_cuda_shareable(cuda, device->ordinal);
    KVR_TRY(
        kvr_cuda_check(cuda, cuda->MemCreate(&handle, bytes, &wanted, 0), error, "device memory"));
    status = kvr_cuda_check(cuda,
                            cuda->MemExportToShareableHandle(
                                ret_fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                            error, "a descriptor of device memory");
    (void)cuda->MemRelease(handle);
    return status;
}

static kvr_status open_vmm(const struct kvr_device *device, uint64_t bytes,
                           struct kvr_allocation *allocation, struct kvr_error *error)
{
    uint64_t grain = 1;

    KVR_TRY(grain_cuda(device, &grain, error));
    KVR_TRY(create_vmm(device, (bytes + grain - 1) / grain * grain, &allocation->import.fd, error));
    allocation->import.kind = KVR_DEVICE_VMM;
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

    if (allocation->import.kind == KVR_DEVICE_MAPPED && kvr_cuda_open(&cuda, NULL) == KVR_OK)
        (void)cuda->MemFree((uintptr_t)allocation->import.address);
}

#else

static kvr_status open_cuda(const struct kvr_device *device, uint64_t bytes,
                            struct kvr_allocation *allocation, struct kvr_error *error)
{
    (void)device, (void)bytes, (void)allocation;
    return kvr_error_set(error, KVR_UNSUPPORTED, "device", "a build without CUDA has no GPU");
}

static kvr_status grain_cuda(const struct kvr_device *device, uint64_t *ret_grain,
                             struct kvr_error *error)
{
    (void)ret_grain;
    return open_cuda(device, 0, NULL, error);
}

static kvr_status create_vmm(const struct kvr_device *device, uint64_t bytes, int *ret_fd,
                             struct kvr_error *error)
{
    (void)ret_fd;
    return open_cuda(device, bytes, NULL, error);
}

static void release_cuda(const struct kvr_allocation *allocation)
{
    (void)allocation;
}

#endif

static bool is_cuda(const struct kvr_device *device)
{
    return strcmp(device->ops->name, "cuda") == 0;
}

kvr_status kvr_allocation_open(const struct kvr_device *device, uint64_t bytes,
                               struct kvr_allocation *ret_allocation, struct kvr_error *error)
{
    struct kvr_allocation allocation = {.import = {.kind = KVR_DEVICE_MEMFD, .bytes = bytes}};
    kvr_status status;

    if (is_cuda(device))
        status = open_cuda(device, bytes, &allocation, error);
    else
        status = kvr_memfd_create("kvrail-device", bytes, "device", &allocation.import.fd, error);
    if (status == KVR_OK)
        *ret_allocation = allocation;
    return status;
}

static kvr_status create_extent(const struct kvr_device *device, uint64_t bytes, int *ret_fd,
                                struct kvr_error *error)
{
    return is_cuda(device) ? create_vmm(device, bytes, ret_fd, error)
                           : kvr_memfd_create("kvrail-device", bytes, "device", ret_fd, error);
}

kvr_status kvr_allocation_open_extents(const struct kvr_device *device, uint64_t bytes,
                                       struct kvr_allocation *ret_allocation,
                                       struct kvr_error *error)
{
    struct kvr_allocation allocation = {
        .import = {.kind = KVR_DEVICE_VMM, .fd = -1, .bytes = bytes}};
    uint64_t grain = EMULATED_GRAIN, count;
    kvr_status status = KVR_OK;

    if (is_cuda(device))
        KVR_TRY(grain_cuda(device, &grain, error));
    allocation.import.offset = grain / 2;
    count = (allocation.import.offset + bytes + grain - 1) / grain;
    if (count <= KVR_EXTENTS_MAX)
        allocation.import.extents = kvr_extents_new((uint32_t)count);
    if (allocation.import.extents == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for %llu allocations",
                             (unsigned long long)count);
    for (uint64_t i = 0; i < count && status == KVR_OK; i++) {
        int fd = -1;

        status = create_extent(device, grain, &fd, error);
        if (status == KVR_OK)
            kvr_extents_add(allocation.import.extents, fd, grain);
    }
    if (status == KVR_OK)
        *ret_allocation = allocation;
    else
        kvr_allocation_close(&allocation);
    return status;
}

void kvr_allocation_close(struct kvr_allocation *allocation)
{
    if (allocation->import.bytes == 0)
        return;
    if (allocation->import.fd >= 0)
        close(allocation->import.fd);
    kvr_extents_release(allocation->import.extents);
    release_cuda(allocation);
    *allocation = (struct kvr_allocation){.import = {.fd = -1}};
}
