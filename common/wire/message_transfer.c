/* Coding of the messages about one transfer. */
#include "wire/message_parts.h"

/* ---- WANT, PAGES ---- */

static kvr_status put_want(struct kvr_arena *arena, const struct kvr_msg_want *want,
                           Kvrail__Control__Want **ret_want)
{
    Kvrail__Control__Want *out;

    if (!kvr_text_valid(want->request, sizeof(want->request)) ||
        want->group_skip_count > KVR_GROUPS_MAX || want->sibling_count > KVR_SOURCES_MAX)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__want__init);
    out->request = (char *)want->request;
    out->attempt = want->attempt;
    out->source_engine = (ProtobufCBinaryData){sizeof(want->source_engine.bytes),
                                               (uint8_t *)want->source_engine.bytes};
    out->source_generation = want->source_generation;
    out->source_tp = want->source_tp;
    out->source_pp = want->source_pp;
    KVR_TRY(kvr_put_rank(arena, &want->target, &out->target));
    out->tokens = want->tokens;
    out->skip_tokens = want->skip_tokens;
    out->deadline_ms = want->deadline_ms;
    out->priority = want->priority;
    out->digest = want->digest;
    out->group_skips = (uint64_t *)(uintptr_t)want->group_skips;
    out->n_group_skips = want->group_skip_count;
    out->siblings = (uint32_t *)(uintptr_t)want->siblings;
    out->n_siblings = want->sibling_count;
    out->staged = want->staged;
    out->direct_copy = want->direct_copy;
    out->stage_bytes = want->stage_bytes;
    *ret_want = out;
    return KVR_OK;
}

static kvr_status get_want(const struct kvr_get *get, const Kvrail__Control__Want *in,
                           struct kvr_msg_want *ret_want)
{
    KVR_TRY(
        kvr_get_name(get, "request", in->request, sizeof(ret_want->request), ret_want->request));
    ret_want->attempt = in->attempt;
    if (in->source_engine.len != sizeof(ret_want->source_engine.bytes))
        return kvr_get_malformed(get, "source_engine is %zu bytes long: it must be 16",
                                 in->source_engine.len);
    memcpy(ret_want->source_engine.bytes, in->source_engine.data, in->source_engine.len);
    ret_want->source_generation = in->source_generation;
    ret_want->source_tp = in->source_tp;
    ret_want->source_pp = in->source_pp;
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_rank(in->target, &ret_want->target)));
    ret_want->tokens = in->tokens;
    ret_want->skip_tokens = in->skip_tokens;
    ret_want->deadline_ms = in->deadline_ms;
    ret_want->priority = in->priority;
    if (in->n_group_skips > KVR_GROUPS_MAX || in->n_siblings > KVR_SOURCES_MAX)
        return kvr_get_malformed(get, "a WANT names %zu groups and %zu siblings: at most %d and %d",
                                 in->n_group_skips, in->n_siblings, KVR_GROUPS_MAX,
                                 KVR_SOURCES_MAX);
    ret_want->group_skips = in->group_skips;
    ret_want->group_skip_count = (uint32_t)in->n_group_skips;
    ret_want->siblings = in->siblings;
    ret_want->sibling_count = (uint32_t)in->n_siblings;
    ret_want->staged = in->staged;
    ret_want->direct_copy = in->direct_copy;
    ret_want->stage_bytes = in->stage_bytes;
    return kvr_get_digest_mode(get, in->digest, &ret_want->digest);
}

static kvr_status put_pages(struct kvr_arena *arena, const struct kvr_msg_pages *pages,
                            Kvrail__Control__Pages **ret_pages)
{
    Kvrail__Control__Pages *out;

    KVR_PUT_NEW(arena, out, kvrail__control__pages__init);
    out->group = pages->group;
    out->page_first = pages->page_first;
    out->more = pages->more;
    *ret_pages = out;
    return kvr_put_runs(arena, pages->runs, pages->run_count, &out->runs);
}

