#include "tools/replay/replay_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/replay/replay_explain.h"

#define SLICE_BYTES     (512u << 10) /* checked between two looks at events */
#define WRONG_LINES_MAX 10u          /* after that they are only counted */

static void say_wrong(struct target *target, const struct target_request *request, uint32_t page,
                      uint32_t layer, uint32_t part, const struct content_wrong *wrong)
{
    struct replay_message message = {.kind = REPLAY_WRONG, .request = request->base.index};

    if (target->wrong_said++ >= WRONG_LINES_MAX)
        return;
    replay_explain(target->engine.setup, request->base.index, page, layer, part, wrong,
                   message.text, sizeof(message.text));
    (void)replay_send(target->engine.router, &message);
}

typedef enum check_depth {
    CHECK_FULL,   /* every byte */
    CHECK_SAMPLE, /* the first, the last and one other token */
    CHECK_PROBE,  /* a word here and there, enough to see a write */
} check_depth;

/* One page of one layer and part. Adds the bytes looked at. */
static bool check_plane(struct target *target, const struct content *content, check_depth depth,
                        const uint8_t *memory, uint64_t *looked_at, struct content_wrong *wrong)
{
    uint32_t tokens = content->token_count;
    uint64_t token_bytes = content->token_words * sizeof(uint64_t);
    uint32_t samples[3] = {0, tokens - 1, (uint32_t)kvr_rng_below(&target->rng, tokens)};
    bool right = true;

    if (depth == CHECK_PROBE)
        return content_probe(content, memory, looked_at, wrong);
    if (depth == CHECK_FULL) {
        *looked_at += tokens * token_bytes;
        return content_check(content, memory, wrong);
    }
    *looked_at += 3 * token_bytes;
    for (int i = 0; i < 3 && right; i++) {
        struct content one = *content;

        one.token_first += samples[i];
        one.token_count = 1;
        right = content_check(&one, memory + samples[i] * token_bytes, wrong);
    }
    return right;
}

/* All parts of one layer of one page of a request. */
static void check_page(struct target *target, struct target_request *request, uint32_t layer,
                       uint32_t page, check_depth depth, uint64_t *looked_at)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_table *table = &request->tables[setup->layer_groups[layer]];
    uint32_t tokens = replay_request(setup, request->base.index)->input_tokens;

    for (uint32_t i = 0; i < replay_group(setup, layer)->part_count; i++) {
        uint32_t part = replay_part(setup, layer, i);
        struct content content =
            replay_content(setup, request->base.index, tokens, layer, part, page);
        const uint8_t *memory = replay_engine_page(&target->engine, layer, i, table->ids[page]);
        struct content_wrong wrong;

        if (check_plane(target, &content, depth, memory, looked_at, &wrong))
            continue;
        request->ended.bytes_wrong += content_count_wrong(&content, memory);
        say_wrong(target, request, page, layer, part, &wrong);
    }
}

/* Once for each layer of each page. Returns the bytes that this costs, for the slice. */
static uint64_t check_once(struct target *target, struct target_request *request, uint32_t layer,
                           uint32_t page)
{
    const struct replay_setup *setup = target->engine.setup;
    bool *checked = &request->checked[(size_t)layer * request->tables[0].count + page];
    const struct replay_group *group = replay_group(setup, layer);

    if (*checked)
        return 0;
    *checked = true;
    if (setup->verify == REPLAY_VERIFY_NONE)
        return 0;
    check_page(target, request, layer, page,
               setup->verify == REPLAY_VERIFY_FULL ? CHECK_FULL : CHECK_SAMPLE,
               &request->ended.bytes_verified);
    return group->plane_bytes * group->part_count;
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

/* Layers [layer, layer_end) of one group. */
static bool add_pages(struct target_request *request, const struct replay_setup *setup,
                      uint32_t layer, uint32_t layer_end, const struct kvrail_event *event)
{
    const struct replay_group *group = replay_group(setup, layer);
    const struct replay_table *table = &request->tables[setup->layer_groups[layer]];
    uint64_t page_first = event->token_first / group->page_tokens;
    struct target_range range = {
        .page_first = page_first > table->first ? (uint32_t)page_first : table->first,
        .page_end = replay_pages(group, (uint32_t)event->token_end),
        .layer = layer,
        .layer_end = layer_end,
    };

    range.page = range.page_first;
    return range.page_first >= range.page_end || add_range(request, &range);
}

bool target_announce(struct target *target, struct target_request *request,
                     const struct kvrail_event *event)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_table *full = &request->tables[0];
    uint32_t end = event->layer_first + event->layer_count, next;

    if (event->layer_first >= setup->geometry.layers ||
        event->layer_count > setup->geometry.layers - event->layer_first ||
        event->token_first > event->token_end ||
        event->token_end > (uint64_t)full->count * setup->groups[0].page_tokens) {
        replay_say(
            target->engine.router, REPLAY_NOTE, KVRAIL_MALFORMED,
            "request %u: LAYER_IN names layers %u + %u, tokens %llu to %llu, which it has not",
            request->base.index, event->layer_first, event->layer_count,
            (unsigned long long)event->token_first, (unsigned long long)event->token_end);
        request->ended.bytes_wrong++;
        return true;
    }
    for (uint32_t layer = event->layer_first; layer < end; layer = next) {
        for (next = layer; next < end && setup->layer_groups[next] == setup->layer_groups[layer];)
            next++;
        if (!add_pages(request, setup, layer, next, event))
            return false;
    }
    return true;
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
    return request->checked[(size_t)layer * request->tables[0].count + page];
}

