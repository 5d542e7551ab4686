/* Links that deliver far less than their siblings: a card that negotiated a low speed, a damaged
 * cable, a path that loses most packets, or everything.
 *
 * A sibling is another link to the same group of the same peer, over another rail of ours. What is
 * queued on a slow link is late for its transfers although a sibling could carry it. So the writes
 * on their way are looked at several times in a silence bound. The link breaks if a sibling carries
 * bytes now, and the rest of the queue would take SLOWER times as long as on the sibling. Then what
 * was posted on it goes over the siblings.
 *
 * A link that was found slow rests, longer each time. Then warm-ups are timed: the first one
 * connects, the next one must be about as fast as a sibling. Where no sibling works, a slow link is
 * better than none. */
#include "base/mutant.h"
#include "rail_group/rail_group_state.h"

#define LOOKS       4  /* in the time that the first verdict takes */
#define SILENCES    8  /* that time is this part of the silence bound */
#define LATE        4  /* times what the pace promised: then nothing will come through */
#define SLOWER      20 /* than a sibling */
#define RESTS_MAX   32 /* silence bounds: the longest rest */
#define STEADY      8  /* rests without a finding: the next one is short again */
#define TRIAL_PARTS 8  /* a warm-up that takes less than this part of the first verdict is good */

static kvr_ns verdict_ns(const struct kvr_group *group)
{
    return group->timers.silence_ns / SILENCES;
}

kvr_ns group_look_ns(const struct kvr_group *group)
{
    return verdict_ns(group) / LOOKS;
}

static void look_begin(struct kvr_group *group, struct group_link *link)
{
    kvr_ns rail = kvr_pace_of(&link->rail->pace, link->rail->bytes);
    kvr_ns pair = kvr_pace_of(&link->pace, link->bytes);

    link->look.mark = link->look.posted;
    link->look.carried = link->carried;
    link->look.since = group->now;
    link->look.promised = rail > pair ? rail : pair;
}

static bool is_sibling(const struct group_link *link, const struct group_link *other)
{
    return other->there == link->there && other->pair.rail != link->pair.rail &&
           other->rail->same_host == link->rail->same_host && other->state == LINK_USABLE &&
           other->proven && !other->doubted && !other->unknown;
}

bool group_link_has_sibling(const struct kvr_group *group, const struct group_link *link)
{
    const struct group_peer *peer = &group->peers[link->peer];

    for (uint32_t i = 0; i < peer->link_count; i++)
        if (is_sibling(link, peer->links[i]))
            return true;
    return false;
}

/* The fastest sibling over which something has come through in this look. NULL: none. Those that
 * rest are asked to prove that they would. */
static const struct group_link *sibling_that_carries(struct kvr_group *group,
                                                     const struct group_link *link)
{
    const struct group_peer *peer = &group->peers[link->peer];
    const struct group_link *found = NULL;

    for (uint32_t i = 0; i < peer->link_count; i++) {
        struct group_link *other = peer->links[i];

        if (!is_sibling(link, other))
            continue;
        if (other->look.through_at > link->look.since) {
            if (found == NULL ||
                kvr_pace_of(&other->pace, KVR_PACE_UNIT) < kvr_pace_of(&found->pace, KVR_PACE_UNIT))
                found = other;
        } else if (other->writes == 0 && other->warmth == LINK_WARM &&
                   other->rail->writes < other->rail->writes_max) {
            group_link_probe(group, other);
        }
    }
    return found;
}

/* Whether the queue would take so much longer than on the sibling. */
static bool is_slow(const struct kvr_group *group, const struct group_link *link,
                    const struct group_link *sibling)
{
    uint64_t delivered = link->carried - link->look.carried;
    kvr_ns looked = group->now - link->look.since, rest;
    kvr_ns bound = SLOWER * kvr_pace_of(&sibling->pace, link->bytes);

    if (delivered == 0)
        return looked >= kvr_min_u64(LATE * link->look.promised, bound);
    if (__builtin_mul_overflow(link->bytes, looked, &rest))
        return true;
    rest /= delivered;
    return rest >= verdict_ns(group) && rest >= bound;
}

