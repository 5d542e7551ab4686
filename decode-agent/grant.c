/* WANT and its page table, and the GRANT that lets the source write. */
#include <stdlib.h>

#include "decode-agent/inbound.h"

/* ---- WANT ------------------------------------------------------------------------------------ */

#define RUNS_AT_ONCE 4096

/* What a group's page table has and was not told, in as many messages as it needs. KVR_AGAIN: the
 * rest waits for room in the queue. */
static kvr_status group_pages_send(struct inbound *inbound, struct transfer *transfer,
                                   uint32_t group, struct kvr_page_run *runs)
{
    const struct kvr_page_table *table = &fetch_of(inbound, transfer)->pages.groups[group];
    uint32_t *told = &transfer->pages_told[group], pages;
    kvr_status status = KVR_OK;

    while (status == KVR_OK && *told < table->count) {
        struct kvr_message message = {.kind = KVR_MSG_PAGES, .transfer = transfer->nonce};

        message.pages = (struct kvr_msg_pages){.group = group, .page_first = *told, .runs = runs};
        message.pages.run_count =
            kvr_page_table_runs(table, *told, table->count - *told, runs, RUNS_AT_ONCE, &pages);
        message.pages.more = *told + pages < table->capacity;
        status = inbound->ports->send(inbound->ports->self, transfer->peer, &message);
        *told += status == KVR_OK ? pages : 0;
    }
    return status;
}

/* Of all groups; whoever cannot be told all is told the rest by inbound_peer_writable. */
void pages_send(struct inbound *inbound, struct transfer *transfer)
{
    struct kvr_page_run *runs = kvr_buddy_alloc(inbound->memory, RUNS_AT_ONCE * sizeof(*runs));
    kvr_status status = runs != NULL ? KVR_OK : KVR_NO_MEMORY;

    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++)
        status = group_pages_send(inbound, transfer, group, runs);
    kvr_buddy_free(inbound->memory, runs);
    if (status != KVR_OK && status != KVR_AGAIN && status != KVR_PEER_LOST)
        inbound->ports->hang_up(inbound->ports->self, transfer->peer, status,
                                "a page table cannot be told");
}

/* The strongest of what its engine, this agent and the source's ask. */
static kvr_digest_mode digest_wanted(const struct inbound *inbound, const struct fetch *fetch,
                                     uint32_t peer)
{
    kvr_digest_mode agents = inbound->options.digest > inbound->peers[peer].digest
                                 ? inbound->options.digest
                                 : inbound->peers[peer].digest;

    return fetch->digest > agents ? fetch->digest : agents;
}

static int by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* The ranks of that source engine that are asked, in order. */
static uint32_t siblings_of(const struct inbound *inbound, const struct fetch *fetch,
                            const struct kvr_source_address *source,
                            uint32_t ret_ranks[KVR_SOURCES_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        const struct transfer *other = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (other != NULL && kvr_uuid_equal(&other->source.engine, &source->engine) &&
            other->source.generation == source->generation)
            ret_ranks[count++] = other->source.pp << 16 | (other->source.tp & 0xffff);
    }
    qsort(ret_ranks, count, sizeof(*ret_ranks), by_number);
    return count;
}

