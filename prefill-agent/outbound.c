#include "prefill-agent/outbound.h"

#include <assert.h>

#include "prefill-agent/publish.h"
#include "prefill-agent/rail_repair.h"
#include "prefill-agent/senders.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

kvr_status outbound_init(struct outbound *outbound, const struct outbound_options *options,
                         const struct kvr_ports *ports, struct kvr_buddy *memory)
{
    void *publishes, *transfers, *by_handle, *by_key, *by_nonce;

    memset(outbound, 0, sizeof(*outbound));
    outbound->options = *options;
    outbound->pages = options->pages;
    if (options->groups.count == 0)
        outbound->options.groups =
            (struct kvr_rail_groups){.count = 1, .first = {0, options->rail_count}};
    outbound->ports = ports;
    outbound->memory = memory;
    kvr_engines_init(&outbound->engines, memory, ports, false);
    outbound->engines.quota = options->engine_publishes;
    publishes = kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_PUBLISHES_MAX, sizeof(struct publish)));
    transfers =
        kvr_buddy_alloc(memory, kvr_pool_bytes(KVR_TRANSFERS_MAX, sizeof(struct source_transfer)));
    by_handle = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_PUBLISHES_MAX));
    by_key = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_PUBLISHES_MAX));
    by_nonce = kvr_buddy_alloc(memory, kvr_table_bytes(KVR_TRANSFERS_MAX));
    if (publishes == NULL || transfers == NULL || by_handle == NULL || by_key == NULL ||
        by_nonce == NULL || past_init(&outbound->past, memory) != KVR_OK)
        return KVR_NO_MEMORY;
    kvr_pool_init(&outbound->publishes, publishes, KVR_PUBLISHES_MAX, sizeof(struct publish));
    kvr_pool_init(&outbound->transfers, transfers, KVR_TRANSFERS_MAX,
                  sizeof(struct source_transfer));
    kvr_table_init(&outbound->by_handle, by_handle, KVR_PUBLISHES_MAX);
    kvr_table_init(&outbound->by_key, by_key, KVR_PUBLISHES_MAX);
    kvr_table_init(&outbound->by_nonce, by_nonce, KVR_TRANSFERS_MAX);
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        outbound->retry_at[i] = KVR_NEVER;
    return KVR_OK;
}

void outbound_drain(struct outbound *outbound, const char *why)
{
    outbound->draining = why;
}

/* ---- engines --------------------------------------------------------------------------------- */

void outbound_request(struct outbound *outbound, kvr_ns now, uint32_t engine,
                      const struct kvr_request *request)
{
    struct publish *publish = publish_find(outbound, engine, request->handle);

    outbound->now = now;
    targets_awake(outbound);
    switch (request->kind) {
    case KVR_REQ_SOURCE_OPEN:
        publish_open(outbound, engine, request->handle, &request->source_open);
        break;
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_WATCH:
    case KVR_REQ_SOURCE_TAIL:
    case KVR_REQ_SOURCE_END:
    case KVR_REQ_RENEW:
        if (publish != NULL) /* else it ended while this was on its way */
            publish_request(outbound, publish, request);
        break;
    case KVR_REQ_CANCEL: /* legal in every state: what has ended stays ended */
        if (publish != NULL)
            publish_fail(outbound, publish, KVR_CANCELLED, "cancelled by the source engine");
        break;
    default: /* the engine port refuses requests of a target */
        break;
    }
}

void outbound_engine_down(struct outbound *outbound, kvr_ns now, uint32_t engine)
{
    outbound->now = now;
    match_engine_down(outbound, &outbound->engines.local[engine].rank);
    KVR_POOL_EACH (struct publish, publish, &outbound->publishes) {
        if (publish->engine != engine)
            continue;
        publish->engine_gone = true;
        publish_fail(outbound, publish, KVR_ENGINE_LOST, "the source engine ended");
    }
    kvr_ended_forget(&outbound->ended, engine);
    kvr_engines_down(&outbound->engines, engine);
}

void outbound_cancel_all(struct outbound *outbound, kvr_ns now, kvr_status status,
                         const char *detail)
{
    outbound->now = now;
    KVR_POOL_EACH (struct publish, publish, &outbound->publishes)
        publish_fail(outbound, publish, status, detail);
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers)
        source_transfer_fail(outbound, transfer, status, detail);
}

/* ---- target agents --------------------------------------------------------------------------- */

