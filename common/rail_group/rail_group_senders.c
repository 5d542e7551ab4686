/* Which endpoints know each other (rule 12). The cards of some providers take a write only from an
 * endpoint that was inserted at the target. There an agent that writes announces each
 * endpoint, and posts nothing from it before the peer has answered.
 *
 * An agent that is written to inserts what was announced into each endpoint of its rails, and into
 * each successor before the loop names that to a peer. So what the peer's loop has answered once
 * holds for all endpoints that a write may go to. */
#include <stdlib.h>
#include <string.h>

#include "rail_group/rail_group_state.h"

#define NOT_INSERTED UINT64_MAX

/* ---- the agent that is written to ------------------------------------------------------------ */

kvr_status group_senders_open(struct kvr_group *group, uint32_t rail_count)
{
    struct group_senders *senders = &group->senders;
    size_t slots = (size_t)KVR_PEERS_MAX * KVR_RAILS_MAX;
    bool needed = false;

    for (uint32_t i = 0; i < rail_count; i++)
        needed |= group->rails[group->rail_first + i].needs_senders;
    if (!needed)
        return KVR_OK;
    senders->rail_count = rail_count;
    senders->slots = calloc(slots, sizeof(*senders->slots));
    senders->handles = calloc(slots * rail_count, sizeof(*senders->handles));
    return senders->slots != NULL && senders->handles != NULL ? KVR_OK : KVR_NO_MEMORY;
}

void group_senders_close(struct kvr_group *group)
{
    free(group->senders.slots);
    free(group->senders.handles);
}

static uint32_t slot_of(uint32_t peer, uint32_t peer_rail)
{
    return peer * KVR_RAILS_MAX + peer_rail;
}

static uint64_t *handle_of(struct kvr_group *group, uint32_t slot, uint32_t rail)
{
    return &group->senders
                .handles[(size_t)slot * group->senders.rail_count + (rail - group->rail_first)];
}

/* A rail without an endpoint has nothing to insert into; its successor will know the sender. */
static kvr_status insert(struct kvr_group *group, uint32_t slot, uint32_t rail,
                         struct kvr_error *error)
{
    const struct group_sender *sender = &group->senders.slots[slot];
    struct kvr_endpoint *endpoint = group->rails[rail].endpoint;
    uint64_t handle = NOT_INSERTED;
    kvr_status status = KVR_OK;

    if (group->rails[rail].needs_senders && endpoint != NULL)
        status = group->ops->peer_insert(endpoint, sender->address, sender->bytes, &handle, error);
    *handle_of(group, slot, rail) = status == KVR_OK ? handle : NOT_INSERTED;
    return status;
}

/* Nothing that this endpoint of the peer has posted may still arrive: it ended, or the session. */
static void forget(struct kvr_group *group, uint32_t peer, uint32_t peer_rail)
{
    uint32_t slot = slot_of(peer, peer_rail);

    if ((group->senders.rails[peer] >> peer_rail & 1) == 0)
        return;
    group->senders.rails[peer] &= ~(UINT64_C(1) << peer_rail);
    for (uint32_t rail = group->rail_first; rail < group->rail_end; rail++) {
        uint64_t handle = *handle_of(group, slot, rail);

        if (handle != NOT_INSERTED && group->rails[rail].endpoint != NULL)
            group->ops->peer_remove(group->rails[rail].endpoint, handle);
    }
}

/* Checks the numbers of the wire once more. */
static kvr_status sender_check(const struct kvr_group_sender *asked)
{
    return asked->peer < KVR_PEERS_MAX && asked->rail < KVR_RAILS_MAX && asked->address != NULL &&
                   asked->address->bytes <= KVR_ADDRESS_BYTES
               ? KVR_OK
               : KVR_INVALID;
}

static kvr_status sender_take(struct kvr_group *group, const struct kvr_group_sender *asked)
{
    uint32_t slot = slot_of(asked->peer, asked->rail);
    struct group_sender *sender = &group->senders.slots[slot];
    kvr_status status = KVR_OK;

    forget(group, asked->peer, asked->rail);
    sender->serial = asked->serial;
    sender->bytes = asked->address->bytes;
    memcpy(sender->address, asked->address->address, sender->bytes);
    group->senders.rails[asked->peer] |= UINT64_C(1) << asked->rail;
    for (uint32_t rail = group->rail_first; rail < group->rail_end; rail++) {
        kvr_status inserted = insert(group, slot, rail, NULL);

        status = status == KVR_OK ? inserted : status;
    }
    return status;
}

void group_sender(struct kvr_group *group, const struct kvr_group_message *message)
{
    struct kvr_group_message answer = {.head.kind = KVR_GROUP_SENDER_SET,
                                       .sender = message->sender};

    answer.sender.status = sender_check(&message->sender);
    if (answer.sender.status == KVR_OK && group->senders.slots != NULL)
        answer.sender.status = sender_take(group, &message->sender);
    kvr_group_tell(group, &answer);
}

void group_senders_drop(struct kvr_group *group, uint32_t peer)
{
    for (uint32_t rail = 0; peer < KVR_PEERS_MAX && rail < KVR_RAILS_MAX; rail++)
        forget(group, peer, rail);
}

void group_senders_insert(struct kvr_group *group, uint32_t rail)
{
    if (group->senders.slots == NULL)
        return;
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        for (uint32_t of = 0; group->senders.rails[peer] >> of != 0; of++) {
            uint32_t slot = slot_of(peer, of);
            struct kvr_group_message lost = {
                .head.kind = KVR_GROUP_SENDER_SET,
                .sender = {.peer = peer, .rail = of, .serial = group->senders.slots[slot].serial}};

            if ((group->senders.rails[peer] >> of & 1) == 0)
                continue;
            lost.sender.status = insert(group, slot, rail, NULL);
            if (lost.sender.status == KVR_OK)
                continue;
            kvr_group_tell(group, &lost);
            break; /* its session ends: one report of this peer is enough */
        }
    }
}

/* ---- the agent that writes ------------------------------------------------------------------- */

bool group_link_is_unknown(const struct kvr_group *group, const struct group_link *link,
                           const struct kvr_rail_address *address)
{
    return address->needs_senders &&
           group->peers[link->peer].known_epochs[link->pair.rail] != link->rail->address.epoch;
}

void group_sender_known(struct kvr_group *group, const struct kvr_group_message *message)
{
    const struct kvr_group_sender_known *known = &message->sender_known;
    struct group_peer *peer = known->peer < KVR_PEERS_MAX ? &group->peers[known->peer] : NULL;

    if (peer == NULL || !peer->known || known->rail < group->rail_first ||
        known->rail >= group->rail_end)
        return;
    peer->known_epochs[known->rail] = known->epoch;
    for (uint32_t i = 0; i < peer->link_count; i++) {
        struct group_link *link = peer->links[i];

        if (link->pair.rail == known->rail)
            link->unknown = link->unknown && known->epoch != link->rail->address.epoch;
    }
    if (group->scratch != NULL)
        group->timers.warm_at = group->now;
}
