/* Connections of a rail: beyond a bound, the one that rested longest is closed.
 *
 * A provider connects a pair of rails with its first write, and keeps the connection: on tcp a
 * socket at either end, on verbs a queue pair. Connections that carry writes are never closed. So
 * there may be more than the bound while more are busy, and for two seconds after that. The next
 * write over a closed one connects anew, and waits for that alone. On a rail that has as many as it
 * may, one pair of a peer connects at a time: all pairs at once would close those of other peers
 * for the sake of one write.
 *
 * On verbs a target loses what it has not read when its end of a connection is closed. There a
 * connection is closed when the target has said that it has read all transfers that used it, and
 * after a rest, for writes of no transfer (warm-ups). A pair that would connect waits for the rest,
 * and not for transfers: these may need that pair. */
#include "rail_group/rail_group_state.h"

#define CONNECT_NS (20 * KVR_MS) /* then another pair of the peer may connect */
#define SURPLUS_NS KVR_S         /* of rest, for those beyond the bound that were busy */

static bool is_full(const struct group_rail *rail)
{
    return rail->connections_max > 0 && rail->connections >= rail->connections_max;
}

/* When the connection may be closed, if nothing is posted on it until then; KVR_NEVER: it is busy.
 * A write waits for the connection that was begun last for its peer. */
static kvr_ns rested_at(const struct kvr_group *group, const struct group_link *link)
{
    kvr_ns until = group->peers[link->peer].connects_until;

    if (link->connection == LINK_UNCONNECTED || link->writes > 0 || !link->inserted)
        return KVR_NEVER;
    if (link->connection == LINK_CONNECTING && until > group->now)
        return until;
    return link->progress_at + link->rail->rest_ns;
}

/* The one that rested longest, or will have rested first; NULL: each of them is busy. Others can
 * only come to rest later, so the last answer holds until that connection is used again. */
static struct group_link *rested_by_time(struct kvr_group *group, struct group_rail *rail)
{
    struct group_link *found = kvr_pool_at(&group->links, rail->rested, NULL);

    if (found != NULL && found->rail == rail && rail->rested_at != KVR_NEVER &&
        rested_at(group, found) == rail->rested_at)
        return found;
    found = NULL;
    rail->rested_at = KVR_NEVER;
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link == NULL || link->rail != rail || rested_at(group, link) >= rail->rested_at)
            continue;
        found = link;
        rail->rested = i;
        rail->rested_at = rested_at(group, link);
    }
    return found;
}

static bool is_unread(const struct kvr_group *group, const struct group_link *link)
{
    return link->rail->rest_ns > 0 && group->user.unread != NULL &&
           group->user.unread(group->user.self, link->peer, &link->pair);
}

/* The same. A connection that the target may not have read empty begins its rest anew. */
static struct group_link *rested_first(struct kvr_group *group, struct group_rail *rail)
{
    struct group_link *found = rested_by_time(group, rail);
    bool kept = false;

    while (found != NULL && rested_at(group, found) <= group->now && is_unread(group, found)) {
        found->progress_at = group->now;
        kept = true;
        found = rested_by_time(group, rail);
    }
    return kept && found != NULL && rested_at(group, found) > group->now ? NULL : found;
}

bool group_link_close(struct kvr_group *group, struct group_link *link)
{
    kvr_status status = KVR_OK;

    if (link->connection == LINK_UNCONNECTED)
        return true;
    if (link->inserted && link->rail->endpoint != NULL && group->ops->peer_close != NULL)
        status = group->ops->peer_close(link->rail->endpoint, &link->handle);
    if (status == KVR_AGAIN) {
        link->progress_at = group->now; /* others are closed before it is tried again */
        group_link_rewarm(group, link);
        return false;
    }
    group_link_disconnected(link);
    if (status != KVR_OK) {
        link->inserted = false;
        group_link_break(group, link, KVR_RAIL_FAILED);
    }
    return true;
}

/* Of those that had rested at that time, all beyond so many. */
static void close_rested(struct kvr_group *group, struct group_rail *rail, uint32_t most, kvr_ns at)
{
    while (rail->connections > most) {
        struct group_link *rested = rested_first(group, rail);

        if (rested == NULL || rested_at(group, rested) > at || !group_link_close(group, rested))
            return;
        group_count(&rail->counters.closed, 1);
    }
}

void group_link_connect(struct kvr_group *group, struct group_link *link)
{
    struct group_rail *rail = link->rail;

    if (is_full(rail))
        close_rested(group, rail, rail->connections_max - 1, group->now);
    if (is_full(rail) && group->timers.surplus_at == KVR_NEVER)
        group->timers.surplus_at = group->now + SURPLUS_NS;
    link->connection = LINK_CONNECTING;
    rail->connections++;
    group->peers[link->peer].connects_until = group->now + CONNECT_NS;
}

void group_surplus_close(struct kvr_group *group)
{
    group->timers.surplus_at = KVR_NEVER;
    for (uint32_t i = group->rail_first; i < group->rail_end; i++) {
        struct group_rail *rail = &group->rails[i];

        if (!is_full(rail) || rail->connections == rail->connections_max)
            continue;
        close_rested(group, rail, rail->connections_max, group->now - SURPLUS_NS);
        if (rail->connections > rail->connections_max)
            group->timers.surplus_at = group->now + SURPLUS_NS;
    }
}

/* Where all are busy, one more than the bound is opened. */
kvr_ns group_rail_connects_at(struct kvr_group *group, struct group_rail *rail)
{
    const struct group_link *first;

    if (rail->rest_ns == 0 || !is_full(rail))
        return group->now;
    first = rested_first(group, rail);
    return first != NULL && rested_at(group, first) > group->now ? rested_at(group, first)
                                                                 : group->now;
}

bool group_link_may_connect(struct kvr_group *group, const struct group_link *link)
{
    kvr_ns until = is_full(link->rail) ? group->peers[link->peer].connects_until : 0;
    kvr_ns rested = group_rail_connects_at(group, link->rail);

    if (rested > until)
        until = rested;
    if (group->now >= until)
        return true;
    if (until < group->timers.retry_at)
        group->timers.retry_at = until;
    return false;
}

void group_link_disconnected(struct group_link *link)
{
    link->rail->connections -= link->connection != LINK_UNCONNECTED;
    link->connection = LINK_UNCONNECTED;
}
