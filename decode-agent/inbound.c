#include "decode-agent/inbound.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

kvr_status inbound_init(struct inbound *inbound, const struct inbound_options *options,
                        const struct kvr_ports *ports, struct kvr_buddy *memory)
{
    void *fetches, *transfers, *by_nonce, *by_handle;

    memset(inbound, 0, sizeof(*inbound));
    inbound->options = *options;
    if (options->groups.count == 0)
        inbound->options.groups =
            (struct kvr_rail_groups){.count = 1, .first = {0, options->rail_count}};
    inbound->ports = ports;
    inbound->memory = memory;
    inbound->nonce_next = options->nonce_seed;
    kvr_engines_init(&inbound->engines, memory, ports, true);
    assert(options->slot_count > 0 && options->slot_count < KVR_SLOTS);
    fetches = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_FETCHES_MAX, sizeof(struct fetch)));
    transfers = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_TRANSFERS_MAX, sizeof(struct transfer)));
    by_nonce = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_TRANSFERS_MAX));
    by_handle = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_FETCHES_MAX));
    inbound->free_slots = kvr_buddy_alloc(memory, options->slot_count * sizeof(uint16_t));
    if (fetches == NULL || transfers == NULL || by_nonce == NULL || by_handle == NULL ||
        inbound->free_slots == NULL)
        return KVR_NO_MEMORY;
    kvr_pool_init(&inbound->fetches, fetches, KVR_FETCHES_MAX, sizeof(struct fetch));
    kvr_pool_init(&inbound->transfers, transfers, KVR_TRANSFERS_MAX, sizeof(struct transfer));
    kvr_table_init(&inbound->by_nonce, by_nonce, KVR_TRANSFERS_MAX);
    kvr_table_init(&inbound->by_handle, by_handle, KVR_FETCHES_MAX);
    for (uint32_t i = 0; i < options->slot_count; i++)
        inbound->free_slots[i] = (uint16_t)(i + 1);
    inbound->free_count = options->slot_count;
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        inbound->rails[i] = (struct inbound_rail){.epoch = 1, .retry_at = KVR_NEVER};
    return KVR_OK;
}

void inbound_drain(struct inbound *inbound)
{
    inbound->draining = true;
}

/* ---- what leaves ----------------------------------------------------------------------------- */

void inbound_tell_peer(struct inbound *inbound, uint32_t peer, const struct kvr_message *message)
{
    kvr_status status = inbound->ports->send(inbound->ports->self, peer, message);

    if (status != KVR_OK && status != KVR_PEER_LOST)
        inbound->ports->hang_up(inbound->ports->self, peer, KVR_FULL,
                                "the queue to the source agent is full");
}

void inbound_send_needed(struct inbound *inbound, const struct transfer *transfer,
                         struct kvr_message *message)
{
    if (transfer->peer_gone)
        return;
    message->transfer = transfer->nonce;
    inbound_tell_peer(inbound, transfer->peer, message);
}

void inbound_group_command(struct inbound *inbound, const struct transfer *transfer, uint32_t kind,
                           uint64_t a, void *pointer)
{
    struct kvr_group_message message = {.kind = kind,
                                        .index = kvr_pool_index(transfer->id),
                                        .id = transfer->nonce,
                                        .a = a,
                                        .pointer = pointer,
                                        .group = transfer->group};

    inbound->ports->command(inbound->ports->self, &message);
}

/* ---- engines -------------------------------------------------------------------------------- */

void inbound_request(struct inbound *inbound, kvr_ns now, uint32_t engine,
                     const struct kvr_request *request)
{
    struct fetch *fetch = fetch_find(inbound, engine, request->handle);

    switch (request->kind) {
    case KVR_REQ_TARGET_OPEN:
        fetch_open(inbound, now, engine, request->handle, &request->target_open);
        break;
    case KVR_REQ_TARGET_PAGES:
        if (fetch != NULL && !fetch->ended)
            fetch_pages(inbound, now, fetch, &request->pages);
        break;
    case KVR_REQ_SOURCE_WATCH:
        if (fetch != NULL && !fetch->ended)
            fetch_watch(inbound, now, fetch, &request->watch);
        break;
    case KVR_REQ_CANCEL: /* legal in every state: what has ended stays ended */
        if (fetch != NULL)
            fetch_fail(inbound, now, fetch, KVR_CANCELLED, "cancelled by the target engine");
        break;
    default: /* requests of a source: the engine port refuses what an agent does not serve */
        break;
    }
}

