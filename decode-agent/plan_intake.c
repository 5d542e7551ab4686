/* The source's PLANs, each computed again here and compared, and FINAL.
 *
 * state      | BEGUN      | COMPLETE | FINAL
 * -----------|------------|----------|------
 * IDLE       | COLLECTING | -        | FINAL
 * COLLECTING | -          | IDLE     | FINAL
 * FINAL      | -          | -        | -
 *
 * A source that breaks the order is refused before an event comes of it. */
#include "decode-agent/plan_intake.h"

#include <inttypes.h>

#include "base/list.h"
#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/layers.h"
#include "decode-agent/sending.h"
#include "wire/compat.h"

KVR_STATE_TABLE(plan_intake, INTAKE) = {
    /* BEGUN, COMPLETE, FINAL */
    [INTAKE_IDLE] = {INTAKE_COLLECTING, NEVER, INTAKE_FINAL},
    [INTAKE_COLLECTING] = {NEVER, INTAKE_IDLE, INTAKE_FINAL},
    [INTAKE_FINAL] = {NEVER, NEVER, NEVER},
};

static void accepted(struct inbound *inbound, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_notice notice = {.kind = KVR_NOTICE_ACCEPTED};

    transfer_report(inbound, transfer, KVR_EVENT_MATCHED);
    if (fetch->state == F_WANTED)
        fetch_notify(inbound, fetch, &notice);
    fetch_on(&fetch->state, F_ON_MATCHED);
}

/* The source rank that plans must be the named one, and must have sent its regions. */
static kvr_status source_check(struct inbound *inbound, struct transfer *transfer,
                               const struct kvr_msg_plan *plan, struct kvr_error *error)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    const struct kvr_remote_engine *remote;
    kvr_status status;

    if (!kvr_uuid_equal(&plan->source.engine, &transfer->source.engine) ||
        (transfer->source.generation != 0 &&
         plan->source.generation != transfer->source.generation &&
         !KVR_MUTANT(old_generation_accepted)) ||
        plan->source.tp != transfer->source.tp || plan->source.pp != transfer->source.pp)
        return kvr_error_set(error, KVR_STALE, "plan",
                             "a plan of another source rank or generation (%" PRIu64
                             " instead of %" PRIu64 ")",
                             plan->source.generation, transfer->source.generation);
    remote = kvr_engines_remote(&inbound->engines, transfer->link.peer, &plan->source);
    if (remote == NULL || remote->rank.generation != plan->source.generation)
        return kvr_error_set(error, KVR_MALFORMED, "plan", "a plan before the source's regions");
    transfer->intake.remote = kvr_region_set_acquire(remote->set);
    transfer->path.revocation_words = remote->words;
    status =
        kvr_compat_check(&remote->compat, &inbound->engines.local[fetch->engine].compat, error);
    if (status == KVR_OK)
        status = slots_refine(inbound, transfer, error);
    return status;
}

/* Collects the source's pages of the segment. */
static kvr_status plan_pages(struct inbound *inbound, struct transfer *transfer,
                             const struct kvr_msg_plan *plan, struct kvr_error *error)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint32_t page_tokens, page_limit;

    if (transfer->intake.state != INTAKE_COLLECTING) {
        if (!kvr_region_set_group(transfer->intake.remote, plan->group, &page_tokens, &page_limit))
            return kvr_error_set(error, KVR_INCOMPATIBLE, "plan",
                                 "the source has no region of KV group %u", plan->group);
        if (kvr_page_table_init(&transfer->intake.planned, inbound->memory,
                                (uint32_t)(fetch->tokens / page_tokens + 2), page_limit) != KVR_OK)
            return kvr_error_set(error, KVR_NO_MEMORY, "plan", "no memory for a plan's pages");
        plan_intake_on(&transfer->intake.state, INTAKE_ON_BEGUN);
        transfer->intake.planning_group = plan->group;
    }
    if (plan->group != transfer->intake.planning_group)
        return kvr_error_set(error, KVR_MALFORMED, "plan", "a plan of KV group %u within one of %u",
                             plan->group, transfer->intake.planning_group);
    return kvr_page_table_append_runs(&transfer->intake.planned, transfer->intake.planned.count,
                                      plan->runs, plan->run_count, error);
}

