#include "decode-agent/grant_keys.h"

#include <assert.h>

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"
#include "kv/layout.h"

/* From the lowest to the highest page that is fetched. While the engine has not named them all, any
 * may follow: then the whole region. Regions that lie in the memory of another share its
 * kvr_region, so the layout is the set's. */
static void span_set(const struct fetch *fetch, uint32_t index, struct landing_span *span)
{
    const struct kvr_region *region = fetch->set->locals[index];
    const struct kvr_region_layout *layout =
        KVR_MUTANT(lodger_keys_of_lender) ? &region->layout : &fetch->set->layouts[index];
    const struct kvr_page_table *pages = &fetch->pages.groups[layout->group];
    uint32_t lowest = UINT32_MAX, highest = 0;
    uint64_t first = 0, end = layout->bytes;

    if (pages->page_tokens == 0 || fetch->skips[layout->group] >= fetch->tokens)
        end = 0;
    if (end > 0 && pages->count == pages->capacity) {
        for (uint64_t i = fetch->skips[layout->group] / pages->page_tokens; i < pages->count; i++) {
            lowest = pages->ids[i] < lowest ? pages->ids[i] : lowest;
            highest = pages->ids[i] > highest ? pages->ids[i] : highest;
        }
        if (lowest <= highest)
            kvr_layout_span(layout, lowest, highest, &first, &end);
    }
    *span = (struct landing_span){.base = region->base + first, .bytes = end - first};
    span->key.base = -first; /* addresses count from the region's first byte */
}

static void quota_span_set(const struct transfer *transfer, const struct kvr_region *pinned,
                           struct landing_span *span)
{
    *span = (struct landing_span){.base = pinned->base + transfer->quota.offset,
                                  .bytes = transfer->quota.bytes};
    span->key.base = -transfer->quota.offset;
}

/* The memory that writes land in. */
static const struct kvr_region *written(struct inbound *inbound, const struct transfer *transfer)
{
    return transfer->quota.bytes > 0 ? landing_path_stage(inbound, transfer)->pinned
                                     : fetch_of(inbound, transfer)->set->locals[0];
}

/* Keys in a row from a random one: the low bits count spans, the others cannot be guessed. */
static struct landing_spans *spans_new(struct inbound *inbound, const struct transfer *transfer)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint32_t count = transfer->quota.bytes > 0 ? 1 : fetch->set->count;
    struct landing_spans *spans =
        kvr_buddy_alloc(inbound->memory, sizeof(*spans) + count * sizeof(spans->list[0]));
    uint64_t key = inbound->ports->random(inbound->ports->self);

    if (spans == NULL)
        return NULL;
    key = (1 + key % (UINT64_MAX / KVR_REGIONS_MAX)) * KVR_REGIONS_MAX; /* never 0 */
    spans->count = count;
    for (uint32_t i = 0; i < count; i++) {
        if (transfer->quota.bytes > 0)
            quota_span_set(transfer, written(inbound, transfer), &spans->list[i]);
        else
            span_set(fetch, i, &spans->list[i]);
        spans->list[i].key.key = spans->list[i].bytes > 0 ? key + i : 0;
    }
    return spans;
}

/* Bits of the rails that the next GRANT names, where it brings keys. */
static uint64_t rails_of(struct inbound *inbound, const struct transfer *transfer)
{
    const uint32_t *first = &inbound->options.groups.first[transfer->grant.granted_group];
    const struct kvr_region *region = written(inbound, transfer);
    uint64_t rails = 0;

    for (uint32_t rail = first[0]; rail < first[1]; rail++)
        if ((inbound->options.groups.same_host >> rail & 1) == transfer->grant.same_host &&
            kvr_region_is_granted(region, rail))
            rails |= UINT64_C(1) << rail;
    return rails;
}

static void command(struct inbound *inbound, const struct transfer *transfer, enum land_kind kind,
                    struct landing_keys *keys)
{
    union land_message message = LAND_MESSAGE(kind, .keys = keys);

    message.head.group = keys->group;
    message.landing = kvr_pool_index(transfer->id);
    message.transfer = transfer->nonce;
    inbound->ports->command(inbound->ports->self, &message.any);
}

