/* A process that was stopped, or a machine that was, may wake with work queued (rule 8): its peers
 * may have fenced it meanwhile and given away the pages that it is about to write to. */
#include "fabric/rail_group_state.h"

#define LOOKS 4 /* at the clock, in the time of an absence */

void group_absence_check(struct kvr_group *group, kvr_ns since)
{
    struct kvr_group_message woke = {.kind = KVR_GROUP_WOKE};

    if (group->absence_ns == 0 || since == 0 || since < group->woke_at || group->now < since ||
        group->now - since <= group->absence_ns)
        return;
    group->woke_at = group->now;
    woke.a = ++group->absences;
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++)
        group->peers[i].unproven = group->peers[i].known ? group->absences : 0;
    /* Nobody was there to see the rails move. */
    for (uint32_t i = 0; i < group->links.reach; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);

        if (link != NULL)
            link->progress_at = group->now;
    }
    kvr_group_tell(group, &woke);
}

void group_proven(struct kvr_group *group, const struct kvr_group_message *message)
{
    if (message->index < KVR_PEERS_MAX && group->peers[message->index].unproven <= message->a)
        group->peers[message->index].unproven = 0;
    if (group->scratch != NULL)
        group->warm_at = group->now;
}

/* While something may be posted it never sleeps for so long that a sleep looks like an absence. */
kvr_ns group_absence_wake(const struct kvr_group *group, kvr_ns now)
{
    bool posting = group->warm_at != KVR_NEVER ||
                   (group->user.posting != NULL && group->user.posting(group->user.self));

    if (group->absence_ns == 0 || !posting)
        return KVR_NEVER;
    return now + group->absence_ns / LOOKS;
}
