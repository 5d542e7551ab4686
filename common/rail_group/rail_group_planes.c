/* Which links a peer gets (rail_pairs.h), and when one that joins two planes is used.
 *
 * Such a link may lead nowhere. A write that was posted on it then hangs until its silence is
 * noticed. So it is posted on, and warmed up, only where nothing better is left. */
#include <assert.h>

#include "base/mutant.h"
#include "rail_group/rail_group_state.h"

/* The rails of one kind, ours or those of one group of the peer. */
struct rails {
    uint32_t count;
    uint32_t numbers[KVR_RAILS_MAX]; /* ours: the agent's; theirs: places in the peer's list */
    const char *planes[KVR_RAILS_MAX];
};

static void rails_add(struct rails *rails, uint32_t number, const char *plane)
{
    rails->numbers[rails->count] = number;
    rails->planes[rails->count++] = KVR_MUTANT(planes_by_place) ? "" : plane;
}

static void ours_take(const struct kvr_group *group, bool same_host, struct rails *ret_ours)
{
    ret_ours->count = 0;
    for (uint32_t i = group->rail_first; i < group->rail_end; i++)
        if (group->rails[i].same_host == same_host)
            rails_add(ret_ours, i, group->rails[i].plane);
}

/* Those of the group of the peer's rail at this place. False: an earlier one is of the same group.
 */
static bool theirs_take(const struct group_peer *peer, uint32_t place, bool same_host,
                        struct rails *ret_theirs)
{
    ret_theirs->count = 0;
    for (uint32_t i = 0; i < peer->rail_count; i++) {
        const struct kvr_rail_address *rail = &peer->rails[i];

        if (rail->same_host != same_host || rail->group != peer->rails[place].group)
            continue;
        if (i < place)
            return false;
        rails_add(ret_theirs, i, rail->plane);
    }
    return ret_theirs->count > 0 && ret_theirs->numbers[0] == place;
}

static uint32_t groups_count(const struct group_peer *peer, bool same_host)
{
    struct rails theirs;
    uint32_t count = 0;

    for (uint32_t i = 0; i < peer->rail_count; i++)
        count += theirs_take(peer, i, same_host, &theirs);
    return count;
}

/* Links that a peer is to get. */
struct wanted {
    uint32_t count;
    struct wanted_link {
        uint32_t turn;        /* 0 for the first pair of each group of the peer, then 1 … */
        uint32_t rail, place; /* ours, and in the peer's list */
        bool far;
    } links[GROUP_LINKS_MAX];
};

/* All of our rails reach every group of the peer. With so many groups that this would exceed the
 * number of links, fewer of our rails reach each group. */
static void wanted_take(const struct group_peer *peer, const struct rails *ours, bool same_host,
                        struct wanted *ret_wanted)
{
    uint32_t groups = groups_count(peer, same_host);
    uint32_t most = groups > 0 ? KVR_RAILS_MAX / groups : 0;
    struct kvr_rail_pair pairs[KVR_RAIL_PAIRS_MAX];
    struct rails theirs;

    ret_wanted->count = 0;
    for (uint32_t i = 0; i < peer->rail_count; i++) {
        uint32_t count = 0;

        if (theirs_take(peer, i, same_host, &theirs))
            count = kvr_rail_pairs(ours->planes, ours->count, theirs.planes, theirs.count, pairs);
        for (uint32_t k = 0; k < count; k++) {
            if (k >= theirs.count && pairs[k].ours >= most)
                continue;
            assert(ret_wanted->count <
                   GROUP_LINKS_MAX); /* `most` bounds those beyond their rails */
            ret_wanted->links[ret_wanted->count++] =
                (struct wanted_link){.turn = k,
                                     .rail = ours->numbers[pairs[k].ours],
                                     .place = theirs.numbers[pairs[k].theirs],
                                     .far = pairs[k].far};
        }
    }
}

static void link_add(struct kvr_group *group, uint32_t index, const struct wanted_link *wanted)
{
    struct group_peer *peer = &group->peers[index];
    const struct kvr_rail_address *address = &peer->rails[wanted->place];
    struct group_link like = {
        .peer = index,
        .pair.rail = wanted->rail,
        .far = wanted->far && group->other_planes != KVR_OTHER_PLANES_ALWAYS,
        .there = address->group,
    };

    if (like.far && group->other_planes == KVR_OTHER_PLANES_NEVER) {
        (void)kvr_error_set(&group->unreachable, KVR_NO_RAIL, "rail_group",
                            "rail %u of the peer is in plane '%s', and no rail of ours may write "
                            "there (--other-planes never)",
                            address->rail, address->plane);
        return;
    }
    assert(peer->link_count < GROUP_LINKS_MAX); /* one of ours is for this host, or all */
    peer->far_count += like.far;
    group_link_make(group, &peer->links[peer->link_count++], &like, address);
}

/* Rails that only agents of this host write to are paired with such rails, the other rails with the
 * other rails. A search for a link goes through all of the peer's: links to one group lie apart, so
 * that the search begins at each of them as often. */
void group_links_make(struct kvr_group *group, uint32_t index, bool same_host)
{
    struct wanted wanted;
    struct rails ours;
    uint32_t added = 0;

    ours_take(group, same_host, &ours);
    wanted_take(&group->peers[index], &ours, same_host, &wanted);
    for (uint32_t turn = 0; added < wanted.count; turn++) {
        for (uint32_t i = 0; i < wanted.count; i++) {
            if (wanted.links[i].turn != turn)
                continue;
            link_add(group, index, &wanted.links[i]);
            added++;
        }
    }
}

/* ---- use ------------------------------------------------------------------------------------- */

bool group_link_may_instead(const struct group_peer *peer, const struct group_link *link,
                            const struct kvr_group_post *post)
{
    if (link->spare)
        return !group_spare_rests(peer, link);
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (group_link_works_near(peer->links[i]) && group_link_reaches(peer->links[i], post))
            return false;
    return true;
}

bool group_link_may_warm(const struct kvr_group *group, const struct group_link *link)
{
    const struct group_peer *peer = &group->peers[link->peer];

    if (link->spare)
        return !group_spare_rests(peer, link);
    for (uint32_t i = 0; link->far && i < peer->link_count; i++)
        if (group_link_works_near(peer->links[i]) && peer->links[i]->there == link->there)
            return false;
    return true;
}
