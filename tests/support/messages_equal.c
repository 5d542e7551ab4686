#include "tests/support/messages.h"

#define SAME(field)      (a->field == b->field)
#define SAME_TEXT(field) (strcmp(a->field, b->field) == 0)

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

static bool same_rank(const struct kvr_rank *a, const struct kvr_rank *b)
{
    return kvr_uuid_equal(&a->engine, &b->engine) && SAME(generation) && SAME(tp) &&
           SAME(tp_size) && SAME(pp) && SAME(pp_size);
}

static bool same_limits(const struct kvr_write_limits *a, const struct kvr_write_limits *b)
{
    return SAME(pieces_local) && SAME(pieces_remote) && SAME(chunk_bytes_max) && SAME(calibrated);
}

static bool same_compat(const struct kvr_compat *a, const struct kvr_compat *b)
{
    return SAME_TEXT(model) && SAME_TEXT(dtype) && SAME(layers_total) && SAME(kv_heads_total) &&
           SAME(head_dim);
}

static bool same_rail(const struct kvr_rail_address *a, const struct kvr_rail_address *b)
{
    return SAME(rail) && SAME(epoch) && SAME(bytes) &&
           same_bytes(a->address, b->address, a->bytes) && SAME(needs_senders) && SAME(tags) &&
           SAME(scratch_bytes) && SAME(scratch.key) && SAME(scratch.base) && SAME_TEXT(plane);
}

static bool same_rails(const struct kvr_rail_address *a, const struct kvr_rail_address *b,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!same_rail(&a[i], &b[i]))
            return false;
    return true;
}

static bool same_layout(const struct kvr_region_layout *a, const struct kvr_region_layout *b)
{
    return SAME(region) && SAME(group) && SAME(layer_first) && SAME(layer_count) &&
           SAME(part_count) && same_bytes(a->parts, b->parts, KVR_PARTS_MAX) && SAME(replicated) &&
           SAME(head_first) && SAME(head_count) && SAME(page_tokens) && SAME(page_count) &&
           SAME(bytes) && SAME(base) && SAME(layer_stride) && SAME(part_stride) &&
           SAME(page_stride) && SAME(token_stride) && SAME(head_stride) && SAME(head_bytes);
}

static bool same_hello(const struct kvr_msg_hello *a, const struct kvr_msg_hello *b)
{
    if (!(SAME(version_min) && SAME(version_max) && SAME(boot) && SAME(session) &&
          SAME_TEXT(agent) && SAME_TEXT(provider) && SAME_TEXT(host) && SAME(beat_ms) &&
          SAME(digest) && same_limits(&a->limits, &b->limits) && SAME(rail_count) &&
          SAME(compat_count) && same_rails(a->rails, b->rails, a->rail_count)))
        return false;
    for (uint32_t i = 0; i < a->compat_count; i++)
        if (!same_compat(&a->compats[i], &b->compats[i]))
            return false;
    return true;
}

static bool same_regions(const struct kvr_msg_regions *a, const struct kvr_msg_regions *b)
{
    if (!(same_rank(&a->rank, &b->rank) && same_compat(&a->compat, &b->compat) &&
          SAME(layout_count) && SAME(rail_count) && SAME(revocation_words) &&
          same_bytes(a->keys, b->keys, (size_t)a->layout_count * a->rail_count * sizeof(*a->keys))))
        return false;
    for (uint32_t i = 0; i < a->layout_count; i++)
        if (!same_layout(&a->layouts[i], &b->layouts[i]))
            return false;
    return true;
}

static bool same_want(const struct kvr_msg_want *a, const struct kvr_msg_want *b)
{
    return SAME_TEXT(request) && SAME_TEXT(tenant) && SAME(attempt) &&
           kvr_uuid_equal(&a->source_engine, &b->source_engine) && SAME(source_generation) &&
           SAME(source_tp) && SAME(source_pp) && same_rank(&a->target, &b->target) &&
           SAME(tokens) && SAME(skip_tokens) && SAME(deadline_ms) && SAME(priority) &&
           SAME(digest) && SAME(group_skip_count) && SAME(sibling_count) && SAME(staged) &&
           SAME(direct_copy) && SAME(stage_bytes) && SAME(skips_follow) &&
           kvr_proof_equal(&a->proof, &b->proof) &&
           same_bytes(a->group_skips, b->group_skips, a->group_skip_count * 8) &&
           same_bytes(a->siblings, b->siblings, a->sibling_count * 4);
}

static bool same_pages(const struct kvr_msg_pages *a, const struct kvr_msg_pages *b)
{
    return SAME(group) && SAME(page_first) && SAME(run_count) && SAME(more) &&
           same_bytes(a->runs, b->runs, a->run_count * sizeof(*a->runs));
}

