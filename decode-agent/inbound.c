#include "decode-agent/inbound.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "base/text.h"
#include "decode-agent/fetch.h"
#include "decode-agent/layers.h"
#include "decode-agent/senders.h"
#include "decode-agent/sending.h"
#include "decode-agent/strangers.h"

kvr_status inbound_init(struct inbound *inbound, const struct inbound_options *options,
                        const struct kvr_ports *ports, struct kvr_buddy *memory)
{
    void *fetches, *transfers, *by_nonce, *by_handle;

    memset(inbound, 0, sizeof(*inbound));
    inbound->options = *options;
    inbound->pages = options->pages;
    if (options->groups.count == 0)
        inbound->options.groups =
            (struct kvr_rail_groups){.count = 1, .first = {0, options->rail_count}};
    inbound->ports = ports;
    inbound->memory = memory;
    memcpy(inbound->nonces.key, options->nonce_key, sizeof(inbound->nonces.key));
    kvr_engines_init(&inbound->engines, memory, ports, true);
    inbound->engines.quota = options->engine_fetches;
    if (options->slot_last == 0)
        inbound->options.slot_last = KVR_SLOTS - 1;
    assert(options->slot_count > 0 && options->slot_count <= inbound->options.slot_last &&
           inbound->options.slot_last < KVR_SLOTS);
    fetches = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_FETCHES_MAX, sizeof(struct fetch)));
    transfers = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_TRANSFERS_MAX, sizeof(struct transfer)));
    by_nonce = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_TRANSFERS_MAX));
    by_handle = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_FETCHES_MAX));
    inbound->free_slots = kvr_buddy_alloc(memory, inbound->options.slot_last * sizeof(uint16_t));
    if (fetches == NULL || transfers == NULL || by_nonce == NULL || by_handle == NULL ||
        inbound->free_slots == NULL)
        return KVR_NO_MEMORY;
    kvr_pool_init(&inbound->fetches, fetches, KVR_FETCHES_MAX, sizeof(struct fetch));
    kvr_pool_init(&inbound->transfers, transfers, KVR_TRANSFERS_MAX, sizeof(struct transfer));
    kvr_table_init(&inbound->by_nonce, by_nonce, KVR_TRANSFERS_MAX);
    kvr_table_init(&inbound->by_handle, by_handle, KVR_FETCHES_MAX);
    for (uint32_t i = 0; i < inbound->options.slot_last; i++)
        inbound->free_slots[i] = (uint16_t)(i + 1);
    inbound->free_count = options->slot_count;
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        inbound->rails[i] = (struct inbound_rail){.epoch = 1, .retry_at = KVR_NEVER};
    return KVR_OK;
}

void inbound_drain(struct inbound *inbound, const char *why)
{
    inbound->draining = why;
}

/* ---- engines -------------------------------------------------------------------------------- */

/* An engine's library says EXPIRED when this agent was silent at the deadline. */
static void fetch_cancel(struct inbound *inbound, struct fetch *fetch, kvr_status reason)
{
    if (reason == KVR_EXPIRED)
        fetch_fail(inbound, fetch, KVR_EXPIRED, "its deadline passed before this agent answered");
    else
        fetch_fail(inbound, fetch, KVR_CANCELLED, "cancelled by the target engine");
}

void inbound_request(struct inbound *inbound, kvr_ns now, uint32_t engine,
                     const struct kvr_request *request)
{
    struct fetch *fetch = fetch_find(inbound, engine, request->handle);

    inbound->now = now;
    if (request->kind == KVR_REQ_TARGET_OPEN)
        fetch_open(inbound, engine, request->handle, &request->target_open);
    if (request->kind == KVR_REQ_TARGET_OPEN || fetch == NULL || fetch->state == F_ENDED)
        return; /* an ended fetch stays ended */
    switch (request->kind) {
    case KVR_REQ_TARGET_PAGES:
        fetch_pages(inbound, fetch, &request->pages);
        break;
    case KVR_REQ_TARGET_SKIP:
        fetch_skip(inbound, fetch, &request->skip);
        break;
    case KVR_REQ_TARGET_HOLD:
        fetch_hold(inbound, fetch);
        break;
    case KVR_REQ_WATCH:
        fetch_watch(inbound, fetch, &request->watch);
        break;
    case KVR_REQ_CANCEL:
        fetch_cancel(inbound, fetch, request->cancel.reason);
        break;
    default: /* requests of a source: the engine port refuses what an agent does not serve */
        break;
    }
}

