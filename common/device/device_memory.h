/* Host memory as a device's: what device_host and device_emulated import. Private to device_*.c. */
#ifndef KVR_DEVICE_DEVICE_MEMORY_H
#define KVR_DEVICE_DEVICE_MEMORY_H

#include <stdatomic.h>

#include "device/device.h"

struct device_memory {
    struct kvr_device_memory memory;
    uint8_t *base;
    uint8_t *mapped;
    uint64_t mapped_bytes; /* to unmap; 0: the caller's */
    _Atomic bool lost;     /* its engine is gone: copies fail */
    struct device_memory *next_released;
};

/* Takes MAPPED and MEMFD, and whatever else comes by descriptor when any_fd: the descriptor is then
 * a memfd in a device's clothes, and extents are several. */
KVR_MUST_CHECK kvr_status device_memory_open(const struct kvr_device_import *import, bool any_fd,
                                             struct kvr_device_memory **ret_memory,
                                             struct kvr_error *error);
void device_memory_close(struct kvr_device_memory *memory);
/* Only its bytes are let go: base is NULL. */
void device_memory_unmap(struct device_memory *memory);
/* memcpy of one piece. */
void device_memory_copy(kvr_device_way way, const struct kvr_device_piece *piece);
void device_memory_move(const struct kvr_device_move *piece);

#endif
