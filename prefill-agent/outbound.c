#include "prefill-agent/outbound.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "base/text.h"

kvr_status outbound_init(struct outbound *outbound, const struct outbound_options *options,
                         const struct kvr_ports *ports, struct kvr_buddy *memory)
{
    void *publishes, *offers, *by_handle, *by_key, *by_nonce;

    memset(outbound, 0, sizeof(*outbound));
    outbound->options = *options;
    if (options->groups.count == 0)
        outbound->options.groups =
            (struct kvr_rail_groups){.count = 1, .first = {0, options->rail_count}};
    outbound->ports = ports;
    outbound->memory = memory;
    kvr_engines_init(&outbound->engines, memory, ports, false);
    publishes = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_PUBLISHES_MAX, sizeof(struct publish)));
    offers = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_TRANSFERS_MAX, sizeof(struct offer)));
    by_handle = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_PUBLISHES_MAX));
    by_key = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_PUBLISHES_MAX));
    by_nonce = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_TRANSFERS_MAX));
    if (publishes == NULL || offers == NULL || by_handle == NULL || by_key == NULL ||
        by_nonce == NULL)
        return KVR_NO_MEMORY;
    kvr_pool_init(&outbound->publishes, publishes, KVR_PUBLISHES_MAX, sizeof(struct publish));
    kvr_pool_init(&outbound->offers, offers, KVR_TRANSFERS_MAX, sizeof(struct offer));
    kvr_table_init(&outbound->by_handle, by_handle, KVR_PUBLISHES_MAX);
    kvr_table_init(&outbound->by_key, by_key, KVR_PUBLISHES_MAX);
    kvr_table_init(&outbound->by_nonce, by_nonce, KVR_TRANSFERS_MAX);
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        outbound->retry_at[i] = KVR_NEVER;
    return KVR_OK;
}

void outbound_drain(struct outbound *outbound)
{
    outbound->draining = true;
}

/* ---- what leaves ----------------------------------------------------------------------------- */

static void sent(struct outbound *outbound, uint32_t peer, kvr_status status)
{
    if (status != KVR_OK && status != KVR_PEER_LOST)
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_FULL,
                                 "the queue to the target agent is full");
}

void outbound_tell_peer(struct outbound *outbound, uint32_t peer, const struct kvr_message *message)
{
    sent(outbound, peer, outbound->ports->send(outbound->ports->self, peer, message));
}

void outbound_send_needed(struct outbound *outbound, const struct offer *offer,
                          struct kvr_message *message)
{
    if (offer->peer_gone)
        return;
    message->transfer = offer->nonce;
    outbound_tell_peer(outbound, offer->peer, message);
}

kvr_status outbound_send_patient(struct outbound *outbound, const struct offer *offer,
                                 struct kvr_message *message)
{
    kvr_status status;

    if (offer->peer_gone)
        return KVR_OK;
    message->transfer = offer->nonce;
    status = outbound->ports->send(outbound->ports->self, offer->peer, message);
    if (status == KVR_AGAIN)
        return KVR_AGAIN;
    sent(outbound, offer->peer, status);
    return KVR_OK;
}

void outbound_group_command(struct outbound *outbound, struct offer *offer, uint32_t kind,
                            void *pointer)
{
    struct kvr_group_message message = {
        .kind = kind,
        .index = kvr_pool_index(offer->id),
        .id = offer->nonce,
        .pointer = pointer,
        .group = offer->group,
    };

    if (offer_takes(offer, kind))
        outbound->ports->command(outbound->ports->self, &message);
    else
        offer_park(outbound, offer, kind, pointer);
}

static void groups_command(struct outbound *outbound, const struct kvr_group_message *message)
{
    struct kvr_group_message each = *message;

    for (each.group = 0; each.group < outbound->options.groups.count; each.group++)
        outbound->ports->command(outbound->ports->self, &each);
}

/* A stopped process finds a GRANT queued when it wakes, of a peer that has fenced it meanwhile
 * (rule 8). The group thread may have been asleep for good reasons; the loop was not. */
