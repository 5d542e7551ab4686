/* Messages between the groups of one agent: a bounded ring for each direction of each pair of
 * groups, so that messages keep their order and no group waits for another. */
#include <assert.h>
#include <stdlib.h>

#include "rail_group/rail_group_state.h"

#define KEPT_FACTOR   16u /* times the ring: what emptying one completion queue may pass on */
#define PASSED_A_STEP 64u /* of each ring */

struct group_passes {
    uint32_t count;
    struct kvr_group *others[KVR_RAIL_GROUPS_MAX]; /* by number; oneself too */
    struct kvr_ring from[KVR_RAIL_GROUPS_MAX];     /* the group of that number → this one */
    struct kvr_ring kept; /* messages that found their ring full; both ends are this group's */
    uint32_t wakes;       /* bit g: group g was passed something in this step */
};

static kvr_status passes_open(struct kvr_group *group, struct kvr_group *const *groups,
                              uint32_t count)
{
    uint32_t entries = group->rings.events.mask + 1, bytes = sizeof(struct kvr_group_message);

    group->rings.passes = calloc(1, sizeof(*group->rings.passes));
    if (group->rings.passes == NULL)
        return KVR_NO_MEMORY;
    group->rings.passes->count = count;
    for (uint32_t i = 0; i < count; i++) {
        group->rings.passes->others[i] = groups[i];
        if (i != group->number &&
            kvr_ring_init(&group->rings.passes->from[i], NULL, entries, bytes) != KVR_OK)
            return KVR_NO_MEMORY;
    }
    return kvr_ring_init(&group->rings.passes->kept, NULL, entries * KEPT_FACTOR, bytes);
}

kvr_status kvr_groups_join(struct kvr_group *const *groups, uint32_t count, struct kvr_error *error)
{
    for (uint32_t i = 0; i < count && count > 1; i++) {
        assert(groups[i]->number == i && groups[i]->rings.passes == NULL);
        if (passes_open(groups[i], groups, count) != KVR_OK)
            return kvr_error_set(error, KVR_NO_MEMORY, "rail_group",
                                 "no memory for the rings between %u rail groups", count);
    }
    return KVR_OK;
}

void group_passes_close(struct kvr_group *group)
{
    if (group->rings.passes == NULL)
        return;
    for (uint32_t i = 0; i < group->rings.passes->count; i++)
        kvr_ring_done(&group->rings.passes->from[i]);
    kvr_ring_done(&group->rings.passes->kept);
    free(group->rings.passes);
}

uint32_t kvr_group_count(const struct kvr_group *group)
{
    return group->rings.passes != NULL ? group->rings.passes->count : 1;
}

static bool pass(struct group_passes *passes, uint32_t from,
                 const struct kvr_group_message *message)
{
    struct kvr_group *to = passes->others[message->head.group];

    passes->wakes |= UINT32_C(1) << message->head.group;
    return kvr_ring_push(&to->rings.passes->from[from], message);
}

void kvr_group_pass(struct kvr_group *group, const struct kvr_group_message *message)
{
    struct group_passes *passes = group->rings.passes;
    bool kept;

    assert(passes != NULL && message->head.group < passes->count &&
           message->head.group != group->number);
    if (kvr_ring_count(&passes->kept) == 0 && pass(passes, group->number, message))
        return;
    kept = kvr_ring_push(&passes->kept, message);
    assert(kept); /* nothing is polled before it is empty */
    (void)kept;
}

bool group_passes_flush(struct kvr_group *group)
{
    struct group_passes *passes = group->rings.passes;
    const struct kvr_group_message *message;

    while (passes != NULL && (message = kvr_ring_peek(&passes->kept)) != NULL) {
        if (!pass(passes, group->number, message))
            return false;
        kvr_ring_drop(&passes->kept);
    }
    return true;
}

/* Counts the messages first: commands that were sent before them then run before them. */
static uint32_t passed_run(struct kvr_group *group, struct kvr_ring *from)
{
    uint32_t left = kvr_ring_count(from), count = 0;
    struct kvr_group_message message;

    left = left < PASSED_A_STEP ? left : PASSED_A_STEP;
    if (left > 0)
        group_commands_late(group);
    while (count < left && kvr_ring_room(&group->rings.overflow) > group->rings.overflow.mask / 2 &&
           kvr_ring_pop(from, &message)) {
        group->user.command(group->user.self, group->now, &message);
        count++;
    }
    return count;
}

bool group_passed_run(struct kvr_group *group)
{
    uint32_t count = 0;

    for (uint32_t i = 0; group->rings.passes != NULL && i < group->rings.passes->count; i++)
        if (i != group->number)
            count += passed_run(group, &group->rings.passes->from[i]);
    return count > 0;
}

bool group_passes_empty(struct kvr_group *group)
{
    struct group_passes *passes = group->rings.passes;

    if (passes == NULL)
        return true;
    for (uint32_t i = 0; i < passes->count; i++)
        if (i != group->number && kvr_ring_count(&passes->from[i]) > 0)
            return false;
    return kvr_ring_count(&passes->kept) == 0;
}

void group_passes_wake(struct kvr_group *group)
{
    struct group_passes *passes = group->rings.passes;

    for (uint32_t i = 0; passes != NULL && passes->wakes != 0 && i < passes->count; i++) {
        struct kvr_group *other = passes->others[i];

        if ((passes->wakes >> i & 1) != 0 && other->wake != NULL)
            other->wake(other->wake_self, i);
    }
    if (passes != NULL)
        passes->wakes = 0;
}
