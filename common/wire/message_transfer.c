/* Coding of the messages about one transfer. */
#include "wire/message_parts.h"

#include "base/plain_name.h"

#define WANT_FIELDS(X)                                                                             \
    X(attempt)                                                                                     \
    X(source_generation)                                                                           \
    X(source_tp)                                                                                   \
    X(source_pp)                                                                                   \
    X(tokens)                                                                                      \
    X(skip_tokens)                                                                                 \
    X(deadline_ms)                                                                                 \
    X(priority)                                                                                    \
    X(staged)                                                                                      \
    X(direct_copy)                                                                                 \
    X(stage_bytes)                                                                                 \
    X(skips_follow)
#define PAGES_FIELDS(X) X(group) X(page_first) X(more)
#define PLAN_FIELDS(X)                                                                             \
    X(segment)                                                                                     \
    X(token_first)                                                                                 \
    X(token_end)                                                                                   \
    X(chunk_first)                                                                                 \
    X(chunk_count)                                                                                 \
    X(hash)                                                                                        \
    X(group)                                                                                       \
    X(page_first)                                                                                  \
    X(more)                                                                                        \
    X(revocation_word)                                                                             \
    X(none)
#define GRANT_FIELDS(X)       X(quota_offset) X(quota_bytes) X(tag)
#define FINAL_FIELDS(X)       X(segment_count) X(chunk_count) X(token_end) X(tail_bytes) X(has_tail)
#define DIGEST_FIELDS(X)      X(chunk_first) X(chunk_count)
#define EPOCH_COUNT_FIELDS(X) X(rail) X(epoch) X(count)
#define ROOM_FIELDS(X)        X(round) X(position_end)
#define MISSING_FIELDS(X)     X(round)
#define EPOCH_FIELDS(X)       X(rail) X(epoch) /* RAIL_LOST, EPOCH_ENDED, SENDER_KNOWN */

/* ---- WANT, SKIP, PAGES ---- */

static kvr_status put_want(struct kvr_arena *arena, const struct kvr_msg_want *in,
                           Kvrail__Control__Want *out)
{
    if (!kvr_text_valid(in->request, sizeof(in->request)) || !kvr_plain_name_or_none(in->tenant) ||
        in->group_skip_count > KVR_GROUPS_MAX || in->sibling_count > KVR_SOURCES_MAX)
        return KVR_INVALID;
    kvrail__control__want__init(out);
    WANT_FIELDS(KVR_PROTO_COPY)
    out->request = kvr_proto_text(in->request);
    out->tenant = kvr_proto_text(in->tenant);
    out->source_engine = kvr_proto_bytes(in->source_engine.bytes, sizeof(in->source_engine.bytes));
    out->digest = in->digest;
    out->group_skips = (uint64_t *)(uintptr_t)in->group_skips;
    out->n_group_skips = in->group_skip_count;
    out->siblings = (uint32_t *)(uintptr_t)in->siblings;
    out->n_siblings = in->sibling_count;
    if (kvr_proof_given(&in->proof))
        out->proof = kvr_proto_bytes(in->proof.bytes, sizeof(in->proof.bytes));
    return kvr_put_rank(arena, &in->target, &out->target);
}

static kvr_status get_want(const struct kvr_get *get, const Kvrail__Control__Want *in,
                           struct kvr_msg_want *out)
{
    KVR_TRY(kvr_get_name(get, "request", in->request, sizeof(out->request), out->request));
    KVR_TRY(kvr_get_name(get, "tenant", in->tenant, sizeof(out->tenant), out->tenant));
    if (!kvr_plain_name_or_none(out->tenant))
        return kvr_get_malformed(get, "tenant is \"%s\": it must have " KVR_PLAIN_NAME_FORM,
                                 out->tenant);
    if (in->source_engine.len != sizeof(out->source_engine.bytes))
        return kvr_get_malformed(get, "source_engine is %zu bytes long: it must be 16",
                                 in->source_engine.len);
    memcpy(out->source_engine.bytes, in->source_engine.data, in->source_engine.len);
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_rank(in->target, &out->target)));
    if (in->n_group_skips > KVR_GROUPS_MAX || in->n_siblings > KVR_SOURCES_MAX)
        return kvr_get_malformed(get, "a WANT names %zu groups and %zu siblings: at most %d and %d",
                                 in->n_group_skips, in->n_siblings, KVR_GROUPS_MAX,
                                 KVR_SOURCES_MAX);
    if (in->proof.len != 0 && in->proof.len != sizeof(out->proof.bytes))
        return kvr_get_malformed(get, "proof is %zu bytes long: it must be none or %d",
                                 in->proof.len, KVR_PROOF_BYTES);
    if (in->proof.len != 0)
        memcpy(out->proof.bytes, in->proof.data, in->proof.len);
    WANT_FIELDS(KVR_PROTO_COPY)
    out->group_skips = in->group_skips;
    out->group_skip_count = (uint32_t)in->n_group_skips;
    out->siblings = in->siblings;
    out->sibling_count = (uint32_t)in->n_siblings;
    return kvr_get_digest_mode(get, in->digest, &out->digest);
}

