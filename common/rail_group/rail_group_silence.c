/* Links without progress, and what their writes hold. */
#include "rail_group/rail_group_state.h"

#define HANGS_ALONE 10 /* times the silence of another link */

/* The link holds writes, or refuses each write that is tried. */
static bool link_owes(const struct kvr_group *group, const struct group_link *link)
{
    return link->writes > 0 ||
           (link->again.count > 0 && group->now < link->again.until + group->timers.silence_ns / 2);
}

/* A peer that is gone left nothing but a warm-up write, to an address that never answered. The
 * write reads a page of ours that is never given away. So it may hang for a while, as long as few
 * do. Else peers that come and go would cost the others the endpoint each time. */
static bool hangs_alone(const struct group_link *link)
{
    return !link->proven && link->writes == 1 && link->warming != 0 &&
           2 * link->rail->writes < link->rail->writes_max;
}

/* A spare pair, and no pair with that group of the peer works. */
static bool is_last_resort(const struct group_peer *peer, const struct group_link *link)
{
    for (uint32_t i = 0; link->spare && i < peer->link_count; i++) {
        const struct group_link *other = peer->links[i];

        if (other->there == link->there && other->state == LINK_USABLE && !other->doubted)
            return false;
    }
    return link->spare;
}

/* Nothing reaches its peer yet, or any more: fetches wait to hear whether anything can. */
static bool is_first_trial(const struct kvr_group *group, const struct group_link *link)
{
    const struct group_peer *peer = &group->peers[link->peer];

    return link->state == LINK_USABLE && link->warmth == LINK_COLD &&
           (peer->warmth != PEER_WARM || is_last_resort(peer, link));
}

/* How long writes may be without progress. */
static kvr_ns silence_of(const struct kvr_group *group, const struct group_link *link)
{
    kvr_ns silence = group->timers.silence_ns;

    if (is_first_trial(group, link))
        return link->spare ? group_spare_silence(group, link) : kvr_group_trial(silence);
    if (link->state != LINK_RETIRED)
        return silence;
    return hangs_alone(link) ? HANGS_ALONE * silence : silence / 2;
}

/* When a pair that has carried nothing is in doubt, or never. In its first trial that is soon.
 * Later the whole peer was silent for the bound: other pairs break then, and transfers must hear
 * that none is left. Else its own time would come after theirs. */
static kvr_ns doubt_at(const struct kvr_group *group, const struct group_link *link)
{
    kvr_ns from = group->peers[link->peer].silent_from;

    if (link->state != LINK_USABLE || link->warmth != LINK_COLD || link->doubted)
        return KVR_NEVER;
    if (is_first_trial(group, link))
        return link->progress_at + kvr_group_doubt(group->timers.silence_ns);
    return from != 0 ? from + group->timers.silence_ns : KVR_NEVER;
}

/* When the link has been silent for too long. Where a pair fails, others follow, and fresh
 * endpoints of either end: the peer's silence does not begin anew with each. But each has the time
 * to connect. */
static kvr_ns silence_end(const struct kvr_group *group, const struct group_link *link)
{
    kvr_ns end = link->progress_at + silence_of(group, link), silence = group->timers.silence_ns;
    kvr_ns from = group->peers[link->peer].silent_from;
    kvr_ns least = link->progress_at + kvr_group_soon(silence);

    if (link->state == LINK_RETIRED || is_first_trial(group, link) || from == 0)
        return end;
    return kvr_min_u64(end, from + silence > least ? from + silence : least);
}

/* When something is due of a link that owes something. */
static kvr_ns look_at(const struct kvr_group *group, const struct group_link *link)
{
    return kvr_min_u64(silence_end(group, link), doubt_at(group, link));
}

static bool rests(const struct kvr_group *group, const struct group_peer *peer)
{
    return peer->silent_from == 0 || group->now - peer->owed_at > group->timers.silence_ns / 2;
}

bool group_peer_is_silent(const struct kvr_group *group, const struct group_peer *peer)
{
    return !rests(group, peer) && group->now - peer->silent_from >= group->timers.silence_ns;
}

/* A short rest ends no silence: fresh endpoints are opened, and the next chunks are asked for. */
static void peer_owes(struct kvr_group *group, struct group_peer *peer)
{
    if (rests(group, peer))
        peer->silent_from = group->now;
    peer->owed_at = group->now;
}

void group_silence_ends(struct kvr_group *group, const struct group_link *link)
{
    struct group_peer *peer = &group->peers[link->peer];

    peer->silent_from = 0;
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i]->state == LINK_USABLE && peer->links[i]->writes > 0)
            peer->silent_from = peer->owed_at = group->now;
}

kvr_ns kvr_group_silent_from(const struct kvr_group *group, uint32_t index)
{
    const struct group_peer *peer = &group->peers[index];

    return peer->known && !rests(group, peer) ? peer->silent_from : group->now;
}