static kvr_status get_pages(const struct kvr_get *get, const Kvrail__Control__Pages *in,
                            struct kvr_msg_pages *ret_pages)
{
    ret_pages->group = in->group;
    ret_pages->page_first = in->page_first;
    ret_pages->more = in->more;
    return kvr_get_runs(get, in->runs, (const void **)&ret_pages->runs, &ret_pages->run_count);
}

/* ---- PLAN, GRANT ---- */

static kvr_status put_plan(struct kvr_arena *arena, const struct kvr_msg_plan *plan,
                           Kvrail__Control__Plan **ret_plan)
{
    Kvrail__Control__Plan *out;

    KVR_PUT_NEW(arena, out, kvrail__control__plan__init);
    out->segment = plan->segment;
    out->token_first = plan->token_first;
    out->token_end = plan->token_end;
    out->chunk_first = plan->chunk_first;
    out->chunk_count = plan->chunk_count;
    out->hash = plan->hash;
    KVR_TRY(kvr_put_rank(arena, &plan->source, &out->source));
    KVR_TRY(kvr_put_limits(arena, &plan->limits, &out->limits));
    out->group = plan->group;
    out->page_first = plan->page_first;
    out->more = plan->more;
    out->revocation_word = plan->revocation_word;
    out->none = plan->none;
    *ret_plan = out;
    return kvr_put_runs(arena, plan->runs, plan->run_count, &out->runs);
}

static kvr_status get_plan(const struct kvr_get *get, const Kvrail__Control__Plan *in,
                           struct kvr_msg_plan *ret_plan)
{
    ret_plan->segment = in->segment;
    ret_plan->token_first = in->token_first;
    ret_plan->token_end = in->token_end;
    ret_plan->chunk_first = in->chunk_first;
    ret_plan->chunk_count = in->chunk_count;
    ret_plan->hash = in->hash;
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_rank(in->source, &ret_plan->source)));
    kvr_get_limits(in->limits, &ret_plan->limits);
    ret_plan->group = in->group;
    ret_plan->page_first = in->page_first;
    ret_plan->more = in->more;
    ret_plan->revocation_word = in->revocation_word;
    ret_plan->none = in->none;
    return kvr_get_runs(get, in->runs, (const void **)&ret_plan->runs, &ret_plan->run_count);
}

static kvr_status put_grant(struct kvr_arena *arena, const struct kvr_msg_grant *grant,
                            Kvrail__Control__Grant **ret_grant)
{
    Kvrail__Control__Grant *out;

    if (grant->slot_count > KVR_TRANSFER_SLOTS_MAX || grant->rail_count > KVR_RAILS_MAX ||
        grant->quota_key_count > KVR_RAILS_MAX)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__grant__init);
    out->slots = kvr_arena_take(arena, grant->slot_count, sizeof(*out->slots));
    if (out->slots == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < grant->slot_count; i++)
        out->slots[i] = grant->slots[i];
    out->n_slots = grant->slot_count;
    out->n_rails = grant->rail_count;
    out->quota_offset = grant->quota_offset;
    out->quota_bytes = grant->quota_bytes;
    out->n_quota_keys = (size_t)grant->quota_key_count * 2; /* two numbers each, as in memory */
    out->quota_keys = (uint64_t *)grant->quota_keys;
    *ret_grant = out;
    return kvr_put_rails(arena, grant->rails, grant->rail_count, &out->rails);
}

static kvr_status get_grant(const struct kvr_get *get, const Kvrail__Control__Grant *in,
                            struct kvr_msg_grant *ret_grant)
{
    uint16_t *slots;