void inbound_engine_down(struct inbound *inbound, kvr_ns now, uint32_t engine)
{
    for (uint32_t i = 0; i < inbound->fetches.reach; i++) {
        struct fetch *fetch = kvr_pool_at(&inbound->fetches, i, NULL);

        if (fetch != NULL && fetch->engine == engine)
            fetch->engine_gone = true;
    }
    /* Only then: what one fetch gives back may let another of the same engine go on. */
    for (uint32_t i = 0; i < inbound->fetches.reach; i++) {
        struct fetch *fetch = kvr_pool_at(&inbound->fetches, i, NULL);

        if (fetch != NULL && fetch->engine == engine)
            fetch_fail(inbound, now, fetch, KVR_ENGINE_LOST, "the target engine ended");
    }
    kvr_ended_forget(&inbound->ended, engine);
    kvr_engines_down(&inbound->engines, engine);
}

void inbound_cancel_all(struct inbound *inbound, kvr_ns now, kvr_status status, const char *detail)
{
    for (uint32_t i = 0; i < inbound->fetches.reach; i++) {
        struct fetch *fetch = kvr_pool_at(&inbound->fetches, i, NULL);

        if (fetch != NULL)
            fetch_fail(inbound, now, fetch, status, detail);
    }
}

/* ---- peers ---------------------------------------------------------------------------------- */

void inbound_peer_up(struct inbound *inbound, kvr_ns now, uint32_t peer,
                     const struct kvr_msg_hello *hello)
{
    struct inbound_peer *state = &inbound->peers[peer];

    state->up = true;
    state->unproven = 0;
    state->limits = hello->limits;
    state->digest = hello->digest;
    memcpy(state->agent, hello->agent, sizeof(state->agent));
    state->same_host = false;
    for (uint32_t i = 0; i < hello->rail_count; i++)
        state->same_host |= hello->rails[i].same_host;
    rails_tell(inbound, peer);
    for (uint32_t i = 0; i < inbound->transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);

        if (transfer == NULL || transfer->peer != peer || transfer->peer_gone ||
            transfer->state != T_WAITING)
            continue;
        transfer->peer_up = true;
        fetch_advance(inbound, now, fetch_of(inbound, transfer));
    }
}

void inbound_peer_lost(struct inbound *inbound, kvr_ns now, uint32_t peer, kvr_status status,
                       const char *detail)
{
    inbound->peers[peer].up = false;
    for (uint32_t i = 0; i < inbound->transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);

        if (transfer == NULL || transfer->peer != peer || transfer->peer_gone)
            continue;
        transfer->peer_gone = true;
        if (transfer->state == T_DRAINING)
            transfer_fence(inbound, now, transfer);
        else
            transfer_fail(inbound, now, transfer, status, detail);
    }
    kvr_engines_peer_lost(&inbound->engines, peer);
}

void inbound_peer_writable(struct inbound *inbound, kvr_ns now, uint32_t peer)
{
    kvr_engines_writable(&inbound->engines, peer);
    for (uint32_t i = 0; i < inbound->transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);

        if (transfer == NULL || transfer->peer != peer || transfer->peer_gone)
            continue;
        if (transfer->state == T_WAITING) {
            fetch_advance(inbound, now, fetch_of(inbound, transfer));
        } else if (transfer->state == T_WANTED || transfer->state == T_LIVE) {
            pages_send(inbound, transfer);
            regrant_tell(inbound, transfer);
        }
    }
}

static void transfer_message(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                             const struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_PLAN:
        plan_received(inbound, now, transfer, &message->plan);
        break;
    case KVR_MSG_FINAL:
        final_received(inbound, now, transfer, &message->final);
        break;
    case KVR_MSG_TAIL:
        tail_received(inbound, now, transfer, &message->tail);
        break;
    case KVR_MSG_QUIET:
        quiet_received(inbound, now, transfer, &message->quiet);
        break;
    case KVR_MSG_DIGEST:
        digest_received(inbound, now, transfer, &message->digest);
        break;
    case KVR_MSG_RAIL_LOST:
        rail_lost_received(inbound, now, transfer, &message->rail_lost);
        break;
    case KVR_MSG_NO_RAIL:
        no_rail_received(inbound, transfer);
        break;
    case KVR_MSG_FAIL: /* without a reason it is still no success */
    case KVR_MSG_CANCEL:
        transfer->source_failed = true;
        transfer_fail(inbound, now, transfer,
                      message->reason.status < 0 ? message->reason.status : KVR_ABORTED,
                      message->reason.detail);
        break;
    case KVR_MSG_UNKNOWN: /* it proves nothing about bytes: fence */
        transfer->source_failed = true;
        transfer_fail(inbound, now, transfer, KVR_UNKNOWN_TRANSFER,
                      "the source agent holds nothing under this transfer");
        if (transfer->state == T_DRAINING)
            transfer_fence(inbound, now, transfer);
        break;
    default:
        inbound->ports->hang_up(inbound->ports->self, transfer->peer, KVR_MALFORMED,
                                "a message that only a target sends");
    }
}

