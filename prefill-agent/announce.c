/* What cannot be sent for want of room leaves the state as it is, and is tried again:
 *
 * state         | HELD | SKIP     | SEGMENT       | SEGMENT_SENT | ALL_PLANNED
 * --------------|------|----------|---------------|--------------|------------
 * PLANNING      | HELD | -        | SEGMENT_WAITS | -            | FINAL_WAITS
 * HELD          | -    | PLANNING | -             | -            | -
 * SEGMENT_WAITS | -    | -        | -             | PLANNING     | -
 * FINAL_WAITS   | -    | -        | -             | -            | -
 * TAIL_WAITS    | -    | -        | -             | -            | -
 * ALL_SENT      | -    | -        | -             | -            | -
 *
 * state         | FINAL_SENT | TAIL_SENT
 * --------------|------------|----------
 * PLANNING      | -          | -
 * HELD          | -          | -
 * SEGMENT_WAITS | -          | -
 * FINAL_WAITS   | TAIL_WAITS | -
 * TAIL_WAITS    | -          | ALL_SENT
 * ALL_SENT      | -          | - */
#include "prefill-agent/announce.h"

#include <inttypes.h>

#include "base/list.h"
#include "base/mutant.h"
#include "base/types.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

KVR_STATE_TABLE(source_announce, ANNOUNCE) = {
    /* HELD, SKIP, SEGMENT, SEGMENT_SENT, ALL_PLANNED, FINAL_SENT, TAIL_SENT */
    [ANNOUNCE_PLANNING] = {ANNOUNCE_HELD, NEVER, ANNOUNCE_SEGMENT_WAITS, NEVER,
                           ANNOUNCE_FINAL_WAITS, NEVER, NEVER},
    [ANNOUNCE_HELD] = {NEVER, ANNOUNCE_PLANNING, NEVER, NEVER, NEVER, NEVER, NEVER},
    [ANNOUNCE_SEGMENT_WAITS] = {NEVER, NEVER, NEVER, ANNOUNCE_PLANNING, NEVER, NEVER, NEVER},
    [ANNOUNCE_FINAL_WAITS] = {NEVER, NEVER, NEVER, NEVER, NEVER, ANNOUNCE_TAIL_WAITS, NEVER},
    [ANNOUNCE_TAIL_WAITS] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, ANNOUNCE_ALL_SENT},
    [ANNOUNCE_ALL_SENT] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER},
};

static uint32_t pages_for(uint64_t tokens, uint32_t page_tokens)
{
    return (uint32_t)((tokens + page_tokens - 1) / page_tokens);
}

/* The target keeps what it knows of our regions when the first PLAN comes: they go first. */
static kvr_status plan_send(struct outbound *outbound, struct source_transfer *transfer,
                            const struct publish *publish, struct kvr_message *message)
{
    kvr_status status = KVR_OK;

    if (!transfer->announce.plan_sent)
        status =
            kvr_engines_tell(&outbound->engines, publish->engine, publish->set, transfer->peer);
    if (status == KVR_OK)
        status = outbound_send_patient(outbound, transfer, message);
    transfer->announce.plan_sent = transfer->announce.plan_sent || status == KVR_OK;
    return status;
}

/* The members that every PLAN of the transfer has; the message's segment is the caller's. */
static struct kvr_message plan_of(const struct outbound *outbound,
                                  const struct source_transfer *transfer,
                                  const struct publish *publish, uint32_t group)
{
    struct kvr_message message = {.kind = KVR_MSG_PLAN};

    message.plan.source = outbound->engines.local[publish->engine].rank;
    message.plan.limits = transfer->path.limits;
    message.plan.group = group;
    if (source_transfer_lends(outbound, transfer, publish))
        message.plan.revocation_word = kvr_pool_index(transfer->id) + 1;
    return message;
}

/* Where one segment's PLANs go: all are alike but for their runs. */
struct plan_target {
    struct outbound *outbound;
    struct source_transfer *transfer;
    const struct publish *publish;
    struct kvr_message message;
    uint32_t page_end;
};

static kvr_status plan_runs_send(void *self, uint32_t page_first, uint32_t page_count,
                                 const struct kvr_page_run *runs, uint32_t run_count)
{
    struct plan_target *to = self;

    to->message.plan.runs = runs;
    to->message.plan.run_count = run_count;
    to->message.plan.more = page_first + page_count < to->page_end;
    return plan_send(to->outbound, to->transfer, to->publish, &to->message);
}

