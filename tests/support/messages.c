#include "tests/support/messages.h"

#include <stdlib.h>

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
#define X(symbol, value, name, sentence) symbol,
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
    ret_rail->needs_senders = kvr_rng_percent(rng, 50);
    ret_rail->tags = kvr_rng_percent(rng, 50);
    ret_rail->scratch_bytes = u32(rng);
    ret_rail->scratch.key = u64(rng);
    ret_rail->scratch.base = u64(rng);
    text(rng, ret_rail->plane, sizeof(ret_rail->plane));
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
    ret_regions->revocation_words = u64(rng);
}

/* Or none. */
static void tenant(struct kvr_rng *rng, char name[KVR_NAME_BYTES])
{
    uint64_t bytes = kvr_rng_below(rng, KVR_NAME_BYTES);

    for (uint64_t i = 0; i < bytes; i++)
        name[i] = "az09AZ._-"[kvr_rng_below(rng, i > 0 ? 9 : 6)];
}

static void want(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                 struct kvr_msg_want *ret_want)
{
    text(rng, ret_want->request, sizeof(ret_want->request));
    tenant(rng, ret_want->tenant);
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
    ret_want->digest = (kvr_digest_mode)kvr_rng_below(rng, KVR_DIGEST_FULL + 1);
    ret_want->group_skip_count = up_to(rng, KVR_GROUPS_MAX, percent);
    ret_want->sibling_count = up_to(rng, KVR_SOURCES_MAX, percent);
    ret_want->staged = kvr_rng_percent(rng, 50);
    ret_want->direct_copy = kvr_rng_percent(rng, 50);
    ret_want->stage_bytes = u64(rng);
    ret_want->skips_follow = kvr_rng_percent(rng, 50);
    for (size_t i = 0; i < sizeof(ret_want->proof.bytes) && kvr_rng_percent(rng, 99); i++)
        ret_want->proof.bytes[i] = (uint8_t)kvr_rng_next(rng);
    ret_want->group_skips = memory->group_skips;
    ret_want->siblings = memory->siblings;
    for (uint32_t i = 0; i < ret_want->group_skip_count; i++)
        memory->group_skips[i] = u64(rng);
    for (uint32_t i = 0; i < ret_want->sibling_count; i++)
        memory->siblings[i] = u32(rng);
}

static void skip(struct kvr_rng *rng, uint32_t percent, struct messages_memory *memory,
                 struct kvr_msg_skip *ret_skip)
{
    ret_skip->skip_tokens = u64(rng);
    ret_skip->group_skip_count = up_to(rng, KVR_GROUPS_MAX, percent);
    ret_skip->group_skips = memory->group_skips;
    for (uint32_t i = 0; i < ret_skip->group_skip_count; i++)
        memory->group_skips[i] = u64(rng);
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
    ret_plan->revocation_word = u32(rng);
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
    ret_grant->tag = u32(rng);
    ret_grant->quota_offset = kvr_rng_next(rng);
    ret_grant->quota_bytes = kvr_rng_next(rng);
    ret_grant->quota_keys = memory->keys;
    ret_grant->keys = memory->keys;
    ret_grant->key_count = ret_grant->quota_key_count = up_to(rng, KVR_RAILS_MAX, percent);
    for (uint32_t i = 0; i < ret_grant->quota_key_count; i++)
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
    case KVR_MSG_SKIP:
        return skip(rng, percent, memory, &message->skip);
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
    case KVR_MSG_SENDER:
        return rail(rng, &message->sender.endpoint);
    case KVR_MSG_SENDER_KNOWN:
        message->sender_known = (struct kvr_msg_sender_known){u32(rng), u32(rng)};
        return;
    case KVR_MSG_DIGEST:
        return digest(rng, percent, memory, &message->digest);
    case KVR_MSG_PROBE:
    case KVR_MSG_ALIVE:
        message->probe.token = kvr_rng_next(rng);
        return;
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