/* The source was away for a while (rule 8): whoever answers has not fenced it. */
static void probe_answer(struct inbound *inbound, uint32_t peer, const struct kvr_msg_probe *probe)
{
    struct kvr_message message = {.kind = KVR_MSG_ALIVE, .probe = *probe};

    inbound_tell_peer(inbound, peer, &message);
}

/* A group thread was away (rule 8): every source is asked whether its session still holds. */
static void woke(struct inbound *inbound)
{
    struct kvr_message message = {.kind = KVR_MSG_PROBE, .probe = {.token = ++inbound->probes}};

    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        if (!inbound->peers[peer].up)
            continue;
        inbound->peers[peer].unproven = inbound->probes;
        inbound_tell_peer(inbound, peer, &message);
    }
}

static void alive(struct inbound *inbound, kvr_ns now, uint32_t peer, uint64_t token)
{
    if (inbound->peers[peer].unproven == 0 || inbound->peers[peer].unproven != token)
        return; /* the answer to an absence before this one */
    inbound->peers[peer].unproven = 0;
    for (uint32_t i = 0; i < inbound->transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);

        if (transfer == NULL || transfer->peer != peer || transfer->peer_gone)
            continue;
        if (transfer->state == T_LIVE)
            layers_release(inbound, transfer);
        transfer_check_done(inbound, now, transfer);
    }
}

void inbound_message(struct inbound *inbound, kvr_ns now, uint32_t peer,
                     const struct kvr_message *message)
{
    struct kvr_error error;
    struct transfer *transfer = NULL;
    uint32_t index;

    if (message->kind == KVR_MSG_REGIONS) {
        if (kvr_engines_learn(&inbound->engines, peer, &message->regions, &error) != KVR_OK)
            inbound->ports->hang_up(inbound->ports->self, peer, error.status, error.detail);
        return;
    }
    if (message->kind == KVR_MSG_PROBE) {
        probe_answer(inbound, peer, &message->probe);
        return;
    }
    if (message->kind == KVR_MSG_ALIVE) {
        alive(inbound, now, peer, message->probe.token);
        return;
    }
    if (kvr_table_find(&inbound->by_nonce, message->transfer, &index))
        transfer = kvr_pool_at(&inbound->transfers, index, NULL);
    if (transfer == NULL || transfer->peer != peer || transfer->peer_gone ||
        transfer->state == T_CLOSING)
        return; /* it ended here: the source was told so by LANDED or CANCEL */
    transfer_message(inbound, now, transfer, message);
}

/* ---- the group thread ------------------------------------------------------------------------ */

static void group_transfer(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                           const struct kvr_group_message *message)
{
    switch (message->kind) {
    case LAND_FIRST:
        transfer_event(inbound, now, transfer, KVR_EVENT_FIRST_LAND);
        break;
    case LAND_LAYER:
        layer_landed(inbound, transfer, (uint32_t)message->a, (uint32_t)message->b);
        break;
    case LAND_ALL:
        transfer->all_in = true;
        transfer_check_done(inbound, now, transfer); /* its engine waits, the scheduler does not */
        transfer_event(inbound, now, transfer, KVR_EVENT_LAST_LAND);
        break;
    case LAND_BAD:
        transfer_fail(inbound, now, transfer, KVR_MALFORMED,
                      "writes arrived for chunks that the transfer does not have");
        break;
    case LAND_REVOKED:
        transfer_fail(inbound, now, transfer, KVR_REVOKED,
                      "the source took its pages back while they were being copied");
        break;
    case LAND_ROOM:
        room_landed(inbound, transfer, message->a);
        break;
    case LAND_COPY_FAILED:
        transfer->reading = false;
        transfer_fail(inbound, now, transfer, KVR_COPY_FAILED,
                      "what arrived could not be copied into device memory");
        break;
    case LAND_VERIFIED:
        transfer->verified = true;
        transfer->reading = false;
        transfer_check_done(inbound, now, transfer);
        break;
    case LAND_CORRUPT:
        transfer->reading = false;
        transfer_corrupt(inbound, now, transfer, (uint32_t)message->a);
        break;
    case LAND_IS_QUIET:
        is_quiet(inbound, now, transfer, (uint32_t)message->a);
        break;
    case LAND_COMING:
        transfer->suspect_at = now + inbound->options.quiet_ns;
        break;
    case LAND_SUSPECT:
        inbound_rail_recycle(inbound, (uint32_t)message->a, (uint32_t)message->b);
        break;
    case LAND_FILTERED:
        filtered(inbound, now, transfer, message->pointer);
        break;
    case LAND_CLOSED:
        transfer->rails = message->b;
        if (--transfer->lands_open == 0)
            transfer_closed(inbound, now, transfer);
        break;
    case LAND_GUEST_GONE:
        if (--transfer->lands_open == 0)
            transfer_closed(inbound, now, transfer);
        break;
    default:
        break;
    }
}

