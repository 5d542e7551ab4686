/* SENDER. The rail threads post nothing from an endpoint before the target knows it
 * (rail_group_senders.c); this file announces the endpoints, and passes the answers on. */
#include "prefill-agent/senders.h"

#include "prefill-agent/outbound.h"
#include "prefill-agent/sending.h"

/* Rails for this host alone need no such thing, and one without an endpoint has nothing to announce
 * before it is recycled. */
static void tell(struct outbound *outbound, uint32_t peer, const struct kvr_rail_address *endpoint)
{
    struct kvr_message message = {.kind = KVR_MSG_SENDER, .sender.endpoint = *endpoint};

    if (outbound->peers[peer].up && outbound->peers[peer].needs_senders && !endpoint->same_host &&
        endpoint->bytes > 0)
        outbound_send(outbound, peer, &message);
}

void senders_tell(struct outbound *outbound, uint32_t peer)
{
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    uint32_t count;

    if (!outbound->peers[peer].needs_senders)
        return;
    count = outbound->ports->rails(outbound->ports->self, rails);
    for (uint32_t i = 0; i < count; i++)
        tell(outbound, peer, &rails[i]);
}

void senders_renewed(struct outbound *outbound, uint32_t rail)
{
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    uint32_t count = outbound->ports->rails(outbound->ports->self, rails);

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t peer = 0; rails[i].rail == rail && peer < KVR_PEERS_MAX; peer++)
            tell(outbound, peer, &rails[i]);
}

void senders_known(struct outbound *outbound, uint32_t peer,
                   const struct kvr_msg_sender_known *known)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_SENDER_KNOWN,
        .sender_known = {.peer = peer, .rail = known->rail, .epoch = known->epoch},
    };

    if (!outbound->peers[peer].up || known->rail >= outbound->options.rail_count)
        return;
    message.head.group = kvr_rail_groups_of(&outbound->options.groups, known->rail);
    outbound->ports->command(outbound->ports->self, &message);
}