static bool same_plan(const struct kvr_msg_plan *a, const struct kvr_msg_plan *b)
{
    return SAME(segment) && SAME(token_first) && SAME(token_end) && SAME(chunk_first) &&
           SAME(chunk_count) && SAME(hash) && same_rank(&a->source, &b->source) &&
           same_limits(&a->limits, &b->limits) && SAME(group) && SAME(page_first) &&
           SAME(run_count) && SAME(more) && SAME(revocation_word) && SAME(none) &&
           same_bytes(a->runs, b->runs, a->run_count * sizeof(*a->runs));
}

static bool same_quiet(const struct kvr_msg_quiet *a, const struct kvr_msg_quiet *b)
{
    if (!(SAME(round) && SAME(count_count)))
        return false;
    for (uint32_t i = 0; i < a->count_count; i++)
        if (!(SAME(counts[i].rail) && SAME(counts[i].epoch) && SAME(counts[i].count)))
            return false;
    return true;
}

bool messages_equal(const struct kvr_message *a, const struct kvr_message *b)
{
    if (!(SAME(kind) && SAME(transfer) && SAME(sequence)))
        return false;
    switch (a->kind) {
    case KVR_MSG_HELLO:
    case KVR_MSG_WELCOME:
        return same_hello(&a->hello, &b->hello);
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        return SAME(seen.session) && SAME(seen.seen);
    case KVR_MSG_REGIONS:
        return same_regions(&a->regions, &b->regions);
    case KVR_MSG_WANT:
        return same_want(&a->want, &b->want);
    case KVR_MSG_SKIP:
        return SAME(skip.skip_tokens) && SAME(skip.group_skip_count) &&
               same_bytes(a->skip.group_skips, b->skip.group_skips, a->skip.group_skip_count * 8);
    case KVR_MSG_PAGES:
        return same_pages(&a->pages, &b->pages);
    case KVR_MSG_PLAN:
        return same_plan(&a->plan, &b->plan);
    case KVR_MSG_GRANT:
        return SAME(grant.slot_count) && SAME(grant.rail_count) && SAME(grant.quota_offset) &&
               SAME(grant.quota_bytes) && SAME(grant.tag) && SAME(grant.quota_key_count) &&
               SAME(grant.key_count) &&
               same_bytes(a->grant.keys, b->grant.keys,
                          a->grant.key_count * sizeof(*a->grant.keys)) &&
               same_bytes(a->grant.quota_keys, b->grant.quota_keys,
                          a->grant.quota_key_count * sizeof(*a->grant.quota_keys)) &&
               same_bytes(a->grant.slots, b->grant.slots, a->grant.slot_count * 2) &&
               same_rails(a->grant.rails, b->grant.rails, a->grant.rail_count);
    case KVR_MSG_FINAL:
        return SAME(final.segment_count) && SAME(final.chunk_count) && SAME(final.token_end) &&
               SAME(final.tail_bytes) && SAME(final.has_tail);
    case KVR_MSG_TAIL:
        return SAME(tail.byte_count) &&
               same_bytes(a->tail.bytes, b->tail.bytes, a->tail.byte_count);
    case KVR_MSG_QUIET:
        return same_quiet(&a->quiet, &b->quiet);
    case KVR_MSG_ROOM:
        return SAME(room.round) && SAME(room.position_end);
    case KVR_MSG_MISSING:
        return SAME(missing.round) && SAME(missing.run_count) &&
               same_bytes(a->missing.runs, b->missing.runs, a->missing.run_count * 8);
    case KVR_MSG_RAIL_LOST:
        return SAME(rail_lost.rail) && SAME(rail_lost.epoch) && SAME(rail_lost.run_count) &&
               same_bytes(a->rail_lost.runs, b->rail_lost.runs, a->rail_lost.run_count * 8);
    case KVR_MSG_EPOCH_ENDED:
        return SAME(epoch_ended.rail) && SAME(epoch_ended.epoch) &&
               same_rail(&a->epoch_ended.successor, &b->epoch_ended.successor);
    case KVR_MSG_SENDER:
        return same_rail(&a->sender.endpoint, &b->sender.endpoint);
    case KVR_MSG_SENDER_KNOWN:
        return SAME(sender_known.rail) && SAME(sender_known.epoch);
    case KVR_MSG_DIGEST:
        return SAME(digest.chunk_first) && SAME(digest.chunk_count) && SAME(digest.value_count) &&
               same_bytes(a->digest.values, b->digest.values, a->digest.value_count * 8);
    case KVR_MSG_PROBE:
    case KVR_MSG_ALIVE:
        return SAME(probe.token);
    default:
        return SAME(reason.status) && SAME_TEXT(reason.detail);
    }
}
