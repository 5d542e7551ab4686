#include "device/staging_pool.h"

#include <assert.h>
#include <string.h>

bool kvr_staging_pool_take(struct kvr_staging_pool *pool, uint64_t bytes, uint64_t *ret_offset)
{
    uint64_t offset = 0;
    uint32_t at = 0;

    assert(bytes > 0);
    if (pool->count == KVR_STAGING_SHARES_MAX || bytes > pool->bytes)
        return false;
    for (; at < pool->count && pool->shares[at].offset - offset < bytes; at++)
        offset = pool->shares[at].offset + pool->shares[at].bytes;
    if (at == pool->count && pool->bytes - offset < bytes)
        return false;
    memmove(&pool->shares[at + 1], &pool->shares[at], (pool->count - at) * sizeof(pool->shares[0]));
    pool->shares[at] = (struct kvr_staging_share){.offset = offset, .bytes = bytes};
    pool->count++;
    *ret_offset = offset;
    return true;
}

void kvr_staging_pool_give(struct kvr_staging_pool *pool, uint64_t offset)
{
    uint32_t at = 0;

    while (at < pool->count && pool->shares[at].offset != offset)
        at++;
    assert(at < pool->count);
    pool->count--;
    memmove(&pool->shares[at], &pool->shares[at + 1], (pool->count - at) * sizeof(pool->shares[0]));
}
