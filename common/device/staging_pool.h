/* Which bytes of a target's staging memory belong to which transfer: first fit, given back in any
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
    } shares[KVR_STAGING_SHARES_MAX]; /* by offset */
};

/* False: not now, or never when bytes is more than the pool has. bytes > 0. */
bool kvr_staging_pool_take(struct kvr_staging_pool *pool, uint64_t bytes, uint64_t *ret_offset);
/* offset: of a share that is taken. */
void kvr_staging_pool_give(struct kvr_staging_pool *pool, uint64_t offset);

#endif