void inbound_group(struct inbound *inbound, kvr_ns now, const struct kvr_group_message *message)
{
    if (message->kind == KVR_GROUP_WOKE) {
        woke(inbound);
        return;
    }
    if (message->kind == KVR_GROUP_RAIL_ERROR) { /* something of a peer's may be lost (rule 4) */
        inbound_rail_recycle(inbound, message->index, (uint32_t)message->a);
        return;
    }
    if (message->kind == KVR_GROUP_RECYCLED) {
        inbound_rail_recycled(inbound, now, message);
        return;
    }
    if (message->kind >= LAND_FIRST && message->kind <= LAND_CLOSED) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, message->index, NULL);

        assert(transfer != NULL && transfer->nonce == message->id);
        group_transfer(inbound, now, transfer, message);
    }
    if (message->kind == LAND_QUIET_TAKEN || message->kind == LAND_FILTERED)
        kvr_buddy_free(inbound->memory, message->pointer);
}

/* ---- time ------------------------------------------------------------------------------------ */

void inbound_tick(struct inbound *inbound, kvr_ns now)
{
    for (uint32_t i = 0; i < inbound->fetches.reach && inbound->fetches.used_count > 0; i++) {
        struct fetch *fetch = kvr_pool_at(&inbound->fetches, i, NULL);

        if (fetch != NULL && !fetch->ended && now >= fetch->deadline)
            fetch_expire(inbound, now, fetch);
    }
    for (uint32_t i = 0; i < inbound->transfers.reach && inbound->transfers.used_count > 0; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);

        if (transfer == NULL)
            continue;
        if (now >= transfer->drain_at && transfer->state == T_DRAINING)
            transfer_fence(inbound, now, transfer); /* the source never said QUIET */
        if (now >= transfer->suspect_at)
            suspects_check(inbound, now, transfer);
    }
    waiting_advance(inbound, now); /* there may be memory now */
    shares_advance(inbound, now);
    for (uint32_t i = 0; i < inbound->options.rail_count; i++) {
        struct inbound_rail *rail = &inbound->rails[i];

        if (now < rail->retry_at)
            continue;
        rail->retry_at = now + INBOUND_RETRY_NS;
        inbound_rail_recycle(inbound, i, rail->epoch);
    }
}

/* ---- why ------------------------------------------------------------------------------------- */

static const char *const state_names[] = {"waiting", "wanted", "live", "draining", "closing"};

static uint32_t fetch_page_count(const struct fetch *fetch)
{
    uint32_t pages = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        pages += fetch->pages.groups[group].count;
    return pages;
}

void inbound_why(const struct inbound *inbound, uint32_t engine, uint64_t handle, char *json,
                 size_t capacity)
{
    const struct fetch *fetch = fetch_find(inbound, engine, handle);
    char detail[2 * KVR_DETAIL_BYTES];
    size_t used;

    if (fetch == NULL) {
        kvr_ended_why(&inbound->ended, engine, handle, json, capacity);
        return;
    }
    used = (size_t)snprintf(json, capacity, "{\"transfers\":[");
    for (uint32_t i = 0; i < fetch->transfer_count && used + 1200 < capacity; i++) {
        const struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer == NULL)
            continue;
        used += (size_t)snprintf(
            json + used, capacity - used,
            "%s{\"transfer\":\"%016" PRIx64 "\",\"state\":\"%s\",\"peer\":\"%s\",\"peer_up\":%s,"
            "\"slots\":%u,\"segments\":%u,\"chunks\":%u,\"final\":%s,\"all_in\":%s,\"retries\":%u,"
            "\"held_by\":\"%s\",\"reason\":\"%s\"}",
            i > 0 ? "," : "", transfer->nonce, state_names[transfer->state], transfer->source.agent,
            transfer->peer_up ? "true" : "false", transfer->slot_count, transfer->segment_count,
            transfer->chunk_count, transfer->final_seen ? "true" : "false",
            transfer->all_in ? "true" : "false", transfer->retries,
            transfer_held_by(inbound, transfer), kvr_status_name(transfer->status));
    }
    snprintf(json + used, capacity - used,
             "],\"pages\":%u,\"slots_reserved\":%s,\"reason\":\"%s\",\"detail\":\"%s\"}",
             fetch_page_count(fetch), fetch->slots_reserved ? "true" : "false",
             kvr_status_name(fetch->status), kvr_text_json(fetch->detail, detail, sizeof(detail)));
}
