#include "tests/support/messages.h"

#include <stdlib.h>

/* ---- making ---- */

static uint32_t u32(struct kvr_rng *rng)
{
    /* As many small numbers as large ones: both sides of every varint length. */
    return (uint32_t)(kvr_rng_next(rng) >> (32 + kvr_rng_below(rng, 32)));
}

static uint64_t u64(struct kvr_rng *rng)
{
    return kvr_rng_next(rng) >> kvr_rng_below(rng, 64);
}

static uint32_t up_to(struct kvr_rng *rng, uint32_t largest, uint32_t percent)
{
    return (uint32_t)kvr_rng_below(rng, (uint64_t)largest * percent / 100 + 1);
}

static void text(struct kvr_rng *rng, char *ret_text, size_t capacity)
{
    static const char *const pieces[] = {"a", "Z", "0", "-",  "/",
                                         " ", ".", "é", "水", "\xf0\x9f\x9a\x82"};
    size_t used = 0, length = (size_t)kvr_rng_below(rng, capacity);

    memset(ret_text, 0, capacity);
    for (;;) {
        const char *piece = pieces[kvr_rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))];

        if (used + strlen(piece) > length)
            return;
        memcpy(ret_text + used, piece, strlen(piece));
        used += strlen(piece);
    }
}

static kvr_status status(struct kvr_rng *rng)
{
    static const kvr_status all[] = {
#define X(symbol, value, name, scope, sentence) symbol,
        KVR_STATUS_LIST(X)
#undef X
    };

    return all[kvr_rng_below(rng, sizeof(all) / sizeof(all[0]))];
}

static void uuid(struct kvr_rng *rng, struct kvr_uuid *ret_uuid)
{
    for (size_t i = 0; i < sizeof(ret_uuid->bytes); i++)
        ret_uuid->bytes[i] = (uint8_t)kvr_rng_next(rng);
}

static void rank(struct kvr_rng *rng, struct kvr_rank *ret_rank)
{
    uuid(rng, &ret_rank->engine);
    ret_rank->generation = u64(rng);
    ret_rank->tp_size = u32(rng) | 1;
    ret_rank->tp = u32(rng) % ret_rank->tp_size;
    ret_rank->pp_size = u32(rng) | 1;
    ret_rank->pp = u32(rng) % ret_rank->pp_size;
}

static void limits(struct kvr_rng *rng, struct kvr_write_limits *ret_limits)
{
    ret_limits->pieces_local = u32(rng);
    ret_limits->pieces_remote = u32(rng);
    ret_limits->chunk_bytes_max = u64(rng);
    ret_limits->calibrated = kvr_rng_percent(rng, 50);
}

static void compat(struct kvr_rng *rng, struct kvr_compat *ret_compat)
{
    text(rng, ret_compat->model, sizeof(ret_compat->model));
    text(rng, ret_compat->dtype, sizeof(ret_compat->dtype));
    ret_compat->layers_total = u32(rng);
    ret_compat->kv_heads_total = u32(rng);
    ret_compat->head_dim = u32(rng);
}

static void rail(struct kvr_rng *rng, struct kvr_rail_address *ret_rail)
{
    memset(ret_rail, 0, sizeof(*ret_rail));
    ret_rail->rail = u32(rng);
    ret_rail->group = u32(rng);
    ret_rail->epoch = u32(rng);
    ret_rail->bytes = (uint32_t)kvr_rng_below(rng, KVR_ADDRESS_BYTES + 1);
    for (uint32_t i = 0; i < ret_rail->bytes; i++)
        ret_rail->address[i] = (uint8_t)kvr_rng_next(rng);
    ret_rail->scratch_bytes = u32(rng);
    ret_rail->scratch.key = u64(rng);
    ret_rail->scratch.base = u64(rng);
}

static void layout(struct kvr_rng *rng, struct kvr_region_layout *ret_layout)
{
    memset(ret_layout, 0, sizeof(*ret_layout));
    ret_layout->region = u32(rng);
    ret_layout->group = u32(rng);
    ret_layout->layer_first = u32(rng);
    ret_layout->layer_count = u32(rng);
    ret_layout->part_count = (uint32_t)kvr_rng_below(rng, KVR_PARTS_MAX + 1);
    for (uint32_t i = 0; i < ret_layout->part_count; i++)
        ret_layout->parts[i] = (uint8_t)kvr_rng_next(rng);
    ret_layout->replicated = kvr_rng_percent(rng, 50);
    ret_layout->head_first = u32(rng);
    ret_layout->head_count = u32(rng);
    ret_layout->page_tokens = u32(rng);
    ret_layout->page_count = u32(rng);
    ret_layout->bytes = u64(rng);
    ret_layout->base = u64(rng);
    ret_layout->layer_stride = u64(rng);
    ret_layout->part_stride = u64(rng);
    ret_layout->page_stride = u64(rng);
    ret_layout->token_stride = u64(rng);
    ret_layout->head_stride = u64(rng);
    ret_layout->head_bytes = u64(rng);
}