static kvr_status plan_make(struct inbound *inbound, struct transfer *transfer,
                            const struct kvr_msg_plan *message, struct kvr_plan **ret_plan,
                            struct kvr_error *error)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    const struct kvr_page_table *pages = &fetch->pages.groups[message->group];
    const struct kvr_write_limits *limits = &message->limits;
    uint64_t token_first = transfer->intake.token_next[message->group];
    uint32_t target_first = (uint32_t)(token_first / pages->page_tokens);
    struct kvr_plan_input input =
        kvr_region_sets_input(transfer->intake.remote, fetch->set, message->group);
    struct kvr_plan *plan;
    kvr_status status;

    if (message->token_first != token_first || message->token_end > fetch->tokens ||
        target_first > pages->count) {
        kvr_error_set(error, KVR_PLAN_MISMATCH, "plan",
                      "a plan of tokens %" PRIu64 " to %" PRIu64 "; expected from %" PRIu64
                      ", to %" PRIu64 " at most",
                      message->token_first, message->token_end, token_first, fetch->tokens);
        return KVR_PLAN_MISMATCH;
    }
    input.source_pages = transfer->intake.planned.ids;
    input.source_page_count = transfer->intake.planned.count;
    input.token_first = message->token_first;
    input.token_end = message->token_end;
    input.limits = (struct kvr_plan_limits){limits->pieces_local, limits->pieces_remote,
                                            limits->chunk_bytes_max};
    input.target_pages = pages->ids + target_first;
    input.target_page_count = pages->count - target_first;
    status = kvr_plan_make(&input, inbound->memory, &plan, error);
    if (status != KVR_OK)
        return status;
    if (plan->hash == message->hash && plan->chunk_count == message->chunk_count &&
        message->chunk_first == transfer->intake.chunk_count &&
        (uint64_t)message->chunk_first + message->chunk_count <=
            (uint64_t)transfer->slots.needed * KVR_SLOT_CHUNKS) {
        transfer->intake.token_next[message->group] = plan->moved_end;
        *ret_plan = plan;
        return KVR_OK;
    }
    kvr_error_set(
        error, KVR_PLAN_MISMATCH, "plan",
        "segment %u: the source planned %u writes from %u, the target %u from %u, or their "
        "hashes differ",
        message->segment, message->chunk_count, message->chunk_first, plan->chunk_count,
        transfer->intake.chunk_count);
    kvr_plan_free(plan, inbound->memory);
    return KVR_PLAN_MISMATCH;
}

static kvr_status segment_add(struct inbound *inbound, struct transfer *transfer, uint32_t group,
                              struct kvr_plan *plan, struct kvr_error *error)
{
    struct landing_segment *segment = kvr_buddy_alloc(inbound->memory, sizeof(*segment));
    uint32_t *left = kvr_buddy_alloc(inbound->memory, plan->layer_count * sizeof(*left));
    bool *held = kvr_buddy_alloc(inbound->memory, 2 * plan->layer_count * sizeof(*held));
    kvr_status status = KVR_NO_MEMORY;

    if (segment != NULL && left != NULL && held != NULL) {
        memset(segment, 0, sizeof(*segment));
        segment->plan = plan;
        status = staging_quota_positions(inbound, transfer, segment, error);
    } else {
        kvr_error_set(error, status, "plan", "the agent's memory for tables is used up");
    }
    if (status != KVR_OK) {
        kvr_buddy_free(inbound->memory, segment);
        kvr_buddy_free(inbound->memory, left);
        kvr_buddy_free(inbound->memory, held);
        return status;
    }
    memset(held, 0, 2 * plan->layer_count * sizeof(*held));
    segment->group = group;
    segment->segment = transfer->intake.segment_count++;
    segment->chunk_first = transfer->intake.chunk_count;
    segment->left = left;
    segment->held = held;
    segment->in = held + plan->layer_count;
    transfer->intake.chunk_count += plan->chunk_count;
    transfer->intake.bytes += plan->bytes;
    KVR_LIST_APPEND(transfer->intake.segments, transfer->intake.segments_last, segment, loop_next);
    if (transfer->grant.landing != NULL)
        inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_SEGMENT, .segment = segment));
    else
        slots_want(inbound, fetch_of(inbound, transfer));
    return KVR_OK;
}

static kvr_status none_changed(const struct kvr_msg_plan *message, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_PLAN_MISMATCH, "plan",
                         "segment %u: the source gives of KV group %u now, and did not before, or "
                         "the other way",
                         message->segment, message->group);
}

/* The source gives nothing of the group. */
static kvr_status none_take(struct inbound *inbound, struct transfer *transfer,
                            const struct kvr_msg_plan *message, struct kvr_error *error)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    kvr_status status;

    if (transfer->intake.state == INTAKE_COLLECTING ||
        message->token_first != transfer->intake.token_next[message->group] ||
        message->token_end <= message->token_first || message->token_end > fetch->tokens ||
        layers_decided(fetch, transfer, message->group, false))
        return none_changed(message, error);
    status = layers_planned(inbound, transfer, message->group, NULL, error);
    transfer->intake.token_next[message->group] = message->token_end;
    transfer->intake.segment_count++;
    if (layers_give_nothing(fetch, transfer) && fetch->slots.state != SLOTS_RESERVED)
        transfer->slots.needed = 0;
    return status;
}

