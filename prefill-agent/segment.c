/* Segments: what is planned, and told to the target, as the engine announces tokens. */
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

static kvr_status plan_tell(struct outbound *outbound, const struct offer *offer,
                            const struct publish *publish, const struct kvr_plan *plan)
{
    uint32_t page_first = (uint32_t)(plan->token_first / publish->page_tokens);
    uint32_t page_end = pages_for(plan->token_end, publish->page_tokens);
    struct kvr_page_run *runs = kvr_buddy_alloc(outbound->memory, RUNS_AT_ONCE * sizeof(*runs));
    struct kvr_message message = {.kind = KVR_MSG_PLAN};

    if (runs == NULL)
        return KVR_NO_MEMORY;
    if (offer->segment_count == 0) { /* the target keeps what it knows when the first plan comes */
        kvr_status status =
            kvr_engines_tell(&outbound->engines, publish->engine, publish->set, offer->peer);

        if (status != KVR_OK) {
            kvr_buddy_free(outbound->memory, runs);
            return status;
        }
    }
    message.plan = (struct kvr_msg_plan){
        .segment = offer->segment_count,
        .token_first = plan->token_first,
        .token_end = plan->token_end,
        .chunk_first = offer->chunk_count,
        .chunk_count = plan->chunk_count,
        .hash = plan->hash,
        .source = outbound->engines.local[publish->engine].rank,
        .limits = offer->limits,
        .page_first = page_first,
        .runs = runs,
        .loan = outbound->ports->loans != NULL ? kvr_pool_index(offer->id) + 1 : 0,
    };
    for (uint32_t page = page_first; page < page_end;) {
        uint32_t pages;

        message.plan.run_count =
            kvr_page_table_runs(&publish->table, page, page_end - page, runs, RUNS_AT_ONCE, &pages);
        page += pages;
        message.plan.more = page < page_end;
        outbound_send_needed(outbound, offer, &message);
    }
    kvr_buddy_free(outbound->memory, runs);
    return KVR_OK;
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
    kvr_buddy_free(outbound->memory, segment);
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
    if (offer->job != NULL) {
        outbound_group_command(outbound, offer, PUSH_SEGMENT, segment);
        return;
    }
    if (offer->segments_last != NULL)
        offer->segments_last->next = segment;
    else
        offer->segments = segment;
    offer->segments_last = segment;
}

/* Plans tokens [token_next, token_end), whose layers are final as the watch says. Both sides have
 * named their pages. */
static kvr_status segment_make(struct outbound *outbound, struct offer *offer,
                               const struct publish *publish, const struct watch *watch,
                               uint64_t token_end, struct kvr_error *error)
{
    uint32_t source_first = (uint32_t)(offer->token_next / publish->page_tokens);
    uint32_t target_first = (uint32_t)(offer->token_next / offer->page_tokens);
    struct kvr_plan_input input = {
        .source_layouts = publish->set->layouts,
        .source_layout_count = publish->set->count,
        .target_layouts = offer->remote->layouts,
        .target_layout_count = offer->remote->count,
        .source_pages = publish->table.ids + source_first,
        .target_pages = offer->table.ids + target_first,
        .source_page_count = pages_for(token_end, publish->page_tokens) - source_first,
        .target_page_count = pages_for(token_end, offer->page_tokens) - target_first,
        .token_first = offer->token_next,
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
    status = plan_tell(outbound, offer, publish, plan);
    offer->token_next = token_end;
    offer->segment_count++;
    offer->chunk_count += plan->chunk_count;
    offer->bytes += plan->bytes;
    segment_queue(outbound, offer, segment);
    return status == KVR_OK ? KVR_OK
                            : kvr_error_set(error, status, "plan", "a plan cannot be told: %s",
                                            kvr_status_text(status));
}

/* FINAL and TAIL: there is nothing more to plan. */
static void final_tell(struct outbound *outbound, struct offer *offer,
                       const struct publish *publish)
{
    struct kvr_message final = {.kind = KVR_MSG_FINAL}, tail = {.kind = KVR_MSG_TAIL};

    offer->final_told = true;
    final.final = (struct kvr_msg_final){
        .segment_count = offer->segment_count,
        .chunk_count = offer->chunk_count,
        .token_end = publish->token_end,
        .tail_bytes = publish->tail_bytes,
        .has_tail = publish->has_tail,
    };
    outbound_send_needed(outbound, offer, &final);
    if (offer->job != NULL)
        outbound_group_command(outbound, offer, PUSH_FINAL, NULL);
    if (!publish->has_tail)
        return;
    tail.tail.bytes = publish->tail;
    tail.tail.byte_count = publish->tail_bytes;
    outbound_send_needed(outbound, offer, &tail);
}

/* Plans what both page tables allow by now. Before the end of the request only whole pages of the
 * side with the smaller ones go out: the page in which a segment ends goes with the next one. */
static kvr_status plan_all(struct outbound *outbound, struct offer *offer,
                           const struct publish *publish, struct kvr_error *error)
{
    uint64_t page_tokens = smaller(publish->page_tokens, offer->page_tokens);

    while (offer->watch_next < publish->watch_count || publish->ended) {
        bool last = offer->watch_next + 1 >= publish->watch_count && publish->ended;
        uint32_t at =
            offer->watch_next < publish->watch_count ? offer->watch_next : publish->watch_count - 1;
        const struct watch *watch = publish->watch_count > 0 ? &publish->watches[at] : NULL;
        uint64_t tokens = watch != NULL ? watch->token_end : 0;
        uint64_t token_end =
            last || tokens == publish->tokens ? tokens : tokens / page_tokens * page_tokens;

        token_end = smaller(token_end, offer->tokens);
        if (token_end > offer->token_next &&
            pages_for(token_end, offer->page_tokens) > offer->table.count)
            return KVR_OK; /* the target will name these pages later */
        if (token_end > offer->token_next) {
            kvr_status status = segment_make(outbound, offer, publish, watch, token_end, error);

            if (status != KVR_OK)
                return status;
        }
        if (offer->watch_next < publish->watch_count)
            offer->watch_next++;
        if (last && offer->watch_next >= publish->watch_count) {
            final_tell(outbound, offer, publish);
            return KVR_OK;
        }
    }
    return KVR_OK;
}

void offer_advance(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);
    struct kvr_error error;

    if ((offer->state != O_OFFERED && offer->state != O_LIVE) || offer->final_told ||
        publish == NULL)
        return;
    if (plan_all(outbound, offer, publish, &error) != KVR_OK)
        offer_fail(outbound, now, offer, error.status, error.detail);
}
