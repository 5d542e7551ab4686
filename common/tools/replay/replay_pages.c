#include "tools/replay/replay_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define AGED_RUN_PAGES 32 /* longest run of neighbours at the start */

/* Ids ascend when they are taken from the end. */
static void order_fresh(struct pages *pages)
{
    for (uint32_t i = 0; i < pages->page_count; i++)
        pages->free[i] = pages->page_count - 1 - i;
}

struct run {
    uint32_t first, count;
};

/* Cuts [0, page_count) into runs of 1 to AGED_RUN_PAGES, and shuffles the runs. */
static uint32_t make_runs(struct pages *pages, struct run *runs)
{
    uint32_t count = 0;

    for (uint32_t first = 0; first < pages->page_count; first += runs[count++].count) {
        uint32_t left = pages->page_count - first;
        uint32_t length = (uint32_t)kvr_rng_between(&pages->rng, 1, AGED_RUN_PAGES);

        runs[count] = (struct run){first, length < left ? length : left};
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)kvr_rng_below(&pages->rng, i);
        struct run run = runs[i - 1];

        runs[i - 1] = runs[other];
        runs[other] = run;
    }
    return count;
}

static bool order_aged(struct pages *pages)
{
    struct run *runs = malloc(((size_t)pages->page_count + 1) * sizeof(runs[0]));
    uint32_t count, at = pages->page_count;

    if (runs == NULL)
        return false;
    count = make_runs(pages, runs);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t page = 0; page < runs[i].count; page++)
            pages->free[--at] = runs[i].first + page;
    free(runs);
    return true;
}

bool pages_init(struct pages *pages, uint32_t page_count, pages_order order, uint64_t seed)
{
    bool made;

    memset(pages, 0, sizeof(*pages));
    pages->page_count = pages->free_count = page_count;
    pages->order = order;
    kvr_rng_init(&pages->rng, seed);
    pages->free = calloc(page_count, sizeof(pages->free[0]));
    pages->used = calloc(page_count, sizeof(pages->used[0]));
    pages->places = calloc(page_count, sizeof(pages->places[0]));
    made = pages->free != NULL && pages->used != NULL && pages->places != NULL;
    if (made && order == PAGES_AGED)
        made = order_aged(pages);
    else if (made)
        order_fresh(pages);
    for (uint32_t i = 0; made && i < page_count; i++)
        pages->places[pages->free[i]] = i;
    if (made)
        return true;
    pages_done(pages);
    return false;
}

void pages_done(struct pages *pages)
{
    free(pages->free);
    free(pages->used);
    free(pages->places);
    memset(pages, 0, sizeof(*pages));
}

static void put_free(struct pages *pages, uint32_t place, uint32_t id)
{
    pages->free[place] = id;
    pages->places[id] = place;
}

bool pages_acquire(struct pages *pages, uint32_t count, uint32_t *ret_ids)
{
    if (count > pages->free_count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t last = pages->free_count - 1, id;

        if (pages->order == PAGES_SHUFFLED) {
            uint32_t other = (uint32_t)kvr_rng_below(&pages->rng, pages->free_count);

            id = pages->free[other];
            put_free(pages, other, pages->free[last]);
        } else {
            id = pages->free[last];
        }
        pages->free_count = last;
        assert(!pages->used[id]);
        pages->used[id] = true;
        ret_ids[i] = id;
    }
    return true;
}

/* The last free one goes where each stood. */
void pages_take(struct pages *pages, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = ids[i];

        assert(id < pages->page_count && !pages->used[id]);
        pages->used[id] = true;
        put_free(pages, pages->places[id], pages->free[--pages->free_count]);
    }
}

/* Backwards, so that neighbours that are taken again come out in ascending order. */
void pages_release(struct pages *pages, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = count; i > 0; i--) {
        uint32_t id = ids[i - 1];

        assert(id < pages->page_count && pages->used[id]);
        pages->used[id] = false;
        put_free(pages, pages->free_count++, id);
    }
}
