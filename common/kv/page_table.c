#include "kv/page_table.h"

#include "base/mutant.h"

#include <inttypes.h>

kvr_status kvr_page_table_init(struct kvr_page_table *table, struct kvr_buddy *memory,
                               uint32_t capacity, uint32_t page_limit)
{
    uint32_t *ids = NULL;

    if (capacity > 0) {
        ids = kvr_buddy_alloc(memory, (size_t)capacity * sizeof(*ids));
        if (ids == NULL)
            return KVR_NO_MEMORY;
    }
    *table = (struct kvr_page_table){.ids = ids, .capacity = capacity, .page_limit = page_limit};
    return KVR_OK;
}

void kvr_page_table_done(struct kvr_page_table *table, struct kvr_buddy *memory)
{
    kvr_buddy_free(memory, table->ids);
    *table = (struct kvr_page_table){0};
}

static kvr_status out_of_order(const struct kvr_page_table *table, uint32_t page_first,
                               struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INVALID, "page_table",
                         "pages from %" PRIu32 " were given where page %" PRIu32 " is next",
                         page_first, table->count);
}

static kvr_status too_large(const struct kvr_page_table *table, uint64_t count,
                            struct kvr_error *error)
{
    return kvr_error_set(error, KVR_TOO_LARGE, "page_table",
                         "%" PRIu64 " more pages after %" PRIu32 " are more than the %" PRIu32
                         " that the request can have",
                         count, table->count, table->capacity);
}

static kvr_status out_of_range(const struct kvr_page_table *table, uint64_t id,
                               struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INVALID, "page_table",
                         "page id %" PRIu64 " is outside the region, which has %" PRIu32 " pages",
                         id, table->page_limit);
}

kvr_status kvr_page_table_append(struct kvr_page_table *table, uint32_t page_first,
                                 const uint32_t *ids, uint32_t id_count, struct kvr_error *error)
{
    if (page_first != table->count)
        return out_of_order(table, page_first, error);
    if (id_count > table->capacity - table->count)
        return too_large(table, id_count, error);
    for (uint32_t i = 0; i < id_count; i++) {
        if (ids[i] >= table->page_limit && !KVR_MUTANT(page_out_of_bounds))
            return out_of_range(table, ids[i], error);
    }
    if (id_count > 0)
        memcpy(table->ids + table->count, ids, (size_t)id_count * sizeof(*ids));
    table->count += id_count;
    return KVR_OK;
}

/* Checks all runs before the first is added, because a refusal must leave the table unchanged. */
static kvr_status check_runs(const struct kvr_page_table *table, const struct kvr_page_run *runs,
                             uint32_t run_count, struct kvr_error *error)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < run_count; i++) {
        uint64_t end = (uint64_t)runs[i].page_first + runs[i].page_count;

        if (runs[i].page_count == 0)
            return kvr_error_set(error, KVR_INVALID, "page_table",
                                 "run %" PRIu32 " at page id %" PRIu32 " has no pages", i,
                                 runs[i].page_first);
        if (end > table->page_limit && !KVR_MUTANT(page_out_of_bounds))
            return out_of_range(table, end - 1, error);
        total += runs[i].page_count;
        if (total > table->capacity - table->count)
            return too_large(table, total, error);
    }
    return KVR_OK;
}

kvr_status kvr_page_table_append_runs(struct kvr_page_table *table, uint32_t page_first,
                                      const struct kvr_page_run *runs, uint32_t run_count,
                                      struct kvr_error *error)
{
    if (page_first != table->count)
        return out_of_order(table, page_first, error);
    KVR_TRY(check_runs(table, runs, run_count, error));
    for (uint32_t i = 0; i < run_count; i++) {
        for (uint32_t page = 0; page < runs[i].page_count; page++)
            table->ids[table->count++] = runs[i].page_first + page;
    }
    return KVR_OK;
}

uint32_t kvr_page_table_runs(const struct kvr_page_table *table, uint32_t page_first,
                             uint32_t page_count, struct kvr_page_run *ret_runs, uint32_t capacity,
                             uint32_t *ret_pages)
{
    uint32_t available = page_first < table->count ? table->count - page_first : 0;
    uint32_t end = page_first + (page_count < available ? page_count : available);
    uint32_t at = page_first, run_count = 0;

    while (at < end && run_count < capacity) {
        struct kvr_page_run run = {.page_first = table->ids[at], .page_count = 1};

        for (at++; at < end && table->ids[at] == table->ids[at - 1] + 1; at++)
            run.page_count++;
        ret_runs[run_count++] = run;
    }
    *ret_pages = at - page_first;
    return run_count;
}

kvr_status kvr_page_table_send(const struct kvr_page_table *table, uint32_t *next, uint32_t end,
                               struct kvr_buddy *memory, kvr_page_runs_send *send, void *self)
{
    kvr_status status = KVR_OK;
    struct kvr_page_run *runs;

    if (*next >= end)
        return KVR_OK;
    runs = kvr_buddy_alloc(memory, KVR_PAGE_RUNS_SENT * sizeof(*runs));
    if (runs == NULL)
        return KVR_NO_MEMORY;
    while (status == KVR_OK && *next < end) {
        uint32_t pages, count = kvr_page_table_runs(table, *next, end - *next, runs,
                                                    KVR_PAGE_RUNS_SENT, &pages);

        status = send(self, *next, pages, runs, count);
        *next += status == KVR_OK ? pages : 0;
    }
    kvr_buddy_free(memory, runs);
    return status;
}
