#include "tools/replay_target.h"

#include <stdlib.h>
#include <string.h>

#define SLICE_PAGES_BYTES (1u << 20) /* looked at between two looks at events */

static uint32_t slice_pages(const struct target *target)
{
    uint64_t pages = SLICE_PAGES_BYTES / target->engine.setup->page_bytes;

    return pages > 0 ? (uint32_t)pages : 1;
}

/* Makes pages free: from now on they hold marks, so that a write that comes after the hand-back
 * shows when they are taken again. */
static void release(struct target *target, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        target_mark_free(target, ids[i]);
    pages_release(&target->engine.pages, ids, count);
}

static bool evict_block(struct target *target, bool full_check)
{
    struct cache_entry entry;

    if (!cache_evict(&target->cache, &entry, target->block_ids))
        return false;
    target_recheck_kept(target, &entry, target->block_ids, full_check);
    release(target, target->block_ids, target->engine.setup->block_pages);
    return true;
}

/* Full blocks only, as engines keep them. */
static uint32_t full_blocks(const struct target *target, const struct target_request *request)
{
    return replay_request(target->engine.setup, request->index)->input_tokens /
           KVR_TRACE_BLOCK_TOKENS;
}

static const uint64_t *blocks_of(const struct target *target, const struct target_request *request)
{
    return kvr_trace_blocks(&target->engine.setup->trace,
                            replay_request(target->engine.setup, request->index));
}

static bool make_tables(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;

    request->ids = calloc(request->page_count, sizeof(request->ids[0]));
    request->checked =
        calloc((size_t)request->page_count * setup->geometry.layers, sizeof(request->checked[0]));
    if (request->ids != NULL && request->checked != NULL)
        return true;
    replay_say(target->engine.router, REPLAY_FATAL, 1, "no memory for a page table");
    return false;
}

bool target_admit(struct target *target, struct target_request *request)
{
    const uint64_t *blocks = blocks_of(target, request);
    uint32_t hit, wanted;

    if (request->ids == NULL && !make_tables(target, request))
        return false;
    hit = cache_match(&target->cache, blocks, full_blocks(target, request), request->ids);
    request->skip_pages = hit * target->engine.setup->block_pages;
    wanted = request->page_count - request->skip_pages;
    if (pages_acquire(&target->engine.pages, wanted, request->ids + request->skip_pages)) {
        request->phase = TARGET_CLEAN;
        request->cursor = request->skip_pages;
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

bool target_clean(struct target *target, struct target_request *request)
{
    uint32_t end = request->cursor + slice_pages(target);

    if (target->engine.setup->verify != REPLAY_VERIFY_FULL)
        return true;
    for (; request->cursor < end && request->cursor < request->page_count; request->cursor++)
        if (!target_take_free(target, request->ids[request->cursor]))
            target->late_pages++;
    return request->cursor >= request->page_count;
}

/* A block goes to the cache when it arrived whole and right, and is not there already. */
static void keep_block(struct target *target, struct target_request *request, uint32_t position)
{
    const uint32_t *ids = request->ids + (size_t)position * target->engine.setup->block_pages;
    bool good = request->status == KVRAIL_OK && request->ended.bytes_wrong == 0;

    if (good && cache_insert(&target->cache, blocks_of(target, request)[position], position, ids))
        return;
    release(target, ids, target->engine.setup->block_pages);
}

bool target_keep(struct target *target, struct target_request *request)
{
    uint32_t block_pages = target->engine.setup->block_pages, full = full_blocks(target, request);
    uint32_t skipped = request->skip_pages / block_pages;

    if (request->cursor < skipped)
        request->cursor = skipped;
    if (request->cursor < full) {
        keep_block(target, request, request->cursor++);
        return false;
    }
    release(target, request->ids + (size_t)full * block_pages,
            request->page_count - full * block_pages);
    cache_unpin(&target->cache, blocks_of(target, request), skipped);
    return true;
}

void target_drop(struct target *target, struct target_request *request)
{
    if (request->phase == TARGET_QUEUED)
        return;
    cache_unpin(&target->cache, blocks_of(target, request),
                request->skip_pages / target->engine.setup->block_pages);
    pages_release(&target->engine.pages, request->ids + request->skip_pages,
                  request->page_count - request->skip_pages);
}

void target_inspect(struct target *target)
{
    const struct pages *pages = &target->engine.pages;

    while (evict_block(target, true))
        ;
    for (uint32_t i = 0; i < pages->free_count; i++)
        if (!target_take_free(target, pages->free[i]))
            target->late_pages++;
}