static void awake(struct outbound *outbound, kvr_ns now)
{
    struct kvr_group_message away = {.kind = KVR_GROUP_AWAY, .a = outbound->awake_at};

    if (outbound->awake_at != 0 && outbound_live(outbound) > 0 &&
        now - outbound->awake_at > outbound->options.silence_ns / 2)
        groups_command(outbound, &away);
    outbound->awake_at = now;
}

/* ---- engines --------------------------------------------------------------------------------- */

void outbound_request(struct outbound *outbound, kvr_ns now, uint32_t engine,
                      const struct kvr_request *request)
{
    struct publish *publish = publish_find(outbound, engine, request->handle);

    awake(outbound, now);
    switch (request->kind) {
    case KVR_REQ_SOURCE_OPEN:
        publish_open(outbound, now, engine, request->handle, &request->source_open);
        break;
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_SOURCE_WATCH:
    case KVR_REQ_SOURCE_TAIL:
    case KVR_REQ_SOURCE_END:
    case KVR_REQ_RENEW:
        if (publish != NULL) /* else it ended while this was on its way */
            publish_request(outbound, now, publish, request);
        break;
    case KVR_REQ_CANCEL: /* legal in every state: what has ended stays ended */
        if (publish != NULL)
            publish_fail(outbound, now, publish, KVR_CANCELLED, "cancelled by the source engine");
        break;
    default: /* requests of a target: the engine port refuses what an agent does not serve */
        break;
    }
}

/* WANTs that no publish of this engine will meet any more. */
static void parked_fail(struct outbound *outbound, kvr_ns now, const struct kvr_rank *rank)
{
    for (uint32_t i = 0; i < outbound->offers.reach && outbound->parked > 0; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer != NULL && offer->state == O_PARKED &&
            kvr_uuid_equal(&offer->source_engine, &rank->engine) &&
            offer->source_generation == rank->generation && offer->source_tp == rank->tp &&
            offer->source_pp == rank->pp)
            offer_fail(outbound, now, offer, KVR_ENGINE_LOST, "the source engine ended");
    }
}

void outbound_engine_down(struct outbound *outbound, kvr_ns now, uint32_t engine)
{
    parked_fail(outbound, now, &outbound->engines.local[engine].rank);
    for (uint32_t i = 0; i < outbound->publishes.reach; i++) {
        struct publish *publish = kvr_pool_at(&outbound->publishes, i, NULL);

        if (publish == NULL || publish->engine != engine)
            continue;
        publish->engine_gone = true;
        publish_fail(outbound, now, publish, KVR_ENGINE_LOST, "the source engine ended");
    }
    kvr_ended_forget(&outbound->ended, engine);
    kvr_engines_down(&outbound->engines, engine);
}

void outbound_cancel_all(struct outbound *outbound, kvr_ns now, kvr_status status,
                         const char *detail)
{
    for (uint32_t i = 0; i < outbound->publishes.reach; i++) {
        struct publish *publish = kvr_pool_at(&outbound->publishes, i, NULL);

        if (publish != NULL)
            publish_fail(outbound, now, publish, status, detail);
    }
    for (uint32_t i = 0; i < outbound->offers.reach; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer != NULL)
            offer_fail(outbound, now, offer, status, detail);
    }
}

/* ---- peers ----------------------------------------------------------------------------------- */

bool outbound_copies_take(struct outbound *outbound, size_t bytes, void *ret_copies[])
{
    for (uint32_t i = 0; i < outbound->options.groups.count; i++) {
        ret_copies[i] = kvr_buddy_alloc(outbound->memory, bytes);
        if (ret_copies[i] != NULL)
            continue;
        while (i > 0)
            kvr_buddy_free(outbound->memory, ret_copies[--i]);
        return false;
    }
    return true;
}