/* From now on, for longer than the last time if that was not long ago. */
static void rest_begin(const struct kvr_group *group, struct group_slow *slow, bool longer)
{
    kvr_ns silence = group->timers.silence_ns;

    slow->rest_ns = longer ? kvr_min_u64(2 * slow->rest_ns, RESTS_MAX * silence) : silence;
    slow->is = true;
    slow->since = group->now;
    slow->trial_at = group->now + slow->rest_ns;
}

static void found_slow(struct kvr_group *group, struct group_link *link)
{
    struct group_slow *slow = &link->slow;
    uint64_t delivered = link->carried - link->look.carried;

    rest_begin(group, slow, slow->rest_ns > 0 && group->now - slow->since < STEADY * slow->rest_ns);
    kvr_pace_begin(&link->pace, link->look.since);
    kvr_pace_forget(&link->pace);
    kvr_pace_settled(&link->pace, delivered > 0 ? delivered : 1, group->now);
    group_link_break(group, link, KVR_TOO_SLOW);
}

/* A warm-up behind the last writes shows whether they come. It matters where a sibling would carry
 * them. */
void group_link_ask(struct kvr_group *group, struct group_link *link)
{
    kvr_ns at = link->look.asked_at + group_look_ns(group);

    if (!link->look.unasked || link->writes > 0 || link->state != LINK_USABLE ||
        link->warmth != LINK_WARM || link->again.count > 0 || group_look_ns(group) == 0 ||
        !group_link_has_sibling(group, link))
        return;
    if (group->now < at || link->rail->writes >= link->rail->writes_max)
        group->timers.silence_at = kvr_min_u64(
            group->timers.silence_at, at > group->now ? at : group->now + group_look_ns(group));
    else
        group_link_probe(group, link);
}

kvr_ns group_link_look(struct kvr_group *group, struct group_link *link)
{
    struct group_look *look = &link->look;
    kvr_ns next = group->now + group_look_ns(group);
    const struct group_link *sibling;

    if (link->writes == 0 || group_look_ns(group) == 0 || KVR_MUTANT(slow_rail_kept))
        return KVR_NEVER;
    if (look->since == 0 || link->look.posted - link->writes >= look->mark)
        look_begin(group, link);
    if (group->now - look->since < verdict_ns(group) || !link->proven || link->warmth == LINK_COLD)
        return next;
    sibling = sibling_that_carries(group, link);
    if (sibling == NULL)
        return next; /* it may be all of them: silence is judged */
    if (is_slow(group, link, sibling))
        found_slow(group, link);
    else if (link->carried > look->carried)
        look_begin(group, link);
    return next;
}

/* How long the warm-up may take. KVR_NEVER: no sibling works, and any pace is better than none. */
static kvr_ns trial_ns(const struct kvr_group *group, const struct group_link *link)
{
    const struct group_peer *peer = &group->peers[link->peer];
    kvr_ns good = verdict_ns(group) / TRIAL_PARTS;

    if (!group_link_has_sibling(group, link))
        return KVR_NEVER;
    for (uint32_t i = 0; i < peer->link_count; i++) {
        kvr_ns theirs = SLOWER * kvr_pace_of(&peer->links[i]->pace, link->scratch.bytes);

        if (is_sibling(link, peer->links[i]) && theirs > good)
            good = theirs;
    }
    return good;
}

/* The time to connect says nothing. */
void group_slow_tried(struct kvr_group *group, struct group_link *link, kvr_ns took)
{
    kvr_ns good = trial_ns(group, link);

    group->timers.warm_at = group->now; /* for the next one */
    if (link->connection == LINK_CONNECTING && good != KVR_NEVER) {
        link->slow.trial_at = group->now;
        link->wanted = true;
        return;
    }
    if (took > good) {
        rest_begin(group, &link->slow, true);
        return;
    }
    link->slow.is = false;
    kvr_pace_forget(&link->pace);
    kvr_pace_look(&link->pace, link->scratch.bytes, took);
    if (link->pace.unit_ns < link->rail->pace.unit_ns)
        kvr_pace_take(&link->rail->pace, &link->pace);
}
