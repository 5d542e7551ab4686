/* The pages of one modelled engine: replay's page allocator and prefix cache, and the owner of
 * each page. All ranks of an engine have the same page ids. A page is free, or of one request, or
 * of the cache; a request reads those of the cache that it matched. Memory is its own; one thread.
 */
#ifndef KVR_TOOLS_VIRTUAL_POOL_H
#define KVR_TOOLS_VIRTUAL_POOL_H

#include "tools/replay/replay_cache.h"
#include "tools/replay/replay_pages.h"
#include "trace/trace_file.h"

#define POOL_FREE   0u
#define POOL_CACHED UINT32_MAX

/* The tokens that a page holds: of a block of the trace, from this one on. */
struct pool_content {
    uint64_t block, token_first;
};

struct pool {
    struct pages pages;
    struct cache cache;
    uint32_t *owners;              /* a request's number, from 1; POOL_FREE, POOL_CACHED */
    struct pool_content *contents; /* NULL: not kept */
    uint32_t block_pages, page_tokens;
    uint32_t used_max;
};

/* What a request has of a pool. */
struct pool_share {
    uint32_t *ids; /* in logical order; the first of them are the cache's */
    uint32_t count;
    uint32_t cached_blocks; /* that it matched or published */
    uint32_t owner;
};

/* False without memory. */
bool pool_init(struct pool *pool, uint32_t page_count, uint32_t page_tokens, pages_order order,
               uint64_t seed, bool cached, bool contents);
void pool_done(struct pool *pool);

/* How many of the first blocks the cache has; nothing changes. */
uint32_t pool_peek(const struct pool *pool, const uint64_t *blocks, uint32_t count);
/* Matches at most blocks_max blocks and takes the remaining of `count` pages, where the cache gives
 * way. False, and nothing is taken: there are too few, or no memory. */
bool pool_take(struct pool *pool, const uint64_t *blocks, uint32_t blocks_max, uint32_t count,
               uint32_t owner, struct pool_share *ret_share);
/* The full blocks are there, and in the cache from now on: others may match them. The request keeps
 * them too. */
void pool_publish(struct pool *pool, const uint64_t *blocks, uint32_t full_blocks,
                  struct pool_share *share);
/* What the cache has stays there; everything else is free again. */
void pool_give_back(struct pool *pool, const uint64_t *blocks, struct pool_share *share);
/* Notes what the pages hold, where that is kept. */
void pool_fill(struct pool *pool, const uint64_t *blocks, uint32_t block_count,
               const struct pool_share *share);
/* True: each page is the request's own, or of those that it matched. */
bool pool_owned(const struct pool *pool, const struct pool_share *share, uint32_t *ret_page);
/* Every page is free or of the cache: nothing is lost. */
bool pool_whole(const struct pool *pool);

#endif
