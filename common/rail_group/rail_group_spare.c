/* Spare pairs: when its pairs with a group of the peer are broken, a rail of ours tries other rails
 * of that group and its plane, one after the other. So it does when the first writes to the peer
 * are slow to come through. Which pairs work is known only by trying: a switch may have lost one
 * way, or a card may have been plugged in elsewhere.
 *
 * A spare pair is on trial at first, so a warm-up is risked on it and no user's write. It rests
 * when a pair of the rail that is not a spare works again. Once each rail was tried in vain, the
 * spare pair is tried anew like every broken pair, but with the next rail each time: a card may be
 * plugged in elsewhere at any time. */
#include "rail_group/rail_group_state.h"

/* Of the same rail and the same group of the peer. */
static bool is_beside(const struct group_link *link, const struct group_link *other)
{
    return link->pair.rail == other->pair.rail && link->there == other->there;
}

bool group_spare_rests(const struct group_peer *peer, const struct group_link *spare)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (!peer->links[i]->spare && is_beside(peer->links[i], spare) &&
            group_link_works_near(peer->links[i]))
            return true;
    return false;
}

/* The rail has such a pair that is no spare. */
static bool is_linked(const struct group_peer *peer, uint32_t rail, uint32_t target_rail)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (!peer->links[i]->spare && peer->links[i]->pair.rail == rail &&
            peer->links[i]->pair.target_rail == target_rail)
            return true;
    return false;
}

/* The peer's rail that a spare pair beside `link` may try. */
static bool suits(const struct group_peer *peer, const struct group_link *link,
                  const struct kvr_rail_address *rail)
{
    return rail->group == link->there && rail->same_host == link->rail->same_host &&
           rail->bytes > 0 && kvr_rail_planes_near(link->rail->plane, rail->plane) &&
           !is_linked(peer, link->pair.rail, rail->rail);
}

/* The next such rail behind the one of `link`, which is itself the last. NULL: there is none.
 * ret_count: how many there are. */
static const struct kvr_rail_address *next_rail(const struct group_peer *peer,
                                                const struct group_link *link, uint32_t *ret_count)
{
    const struct kvr_rail_address *next = NULL;
    uint32_t place = 0;

    *ret_count = 0;
    while (place < peer->rail_count && peer->rails[place].rail != link->pair.target_rail)
        place++;
    for (uint32_t i = 1; i <= peer->rail_count; i++) {
        const struct kvr_rail_address *rail = &peer->rails[(place + i) % peer->rail_count];

        if (!suits(peer, link, rail))
            continue;
        next = next != NULL ? next : rail;
        (*ret_count)++;
    }
    return next;
}

/* All of them have their turn before transfers without a pair give up. */
kvr_ns group_spare_silence(const struct kvr_group *group, const struct group_link *spare)
{
    uint32_t count;

    (void)next_rail(&group->peers[spare->peer], spare, &count);
    return kvr_group_doubt(group->timers.silence_ns) / (count > 2 ? count - 1 : 1);
}

/* Where the spare pair beside a broken one stands; or NULL. */
static struct group_link **spare_of(struct group_peer *peer, const struct group_link *broken)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i]->spare && is_beside(peer->links[i], broken))
            return &peer->links[i];
    return NULL;
}

static void spare_first(struct kvr_group *group, struct group_peer *peer,
                        const struct group_link *broken)
{
    struct group_link like = {.peer = broken->peer,
                              .pair.rail = broken->pair.rail,
                              .spare = true,
                              .tries = 1,
                              .there = broken->there};
    uint32_t count;
    const struct kvr_rail_address *rail = next_rail(peer, broken, &count);
    struct group_link **place = &peer->links[peer->link_count];

    if (rail == NULL || peer->link_count == GROUP_LINKS_MAX)
        return;
    peer->link_count++;
    group_link_make(group, place, &like, rail);
    (*place)->doubted = true;
}

static void spare_next(struct kvr_group *group, struct group_peer *peer, struct group_link **place)
{
    struct group_link like = **place;
    uint32_t count;
    const struct kvr_rail_address *rail = next_rail(peer, &like, &count);

    like.tries = like.proven ? 1 : like.tries + 1;
    like.carried = 0;
    group_link_forget_pair(&like);
    if (rail == NULL || like.state == LINK_USABLE || like.tries > count)
        return; /* it is being tried, or all were */
    group_link_retire(group, *place);
    group_link_make(group, place, &like, rail);
    (*place)->doubted = true;
}

void group_spare_due(struct kvr_group *group, const struct group_link *broken, bool worked)
{
    struct group_peer *peer = &group->peers[broken->peer];
    struct group_link **spare = spare_of(peer, broken);

    if (group->scratch == NULL || broken->far)
        return;
    group->spares_due = peer->spares_due = true;
    if (worked && spare != NULL)
        (*spare)->tries = 0;
}

void group_spare_turn(struct kvr_group *group, struct group_link *link)
{
    uint32_t count;
    const struct kvr_rail_address *rail;

    if (!link->spare || link->proven || link->writes > 0)
        return;
    rail = next_rail(&group->peers[link->peer], link, &count);
    if (rail == NULL)
        return;
    if (rail->rail != link->pair.target_rail)
        group_link_forget_pair(link);
    link->pair = (struct kvr_pair){link->pair.rail, rail->rail, rail->epoch};
}

/* Or it is about to break, as far as is known. */
static bool is_broken(const struct kvr_group *group, const struct group_peer *peer,
                      const struct group_link *link)
{
    return link->state == LINK_BROKEN ||
           (group_link_on_trial(link) && !link->spare &&
            (peer->warmth != PEER_WARM || group_peer_is_silent(group, peer)));
}

void group_spares_make(struct kvr_group *group)
{
    for (uint32_t index = 0; group->spares_due && index < KVR_PEERS_MAX; index++) {
        struct group_peer *peer = &group->peers[index];
        uint32_t count = peer->link_count;

        for (uint32_t i = 0; peer->spares_due && peer->known && i < count; i++) {
            const struct group_link *link = peer->links[i];
            struct group_link **spare;

            if (!is_broken(group, peer, link) || link->far || group_spare_rests(peer, link))
                continue;
            spare = spare_of(peer, link);
            if (spare != NULL)
                spare_next(group, peer, spare);
            else
                spare_first(group, peer, link);
        }
        peer->spares_due = false;
    }
    group->spares_due = false;
}
