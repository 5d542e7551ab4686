#include "tools/replay/replay_target.h"

#include <stdlib.h>
#include <string.h>

#define SLICE_PAGES_BYTES (1u << 20) /* looked at between two looks at events */

static uint32_t slice_pages(const struct target *target)
{
    uint64_t pages = SLICE_PAGES_BYTES / target->engine.setup->groups[0].page_bytes;

    return pages > 0 ? (uint32_t)pages : 1;
}

/* Makes pages free: from now on they hold marks, so that a write that comes after the hand-back
 * shows when they are taken again. */
static void release(struct target *target, uint32_t group, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        target_mark_free(target, group, ids[i]);
    pages_release(&target->engine.pages[group], ids, count);
}

static bool evict_block(struct target *target, bool full_check)
{
    struct cache_entry entry;

    if (!cache_evict(&target->cache, &entry, target->block_ids))
        return false;
    target_recheck_kept(target, &entry, target->block_ids, full_check);
    release(target, 0, target->block_ids, target->engine.setup->block_pages);
    return true;
}

/* Full blocks only, as engines keep them. */
static uint32_t full_blocks(const struct target *target, const struct target_request *request)
{
    return replay_request(target->engine.setup, request->base.index)->input_tokens /
           KVR_TRACE_BLOCK_TOKENS;
}

static const uint64_t *blocks_of(const struct target *target, const struct target_request *request)
{
    return kvr_trace_blocks(&target->engine.setup->trace,
                            replay_request(target->engine.setup, request->base.index));
}

/* Of a hybrid model the other groups' pages are fetched in any case, and something with them. */
static uint32_t match_prefix(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;
    uint32_t blocks = full_blocks(target, request);
    uint32_t tokens = replay_request(setup, request->base.index)->input_tokens;

    if (setup->group_count > 1 && blocks > 0 && blocks * KVR_TRACE_BLOCK_TOKENS == tokens)
        blocks--;
    return cache_match(&target->cache, blocks_of(target, request), blocks, request->tables[0].ids);
}

static bool make_tables(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;

    if (replay_tables_make(setup, replay_request(setup, request->base.index)->input_tokens,
                           request->tables)) {
        request->checked = calloc((size_t)request->tables[0].count * setup->geometry.layers,
                                  sizeof(request->checked[0]));
        if (request->checked != NULL)
            return true;
        replay_tables_free(request->tables);
    }
    replay_say(target->engine.router, REPLAY_FATAL, 1, "no memory for a page table");
    return false;
}

/* Of a recorded transfer the trace says what was skipped, and no cache keeps anything. */
static bool is_recorded(const struct target *target, const struct target_request *request)
{
    return replay_recorded(target->engine.setup, request->base.index)->transfer;
}

/* Whole pages; of a hybrid model something moves with the other groups' pages. */
static uint32_t recorded_skip(const struct target *target, const struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;
    uint64_t skip_tokens = replay_recorded(setup, request->base.index)->skip_tokens;
    uint64_t pages = skip_tokens / setup->groups[0].page_tokens;
    uint32_t count = request->tables[0].count;

    if (skip_tokens >= replay_request(setup, request->base.index)->input_tokens)
        pages = count;
    if (setup->group_count > 1 && pages >= count)
        pages = count - 1;
    return pages < count ? (uint32_t)pages : count;
}

bool target_admit(struct target *target, struct target_request *request)
{
    const uint64_t *blocks = blocks_of(target, request);
    uint32_t hit = 0;

    if (request->tables[0].ids == NULL && !make_tables(target, request))
        return false;
    if (is_recorded(target, request)) {
        request->tables[0].first = recorded_skip(target, request);
    } else {
        hit = match_prefix(target, request);
        request->tables[0].first = request->kept = hit * target->engine.setup->block_pages;
    }
    if (replay_tables_acquire(&target->engine, request->base.index, request->tables)) {
        request->phase = TARGET_CLEAN;
        request->cursor = request->tables[0].first;
        return true;
    }
    /* The prefix stays pinned while room is made, so that it is not what makes the room. */
    if (evict_block(target, false)) {
        cache_unpin(&target->cache, blocks, hit);
        return true;
    }
    cache_unpin(&target->cache, blocks, hit);
    return false;
}

