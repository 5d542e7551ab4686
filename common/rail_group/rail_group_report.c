/* What the loop may know of the pairs with a peer. It asks for a part of them at a time: the answer
 * to one command has a bound. */
#include "rail_group/rail_group_state.h"

#define PAIRS_A_PART 32u

static kvr_pair_state pair_state(const struct kvr_group *group, const struct group_link *link)
{
    if (link->spare && group_spare_rests(&group->peers[link->peer], link))
        return KVR_PAIR_SPARE;
    if (link->slow.is && (link->state == LINK_USABLE || link->history.why == KVR_TOO_SLOW))
        return KVR_PAIR_SLOW;
    if (link->state != LINK_USABLE)
        return KVR_PAIR_UNREACHABLE;
    if (!group_link_may_warm(group, link))
        return KVR_PAIR_SPARE; /* in doubt or not: it is not wanted */
    if (link->doubted)
        return KVR_PAIR_DOUBTED;
    if (link->warmth == LINK_COLD)
        return KVR_PAIR_WARMING;
    return link->proven ? KVR_PAIR_WARM : KVR_PAIR_UP;
}

void group_link_note(const struct kvr_group *group, struct group_link *link)
{
    kvr_pair_state state;

    if (link->state == LINK_RETIRED)
        return; /* its peer's links may be gone */
    state = pair_state(group, link);
    if (state == link->history.state && link->history.since != 0)
        return;
    link->history.state = state;
    link->history.since = group->now;
}

static kvr_status why_of(const struct group_link *link)
{
    if (link->history.state == KVR_PAIR_SLOW)
        return KVR_TOO_SLOW;
    return kvr_pair_in_trouble(link->history.state) ? link->history.why : KVR_OK;
}

static void pair_tell(struct kvr_group *group, struct group_link *link)
{
    bool rests;
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PAIR};

    group_link_note(group, link);
    rests = link->history.state == KVR_PAIR_SLOW && link->slow.trial_at > group->now;
    message.pair = (struct kvr_group_pair){
        .peer = link->peer,
        .rail = (uint16_t)link->pair.rail,
        .target_rail = (uint16_t)link->pair.target_rail,
        .state = link->history.state,
        .why = why_of(link),
        .bytes = link->carried,
        .since = link->history.since,
        .rests_until = rests ? link->slow.trial_at : 0,
        .breaks = link->history.breaks,
        .renewals = link->history.renewals,
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