void inbound_engine_down(struct inbound *inbound, kvr_ns now, uint32_t engine)
{
    inbound->now = now;
    KVR_POOL_EACH (struct fetch, fetch, &inbound->fetches)
        if (fetch->engine == engine)
            fetch->engine_gone = true;
    /* In a second pass: slots that one fetch gives back may let another of the same engine go on.
     */
    KVR_POOL_EACH (struct fetch, fetch, &inbound->fetches)
        if (fetch->engine == engine)
            fetch_fail(inbound, fetch, KVR_ENGINE_LOST, "the target engine ended");
    kvr_ended_forget(&inbound->ended, engine);
    kvr_engines_down(&inbound->engines, engine);
}

static bool is_meant(const struct inbound *inbound, const struct fetch *fetch,
                     const struct kvr_order *order)
{
    if (fetch->state == F_ENDED || fetch->state == F_FAILING)
        return false;
    if (order->transfer == 0)
        return fetch->attempt == order->attempt && strcmp(fetch->request, order->request) == 0;
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        const struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL && transfer->nonce == order->transfer)
            return true;
    }
    return false;
}

uint32_t inbound_cancel(struct inbound *inbound, kvr_ns now, const struct kvr_order *order)
{
    uint32_t count = 0;

    inbound->now = now;
    KVR_POOL_EACH (struct fetch, fetch, &inbound->fetches) {
        if (!is_meant(inbound, fetch, order))
            continue;
        fetch_fail(inbound, fetch, KVR_CANCELLED, "cancelled by an operator");
        count++;
    }
    return count;
}

void inbound_cancel_all(struct inbound *inbound, kvr_ns now, kvr_status status, const char *detail)
{
    inbound->now = now;
    KVR_POOL_EACH (struct fetch, fetch, &inbound->fetches)
        fetch_fail(inbound, fetch, status, detail);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* It proves nothing about writes: fence. A transfer without a GRANT has ended at once. */
static void unknown_received(struct inbound *inbound, struct transfer *transfer)
{
    uint64_t id = transfer->id;

    transfer->failure.by_source = true;
    transfer_fail(inbound, transfer, KVR_UNKNOWN_TRANSFER,
                  "the source agent holds nothing under this transfer");
    transfer = kvr_pool_get(&inbound->transfers, id);
    if (transfer != NULL && transfer->state == T_DRAINING)
        transfer_fence(inbound, transfer);
}

static void transfer_message(struct inbound *inbound, struct transfer *transfer,
                             const struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_PLAN:
        plan_received(inbound, transfer, &message->plan);
        break;
    case KVR_MSG_FINAL:
        final_received(inbound, transfer, &message->final);
        break;
    case KVR_MSG_TAIL:
        tail_received(inbound, transfer, &message->tail);
        break;
    case KVR_MSG_QUIET:
        quiet_received(inbound, transfer, &message->quiet);
        break;
    case KVR_MSG_DIGEST:
        digest_received(inbound, transfer, &message->digest);
        break;
    case KVR_MSG_RAIL_LOST:
        rail_lost_received(inbound, transfer, &message->rail_lost);
        break;
    case KVR_MSG_NO_RAIL:
        no_rail_received(inbound, transfer);
        break;
    case KVR_MSG_FAIL: /* a missing reason is no success */
    case KVR_MSG_CANCEL:
        transfer->failure.by_source = true;
        transfer_fail(inbound, transfer,
                      message->reason.status < 0 ? message->reason.status : KVR_ABORTED,
                      message->reason.detail);
        break;
    case KVR_MSG_UNKNOWN:
        unknown_received(inbound, transfer);
        break;
    default:
        inbound->ports->hang_up(inbound->ports->self, transfer->link.peer, KVR_MALFORMED,
                                "a message that only a target sends");
    }
}