static kvr_status put_skip(const struct kvr_msg_skip *in, Kvrail__Control__Skip *out)
{
    if (in->group_skip_count > KVR_GROUPS_MAX)
        return KVR_INVALID;
    kvrail__control__skip__init(out);
    out->skip_tokens = in->skip_tokens;
    out->group_skips = (uint64_t *)(uintptr_t)in->group_skips;
    out->n_group_skips = in->group_skip_count;
    return KVR_OK;
}

static kvr_status get_skip(const struct kvr_get *get, const Kvrail__Control__Skip *in,
                           struct kvr_msg_skip *out)
{
    if (in->n_group_skips > KVR_GROUPS_MAX)
        return kvr_get_malformed(get, "a SKIP names %zu groups: at most %d are allowed",
                                 in->n_group_skips, KVR_GROUPS_MAX);
    out->skip_tokens = in->skip_tokens;
    out->group_skips = in->group_skips;
    out->group_skip_count = (uint32_t)in->n_group_skips;
    return KVR_OK;
}

static kvr_status put_pages(struct kvr_arena *arena, const struct kvr_msg_pages *in,
                            Kvrail__Control__Pages *out)
{
    kvrail__control__pages__init(out);
    PAGES_FIELDS(KVR_PROTO_COPY)
    return kvr_put_runs(arena, in->runs, in->run_count, &out->runs);
}

static kvr_status get_pages(const struct kvr_get *get, const Kvrail__Control__Pages *in,
                            struct kvr_msg_pages *out)
{
    PAGES_FIELDS(KVR_PROTO_COPY)
    return kvr_get_runs(get, in->runs, (const void **)&out->runs, &out->run_count);
}

/* ---- PLAN, GRANT ---- */

static kvr_status put_plan(struct kvr_arena *arena, const struct kvr_msg_plan *in,
                           Kvrail__Control__Plan *out)
{
    kvrail__control__plan__init(out);
    PLAN_FIELDS(KVR_PROTO_COPY)
    KVR_TRY(kvr_put_rank(arena, &in->source, &out->source));
    KVR_TRY(kvr_put_limits(arena, &in->limits, &out->limits));
    return kvr_put_runs(arena, in->runs, in->run_count, &out->runs);
}

static kvr_status get_plan(const struct kvr_get *get, const Kvrail__Control__Plan *in,
                           struct kvr_msg_plan *out)
{
    PLAN_FIELDS(KVR_PROTO_COPY)
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_rank(in->source, &out->source)));
    kvr_get_limits(in->limits, &out->limits);
    return kvr_get_runs(get, in->runs, (const void **)&out->runs, &out->run_count);
}

static kvr_status put_grant(struct kvr_arena *arena, const struct kvr_msg_grant *in,
                            Kvrail__Control__Grant *out)
{
    if (in->slot_count > KVR_TRANSFER_SLOTS_MAX || in->rail_count > KVR_RAILS_MAX ||
        in->quota_key_count > KVR_RAILS_MAX || in->key_count > KVR_REGIONS_MAX)
        return KVR_INVALID;
    kvrail__control__grant__init(out);
    GRANT_FIELDS(KVR_PROTO_COPY)
    KVR_PUT_LIST(arena, out->slots, in->slot_count);
    for (uint32_t i = 0; i < in->slot_count; i++)
        out->slots[i] = in->slots[i];
    out->n_slots = in->slot_count;
    out->n_rails = in->rail_count;
    out->n_quota_keys = (size_t)in->quota_key_count * 2; /* two numbers each, as in memory */
    out->quota_keys = (uint64_t *)in->quota_keys;
    out->n_keys = (size_t)in->key_count * 2;
    out->keys = (uint64_t *)in->keys;
    return kvr_put_rails(arena, in->rails, in->rail_count, &out->rails);
}

