#include "tools/replay_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/replay_explain.h"

#define SLICE_BYTES     (512u << 10) /* checked between two looks at events */
#define WRONG_LINES_MAX 10u          /* after that they are only counted */

static void say_wrong(struct target *target, const struct target_request *request, uint32_t page,
                      uint32_t layer, uint32_t part, const struct content_wrong *wrong)
{
    struct replay_message message = {.kind = REPLAY_WRONG, .request = request->index};

    if (target->wrong_said++ >= WRONG_LINES_MAX)
        return;
    replay_explain(target->engine.setup, request->index, page, layer, part, wrong, message.text,
                   sizeof(message.text));
    (void)replay_send(target->engine.router, &message);
}

typedef enum check_depth {
    CHECK_FULL,   /* every byte */
    CHECK_SAMPLE, /* the first, the last and one other token */
    CHECK_PROBE,  /* a word here and there, enough to see that somebody wrote */
} check_depth;

/* One page of one layer and part. Adds the bytes looked at. */
static bool check_plane(struct target *target, uint64_t key, uint64_t token_first,
                        check_depth depth, const uint8_t *memory, uint64_t *looked_at,
                        struct content_wrong *wrong)
{
    uint32_t tokens = target->engine.setup->page_tokens;
    uint64_t token_bytes = target->engine.setup->plane_bytes / tokens;
    uint32_t samples[3] = {0, tokens - 1, (uint32_t)kvr_rng_below(&target->rng, tokens)};
    bool right = true;

    if (depth == CHECK_PROBE)
        return content_probe(key, target->slice, token_first, tokens, memory, looked_at, wrong);
    if (depth == CHECK_FULL) {
        *looked_at += tokens * token_bytes;
        return content_check(key, target->slice, token_first, tokens, memory, wrong);
    }
    *looked_at += 3 * token_bytes;
    for (int i = 0; i < 3 && right; i++)
        right = content_check(key, target->slice, token_first + samples[i], 1,
                              memory + samples[i] * token_bytes, wrong);
    return right;
}

/* All parts of one layer of one page of a request. */
static void check_page(struct target *target, struct target_request *request, uint32_t layer,
                       uint32_t page, check_depth depth, uint64_t *looked_at)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct model *model = setup->geometry.model;
    uint64_t token_first = (uint64_t)page * setup->page_tokens;

    for (uint32_t part = 0; part < model->part_count; part++) {
        uint64_t key = replay_page_key(setup, request->index, page, layer, model->parts[part]);
        const uint8_t *memory =
            replay_engine_page(&target->engine, layer, part, request->ids[page]);
        struct content_wrong wrong;

        if (check_plane(target, key, token_first, depth, memory, looked_at, &wrong))
            continue;
        request->ended.bytes_wrong +=
            content_count_wrong(key, target->slice, token_first, setup->page_tokens, memory);
        say_wrong(target, request, page, layer, model->parts[part], &wrong);
    }
}

/* Once for each layer of each page. Returns the bytes that this costs, for the slice. */
static uint64_t check_once(struct target *target, struct target_request *request, uint32_t layer,
                           uint32_t page)
{
    const struct replay_setup *setup = target->engine.setup;
    bool *checked = &request->checked[(size_t)layer * request->page_count + page];

    if (*checked)
        return 0;
    *checked = true;
    if (setup->verify == REPLAY_VERIFY_NONE)
        return 0;
    check_page(target, request, layer, page,
               setup->verify == REPLAY_VERIFY_FULL ? CHECK_FULL : CHECK_SAMPLE,
               &request->ended.bytes_verified);
    return setup->plane_bytes * setup->geometry.model->part_count;
}

static bool add_range(struct target_request *request, const struct target_range *range)
{
    uint32_t capacity = request->range_capacity > 0 ? 2 * request->range_capacity : 64;
    struct target_range *larger;

    if (request->range_count == request->range_capacity) {
        larger = realloc(request->ranges, capacity * sizeof(larger[0]));
        if (larger == NULL)
            return false;
        request->ranges = larger;
        request->range_capacity = capacity;
    }
    request->ranges[request->range_count++] = *range;
    return true;
}

bool target_announce(struct target *target, struct target_request *request,
                     const struct kvrail_event *event)
{
    const struct replay_setup *setup = target->engine.setup;
    uint64_t page_first = event->token_first / setup->page_tokens;
    uint64_t page_end = (event->token_end + setup->page_tokens - 1) / setup->page_tokens;
    struct target_range range;

    if (event->layer_first >= setup->geometry.layers ||
        event->layer_count > setup->geometry.layers - event->layer_first ||
        page_end > request->page_count || page_first > page_end) {
        replay_say(
            target->engine.router, REPLAY_NOTE, KVRAIL_MALFORMED,
            "request %u: LAYER_IN names layers %u + %u, tokens %llu to %llu, which it has not",
            request->index, event->layer_first, event->layer_count,
            (unsigned long long)event->token_first, (unsigned long long)event->token_end);
        request->ended.bytes_wrong++;
        return true;
    }
    range.page_first =
        page_first > request->skip_pages ? (uint32_t)page_first : request->skip_pages;
    range.page_end = (uint32_t)page_end;
    range.layer = event->layer_first;
    range.layer_end = event->layer_first + event->layer_count;
    range.page = range.page_first;
    return range.page_first >= range.page_end || add_range(request, &range);
}