static uint32_t page_runs(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory)
{
    uint32_t count = up_to(rng, KVR_RUNS_PER_MESSAGE, percent);

    for (uint32_t i = 0; i < count; i++)
        memory->page_runs[i] = (struct kvr_page_run){u32(rng), u32(rng)};
    return count;
}

static uint32_t chunk_runs(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory)
{
    uint32_t count = up_to(rng, KVR_RUNS_PER_MESSAGE, percent);

    for (uint32_t i = 0; i < count; i++)
        memory->chunk_runs[i] = (struct kvr_chunk_run){u32(rng), u32(rng)};
    return count;
}

static uint32_t rails(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory)
{
    uint32_t count = up_to(rng, KVR_RAILS_MAX, percent);

    for (uint32_t i = 0; i < count; i++)
        rail(rng, &memory->rails[i]);
    return count;
}

static void hello(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                  struct kvr_msg_hello *ret_hello)
{
    ret_hello->version_min = u32(rng);
    ret_hello->version_max = u32(rng);
    ret_hello->boot = u64(rng);
    ret_hello->session = u64(rng);
    text(rng, ret_hello->agent, sizeof(ret_hello->agent));
    text(rng, ret_hello->provider, sizeof(ret_hello->provider));
    text(rng, ret_hello->host, sizeof(ret_hello->host));
    ret_hello->beat_ms = u32(rng);
    ret_hello->digest = (kvr_digest_mode)kvr_rng_below(rng, KVR_DIGEST_FULL + 1);
    ret_hello->loans_pid = u32(rng);
    ret_hello->loans_fd = u32(rng);
    limits(rng, &ret_hello->limits);
    ret_hello->rail_count = rails(rng, percent, memory);
    ret_hello->rails = memory->rails;
    ret_hello->compat_count = up_to(rng, KVR_ENGINES_MAX, percent);
    for (uint32_t i = 0; i < ret_hello->compat_count; i++)
        compat(rng, &memory->compats[i]);
    ret_hello->compats = memory->compats;
}

static void regions(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                    struct kvr_msg_regions *ret_regions)
{
    rank(rng, &ret_regions->rank);
    compat(rng, &ret_regions->compat);
    ret_regions->layout_count = up_to(rng, KVR_REGIONS_MAX, percent);
    ret_regions->rail_count = up_to(rng, KVR_RAILS_MAX, percent);
    for (uint32_t i = 0; i < ret_regions->layout_count; i++)
        layout(rng, &memory->layouts[i]);
    for (uint32_t i = 0; i < ret_regions->layout_count * ret_regions->rail_count; i++)
        memory->keys[i] = (struct kvr_remote_key){kvr_rng_next(rng), u64(rng)};
    ret_regions->layouts = memory->layouts;
    ret_regions->keys = memory->keys;
}

static void want(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                 struct kvr_msg_want *ret_want)
{
    text(rng, ret_want->request, sizeof(ret_want->request));
    ret_want->attempt = u32(rng);
    uuid(rng, &ret_want->source_engine);
    ret_want->source_generation = u64(rng);
    ret_want->source_tp = u32(rng);
    ret_want->source_pp = u32(rng);
    rank(rng, &ret_want->target);
    ret_want->tokens = u64(rng);
    ret_want->skip_tokens = u64(rng);
    ret_want->deadline_ms = u32(rng);
    ret_want->priority = (int32_t)u32(rng);
    ret_want->group_count = u32(rng);
    ret_want->group = u32(rng);
    ret_want->run_count = page_runs(rng, percent, memory);
    ret_want->runs = memory->page_runs;
    ret_want->more = kvr_rng_percent(rng, 50);
    ret_want->digest = (kvr_digest_mode)kvr_rng_below(rng, KVR_DIGEST_FULL + 1);
    ret_want->group_skip_count = up_to(rng, KVR_GROUPS_MAX, percent);
    ret_want->sibling_count = up_to(rng, KVR_SOURCES_MAX, percent);
    ret_want->staged = kvr_rng_percent(rng, 50);
    ret_want->moves = kvr_rng_percent(rng, 50);
    ret_want->stage_bytes = u64(rng);
    ret_want->group_skips = memory->group_skips;
    ret_want->siblings = memory->siblings;
    for (uint32_t i = 0; i < ret_want->group_skip_count; i++)
        memory->group_skips[i] = u64(rng);
    for (uint32_t i = 0; i < ret_want->sibling_count; i++)
        memory->siblings[i] = u32(rng);
}

