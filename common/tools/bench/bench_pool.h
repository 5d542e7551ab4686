/* The pages that a benchmark moves: one pool at the source, one at the target, and the order in
 * which their pages are used.
 *
 * A pool is [layer][page]. A request takes the next `slice` page ids of both orders and moves them
 * in every layer; after `slices` requests it begins again. The whole pool lies between two uses of
 * a page, so it must be much larger than the caches. Both sides of every loop that is compared use
 * the same pools in the same order. Made before the processes are forked, which inherit it;
 * read-only from then on but for the pages. */
#ifndef KVR_TOOLS_BENCH_POOL_H
#define KVR_TOOLS_BENCH_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "client/kvrail.h"

struct bench_pool {
    struct kvrail_memory source, target;
    uint64_t page_bytes;
    uint32_t layers, page_count;       /* page_count: page ids, each in every layer */
    uint32_t slice, slices;            /* page ids of a request; requests until the order repeats */
    uint32_t *source_ids, *target_ids; /* slice × slices each */
};

/* The numbers 0 to count - 1, with scatter in random order. The caller frees them. NULL: no memory.
 */
uint32_t *bench_page_order(uint32_t count, bool scatter, struct kvr_rng *rng);

/* scatter: both orders are at random, and so no neighbours; else both count up. Every page is
 * touched: pages of the operating system that never were cost twenty times a copy. False: said on
 * stderr. */
bool bench_pool_open(struct bench_pool *pool, uint64_t page_bytes, uint32_t layers, uint32_t slice,
                     uint64_t bytes, bool scatter);
void bench_pool_close(struct bench_pool *pool);
/* In a forked process: takes its own mappings of the pages in, before time is taken. */
void bench_pool_touch(const struct kvrail_memory *memory);

uint64_t bench_pool_bytes(const struct bench_pool *pool); /* of one side */
/* Where the index-th page of the order lies in each pool, requests after requests, in each layers
 * after layers. index wraps. */
void bench_pool_page(const struct bench_pool *pool, uint64_t index, uint64_t *ret_source_offset,
                     uint64_t *ret_target_offset);

/* Writes a word into each source page that names it, and another into each target page. */
void bench_pool_stamp(const struct bench_pool *pool);
/* How many of the first page_count pages in order differ between target and source. */
uint64_t bench_pool_wrong(const struct bench_pool *pool, uint64_t page_count);

#endif