    if (in->n_slots > KVR_TRANSFER_SLOTS_MAX)
        return kvr_get_malformed(get, "slots has %zu entries: at most %d are allowed", in->n_slots,
                                 KVR_TRANSFER_SLOTS_MAX);
    if (in->n_quota_keys > KVR_RAILS_MAX * 2 || in->n_quota_keys % 2 != 0)
        return kvr_get_malformed(get, "%zu numbers of keys: two a rail, of at most %d rails",
                                 in->n_quota_keys, KVR_RAILS_MAX);
    slots = kvr_arena_take(get->arena, in->n_slots, sizeof(*slots));
    if (slots == NULL)
        return kvr_get_no_memory(get);
    for (size_t i = 0; i < in->n_slots; i++) {
        if (in->slots[i] >= KVR_SLOTS)
            return kvr_get_malformed(get, "slot %u: the largest is %d", in->slots[i],
                                     KVR_SLOTS - 1);
        slots[i] = (uint16_t)in->slots[i];
    }
    ret_grant->slots = slots;
    ret_grant->slot_count = (uint32_t)in->n_slots;
    ret_grant->quota_offset = in->quota_offset;
    ret_grant->quota_bytes = in->quota_bytes;
    ret_grant->quota_keys = (const struct kvr_remote_key *)in->quota_keys;
    ret_grant->quota_key_count = (uint32_t)(in->n_quota_keys / 2);
    return kvr_get_rails(get, in->n_rails, in->rails, &ret_grant->rails, &ret_grant->rail_count);
}

/* ---- FINAL, TAIL, QUIET ---- */

static kvr_status put_final(struct kvr_arena *arena, const struct kvr_msg_final *final,
                            Kvrail__Control__Final **ret_final)
{
    Kvrail__Control__Final *out;

    KVR_PUT_NEW(arena, out, kvrail__control__final__init);
    out->segment_count = final->segment_count;
    out->chunk_count = final->chunk_count;
    out->token_end = final->token_end;
    out->tail_bytes = final->tail_bytes;
    out->has_tail = final->has_tail;
    *ret_final = out;
    return KVR_OK;
}

static struct kvr_msg_final get_final(const Kvrail__Control__Final *in)
{
    return (struct kvr_msg_final){in->segment_count, in->chunk_count, in->token_end, in->tail_bytes,
                                  in->has_tail};
}

static kvr_status put_tail(struct kvr_arena *arena, const struct kvr_msg_tail *tail,
                           Kvrail__Control__Tail **ret_tail)
{
    Kvrail__Control__Tail *out;

    if (tail->byte_count > KVR_TAIL_BYTES_MAX)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__tail__init);
    out->bytes.data = (uint8_t *)tail->bytes;
    out->bytes.len = tail->byte_count;
    *ret_tail = out;
    return KVR_OK;
}

static kvr_status get_tail(const struct kvr_get *get, const Kvrail__Control__Tail *in,
                           struct kvr_msg_tail *ret_tail)
{
    if (in->bytes.len > KVR_TAIL_BYTES_MAX)
        return kvr_get_malformed(get, "a tail of %zu bytes: at most %d are allowed", in->bytes.len,
                                 KVR_TAIL_BYTES_MAX);
    ret_tail->bytes = in->bytes.data;
    ret_tail->byte_count = (uint32_t)in->bytes.len;
    return KVR_OK;
}

static kvr_status put_quiet(struct kvr_arena *arena, const struct kvr_msg_quiet *quiet,
                            Kvrail__Control__Quiet **ret_quiet)
{
    Kvrail__Control__Quiet *out;

    if (quiet->count_count > KVR_EPOCHS_PER_TRANSFER)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__quiet__init);
    out->round = quiet->round;
    out->counts = kvr_arena_take(arena, quiet->count_count, sizeof(*out->counts));
    if (out->counts == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < quiet->count_count; i++) {
        KVR_PUT_NEW(arena, out->counts[i], kvrail__control__epoch_count__init);
        out->counts[i]->rail = quiet->counts[i].rail;
        out->counts[i]->epoch = quiet->counts[i].epoch;
        out->counts[i]->count = quiet->counts[i].count;
    }
    out->n_counts = quiet->count_count;
    *ret_quiet = out;
    return KVR_OK;
}

static kvr_status get_quiet(const struct kvr_get *get, const Kvrail__Control__Quiet *in,
                            struct kvr_msg_quiet *ret_quiet)
{
    struct kvr_epoch_count *counts;

