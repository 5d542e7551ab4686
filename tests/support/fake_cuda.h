/* A libcuda.so.1 of host memory, so that device_cuda and the clients' CUDA helpers run where there
 * is no GPU. It proves that the calls fit together: arguments, order, ends, and what is refused. It
 * proves nothing about a GPU.
 *
 * Addresses are those of the process; an allocation is a memfd, so that other processes can open
 * it. What a stream is given is queued, and done when an event or the stream is asked for the
 * second time: whoever does not wait for the end finds that out. Kernels are played by name.
 *
 * Private to fake_cuda*.c. */
#ifndef KVR_TESTS_FAKE_CUDA_H
#define KVR_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cuda_driver.h"

/* fake_MemAlloc and all the others, each as the driver's. */
#define X(name, of) __typeof__(*(PFN_cu##name##_v##of)NULL) fake_##name;
KVR_CUDA_LIST(X)
#undef X

extern __thread CUcontext fake_context; /* of this thread */

/* All of these bytes are of one allocation; or of what is pinned. */
bool fake_is_device(uint64_t address, uint64_t bytes);
bool fake_is_pinned(const uint8_t *base, size_t bytes);
/* In the stream's order, whatever lies there. */
CUresult fake_queue_copy(CUstream stream, uint64_t from, uint64_t to, uint64_t bytes);

#endif
