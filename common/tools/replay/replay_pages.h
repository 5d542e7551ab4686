/* The page allocator of a replayed engine: a free list of page ids, used as engines do, youngest
 * first, so that the pages of one request lie scattered. Sets of pages are all or nothing. A page
 * that is given out twice, or returned twice, is a bug of ours and asserts. Memory is its own; one
 * thread. */
#ifndef KVR_TOOLS_REPLAY_PAGES_H
#define KVR_TOOLS_REPLAY_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

typedef enum pages_order {
    PAGES_FRESH,    /* ids ascend, as in an engine that has just started */
    PAGES_AGED,     /* short runs in any order, as in one that has served for hours */
    PAGES_SHUFFLED, /* any free page at any time: the worst that can be */
} pages_order;

struct pages {
    uint32_t *free;   /* the last is given out first */
    uint32_t *places; /* by page id: where it stands in `free` */
    bool *used;
    uint32_t free_count, page_count;
    pages_order order;
    struct kvr_rng rng;
};

/* False without memory. */
bool pages_init(struct pages *pages, uint32_t page_count, pages_order order, uint64_t seed);
void pages_done(struct pages *pages);

/* Writes `count` ids; false, and nothing is taken, when fewer are free. */
bool pages_acquire(struct pages *pages, uint32_t count, uint32_t *ret_ids);
/* Takes these, which are free. */
void pages_take(struct pages *pages, const uint32_t *ids, uint32_t count);
void pages_release(struct pages *pages, const uint32_t *ids, uint32_t count);

#endif
