/* An agent's rail group, and the thread that would drive it. */
#include "prefill-agent/push.h"
#include "tools/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

/* A warm-up that is repeated later keeps nothing that has ended; all else of a thread that runs
 * comes sooner. */
#define SIM_SOON_NS (10 * KVR_S)

#define EVENTS_STEP 32 /* of a group, that one step of the loop takes */

/* ---- the thread ----------------------------------------------------------------------------- */

static void group_run(struct sim_world *world, const struct sim_event *event);

static void arm(struct sim_group *group, kvr_ns at)
{
    if (group->armed && group->at <= at)
        return;
    group->armed = true; /* an event armed for later finds that it is too early */
    group->at = at;
    sim_at(group->agent->world, at, group_run, group, group->agent->life, 0);
}

void sim_group_wake(struct sim_group *group)
{
    struct sim_world *world = group->agent->world;

    arm(group, world->now + 1 + sim_some(world, world->step_ns));
}

static void group_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_group *group = event->object;
    struct sim_agent *agent = group->agent;
    kvr_ns wake;
    bool moved;

    if (sim_agent_void(agent, event) || !group->armed || group->at != world->now)
        return;
    group->armed = false;
    wake = agent->stopped_until > group->held_until ? agent->stopped_until : group->held_until;
    if (world->now < wake) {
        arm(group, wake + sim_some(world, world->step_ns));
        return;
    }
    if (agent->source)
        sim_share_before(group);
    moved = kvr_group_step(group->group, world->now);
    if (agent->source)
        sim_share_after(group);
    if (kvr_group_told(group->group))
        sim_agent_wake_loop(agent);
    wake = kvr_group_wake_at(group->group, world->now, KVR_NEVER - world->now);
    if (sim_stage_next(group) < wake)
        wake = sim_stage_next(group);
    if (moved)
        sim_group_wake(group);
    else if (wake != KVR_NEVER)
        arm(group, wake > world->now ? wake : world->now + 1);
}

/* In half of the worlds the thread is busy when it is to replace an endpoint. The loop goes on
 * meanwhile, and grants on the old one. */
static bool recycles_late(const struct sim_world *world)
{
    return world->seed % 2 == 0;
}

/* ---- from and to the loop ------------------------------------------------------------------- */

bool sim_group_listen(struct sim_group *group)
{
    struct sim_agent *agent = group->agent;
    struct kvr_group_message message;
    uint32_t count = 0;

    for (; count < EVENTS_STEP && kvr_group_event(group->group, &message); count++) {
        sim_group_note(group, &message);
        sim_planes_heard(agent, &message);
        sim_grey_heard(agent, &message);
        agent->machine.group(agent->machine.self, agent->world->now, &message);
    }
    sim_group_wake(group); /* its ring has room again */
    return count > 0;
}

void sim_group_command(void *self, const struct kvr_group_message *message)
{
    struct sim_agent *agent = self;
    struct sim_group *group = &agent->group[message->head.group];
    struct kvr_group_message now = *message;

    assert(message->head.group < agent->groups.count);
    if (message->head.kind == (agent->source ? (uint32_t)PUSH_FAILOVER : (uint32_t)LAND_FORWARD))
        sim_fault_moved(agent->world);
    now.head.at = agent->world->now;
    sim_group_note(group, &now);
    if (message->head.kind == KVR_GROUP_RECYCLE && recycles_late(agent->world))
        group->held_until = agent->world->now + SIM_RECYCLE_NS;
    sim_group_wake(group);
    if (!kvr_group_command(group->group, &now))
        abort();
}

/* ---- life ----------------------------------------------------------------------------------- */

static void passed(void *self, uint32_t number)
{
    sim_group_wake(&((struct sim_agent *)self)->group[number]);
}

struct sim_group *sim_group_of(struct sim_agent *agent, uint32_t rail)
{
    return &agent->group[kvr_rail_groups_of(&agent->groups, rail)];
}