    if (in->n_counts > KVR_EPOCHS_PER_TRANSFER)
        return kvr_get_malformed(get, "counts has %zu entries: at most %d are allowed",
                                 in->n_counts, KVR_EPOCHS_PER_TRANSFER);
    counts = kvr_arena_take(get->arena, in->n_counts, sizeof(*counts));
    if (counts == NULL)
        return kvr_get_no_memory(get);
    for (size_t i = 0; i < in->n_counts; i++)
        counts[i] = (struct kvr_epoch_count){in->counts[i]->rail, in->counts[i]->epoch,
                                             in->counts[i]->count};
    ret_quiet->round = in->round;
    ret_quiet->counts = counts;
    ret_quiet->count_count = (uint32_t)in->n_counts;
    return KVR_OK;
}

/* ---- ROOM, MISSING, RAIL_LOST, EPOCH_ENDED ---- */

static kvr_status put_room(struct kvr_arena *arena, const struct kvr_msg_room *room,
                           Kvrail__Control__Room **ret_room)
{
    Kvrail__Control__Room *out;

    KVR_PUT_NEW(arena, out, kvrail__control__room__init);
    out->round = room->round;
    out->position_end = room->position_end;
    *ret_room = out;
    return KVR_OK;
}

static kvr_status put_missing(struct kvr_arena *arena, const struct kvr_msg_missing *missing,
                              Kvrail__Control__Missing **ret_missing)
{
    Kvrail__Control__Missing *out;

    KVR_PUT_NEW(arena, out, kvrail__control__missing__init);
    out->round = missing->round;
    *ret_missing = out;
    return kvr_put_runs(arena, missing->runs, missing->run_count, &out->runs);
}

static kvr_status put_rail_lost(struct kvr_arena *arena, const struct kvr_msg_rail_lost *lost,
                                Kvrail__Control__RailLost **ret_lost)
{
    Kvrail__Control__RailLost *out;

    KVR_PUT_NEW(arena, out, kvrail__control__rail_lost__init);
    out->rail = lost->rail;
    out->epoch = lost->epoch;
    *ret_lost = out;
    return kvr_put_runs(arena, lost->runs, lost->run_count, &out->runs);
}

static kvr_status put_epoch_ended(struct kvr_arena *arena, const struct kvr_msg_epoch_ended *ended,
                                  Kvrail__Control__EpochEnded **ret_ended)
{
    Kvrail__Control__EpochEnded *out;

    KVR_PUT_NEW(arena, out, kvrail__control__epoch_ended__init);
    out->rail = ended->rail;
    out->epoch = ended->epoch;
    *ret_ended = out;
    return kvr_put_rail(arena, &ended->successor, &out->successor);
}

static kvr_status get_missing(const struct kvr_get *get, const Kvrail__Control__Missing *in,
                              struct kvr_msg_missing *ret_missing)
{
    ret_missing->round = in->round;
    return kvr_get_runs(get, in->runs, (const void **)&ret_missing->runs, &ret_missing->run_count);
}

static kvr_status get_rail_lost(const struct kvr_get *get, const Kvrail__Control__RailLost *in,
                                struct kvr_msg_rail_lost *ret_lost)
{
    ret_lost->rail = in->rail;
    ret_lost->epoch = in->epoch;
    return kvr_get_runs(get, in->runs, (const void **)&ret_lost->runs, &ret_lost->run_count);
}

static kvr_status get_epoch_ended(const struct kvr_get *get, const Kvrail__Control__EpochEnded *in,
                                  struct kvr_msg_epoch_ended *ret_ended)
{
    ret_ended->rail = in->rail;
    ret_ended->epoch = in->epoch;
    return kvr_get_rail(get, in->successor, &ret_ended->successor);
}

/* ---- LANDED, CANCEL, FAIL, UNKNOWN ---- */

static kvr_status put_reason(struct kvr_arena *arena, const struct kvr_msg_reason *reason,
                             Kvrail__Control__Reason **ret_reason)
{
    char *detail = kvr_arena_take(arena, 1, sizeof(reason->detail));
    Kvrail__Control__Reason *out;

    if (detail == NULL)
        return KVR_NO_MEMORY;
    if (memchr(reason->detail, '\0', sizeof(reason->detail)) == NULL)
        return KVR_INVALID;
    kvr_text_show(reason->detail, sizeof(reason->detail), detail);
    KVR_PUT_NEW(arena, out, kvrail__control__reason__init);
    out->status = reason->status;
    out->detail = detail;
    *ret_reason = out;
    return KVR_OK;
}

