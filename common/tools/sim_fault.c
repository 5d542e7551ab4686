/* What goes wrong, and when. */
#include "tools/sim_world.h"

static const char *const fault_names[] = {
#define X(symbol, name) name,
    SIM_FAULT_LIST(X)
#undef X
};

const char *sim_fault_name(sim_fault fault)
{
    return fault_names[fault];
}

void sim_injected(struct sim_world *world, sim_fault fault)
{
    world->injected[fault]++;
    world->last_injection = world->now;
    sim_history_add(&world->history, &(struct sim_line){.at = world->now,
                                                        .who = "fault",
                                                        .what = fault_names[fault],
                                                        .request = -1});
}

kvr_ns sim_soon(struct sim_world *world)
{
    return kvr_rng_below(&world->rng, (KVR_US << kvr_rng_below(&world->rng, 17)) + 1);
}

/* A quarter of the worlds is healthy; of the others each has a few faults. */
void sim_fault_begin(struct sim_world *world)
{
    if (kvr_rng_percent(&world->rng, 25))
        return;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
        if (kvr_rng_percent(&world->rng, 25))
            world->faults |= 1u << i;
}

/* ---- cancels ------------------------------------------------------------------------------- */

static void cancel_ask(struct sim_user *user)
{
    struct kvr_request request = {.kind = KVR_REQ_CANCEL, .handle = user->handle};

    request.cancel.reason = KVR_CANCELLED;
    sim_ask(user->engine, &request);
}

static bool lives(const struct sim_user *user)
{
    return user->open && !user->ended && user->engine->alive && user->engine->attached;
}

static void cancel_source_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_publish *publish = event->object;

    if (!lives(&publish->user))
        return;
    sim_injected(world, SIM_CANCEL_SOURCE);
    publish->disturbed = true;
    cancel_ask(&publish->user);
}

static void cancel_target_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_fetch *fetch = event->object;

    if (!lives(&fetch->user))
        return;
    sim_injected(world, SIM_CANCEL_TARGET);
    cancel_ask(&fetch->user);
    if (kvr_rng_percent(&world->rng, 20) && lives(&fetch->user))
        cancel_ask(&fetch->user); /* it is idempotent */
}

/* ---- deaths -------------------------------------------------------------------------------- */

static void disturb_all(struct sim_world *world)
{
    for (uint32_t r = 0; r < world->request_count; r++)
        for (uint32_t i = 0; i < world->requests[r].publish_count; i++)
            world->requests[r].publishes[i].disturbed = true;
}

/* a: number of the engine that is gone. A newer generation of it comes, and may publish the same
 * requests again. */
static void engine_restart_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_engine *before = &world->engines[event->a], *engine;

    world->busy--;
    if (!before->agent->alive || world->engine_count == SIM_ENGINES)
        return;
    engine = sim_engine_new(world, before->agent, before);
    sim_engine_attach(engine);
    for (uint32_t r = 0; r < world->request_count; r++)
        if (world->requests[r].publishes[0].user.engine == before &&
            kvr_rng_percent(&world->rng, 80))
            sim_publish_again(&world->requests[r], engine);
}

static void engine_death(struct sim_world *world)
{
    struct sim_engine *engine = &world->engines[kvr_rng_below(&world->rng, world->engine_count)];

    if (!engine->alive || !engine->attached)
        return;
    sim_injected(world, SIM_ENGINE_DEATH);
    disturb_all(world);
    sim_engine_die(engine);
    if (!kvr_rng_percent(&world->rng, 70))
        return;
    world->busy++;
    sim_at(world, world->now + 1 + sim_soon(world), engine_restart_run, NULL, engine->number, 0);
}

static void agent_restart_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;

    world->busy--;
    world->last_injection = world->now;
    sim_agent_start(agent);
    for (uint32_t i = 0; i < world->engine_count; i++) {
        struct sim_engine *engine = &world->engines[i];

        if (engine->agent == agent && engine->alive && !engine->attached)
            sim_engine_attach(engine);
    }
}

static void agent_death(struct sim_world *world)
{
    struct sim_agent *agent = &world->agents[kvr_rng_below(&world->rng, SIM_AGENTS)];
    kvr_ns away =
        kvr_rng_percent(&world->rng, 50) ? sim_soon(world) : kvr_rng_below(&world->rng, 6 * KVR_S);

    if (!agent->alive)
        return;
    sim_injected(world, SIM_AGENT_DEATH);
    disturb_all(world);
    sim_agent_die(agent);
    if (!kvr_rng_percent(&world->rng, 75))
        return;
    world->busy++;
    sim_at(world, world->now + 1 + away, agent_restart_run, agent, 0, 0);
}

