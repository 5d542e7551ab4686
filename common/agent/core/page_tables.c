#include "agent/core/page_tables.h"

#include <inttypes.h>

static uint64_t pages_for(uint64_t tokens, uint32_t page_tokens)
{
    return tokens / page_tokens + (tokens % page_tokens != 0);
}

/* The most tokens that the regions of any group hold. A state sets no bound where others do. */
static uint64_t tokens_max(const struct kvr_region_set *set, uint32_t *ret_group)
{
    uint32_t page_tokens, page_limit;
    uint64_t most = 0;
    bool state = false;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        if (!kvr_region_set_group(set, group, &page_tokens, &page_limit))
            continue;
        state = state || page_tokens == KVR_PAGE_ENDLESS;
        if (page_tokens == KVR_PAGE_ENDLESS || (uint64_t)page_limit * page_tokens <= most)
            continue;
        most = (uint64_t)page_limit * page_tokens;
        *ret_group = group;
    }
    return most == 0 && state ? KVR_PAGE_ENDLESS : most;
}

static kvr_status check(const struct kvr_region_set *set, uint64_t tokens, struct kvr_error *error)
{
    uint32_t group = 0, page_tokens = 1, page_limit = 0;
    uint64_t most = set != NULL ? tokens_max(set, &group) : 0;

    if (most == 0)
        return kvr_error_set(error, KVR_INVALID, "pages",
                             "the engine has no region: add regions first");
    if (tokens > 0 && tokens <= most)
        return KVR_OK;
    if (!kvr_region_set_group(set, group, &page_tokens, &page_limit) ||
        page_tokens == KVR_PAGE_ENDLESS)
        return kvr_error_set(error, KVR_TOO_LARGE, "pages",
                             "%" PRIu64 " tokens: a request has 1 to %" PRIu64, tokens, most);
    return kvr_error_set(error, KVR_TOO_LARGE, "pages",
                         "%" PRIu64 " tokens: the engine's regions hold %u pages of %u tokens",
                         tokens, page_limit, page_tokens);
}

kvr_status kvr_page_tables_init(struct kvr_page_tables *tables, const struct kvr_region_set *set,
                                uint64_t tokens, struct kvr_buddy *memory, struct kvr_error *error)
{
    KVR_TRY(check(set, tokens, error));
    memset(tables, 0, sizeof(*tables));
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        struct kvr_page_table *pages = &tables->groups[group];
        uint32_t page_tokens, page_limit;

        if (!kvr_region_set_group(set, group, &page_tokens, &page_limit))
            continue;
        if (pages_for(tokens, page_tokens) > UINT32_MAX ||
            kvr_page_table_init(pages, memory, (uint32_t)pages_for(tokens, page_tokens),
                                page_limit) != KVR_OK) {
            kvr_page_tables_done(tables, memory);
            return kvr_error_set(error, KVR_NO_MEMORY, "pages", "no memory for a page table");
        }
        pages->page_tokens = page_tokens;
    }
    return KVR_OK;
}

void kvr_page_tables_done(struct kvr_page_tables *tables, struct kvr_buddy *memory)
{
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        if (tables->groups[group].page_tokens > 0)
            kvr_page_table_done(&tables->groups[group], memory);
    memset(tables, 0, sizeof(*tables));
}

uint64_t kvr_page_tables_bytes(const struct kvr_region_set *set, uint64_t tokens)
{
    uint32_t page_tokens, page_limit;
    uint64_t bytes = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        if (kvr_region_set_group(set, group, &page_tokens, &page_limit))
            bytes += pages_for(tokens, page_tokens) * sizeof(uint32_t);
    return bytes;
}

struct kvr_page_table *kvr_page_tables_of(struct kvr_page_tables *tables, uint32_t group,
                                          const char *side, struct kvr_error *error)
{
    if (group < KVR_GROUPS_MAX && tables->groups[group].page_tokens > 0)
        return &tables->groups[group];
    kvr_error_set(error, KVR_INCOMPATIBLE, "pages",
                  "KV group %" PRIu32 ": the %s engine has no region of it", group, side);
    return NULL;
}

uint8_t *kvr_page_tables_record(const struct kvr_page_tables *tables, struct kvr_buddy *memory,
                                struct kvr_event *event)
{
    uint8_t *bytes = kvr_buddy_alloc(memory, KVR_PAGE_RUNS_BYTES_MAX);
    struct kvr_page_ids groups[KVR_GROUPS_MAX];

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        groups[group] =
            (struct kvr_page_ids){tables->groups[group].ids, tables->groups[group].count};
    if (bytes != NULL)
        event->pages_bytes = (uint32_t)kvr_page_runs_pack(groups, event->role, bytes);
    event->pages = bytes;
    event->unrecorded += event->pages_bytes == 0;
    return bytes;
}