static struct landing_keys *keys_new(struct inbound *inbound, const struct transfer *transfer,
                                     uint64_t rails)
{
    struct landing_keys *keys;
    uint32_t count = 0;
    size_t bytes;

    for (uint64_t rest = rails; rest != 0; rest &= rest - 1)
        count += transfer->keys.spans->count;
    bytes = sizeof(*keys) + count * sizeof(keys->memory[0]);
    keys = kvr_buddy_alloc(inbound->memory, bytes);
    if (keys == NULL)
        return NULL;
    memset(keys, 0, bytes);
    keys->spans = transfer->keys.spans;
    keys->memory_count = count;
    keys->group = transfer->grant.granted_group;
    keys->rails = rails;
    return keys;
}

/* A rail thread that sleeps need not wake for it, and GRANT need not wait for both threads. */
static bool open_at_once(const struct inbound *inbound, struct landing_keys *keys)
{
    const struct kvr_ports *ports = inbound->ports;

    keys->open = ports->memory_open != NULL &&
                 landing_keys_open(keys, ports->memory_open, ports->self, true) == KVR_OK;
    return keys->open;
}

bool grant_keys_open(struct inbound *inbound, struct transfer *transfer)
{
    struct grant_keys *mine = &transfer->keys;
    uint64_t rails = rails_of(inbound, transfer);
    uint32_t group = transfer->grant.granted_group;

    if (rails == 0)
        return true;
    if (mine->of[group] != NULL)
        return (mine->opened >> group & 1) != 0;
    if (mine->spans == NULL)
        mine->spans = spans_new(inbound, transfer);
    if (mine->spans != NULL)
        mine->of[group] = keys_new(inbound, transfer, rails);
    if (mine->of[group] == NULL) {
        transfer_fail(inbound, transfer, KVR_NO_MEMORY, "the agent's memory for tables is used up");
        return false;
    }
    if (open_at_once(inbound, mine->of[group]))
        mine->opened |= UINT32_C(1) << group;
    command(inbound, transfer, LAND_KEYS_OPEN, mine->of[group]);
    return (mine->opened >> group & 1) != 0 || KVR_MUTANT(grant_before_keys);
}

void grant_keys_tell(const struct transfer *transfer, struct kvr_msg_grant *grant,
                     struct kvr_remote_key *keys)
{
    const struct landing_keys *of = transfer->keys.of[transfer->grant.granted_group];

    if (of == NULL)
        return;
    for (uint32_t i = 0; i < of->spans->count; i++)
        keys[i] = of->spans->list[i].key;
    grant->keys = keys;
    grant->key_count = of->spans->count;
}

void grant_keys_opened(struct inbound *inbound, struct transfer *transfer,
                       const struct landing_keys *keys)
{
    transfer->keys.opened |= UINT32_C(1) << keys->group;
    if (transfer->state != T_LIVE)
        return;
    if (keys->error.status != KVR_OK) {
        transfer_fail(inbound, transfer, keys->error.status, keys->error.detail);
    } else if (!transfer->grant.sent) {
        grant_first(inbound, transfer);
    } else if (transfer->regrant.state == REGRANT_OPENING) {
        regrant_opened(inbound, transfer);
    }
}

bool grant_keys_close(struct inbound *inbound, struct transfer *transfer)
{
    bool closed = true;

    for (uint32_t group = 0; group < inbound->options.groups.count; group++) {
        if (transfer->keys.of[group] == NULL)
            continue;
        closed = false;
        command(inbound, transfer, LAND_KEYS_CLOSE, transfer->keys.of[group]);
    }
    return closed;
}

void grant_keys_closed(struct inbound *inbound, struct transfer *transfer,
                       struct landing_keys *keys)
{
    bool open = false;

    assert(transfer->keys.of[keys->group] == keys);
    transfer->keys.of[keys->group] = NULL;
    transfer->keys.opened &= ~(UINT32_C(1) << keys->group);
    kvr_buddy_free(inbound->memory, keys);
    for (uint32_t group = 0; group < inbound->options.groups.count; group++)
        open = open || transfer->keys.of[group] != NULL;
    if (transfer->state == T_SEALING && !open)
        transfer_sealed(inbound, transfer);
}
