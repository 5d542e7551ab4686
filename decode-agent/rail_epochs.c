/* Ends epochs of this agent's rails (rule 7): the rail gets a fresh endpoint, and every peer is
 * sent the successor. One recycling serves all transfers that wait for it. */
#include "decode-agent/fence.h"

#include "decode-agent/sending.h"

static void recycle_begin(struct inbound *inbound, uint32_t rail)
{
    kvr_rail_recycle_next(&inbound->recycle, &inbound->options.groups, inbound->ports, rail);
}

void inbound_rail_recycle(struct inbound *inbound, uint32_t rail, uint32_t epoch)
{
    if (rail >= inbound->options.rail_count || epoch < inbound->rails[rail].epoch)
        return; /* that epoch has ended */
    inbound->rails[rail].wanted = epoch;
    inbound->recycle.wanted |= UINT64_C(1) << rail;
    recycle_begin(inbound, rail);
}

/* HELLO named the rails as they were then. A rail that was recycled since, without a session to
 * send EPOCH_ENDED on, would keep an address that answers no more. */
void rail_epochs_send(struct inbound *inbound, uint32_t peer)
{
    for (uint32_t i = 0; i < inbound->options.rail_count; i++) {
        const struct inbound_rail *rail = &inbound->rails[i];
        struct kvr_message ended = {.kind = KVR_MSG_EPOCH_ENDED,
                                    .epoch_ended = {i, rail->epoch - 1, rail->address}};

        if (rail->epoch > 1)
            inbound_send(inbound, peer, &ended);
    }
}

void inbound_rail_recycled(struct inbound *inbound, const struct kvr_group_message *message)
{
    uint32_t index = message->recycled.rail, epoch_ended = message->recycled.ended;
    bool renewed = message->recycled.status == KVR_OK;
    struct inbound_rail *rail = &inbound->rails[index];
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    uint32_t count = inbound->ports->rails(inbound->ports->self, rails);
    struct kvr_message ended = {.kind = KVR_MSG_EPOCH_ENDED};
    bool known = !renewed && rail->retry_at != KVR_NEVER; /* to the peers: it has no endpoint */

    rail->retry_at = renewed ? KVR_NEVER : inbound->now + INBOUND_RETRY_NS;
    if (rail->wanted <= epoch_ended)
        rail->wanted = 0; /* else an epoch that began meanwhile is to end too */
    inbound->recycle.under_way &= ~(UINT64_C(1) << index);
    inbound->recycle.wanted &= ~(UINT64_C(1) << index);
    inbound->recycle.wanted |= (uint64_t)(rail->wanted != 0) << index;
    rail->epoch = message->recycled.epoch;
    rail->address = (struct kvr_rail_address){.rail = index, .epoch = rail->epoch};
    for (uint32_t i = 0; i < count; i++)
        if (rails[i].rail == index && renewed)
            rail->address = rails[i]; /* else no endpoint was opened, and it has no address */
    ended.epoch_ended = (struct kvr_msg_epoch_ended){index, epoch_ended, rail->address};
    KVR_POOL_EACH (struct transfer, transfer, &inbound->transfers)
        if (transfer->state == T_LIVE && transfer_may_use(transfer, index))
            transfer_epoch_add(transfer, index, rail->epoch);
    for (uint32_t peer = 0; !known && peer < KVR_PEERS_MAX; peer++)
        if (inbound->peers[peer].up)
            inbound_send(inbound, peer, &ended);
    recycle_begin(inbound, index);
}
