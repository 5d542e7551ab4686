/* Connections of a rail: beyond a bound, the one that rested longest is closed.
 *
 * A provider connects a pair of rails with its first write, and keeps the connection: on tcp a
 * socket at either end. Connections that carry writes are never closed, so there may be more than
 * the bound while more are busy. The next write over a closed one connects anew, and waits for that
 * alone. On a rail that has as many as it may, one pair of a peer connects at a time: all pairs at
 * once would close those of other peers for the sake of one write. */
#include "rail_group/rail_group_state.h"

#define CONNECT_NS (20 * KVR_MS) /* then another pair of the peer may connect */

static bool is_full(const struct group_rail *rail)
{
    return rail->connections_max > 0 && rail->connections >= rail->connections_max;
}

/* A write waits for the connection that was begun last for its peer. */
static bool rests(const struct kvr_group *group, const struct group_link *link,
                  const struct group_rail *rail)
{
    return link->rail == rail && link->connection != LINK_UNCONNECTED && link->writes == 0 &&
           link->inserted &&
           (link->connection == LINK_CONNECTED ||
            group->now >= group->peers[link->peer].connects_until);
}

/* NULL: each of them is busy. */
static struct group_link *rested_longest(struct kvr_group *group, const struct group_rail *rail)
{
    struct group_link *found = NULL;

    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link != NULL && rests(group, link, rail) &&
            (found == NULL || link->progress_at < found->progress_at))
            found = link;
    }
    return found;
}

void group_link_close(struct kvr_group *group, struct group_link *link)
{
    if (link->connection == LINK_UNCONNECTED)
        return;
    link->connection = LINK_UNCONNECTED;
    link->rail->connections--;
    if (link->inserted && link->rail->endpoint != NULL && group->ops->peer_close != NULL)
        group->ops->peer_close(link->rail->endpoint, link->handle);
}

void group_link_connect(struct kvr_group *group, struct group_link *link)
{
    struct group_rail *rail = link->rail;

    while (is_full(rail)) {
        struct group_link *rested = rested_longest(group, rail);

        if (rested == NULL)
            break;
        group_link_close(group, rested);
        group_count(&rail->counters.closed, 1);
    }
    link->connection = LINK_CONNECTING;
    rail->connections++;
    group->peers[link->peer].connects_until = group->now + CONNECT_NS;
}

bool group_link_may_connect(struct kvr_group *group, const struct group_link *link)
{
    kvr_ns until = group->peers[link->peer].connects_until;

    if (!is_full(link->rail) || group->now >= until)
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
