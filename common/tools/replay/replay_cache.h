/* The prefix cache of a replayed target engine: blocks of 512 tokens by the trace's hash ids, least
 * recently used out first. A block that a live request uses is pinned and stays. The cache owns no
 * pages: eviction hands the ids back. Memory is its own, of fixed size; one thread. */
#ifndef KVR_TOOLS_REPLAY_CACHE_H
#define KVR_TOOLS_REPLAY_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"

struct cache_entry {
    uint64_t block;    /* the trace's id */
    uint32_t position; /* 0 for the first 512 tokens of a request */
    uint32_t pins;
    TAILQ_ENTRY(cache_entry) link;
};

struct cache {
    struct kvr_table table;
    void *table_memory;
    struct cache_entry *entries;
    uint32_t *page_ids; /* block_pages of each entry */
    uint32_t *unused;
    uint32_t block_pages, capacity, count;
    TAILQ_HEAD(cache_order, cache_entry) order; /* the newest first */
};

/* capacity: blocks at most, 0 for none. False without memory. */
bool cache_init(struct cache *cache, uint32_t capacity, uint32_t block_pages);
void cache_done(struct cache *cache);

/* How many of the first `count` blocks are here without a gap. They are pinned, become the newest,
 * and their page ids are written in order. */
uint32_t cache_match(struct cache *cache, const uint64_t *blocks, uint32_t count,
                     uint32_t *ret_page_ids);
/* The same number; nothing is pinned, and nothing becomes newer. */
uint32_t cache_peek(const struct cache *cache, const uint64_t *blocks, uint32_t count);
/* Undoes the pins of cache_match() for those blocks. */
void cache_unpin(struct cache *cache, const uint64_t *blocks, uint32_t count);

/* Takes over block_pages pages as the newest block. False, and the pages stay the caller's, when it
 * is here already or all is pinned or full. */
bool cache_insert(struct cache *cache, uint64_t block, uint32_t position, const uint32_t *page_ids);

/* The oldest block that is not pinned: its pages are the caller's again. False when there is none.
 */
bool cache_evict(struct cache *cache, struct cache_entry *ret_entry, uint32_t *ret_page_ids);

#endif
