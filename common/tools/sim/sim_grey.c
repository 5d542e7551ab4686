/* Pairs that hang beside a pair that carries (rail_group_slow.c).
 *
 * The first time that a pair hangs, both its endpoints are the first ones. If nothing but ways
 * hinders the rails, a pair that carried writes before may hang for a whole heartbeat bound only
 * where it has no sibling that carries. One that rests is asked in time, unless writes that hang
 * fill its rail; these end with its endpoint. A pair that broke before is on trial: it has a
 * warm-up, which may hang. An agent that drained and went answers nothing, over no rail. */
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

/* The rail has its first endpoint. */
static bool is_first(const struct sim_agent *agent, uint32_t rail)
{
    return kvr_group_address(sim_group_of((struct sim_agent *)agent, rail)->group, rail).epoch == 1;
}

/* It is the one that the ways have carried for from the start. */
static bool is_first_life(const struct sim_agent *agent)
{
    return agent->alive && agent->life == 1;
}

static bool is_full(const struct sim_agent *agent, uint32_t rail)
{
    const struct kvr_rail_counters counters =
        kvr_group_counters(sim_group_of((struct sim_agent *)agent, rail)->group, rail);

    return counters.in_flight >= counters.window_writes;
}

/* A rail of ours may carry what hangs on the other one: both are cards, or both for this host. */
static bool may_instead(const struct sim_agent *source, uint32_t rail, uint32_t other)
{
    return rail != other &&
           kvr_rail_groups_of(&source->groups, rail) ==
               kvr_rail_groups_of(&source->groups, other) &&
           ((source->groups.same_host >> rail ^ source->groups.same_host >> other) & 1) == 0 &&
           is_first(source, rail) && !is_full(source, rail);
}

/* Over another rail of the same groups. */
static bool sibling_carried(const struct sim_agent *source, const struct sim_agent *target,
                            const struct kvr_pair *pair)
{
    struct sim_world *world = source->world;
    const struct sim_way(*ways)[SIM_RAILS] =
        world->ways.ways[source->number][target->number - SIM_SOURCES];
    uint32_t theirs = kvr_rail_groups_of(&target->groups, pair->target_rail);

    for (uint32_t i = 0; i < source->rail_count; i++) {
        if (!may_instead(source, i, pair->rail))
            continue;
        for (uint32_t k = 0; k < target->rail_count; k++)
            if (kvr_rail_groups_of(&target->groups, k) == theirs && carried(world, &ways[i][k]))
                return true;
    }
    return false;
}

/* NULL: it is gone. */
static struct sim_agent *target_of(const struct sim_agent *source, uint32_t index)
{
    for (uint32_t i = 0; i < SIM_PEERS; i++) {
        const struct sim_peer *peer = &source->peers[i];

        if (peer->live && peer->index == index && peer->other != NULL && !peer->other->source)
            return peer->other;
    }
    return NULL;
}

/* Nothing else hinders the rails. */
static bool may_judge(const struct sim_agent *source, const struct sim_agent *target)
{
    const struct sim_world *world = source->world;

    return sim_ways_calm(world) && sim_warms_up(world) && !world->narrow && is_first_life(source) &&
           is_first_life(target);
}

void sim_grey_heard(struct sim_agent *agent, const struct kvr_group_message *message)
{
    const struct kvr_group_pair_broken *broken = &message->pair_broken;
    struct sim_world *world = agent->world;
    struct sim_agent *target;
    struct sim_way *way;

    if (message->head.kind != KVR_GROUP_PAIR_BROKEN || !world->ways.any)
        return;
    target = target_of(agent, broken->peer);
    if (target == NULL)
        return;
    way = &world->ways.ways[agent->number][target->number - SIM_SOURCES][broken->pair.rail]
                           [broken->pair.target_rail];
    if (broken->status == KVR_TIMED_OUT && broken->proven && !way->broke &&
        may_judge(agent, target) && broken->pair.epoch == 1 && is_first(agent, broken->pair.rail) &&
        sibling_carried(agent, target, &broken->pair))
        sim_fail(world, -1,
                 "agent %u: its rail %u hung with rail %u of agent %u for the whole bound, and a "
                 "rail beside it carries",
                 agent->number, broken->pair.rail, broken->pair.target_rail, target->number);
    way->broke = true;
}
