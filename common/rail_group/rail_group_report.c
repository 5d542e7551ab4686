/* What the loop may know of the pairs with a peer. It asks for a part of them at a time: the answer
 * to one command has a bound. */
#include "rail_group/rail_group_state.h"

#define PAIRS_A_PART 32u

static kvr_pair_state pair_state(const struct kvr_group *group, const struct group_link *link)
{
    if (link->state != LINK_USABLE)
        return KVR_PAIR_UNREACHABLE;
    if (link->doubted)
        return KVR_PAIR_SLOW;
    if (!group_link_may_warm(group, link))
        return KVR_PAIR_SPARE;
    return link->proven ? KVR_PAIR_WARM : KVR_PAIR_UP;
}

static void pair_tell(struct kvr_group *group, const struct group_link *link)
{
    kvr_pair_state state = pair_state(group, link);
    bool fails = state == KVR_PAIR_UNREACHABLE || state == KVR_PAIR_SLOW;
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_PAIR,
        .pair = {.peer = link->peer,
                 .rail = link->pair.rail,
                 .target_rail = link->pair.target_rail,
                 .state = state,
                 .why = fails ? link->why : KVR_OK,
                 .bytes = link->carried},
    };

    kvr_group_tell(group, &message);
}

void group_pairs_report(struct kvr_group *group, const struct kvr_group_message *message)
{
    uint32_t index = message->pairs_ask.peer, at = message->pairs_ask.first;
    const struct group_peer *peer = index < KVR_PEERS_MAX ? &group->peers[index] : NULL;
    uint32_t count = peer != NULL && peer->known ? peer->link_count : 0;
    uint32_t end = at < count ? at + kvr_min_u32(count - at, PAIRS_A_PART) : 0;
    struct kvr_group_message last = {
        .head.kind = KVR_GROUP_PAIRS_END,
        .pairs_end = {.peer = index, .next = end < count ? end : 0},
    };

    for (; at < end; at++)
        pair_tell(group, peer->links[at]);
    kvr_group_tell(group, &last);
}