static kvr_status get_grant(const struct kvr_get *get, const Kvrail__Control__Grant *in,
                            struct kvr_msg_grant *out)
{
    uint16_t *slots;

    KVR_GET_LIST(get, slots, "slots", in->n_slots, KVR_TRANSFER_SLOTS_MAX);
    if (in->n_quota_keys > KVR_RAILS_MAX * 2 || in->n_quota_keys % 2 != 0)
        return kvr_get_malformed(get, "%zu numbers of keys: two a rail, of at most %d rails",
                                 in->n_quota_keys, KVR_RAILS_MAX);
    if (in->n_keys > KVR_REGIONS_MAX * 2 || in->n_keys % 2 != 0)
        return kvr_get_malformed(get, "%zu numbers of keys: two a region, of at most %d regions",
                                 in->n_keys, KVR_REGIONS_MAX);
    for (size_t i = 0; i < in->n_slots; i++) {
        if (in->slots[i] >= KVR_SLOTS)
            return kvr_get_malformed(get, "slot %u: the largest is %d", in->slots[i],
                                     KVR_SLOTS - 1);
        slots[i] = (uint16_t)in->slots[i];
    }
    GRANT_FIELDS(KVR_PROTO_COPY)
    out->slots = slots;
    out->slot_count = (uint32_t)in->n_slots;
    out->quota_keys = (const struct kvr_remote_key *)in->quota_keys;
    out->quota_key_count = (uint32_t)(in->n_quota_keys / 2);
    out->keys = (const struct kvr_remote_key *)in->keys;
    out->key_count = (uint32_t)(in->n_keys / 2);
    return kvr_get_rails(get, in->n_rails, in->rails, &out->rails, &out->rail_count);
}

/* ---- FINAL, TAIL, DIGEST, QUIET ---- */

