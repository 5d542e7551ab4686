/* Segments: what is planned, and told to the target, as the engine announces tokens. */
#include <inttypes.h>

#include "base/list.h"
#include "prefill-agent/outbound.h"

#define RUNS_AT_ONCE 4096

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t pages_for(uint64_t tokens, uint32_t page_tokens)
{
    return (uint32_t)((tokens + page_tokens - 1) / page_tokens);
}

/* The target keeps what it knows of our regions when the first PLAN comes. */
static kvr_status plan_say(struct outbound *outbound, struct offer *offer,
                           const struct publish *publish, struct kvr_message *message)
{
    kvr_status status = KVR_OK;

    if (!offer->plan_said)
        status = kvr_engines_tell(&outbound->engines, publish->engine, publish->set, offer->peer);
    if (status == KVR_OK)
        status = outbound_send_patient(outbound, offer, message);
    offer->plan_said = offer->plan_said || status == KVR_OK;
    return status;
}

/* Of the segment that is being told, as far as there is room. KVR_AGAIN: the rest waits. */
static kvr_status plans_say(struct outbound *outbound, struct offer *offer,
                            const struct publish *publish)
{
    const struct kvr_plan *plan = offer->telling->plan;
    const struct kvr_page_table *pages = &publish->pages.groups[offer->telling_group];
    uint32_t page_end = pages_for(plan->token_end, pages->page_tokens), count;
    struct kvr_page_run *runs = kvr_buddy_alloc(outbound->memory, RUNS_AT_ONCE * sizeof(*runs));
    struct kvr_message message = {.kind = KVR_MSG_PLAN};
    kvr_status status = runs != NULL ? KVR_OK : KVR_NO_MEMORY;

    message.plan = (struct kvr_msg_plan){
        .segment = offer->segment_count - 1,
        .token_first = plan->token_first,
        .token_end = plan->token_end,
        .chunk_first = offer->telling->chunk_first,
        .chunk_count = plan->chunk_count,
        .hash = plan->hash,
        .source = outbound->engines.local[publish->engine].rank,
        .limits = offer->limits,
        .group = offer->telling_group,
        .page_first = (uint32_t)(plan->token_first / pages->page_tokens),
        .runs = runs,
        .loan = offer_lends(outbound, offer, publish) ? kvr_pool_index(offer->id) + 1 : 0,
    };
    while (status == KVR_OK && offer->telling_page < page_end) {
        message.plan.run_count = kvr_page_table_runs(
            pages, offer->telling_page, page_end - offer->telling_page, runs, RUNS_AT_ONCE, &count);
        message.plan.more = offer->telling_page + count < page_end;
        status = plan_say(outbound, offer, publish, &message);
        offer->telling_page += status == KVR_OK ? count : 0;
    }
    kvr_buddy_free(outbound->memory, runs);
    return status;
}

static uint32_t rank_first_layer(const struct kvr_region_set *set)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < set->count; i++)
        first = set->layouts[i].layer_first < first ? set->layouts[i].layer_first : first;
    return first;
}

void segment_free(struct outbound *outbound, struct push_segment *segment)
{
    kvr_plan_free(segment->plan, outbound->memory);
    kvr_buddy_free(outbound->memory, segment->where);
    kvr_buddy_free(outbound->memory, segment->digests);
    kvr_buddy_free(outbound->memory, segment->positions);
    kvr_buddy_free(outbound->memory, segment);
}

kvr_status segment_position(struct outbound *outbound, struct offer *offer,
                            struct push_segment *segment, uint64_t share_bytes,
                            struct kvr_error *error)
{
    const struct kvr_plan *plan = segment->plan;

    if (plan->chunk_count == 0)
        return KVR_OK;
    segment->positions =
        kvr_buddy_alloc(outbound->memory, plan->chunk_count * sizeof(*segment->positions));
    if (segment->positions == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "plan",
                             "no memory for the places of a segment's writes");
    if (!kvr_plan_positions(plan, share_bytes, &offer->position_end, segment->positions))
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "%" PRIu64 " bytes of staging memory are less than one write",
                             share_bytes);
    return KVR_OK;
}

static struct push_segment *segment_new(struct outbound *outbound, const struct offer *offer,
                                        struct kvr_plan *plan)
{
    struct push_segment *segment = kvr_buddy_alloc(outbound->memory, sizeof(*segment));
    uint8_t *where = kvr_buddy_alloc(outbound->memory, plan->chunk_count);
    bool hashes = offer->digest != KVR_DIGEST_OFF;
    uint64_t *digests =
        hashes ? kvr_buddy_alloc(outbound->memory, plan->chunk_count * sizeof(*digests)) : NULL;