void inbound_message(struct inbound *inbound, kvr_ns now, uint32_t peer,
                     const struct kvr_message *message)
{
    struct kvr_error error;
    struct transfer *transfer = NULL;
    uint32_t index;

    inbound->now = now;
    if (message->kind == KVR_MSG_REGIONS) {
        if (kvr_engines_learn(&inbound->engines, peer, &message->regions, &error) != KVR_OK)
            inbound->ports->hang_up(inbound->ports->self, peer, error.status, error.detail);
        return;
    }
    if (message->kind == KVR_MSG_PROBE) {
        /* Rule 8: an answer shows the source agent that its session still holds. */
        inbound_send(inbound, peer,
                     &(struct kvr_message){.kind = KVR_MSG_ALIVE, .probe = message->probe});
        return;
    }
    if (message->kind == KVR_MSG_SENDER) {
        sender_received(inbound, peer, &message->sender.endpoint);
        return;
    }
    if (message->kind == KVR_MSG_ALIVE) {
        absence_answered(inbound, peer, message->probe.token);
        return;
    }
    if (kvr_table_find(&inbound->by_nonce, message->transfer, &index))
        transfer = kvr_pool_at(&inbound->transfers, index, NULL);
    if (transfer == NULL || transfer->link.peer != peer || source_link_gone(&transfer->link) ||
        transfer_ends(transfer))
        return; /* it ended here, and LANDED or CANCEL said so */
    transfer_message(inbound, transfer, message);
}

/* ---- the rail thread ------------------------------------------------------------------------ */

static void group_transfer(struct inbound *inbound, struct transfer *transfer,
                           const union land_message *message)
{
    switch (message->head.kind) {
    case LAND_FIRST:
        transfer_report(inbound, transfer, KVR_EVENT_FIRST_LAND);
        break;
    case LAND_KEYS_OPENED:
        grant_keys_opened(inbound, transfer, message->keys);
        break;
    case LAND_KEYS_CLOSED:
        grant_keys_closed(inbound, transfer, message->keys);
        break;
    case LAND_LAYER:
        layer_landed(inbound, transfer, &message->layer);
        break;
    case LAND_ALL:
        transfer->delivery.all_in = true;
        transfer_check_done(inbound, transfer); /* before the report: the engine waits */
        transfer_report(inbound, transfer, KVR_EVENT_LAST_LAND);
        break;
    case LAND_BAD:
        transfer_fail(inbound, transfer, KVR_MALFORMED,
                      "writes arrived for chunks that the transfer does not have");
        break;
    case LAND_REVOKED:
        transfer_fail(inbound, transfer, KVR_REVOKED,
                      "the source took its pages back while they were being copied");
        break;
    case LAND_ROOM:
        transfer->quota.room_free = message->position;
        room_check(inbound, transfer);
        break;
    case LAND_COPY_FAILED:
        verify_on(&transfer->verification.state, VERIFY_ON_READ_ENDED);
        transfer_fail(inbound, transfer, KVR_COPY_FAILED,
                      "what arrived could not be copied into device memory");
        break;
    case LAND_VERIFIED:
        verify_on(&transfer->verification.state, VERIFY_ON_VERIFIED);
        transfer_check_done(inbound, transfer);
        break;
    case LAND_CORRUPT:
        verify_on(&transfer->verification.state, VERIFY_ON_READ_ENDED);
        transfer_corrupt(inbound, transfer, message->chunk);
        break;
    case LAND_IS_QUIET:
        quiet_proven(inbound, transfer, message->round);
        break;
    case LAND_COMING:
        transfer->trust.suspect_at = inbound->now + inbound->options.quiet_ns;
        break;
    case LAND_SUSPECT:
        inbound_rail_recycle(inbound, message->epoch.rail, message->epoch.epoch);
        break;
    case LAND_FILTERED:
        missing_send(inbound, transfer, message->filter);
        break;
    case LAND_CLOSED:
        transfer->rails = message->closed.rails;
        if (--transfer->regrant.landings_open == 0)
            transfer_closed(inbound, transfer);
        break;
    case LAND_FORWARD_ENDED:
        if (--transfer->regrant.landings_open == 0)
            transfer_closed(inbound, transfer);
        break;
    default:
        break;
    }
}