bool target_check_announced(struct target *target, struct target_request *request)
{
    uint64_t bytes = 0;

    while (request->range_first < request->range_count) {
        struct target_range *range = &request->ranges[request->range_first];

        for (; range->layer < range->layer_end; range->layer++) {
            for (; range->page < range->page_end && bytes < SLICE_BYTES; range->page++)
                bytes += check_once(target, request, range->layer, range->page);
            if (range->page < range->page_end)
                return false;
            range->page = range->page_first;
        }
        request->range_first++;
    }
    return true;
}

static bool was_checked(const struct target_request *request, uint32_t layer, uint32_t page)
{
    return request->checked[(size_t)layer * request->page_count + page];
}

bool target_check_rest(struct target *target, struct target_request *request)
{
    const struct replay_setup *setup = target->engine.setup;
    uint64_t bytes = 0, layer_bytes = setup->plane_bytes * setup->geometry.model->part_count;

    for (; request->cursor < request->page_count && bytes < SLICE_BYTES; request->cursor++) {
        uint32_t page = request->cursor;

        for (uint32_t layer = 0; layer < setup->geometry.layers; layer++) {
            if (page >= request->skip_pages && !was_checked(request, layer, page)) {
                target->unannounced++;
                bytes += check_once(target, request, layer, page);
            } else if (page < request->skip_pages && setup->verify != REPLAY_VERIFY_NONE) {
                check_page(target, request, layer, page, CHECK_PROBE,
                           &request->ended.bytes_rechecked);
                bytes += layer_bytes / 4; /* few words, but memory that is far away */
            }
        }
    }
    return request->cursor == request->page_count;
}

void target_check_tail(struct target *target, struct target_request *request,
                       const struct kvrail_event *event)
{
    struct content_slice slice = {0, REPLAY_TAIL_WORDS};
    uint64_t words[REPLAY_TAIL_WORDS] = {0};
    struct content_wrong wrong;

    request->tail_in = true;
    memcpy(words, event->payload,
           event->payload_bytes < sizeof(words) ? event->payload_bytes : sizeof(words));
    if (event->payload_bytes == sizeof(words) &&
        content_check(replay_tail_key(target->engine.setup, request->index), slice, 0, 1, words,
                      &wrong))
        return;
    request->ended.bytes_wrong += sizeof(words);
    replay_say(target->engine.router, REPLAY_WRONG, 0,
               "request %u: its tail of %u bytes is not the %zu bytes that the source gave",
               request->index, event->payload_bytes, sizeof(words));
}

/* One page that the cache kept. */
static bool kept_page_right(struct target *target, const struct cache_entry *entry, uint32_t page,
                            uint32_t id, check_depth depth)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct model *model = setup->geometry.model;
    uint64_t token = (uint64_t)entry->position * KVR_TRACE_BLOCK_TOKENS + page * setup->page_tokens;
    struct content_wrong wrong;
    uint64_t looked_at = 0;

    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++) {
        for (uint32_t part = 0; part < model->part_count; part++) {
            uint64_t key =
                content_key(setup->options.seed, entry->block, layer, model->parts[part]);

            if (check_plane(target, key, token, depth,
                            replay_engine_page(&target->engine, layer, part, id), &looked_at,
                            &wrong))
                continue;
            replay_say(target->engine.router, REPLAY_WRONG, 0,
                       "page %u, which the prefix cache kept, was written later: block %llu, layer "
                       "%u, part %s, token %llu",
                       id, (unsigned long long)entry->block, layer,
                       replay_part_name(model->parts[part]), (unsigned long long)wrong.token);
            return false;
        }
    }
    return true;
}

void target_recheck_kept(struct target *target, const struct cache_entry *entry,
                         const uint32_t *ids, bool full)
{
    const struct replay_setup *setup = target->engine.setup;

    for (uint32_t page = 0; page < setup->block_pages && setup->verify != REPLAY_VERIFY_NONE;
         page++)
        if (!kept_page_right(target, entry, page, ids[page],
                             full && setup->verify == REPLAY_VERIFY_FULL ? CHECK_FULL
                                                                         : CHECK_PROBE))
            target->late_pages++;
}

/* ---- free pages ----------------------------------------------------------------------------- */

void target_mark_free(struct target *target, uint32_t id)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct model *model = setup->geometry.model;

    if (setup->verify != REPLAY_VERIFY_FULL)
        return;
    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++)
        for (uint32_t part = 0; part < model->part_count; part++)
            content_mark(id, layer, part, replay_engine_page(&target->engine, layer, part, id),
                         setup->plane_bytes);
    target->marked[id] = true;
}

bool target_take_free(struct target *target, uint32_t id)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct model *model = setup->geometry.model;
    uint64_t offset;

    if (!target->marked[id])
        return true;
    target->marked[id] = false;
    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++) {
        for (uint32_t part = 0; part < model->part_count; part++) {
            if (content_marked(id, layer, part,
                               replay_engine_page(&target->engine, layer, part, id),
                               setup->plane_bytes, &offset))
                continue;
            replay_say(target->engine.router, REPLAY_WRONG, 0,
                       "page %u was written after it had been handed back: layer %u, part %s, "
                       "byte %llu of the page",
                       id, layer, replay_part_name(model->parts[part]), (unsigned long long)offset);
            return false;
        }
    }
    return true;
}