static void take_free(struct target *target, uint32_t group, const struct replay_table *table,
                      uint32_t page)
{
    if (!target_take_free(target, group, table->ids[page]))
        target->late_pages++;
}

/* Of the other groups there are few. */
bool target_clean(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_table *full = &request->tables[0];
    uint32_t end = request->cursor + slice_pages(target);

    if (setup->verify != REPLAY_VERIFY_FULL)
        return true;
    for (; request->cursor < end && request->cursor < full->count; request->cursor++)
        take_free(target, 0, full, request->cursor);
    if (request->cursor < full->count)
        return false;
    for (uint32_t group = 1; group < setup->group_count; group++)
        for (uint32_t page = request->tables[group].first; page < request->tables[group].count;
             page++)
            take_free(target, group, &request->tables[group], page);
    return true;
}

/* A block goes to the cache when it arrived whole and right, and is not there already. */
static void keep_block(struct target *target, struct target_request *request, uint32_t position)
{
    const uint32_t *ids =
        request->tables[0].ids + (size_t)position * target->engine.setup->block_pages;
    bool good = request->status == KVRAIL_OK && request->ended.bytes_wrong == 0;

    if (good && cache_insert(&target->cache, blocks_of(target, request)[position], position, ids))
        return;
    release(target, 0, ids, target->engine.setup->block_pages);
}

static void release_others(struct target *target, const struct target_request *request)
{
    for (uint32_t group = 1; group < target->engine.setup->group_count; group++)
        release(target, group, request->tables[group].ids + request->tables[group].first,
                request->tables[group].count - request->tables[group].first);
}

/* One slice of handing back what no cache takes. */
static bool release_recorded(struct target *target, struct target_request *request)
{
    const struct replay_table *table = &request->tables[0];
    uint32_t count = slice_pages(target);

    if (request->cursor < table->first)
        request->cursor = table->first;
    if (count > table->count - request->cursor)
        count = table->count - request->cursor;
    release(target, 0, table->ids + request->cursor, count);
    request->cursor += count;
    if (request->cursor < table->count)
        return false;
    release_others(target, request);
    return true;
}

bool target_keep(struct target *target, struct target_request *request)
{
    uint32_t block_pages = target->engine.setup->block_pages, full = full_blocks(target, request);
    uint32_t skipped = request->kept / block_pages;
    const struct replay_table *full_table = &request->tables[0];

    if (is_recorded(target, request))
        return release_recorded(target, request);
    if (request->cursor < skipped)
        request->cursor = skipped;
    if (request->cursor < full) {
        keep_block(target, request, request->cursor++);
        return false;
    }
    release(target, 0, full_table->ids + (size_t)full * block_pages,
            full_table->count - full * block_pages);
    release_others(target, request);
    cache_unpin(&target->cache, blocks_of(target, request), skipped);
    return true;
}

void target_drop(struct target *target, struct target_request *request)
{
    if (request->phase == TARGET_QUEUED)
        return;
    cache_unpin(&target->cache, blocks_of(target, request),
                request->kept / target->engine.setup->block_pages);
    replay_tables_release(&target->engine, request->tables);
}

void target_inspect(struct target *target)
{
    while (evict_block(target, true))
        ;
    for (uint32_t group = 0; group < target->engine.setup->group_count; group++) {
        const struct pages *pages = &target->engine.pages[group];

        for (uint32_t i = 0; i < pages->free_count; i++)
            if (!target_take_free(target, group, pages->free[i]))
                target->late_pages++;
    }
}