/* The PLANs of the segment that is being announced. KVR_AGAIN: the rest waits for room. */
static kvr_status plans_send(struct outbound *outbound, struct source_transfer *transfer,
                             const struct publish *publish)
{
    const struct kvr_plan *plan = transfer->announce.segment->plan;
    const struct kvr_page_table *pages = &publish->pages.groups[transfer->announce.kv_group];
    struct plan_target to = {
        .outbound = outbound,
        .transfer = transfer,
        .publish = publish,
        .message = plan_of(outbound, transfer, publish, transfer->announce.kv_group),
        .page_end = pages_for(plan->token_end, pages->page_tokens),
    };

    to.message.plan.segment = transfer->announce.segment_count - 1;
    to.message.plan.token_first = plan->token_first;
    to.message.plan.token_end = plan->token_end;
    to.message.plan.chunk_first = transfer->announce.segment->chunk_first;
    to.message.plan.chunk_count = plan->chunk_count;
    to.message.plan.hash = plan->hash;
    to.message.plan.page_first = (uint32_t)(plan->token_first / pages->page_tokens);
    return kvr_page_table_send(pages, &transfer->announce.page_next, to.page_end, outbound->memory,
                               plan_runs_send, &to);
}

static uint32_t rank_first_layer(const struct kvr_region_set *set)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < set->count; i++)
        first = set->layouts[i].layer_first < first ? set->layouts[i].layer_first : first;
    return first;
}

static void segment_queue(struct outbound *outbound, struct source_transfer *transfer,
                          struct push_segment *segment)
{
    if (transfer->grant.job != NULL && transfer->failover.state != FAILOVER_MOVING) {
        outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_SEGMENT, .segment = segment));
        return;
    }
    KVR_LIST_APPEND(transfer->announce.waiting, transfer->announce.waiting_last, segment, next);
}

/* The segment that was planned last goes to the target, and then to the rail thread, which posts
 * it. KVR_AGAIN: the segment waits for room; nothing more is planned until then. */
static kvr_status segment_send(struct outbound *outbound, struct source_transfer *transfer,
                               const struct publish *publish, struct kvr_error *error)
{
    struct push_segment *segment = transfer->announce.segment;
    kvr_status status;

    status = plans_send(outbound, transfer, publish);
    if (status < 0)
        return kvr_error_set(error, status, "plan", "a plan cannot be sent: %s",
                             kvr_status_text(status));
    if (status == KVR_OK && transfer->grant.job != NULL &&
        (transfer->grant.staging_quota > 0 || transfer->path.scatters))
        status =
            segment_position(outbound, transfer, segment, transfer->grant.staging_quota, error);
    if (status != KVR_OK)
        return status;
    source_announce_on(&transfer->announce.state, ANNOUNCE_ON_SEGMENT_SENT);
    transfer->announce.segment = NULL;
    segment_queue(outbound, transfer, segment);
    return KVR_OK;
}

/* Plans tokens [token_next, token_end) of a KV group. The watch says when their layers are final.
 * Both sides have named their pages. */