static void get_reason(const Kvrail__Control__Reason *in, struct kvr_msg_reason *ret_reason)
{
    ret_reason->status = kvr_status_known(in->status) ? (kvr_status)in->status : KVR_INTERNAL;
    kvr_text_show(in->detail, sizeof(ret_reason->detail), ret_reason->detail);
}

/* ---- all of them ---- */

kvr_status kvr_put_transfer(struct kvr_arena *arena, const struct kvr_message *message,
                            kvr_pb_frame *frame)
{
    switch (message->kind) {
    case KVR_MSG_WANT:
        return put_want(arena, &message->want, &frame->want);
    case KVR_MSG_PAGES:
        return put_pages(arena, &message->pages, &frame->pages);
    case KVR_MSG_PLAN:
        return put_plan(arena, &message->plan, &frame->plan);
    case KVR_MSG_GRANT:
        return put_grant(arena, &message->grant, &frame->grant);
    case KVR_MSG_FINAL:
        return put_final(arena, &message->final, &frame->final);
    case KVR_MSG_TAIL:
        return put_tail(arena, &message->tail, &frame->tail);
    case KVR_MSG_QUIET:
        return put_quiet(arena, &message->quiet, &frame->quiet);
    case KVR_MSG_ROOM:
        return put_room(arena, &message->room, &frame->room);
    case KVR_MSG_MISSING:
        return put_missing(arena, &message->missing, &frame->missing);
    case KVR_MSG_RAIL_LOST:
        return put_rail_lost(arena, &message->rail_lost, &frame->rail_lost);
    case KVR_MSG_EPOCH_ENDED:
        return put_epoch_ended(arena, &message->epoch_ended, &frame->epoch_ended);
    case KVR_MSG_LANDED:
    case KVR_MSG_CANCEL:
    case KVR_MSG_FAIL:
    case KVR_MSG_UNKNOWN:
    case KVR_MSG_NO_RAIL:
        return put_reason(arena, &message->reason, &frame->fail);
    default:
        return kvr_put_proof(arena, message, frame);
    }
}

kvr_status kvr_get_transfer(const struct kvr_get *get, const kvr_pb_frame *frame,
                            struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_WANT:
        return get_want(get, frame->want, &message->want);
    case KVR_MSG_PAGES:
        return get_pages(get, frame->pages, &message->pages);
    case KVR_MSG_PLAN:
        return get_plan(get, frame->plan, &message->plan);
    case KVR_MSG_GRANT:
        return get_grant(get, frame->grant, &message->grant);
    case KVR_MSG_FINAL:
        message->final = get_final(frame->final);
        return KVR_OK;
    case KVR_MSG_TAIL:
        return get_tail(get, frame->tail, &message->tail);
    case KVR_MSG_QUIET:
        return get_quiet(get, frame->quiet, &message->quiet);
    case KVR_MSG_ROOM:
        message->room = (struct kvr_msg_room){.round = frame->room->round,
                                              .position_end = frame->room->position_end};
        return KVR_OK;
    case KVR_MSG_MISSING:
        return get_missing(get, frame->missing, &message->missing);
    case KVR_MSG_RAIL_LOST:
        return get_rail_lost(get, frame->rail_lost, &message->rail_lost);
    case KVR_MSG_EPOCH_ENDED:
        return get_epoch_ended(get, frame->epoch_ended, &message->epoch_ended);
    case KVR_MSG_LANDED:
    case KVR_MSG_CANCEL:
    case KVR_MSG_FAIL:
    case KVR_MSG_UNKNOWN:
    case KVR_MSG_NO_RAIL:
        get_reason(frame->fail, &message->reason);
        return KVR_OK;
    default:
        return kvr_get_proof(get, frame, message);
    }
}
