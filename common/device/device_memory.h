/* Host memory as a device's memory: device_host and device_emulated import it. Private to
 * device_*.c. */
#ifndef KVR_DEVICE_DEVICE_MEMORY_H
#define KVR_DEVICE_DEVICE_MEMORY_H

#include <stdatomic.h>

#include "device/device.h"

struct device_memory {
    struct kvr_device_memory memory;
    uint8_t *base;
    uint8_t *mapped;
    uint64_t mapped_bytes; /* to unmap; 0: the caller owns the bytes */
    _Atomic bool lost;     /* its engine is gone: copies fail */
    struct device_memory *next_released;
};

/* Takes MAPPED and MEMFD. With any_fd it takes every kind that has a descriptor: the descriptor is
 * a memfd that stands for device memory, and there may be several extents. */
KVR_MUST_CHECK kvr_status device_memory_open(const struct kvr_device_import *import, bool any_fd,
                                             struct kvr_device_memory **ret_memory,
                                             struct kvr_error *error);
void device_memory_close(struct kvr_device_memory *memory);
/* Releases only the bytes: base is NULL afterwards. */
void device_memory_unmap(struct device_memory *memory);
/* memcpy of one piece. */
void device_memory_copy(kvr_device_way way, const struct kvr_device_piece *piece);
void device_memory_move(const struct kvr_device_move *piece);

#endif
