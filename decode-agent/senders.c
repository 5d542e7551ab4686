/* SENDER and SENDER_KNOWN. The rail threads insert the endpoints (rail_group_senders.c); this file
 * answers the source once all of them have. */
#include "decode-agent/senders.h"

#include <string.h>

#include "decode-agent/inbound.h"
#include "decode-agent/sending.h"

static void hang_up(struct inbound *inbound, uint32_t peer, kvr_status status, const char *detail)
{
    inbound->ports->hang_up(inbound->ports->self, peer, status, detail);
}

/* A copy of the address for each rail group, which gives it back. False: no memory. */
static bool copies_take(struct inbound *inbound, const struct kvr_rail_address *endpoint,
                        struct kvr_rail_address *ret_copies[KVR_RAIL_GROUPS_MAX])
{
    for (uint32_t i = 0; i < inbound->options.groups.count; i++) {
        ret_copies[i] = kvr_buddy_alloc(inbound->memory, sizeof(*endpoint));
        if (ret_copies[i] != NULL) {
            *ret_copies[i] = *endpoint;
            continue;
        }
        while (i > 0)
            kvr_buddy_free(inbound->memory, ret_copies[--i]);
        return false;
    }
    return true;
}

void sender_received(struct inbound *inbound, uint32_t peer,
                     const struct kvr_rail_address *endpoint)
{
    struct kvr_rail_address *copies[KVR_RAIL_GROUPS_MAX];
    struct kvr_group_message message = {.head.kind = KVR_GROUP_SENDER,
                                        .sender = {.peer = peer, .rail = endpoint->rail}};
    uint32_t groups = inbound->options.groups.count;

    if (!inbound->peers[peer].up)
        return;
    if (endpoint->rail >= KVR_RAILS_MAX || endpoint->bytes == 0) {
        hang_up(inbound, peer, KVR_MALFORMED, "a SENDER that names no endpoint");
        return;
    }
    if (!copies_take(inbound, endpoint, copies)) {
        hang_up(inbound, peer, KVR_NO_MEMORY, "no memory for the address of a source's endpoint");
        return;
    }
    message.sender.serial = ++inbound->senders;
    inbound->peers[peer].has_senders = true;
    inbound->peers[peer].senders[endpoint->rail] = (struct inbound_sender){
        .serial = message.sender.serial, .epoch = endpoint->epoch, .waits = groups};
    for (uint32_t group = 0; group < groups; group++) {
        message.head.group = group;
        message.sender.address = copies[group];
        inbound->ports->command(inbound->ports->self, &message);
    }
}

void sender_set(struct inbound *inbound, const struct kvr_group_sender *set)
{
    struct inbound_sender *sender = &inbound->peers[set->peer].senders[set->rail];
    struct kvr_message known = {.kind = KVR_MSG_SENDER_KNOWN,
                                .sender_known = {set->rail, sender->epoch}};

    kvr_buddy_free(inbound->memory, set->address);
    if (sender->serial != set->serial)
        return; /* a later one took its place, or the session has ended */
    if (set->status != KVR_OK) {
        hang_up(inbound, set->peer, set->status,
                "a rail of the target agent does not take the address of a source's endpoint");
        return;
    }
    if (--sender->waits == 0)
        inbound_send(inbound, set->peer, &known);
}

void senders_lost(struct inbound *inbound, uint32_t peer)
{
    struct inbound_peer *state = &inbound->peers[peer];
    struct kvr_group_message drop = {.head.kind = KVR_GROUP_PEER_DROP, .peer_drop.peer = peer};

    if (!state->has_senders)
        return;
    state->has_senders = false;
    memset(state->senders, 0, sizeof(state->senders));
    for (drop.head.group = 0; drop.head.group < inbound->options.groups.count; drop.head.group++)
        inbound->ports->command(inbound->ports->self, &drop);
}
