/* A GPU of NVIDIA's as a device. The driver is loaded at run time; a build without a CUDA toolkit
 * has only the sentence that says so. */
#ifndef KVR_DEVICE_DEVICE_CUDA_H
#define KVR_DEVICE_DEVICE_CUDA_H

#include "device/device.h"

/* How pieces are moved. */
typedef enum kvr_cuda_copier {
    KVR_CUDA_COPIER_AUTO,   /* the kernel where the build has it, else the driver */
    KVR_CUDA_COPIER_KERNEL, /* one launch for all pieces */
    KVR_CUDA_COPIER_PACKED, /* one launch within the GPU, and the driver's copy of all together */
    KVR_CUDA_COPIER_DRIVER, /* the driver's copy of each piece */
} kvr_cuda_copier;

/* Makes this process's primary context on the GPU of that ordinal. UNSUPPORTED with a sentence: no
 * driver, no such GPU, or a build without CUDA. */
KVR_MUST_CHECK kvr_status kvr_device_cuda_open(int32_t ordinal, kvr_cuda_copier copier,
                                               struct kvr_device **ret_device,
                                               struct kvr_error *error);

#endif
