/* The bytes of a ring that are in use. Parts are taken in order and given back in any order. A part
 * never wraps around the end. Pure. */
#ifndef KVR_DEVICE_STAGING_H
#define KVR_DEVICE_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#define KVR_STAGING_PARTS 1024u /* parts in use at once; a power of two */
#define KVR_STAGING_ALIGN 64u   /* each part begins at a multiple of this */

struct kvr_staging {
    uint64_t bytes;
    uint64_t next;         /* where the next part may begin */
    uint32_t first, count; /* parts in use, and returned parts behind one in use */
    struct kvr_staging_part {
        uint64_t offset, end;
        bool given;
    } parts[KVR_STAGING_PARTS];
};

void kvr_staging_init(struct kvr_staging *staging, uint64_t bytes);
/* False: there is no room now. With more bytes than the ring has, there is never room. */
bool kvr_staging_take(struct kvr_staging *staging, uint64_t bytes, uint32_t *ret_part,
                      uint64_t *ret_offset);
void kvr_staging_give(struct kvr_staging *staging, uint32_t part);

#endif
