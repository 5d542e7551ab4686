/* The page table of one KV group of one request: logical page → physical page id. Pure; the memory
 * is given. Ids are appended in logical order and never change. */
#ifndef KVR_KV_PAGE_TABLE_H
#define KVR_KV_PAGE_TABLE_H

#include "base/buddy.h"
#include "base/status.h"
#include "base/types.h"

struct kvr_page_table {
    uint32_t *ids; /* owned, from the buddy given to init */
    uint32_t count, capacity;
    uint32_t page_limit;  /* ids are below this: the smallest page_count of the group's regions */
    uint32_t page_tokens; /* of one page; set by who made the table */
};

/* capacity: the most pages the request can have. */
KVR_MUST_CHECK kvr_status kvr_page_table_init(struct kvr_page_table *table,
                                              struct kvr_buddy *memory, uint32_t capacity,
                                              uint32_t page_limit);
void kvr_page_table_done(struct kvr_page_table *table, struct kvr_buddy *memory);

/* page_first must equal table->count. KVR_INVALID (out of order, id out of range, named twice in
 * this call is allowed) or KVR_TOO_LARGE, with a sentence; then nothing was added. */
KVR_MUST_CHECK kvr_status kvr_page_table_append(struct kvr_page_table *table, uint32_t page_first,
                                                const uint32_t *ids, uint32_t id_count,
                                                struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvr_page_table_append_runs(struct kvr_page_table *table,
                                                     uint32_t page_first,
                                                     const struct kvr_page_run *runs,
                                                     uint32_t run_count, struct kvr_error *error);

/* Writes pages [page_first, page_first + page_count) as runs; returns how many runs were written,
 * at most capacity, and in *ret_pages how many pages they cover: call again from there. */
uint32_t kvr_page_table_runs(const struct kvr_page_table *table, uint32_t page_first,
                             uint32_t page_count, struct kvr_page_run *ret_runs, uint32_t capacity,
                             uint32_t *ret_pages);

#endif
