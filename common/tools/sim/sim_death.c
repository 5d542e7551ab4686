/* Engines and agents that die, drain or stop, and come back. */
#include "tools/sim/sim_world.h"

#define DRAIN_LINGER_NS (5 * KVR_S) /* as agent_drain.c's */

/* a: number of the engine that is gone. A newer generation of it comes, and may publish the same
 * requests again. */
static void engine_restart_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_engine *before = &world->engines[event->a], *engine;
    struct kvr_rank rank = before->rank;

    if (sim_agent_deferred(before->agent, event, world->now))
        return;
    world->busy--;
    if (!before->agent->alive || world->engine_count == SIM_ENGINES)
        return;
    rank.generation++;
    engine = sim_engine_new(world, before->agent, &rank);
    sim_engine_attach(engine);
    for (uint32_t r = 0; r < world->request_count; r++)
        for (uint32_t i = 0; i < world->requests[r].source_count; i++)
            if (world->requests[r].publishes[i].user.engine == before &&
                kvr_rng_percent(&world->rng, 80))
                sim_publish_again(&world->requests[r], engine);
}

static void engine_kill(struct sim_engine *engine)
{
    struct sim_world *world = engine->world;

    if (!engine->alive || !engine->attached || sim_agent_stopped(engine->agent))
        return;
    sim_injected(world, SIM_ENGINE_DEATH);
    sim_disturb_all(world);
    sim_engine_die(engine);
    if (!kvr_rng_percent(&world->rng, 70))
        return;
    world->busy++;
    sim_at(world, world->now + 1 + sim_soon(world), engine_restart_run, NULL, engine->number, 0);
}

void sim_engine_death(struct sim_world *world)
{
    engine_kill(&world->engines[kvr_rng_below(&world->rng, world->engine_count)]);
}

static void engine_death_run(struct sim_world *world, const struct sim_event *event)
{
    if (!world->ending)
        engine_kill(event->object);
}

void sim_engine_death_soon(struct sim_engine *engine)
{
    sim_at(engine->world, engine->world->now + sim_soon(engine->world), engine_death_run, engine, 0,
           0);
}

static void agent_restart_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;

    world->busy--;
    sim_mended(world);
    sim_agent_start(agent);
    for (uint32_t i = 0; i < world->engine_count; i++) {
        struct sim_engine *engine = &world->engines[i];

        if (engine->agent == agent && engine->alive && !engine->attached)
            sim_engine_attach(engine);
    }
}

/* And perhaps it comes back. */
static void agent_end(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;
    kvr_ns away =
        kvr_rng_percent(&world->rng, 50) ? sim_soon(world) : kvr_rng_below(&world->rng, 6 * KVR_S);

    sim_agent_die(agent);
    if (!kvr_rng_percent(&world->rng, 75))
        return;
    world->busy++;
    sim_at(world, world->now + 1 + away, agent_restart_run, agent, 0, 0);
}

void sim_agent_death(struct sim_world *world)
{
    struct sim_agent *agent = sim_agent_choose(world);

    if (!agent->alive)
        return;
    sim_injected(world, SIM_AGENT_DEATH);
    sim_disturb_all(world);
    agent_end(agent);
}

/* The agent reports that its work has ended: so every user has its terminal notice. */
static void check_drained(const struct sim_agent *agent)
{
    struct sim_world *world = agent->world;
    const struct sim_user *user;
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    uint32_t owner = 0;

    while ((user = sim_user_next(world, &owner, &publish, &fetch)) != NULL)
        if (sim_user_lives(user) && user->engine->agent == agent &&
            !sim_engine_stopped(user->engine))
            sim_fail(world, (int)(owner - 1) / SIM_USERS,
                     "its agent has drained, and a %s has not ended",
                     publish != NULL ? "publish" : "fetch");
}

/* a: life of the agent, b: it has given up what was left. */
static void drained_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;

    if (agent->life == event->a && sim_agent_deferred(agent, event, world->now))
        return;
    world->busy--;
    if (!agent->alive || agent->life != event->a)
        return;
    sim_mended(world);
    if (sim_agent_live(agent) == 0) {
        check_drained(agent);
        agent_end(agent);
    } else if (event->b > 0) {
        agent_end(agent);
    } else {
        agent->machine.cancel_all(agent->machine.self, world->now, KVR_DRAINING, "it ends");
        world->busy++;
        sim_at(world, world->now + DRAIN_LINGER_NS, drained_run, agent, agent->life, 1);
    }
}

void sim_drain(struct sim_world *world)
{
    struct sim_agent *agent = sim_agent_choose(world);

    if (!agent->alive || sim_agent_stopped(agent))
        return;
    sim_injected(world, SIM_DRAIN);
    sim_disturb_all(world);
    agent->machine.drain(agent->machine.self, "this agent is shutting down");
    world->busy++;
    sim_at(world, world->now + 1 + sim_short_or_long(world, 3 * KVR_S), drained_run, agent,
           agent->life, 0);
}

/* SIGSTOP, a debugger, a machine that swaps: it does nothing, and its cards go on. Most often for
 * longer than half the heartbeat bound and less than all of it: its sessions outlive that, and what
 * is queued on them. */
void sim_agent_stop_awhile(struct sim_world *world)
{
    struct sim_agent *agent =
        kvr_rng_percent(&world->rng, 50)
            ? &world->agents[kvr_rng_below(&world->rng, world->source_count)]
            : &world->agents[SIM_SOURCES + kvr_rng_below(&world->rng, world->target_count)];
    kvr_ns wait = kvr_rng_percent(&world->rng, 60)
                      ? kvr_rng_between(&world->rng, SIM_SILENCE_NS / 2, SIM_SILENCE_NS)
                      : sim_short_or_long(world, 6 * KVR_S);

    if (!agent->alive || sim_agent_stopped(agent))
        return;
    agent->stopped_before = agent->stopped_until;
    agent->stopped_at = world->now;
    agent->stopped_until = world->now + 1 + wait;
    sim_injected_until(world, SIM_AGENT_STOPPED, agent->stopped_until);
}