void inbound_group(struct inbound *inbound, kvr_ns now, const struct kvr_group_message *message)
{
    const union land_message land = land_message_of(message);

    inbound->now = now;
    if (message->head.kind == KVR_GROUP_RESUMED) {
        absence_probe(inbound);
        return;
    }
    if (message->head.kind == KVR_GROUP_RAIL_ERROR) { /* a peer's write may be lost (rule 4) */
        if (message->rail_error.status == KVR_PEER_LOST)
            strangers_reported(inbound, message->rail_error.rail, message->rail_error.epoch);
        else
            inbound_rail_recycle(inbound, message->rail_error.rail, message->rail_error.epoch);
        return;
    }
    if (message->head.kind == KVR_GROUP_SENDER_SET) {
        sender_set(inbound, &message->sender);
        return;
    }
    if (land.head.kind == LAND_STRANGERS) {
        if (!KVR_MUTANT(strangers_never_too_many))
            strangers_reported(inbound, land.epoch.rail, land.epoch.epoch);
        return;
    }
    if (message->head.kind == KVR_GROUP_RECYCLED) {
        inbound_rail_recycled(inbound, message);
        return;
    }
    if (land.head.kind >= LAND_FIRST && land.head.kind <= LAND_CLOSED) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, land.landing, NULL);

        assert(transfer != NULL && transfer->nonce == land.transfer);
        group_transfer(inbound, transfer, &land);
    }
    if (land.head.kind == LAND_QUIET_TAKEN)
        kvr_buddy_free(inbound->memory, land.quiet);
    else if (land.head.kind == LAND_FILTERED)
        kvr_buddy_free(inbound->memory, land.filter);
}

/* ---- time ------------------------------------------------------------------------------------ */

void inbound_tick(struct inbound *inbound, kvr_ns now)
{
    inbound->now = now;
    KVR_POOL_EACH (struct fetch, fetch, &inbound->fetches)
        if (fetch->state != F_ENDED && now >= fetch->deadline)
            fetch_expire(inbound, fetch);
    KVR_POOL_EACH (struct transfer, transfer, &inbound->transfers) {
        if (now >= transfer->failure.drain_at && transfer->state == T_DRAINING)
            transfer_fence(inbound, transfer); /* QUIET never came */
        if (now >= transfer->trust.suspect_at)
            suspects_check(inbound, transfer);
    }
    slots_advance(inbound); /* there may be memory now */
    staging_quotas_advance(inbound);
    for (uint32_t i = 0; i < inbound->options.rail_count; i++) {
        struct inbound_rail *rail = &inbound->rails[i];

        strangers_tick(inbound, i);
        if (now < rail->retry_at)
            continue;
        rail->retry_at = now + INBOUND_RETRY_NS;
        inbound_rail_recycle(inbound, i, rail->epoch);
    }
}

/* ---- why ------------------------------------------------------------------------------------- */

static const char *const state_names[] = {"waiting",  "held",    "wanted",  "live",
                                          "draining", "sealing", "closing", "ended"};

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
    used = (size_t)snprintf(json, capacity, "{\"tenant\":\"%s\",\"transfers\":[",
                            inbound->engines.tenants.list[fetch->tenant].name);
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
            source_link_answered(&transfer->link) ? "true" : "false", transfer->slots.count,
            transfer->intake.segment_count, transfer->intake.chunk_count,
            transfer->intake.state == INTAKE_FINAL ? "true" : "false",
            transfer->delivery.all_in ? "true" : "false", transfer->retries,
            transfer_held_by(inbound, transfer), kvr_status_name(transfer->failure.status));
    }
    snprintf(json + used, capacity - used,
             "],\"pages\":%u,\"slots_reserved\":%s,\"reason\":\"%s\",\"detail\":\"%s\"}",
             kvr_page_tables_count(&fetch->pages),
             fetch->slots.state == SLOTS_RESERVED ? "true" : "false",
             kvr_status_name(fetch->result.status),
             kvr_text_json(fetch->result.detail, detail, sizeof(detail)));
}
