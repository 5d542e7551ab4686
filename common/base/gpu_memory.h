/* The memory of a GPU as NVIDIA's management library (NVML) sees it: of all processes together, and
 * without a context of this one. The library comes with the driver, is opened when it is needed,
 * and may be missing, as in a container without `utility`. Any thread. */
#ifndef KVR_BASE_GPU_MEMORY_H
#define KVR_BASE_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct kvr_gpu_memory {
    uint64_t total_bytes, used_bytes;
};

/* pci: "0000:9a:00.0". False: not known here. */
bool kvr_gpu_memory(const char *pci, struct kvr_gpu_memory *ret_memory);

#endif