static void transfer_message(struct outbound *outbound, uint32_t peer,
                             const struct kvr_message *message)
{
    const struct kvr_message unknown = {.kind = KVR_MSG_UNKNOWN,
                                        .transfer = message->transfer,
                                        .reason.status = KVR_UNKNOWN_TRANSFER};
    struct source_transfer *transfer = NULL;
    uint32_t index;

    if (kvr_table_find(&outbound->by_nonce, message->transfer, &index))
        transfer = kvr_pool_at(&outbound->transfers, index, NULL);
    if (transfer == NULL || transfer->peer != peer || transfer->peer_gone)
        outbound_send(outbound, peer, &unknown);
    else
        source_transfer_message(outbound, transfer, message);
}

void outbound_message(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_message *message)
{
    struct kvr_error error;

    outbound->now = now;
    targets_awake(outbound);
    switch (message->kind) {
    case KVR_MSG_REGIONS:
        if (kvr_engines_learn(&outbound->engines, peer, &message->regions, &error) != KVR_OK)
            outbound->ports->hang_up(outbound->ports->self, peer, error.status, error.detail);
        break;
    case KVR_MSG_PROBE:
        /* As long as we answer, nothing that the target may copy from was given back. */
        outbound_send(outbound, peer,
                      &(struct kvr_message){.kind = KVR_MSG_ALIVE, .probe = message->probe});
        break;
    case KVR_MSG_ALIVE:
        targets_alive(outbound, peer, message->probe.token);
        break;
    case KVR_MSG_EPOCH_ENDED:
        rail_repair_epoch_ended(outbound, peer, &message->epoch_ended);
        break;
    case KVR_MSG_SENDER_KNOWN:
        senders_known(outbound, peer, &message->sender_known);
        break;
    case KVR_MSG_WANT:
        match_want(outbound, peer, message->transfer, &message->want);
        break;
    default:
        transfer_message(outbound, peer, message);
    }
}

/* ---- rail threads --------------------------------------------------------------------------- */

void outbound_group(struct outbound *outbound, kvr_ns now, const struct kvr_group_message *message)
{
    const union push_message job = push_message_of(message);
    struct source_transfer *transfer;

    outbound->now = now;
    switch (message->head.kind) {
    case KVR_GROUP_PEER_ADDED:
        kvr_buddy_free(outbound->memory, message->peer_rails.rails);
        return;
    case KVR_GROUP_PEER_RAIL_SET:
        kvr_buddy_free(outbound->memory, message->peer_rail.address);
        return;
    case KVR_GROUP_PAIR_BROKEN:
        rail_repair_broken(outbound, &message->pair_broken);
        return;
    case KVR_GROUP_RECYCLED:
        rail_repair_recycled(outbound, message);
        return;
    case KVR_GROUP_RESUMED:
        targets_probe(outbound, message->head.group, message->resumed.count);
        return;
    case KVR_GROUP_RAIL_ERROR: /* a lost write shows otherwise; a worn-out rail stays so */
        if (message->rail_error.status == KVR_FULL)
            rail_repair_recycle(outbound, message->rail_error.rail);
        return;
    case PUSH_RETRANSMIT_DONE:
        kvr_buddy_free(outbound->memory, job.retransmit);
        return;
    case PUSH_PROBED:
        path_probed(outbound, job.probe);
        return;
    default:
        break;
    }
    if (job.head.kind < PUSH_FIRST_POST || job.head.kind > PUSH_CLOSED)
        return;
    transfer = kvr_pool_at(&outbound->transfers, job.job, NULL);
    assert(transfer != NULL);
    source_transfer_group(outbound, transfer, &job);
}

void outbound_registered(struct outbound *outbound, kvr_ns now, uint64_t id, kvr_status status)
{
    struct source_transfer *transfer = kvr_pool_get(&outbound->transfers, id);

    outbound->now = now;
    if (transfer == NULL)
        return; /* it has ended */
    if (transfer->state == ST_OFFERED)
        path_stage_opened(outbound, transfer, status);
    else
        failover_registered(outbound, transfer, status);
}

/* ---- time ------------------------------------------------------------------------------------ */

void outbound_tick(struct outbound *outbound, kvr_ns now)
{
    outbound->now = now;
    targets_awake(outbound);
    KVR_POOL_EACH (struct publish, publish, &outbound->publishes)
        lease_tick(outbound, publish);
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers)
        source_transfer_tick(outbound, transfer);
    rail_repair_tick(outbound);
}
