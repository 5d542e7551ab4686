/* Rails in planes, in another order on each host, some of them missing. A write into another plane
 * gets no answer. Every process has a card in the first plane, so that each pair of processes has
 * a near pair. Until one of them breaks, no write needs to leave its plane. */
#include <string.h>

#include "tools/sim/sim_world.h"

#define PLANES_ONE_IN 11 /* worlds */

static bool has_planes(const struct sim_world *world)
{
    return world->seed % PLANES_ONE_IN == 4 && !world->many_groups && !world->target_copies;
}

static void swap(const char *names[], uint32_t a, uint32_t b)
{
    const char *name = names[a];

    names[a] = names[b];
    names[b] = name;
}

void sim_planes_choose(struct sim_agent *agent, uint32_t cards, const char *ret_names[])
{
    static const char *const planes[SIM_CARDS] = {"plane0", "plane1", "plane2", "plane3"};
    struct kvr_rng *rng = &agent->world->rng;
    uint32_t first;

    agent->planes = (struct sim_planes){.other = KVR_OTHER_PLANES_AS_NEEDED};
    for (uint32_t i = 0; i < SIM_CARDS; i++)
        ret_names[i] = has_planes(agent->world) ? planes[i] : "";
    if (!has_planes(agent->world))
        return;
    if (kvr_rng_percent(rng, 20))
        agent->planes.other = KVR_OTHER_PLANES_NEVER;
    for (uint32_t i = SIM_CARDS - 1; i > 1; i--) /* the first plane stays where it is */
        swap(ret_names, i, 1 + (uint32_t)kvr_rng_below(rng, i));
    if (cards > 2 && kvr_rng_percent(rng, 20))
        ret_names[2] = ret_names[kvr_rng_below(rng, 2)]; /* two cards in one plane */
    first = (uint32_t)kvr_rng_below(rng, cards);
    swap(ret_names, 0, first);
}

/* A slow first write puts its pair in doubt, and no group reports that. */
static bool may_doubt(const struct sim_world *world, const struct sim_agent *agent)
{
    return agent->planes.tried_from != 0 &&
           world->now >= agent->planes.tried_from + kvr_group_doubt(SIM_SILENCE_NS);
}

/* The group reports a broken pair before it posts what follows. The loop hears of it later, so the
 * verdict waits for that, or for the end. */
void sim_planes_across(void *self, void *host, void *target_host)
{
    const struct sim_world *world = self;
    struct sim_agent *agent = host;
    const struct sim_agent *target = target_host;

    if (agent->planes.broken || agent->planes.left || may_doubt(world, agent))
        return;
    agent->planes.left = true;
    agent->planes.target = target->number;
    agent->planes.left_at = world->now;
}

static const char *network_of(const struct sim_agent *agent, uint32_t rail)
{
    return rail < agent->rail_count ? agent->fabric.ops->rail_facts(agent->rails[rail])->network
                                    : "";
}

/* A pair within a plane. Which life of a target that was is not known here: one that died, or was
 * drained, may come back with other cards. */
static bool breaks_near(const struct sim_agent *agent, const struct kvr_group_pair_broken *broken)
{
    const struct sim_world *world = agent->world;
    const char *network = network_of(agent, broken->pair.rail);

    for (uint32_t i = SIM_SOURCES; i < SIM_AGENTS; i++) {
        const struct sim_agent *target = &world->agents[i];

        if (target->life > 1 || !target->alive)
            return true;
        if (network[0] != '\0' &&
            strcmp(network, network_of(target, broken->pair.target_rail)) == 0)
            return true;
    }
    return false;
}

/* Where either end replaces its endpoint under a pair's first writes, the pair is in doubt. */
void sim_planes_heard(struct sim_agent *agent, const struct kvr_group_message *message)
{
    struct sim_planes *planes = &agent->planes;

    switch (message->head.kind) {
    case KVR_GROUP_PEER_ADDED:
        planes->tried_from = planes->tried_from == 0 ? agent->world->now : planes->tried_from;
        return;
    case KVR_GROUP_PAIR_BROKEN:
        if (!breaks_near(agent, &message->pair_broken))
            return;
        break;
    case KVR_GROUP_PEER_RAIL_SET:
    case KVR_GROUP_RECYCLED:
        break;
    default:
        return;
    }
    planes->broken = true;
    planes->left = false;
}

void sim_planes_check(const struct sim_agent *agent)
{
    const uint64_t *injected = agent->world->injected;

    /* A target without an endpoint breaks the pair too, and no group reports that. */
    if (injected[SIM_RAIL_LOST] == 0 && injected[SIM_GROUP_LOST] == 0 && agent->planes.left)
        sim_fail(agent->world, -1,
                 "agent %u writes to agent %u in another plane while pairs within planes work",
                 agent->number, agent->planes.target);
}