void sim_group_rails(const struct sim_group *group, struct kvr_rail *ret_rails[SIM_RAILS])
{
    const uint32_t *first = &group->agent->groups.first[group->number];

    for (uint32_t i = 0; i < SIM_RAILS; i++)
        ret_rails[i] = i >= first[0] && i < first[1] ? group->agent->rails[i] : NULL;
}

static struct kvr_group_user user_open(struct sim_group *group)
{
    const struct sim_agent *agent = group->agent;
    struct sim_memory *memory = agent->world->memory;

    if (agent->source) {
        group->push = &memory->pushes[agent->number * SIM_GROUPS + group->number];
        memset(group->push, 0, sizeof(*group->push));
        group->push->shares.round_bytes = (uint32_t)kvr_rng_between(&agent->world->rng, 1, 8192);
        if (agent->world->narrow)
            group->push->shares.round_bytes = 1 + group->push->shares.round_bytes % 512;
        return push_user(group->push);
    }
    group->land = &memory->lands[(agent->number - SIM_SOURCES) * SIM_GROUPS + group->number];
    memset(group->land, 0, sizeof(*group->land));
    return land_user(group->land);
}

/* Where the target copies, it may still read what a dead agent wrote from: there the simulator
 * would need that agent's memory. */
bool sim_warms_up(const struct sim_world *world)
{
    return world->seed % 3 == 1 && !world->target_copies && !world->mixed;
}

static void group_open(struct sim_agent *agent, uint32_t number)
{
    struct sim_group *group = &agent->group[number];
    struct kvr_rng *rng = &agent->world->rng;
    struct kvr_group_options options = {
        .fabric = &agent->fabric,
        .rails = agent->rails,
        .number = number,
        .rail_first = agent->groups.first[number],
        .rail_count = agent->groups.first[number + 1] - agent->groups.first[number],
        .ring_entries = (uint32_t)16 << kvr_rng_below(rng, 6),
        .window_writes = (uint32_t)kvr_rng_below(rng, 20),
        .silence_ns = SIM_SILENCE_NS,
        .absence_ns = SIM_SILENCE_NS / 2,
        .other_planes = agent->planes.other,
        .warm_up = sim_warms_up(agent->world),
        .wake = passed,
        .wake_self = agent,
    };
    kvr_status status;

    if (agent->world->narrow)
        options.window_writes = 1 + options.window_writes % 4;
    *group = (struct sim_group){.agent = agent, .number = number};
    sim_stage_open(group);
    options.user = user_open(group);
    status = kvr_group_open(&options, &group->group, NULL);
    assert(status == KVR_OK);
    (void)status;
    if (agent->source)
        sim_share_open(group, options.window_writes);
}

void sim_groups_open(struct sim_agent *agent)
{
    struct kvr_group *groups[SIM_GROUPS];
    kvr_status status;

    for (uint32_t i = 0; i < agent->groups.count; i++) {
        group_open(agent, i);
        groups[i] = agent->group[i].group;
    }
    status = kvr_groups_join(groups, agent->groups.count, NULL);
    assert(status == KVR_OK);
    (void)status;
}

void sim_group_close(struct sim_group *group)
{
    kvr_group_close(group->group);
    group->group = NULL;
}

/* A thread that stands still takes commands when it goes on, however late that is: until then the
 * memory that they brought is not given back. */
bool sim_group_idle(const struct sim_group *group)
{
    bool soon = group->at <= group->agent->world->now + SIM_SOON_NS;

    return !(group->armed && (soon || sim_agent_stopped(group->agent))) &&
           kvr_group_outstanding(group->group) == 0;
}

void sim_group_check_empty(const struct sim_group *group)
{
    const struct sim_agent *agent = group->agent;

    sim_stage_check_empty(group);
    if (agent->source && group->push->open_count > 0)
        sim_fail(agent->world, -1, "agent %u keeps %u posting jobs", agent->number,
                 group->push->open_count);
    if (!agent->source && group->land->open_count > 0)
        sim_fail(agent->world, -1, "agent %u keeps %u landings", agent->number,
                 group->land->open_count);
}
