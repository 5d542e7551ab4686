/* GRANT: opens the landing, and names slots, rails and keys, so that the source may write. */
#include "decode-agent/grant.h"

#include <stdatomic.h>

#include "decode-agent/fetch.h"
#include "decode-agent/sending.h"

/* Names all rails of a group, with or without an endpoint now. Where the group has both, either its
 * cards or the rails over which this agent copies. */
void grant_send(struct inbound *inbound, struct transfer *transfer)
{
    const uint32_t *first = &inbound->options.groups.first[transfer->grant.granted_group];
    struct kvr_rail_address rails[KVR_RAILS_MAX], granted[KVR_RAILS_MAX];
    uint32_t count = inbound->ports->rails(inbound->ports->self, rails);
    struct kvr_remote_key keys[KVR_REGIONS_MAX];
    struct kvr_message message = {.kind = KVR_MSG_GRANT};

    for (uint32_t rail = first[0]; rail < first[1]; rail++) {
        struct kvr_rail_address *address = &granted[message.grant.rail_count];

        if ((inbound->options.groups.same_host >> rail & 1) != transfer->grant.same_host)
            continue;
        message.grant.rail_count++;
        *address = (struct kvr_rail_address){.rail = rail, .epoch = inbound->rails[rail].epoch};
        for (uint32_t i = 0; i < count; i++)
            if (rails[i].rail == rail)
                *address = rails[i];
        transfer_epoch_add(transfer, rail, address->epoch);
    }
    message.grant.rails = granted;
    message.grant.slots = transfer->slots.numbers;
    message.grant.slot_count = transfer->slots.count;
    message.grant.tag = transfer->grant.tag;
    message.grant.quota_offset = transfer->quota.offset;
    message.grant.quota_bytes = transfer->quota.bytes;
    if (transfer->quota.bytes > 0) {
        const struct kvr_region *pinned = landing_path_stage(inbound, transfer)->pinned;

        message.grant.quota_keys = pinned->keys;
        message.grant.quota_key_count = pinned->rail_count;
    }
    grant_keys_tell(transfer, &message.grant, keys);
    transfer->grant.sent = true;
    inbound_send_needed(inbound, transfer, &message);
}

/* Never 0, which is what a write without a tag carries. */
static uint32_t tag_draw(const struct inbound *inbound)
{
    return (uint32_t)(1 + inbound->ports->random(inbound->ports->self) % UINT32_MAX);
}

/* Zeroed. A staged landing gets a second bitmap. NULL: no memory. */
static struct landing *landing_new(struct inbound *inbound, struct transfer *transfer)
{
    size_t bitmap_bytes = (size_t)transfer->slots.count * KVR_SLOT_CHUNKS / 8;
    struct landing *landing = kvr_buddy_alloc(inbound->memory, sizeof(*landing));

    if (landing == NULL)
        return NULL;
    memset(landing, 0, sizeof(*landing));
    if (transfer->quota.bytes == 0)
        return landing;
    transfer->grant.taken = kvr_buddy_alloc(inbound->memory, bitmap_bytes);
    if (transfer->grant.taken == NULL) {
        kvr_buddy_free(inbound->memory, landing);
        return NULL;
    }
    memset(transfer->grant.taken, 0, bitmap_bytes);
    return landing;
}

/* Rule 11. Takes the revocation word where this agent copies from the source's memory. Where cards
 * could do it too, this agent copies only if the source lends. False: only copying is possible, and
 * the source lends nothing. */
static bool revocation_word_take(struct inbound *inbound, struct transfer *transfer,
                                 const _Atomic uint64_t **ret_word)
{
    const struct kvr_ports *ports = inbound->ports;
    const struct kvr_rail_groups *groups = &inbound->options.groups;
    const struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    bool mixed = groups->same_host != 0;

    if (ports->revocation_word_take == NULL)
        return true;
    if (!mixed ||
        (transfer->path.revocation_word != 0 && inbound->peers[transfer->link.peer].same_host &&
         kvr_region_set_lies_on(set, kvr_rail_groups_same_host(groups, set->locals[0]->home))))
        *ret_word = ports->revocation_word_take(ports->self, transfer->link.peer,
                                                transfer->path.revocation_words,
                                                transfer->path.revocation_word);
    transfer->grant.same_host = mixed && *ret_word != NULL;
    return (mixed && transfer->path.state != PATH_DIRECT_COPY) || *ret_word != NULL;
}

