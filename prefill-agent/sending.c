#include "prefill-agent/sending.h"

#include "prefill-agent/outbound.h"
#include "prefill-agent/source_transfer.h"

static void sent(struct outbound *outbound, uint32_t peer, kvr_status status)
{
    if (status != KVR_OK && status != KVR_PEER_LOST)
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_FULL,
                                 "the queue to the target agent is full");
}

void outbound_send(struct outbound *outbound, uint32_t peer, const struct kvr_message *message)
{
    sent(outbound, peer, outbound->ports->send(outbound->ports->self, peer, message));
}

void outbound_send_needed(struct outbound *outbound, const struct source_transfer *transfer,
                          struct kvr_message *message)
{
    if (transfer->peer_gone)
        return;
    message->transfer = transfer->nonce;
    outbound_send(outbound, transfer->peer, message);
}

kvr_status outbound_send_patient(struct outbound *outbound, const struct source_transfer *transfer,
                                 struct kvr_message *message)
{
    kvr_status status;

    if (transfer->peer_gone)
        return KVR_OK;
    message->transfer = transfer->nonce;
    status = outbound->ports->send(outbound->ports->self, transfer->peer, message);
    if (status == KVR_AGAIN)
        return KVR_AGAIN;
    sent(outbound, transfer->peer, status);
    return KVR_OK;
}

void outbound_command(struct outbound *outbound, struct source_transfer *transfer,
                      union push_message message)
{
    if (!failover_takes(transfer, message.head.kind)) {
        failover_park(outbound, transfer, &message);
        return;
    }
    message.head.group = transfer->grant.rail_group;
    message.job = kvr_pool_index(transfer->id);
    message.transfer = transfer->nonce;
    outbound->ports->command(outbound->ports->self, &message.any);
}

void outbound_command_groups(struct outbound *outbound, const struct kvr_group_message *message)
{
    struct kvr_group_message each = *message;

    for (each.head.group = 0; each.head.group < outbound->options.groups.count; each.head.group++)
        outbound->ports->command(outbound->ports->self, &each);
}

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