void outbound_peer_up(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_msg_hello *hello)
{
    struct outbound_peer *state = &outbound->peers[peer];
    struct kvr_peer_rails *rails[KVR_RAIL_GROUPS_MAX];
    struct kvr_group_message message = {.kind = KVR_GROUP_PEER_ADD, .index = peer};

    (void)now;
    if (!outbound_copies_take(outbound, sizeof(*rails[0]), (void **)rails)) {
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_NO_MEMORY,
                                 "no memory for a peer's rails");
        return;
    }
    state->up = true;
    state->limits = hello->limits;
    memcpy(state->agent, hello->agent, sizeof(state->agent));
    state->group_count = 1;
    state->same_host = 0;
    memset(state->sights, 0, sizeof(state->sights));
    for (uint32_t i = 0; i < hello->rail_count; i++) {
        if (hello->rails[i].group >= state->group_count && hello->rails[i].group < KVR_RAILS_MAX)
            state->group_count = hello->rails[i].group + 1;
        if (hello->rails[i].same_host && hello->rails[i].rail < KVR_RAILS_MAX)
            state->same_host |= UINT64_C(1) << hello->rails[i].rail;
    }
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        state->repair_at[i] = KVR_NEVER;
    for (uint32_t i = 0; i < KVR_RAIL_GROUPS_MAX; i++)
        state->lost[i].since = KVR_NEVER;
    for (; message.group < outbound->options.groups.count; message.group++) {
        message.pointer = rails[message.group];
        rails[message.group]->rail_count = hello->rail_count;
        memcpy(rails[message.group]->rails, hello->rails,
               hello->rail_count * sizeof(hello->rails[0]));
        outbound->ports->command(outbound->ports->self, &message);
    }
}

void outbound_peer_lost(struct outbound *outbound, kvr_ns now, uint32_t peer, kvr_status status,
                        const char *detail)
{
    struct kvr_group_message message = {.kind = KVR_GROUP_PEER_DROP, .index = peer};

    for (uint32_t i = 0; i < outbound->offers.reach; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer == NULL || offer->peer != peer || offer->peer_gone)
            continue;
        offer->peer_gone = true;
        if (offer->state == O_TOMB)
            offer_free(outbound, offer);
        else
            offer_ended(outbound, now, offer, status, detail);
    }
    kvr_engines_peer_lost(&outbound->engines, peer);
    if (!outbound->peers[peer].up)
        return;
    outbound->peers[peer].up = false;
    groups_command(outbound, &message);
}

void outbound_peer_writable(struct outbound *outbound, kvr_ns now, uint32_t peer)
{
    kvr_engines_writable(&outbound->engines, peer);
    for (uint32_t i = 0; i < outbound->offers.reach; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer == NULL || offer->peer != peer || offer->peer_gone)
            continue;
        offer_owed_tell(outbound, offer);
        offer_lists_tell(outbound, offer);
        offer_digests_tell(outbound, offer);
        offer_advance(outbound, now, offer);
    }
}

static void alive(struct outbound *outbound, uint32_t peer, uint64_t token)
{
    struct kvr_group_message message = {.kind = KVR_GROUP_PROVEN,
                                        .index = peer,
                                        .a = token / KVR_RAIL_GROUPS_MAX,
                                        .group = token % KVR_RAIL_GROUPS_MAX};

    if (outbound->peers[peer].up && message.group < outbound->options.groups.count)
        outbound->ports->command(outbound->ports->self, &message);
}

/* After an absence (rule 8). A peer that has fenced us answers nothing: its session ends, and with
 * it what we would post. */
static void woke(struct outbound *outbound, uint32_t group, uint64_t absences)
{
    struct kvr_message message = {.kind = KVR_MSG_PROBE};

    message.probe.token = absences * KVR_RAIL_GROUPS_MAX + group;
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        if (KVR_MUTANT(woke_without_round_trip))
            alive(outbound, peer, message.probe.token);
        if (outbound->peers[peer].up)
            outbound_tell_peer(outbound, peer, &message);
    }
}

/* The target was away: as long as we answer, nothing that it may copy from was given back. */
static void probe_answer(struct outbound *outbound, uint32_t peer,
                         const struct kvr_msg_probe *probe)
{
    struct kvr_message message = {.kind = KVR_MSG_ALIVE, .probe = *probe};

    outbound_tell_peer(outbound, peer, &message);
}