    if (segment == NULL || where == NULL || (hashes && digests == NULL)) {
        kvr_buddy_free(outbound->memory, segment);
        kvr_buddy_free(outbound->memory, where);
        kvr_buddy_free(outbound->memory, digests);
        return NULL;
    }
    memset(segment, 0, sizeof(*segment));
    segment->plan = plan;
    segment->where = where;
    segment->digests = digests;
    return segment;
}

static void segment_queue(struct outbound *outbound, struct offer *offer,
                          struct push_segment *segment)
{
    if (offer->job != NULL && !offer->moving) {
        outbound_group_command(outbound, offer, PUSH_SEGMENT, segment);
        return;
    }
    KVR_LIST_APPEND(offer->segments, offer->segments_last, segment, next);
}

/* The segment that was planned last goes to the target, and when that has all of it to be posted.
 * KVR_AGAIN: it waits for room; nothing more is planned until then. */
static kvr_status segment_tell(struct outbound *outbound, struct offer *offer,
                               const struct publish *publish, struct kvr_error *error)
{
    struct push_segment *segment = offer->telling;
    kvr_status status;

    if (segment == NULL)
        return KVR_OK;
    status = plans_say(outbound, offer, publish);
    if (status < 0)
        return kvr_error_set(error, status, "plan", "a plan cannot be told: %s",
                             kvr_status_text(status));
    if (status == KVR_OK && offer->job != NULL && (offer->job->share_bytes > 0 || offer->scatters))
        status = segment_position(outbound, offer, segment, offer->job->share_bytes, error);
    if (status != KVR_OK)
        return status;
    offer->telling = NULL;
    segment_queue(outbound, offer, segment);
    return KVR_OK;
}

/* Plans tokens [token_next, token_end) of a group, whose layers are final as the watch says. Both
 * sides have named their pages. */
static kvr_status segment_make(struct outbound *outbound, struct offer *offer,
                               const struct publish *publish, const struct watch *watch,
                               uint32_t group, uint64_t token_end, struct kvr_error *error)
{
    const struct kvr_page_table *ours = &publish->pages.groups[group];
    const struct kvr_page_table *theirs = &offer->pages.groups[group];
    uint64_t token_first = offer->token_next[group];
    uint32_t source_first = (uint32_t)(token_first / ours->page_tokens);
    uint32_t target_first = (uint32_t)(token_first / theirs->page_tokens);
    struct kvr_plan_input input = {
        .source_layouts = publish->set->layouts,
        .source_layout_count = publish->set->count,
        .target_layouts = offer->remote->layouts,
        .target_layout_count = offer->remote->count,
        .group = group,
        .source_pages = ours->ids + source_first,
        .target_pages = theirs->ids + target_first,
        .source_page_count = pages_for(token_end, ours->page_tokens) - source_first,
        .target_page_count = pages_for(token_end, theirs->page_tokens) - target_first,
        .token_first = token_first,
        .token_end = token_end,
        .limits = {.pieces_local = offer->limits.pieces_local,
                   .pieces_remote = offer->limits.pieces_remote,
                   .chunk_bytes_max = offer->limits.chunk_bytes_max},
    };
    struct push_segment *segment;
    struct kvr_plan *plan;
    uint64_t slots;
    kvr_status status = kvr_plan_make(&input, outbound->memory, &plan, error);

    if (status != KVR_OK)
        return status;
    segment = segment_new(outbound, offer, plan);
    slots = offer->job != NULL ? offer->job->slot_count : KVR_TRANSFER_SLOTS_MAX;
    if (segment == NULL ||
        offer->chunk_count + (uint64_t)plan->chunk_count > slots * KVR_SLOT_CHUNKS) {
        if (segment != NULL)
            segment_free(outbound, segment);
        else
            kvr_plan_free(plan, outbound->memory);
        return kvr_error_set(error, KVR_NO_MEMORY, "plan", "no memory for a segment's writes");
    }
    segment->chunk_first = offer->chunk_count;
    segment->word = &outbound->engines.local[publish->engine].page->words[watch->word];
    segment->word_base = watch->base;
    segment->layer_base = rank_first_layer(publish->set);
    offer->telling = segment;
    offer->telling_group = group;
    offer->telling_page = source_first;
    offer->token_next[group] = token_end;
    offer->segment_count++;
    offer->chunk_count += plan->chunk_count;
    offer->bytes += plan->bytes;
    offer->pieces += plan->piece_count;
    return segment_tell(outbound, offer, publish, error);
}

/* A group that this rank has not, or that a sibling gives: the target need not wait for it here. */
static kvr_status none_tell(struct outbound *outbound, struct offer *offer,
                            const struct publish *publish, uint32_t group, uint64_t token_end,
                            struct kvr_error *error)
{
    struct kvr_message message = {.kind = KVR_MSG_PLAN};
    kvr_status status;

