/* Peers of a rail group and the links (pairs at work) to them.
 *
 * An address leaves the provider's table only when no write to it is in flight: providers do not
 * define the fate of a write to an address that was removed. Until then the link is retired:
 * nothing is posted on it, and it ends with its last write. */
#include "rail_group/rail_group_state.h"

#include <assert.h>
#include <string.h>

/* Writes come through over another pair of its rail. One that no write has left over is no sign of
 * that: without warm-up a pair seems usable on an endpoint that is dead. Neither is one over which
 * nothing came since the endpoint had an error. */
static bool is_shared(struct kvr_group *group, const struct group_link *link)
{
    for (uint32_t i = 0; i < group->links.reach; i++) {
        const struct group_link *other = kvr_pool_at(&group->links, i, NULL);

        if (other != NULL && other != link && other->rail == link->rail &&
            other->state == LINK_USABLE && !other->doubted && other->proven &&
            other->warmth != LINK_COLD &&
            (link->rail->error_at == 0 || other->look.through_at > link->rail->error_at))
            return true;
    }
    return false;
}

static void tell_broken(struct kvr_group *group, const struct group_link *link, kvr_status status)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_PAIR_BROKEN,
        .pair_broken = {.peer = link->peer,
                        .status = status,
                        .pair = link->pair,
                        .proven = link->proven,
                        .shared = is_shared(group, link),
                        .fresh =
                            status == KVR_TIMED_OUT && link->warmth == LINK_COLD && !link->spare},
    };

    kvr_group_tell(group, &message);
}

void group_link_break(struct kvr_group *group, struct group_link *link, kvr_status status)
{
    bool worked = link->proven && !link->doubted;

    if (link->state != LINK_USABLE)
        return;
    group_link_on(&link->state, LINK_FAILED);
    group_link_doubt(link, status);
    link->wanted = false;
    group_link_note(group, link);
    tell_broken(group, link, status);
    group_rewarm_later(group, link);
    group_spare_due(group, link, worked);
    if (group->peers[link->peer].far_count > 0 || group->spares_due)
        group->timers.warm_at = group->now; /* another pair may have become needed */
    group_peer_warmed(group, link->peer);
}

static const struct kvr_rail_address *peer_rail(const struct group_peer *peer, uint32_t rail)
{
    for (uint32_t i = 0; i < peer->rail_count; i++) {
        if (peer->rails[i].rail == rail)
            return &peer->rails[i];
    }
    return NULL;
}

/* Puts the peer's address into the table of the rail's endpoint; the link is usable or broken. */
static void link_insert(struct kvr_group *group, struct group_link *link)
{
    const struct kvr_rail_address *address =
        peer_rail(&group->peers[link->peer], link->pair.target_rail);
    struct group_rail *rail = &group->rails[link->pair.rail];
    kvr_status status = KVR_RAIL_FAILED;

    assert(!link->inserted);
    link->again.count = 0;
    link->renew_by = 0;
    link->unknown = group_link_is_unknown(group, link, address);
    if (address->bytes == 0) { /* the peer announces its next endpoint: nothing to repair here */
        group_link_on(&link->state, LINK_NO_ADDRESS);
        link->history.why = KVR_NO_RAIL;
        (void)kvr_error_set(&group->unreachable, KVR_NO_RAIL, "rail_group",
                            "the peer has no endpoint on its rail %u just now", address->rail);
        return;
    }
    group_link_on(&link->state, LINK_RENEWED);
    if (rail->endpoint != NULL)
        status = group->ops->peer_insert(rail->endpoint, address->address, address->bytes,
                                         &link->handle, &group->unreachable);
    link->inserted = status == KVR_OK;
    if (status != KVR_OK)
        group_link_break(group, link, status);
    else
        group_link_cool(group, link, address);
}

void group_link_remove(struct kvr_group *group, struct group_link *link)
{
    struct group_peer *peer = &group->peers[link->peer];

    assert(link->writes == 0);
    (void)group_link_close(group, link);
    group_link_disconnected(link);
    if (link->inserted)
        group->ops->peer_remove(group->rails[link->pair.rail].endpoint, link->handle);
    if (peer->batch_link == link)
        peer->batch_link = NULL;
    kvr_pool_release(&group->links, link->id);
}

