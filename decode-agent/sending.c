/* Messages to source agents, and commands to rail threads. */
#include "decode-agent/sending.h"

void inbound_send(struct inbound *inbound, uint32_t peer, const struct kvr_message *message)
{
    kvr_status status = inbound->ports->send(inbound->ports->self, peer, message);

    if (status != KVR_OK && status != KVR_PEER_LOST)
        inbound->ports->hang_up(inbound->ports->self, peer, KVR_FULL,
                                "the queue to the source agent is full");
}

void inbound_send_needed(struct inbound *inbound, const struct transfer *transfer,
                         struct kvr_message *message)
{
    if (source_link_gone(&transfer->link))
        return;
    message->transfer = transfer->nonce;
    inbound_send(inbound, transfer->link.peer, message);
}

void inbound_group_command(struct inbound *inbound, const struct transfer *transfer,
                           union land_message message)
{
    message.head.group = transfer->grant.rail_group;
    message.landing = kvr_pool_index(transfer->id);
    message.transfer = transfer->nonce;
    inbound->ports->command(inbound->ports->self, &message.any);
}
