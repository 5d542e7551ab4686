/* Descriptors of device memory as the kernel shares it between drivers: a card can register the
 * memory without a context on the GPU. */
#ifndef KVR_DEVICE_DMABUF_H
#define KVR_DEVICE_DMABUF_H

#include <stdint.h>

#include "base/status.h"

/* INVALID, with a reason: the descriptor is no dmabuf, or [offset, offset + bytes) is not inside
 * it. */
KVR_MUST_CHECK kvr_status kvr_dmabuf_check(int fd, uint64_t offset, uint64_t bytes,
                                           struct kvr_error *error);

#endif