void group_link_retire(struct kvr_group *group, struct group_link *link)
{
    kvr_ns silent_at = group->now + group->timers.silence_ns / 2;

    group_link_on(&link->state, LINK_REPLACED);
    link->progress_at = group->now;
    if (link->writes == 0)
        group_link_remove(group, link);
    else if (group->timers.silence_ns > 0 && silent_at < group->timers.silence_at)
        group->timers.silence_at = silent_at;
}

/* The link stands at `place` before its address is inserted: where that fails, the peer's links are
 * looked through. */
void group_link_make(struct kvr_group *group, struct group_link **place,
                     const struct group_link *like, const struct kvr_rail_address *address)
{
    uint64_t id;
    struct group_link *link = kvr_pool_acquire(&group->links, &id);

    assert(link != NULL); /* the pool holds every peer's links and one retired link a flight */
    link->id = id;
    link->rail = &group->rails[like->pair.rail];
    link->peer = like->peer;
    link->far = like->far;
    link->spare = like->spare;
    link->tries = like->tries;
    link->there = like->there;
    link->carried = like->carried;
    link->history = like->history;
    link->slow = like->slow;
    kvr_pace_take(&link->pace, &like->pace);
    link->pair = (struct kvr_pair){like->pair.rail, address->rail, address->epoch};
    *place = link;
    link_insert(group, link);
}

/* Checks once more the peer's rails, which came over the wire. */
static kvr_status check_rails(const struct kvr_group *group, uint32_t index,
                              const struct kvr_peer_rails *rails)
{
    if (index >= KVR_PEERS_MAX || rails == NULL || rails->rail_count == 0 ||
        rails->rail_count > KVR_RAILS_MAX)
        return KVR_INVALID;
    for (uint32_t i = 0; i < rails->rail_count; i++) {
        if (rails->rails[i].bytes > KVR_ADDRESS_BYTES || rails->rails[i].rail >= KVR_RAILS_MAX ||
            rails->rails[i].group >= KVR_RAILS_MAX)
            return KVR_INVALID;
        for (uint32_t j = 0; j < i; j++) {
            if (rails->rails[i].rail == rails->rails[j].rail)
                return KVR_INVALID;
        }
    }
    return group->peers[index].known ? KVR_EXISTS : KVR_OK;
}

void group_peer_add(struct kvr_group *group, const struct kvr_group_message *message)
{
    struct kvr_peer_rails *rails = message->peer_rails.rails;
    uint32_t index = message->peer_rails.peer;
    struct kvr_group_message answer = {
        .head.kind = KVR_GROUP_PEER_ADDED,
        .peer_rails = {.peer = index, .status = check_rails(group, index, rails), .rails = rails},
    };
    struct group_peer *peer;
    uint32_t usable = 0;

    if (answer.peer_rails.status != KVR_OK) {
        kvr_group_tell(group, &answer);
        return;
    }
    peer = &group->peers[index];
    memset(peer, 0, sizeof(*peer));
    peer->unconfirmed = message->head.at < group->absence.resumed_at ? group->absence.count
                                                                     : 0; /* added before that */
    peer->added_at = group->now;
    peer->rail_count = rails->rail_count;
    memcpy(peer->rails, rails->rails, rails->rail_count * sizeof(peer->rails[0]));
    group->unreachable.detail[0] = '\0';
    group_links_make(group, index, false);
    group_links_make(group, index, true);
    peer->known = true; /* a pair that broke before says nothing of those that were still to come */
    memcpy(rails->unreachable, group->unreachable.detail, sizeof(rails->unreachable));
    for (uint32_t k = 0; k < peer->link_count; k++)
        usable += peer->links[k]->state == LINK_USABLE;
    answer.peer_rails.status = usable > 0 ? KVR_OK : KVR_NO_RAIL;
    kvr_group_tell(group, &answer);
}

static void link_doubt(struct kvr_group *group, struct group_link *link, kvr_status why)
{
    if (!link->doubted)
        group_link_doubt(link, why);
    group_spare_due(group, link, false);
}

/* It follows a link of the same pair. */
static void link_doubt_as(struct kvr_group *group, struct group_link *link,
                          const struct group_link *before)
{
    if (!before->doubted && !group_link_in_vain(before))
        return;
    if (link->state == LINK_USABLE)
        link_doubt(group, link, before->doubted ? before->history.why : KVR_EPOCH_ENDED);
    link->doubted = true;
    link->history.breaks = before->history.breaks + !before->doubted;
}

