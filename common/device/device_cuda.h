/* An NVIDIA GPU as a device. The driver is loaded at run time. In a build without a CUDA toolkit
 * the calls only answer that CUDA is missing. */
#ifndef KVR_DEVICE_DEVICE_CUDA_H
#define KVR_DEVICE_DEVICE_CUDA_H

#include "base/gpu_memory.h"
#include "base/names.h"
#include "device/device.h"

/* Where it is not, no region on a GPU will come, and cards are opened for host memory alone. */
#define KVR_CUDA_CONTROL "/dev/nvidiactl"

/* The way in which pieces are copied between the GPU and host memory: X(symbol, name).
 *
 *   auto    as driver; with MPS small pieces as packed
 *   kernel  one launch for all pieces
 *   packed  one launch within the GPU, and one copy of all pieces by the driver
 *   driver  the driver's copies of all pieces in one call; before CUDA 12.8 a call for each piece
 *
 * The driver's copies are made by engines of their own: on an H100 they did not slow a model beside
 * them at all. The kernel made the model's steps twice as long, because without MPS a GPU runs the
 * kernels of one process at a time (tests/bench/RESULTS.md).
 *
 * Moves within a GPU or between GPUs are made by the kernel, unless driver is chosen: the driver's
 * own take turns with the model as well, and last nine times as long. */
#define KVR_CUDA_COPIER_LIST(X)                                                                    \
    X(KVR_CUDA_COPIER_AUTO, "auto")                                                                \
    X(KVR_CUDA_COPIER_KERNEL, "kernel")                                                            \
    X(KVR_CUDA_COPIER_PACKED, "packed")                                                            \
    X(KVR_CUDA_COPIER_DRIVER, "driver")

typedef enum kvr_cuda_copier {
    KVR_CUDA_COPIER_LIST(KVR_SYMBOL) KVR_CUDA_COPIER_END
} kvr_cuda_copier;

/* KVR_CUDA_COPIER_END: no copier has that name. */
static inline kvr_cuda_copier kvr_cuda_copier_of(const char *name)
{
    static const char *const names[] = {KVR_CUDA_COPIER_LIST(KVR_NAME)};

    return (kvr_cuda_copier)kvr_name_find(names, KVR_CUDA_COPIER_END, name);
}

/* The ordinal of a GPU in this process. UNSUPPORTED: no driver. INVALID: not seen from here. */
KVR_MUST_CHECK kvr_status kvr_device_cuda_ordinal(const struct kvr_gpu *gpu, int32_t *ret_ordinal,
                                                  struct kvr_error *error);
struct kvr_device_cuda_facts {
    struct kvr_gpu gpu;
    kvr_write_order order;
    bool mps;                     /* shared by MPS */
    struct kvr_gpu_memory memory; /* of all processes; zero: not known */
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
