/* The page table of one KV group of one request: logical page → physical page id. Pure; the caller
 * gives the memory. Ids are appended in logical order and never change. */
#ifndef KVR_KV_PAGE_TABLE_H
#define KVR_KV_PAGE_TABLE_H

#include "base/buddy.h"
#include "base/status.h"
#include "base/types.h"

struct kvr_page_table {
    uint32_t *ids; /* owned; from the buddy given to init */
    uint32_t count, capacity;
    uint32_t page_limit;  /* ids are below this: the smallest page_count of the group's regions */
    uint32_t page_tokens; /* of one page; set by the maker of the table */
};

/* capacity: the largest number of pages of the request. */
KVR_MUST_CHECK kvr_status kvr_page_table_init(struct kvr_page_table *table,
                                              struct kvr_buddy *memory, uint32_t capacity,
                                              uint32_t page_limit);
void kvr_page_table_done(struct kvr_page_table *table, struct kvr_buddy *memory);

/* page_first must equal table->count. One call may name an id twice. KVR_INVALID (out of order, id
 * out of range) or KVR_TOO_LARGE, with a reason; then nothing was added. */
KVR_MUST_CHECK kvr_status kvr_page_table_append(struct kvr_page_table *table, uint32_t page_first,
                                                const uint32_t *ids, uint32_t id_count,
                                                struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvr_page_table_append_runs(struct kvr_page_table *table,
                                                     uint32_t page_first,
                                                     const struct kvr_page_run *runs,
                                                     uint32_t run_count, struct kvr_error *error);

/* Writes pages [page_first, page_first + page_count) as runs. Returns the number of runs written,
 * at most capacity; *ret_pages is the number of pages they cover. Call again from there. */
uint32_t kvr_page_table_runs(const struct kvr_page_table *table, uint32_t page_first,
                             uint32_t page_count, struct kvr_page_run *ret_runs, uint32_t capacity,
                             uint32_t *ret_pages);

/* The part of a table in one message: pages [page_first, page_first + page_count) as runs, which
 * are borrowed for the call. */
typedef kvr_status kvr_page_runs_send(void *self, uint32_t page_first, uint32_t page_count,
                                      const struct kvr_page_run *runs, uint32_t run_count);
/* Sends pages [*next, end) in messages of at most KVR_PAGE_RUNS_SENT runs; *next moves past the
 * pages that were sent. The first status other than KVR_OK ends it: call again to send the rest.
 * KVR_NO_MEMORY: there was no memory for the buffer of runs. */
#define KVR_PAGE_RUNS_SENT 4096
KVR_MUST_CHECK kvr_status kvr_page_table_send(const struct kvr_page_table *table, uint32_t *next,
                                              uint32_t end, struct kvr_buddy *memory,
                                              kvr_page_runs_send *send, void *self);

#endif