void group_peer_rail(struct kvr_group *group, const struct kvr_group_message *message)
{
    struct kvr_rail_address *successor = message->peer_rail.address;
    uint32_t index = message->peer_rail.peer;
    struct kvr_group_message answer = {
        .head.kind = KVR_GROUP_PEER_RAIL_SET,
        .peer_rail = {.peer = index, .status = KVR_NOT_FOUND, .address = successor},
    };
    struct group_peer *peer = NULL;
    struct kvr_rail_address *present = NULL;

    if (index < KVR_PEERS_MAX && group->peers[index].known)
        peer = &group->peers[index];
    if (peer != NULL && successor != NULL && successor->bytes <= KVR_ADDRESS_BYTES)
        present = (struct kvr_rail_address *)peer_rail(peer, successor->rail);
    if (present != NULL)
        answer.peer_rail.status = successor->epoch > present->epoch ? KVR_OK : KVR_STALE;
    if (answer.peer_rail.status != KVR_OK) {
        kvr_group_tell(group, &answer);
        return;
    }
    *present = *successor;
    for (uint32_t k = 0; k < peer->link_count; k++) {
        const struct group_link before = *peer->links[k];

        if (before.pair.target_rail != successor->rail)
            continue;
        group_link_retire(group, peer->links[k]);
        group_link_make(group, &peer->links[k], &before, present);
        peer->links[k]->history.renewals++;
        link_doubt_as(group, peer->links[k], &before);
    }
    group_peer_warmed(group, index);
    kvr_group_tell(group, &answer);
}

/* An address that no write has reached is tried anew without a new endpoint of ours: that would
 * cost the other peers what is on its way. */
void group_link_renew(struct kvr_group *group, struct group_link *link)
{
    if (link->inserted)
        group->ops->peer_remove(link->rail->endpoint, link->handle);
    link->inserted = false;
    group_spare_turn(group, link);
    link_insert(group, link);
}

/* A link that holds writes waits until they have ended. */
void group_pair_renew(struct kvr_group *group, const struct kvr_group_message *message)
{
    uint32_t index = message->pair_renew.peer;
    struct group_peer *peer = index < KVR_PEERS_MAX ? &group->peers[index] : NULL;

    for (uint32_t k = 0; peer != NULL && peer->known && k < peer->link_count; k++) {
        struct group_link *link = peer->links[k];

        if (link->pair.rail != message->pair_renew.rail || link->state != LINK_BROKEN ||
            link->proven || link->rail->endpoint == NULL)
            continue;
        if (link->writes == 0)
            group_link_renew(group, link);
        else
            group_link_renews_later(group, link);
    }
}

void group_peer_drop(struct kvr_group *group, const struct kvr_group_message *message)
{
    uint32_t index = message->peer_drop.peer;
    struct kvr_group_message answer = {
        .head.kind = KVR_GROUP_PEER_DROPPED,
        .peer_drop = {.peer = index, .status = KVR_NOT_FOUND},
    };

    if (index < KVR_PEERS_MAX && group->peers[index].known) {
        struct group_peer *peer = &group->peers[index];

        for (uint32_t k = 0; k < peer->link_count; k++)
            group_link_retire(group, peer->links[k]);
        peer->known = false;
        answer.peer_drop.status = KVR_OK;
    }
    group_senders_drop(group, index);
    kvr_group_tell(group, &answer);
}

void group_links_forget_endpoint(struct kvr_group *group, uint32_t rail)
{
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link == NULL || link->pair.rail != rail)
            continue;
        if (link->state != LINK_RETIRED && group_link_in_vain(link))
            link_doubt(group, link, KVR_EPOCH_ENDED);
        link->inserted = false;
        group_link_disconnected(link);
    }
}

void group_links_reinsert(struct kvr_group *group, uint32_t rail)
{
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link == NULL || link->pair.rail != rail || link->state == LINK_RETIRED ||
            link->inserted) /* by a command since */
            continue;
        if (link->state == LINK_BROKEN)
            group_spare_turn(group, link);
        link->history.renewals++;
        link_insert(group, link);
    }
}
