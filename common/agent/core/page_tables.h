/* The page tables of one request: one for each KV group that the engine's regions have. Pure. */
#ifndef KVR_AGENT_PAGE_TABLES_H
#define KVR_AGENT_PAGE_TABLES_H

#include "agent/core/region_set.h"
#include "kv/page_table.h"
#include "trace/page_runs.h"

struct kvr_page_tables {
    struct kvr_page_table groups[KVR_GROUPS_MAX]; /* page_tokens 0: the engine has no such region */
};

/* For a request of so many tokens. KVR_INVALID: no regions; KVR_TOO_LARGE: no group's regions hold
 * so many tokens. A group that keeps fewer (a window) names pages more than once. KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status kvr_page_tables_init(struct kvr_page_tables *tables,
                                               const struct kvr_region_set *set, uint64_t tokens,
                                               struct kvr_buddy *memory, struct kvr_error *error);
void kvr_page_tables_done(struct kvr_page_tables *tables, struct kvr_buddy *memory);

/* What init takes of the memory for the ids. */
uint64_t kvr_page_tables_bytes(const struct kvr_region_set *set, uint64_t tokens);

/* The table of a group, or NULL with KVR_INCOMPATIBLE. side: "source" or "target", for sentences.
 */
struct kvr_page_table *kvr_page_tables_of(struct kvr_page_tables *tables, uint32_t group,
                                          const char *side, struct kvr_error *error);

/* Pages of all groups that were named so far. */
static inline uint32_t kvr_page_tables_count(const struct kvr_page_tables *tables)
{
    uint32_t count = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        count += tables->groups[group].count;
    return count;
}

/* Whether the target may skip so many of its tokens in a group with such pages: whole pages, or
 * all.
 */
static inline bool kvr_skip_is_whole(uint64_t skip_tokens, uint64_t tokens, uint32_t page_tokens)
{
    return skip_tokens == tokens || (skip_tokens < tokens && skip_tokens % page_tokens == 0);
}

/* Of `skip_tokens` that the target has, those that it need not be sent of a group: whole pages, or
 * all. */
static inline uint64_t kvr_skip_whole_pages(uint64_t skip_tokens, uint64_t tokens,
                                            uint32_t page_tokens)
{
    return skip_tokens == tokens ? tokens : skip_tokens / page_tokens * page_tokens;
}

/* Packs them for the scheduler (trace/page_runs.h) into the event. Returns the memory that the
 * event borrows then, for kvr_buddy_free. NULL: there is none, or they have too many runs; the
 * event counts that. */
uint8_t *kvr_page_tables_record(const struct kvr_page_tables *tables, struct kvr_buddy *memory,
                                struct kvr_event *event);

#endif
