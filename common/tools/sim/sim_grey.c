/* Pairs that hang beside a pair that carries (rail_group_slow.c).
 *
 * The first time that a pair hangs, both its endpoints are the first ones. If nothing but ways
 * hinders the rails, a pair that carried writes before may hang for a whole heartbeat bound only
 * where it has no sibling that carries. One that rests is asked in time. */
#include "tools/sim/sim_ways.h"

#include "rail_group/rail_group.h"
#include "tools/sim/sim_world.h"

#define RECENT_NS (4 * SIM_SILENCE_NS)

/* Also before the pair broke: the writes that go over it instead come after that. */
static bool carried(const struct sim_world *world, const struct sim_way *way)
{
    return way->fault == SIM_FAULT_COUNT && way->carried_first_at != 0 &&
           world->now - way->carried_first_at > SIM_SILENCE_NS &&
           world->now - way->carried_at < RECENT_NS;
}

static bool is_first(const struct sim_agent *agent, const struct kvr_pair *pair)
{
    return pair->epoch == 1 &&
           kvr_group_address(sim_group_of((struct sim_agent *)agent, pair->rail)->group, pair->rail)
                   .epoch == 1;
}

/* Over another rail of the same groups. */
static bool sibling_carried(const struct sim_agent *source, const struct sim_agent *target,
                            const struct kvr_pair *pair)
{
    struct sim_world *world = source->world;
    const struct sim_way(*ways)[SIM_RAILS] =
        world->ways.ways[source->number][target->number - SIM_SOURCES];
    uint32_t ours = kvr_rail_groups_of(&source->groups, pair->rail);
    uint32_t theirs = kvr_rail_groups_of(&target->groups, pair->target_rail);

    for (uint32_t i = 0; i < source->rail_count; i++) {
        if (i == pair->rail || kvr_rail_groups_of(&source->groups, i) != ours)
            continue;
        for (uint32_t k = 0; k < target->rail_count; k++)
            if (kvr_rail_groups_of(&target->groups, k) == theirs && carried(world, &ways[i][k]))
                return true;
    }
    return false;
}

void sim_grey_heard(struct sim_agent *agent, const struct kvr_group_message *message)
{
    const struct kvr_group_pair_broken *broken = &message->pair_broken;
    const struct sim_world *world = agent->world;

    if (message->head.kind != KVR_GROUP_PAIR_BROKEN || broken->status != KVR_TIMED_OUT ||
        !broken->proven || !world->ways.any || !sim_ways_calm(world) || !sim_warms_up(world) ||
        world->narrow || !is_first(agent, &broken->pair))
        return;
    for (uint32_t i = 0; i < SIM_PEERS; i++) {
        const struct sim_peer *peer = &agent->peers[i];

        if (peer->live && peer->index == broken->peer && peer->other != NULL &&
            !peer->other->source && sibling_carried(agent, peer->other, &broken->pair))
            sim_fail(agent->world, -1,
                     "agent %u: its rail %u hung with rail %u of agent %u for the whole bound, and "
                     "a rail beside it carries",
                     agent->number, broken->pair.rail, broken->pair.target_rail,
                     peer->other->number);
    }
}