/* Sets the positions of segments that were planned before the quota was taken. */
static bool positions_set(struct inbound *inbound, struct transfer *transfer)
{
    struct kvr_error error;

    for (struct landing_segment *at = transfer->intake.segments; at != NULL; at = at->loop_next) {
        if (staging_quota_positions(inbound, transfer, at, &error) == KVR_OK)
            continue;
        transfer_fail(inbound, transfer, error.status, error.detail);
        return false;
    }
    return true;
}

/* Without memory the transfer goes on, and is not reported. */
static void spans_open(struct inbound *inbound, struct transfer *transfer, struct landing *landing)
{
    uint32_t layer_first, layer_count;
    struct kvr_span_book *book;

    if (inbound->options.spans.every == 0)
        return;
    kvr_region_set_layers(landing->set, &layer_first, &layer_count);
    book = kvr_buddy_alloc(inbound->memory, kvr_span_book_bytes(layer_count));
    if (book == NULL)
        return;
    kvr_span_book_open(book, inbound->now, layer_first, layer_count);
    landing->arrived.spans = book->rails;
    transfer->grant.spans = book;
}

void transfer_grant(struct inbound *inbound, struct transfer *transfer)
{
    const _Atomic uint64_t *word = NULL;
    struct landing *landing;

    if (!staging_quota_take(inbound, transfer) || !positions_set(inbound, transfer))
        return;
    landing = landing_new(inbound, transfer);
    if (landing != NULL && !revocation_word_take(inbound, transfer, &word)) {
        kvr_buddy_free(inbound->memory, landing);
        transfer_fail(inbound, transfer, KVR_UNSUPPORTED,
                      "the source agent does not show which pages it lends: over shared memory "
                      "both agents need one user, one network namespace and this version");
        return;
    }
    if (landing == NULL) {
        transfer_fail(inbound, transfer, KVR_NO_MEMORY, "the agent's memory for tables is used up");
        return;
    }
    if (transfer->slots.count > 0) /* none, where no segment has a write */
        memset(transfer->slots.bits, 0, (size_t)transfer->slots.count * KVR_SLOT_CHUNKS / 8);
    landing->index = kvr_pool_index(transfer->id);
    landing->peer = transfer->link.peer;
    landing->transfer = transfer->nonce;
    landing->set = fetch_of(inbound, transfer)->set;
    landing->digest = transfer->verification.mode;
    landing->revocation_word = word;
    /* One tag for every GRANT of the transfer: writes of an earlier one count too (rule 4), and
     * only the same source knows it. */
    landing->tag = transfer->grant.tag = tag_draw(inbound);
    landing->slot_count = transfer->slots.count;
    memcpy(landing->slots, transfer->slots.numbers, sizeof(landing->slots));
    landing->bits = transfer->slots.bits;
    landing->staging.taken = transfer->grant.taken;
    landing->staging.stage =
        transfer->grant.taken != NULL ? landing_path_stage(inbound, transfer) : NULL;
    if (landing->staging.stage == NULL)
        landing->flushed = kvr_region_set_flushed(landing->set);
    landing->staging.offset = transfer->quota.offset;
    landing->staging.bytes = transfer->quota.bytes;
    landing->staging.room_step = staging_quota_step(transfer);
    spans_open(inbound, transfer, landing);
    transfer->grant.landing = landing;
    transfer->grant.rail_group = transfer->grant.granted_group = landing->set->locals[0]->home;
    transfer_on(&transfer->state, T_ON_GRANTED);
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_OPEN, .opened = landing));
    for (struct landing_segment *at = transfer->intake.segments; at != NULL; at = at->loop_next)
        inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_SEGMENT, .segment = at));
    if (transfer->intake.state == INTAKE_FINAL)
        inbound_group_command(inbound, transfer,
                              LAND_MESSAGE(LAND_FINAL, .chunks = transfer->intake.chunk_count));
    if (grant_keys_open(inbound, transfer))
        grant_first(inbound, transfer);
}

void grant_first(struct inbound *inbound, struct transfer *transfer)
{
    grant_send(inbound, transfer);
    transfer_report(inbound, transfer, KVR_EVENT_GRANTED);
}