static kvr_status plan_take(struct inbound *inbound, struct transfer *transfer,
                            const struct kvr_msg_plan *message, struct kvr_error *error)
{
    struct kvr_plan *plan = NULL;
    kvr_status status = KVR_OK;

    if (transfer->intake.state == INTAKE_FINAL || message->group >= KVR_GROUPS_MAX ||
        fetch_of(inbound, transfer)->pages.groups[message->group].page_tokens == 0 ||
        message->segment != transfer->intake.segment_count ||
        transfer->intake.segment_count >= KVR_SEGMENTS_MAX * KVR_GROUPS_MAX)
        return kvr_error_set(error, KVR_MALFORMED, "plan",
                             "segment %u of group %u after segment %u", message->segment,
                             message->group, transfer->intake.segment_count);
    if (transfer->intake.remote == NULL) {
        transfer->path.revocation_word = message->revocation_word;
        status = source_check(inbound, transfer, message, error);
        if (status == KVR_OK)
            accepted(inbound, transfer);
    }
    if (status == KVR_OK && message->none)
        return none_take(inbound, transfer, message, error);
    if (status == KVR_OK)
        status = landing_path_planned(inbound, transfer, message, error);
    if (status == KVR_OK)
        status = plan_pages(inbound, transfer, message, error);
    if (status != KVR_OK || message->more)
        return status;
    status = plan_make(inbound, transfer, message, &plan, error);
    kvr_page_table_done(&transfer->intake.planned, inbound->memory);
    plan_intake_on(&transfer->intake.state, INTAKE_ON_COMPLETE);
    if (status == KVR_OK &&
        layers_decided(fetch_of(inbound, transfer), transfer, message->group, true))
        status = none_changed(message, error);
    if (status == KVR_OK)
        status = layers_planned(inbound, transfer, message->group, plan, error);
    if (status == KVR_OK)
        status = segment_add(inbound, transfer, message->group, plan, error);
    if (status != KVR_OK)
        kvr_plan_free(plan, inbound->memory);
    return status;
}

void plan_received(struct inbound *inbound, struct transfer *transfer,
                   const struct kvr_msg_plan *plan)
{
    struct kvr_error error;

    if (transfer->state != T_WANTED && transfer->state != T_LIVE)
        return;
    if (plan_take(inbound, transfer, plan, &error) != KVR_OK)
        transfer_fail(inbound, transfer, error.status, error.detail);
}

void final_received(struct inbound *inbound, struct transfer *transfer,
                    const struct kvr_msg_final *final)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    bool behind = false;
    uint64_t token_end;

    if ((transfer->state != T_WANTED && transfer->state != T_LIVE) ||
        transfer->intake.state == INTAKE_FINAL)
        return;
    if (final->chunk_count != transfer->intake.chunk_count ||
        final->segment_count != transfer->intake.segment_count) {
        transfer_fail(inbound, transfer, KVR_PLAN_MISMATCH,
                      "the source's last word names other segments or writes than its plans");
        return;
    }
    token_end = final->token_end < fetch->tokens ? final->token_end : fetch->tokens;
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        behind = behind || (fetch->pages.groups[group].page_tokens > 0 &&
                            token_end > transfer->intake.token_next[group]);
    if (behind) {
        transfer_fail(inbound, transfer, KVR_PLAN_MISMATCH,
                      "the source's last word names more tokens than its plans have");
        return;
    }
    if (transfer->intake.segment_count == 0)
        accepted(inbound, transfer);
    plan_intake_on(&transfer->intake.state, INTAKE_ON_FINAL);
    transfer->intake.final = *final;
    if (token_end < fetch->result.token_end)
        fetch->result.token_end = token_end;
    landed_word_update(inbound, fetch);
    if (transfer->grant.landing != NULL)
        inbound_group_command(inbound, transfer,
                              LAND_MESSAGE(LAND_FINAL, .chunks = final->chunk_count));
    else if (transfer->intake.segments == NULL)
        transfer->delivery.all_in = true;
    transfer_check_done(inbound, transfer);
}

void plan_intake_done(struct inbound *inbound, struct plan_intake *intake)
{
    while (intake->segments != NULL) {
        struct landing_segment *segment = intake->segments;

        intake->segments = segment->loop_next;
        kvr_plan_free(segment->plan, inbound->memory);
        kvr_buddy_free(inbound->memory, segment->left);
        kvr_buddy_free(inbound->memory, segment->held);
        kvr_buddy_free(inbound->memory, segment->positions);
        kvr_buddy_free(inbound->memory, segment);
    }
    kvr_page_table_done(&intake->planned, inbound->memory);
    if (intake->remote != NULL)
        kvr_region_set_release(intake->remote, inbound->memory);
}