    message.plan = (struct kvr_msg_plan){
        .segment = offer->segment_count,
        .token_first = offer->token_next[group],
        .token_end = token_end,
        .chunk_first = offer->chunk_count,
        .source = outbound->engines.local[publish->engine].rank,
        .limits = offer->limits,
        .group = group,
        .loan = offer_lends(outbound, offer, publish) ? kvr_pool_index(offer->id) + 1 : 0,
        .none = true,
    };
    status = plan_say(outbound, offer, publish, &message);
    if (status < 0)
        return kvr_error_set(error, status, "plan", "the engine's regions cannot be told");
    offer->token_next[group] = status == KVR_OK ? token_end : offer->token_next[group];
    offer->segment_count += status == KVR_OK;
    return status;
}

/* FINAL and TAIL: there is nothing more to plan. KVR_AGAIN: what is left of them waits for room. */
static kvr_status final_tell(struct outbound *outbound, struct offer *offer,
                             const struct publish *publish)
{
    struct kvr_message final = {.kind = KVR_MSG_FINAL}, tail = {.kind = KVR_MSG_TAIL};

    final.final = (struct kvr_msg_final){
        .segment_count = offer->segment_count,
        .chunk_count = offer->chunk_count,
        .token_end = publish->token_end,
        .tail_bytes = publish->tail_bytes,
        .has_tail = publish->has_tail,
    };
    tail.tail.bytes = publish->tail;
    tail.tail.byte_count = publish->tail_bytes;
    if (!offer->final_said && outbound_send_patient(outbound, offer, &final) != KVR_OK)
        return KVR_AGAIN;
    offer->final_said = true;
    if (publish->has_tail && outbound_send_patient(outbound, offer, &tail) != KVR_OK)
        return KVR_AGAIN;
    offer->final_told = true;
    if (offer->job != NULL)
        outbound_group_command(outbound, offer, PUSH_FINAL, NULL);
    return KVR_OK;
}

/* Up to where a group can be planned. Before the end of the request only whole pages of the side
 * with the smaller ones go out: the page in which a segment ends goes with the next one. */
static uint64_t group_end(const struct offer *offer, const struct publish *publish, uint32_t group,
                          uint64_t tokens, bool last)
{
    uint64_t page_tokens =
        smaller(publish->pages.groups[group].page_tokens, offer->pages.groups[group].page_tokens);
    bool whole = last || tokens == publish->tokens || page_tokens == 0;

    return smaller(whole ? tokens : tokens / page_tokens * page_tokens, offer->tokens);
}

/* Of every group that the target has, what both page tables allow of the watch's tokens.
 * *ret_waits: the target will name some pages later. */
static kvr_status plan_watch(struct outbound *outbound, struct offer *offer,
                             const struct publish *publish, const struct watch *watch, bool last,
                             bool *ret_waits, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    *ret_waits = false;
    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *theirs = &offer->pages.groups[group];
        uint64_t token_end = group_end(offer, publish, group, watch->token_end, last);

        if (theirs->page_tokens == 0 || token_end <= offer->token_next[group])
            continue;
        if (!(offer->gives >> group & 1))
            status = none_tell(outbound, offer, publish, group, token_end, error);
        else if (pages_for(token_end, theirs->page_tokens) > theirs->count)
            *ret_waits = true;
        else
            status = segment_make(outbound, offer, publish, watch, group, token_end, error);
    }
    return status;
}

static kvr_status plan_all(struct outbound *outbound, struct offer *offer,
                           const struct publish *publish, struct kvr_error *error)
{
    kvr_status status = segment_tell(outbound, offer, publish, error);

    while (status == KVR_OK && (offer->watch_next < publish->watch_count || publish->ended)) {
        bool last = offer->watch_next + 1 >= publish->watch_count && publish->ended, waits = false;
        uint32_t at =
            offer->watch_next < publish->watch_count ? offer->watch_next : publish->watch_count - 1;

        if (publish->watch_count > 0)
            status =
                plan_watch(outbound, offer, publish, &publish->watches[at], last, &waits, error);
        if (status != KVR_OK || waits)
            return status;
        if (offer->watch_next < publish->watch_count)
            offer->watch_next++;
        if (last && offer->watch_next >= publish->watch_count)
            return final_tell(outbound, offer, publish);
    }
    return status;
}

void offer_advance(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);
    struct kvr_error error;

    if ((offer->state != O_OFFERED && offer->state != O_LIVE) || offer->final_told ||
        offer->stage_waits || offer->look_waits || publish == NULL)
        return;
    if (plan_all(outbound, offer, publish, &error) < 0)
        offer_fail(outbound, now, offer, error.status, error.detail);
}