void group_silence_begins(struct kvr_group *group, struct group_link *link)
{
    kvr_ns at;

    peer_owes(group, &group->peers[link->peer]);
    link->progress_at = group->now;
    link->look.since = 0;
    at = kvr_min_u64(look_at(group, link), group->now + group_look_ns(group));
    if (group->timers.silence_ns > 0 && at < group->timers.silence_at)
        group->timers.silence_at = at;
}

/* Its first write is slow, or gets nowhere. That write may still come through: a packet of the
 * connection may be lost. Other pairs are tried meanwhile. */
static void link_suspect(struct kvr_group *group, struct group_link *link)
{
    group_link_doubt(link, KVR_TIMED_OUT);
    group_link_note(group, link);
    group_spare_due(group, link, false);
    group->timers.warm_at = group->now;
    group_peer_warmed(group, link->peer);
}

/* A card that goes on trying holds a part of the window, or all of it: only a fresh endpoint of
 * ours ends that. */
static void tell_stuck(struct kvr_group *group, struct group_link *link)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RAIL_ERROR,
        .rail_error = {.rail = link->pair.rail,
                       .epoch = group->rails[link->pair.rail].address.epoch,
                       .status = KVR_FULL},
    };

    link->progress_at = group->now;
    kvr_group_tell(group, &message);
}

/* A broken link keeps its writes until its endpoint is replaced. Where such links hold the whole
 * window, the rail's usable links wait for room that never comes, and no transfer hears NO_RAIL. A
 * fresh endpoint then costs no peer anything: nothing else is on its way. */
static void rail_held(struct kvr_group *group, const struct group_rail *rail)
{
    struct group_link *last = NULL; /* the one with the latest progress */
    kvr_ns end;

    if (rail->writes < rail->writes_max && rail->bytes < rail->bytes_max)
        return;
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link == NULL || link->rail != rail || link->writes == 0)
            continue;
        if (link->state != LINK_BROKEN)
            return; /* its own silence is looked for */
        if (last == NULL || link->progress_at > last->progress_at)
            last = link;
    }
    if (last == NULL)
        return;
    end = last->progress_at + group->timers.silence_ns;
    if (group->now >= end)
        tell_stuck(group, last);
    else if (end < group->timers.silence_at)
        group->timers.silence_at = end;
}

void kvr_group_awaits(struct kvr_group *group, uint32_t index, const struct kvr_pair *pair)
{
    const struct group_peer *peer = &group->peers[index];

    if (!peer->known || group->timers.silence_ns == 0)
        return; /* links of a peer that is gone are retired: their own silence is looked for */
    for (uint32_t k = 0; k < peer->link_count; k++) {
        struct group_link *link = peer->links[k];

        if (link->state == LINK_BROKEN && link->writes > 0 && link->pair.rail == pair->rail &&
            link->pair.target_rail == pair->target_rail && link->pair.epoch == pair->epoch &&
            group->now >= link->progress_at + group->timers.silence_ns)
            tell_stuck(group, link);
    }
}

void group_link_renews_later(struct kvr_group *group, struct group_link *link)
{
    if (group->timers.silence_ns == 0)
        return;
    link->renew_by = link->progress_at + HANGS_ALONE * group->timers.silence_ns;
    group->timers.silence_at = group->now;
}

/* Writes of a broken link may hang for good, and it is not tried anew while they do. */
static void renewal_look(struct kvr_group *group, struct group_link *link)
{
    if (link->writes > 0 && group->now >= link->renew_by) {
        tell_stuck(group, link);
        link->renew_by = group->now + HANGS_ALONE * group->timers.silence_ns;
    }
    if (link->writes == 0)
        group_link_renew(group, link);
    else if (link->renew_by < group->timers.silence_at)
        group->timers.silence_at = link->renew_by;
}

/* A broken link was reported already. The writes of a retired link can arrive nowhere: their peer
 * is gone, or has another address. */
void group_links_silent(struct kvr_group *group)
{
    group->timers.silence_at = KVR_NEVER;
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);
        bool retired = link != NULL && link->state == LINK_RETIRED;
        kvr_ns next;

        if (link != NULL && link->state == LINK_BROKEN && link->renew_by != 0)
            renewal_look(group, link);
        if (link == NULL || link->state == LINK_BROKEN)
            continue;
        group_link_ask(group, link);
        if (!link_owes(group, link))
            continue;
        if (!retired)
            group->peers[link->peer].owed_at = group->now;
        if (group->now >= doubt_at(group, link))
            link_suspect(group, link);
        next = look_at(group, link);
        if (group->now >= next && retired)
            tell_stuck(group, link);
        else if (group->now >= next)
            group_link_break(group, link, KVR_TIMED_OUT);
        else if (!retired)
            next = kvr_min_u64(next, group_link_look(group, link));
        if (group->now < next && next < group->timers.silence_at)
            group->timers.silence_at = next;
    }
    for (uint32_t i = group->rail_first; i < group->rail_end; i++)
        rail_held(group, &group->rails[i]);
}