static kvr_status segment_make(struct outbound *outbound, struct source_transfer *transfer,
                               const struct publish *publish, const struct publish_watch *watch,
                               uint32_t group, uint64_t token_end, struct kvr_error *error)
{
    const struct kvr_page_table *ours = &publish->pages.groups[group];
    const struct kvr_page_table *theirs = &transfer->match.pages.groups[group];
    const struct kvr_write_limits *limits = &transfer->path.limits;
    uint64_t token_first = transfer->announce.token_next[group];
    uint32_t source_first = (uint32_t)(token_first / ours->page_tokens);
    uint32_t target_first = (uint32_t)(token_first / theirs->page_tokens);
    struct kvr_plan_input input =
        kvr_region_sets_input(publish->set, transfer->match.remote, group);
    struct push_segment *segment;
    struct kvr_plan *plan;
    uint64_t slots =
        transfer->grant.job != NULL ? transfer->grant.slot_count : KVR_TRANSFER_SLOTS_MAX;
    uint64_t chunks;
    kvr_status status;

    input.source_pages = ours->ids + source_first;
    input.target_pages = theirs->ids + target_first;
    input.source_page_count = pages_for(token_end, ours->page_tokens) - source_first;
    input.target_page_count = pages_for(token_end, theirs->page_tokens) - target_first;
    input.token_first = token_first;
    input.token_end = token_end;
    input.limits = (struct kvr_plan_limits){limits->pieces_local, limits->pieces_remote,
                                            limits->chunk_bytes_max};
    status = kvr_plan_make(&input, outbound->memory, &plan, error);
    if (status != KVR_OK)
        return status;
    chunks = transfer->announce.chunk_count + (uint64_t)plan->chunk_count;
    segment = chunks <= slots * KVR_SLOT_CHUNKS ? segment_new(outbound, transfer, plan) : NULL;
    if (segment == NULL) {
        kvr_plan_free(plan, outbound->memory);
        return chunks > slots * KVR_SLOT_CHUNKS
                   ? kvr_error_set(error, KVR_TOO_LARGE, "plan",
                                   "%" PRIu64 " writes: the %" PRIu64
                                   " slots of the transfer hold %" PRIu64,
                                   chunks, slots, slots * KVR_SLOT_CHUNKS)
                   : kvr_error_set(error, KVR_NO_MEMORY, "plan",
                                   "no memory for a segment's writes");
    }
    segment->chunk_first = transfer->announce.chunk_count;
    segment->word = &outbound->engines.local[publish->engine].page->words[watch->word];
    segment->word_base = watch->base;
    segment->layer_base = rank_first_layer(publish->set);
    transfer->announce.segment = segment;
    source_announce_on(&transfer->announce.state, ANNOUNCE_ON_SEGMENT);
    transfer->announce.kv_group = group;
    transfer->announce.page_next = source_first;
    transfer->announce.token_next[group] = token_end;
    transfer->announce.segment_count++;
    transfer->announce.chunk_count += plan->chunk_count;
    transfer->announce.bytes += plan->bytes;
    transfer->announce.pieces += plan->piece_count;
    return segment_send(outbound, transfer, publish, error);
}

/* A KV group that this rank does not have, or that a sibling gives: the target need not wait for it
 * here. */
static kvr_status none_send(struct outbound *outbound, struct source_transfer *transfer,
                            const struct publish *publish, uint32_t group, uint64_t token_end,
                            struct kvr_error *error)
{
    struct kvr_message message = plan_of(outbound, transfer, publish, group);
    kvr_status status;

    message.plan.segment = transfer->announce.segment_count;
    message.plan.token_first = transfer->announce.token_next[group];
    message.plan.token_end = token_end;
    message.plan.chunk_first = transfer->announce.chunk_count;
    message.plan.none = true;
    status = plan_send(outbound, transfer, publish, &message);
    if (status < 0)
        return kvr_error_set(error, status, "plan", "the engine's regions cannot be sent");
    transfer->announce.token_next[group] =
        status == KVR_OK ? token_end : transfer->announce.token_next[group];
    transfer->announce.segment_count += status == KVR_OK;
    return status;
}

/* FINAL and TAIL: there is nothing more to plan. KVR_AGAIN: the rest waits for room. */
static kvr_status final_send(struct outbound *outbound, struct source_transfer *transfer,
                             const struct publish *publish)
{
    struct kvr_message final = {.kind = KVR_MSG_FINAL}, tail = {.kind = KVR_MSG_TAIL};

    final.final = (struct kvr_msg_final){
        .segment_count = transfer->announce.segment_count,
        .chunk_count = transfer->announce.chunk_count,
        .token_end = publish->content.token_end,
        .tail_bytes = publish->content.tail_bytes,
        .has_tail = publish->content.has_tail,
    };
    tail.tail.bytes = publish->content.tail;
    tail.tail.byte_count = publish->content.tail_bytes;
    if (transfer->announce.state == ANNOUNCE_FINAL_WAITS) {
        if (outbound_send_patient(outbound, transfer, &final) != KVR_OK)
            return KVR_AGAIN;
        source_announce_on(&transfer->announce.state, ANNOUNCE_ON_FINAL_SENT);
    }
    if (publish->content.has_tail && outbound_send_patient(outbound, transfer, &tail) != KVR_OK)
        return KVR_AGAIN;
    source_announce_on(&transfer->announce.state, ANNOUNCE_ON_TAIL_SENT);
    if (transfer->grant.job != NULL)
        outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_FINAL));
    return KVR_OK;
}

/* Up to where a KV group can be planned. Before the end of the request only whole pages of the side
 * with the smaller pages go out: the page in which a segment ends goes with the next segment. So
 * the one page of a state goes out with the last segment. */
static uint64_t group_end(const struct source_transfer *transfer, const struct publish *publish,
                          uint32_t group, uint64_t tokens, bool last)
{
    uint64_t page_tokens = kvr_min_u64(publish->pages.groups[group].page_tokens,
                                       transfer->match.pages.groups[group].page_tokens);
    bool whole = last || tokens == publish->tokens || page_tokens == 0 ||
                 (page_tokens == KVR_PAGE_ENDLESS && KVR_MUTANT(state_of_a_segment));

    return kvr_min_u64(whole ? tokens : tokens / page_tokens * page_tokens, transfer->match.tokens);
}

