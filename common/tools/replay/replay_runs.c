#include "tools/replay/replay_runs.h"

#include <stdlib.h>
#include <string.h>

#define SHIFTS_MAX 1024u /* that are tried before gaps are made shorter */

/* Neighbouring pages of a table. */
struct run {
    int64_t page; /* of the trace */
    uint32_t count;
    uint32_t logical; /* number of its first page, in the table */
    uint32_t placed;  /* its first page in the pool */
};

struct runs {
    struct run *items; /* in the order of memory, once they are sorted */
    uint32_t count;
    uint64_t page_count;
};

/* The part of the runs that covers [first, end). False: they end before that. */
static bool cut(const int64_t *numbers, size_t number_count, uint32_t first, uint32_t end,
                struct runs *runs)
{
    uint64_t logical = 0;

    for (size_t i = 0; i + 1 < number_count && logical < end; i += 2) {
        uint64_t begin = logical < first ? first : logical, after;

        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 2 || numbers[i + 1] <= 0 ||
            numbers[i + 1] > UINT32_MAX)
            return false;
        after = logical + (uint64_t)numbers[i + 1];
        if (after > begin && begin < end)
            runs->items[runs->count++] =
                (struct run){.page = numbers[i] + (int64_t)(begin - logical),
                             .count = (uint32_t)((after < end ? after : end) - begin),
                             .logical = (uint32_t)begin};
        logical = after;
    }
    runs->page_count = end - first;
    return logical >= end;
}

static int by_page(const void *left, const void *right)
{
    const struct run *a = left, *b = right;

    return (a->page > b->page) - (a->page < b->page);
}

/* False: a page is there twice. */
static bool sort(struct runs *runs)
{
    qsort(runs->items, runs->count, sizeof(runs->items[0]), by_page);
    for (uint32_t i = 1; i < runs->count; i++)
        if (runs->items[i].page < runs->items[i - 1].page + runs->items[i - 1].count)
            return false;
    return true;
}

static int64_t end_of(const struct run *run)
{
    return run->page + run->count;
}

/* The last page of [page, page + count) that is used; UINT32_MAX: all are free. */
static uint32_t last_used(const struct pages *pages, uint32_t page, uint32_t count)
{
    for (uint32_t i = count; i > 0; i--)
        if (pages->used[page + i - 1])
            return page + i - 1;
    return UINT32_MAX;
}

/* Whether all runs are free with the lowest page at `base`. If not, *ret_next is the next base at
 * which the run that met a used page does not meet that page again. */
static bool fits(const struct runs *runs, const struct pages *pages, uint32_t base,
                 uint32_t *ret_next)
{
    for (uint32_t i = 0; i < runs->count; i++) {
        uint32_t offset = (uint32_t)(runs->items[i].page - runs->items[0].page);
        uint32_t used = last_used(pages, base + offset, runs->items[i].count);

        if (used == UINT32_MAX)
            continue;
        *ret_next = used + 1 - offset;
        return false;
    }
    return true;
}

/* Tries the table's own pages first, and then the rest of the pool. */
static bool shift(struct runs *runs, const struct pages *pages)
{
    int64_t span = end_of(&runs->items[runs->count - 1]) - runs->items[0].page;
    uint32_t base, last, tried = 0;
    bool wrapped = false;

    if (span > (int64_t)pages->page_count)
        return false;
    last = pages->page_count - (uint32_t)span;
    base = (uint32_t)((uint64_t)runs->items[0].page % ((uint64_t)last + 1));
    while (tried++ < SHIFTS_MAX) {
        uint32_t next;

        if (fits(runs, pages, base, &next)) {
            for (uint32_t i = 0; i < runs->count; i++)
                runs->items[i].placed =
                    base + (uint32_t)(runs->items[i].page - runs->items[0].page);
            return true;
        }
        base = next;
        if (base <= last)
            continue;
        if (wrapped)
            return false;
        wrapped = true;
        base = 0;
    }
    return false;
}

/* Each group of runs that touch goes to the first place that holds it, a page or more behind the
 * group before. */
static bool squeeze(struct runs *runs, const struct pages *pages)
{
    uint32_t at = 0;

    for (uint32_t i = 0, next; i < runs->count; i = next) {
        uint64_t count = runs->items[i].count;
        uint32_t used;

        for (next = i + 1;
             next < runs->count && runs->items[next].page == end_of(&runs->items[next - 1]); next++)
            count += runs->items[next].count;
        do {
            if (at + count > pages->page_count)
                return false;
            used = last_used(pages, at, (uint32_t)count);
            if (used != UINT32_MAX)
                at = used + 1;
        } while (used != UINT32_MAX);
        for (uint32_t k = i; k < next; k++)
            runs->items[k].placed = at + (uint32_t)(runs->items[k].page - runs->items[i].page);
        at += (uint32_t)count + 1;
    }
    return true;
}

/* Whether squeeze() has room where every page is free. */
static bool can_ever_fit(const struct runs *runs, const struct pages *pages)
{
    uint64_t wanted = runs->page_count;

    for (uint32_t i = 1; i < runs->count; i++)
        wanted += runs->items[i].page != end_of(&runs->items[i - 1]);
    return wanted <= pages->page_count;
}

static runs_fit place(struct runs *runs, struct pages *pages, uint32_t *ret_ids)
{
    if (!sort(runs) || !can_ever_fit(runs, pages))
        return RUNS_NEVER;
    if (!shift(runs, pages) && !squeeze(runs, pages))
        return RUNS_NO_ROOM;
    for (uint32_t i = 0; i < runs->count; i++) {
        uint32_t *ids = ret_ids + runs->items[i].logical;

        for (uint32_t page = 0; page < runs->items[i].count; page++)
            ids[page] = runs->items[i].placed + page;
        pages_take(pages, ids, runs->items[i].count);
    }
    return RUNS_PLACED;
}

runs_fit runs_take(const int64_t *numbers, size_t number_count, uint32_t first, uint32_t end,
                   struct pages *pages, uint32_t *ret_ids)
{
    struct runs runs = {.items = malloc((number_count / 2 + 1) * sizeof(runs.items[0]))};
    runs_fit fit = RUNS_NO_MEMORY;

    if (first == end) {
        free(runs.items);
        return RUNS_PLACED;
    }
    if (runs.items != NULL)
        fit = cut(numbers, number_count, first, end, &runs) ? place(&runs, pages, ret_ids)
                                                            : RUNS_NEVER;
    free(runs.items);
    return fit;
}
