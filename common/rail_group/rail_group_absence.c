/* A process or machine that was stopped may resume with work queued (rule 8). Meanwhile its peers
 * may have fenced it and reused the pages that the queued work would write to. */
#include "rail_group/rail_group_state.h"

#define LOOKS 4 /* clock readings within the time of an absence */

void group_absence_check(struct kvr_group *group, kvr_ns since)
{
    struct kvr_group_message resumed = {.head.kind = KVR_GROUP_RESUMED};

    if (group->absence.bound_ns == 0 || since == 0 || since < group->absence.resumed_at ||
        group->now < since || group->now - since <= group->absence.bound_ns)
        return;
    group->absence.resumed_at = group->now;
    resumed.resumed.count = ++group->absence.count;
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++)
        group->peers[i].unconfirmed = group->peers[i].known ? group->absence.count : 0;
    /* Progress during the absence was not seen: silence is measured from now on. */
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link == NULL)
            continue;
        link->progress_at = group->now;
        link->look.since = 0;
    }
    kvr_group_tell(group, &resumed);
}

void group_confirmed(struct kvr_group *group, const struct kvr_group_message *message)
{
    uint32_t peer = message->confirmed.peer;

    if (peer < KVR_PEERS_MAX && group->peers[peer].unconfirmed <= message->confirmed.count)
        group->peers[peer].unconfirmed = 0;
    if (group->scratch != NULL)
        group->timers.warm_at = group->now;
}

/* While something may be posted, the thread sleeps so briefly that a sleep is no absence. A warm-up
 * that is repeated later does not count until then: an idle agent sleeps. */
kvr_ns group_absence_wake(const struct kvr_group *group, kvr_ns now)
{
    bool warming = group->timers.warm_at != KVR_NEVER &&
                   group->timers.warm_at <= now + group->absence.bound_ns;
    bool posting =
        warming || (group->user.posting != NULL && group->user.posting(group->user.self));

    if (group->absence.bound_ns == 0 || !posting)
        return KVR_NEVER;
    return now + group->absence.bound_ns / LOOKS;
}