/* A state is the one after all tokens that were published: there is none after fewer, and none
 * after the more tokens that the target has already. The state goes out at the end of the publish.
 */
static kvr_status state_check(const struct source_transfer *transfer, const struct publish *publish,
                              uint32_t group, struct kvr_error *error)
{
    uint64_t published = publish->content.token_end;

    if (publish->pages.groups[group].page_tokens != KVR_PAGE_ENDLESS)
        return KVR_OK;
    if (published > transfer->match.tokens)
        return kvr_error_set(
            error, KVR_INVALID, "plan",
            "%" PRIu64 " tokens are fetched of %" PRIu64
            " that were published, and KV group %u is a state, which is that after all "
            "of them: publish and fetch the same tokens",
            transfer->match.tokens, published, group);
    if (published < transfer->match.skip_tokens)
        return kvr_error_set(error, KVR_INVALID, "plan",
                             "%" PRIu64 " tokens were published, and %" PRIu64
                             " are at the target already: the state of KV group %u is older than "
                             "they are",
                             published, transfer->match.skip_tokens, group);
    return KVR_OK;
}

/* Of every KV group that the target has, what both page tables allow of the watch's tokens.
 * *ret_waits: the target will name some pages later. */
static kvr_status plan_watch(struct outbound *outbound, struct source_transfer *transfer,
                             const struct publish *publish, const struct publish_watch *watch,
                             bool last, bool *ret_waits, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    *ret_waits = false;
    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *theirs = &transfer->match.pages.groups[group];
        uint64_t token_end = group_end(transfer, publish, group, watch->token_end, last);

        if (theirs->page_tokens == 0 || token_end <= transfer->announce.token_next[group])
            continue;
        if (!(transfer->path.kv_groups >> group & 1))
            status = none_send(outbound, transfer, publish, group, token_end, error);
        else if (pages_for(token_end, theirs->page_tokens) > theirs->count)
            *ret_waits = true;
        else if ((status = state_check(transfer, publish, group, error)) == KVR_OK)
            status = segment_make(outbound, transfer, publish, watch, group, token_end, error);
    }
    return status;
}

/* Watch by watch, as far as both sides have named their pages. The engine may end the publish when
 * every watch is planned: then the rest of the last page goes. */
static kvr_status plan_all(struct outbound *outbound, struct source_transfer *transfer,
                           const struct publish *publish, struct kvr_error *error)
{
    uint32_t *next = &transfer->announce.watch_next, count = publish->content.watch_count;
    bool last = false;

    while (!last && (*next < count || publish->content.complete)) {
        bool waits = false;
        kvr_status status = KVR_OK;

        last = publish->content.complete && *next + 1 >= count;
        if (count > 0)
            status = plan_watch(outbound, transfer, publish,
                                &publish->content.watches[kvr_min_u32(*next, count - 1)], last,
                                &waits, error);
        if (status != KVR_OK || waits)
            return status;
        *next = kvr_min_u32(*next + 1, count);
    }
    if (last)
        source_announce_on(&transfer->announce.state, ANNOUNCE_ON_ALL_PLANNED);
    return KVR_OK;
}

kvr_status announce_all(struct outbound *outbound, struct source_transfer *transfer,
                        const struct publish *publish, struct kvr_error *error)
{
    const struct source_announce *announce = &transfer->announce;
    kvr_status status = KVR_OK;

    if (announce->state == ANNOUNCE_SEGMENT_WAITS)
        status = segment_send(outbound, transfer, publish, error);
    if (status == KVR_OK && announce->state == ANNOUNCE_PLANNING)
        status = plan_all(outbound, transfer, publish, error);
    if (status == KVR_OK &&
        (announce->state == ANNOUNCE_FINAL_WAITS || announce->state == ANNOUNCE_TAIL_WAITS))
        status = final_send(outbound, transfer, publish);
    return status;
}

void announce_hand_over(struct outbound *outbound, struct source_transfer *transfer)
{
    while (transfer->announce.waiting != NULL) {
        struct push_segment *segment = transfer->announce.waiting;

        transfer->announce.waiting = segment->next;
        segment->next = NULL;
        outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_SEGMENT, .segment = segment));
    }
    if (transfer->announce.state == ANNOUNCE_ALL_SENT)
        outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_FINAL));
}