static kvr_status put_final(const struct kvr_msg_final *in, Kvrail__Control__Final *out)
{
    kvrail__control__final__init(out);
    FINAL_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status get_final(const Kvrail__Control__Final *in, struct kvr_msg_final *out)
{
    FINAL_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status put_tail(const struct kvr_msg_tail *in, Kvrail__Control__Tail *out)
{
    if (in->byte_count > KVR_TAIL_BYTES_MAX)
        return KVR_INVALID;
    kvrail__control__tail__init(out);
    out->bytes = kvr_proto_bytes(in->bytes, in->byte_count);
    return KVR_OK;
}

static kvr_status get_tail(const struct kvr_get *get, const Kvrail__Control__Tail *in,
                           struct kvr_msg_tail *out)
{
    if (in->bytes.len > KVR_TAIL_BYTES_MAX)
        return kvr_get_malformed(get, "a tail of %zu bytes: at most %d are allowed", in->bytes.len,
                                 KVR_TAIL_BYTES_MAX);
    out->bytes = in->bytes.data;
    out->byte_count = (uint32_t)in->bytes.len;
    return KVR_OK;
}

static kvr_status put_digest(const struct kvr_msg_digest *in, Kvrail__Control__Digest *out)
{
    if (in->value_count > KVR_DIGESTS_PER_MESSAGE)
        return KVR_INVALID;
    kvrail__control__digest__init(out);
    DIGEST_FIELDS(KVR_PROTO_COPY)
    out->values = (uint64_t *)in->values; /* packing only reads it */
    out->n_values = in->value_count;
    return KVR_OK;
}

static kvr_status get_digest(const struct kvr_get *get, const Kvrail__Control__Digest *in,
                             struct kvr_msg_digest *out)
{
    if (in->n_values > KVR_DIGESTS_PER_MESSAGE)
        return kvr_get_malformed(get, "values has %zu entries: at most %d are allowed",
                                 in->n_values, KVR_DIGESTS_PER_MESSAGE);
    DIGEST_FIELDS(KVR_PROTO_COPY)
    out->values = in->values;
    out->value_count = (uint32_t)in->n_values;
    return KVR_OK;
}

static void put_count(const struct kvr_epoch_count *in, Kvrail__Control__EpochCount *out)
{
    EPOCH_COUNT_FIELDS(KVR_PROTO_COPY)
}

static void get_count(const Kvrail__Control__EpochCount *in, struct kvr_epoch_count *out)
{
    EPOCH_COUNT_FIELDS(KVR_PROTO_COPY)
}

static kvr_status put_quiet(struct kvr_arena *arena, const struct kvr_msg_quiet *in,
                            Kvrail__Control__Quiet *out)
{
    if (in->count_count > KVR_EPOCHS_PER_TRANSFER)
        return KVR_INVALID;
    kvrail__control__quiet__init(out);
    out->round = in->round;
    KVR_PUT_LIST(arena, out->counts, in->count_count);
    for (uint32_t i = 0; i < in->count_count; i++) {
        KVR_PUT_NEW(arena, out->counts[i], kvrail__control__epoch_count__init);
        put_count(&in->counts[i], out->counts[i]);
    }
    out->n_counts = in->count_count;
    return KVR_OK;
}

static kvr_status get_quiet(const struct kvr_get *get, const Kvrail__Control__Quiet *in,
                            struct kvr_msg_quiet *out)
{
    struct kvr_epoch_count *counts;

    KVR_GET_LIST(get, counts, "counts", in->n_counts, KVR_EPOCHS_PER_TRANSFER);
    for (size_t i = 0; i < in->n_counts; i++)
        get_count(in->counts[i], &counts[i]);
    out->round = in->round;
    out->counts = counts;
    out->count_count = (uint32_t)in->n_counts;
    return KVR_OK;
}

/* ---- ROOM, MISSING, RAIL_LOST, EPOCH_ENDED ---- */

static kvr_status put_room(const struct kvr_msg_room *in, Kvrail__Control__Room *out)
{
    kvrail__control__room__init(out);
    ROOM_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status get_room(const Kvrail__Control__Room *in, struct kvr_msg_room *out)
{
    ROOM_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status put_missing(struct kvr_arena *arena, const struct kvr_msg_missing *in,
                              Kvrail__Control__Missing *out)
{
    kvrail__control__missing__init(out);
    out->round = in->round;
    return kvr_put_runs(arena, in->runs, in->run_count, &out->runs);
}

static kvr_status get_missing(const struct kvr_get *get, const Kvrail__Control__Missing *in,
                              struct kvr_msg_missing *out)
{
    out->round = in->round;
    return kvr_get_runs(get, in->runs, (const void **)&out->runs, &out->run_count);
}

static kvr_status put_rail_lost(struct kvr_arena *arena, const struct kvr_msg_rail_lost *in,
                                Kvrail__Control__RailLost *out)
{
    kvrail__control__rail_lost__init(out);
    EPOCH_FIELDS(KVR_PROTO_COPY)
    return kvr_put_runs(arena, in->runs, in->run_count, &out->runs);
}

static kvr_status get_rail_lost(const struct kvr_get *get, const Kvrail__Control__RailLost *in,
                                struct kvr_msg_rail_lost *out)
{
    EPOCH_FIELDS(KVR_PROTO_COPY)
    return kvr_get_runs(get, in->runs, (const void **)&out->runs, &out->run_count);
}

static kvr_status put_epoch_ended(struct kvr_arena *arena, const struct kvr_msg_epoch_ended *in,
                                  Kvrail__Control__EpochEnded *out)
{
    kvrail__control__epoch_ended__init(out);
    EPOCH_FIELDS(KVR_PROTO_COPY)
    return kvr_put_rail(arena, &in->successor, &out->successor);
}

static kvr_status get_epoch_ended(const struct kvr_get *get, const Kvrail__Control__EpochEnded *in,
                                  struct kvr_msg_epoch_ended *out)
{
    EPOCH_FIELDS(KVR_PROTO_COPY)
    return kvr_get_rail(get, in->successor, &out->successor);
}

/* ---- SENDER, SENDER_KNOWN ---- */

static kvr_status put_sender(struct kvr_arena *arena, const struct kvr_msg_sender *in,
                             Kvrail__Control__Sender *out)
{
    kvrail__control__sender__init(out);
    return kvr_put_rail(arena, &in->endpoint, &out->endpoint);
}

static kvr_status put_sender_known(const struct kvr_msg_sender_known *in,
                                   Kvrail__Control__SenderKnown *out)
{
    kvrail__control__sender_known__init(out);
    EPOCH_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status get_sender_known(const Kvrail__Control__SenderKnown *in,
                                   struct kvr_msg_sender_known *out)
{
    EPOCH_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

/* ---- all of them ---- */

kvr_status kvr_put_transfer(struct kvr_arena *arena, const struct kvr_message *message,
                            union kvr_pb_body *body)
{
    switch (message->kind) {
    case KVR_MSG_WANT:
        return put_want(arena, &message->want, &body->want);
    case KVR_MSG_SKIP:
        return put_skip(&message->skip, &body->skip);
    case KVR_MSG_PAGES:
        return put_pages(arena, &message->pages, &body->pages);
    case KVR_MSG_PLAN:
        return put_plan(arena, &message->plan, &body->plan);
    case KVR_MSG_GRANT:
        return put_grant(arena, &message->grant, &body->grant);
    case KVR_MSG_FINAL:
        return put_final(&message->final, &body->final);
    case KVR_MSG_TAIL:
        return put_tail(&message->tail, &body->tail);
    case KVR_MSG_DIGEST:
        return put_digest(&message->digest, &body->digest);
    case KVR_MSG_QUIET:
        return put_quiet(arena, &message->quiet, &body->quiet);
    case KVR_MSG_ROOM:
        return put_room(&message->room, &body->room);
    case KVR_MSG_MISSING:
        return put_missing(arena, &message->missing, &body->missing);
    case KVR_MSG_RAIL_LOST:
        return put_rail_lost(arena, &message->rail_lost, &body->rail_lost);
    case KVR_MSG_EPOCH_ENDED:
        return put_epoch_ended(arena, &message->epoch_ended, &body->epoch_ended);
    case KVR_MSG_SENDER:
        return put_sender(arena, &message->sender, &body->sender);
    case KVR_MSG_SENDER_KNOWN:
        return put_sender_known(&message->sender_known, &body->sender_known);
    case KVR_MSG_PROBE:
    case KVR_MSG_ALIVE:
        kvrail__control__probe__init(&body->probe);
        body->probe.token = message->probe.token;
        return KVR_OK;
    default:
        return kvr_put_reason(arena, &message->reason, &body->reason);
    }
}

kvr_status kvr_get_transfer(const struct kvr_get *get, const kvr_pb_frame *frame,
                            struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_WANT:
        return get_want(get, frame->want, &message->want);
    case KVR_MSG_SKIP:
        return get_skip(get, frame->skip, &message->skip);
    case KVR_MSG_PAGES:
        return get_pages(get, frame->pages, &message->pages);
    case KVR_MSG_PLAN:
        return get_plan(get, frame->plan, &message->plan);
    case KVR_MSG_GRANT:
        return get_grant(get, frame->grant, &message->grant);
    case KVR_MSG_FINAL:
        return get_final(frame->final, &message->final);
    case KVR_MSG_TAIL:
        return get_tail(get, frame->tail, &message->tail);
    case KVR_MSG_DIGEST:
        return get_digest(get, frame->digest, &message->digest);
    case KVR_MSG_QUIET:
        return get_quiet(get, frame->quiet, &message->quiet);
    case KVR_MSG_ROOM:
        return get_room(frame->room, &message->room);
    case KVR_MSG_MISSING:
        return get_missing(get, frame->missing, &message->missing);
    case KVR_MSG_RAIL_LOST:
        return get_rail_lost(get, frame->rail_lost, &message->rail_lost);
    case KVR_MSG_EPOCH_ENDED:
        return get_epoch_ended(get, frame->epoch_ended, &message->epoch_ended);
    case KVR_MSG_SENDER:
        return kvr_get_rail(get, frame->sender->endpoint, &message->sender.endpoint);
    case KVR_MSG_SENDER_KNOWN:
        return get_sender_known(frame->sender_known, &message->sender_known);
    case KVR_MSG_PROBE:
    case KVR_MSG_ALIVE:
        message->probe.token = frame->probe->token;
        return KVR_OK;
    default:
        kvr_get_reason(frame->fail, &message->reason);
        return KVR_OK;
    }
}