/* From now, at least 1: 0 would be none. */
static uint32_t deadline_ms(const struct fetch *fetch, kvr_ns now)
{
    uint64_t left = fetch->deadline > now ? (fetch->deadline - now) / KVR_MS + 1 : 1;

    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

void want_send(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = transfer->nonce};
    uint32_t siblings[KVR_SOURCES_MAX] = {0};
    struct kvr_msg_want *want = &message.want;
    struct kvr_error error;
    kvr_status status;

    transfer->digest = digest_wanted(inbound, fetch, transfer->peer);
    if (kvr_region_set_hashed(fetch->set, transfer->digest, &error) != KVR_OK) {
        transfer_fail(inbound, now, transfer, error.status, error.detail);
        return;
    }
    status = kvr_engines_tell(&inbound->engines, fetch->engine, fetch->set, transfer->peer);
    if (status == KVR_OK) {
        memcpy(want->request, fetch->request, sizeof(want->request));
        want->attempt = fetch->attempt;
        want->source_engine = transfer->source.engine;
        want->source_generation = transfer->source.generation;
        want->source_tp = transfer->source.tp;
        want->source_pp = transfer->source.pp;
        want->target = inbound->engines.local[fetch->engine].rank;
        want->tokens = fetch->tokens;
        want->skip_tokens = fetch->skip_tokens;
        want->deadline_ms = deadline_ms(fetch, now);
        want->priority = fetch->priority;
        want->digest = transfer->digest;
        want->group_skips = fetch->skips;
        want->group_skip_count = KVR_GROUPS_MAX;
        want->siblings = siblings;
        want->sibling_count = siblings_of(inbound, fetch, &transfer->source, siblings);
        want->staged = transfer->scatters;
        want->moves = transfer->may_move =
            transfer->scatters && transfer_may_move(inbound, transfer);
        want->stage_bytes = transfer->stage_bytes = transfer_stage_bytes(inbound, now, transfer);
        want->group_count = 1;
        want->more = true; /* the tables follow in PAGES */
        status = inbound->ports->send(inbound->ports->self, transfer->peer, &message);
    }
    if (status == KVR_AGAIN)
        return; /* parked: told when there is room */
    if (status != KVR_OK) {
        transfer_fail(inbound, now, transfer, status, "WANT could not be sent to the source agent");
        return;
    }
    transfer->state = T_WANTED;
    fetch->wanted = true;
    memcpy(transfer->token_next, fetch->skips, sizeof(transfer->token_next));
    pages_send(inbound, transfer);
}

/* ---- GRANT ----------------------------------------------------------------------------------- */

/* Names the rails of a group, those too that have no endpoint just now: its cards, or those over
 * which we copy ourselves where there are both. */
void rails_grant(struct inbound *inbound, struct transfer *transfer)
{
    const uint32_t *first = &inbound->options.groups.first[transfer->granted];
    struct kvr_rail_address rails[KVR_RAILS_MAX], granted[KVR_RAILS_MAX];
    uint32_t count = inbound->ports->rails(inbound->ports->self, rails);
    struct kvr_message message = {.kind = KVR_MSG_GRANT};

    for (uint32_t rail = first[0]; rail < first[1]; rail++) {
        struct kvr_rail_address *address = &granted[message.grant.rail_count];

        if ((inbound->options.groups.same_host >> rail & 1) != transfer->local)
            continue;
        message.grant.rail_count++;
        *address = (struct kvr_rail_address){.rail = rail, .epoch = inbound->rails[rail].epoch};
        for (uint32_t i = 0; i < count; i++)
            if (rails[i].rail == rail)
                *address = rails[i];
        transfer_epoch_add(transfer, rail, address->epoch);
    }
    message.grant.rails = granted;
    message.grant.slots = transfer->slots;
    message.grant.slot_count = transfer->slot_count;
    message.grant.share_offset = transfer->share_offset;
    message.grant.share_bytes = transfer->share_bytes;
    if (transfer->share_bytes > 0) {
        const struct kvr_region *pinned = transfer_stage(inbound, transfer)->pinned;

        message.grant.share_keys = pinned->keys;
        message.grant.share_key_count = pinned->rail_count;
    }
    inbound_send_needed(inbound, transfer, &message);
}

/* Zeroed, with a second bitmap where what arrives must be copied on. NULL: no memory. */
static struct landing *landing_new(struct inbound *inbound, struct transfer *transfer)
{
    size_t bitmap_bytes = (size_t)transfer->slot_count * KVR_SLOT_CHUNKS / 8;
    struct landing *landing = kvr_buddy_alloc(inbound->memory, sizeof(*landing));

