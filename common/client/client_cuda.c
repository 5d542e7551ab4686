/* Device memory as a region: what another process needs to open it, from a device pointer. */
#include "client/client.h"

#include <string.h>
#include <unistd.h>

#define WHERE           "kvrail"
#define HOST_PAGE_BYTES 4096u

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

/* Of VMM, as PyTorch's expandable segments are: the allocation that is mapped there. */
static kvr_status export_vmm(const struct kvr_cuda *cuda, CUmemGenericAllocationHandle allocation,
                             struct kvrail_region *region, struct kvr_error *error)
{
    int fd = -1;
    kvr_status status = kvr_cuda_check(
        cuda,
        cuda->MemExportToShareableHandle(&fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0),
        error, "a descriptor of a VMM allocation (was it made with POSIX descriptors allowed?)");

    if (status == KVR_OK) {
        region->memory = KVRAIL_MEMORY_CUDA_VMM;
        region->fd = fd;
    }
    return status;
}

static kvr_status export_ipc(const struct kvr_cuda *cuda, CUdeviceptr base,
                             struct kvrail_region *region, struct kvr_error *error)
{
    CUipcMemHandle handle;
    kvr_status status = kvr_cuda_check(cuda, cuda->IpcGetMemHandle(&handle, base), error,
                                       "a CUDA IPC handle of device memory (a memory pool, as of "
                                       "cudaMallocAsync, has none: take cudaMalloc's or VMM's)");

    if (status == KVR_OK) {
        region->memory = KVRAIL_MEMORY_CUDA_IPC;
        region->fd = -1;
        memcpy(region->ipc, &handle, sizeof(region->ipc));
    }
    return status;
}

/* The allocation that the region lies in, and its GPU in region->device. */
static kvr_status find_allocation(const struct kvr_cuda *cuda, struct kvrail_region *region,
                                  CUdeviceptr address, CUdeviceptr *ret_base,
                                  struct kvr_error *error)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    int device = -1;
    kvr_status status =
        kvr_cuda_check(cuda, cuda->MemGetAddressRange(&base, &bytes, address), error,
                       "the allocation of a device pointer (is a context current "
                       "in this thread?)");

    if (status == KVR_OK)
        status = kvr_cuda_check(
            cuda, cuda->PointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
            error, "the GPU of a device pointer");
    if (status != KVR_OK)
        return status;
    if (region->bytes == 0 || region->bytes > bytes - (address - base))
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "a region of %llu bytes at byte %llu of an allocation of %zu: what "
                             "lies in several allocations is several regions",
                             (unsigned long long)region->bytes,
                             (unsigned long long)(address - base), bytes);
    region->device = device;
    *ret_base = base;
    return KVR_OK;
}

static kvr_status export_region(struct kvrail_region *region, CUdeviceptr address,
                                struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUmemGenericAllocationHandle allocation;
    CUdeviceptr base = 0;
    int by_ipc = 0;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = find_allocation(cuda, region, address, &base, error);
    if (status != KVR_OK)
        return status;
    region->fd_offset = address - base;
    (void)cuda->PointerGetAttribute(&by_ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                    address);
    if (by_ipc != 0 ||
        cuda->MemRetainAllocationHandle(&allocation, (void *)(uintptr_t)address) != CUDA_SUCCESS)
        return export_ipc(cuda, base, region, error);
    status = export_vmm(cuda, allocation, region, error);
    (void)cuda->MemRelease(allocation);
    return status;
}

/* Of whole pages of the host, which the descriptor begins with. */
static kvr_status export_dmabuf(struct kvrail_region *region, CUdeviceptr address,
                                struct kvr_error *error)
{
    uint64_t bytes = (region->bytes + HOST_PAGE_BYTES - 1) / HOST_PAGE_BYTES * HOST_PAGE_BYTES;
    const struct kvr_cuda *cuda;
    CUdeviceptr base = 0;
    int fd = -1;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = find_allocation(cuda, region, address, &base, error);
    if (status != KVR_OK)
        return status;
    if (address % HOST_PAGE_BYTES != 0)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "a dmabuf is of whole pages: a region of device memory has to begin "
                             "at a multiple of %u bytes",
                             HOST_PAGE_BYTES);
    status =
        kvr_cuda_check(cuda,
                       cuda->MemGetHandleForAddressRange(&fd, address, bytes,
                                                         CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                       error, "a dmabuf of device memory (does the kernel's driver give any?)");
    if (status != KVR_OK)
        return status;
    region->memory = KVRAIL_MEMORY_DMABUF;
    region->fd = fd;
    region->fd_offset = 0;
    return KVR_OK;
}

#else

static kvr_status export_region(struct kvrail_region *region, uint64_t address,
                                struct kvr_error *error)
{
    (void)region, (void)address;
    return kvr_error_set(error, KVR_UNSUPPORTED, WHERE, CLIENT_NO_CUDA);
}

static kvr_status export_dmabuf(struct kvrail_region *region, uint64_t address,
                                struct kvr_error *error)
{
    return export_region(region, address, error);
}

#endif

kvrail_status kvrail_region_of_device(struct kvrail_region *region, uint64_t address,
                                      struct kvrail_error *error)
{
    struct kvr_error reason;

    return export_region(region, address, &reason) == KVR_OK ? KVRAIL_OK
                                                             : client_tell(error, &reason);
}

kvrail_status kvrail_region_dmabuf_of_device(struct kvrail_region *region, uint64_t address,
                                             struct kvrail_error *error)
{
    struct kvr_error reason;

    return export_dmabuf(region, address, &reason) == KVR_OK ? KVRAIL_OK
                                                             : client_tell(error, &reason);
}
