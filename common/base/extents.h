/* Descriptors of memory that lies side by side: a range of device memory over several VMM
 * allocations, one descriptor each. Counted by references, and read-only once there is more than
 * one; the last release closes the descriptors. Any thread. */
#ifndef KVR_BASE_EXTENTS_H
#define KVR_BASE_EXTENTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

/* What an engine's people can do about too many of them. */
#define KVR_EXTENTS_ADVICE                                                                         \
    "make them larger (PyTorch: large_segment_size_mb), or keep the KV cache out of expandable "   \
    "segments"

struct kvr_extent {
    int fd;
    uint64_t bytes; /* of it, from its byte 0, before the next begins */
};

struct kvr_extents {
    _Atomic uint32_t users;
    uint32_t count, capacity;
    struct kvr_extent at[];
};

/* None so far, of at most KVR_EXTENTS_MAX; one reference. NULL: no memory. */
struct kvr_extents *kvr_extents_new(uint32_t capacity);
/* Takes the descriptor. There must be room. */
void kvr_extents_add(struct kvr_extents *extents, int fd, uint64_t bytes);
/* One reference more; NULL stays NULL. */
struct kvr_extents *kvr_extents_keep(struct kvr_extents *extents);
void kvr_extents_release(struct kvr_extents *extents); /* NULL is fine */

/* INVALID with a sentence: `bytes` from `offset` do not begin in the first and end in the last, or
 * an extent is empty or no multiple of `grain`. */
KVR_MUST_CHECK kvr_status kvr_extents_check(const struct kvr_extents *extents, uint64_t offset,
                                            uint64_t bytes, uint64_t grain, const char *where,
                                            uint64_t *ret_whole, struct kvr_error *error);

#endif
