/* Device memory that every way of kvrail can use: other processes open it, and cards reach it. */
#include "client/client.h"

#define WHERE "kvrail"

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

/* The handle is released at once: the mapping keeps the memory. */
static kvr_status map(const struct kvr_cuda *cuda, CUdevice device, CUdeviceptr base, size_t bytes,
                      struct kvr_error *error)
{
    CUmemAllocationProp properties = kvr_cuda_shareable(cuda, device);
    CUmemAccessDesc access = {.location = properties.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    kvr_status status;

    KVR_TRY(kvr_cuda_check(cuda, cuda->MemCreate(&handle, bytes, &properties, 0), error,
                           "device memory"));
    status = kvr_cuda_check(cuda, cuda->MemMap(base, bytes, 0, handle, 0), error,
                            "to map device memory");
    (void)cuda->MemRelease(handle);
    if (status != KVR_OK)
        return status;
    status = kvr_cuda_check(cuda, cuda->MemSetAccess(base, bytes, &access, 1), error,
                            "access to device memory");
    if (status != KVR_OK)
        (void)cuda->MemUnmap(base, bytes);
    return status;
}

static kvr_status create(int32_t device, uint64_t bytes, struct kvrail_device_memory *ret_memory,
                         struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    CUdeviceptr base = 0;
    CUdevice number;
    size_t grain = 0;
    kvr_status status;

    KVR_TRY(kvr_cuda_open(&cuda, error));
    KVR_TRY(kvr_cuda_check(cuda, cuda->DeviceGet(&number, device), error, "the GPU"));
    KVR_TRY(kvr_cuda_granularity(cuda, number, &grain, error));
    bytes = (bytes + grain - 1) / grain * grain;
    KVR_TRY(kvr_cuda_check(cuda, cuda->MemAddressReserve(&base, bytes, 0, 0, 0), error,
                           "addresses for device memory"));
    status = map(cuda, number, base, bytes, error);
    if (status != KVR_OK) {
        (void)cuda->MemAddressFree(base, bytes);
        return status;
    }
    *ret_memory = (struct kvrail_device_memory){.address = base, .bytes = bytes, .device = device};
    return KVR_OK;
}

static void destroy(const struct kvrail_device_memory *memory)
{
    const struct kvr_cuda *cuda;

    if (kvr_cuda_open(&cuda, NULL) != KVR_OK)
        return;
    (void)cuda->MemUnmap(memory->address, memory->bytes);
    (void)cuda->MemAddressFree(memory->address, memory->bytes);
}

#else

static kvr_status create(int32_t device, uint64_t bytes, struct kvrail_device_memory *ret_memory,
                         struct kvr_error *error)
{
    (void)device, (void)bytes, (void)ret_memory;
    return kvr_error_set(error, KVR_UNSUPPORTED, WHERE, CLIENT_NO_CUDA);
}

static void destroy(const struct kvrail_device_memory *memory)
{
    (void)memory;
}

#endif

kvrail_status kvrail_device_memory_create(int32_t device, uint64_t bytes,
                                          struct kvrail_device_memory *ret_memory,
                                          struct kvrail_error *error)
{
    struct kvr_error reason;
    kvr_status status;

    if (bytes == 0 || bytes > INT64_MAX)
        status = kvr_error_set(&reason, KVR_INVALID, WHERE,
                               "device memory of %llu bytes: it needs at least one, and less than "
                               "2^63",
                               (unsigned long long)bytes);
    else
        status = create(device, bytes, ret_memory, &reason);
    return status == KVR_OK ? KVRAIL_OK : client_tell(error, &reason);
}

void kvrail_device_memory_destroy(struct kvrail_device_memory *memory)
{
    if (memory->address == 0)
        return;
    destroy(memory);
    *memory = (struct kvrail_device_memory){.address = 0};
}