static void hang_up(struct sim_world *world)
{
    struct sim_link *link = &world->links[kvr_rng_below(&world->rng, world->source_count)]
                                         [kvr_rng_below(&world->rng, world->target_count)];
    uint32_t side = (uint32_t)kvr_rng_below(&world->rng, 2);

    if (!link->sides[side].up || link->sides[side].ending || !link->agents[side]->alive)
        return;
    sim_injected(world, SIM_HANG_UP);
    disturb_all(world);
    sim_link_hang_up(link->agents[side], link->peers[side], KVR_CANCELLED, "hung up");
}

/* ---- cards ---------------------------------------------------------------------------------- */

static void rail_silence(struct sim_world *world)
{
    struct sim_agent *agent = &world->agents[kvr_rng_below(&world->rng, SIM_AGENTS)];
    kvr_ns wait =
        kvr_rng_percent(&world->rng, 60) ? sim_soon(world) : kvr_rng_below(&world->rng, 4 * KVR_S);

    if (!agent->alive)
        return;
    sim_injected(world, SIM_RAIL_SILENCE);
    kvr_sim_rail_silence(agent->rails[kvr_rng_below(&world->rng, agent->rail_count)],
                         world->now + wait);
}

/* ---- memory -------------------------------------------------------------------------------- */

void sim_hoard_end(struct sim_agent *agent)
{
    while (agent->hoard_count > 0)
        kvr_buddy_free(&agent->buddy, agent->hoard[--agent->hoard_count]);
    agent->world->last_injection = agent->world->now;
}

static void hoard_end_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = event->object;

    world->busy--;
    if (agent->life == event->a && agent->alive) /* else it was forgotten with the agent */
        sim_hoard_end(agent);
}

/* Nearly all of an agent's table memory is in use for a while. */
static void hoard(struct sim_world *world)
{
    struct sim_agent *agent = &world->agents[kvr_rng_below(&world->rng, SIM_AGENTS)];
    size_t least = (size_t)64 << kvr_rng_below(&world->rng, 10);

    if (!agent->alive || agent->hoard_count > 0)
        return;
    sim_injected(world, SIM_NO_MEMORY);
    disturb_all(world);
    for (size_t bytes = (size_t)16 << 20; bytes >= least && agent->hoard_count < SIM_HOARD;) {
        void *block = kvr_buddy_alloc(&agent->buddy, bytes);

        if (block != NULL)
            agent->hoard[agent->hoard_count++] = block;
        else
            bytes /= 2;
    }
    world->busy++;
    sim_at(world, world->now + 1 + sim_soon(world), hoard_end_run, agent, agent->life, 0);
}

/* ---- when ---------------------------------------------------------------------------------- */

static bool has(const struct sim_world *world, sim_fault fault)
{
    return (world->faults >> fault & 1) != 0;
}

static void schedule_cancels(struct sim_world *world, struct sim_request *request)
{
    kvr_ns from = world->now + kvr_rng_below(&world->rng, 25 * KVR_MS);

    if (has(world, SIM_CANCEL_SOURCE) && kvr_rng_percent(&world->rng, 40))
        sim_at(world, from + sim_soon(world), cancel_source_run, &request->publishes[0], 0, 0);
    for (uint32_t i = 0; i < request->fetch_count; i++)
        if (has(world, SIM_CANCEL_TARGET) && kvr_rng_percent(&world->rng, 40))
            sim_at(world, from + sim_soon(world), cancel_target_run, &request->fetches[i], 0, 0);
}

static const struct strike {
    sim_fault fault;
    void (*run)(struct sim_world *);
} strikes[] = {
    {SIM_ENGINE_DEATH, engine_death}, {SIM_AGENT_DEATH, agent_death}, {SIM_HANG_UP, hang_up},
    {SIM_RAIL_SILENCE, rail_silence}, {SIM_NO_MEMORY, hoard},
};

/* a: which. Nothing strikes any more once the world is being cleared away. */
static void strike_run(struct sim_world *world, const struct sim_event *event)
{
    if (!world->ending)
        strikes[event->a].run(world);
}

void sim_fault_schedule(struct sim_world *world)
{
    for (uint32_t r = 0; r < world->request_count; r++)
        schedule_cancels(world, &world->requests[r]);
    for (uint32_t i = 0; i < sizeof(strikes) / sizeof(strikes[0]); i++)
        for (uint64_t n = has(world, strikes[i].fault) ? kvr_rng_between(&world->rng, 1, 3) : 0;
             n > 0; n--)
            sim_at(world, world->now + kvr_rng_below(&world->rng, 20 * KVR_MS) + sim_soon(world),
                   strike_run, NULL, i, 0);
}