static void unknown_tell(struct outbound *outbound, uint32_t peer, uint64_t transfer)
{
    struct kvr_message message = {.kind = KVR_MSG_UNKNOWN, .transfer = transfer};

    message.reason.status = KVR_UNKNOWN_TRANSFER;
    outbound_tell_peer(outbound, peer, &message);
}

static void offer_message(struct outbound *outbound, kvr_ns now, struct offer *offer,
                          const struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_PAGES:
        pages_received(outbound, now, offer, &message->pages);
        break;
    case KVR_MSG_GRANT:
        grant_received(outbound, now, offer, &message->grant);
        break;
    case KVR_MSG_ROOM:
        room_received(outbound, now, offer, &message->room);
        break;
    case KVR_MSG_MISSING:
        missing_received(outbound, now, offer, &message->missing);
        break;
    case KVR_MSG_LANDED:
        offer_ended(outbound, now, offer, message->reason.status, message->reason.detail);
        break;
    case KVR_MSG_CANCEL: /* a cancel without a reason is no success */
        offer_ended(outbound, now, offer,
                    message->reason.status < 0 ? message->reason.status : KVR_CANCELLED,
                    message->reason.detail);
        break;
    default:
        outbound->ports->hang_up(outbound->ports->self, offer->peer, KVR_MALFORMED,
                                 "a message that only a source sends");
    }
}

void outbound_message(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_message *message)
{
    struct kvr_error error;
    struct offer *offer = NULL;
    uint32_t index;

    awake(outbound, now);
    if (message->kind == KVR_MSG_REGIONS) {
        if (kvr_engines_learn(&outbound->engines, peer, &message->regions, &error) != KVR_OK)
            outbound->ports->hang_up(outbound->ports->self, peer, error.status, error.detail);
        return;
    }
    if (message->kind == KVR_MSG_PROBE) {
        probe_answer(outbound, peer, &message->probe);
        return;
    }
    if (message->kind == KVR_MSG_ALIVE) {
        alive(outbound, peer, message->probe.token);
        return;
    }
    if (message->kind == KVR_MSG_EPOCH_ENDED) {
        epoch_ended(outbound, peer, &message->epoch_ended);
        return;
    }
    if (message->kind == KVR_MSG_WANT) {
        want_received(outbound, now, peer, message->transfer, &message->want);
        return;
    }
    if (kvr_table_find(&outbound->by_nonce, message->transfer, &index))
        offer = kvr_pool_at(&outbound->offers, index, NULL);
    if (offer == NULL || offer->peer != peer || offer->peer_gone)
        unknown_tell(outbound, peer, message->transfer);
    else if (offer->state != O_TOMB || message->kind == KVR_MSG_ROOM ||
             message->kind == KVR_MSG_MISSING)
        offer_message(outbound, now, offer, message);
}

/* ---- the group thread ------------------------------------------------------------------------ */

void outbound_group(struct outbound *outbound, kvr_ns now, const struct kvr_group_message *message)
{
    struct offer *offer;

    switch (message->kind) {
    case KVR_GROUP_PEER_ADDED:
    case KVR_GROUP_PEER_RAIL_SET:
    case PUSH_AGAIN_DONE:
        kvr_buddy_free(outbound->memory, message->pointer);
        return;
    case PUSH_LOOKED:
        offer_looked(outbound, now, message->pointer);
        return;
    case KVR_GROUP_PAIR_BROKEN:
        pair_broken(outbound, now, message);
        return;
    case KVR_GROUP_RECYCLED:
        outbound_rail_recycled(outbound, now, message);
        return;
    case KVR_GROUP_WOKE:
        woke(outbound, message->group, message->a);
        return;
    case KVR_GROUP_RAIL_ERROR: /* what was lost is found otherwise; what is worn out stays so */
        if (message->status == KVR_FULL)
            outbound_rail_recycle(outbound, message->index);
        return;
    default:
        break;
    }
    if (message->kind < PUSH_FIRST_POST || message->kind > PUSH_CLOSED)
        return;
    offer = kvr_pool_at(&outbound->offers, message->index, NULL);
    assert(offer != NULL);
    offer_group(outbound, now, offer, message);
}