static void plan(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                 struct kvr_msg_plan *ret_plan)
{
    ret_plan->segment = u32(rng);
    ret_plan->token_first = u64(rng);
    ret_plan->token_end = u64(rng);
    ret_plan->chunk_first = u32(rng);
    ret_plan->chunk_count = u32(rng);
    ret_plan->hash = kvr_rng_next(rng);
    ret_plan->loan = u32(rng);
    rank(rng, &ret_plan->source);
    limits(rng, &ret_plan->limits);
    ret_plan->group = u32(rng);
    ret_plan->page_first = u32(rng);
    ret_plan->run_count = page_runs(rng, percent, memory);
    ret_plan->runs = memory->page_runs;
    ret_plan->more = kvr_rng_percent(rng, 50);
    ret_plan->none = kvr_rng_percent(rng, 50);
}

static void grant(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                  struct kvr_msg_grant *ret_grant)
{
    ret_grant->slot_count = up_to(rng, KVR_TRANSFER_SLOTS_MAX, percent);
    for (uint32_t i = 0; i < ret_grant->slot_count; i++)
        memory->slots[i] = (uint16_t)kvr_rng_next(rng);
    ret_grant->slots = memory->slots;
    ret_grant->rail_count = rails(rng, percent, memory);
    ret_grant->rails = memory->rails;
    ret_grant->share_offset = kvr_rng_next(rng);
    ret_grant->share_bytes = kvr_rng_next(rng);
    ret_grant->share_keys = memory->keys;
    ret_grant->share_key_count = up_to(rng, KVR_RAILS_MAX, percent);
    for (uint32_t i = 0; i < ret_grant->share_key_count; i++)
        memory->keys[i] = (struct kvr_remote_key){kvr_rng_next(rng), kvr_rng_next(rng)};
}

static void quiet(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                  struct kvr_msg_quiet *ret_quiet)
{
    ret_quiet->round = u32(rng);
    ret_quiet->count_count = up_to(rng, KVR_EPOCHS_PER_TRANSFER, percent);
    for (uint32_t i = 0; i < ret_quiet->count_count; i++)
        memory->counts[i] = (struct kvr_epoch_count){u32(rng), u32(rng), u64(rng)};
    ret_quiet->counts = memory->counts;
}

static void digest(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                   struct kvr_msg_digest *ret_digest)
{
    ret_digest->chunk_first = u32(rng);
    ret_digest->chunk_count = u32(rng);
    ret_digest->value_count = up_to(rng, KVR_DIGESTS_PER_MESSAGE, percent);
    for (uint32_t i = 0; i < ret_digest->value_count; i++)
        memory->digests[i] = kvr_rng_next(rng);
    ret_digest->values = memory->digests;
}

static void tail(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                 struct kvr_msg_tail *ret_tail)
{
    ret_tail->byte_count = up_to(rng, KVR_TAIL_BYTES_MAX, percent);
    for (uint32_t i = 0; i < ret_tail->byte_count; i++)
        memory->tail[i] = (uint8_t)kvr_rng_next(rng);
    ret_tail->bytes = memory->tail;
}

static void body(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                 struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_HELLO:
    case KVR_MSG_WELCOME:
        return hello(rng, percent, memory, &message->hello);
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        message->seen = (struct kvr_msg_seen){u64(rng), u64(rng)};
        return;
    case KVR_MSG_REGIONS:
        return regions(rng, percent, memory, &message->regions);
    case KVR_MSG_WANT:
        return want(rng, percent, memory, &message->want);
    case KVR_MSG_PAGES:
        message->pages =
            (struct kvr_msg_pages){u32(rng), u32(rng), memory->page_runs,
                                   page_runs(rng, percent, memory), kvr_rng_percent(rng, 50)};
        return;
    case KVR_MSG_PLAN:
        return plan(rng, percent, memory, &message->plan);
    case KVR_MSG_GRANT:
        return grant(rng, percent, memory, &message->grant);
    case KVR_MSG_FINAL:
        message->final = (struct kvr_msg_final){u32(rng), u32(rng), u64(rng), u32(rng),
                                                kvr_rng_percent(rng, 50)};
        return;
    case KVR_MSG_TAIL:
        return tail(rng, percent, memory, &message->tail);
    case KVR_MSG_QUIET:
        return quiet(rng, percent, memory, &message->quiet);
    case KVR_MSG_ROOM:
        message->room = (struct kvr_msg_room){u32(rng), u64(rng)};
        return;
    case KVR_MSG_MISSING:
        message->missing = (struct kvr_msg_missing){u32(rng), memory->chunk_runs,
                                                    chunk_runs(rng, percent, memory)};
        return;
    case KVR_MSG_RAIL_LOST:
        message->rail_lost = (struct kvr_msg_rail_lost){u32(rng), u32(rng), memory->chunk_runs,
                                                        chunk_runs(rng, percent, memory)};
        return;
    case KVR_MSG_EPOCH_ENDED:
        message->epoch_ended.rail = u32(rng);
        message->epoch_ended.epoch = u32(rng);
        return rail(rng, &message->epoch_ended.successor);
    case KVR_MSG_DIGEST:
        return digest(rng, percent, memory, &message->digest);
    case KVR_MSG_PROBE:
    case KVR_MSG_ALIVE:
        message->probe.token = kvr_rng_next(rng);
        return;
    case KVR_MSG_REFUSED:
        message->refused.status = status(rng);
        return text(rng, message->refused.detail, KVR_DETAIL_BYTES);
    default:
        message->reason.status = status(rng);
        return text(rng, message->reason.detail, KVR_DETAIL_BYTES);
    }
}

