/* Spare pairs: when its pairs with a group of the peer are broken, a rail of ours tries other rails
 * of that group and its plane, one after the other. Which pairs work is known only by trying: a
 * switch may have lost one way, or a card may have been plugged in elsewhere.
 *
 * A spare pair is on trial at first, so a warm-up is risked on it and no user's write. It rests
 * when a pair of the rail that is not a spare works again. Once each rail was tried in vain, the
 * last one stays, and is tried anew like every broken pair. */
#include "rail_group/rail_group_state.h"

static bool works(const struct group_link *link)
{
    return link->state == LINK_USABLE && !link->doubted && !link->far;
}

/* Of the same rail and the same group of the peer. */
static bool is_beside(const struct group_link *link, const struct group_link *other)
{
    return link->pair.rail == other->pair.rail && link->there == other->there;
}

bool group_spare_rests(const struct group_peer *peer, const struct group_link *spare)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (!peer->links[i]->spare && is_beside(peer->links[i], spare) && works(peer->links[i]))
            return true;
    return false;
}

static bool is_linked(const struct group_peer *peer, const struct group_link *broken,
                      uint32_t target_rail)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i]->pair.rail == broken->pair.rail &&
            peer->links[i]->pair.target_rail == target_rail)
            return true;
    return false;
}

/* The next rail of that group, behind the broken pair's. NULL: there is none to try. */
static const struct kvr_rail_address *next_rail(const struct group_peer *peer,
                                                const struct group_link *broken)
{
    uint32_t place = 0;

    while (place < peer->rail_count && peer->rails[place].rail != broken->pair.target_rail)
        place++;
    for (uint32_t i = 1; i < peer->rail_count; i++) {
        const struct kvr_rail_address *rail = &peer->rails[(place + i) % peer->rail_count];

        if (rail->group == broken->there && rail->same_host == broken->rail->same_host &&
            rail->bytes > 0 && kvr_rail_planes_near(broken->rail->plane, rail->plane) &&
            !is_linked(peer, broken, rail->rail))
            return rail;
    }
    return NULL;
}

/* Where the spare pair beside a broken one stands, or is to stand; NULL: there is no room. */
static struct group_link **place_of(struct group_peer *peer, const struct group_link *broken)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i]->spare && is_beside(peer->links[i], broken))
            return &peer->links[i];
    return peer->link_count < GROUP_LINKS_MAX ? &peer->links[peer->link_count] : NULL;
}

static void spare_make(struct kvr_group *group, struct group_peer *peer,
                       const struct group_link *broken)
{
    const struct kvr_rail_address *rail = next_rail(peer, broken);
    struct group_link **place = place_of(peer, broken);
    struct group_link like = {.peer = broken->peer,
                              .pair.rail = broken->pair.rail,
                              .spare = true,
                              .there = broken->there};

    if (rail == NULL || place == NULL)
        return;
    if (place == &peer->links[peer->link_count]) {
        peer->link_count++;
    } else {
        like.tries = (*place)->proven ? 0 : (*place)->tries + 1;
        if ((*place)->state == LINK_USABLE || like.tries >= peer->rail_count)
            return; /* it is being tried, or all were */
        group_link_retire(group, *place);
    }
    group_link_make(group, place, &like, rail);
    (*place)->doubted = true;
}

void group_spares_make(struct kvr_group *group)
{
    for (uint32_t index = 0; group->spares_due && index < KVR_PEERS_MAX; index++) {
        struct group_peer *peer = &group->peers[index];
        uint32_t count = peer->link_count;

        for (uint32_t i = 0; peer->spares_due && peer->known && i < count; i++) {
            const struct group_link link = *peer->links[i];

            if (link.state == LINK_BROKEN && !link.far && !group_spare_rests(peer, &link))
                spare_make(group, peer, &link);
        }
        peer->spares_due = false;
    }
    group->spares_due = false;
}