    if (landing == NULL)
        return NULL;
    memset(landing, 0, sizeof(*landing));
    if (transfer->share_bytes == 0)
        return landing;
    transfer->taken = kvr_buddy_alloc(inbound->memory, bitmap_bytes);
    if (transfer->taken == NULL) {
        kvr_buddy_free(inbound->memory, landing);
        return NULL;
    }
    memset(transfer->taken, 0, bitmap_bytes);
    return landing;
}

/* Rule 11. Where we could do without copying from the source's memory, we do as it lends it, and
 * both sides can. False: we cannot do without, and it lends nothing. */
static bool loan_take(struct inbound *inbound, struct transfer *transfer,
                      const _Atomic uint64_t **ret_loan)
{
    const struct kvr_ports *ports = inbound->ports;
    const struct kvr_rail_groups *groups = &inbound->options.groups;
    const struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    bool mixed = groups->same_host != 0;

    if (ports->loan_take == NULL)
        return true;
    if (!mixed ||
        (transfer->loan != 0 && inbound->peers[transfer->peer].same_host &&
         kvr_region_set_lies_on(set, kvr_rail_groups_same_host(groups, set->locals[0]->home))))
        *ret_loan = ports->loan_take(ports->self, transfer->peer, transfer->loan);
    transfer->local = mixed && *ret_loan != NULL;
    return (mixed && !transfer->moves) || *ret_loan != NULL;
}

/* What was planned before it was known where it lies. */
static bool positions_set(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    struct kvr_error error;

    for (struct landing_segment *at = transfer->segments; at != NULL; at = at->loop_next) {
        if (segment_positions(inbound, transfer, at, &error) == KVR_OK)
            continue;
        transfer_fail(inbound, now, transfer, error.status, error.detail);
        return false;
    }
    return true;
}

/* It has slots, and something was planned: the source may write. */
void transfer_grant(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    const _Atomic uint64_t *loan = NULL;
    struct landing *landing;

    if (!share_take(inbound, now, transfer) || !positions_set(inbound, now, transfer))
        return;
    landing = landing_new(inbound, transfer);
    if (landing != NULL && !loan_take(inbound, transfer, &loan)) {
        kvr_buddy_free(inbound->memory, landing);
        transfer_fail(inbound, now, transfer, KVR_UNSUPPORTED,
                      "the source agent does not show which pages it lends: over shared memory "
                      "both agents need one user, one pid namespace and this version");
        return;
    }
    if (landing == NULL) {
        transfer_fail(inbound, now, transfer, KVR_NO_MEMORY,
                      "the agent's memory for tables is used up");
        return;
    }
    if (transfer->slot_count > 0) /* of segments without a write there is none */
        memset(transfer->bits, 0, (size_t)transfer->slot_count * KVR_SLOT_CHUNKS / 8);
    landing->index = kvr_pool_index(transfer->id);
    landing->peer = transfer->peer;
    landing->transfer = transfer->nonce;
    landing->set = fetch_of(inbound, transfer)->set;
    landing->digest = transfer->digest;
    landing->loan = loan;
    landing->slot_count = transfer->slot_count;
    memcpy(landing->slots, transfer->slots, sizeof(landing->slots));
    landing->bits = transfer->bits;
    landing->taken = transfer->taken;
    landing->stage = transfer->taken != NULL ? transfer_stage(inbound, transfer) : NULL;
    landing->share_offset = transfer->share_offset;
    landing->share_bytes = transfer->share_bytes;
    landing->room_step = share_step(transfer);
    transfer->landing = landing;
    transfer->group = transfer->granted = landing->set->locals[0]->home;
    transfer->state = T_LIVE;
    inbound_group_command(inbound, transfer, LAND_OPEN, 0, landing);
    for (struct landing_segment *at = transfer->segments; at != NULL; at = at->loop_next)
        inbound_group_command(inbound, transfer, LAND_SEGMENT, 0, at);
    if (transfer->final_seen)
        inbound_group_command(inbound, transfer, LAND_FINAL, transfer->chunk_count, NULL);

    rails_grant(inbound, transfer);
    transfer_event(inbound, now, transfer, KVR_EVENT_GRANTED);
}
