/* Device memory as a region: from a device pointer to the handle that another process can open. */
#include "client/client.h"

#include <string.h>
#include <unistd.h>

#define WHERE       "kvrail"
#define ALIGN_BYTES 4096u /* of a region by dmabuf */

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"
#include "base/extents.h"

/* The VMM allocation that is mapped at an address, as in PyTorch's expandable segments. */
static kvr_status export_vmm(const struct kvr_cuda *cuda, CUmemGenericAllocationHandle allocation,
                             int *ret_fd, struct kvr_error *error)
{
    return kvr_cuda_check(
        cuda,
        cuda->MemExportToShareableHandle(ret_fd, allocation,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        error,
        "a descriptor of a VMM allocation (was it made with POSIX descriptors allowed? PyTorch: "
        "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1; vLLM: no sleep mode)");
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

/* The range that is mapped at an address; for VMM memory, of one allocation. */
static kvr_status find_allocation(const struct kvr_cuda *cuda, CUdeviceptr address,
                                  CUdeviceptr *ret_base, size_t *ret_bytes, struct kvr_error *error)
{
    return kvr_cuda_check(cuda, cuda->MemGetAddressRange(ret_base, ret_bytes, address), error,
                          "the allocation of a device pointer (is a context current "
                          "in this thread?)");
}

static kvr_status find_device(const struct kvr_cuda *cuda, CUdeviceptr address, int *ret_device,
                              struct kvr_error *error)
{
    return kvr_cuda_check(
        cuda, cuda->PointerGetAttribute(ret_device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
        error, "the GPU of a device pointer");
}

/* Finds the one GPU of the region, and counts the allocations side by side that the region lies
 * over: at least one, at most KVR_EXTENTS_MAX. */
static kvr_status walk(const struct kvr_cuda *cuda, struct kvrail_region *region,
                       CUdeviceptr address, CUdeviceptr *ret_base, struct kvr_error *error)
{
    CUdeviceptr at = address, base = 0;
    uint32_t count = 0;
    size_t bytes = 0;
    int device = -1;

    for (; count == 0 || at - address < region->bytes; at = base + bytes, count++) {
        kvr_status status = find_allocation(cuda, at, &base, &bytes, error);

        if (status != KVR_OK && count == 0)
            return status;
        if (status != KVR_OK || base + bytes <= at)
            return kvr_error_set(error, KVR_INVALID, WHERE,
                                 "a region of %llu bytes, of which the first %llu alone are device "
                                 "memory: what does not lie side by side is several regions",
                                 (unsigned long long)region->bytes,
                                 (unsigned long long)(at - address));
        if (count == 0)
            *ret_base = base;
        status = find_device(cuda, at, &device, error);
        if (status != KVR_OK)
            return status;
        if (count > 0 && device != region->device)
            return kvr_error_set(error, KVR_INVALID, WHERE,
                                 "a region on GPUs %d and %d: register a region for each GPU",
                                 region->device, device);
        if (count == KVR_EXTENTS_MAX)
            return kvr_error_set(
                error, KVR_TOO_LARGE, WHERE,
                "a region of %llu bytes lies over more than %d allocations: " KVR_EXTENTS_ADVICE,
                (unsigned long long)region->bytes, KVR_EXTENTS_MAX);
        region->device = device;
    }
    region->allocation_count = count > 1 ? count : 0;
    return KVR_OK;
}

static kvr_status find_region(const struct kvr_cuda *cuda, struct kvrail_region *region,
                              CUdeviceptr address, CUdeviceptr *ret_base, struct kvr_error *error)
{
    if (region->bytes == 0 || region->bytes > UINT64_MAX - address)
        return kvr_error_set(error, KVR_INVALID, WHERE, "a region of %llu bytes",
                             (unsigned long long)region->bytes);
    return walk(cuda, region, address, ret_base, error);
}

/* Opens no descriptor before registration: there may be thousands. */
static kvr_status export_several(struct kvrail_region *region, CUdeviceptr address, bool by_ipc,
                                 struct kvr_error *error)
{
    struct kvrail_allocation first;
    uint64_t base;
    kvr_status status;

    if (by_ipc)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "a region of %llu bytes over %u allocations of cudaMalloc: register a "
                             "region for each allocation",
                             (unsigned long long)region->bytes, region->allocation_count);
    status = client_extent_open(address, &base, &first,
                                error); /* only to see whether it can be opened */
    if (status != KVR_OK)
        return status;
    close(first.fd);
    region->memory = KVRAIL_MEMORY_CUDA_VMM;
    region->fd = -1;
    region->allocations = NULL;
    return KVR_OK;
}

static kvr_status export_region(struct kvrail_region *region, uint64_t address,
                                struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUmemGenericAllocationHandle allocation;
    CUdeviceptr base = 0;
    int by_ipc = 0;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = find_region(cuda, region, address, &base, error);
    if (status != KVR_OK)
        return status;
    region->fd_offset = address - base;
    region->address = address;
    (void)cuda->PointerGetAttribute(&by_ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                    address);
    if (region->allocation_count > 0)
        return export_several(region, address, by_ipc != 0, error);
    if (by_ipc != 0 ||
        cuda->MemRetainAllocationHandle(&allocation, (void *)(uintptr_t)address) != CUDA_SUCCESS)
        return export_ipc(cuda, base, region, error);
    status = export_vmm(cuda, allocation, &region->fd, error);
    (void)cuda->MemRelease(allocation);
    if (status == KVR_OK)
        region->memory = KVRAIL_MEMORY_CUDA_VMM;
    return status;
}

kvr_status client_extent_open(uint64_t address, uint64_t *ret_base,
                              struct kvrail_allocation *ret_allocation, struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUmemGenericAllocationHandle allocation = 0;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    int fd = -1;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = find_allocation(cuda, address, &base, &bytes, error);
    if (status == KVR_OK)
        status = kvr_cuda_check(
            cuda, cuda->MemRetainAllocationHandle(&allocation, (void *)(uintptr_t)address), error,
            "the VMM allocation of a device pointer (a region of several of cudaMalloc's is "
            "several "
            "regions)");
    if (status != KVR_OK)
        return status;
    status = export_vmm(cuda, allocation, &fd, error);
    (void)cuda->MemRelease(allocation);
    if (status != KVR_OK)
        return status;
    *ret_base = base;
    *ret_allocation =
        (struct kvrail_allocation){.size = sizeof(*ret_allocation), .fd = fd, .bytes = bytes};
    return KVR_OK;
}

int client_dmabuf_of(const struct kvrail_region *region, uint64_t *ret_offset)
{
    const struct kvr_cuda *cuda;
    int fd = -1;

    if (kvr_cuda_open(&cuda, NULL) != KVR_OK ||
        kvr_cuda_dmabuf(cuda, region->address, region->bytes, "a dmabuf", &fd, ret_offset, NULL) !=
            KVR_OK)
        return -1;
    return fd;
}

void client_gpu_name(int32_t ordinal, struct kvr_gpu *gpu)
{
    const struct kvr_cuda *cuda;
    struct kvr_gpu found;

    if (kvr_cuda_open(&cuda, NULL) == KVR_OK && kvr_cuda_gpu(cuda, ordinal, &found, NULL) == KVR_OK)
        *gpu = found;
}

/* Whether one dmabuf covers several allocations depends on the
 * driver, which refuses where it cannot. */
static kvr_status export_dmabuf(struct kvrail_region *region, uint64_t address,
                                struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUdeviceptr base = 0;
    uint64_t offset = 0;
    uint32_t several;
    int fd = -1;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = find_region(cuda, region, address, &base, error);
    if (status != KVR_OK)
        return status;
    several = region->allocation_count;
    region->allocation_count = 0; /* it has one descriptor, if any */
    if (address % ALIGN_BYTES != 0)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "a dmabuf is of whole pages: a region of device memory has to begin "
                             "at a multiple of %u bytes",
                             ALIGN_BYTES);
    status = kvr_cuda_dmabuf(
        cuda, address, region->bytes,
        several > 0 ? "a dmabuf over several allocations (kvrail_region_of_device needs none)"
                    : "a dmabuf of device memory (does the kernel's driver give any?)",
        &fd, &offset, error);
    if (status != KVR_OK)
        return status;
    region->memory = KVRAIL_MEMORY_DMABUF;
    region->fd = fd;
    region->fd_offset = offset;
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

int client_dmabuf_of(const struct kvrail_region *region, uint64_t *ret_offset)
{
    (void)region, (void)ret_offset;
    return -1;
}

void client_gpu_name(int32_t ordinal, struct kvr_gpu *gpu)
{
    (void)ordinal, (void)gpu;
}

kvr_status client_extent_open(uint64_t address, uint64_t *ret_base,
                              struct kvrail_allocation *ret_allocation, struct kvr_error *error)
{
    (void)address, (void)ret_base, (void)ret_allocation;
    return kvr_error_set(error, KVR_UNSUPPORTED, WHERE, CLIENT_NO_CUDA);
}

#endif

/* By one of the two functions above, which know this library's struct alone. */
static kvrail_status
export_sized(kvr_status (*export)(struct kvrail_region *, uint64_t, struct kvr_error *),
             struct kvrail_region *region, uint64_t address, struct kvrail_error *error)
{
    struct kvrail_region own;
    struct kvr_error reason;
    kvr_status status = CLIENT_COPY(&own, region, region, &reason);

    if (status == KVR_OK)
        status = export(&own, address, &reason);
    if (status != KVR_OK)
        return client_tell(error, &reason);
    memcpy(region, &own, region->size < sizeof(own) ? region->size : sizeof(own));
    return KVRAIL_OK;
}

kvrail_status kvrail_region_of_device(struct kvrail_region *region, uint64_t address,
                                      struct kvrail_error *error)
{
    return export_sized(export_region, region, address, error);
}

kvrail_status kvrail_region_dmabuf_of_device(struct kvrail_region *region, uint64_t address,
                                             struct kvrail_error *error)
{
    return export_sized(export_dmabuf, region, address, error);
}