void messages_random(struct kvr_rng *rng, kvr_message_kind kind, uint32_t percent,
                     struct messages_memory *memory, struct kvr_message *ret_message)
{
    memset(ret_message, 0, sizeof(*ret_message));
    ret_message->kind = kind;
    ret_message->transfer = kvr_rng_percent(rng, 20) ? 0 : kvr_rng_next(rng);
    ret_message->sequence = u64(rng);
    body(rng, percent, memory, ret_message);
}

/* ---- comparing ---- */

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
           same_bytes(a->address, b->address, a->bytes) && SAME(scratch_bytes) &&
           SAME(scratch.key) && SAME(scratch.base);
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
          SAME(digest) && SAME(loans_pid) && SAME(loans_fd) &&
          same_limits(&a->limits, &b->limits) && SAME(rail_count) && SAME(compat_count) &&
          same_rails(a->rails, b->rails, a->rail_count)))
        return false;
    for (uint32_t i = 0; i < a->compat_count; i++)
        if (!same_compat(&a->compats[i], &b->compats[i]))
            return false;
    return true;
}

static bool same_regions(const struct kvr_msg_regions *a, const struct kvr_msg_regions *b)
{
    if (!(same_rank(&a->rank, &b->rank) && same_compat(&a->compat, &b->compat) &&
          SAME(layout_count) && SAME(rail_count) &&
          same_bytes(a->keys, b->keys, (size_t)a->layout_count * a->rail_count * sizeof(*a->keys))))
        return false;
    for (uint32_t i = 0; i < a->layout_count; i++)
        if (!same_layout(&a->layouts[i], &b->layouts[i]))
            return false;
    return true;
}

static bool same_want(const struct kvr_msg_want *a, const struct kvr_msg_want *b)
{
    return SAME_TEXT(request) && SAME(attempt) &&
           kvr_uuid_equal(&a->source_engine, &b->source_engine) && SAME(source_generation) &&
           SAME(source_tp) && SAME(source_pp) && same_rank(&a->target, &b->target) &&
           SAME(tokens) && SAME(skip_tokens) && SAME(deadline_ms) && SAME(priority) &&
           SAME(group_count) && SAME(group) && SAME(run_count) && SAME(more) && SAME(digest) &&
           SAME(group_skip_count) && SAME(sibling_count) && SAME(staged) && SAME(moves) &&
           SAME(stage_bytes) &&
           same_bytes(a->group_skips, b->group_skips, a->group_skip_count * 8) &&
           same_bytes(a->siblings, b->siblings, a->sibling_count * 4) &&
           same_bytes(a->runs, b->runs, a->run_count * sizeof(*a->runs));
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
           SAME(run_count) && SAME(more) && SAME(loan) && SAME(none) &&
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
    case KVR_MSG_REFUSED:
        return SAME(refused.status) && SAME_TEXT(refused.detail);
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        return SAME(seen.session) && SAME(seen.seen);
    case KVR_MSG_REGIONS:
        return same_regions(&a->regions, &b->regions);
    case KVR_MSG_WANT:
        return same_want(&a->want, &b->want);
    case KVR_MSG_PAGES:
        return same_pages(&a->pages, &b->pages);
    case KVR_MSG_PLAN:
        return same_plan(&a->plan, &b->plan);
    case KVR_MSG_GRANT:
        return SAME(grant.slot_count) && SAME(grant.rail_count) && SAME(grant.share_offset) &&
               SAME(grant.share_bytes) && SAME(grant.share_key_count) &&
               same_bytes(a->grant.share_keys, b->grant.share_keys,
                          a->grant.share_key_count * sizeof(*a->grant.share_keys)) &&
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