/* The bytes of one page of one layer that no notice announced, or that the cache kept. Returns how
 * many were checked. */
static uint64_t check_rest(struct target *target, struct target_request *request, uint32_t layer,
                           uint32_t page)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_group *group = replay_group(setup, layer);
    const struct replay_table *table = &request->tables[setup->layer_groups[layer]];

    if (page >= table->first && page < table->count && !was_checked(request, layer, page)) {
        target->unannounced++;
        return check_once(target, request, layer, page);
    }
    if (group->kind != MODEL_FULL || page >= request->kept || setup->verify == REPLAY_VERIFY_NONE)
        return 0;
    check_page(target, request, layer, page, CHECK_PROBE, &request->ended.bytes_rechecked);
    return group->plane_bytes * group->part_count / 4; /* few words, but memory that is far away */
}

bool target_check_rest(struct target *target, struct target_request *request)
{
    uint32_t layers = target->engine.setup->geometry.layers;
    uint64_t bytes = 0;

    for (; request->cursor < request->tables[0].count && bytes < SLICE_BYTES; request->cursor++)
        for (uint32_t layer = 0; layer < layers; layer++)
            bytes += check_rest(target, request, layer, request->cursor);
    return request->cursor == request->tables[0].count;
}

void target_check_tail(struct target *target, struct target_request *request,
                       const struct kvrail_event *event)
{
    struct content tail = replay_tail_content(target->engine.setup, request->base.index);
    uint64_t words[REPLAY_TAIL_WORDS] = {0};
    struct content_wrong wrong;

    request->tail_in = true;
    memcpy(words, event->payload,
           event->payload_bytes < sizeof(words) ? event->payload_bytes : sizeof(words));
    if (event->payload_bytes == sizeof(words) && content_check(&tail, words, &wrong))
        return;
    request->ended.bytes_wrong += sizeof(words);
    replay_say(target->engine.router, REPLAY_WRONG, 0,
               "request %u: its tail of %u bytes is not the %zu bytes that the source gave",
               request->base.index, event->payload_bytes, sizeof(words));
}

/* One page that the cache kept: of the first group. */
static bool kept_page_right(struct target *target, const struct cache_entry *entry, uint32_t page,
                            uint32_t id, check_depth depth)
{
    const struct replay_setup *setup = target->engine.setup;
    uint64_t token = (uint64_t)entry->position * KVR_TRACE_BLOCK_TOKENS +
                     (uint64_t)page * setup->groups[0].page_tokens;
    struct content_wrong wrong;
    uint64_t looked_at = 0;

    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++) {
        for (uint32_t i = 0; setup->layer_groups[layer] == 0 && i < setup->groups[0].part_count;
             i++) {
            uint32_t part = replay_part(setup, layer, i);
            struct content content = replay_block_content(setup, entry->block, token, layer, part);

            if (check_plane(target, &content, depth,
                            replay_engine_page(&target->engine, layer, i, id), &looked_at, &wrong))
                continue;
            replay_say(target->engine.router, REPLAY_WRONG, 0,
                       "page %u, which the prefix cache kept, was written later: block %llu, layer "
                       "%u, part %s, token %llu",
                       id, (unsigned long long)entry->block, layer, replay_part_name(part),
                       (unsigned long long)wrong.token);
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

void target_mark_free(struct target *target, uint32_t group, uint32_t id)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_group *of = &setup->groups[group];

    if (setup->verify != REPLAY_VERIFY_FULL)
        return;
    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++)
        for (uint32_t i = 0; setup->layer_groups[layer] == group && i < of->part_count; i++)
            content_mark(id, layer, i, replay_engine_page(&target->engine, layer, i, id),
                         of->plane_bytes);
    target->marked[group][id] = true;
}

bool target_take_free(struct target *target, uint32_t group, uint32_t id)
{
    const struct replay_setup *setup = target->engine.setup;
    const struct replay_group *of = &setup->groups[group];
    uint64_t offset;

    if (!target->marked[group][id])
        return true;
    target->marked[group][id] = false;
    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++) {
        for (uint32_t i = 0; setup->layer_groups[layer] == group && i < of->part_count; i++) {
            if (content_marked(id, layer, i, replay_engine_page(&target->engine, layer, i, id),
                               of->plane_bytes, &offset))
                continue;
            replay_say(target->engine.router, REPLAY_WRONG, 0,
                       "page %u was written after it had been handed back: layer %u, part %s, "
                       "byte %llu of the page",
                       id, layer, replay_part_name(replay_part(setup, layer, i)),
                       (unsigned long long)offset);
            return false;
        }
    }
    return true;
}