/* ---- time ------------------------------------------------------------------------------------ */

void outbound_tick(struct outbound *outbound, kvr_ns now)
{
    awake(outbound, now);
    for (uint32_t i = 0; i < outbound->publishes.reach && outbound->publishes.used_count > 0; i++) {
        struct publish *publish = kvr_pool_at(&outbound->publishes, i, NULL);

        if (publish != NULL)
            publish_lease_tick(outbound, now, publish);
    }
    for (uint32_t i = 0; i < outbound->offers.reach && outbound->offers.used_count > 0; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer != NULL)
            offer_tick(outbound, now, offer);
    }
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        outbound_repair(outbound, now, peer);
    for (uint32_t rail = 0; rail < outbound->options.rail_count; rail++) {
        if (now < outbound->retry_at[rail])
            continue;
        outbound->retry_at[rail] = now + OUTBOUND_RETRY_NS;
        outbound_rail_recycle(outbound, rail);
    }
}

/* ---- why ------------------------------------------------------------------------------------- */

static const char *const state_names[] = {"parked",   "offered", "live",
                                          "stopping", "closing", "ended"};

static uint32_t publish_pages(const struct publish *publish)
{
    uint32_t pages = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        pages += publish->pages.groups[group].count;
    return pages;
}

/* Each with its own quotes, or nothing at all. */
static size_t why_refusal(const struct refusal *refusal, char *json, size_t capacity)
{
    char agent[2 * KVR_NAME_BYTES], detail[2 * KVR_DETAIL_BYTES];
    int bytes;

    if (refusal->count == 0)
        return 0;
    bytes = snprintf(json, capacity,
                     ",\"refused\":{\"count\":%u,\"agent\":\"%s\",\"reason\":\"%s\","
                     "\"detail\":\"%s\"}",
                     refusal->count, kvr_text_json(refusal->agent, agent, sizeof(agent)),
                     kvr_status_name(refusal->status),
                     kvr_text_json(refusal->detail, detail, sizeof(detail)));
    return (size_t)bytes < capacity ? (size_t)bytes : 0;
}

void outbound_why(const struct outbound *outbound, uint32_t engine, uint64_t handle, char *json,
                  size_t capacity)
{
    const struct publish *publish = publish_find(outbound, engine, handle);
    char detail[2 * KVR_DETAIL_BYTES];
    size_t used;

    if (publish == NULL) {
        kvr_ended_why(&outbound->ended, engine, handle, json, capacity);
        return;
    }
    used = (size_t)snprintf(json, capacity, "{\"consumers\":%u,\"offers\":[", publish->consumers);
    for (uint32_t i = 0; i < publish->come_count && used + 1800 < capacity; i++) {
        const struct offer *offer = kvr_pool_get(&outbound->offers, publish->come[i].offer);

        if (offer == NULL)
            continue;
        used += (size_t)snprintf(
            json + used, capacity - used,
            "%s{\"transfer\":\"%016" PRIx64 "\",\"state\":\"%s\",\"rail_group\":%u,\"segments\":%u,"
            "\"chunks\":%u,\"final\":%s,\"reason\":\"%s\"}",
            i > 0 ? "," : "", offer->nonce, state_names[offer->state], offer->group,
            offer->segment_count, offer->chunk_count, offer->final_told ? "true" : "false",
            kvr_status_name(offer->status));
    }
    used += (size_t)snprintf(json + used, capacity - used,
                             "],\"pages\":%u,\"tokens_announced\":%" PRIu64
                             ",\"ended\":%s,\"reason\":\"%s\",\"detail\":\"%s\"",
                             publish_pages(publish), publish->token_end,
                             publish->ended ? "true" : "false", kvr_status_name(publish->status),
                             kvr_text_json(publish->detail, detail, sizeof(detail)));
    used += why_refusal(&publish->refusal, json + used, capacity - used);
    snprintf(json + used, capacity - used, "}");
}
