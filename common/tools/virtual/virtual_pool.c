#include "tools/virtual/virtual_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool pool_init(struct pool *pool, uint32_t page_count, uint32_t page_tokens, pages_order order,
               uint64_t seed, bool cached, bool contents)
{
    uint32_t block_pages = KVR_TRACE_BLOCK_TOKENS / page_tokens;

    memset(pool, 0, sizeof(*pool));
    pool->block_pages = block_pages;
    pool->page_tokens = page_tokens;
    pool->owners = calloc(page_count, sizeof(pool->owners[0]));
    if (contents)
        pool->contents = calloc(page_count, sizeof(pool->contents[0]));
    if (pool->owners != NULL && (!contents || pool->contents != NULL) &&
        pages_init(&pool->pages, page_count, order, seed) &&
        cache_init(&pool->cache, cached ? page_count / block_pages : 0, block_pages))
        return true;
    pool_done(pool);
    return false;
}

void pool_done(struct pool *pool)
{
    pages_done(&pool->pages);
    cache_done(&pool->cache);
    free(pool->owners);
    free(pool->contents);
    memset(pool, 0, sizeof(*pool));
}

uint32_t pool_peek(const struct pool *pool, const uint64_t *blocks, uint32_t count)
{
    return cache_peek(&pool->cache, blocks, count);
}

static void own(struct pool *pool, const uint32_t *ids, uint32_t count, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < count; i++) {
        assert(pool->owners[ids[i]] == from);
        pool->owners[ids[i]] = to;
    }
}

/* The cache gives way until so many pages are free. */
static bool make_free(struct pool *pool, uint32_t count)
{
    uint32_t ids[KVR_TRACE_BLOCK_TOKENS];
    struct cache_entry entry;

    while (pool->pages.free_count < count) {
        if (!cache_evict(&pool->cache, &entry, ids))
            return false;
        own(pool, ids, pool->block_pages, POOL_CACHED, POOL_FREE);
        pages_release(&pool->pages, ids, pool->block_pages);
    }
    return true;
}

bool pool_take(struct pool *pool, const uint64_t *blocks, uint32_t blocks_max, uint32_t count,
               uint32_t owner, struct pool_share *ret_share)
{
    struct pool_share share = {.count = count, .owner = owner};
    uint32_t cached, used;

    share.ids = malloc(((size_t)count + 1) * sizeof(share.ids[0]));
    if (share.ids == NULL)
        return false;
    share.cached_blocks = cache_match(&pool->cache, blocks, blocks_max, share.ids);
    cached = share.cached_blocks * pool->block_pages;
    if (!make_free(pool, count - cached) ||
        !pages_acquire(&pool->pages, count - cached, share.ids + cached)) {
        cache_unpin(&pool->cache, blocks, share.cached_blocks);
        free(share.ids);
        return false;
    }
    own(pool, share.ids + cached, count - cached, POOL_FREE, owner);
    used = pool->pages.page_count - pool->pages.free_count;
    pool->used_max = used > pool->used_max ? used : pool->used_max;
    *ret_share = share;
    return true;
}

void pool_publish(struct pool *pool, const uint64_t *blocks, uint32_t full_blocks,
                  struct pool_share *share)
{
    uint32_t had = share->cached_blocks, block = had;

    /* It ends where another request has published the same block. */
    for (; block < full_blocks; block++) {
        uint32_t *ids = share->ids + (size_t)block * pool->block_pages;

        if (!cache_insert(&pool->cache, blocks[block], block, ids))
            break;
        own(pool, ids, pool->block_pages, share->owner, POOL_CACHED);
    }
    if (block == had)
        return;
    share->cached_blocks = cache_match(&pool->cache, blocks, block, share->ids);
    assert(share->cached_blocks == block);
    cache_unpin(&pool->cache, blocks, had);
}

void pool_give_back(struct pool *pool, const uint64_t *blocks, struct pool_share *share)
{
    uint32_t cached = share->cached_blocks * pool->block_pages;

    cache_unpin(&pool->cache, blocks, share->cached_blocks);
    own(pool, share->ids + cached, share->count - cached, share->owner, POOL_FREE);
    pages_release(&pool->pages, share->ids + cached, share->count - cached);
    free(share->ids);
    *share = (struct pool_share){0};
}

void pool_fill(struct pool *pool, const uint64_t *blocks, uint32_t block_count,
               const struct pool_share *share)
{
    uint32_t first = share->cached_blocks * pool->block_pages;

    if (pool->contents == NULL)
        return;
    for (uint32_t i = first; i < share->count && i / pool->block_pages < block_count; i++)
        pool->contents[share->ids[i]] = (struct pool_content){
            .block = blocks[i / pool->block_pages],
            .token_first = (uint64_t)i * pool->page_tokens,
        };
}

bool pool_owned(const struct pool *pool, const struct pool_share *share, uint32_t *ret_page)
{
    uint32_t cached = share->cached_blocks * pool->block_pages;

    for (uint32_t i = 0; i < share->count; i++) {
        if (pool->owners[share->ids[i]] == (i < cached ? POOL_CACHED : share->owner))
            continue;
        *ret_page = share->ids[i];
        return false;
    }
    return true;
}

bool pool_whole(const struct pool *pool)
{
    uint32_t cached = 0, free = 0;

    for (uint32_t id = 0; id < pool->pages.page_count; id++) {
        cached += pool->owners[id] == POOL_CACHED;
        free += pool->owners[id] == POOL_FREE;
    }
    return free == pool->pages.free_count && cached == pool->cache.count * pool->block_pages &&
           free + cached == pool->pages.page_count;
}
