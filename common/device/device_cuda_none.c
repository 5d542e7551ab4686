/* device_cuda.h in a build without a CUDA toolkit. */
#include "device/device_cuda.h"

#define NO_CUDA                                                                                    \
    "this build has no CUDA part: build it where a CUDA toolkit of 12.0 or later is found"

kvr_status kvr_device_cuda_ordinal(const struct kvr_gpu *gpu, int32_t *ret_ordinal,
                                   struct kvr_error *error)
{
    (void)gpu, (void)ret_ordinal;
    return kvr_error_set(error, KVR_UNSUPPORTED, "cuda", NO_CUDA);
}

uint32_t kvr_device_cuda_list(struct kvr_device_cuda_facts *ret_facts, uint32_t capacity,
                              struct kvr_error *error)
{
    (void)ret_facts, (void)capacity;
    (void)kvr_error_set(error, KVR_UNSUPPORTED, "cuda", NO_CUDA);
    return 0;
}

kvr_status kvr_device_cuda_open(int32_t ordinal, kvr_cuda_copier copier,
                                struct kvr_device **ret_device, struct kvr_error *error)
{
    (void)ordinal, (void)copier, (void)ret_device;
    return kvr_error_set(error, KVR_UNSUPPORTED, "cuda", NO_CUDA);
}
