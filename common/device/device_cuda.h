/* An NVIDIA GPU as a device. The driver is loaded at run time. In a build without a CUDA toolkit
 * the calls only answer that CUDA is missing. */
#ifndef KVR_DEVICE_DEVICE_CUDA_H
#define KVR_DEVICE_DEVICE_CUDA_H

#include "device/device.h"

/* Where it is not, no region on a GPU will come, and cards are opened for host memory alone. */
#define KVR_CUDA_CONTROL "/dev/nvidiactl"

/* The way in which pieces are moved. */
typedef enum kvr_cuda_copier {
    KVR_CUDA_COPIER_AUTO,   /* the kernel where the build has it and the driver takes it, else the
                               driver's copies */
    KVR_CUDA_COPIER_KERNEL, /* one launch for all pieces */
    KVR_CUDA_COPIER_PACKED, /* one launch within the GPU, and one copy of all pieces by the driver
                             */
    KVR_CUDA_COPIER_DRIVER, /* the driver's copy of each piece */
} kvr_cuda_copier;

/* The ordinal of a GPU in this process. UNSUPPORTED: no driver. INVALID: not seen from here. */
KVR_MUST_CHECK kvr_status kvr_device_cuda_ordinal(const struct kvr_gpu *gpu, int32_t *ret_ordinal,
                                                  struct kvr_error *error);
struct kvr_device_cuda_facts {
    struct kvr_gpu gpu;
    kvr_write_order order;
};
/* The GPUs that this process sees, `capacity` at most. 0, with a sentence in *error: none, or no
 * driver. */
uint32_t kvr_device_cuda_list(struct kvr_device_cuda_facts *ret_facts, uint32_t capacity,
                              struct kvr_error *error);
/* Makes this process's primary context on the GPU of that ordinal. UNSUPPORTED, with a reason: no
 * driver, no such GPU, or a build without CUDA. */
KVR_MUST_CHECK kvr_status kvr_device_cuda_open(int32_t ordinal, kvr_cuda_copier copier,
                                               struct kvr_device **ret_device,
                                               struct kvr_error *error);

#endif
