/* The bytes of a target's staging memory that belong to each transfer: first fit, given back in any
 * order. Pure. */
#ifndef KVR_DEVICE_STAGING_POOL_H
#define KVR_DEVICE_STAGING_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define KVR_STAGING_SHARES_MAX 256 /* transfers that land by one stage at once */

struct kvr_staging_pool {
    uint64_t bytes;
    uint32_t count;
    struct kvr_staging_share {
        uint64_t offset, bytes;
    } shares[KVR_STAGING_SHARES_MAX]; /* in the order of offsets */
};

/* False: there is no room now. With more bytes than the pool has, there is never room. bytes > 0.
 */
bool kvr_staging_pool_take(struct kvr_staging_pool *pool, uint64_t bytes, uint64_t *ret_offset);
/* offset: of a taken share. */
void kvr_staging_pool_give(struct kvr_staging_pool *pool, uint64_t offset);

#endif
