#include "tests/support/cuda_memory.h"

#include "tests/support/check.h"

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

void *cuda_memory_new(uint64_t bytes, int *ret_fd)
{
    const struct kvr_cuda *cuda = NULL;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemGenericAllocationHandle allocation = 0;
    size_t grain = 1;

    assert_int_equal(kvr_cuda_open(&cuda, NULL), KVR_OK);
    assert_int_equal(
        cuda->MemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        CUDA_SUCCESS);
    bytes = (bytes + grain - 1) / grain * grain;
    assert_int_equal(cuda->MemCreate(&allocation, bytes, &properties, 0), CUDA_SUCCESS);
    assert_int_equal(cuda->MemExportToShareableHandle(ret_fd, allocation,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                     CUDA_SUCCESS);
    return (void *)(uintptr_t)allocation;
}

void cuda_memory_free(void *allocation)
{
    const struct kvr_cuda *cuda;

    if (allocation != NULL && kvr_cuda_open(&cuda, NULL) == KVR_OK)
        (void)cuda->MemRelease((uintptr_t)allocation);
}

#else

void *cuda_memory_new(uint64_t bytes, int *ret_fd)
{
    (void)bytes, (void)ret_fd;
    fail_msg("a build without CUDA has no device memory");
    return NULL;
}

void cuda_memory_free(void *allocation)
{
    (void)allocation;
}

#endif
