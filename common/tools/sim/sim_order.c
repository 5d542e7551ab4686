/* Orders of an operator for requests without a target (`kvrail abandon`, `kvrail renew`), and the
 * renewal of an engine with a low lease. */
#include "prefill-agent/publish.h"
#include "tools/sim/sim_world.h"

#define LEASE_MS_MAX 15000

static bool at(const struct sim_publish *publish, const struct sim_agent *agent)
{
    return publish->user.engine->agent == agent && publish->user.open && !publish->user.ended &&
           !publish->user.end_held;
}

/* No target has come: the order must take effect. With several consumers some may have come. */
static bool waits(const struct sim_publish *publish)
{
    return !publish->user.accepted;
}

static bool taken(const struct sim_publish *publish)
{
    return publish->user.accepted && publish->consumers == 1;
}

/* How many of the request's publishes the order must have touched at least, and may have. */
static void expected(const struct sim_request *request, const struct sim_agent *agent,
                     uint32_t *ret_least, uint32_t *ret_most)
{
    *ret_least = *ret_most = 0;
    for (uint32_t i = 0; i < request->publish_count; i++) {
        const struct sim_publish *publish = &request->publishes[i];

        *ret_least += at(publish, agent) && waits(publish);
        *ret_most += at(publish, agent) && !taken(publish);
    }
}

static void check_count(const struct sim_request *request, const char *order, uint32_t count,
                        uint32_t least, uint32_t most)
{
    if (count < least || count > most)
        sim_fail(request->world, (int)request->number,
                 "%s touched %u publishes: %u to %u await their targets", order, count, least,
                 most);
}

static void note(const struct sim_agent *agent, const struct sim_request *request, const char *what,
                 uint32_t count)
{
    sim_history_add(&agent->world->history, &(struct sim_line){.at = agent->world->now,
                                                               .who = "source",
                                                               .number = (uint8_t)agent->number,
                                                               .what = what,
                                                               .a = count,
                                                               .request = (int)request->number});
}

/* A publish without a target is free at once; one that all its targets fetch goes on. */
static void abandon(struct sim_agent *agent, struct sim_request *request, uint32_t attempt)
{
    struct sim_world *world = agent->world;
    bool free_now[SIM_PUBLISHES] = {false}, stays[SIM_PUBLISHES] = {false};
    uint32_t least, most, count;

    expected(request, agent, &least, &most);
    for (uint32_t i = 0; i < request->publish_count; i++) {
        struct sim_publish *publish = &request->publishes[i];
        bool held = at(publish, agent);

        free_now[i] = held && attempt == 1 && waits(publish);
        stays[i] = held && (attempt != 1 || taken(publish));
        publish->disturbed = publish->disturbed || (held && !stays[i]);
    }
    count = outbound_abandon(agent->outbound, world->now, request->name, attempt);
    note(agent, request, "abandon", count);
    check_count(request, "abandon", count, attempt == 1 ? least : 0, attempt == 1 ? most : 0);
    for (uint32_t i = 0; i < request->publish_count; i++) {
        const struct sim_user *user = &request->publishes[i].user;

        if (free_now[i] && !sim_engine_stopped(user->engine) &&
            (!user->ended || user->outcome != KVR_CANCELLED))
            sim_fail(world, (int)request->number,
                     "it was abandoned before a target came, and is not free");
        if (stays[i] && user->ended)
            sim_fail(world, (int)request->number,
                     "abandoning a request frees what its target has come for, or another attempt");
    }
}

static void renew(struct sim_agent *agent, struct sim_request *request, uint32_t attempt)
{
    struct sim_world *world = agent->world;
    kvr_ns lease = kvr_rng_between(&world->rng, 1, LEASE_MS_MAX) * KVR_MS;
    uint32_t least, most, count;

    expected(request, agent, &least, &most);
    for (uint32_t i = 0; attempt == 1 && i < request->publish_count; i++) {
        if (!at(&request->publishes[i], agent))
            continue;
        request->publishes[i].lease_ns = lease;
        request->publishes[i].lease_end = world->now + lease;
    }
    count = outbound_renew(agent->outbound, world->now, request->name, attempt, lease);
    note(agent, request, "renew", count);
    check_count(request, "renew", count, attempt == 1 ? least : 0, attempt == 1 ? most : 0);
}

/* The agent has it with the answer to a report. object: the request; a: the agent; b: the fault. */
static void order_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_agent *agent = &world->agents[event->a];
    bool other_attempt = kvr_rng_percent(&world->rng, 10);

    if (world->ending || !agent->alive || sim_agent_deferred(agent, event, world->now))
        return;
    sim_time_asked(world);
    if (event->b == SIM_ABANDON)
        abandon(agent, event->object, other_attempt ? 2 : 1);
    else
        renew(agent, event->object, other_attempt ? 2 : 1);
}

static void order(struct sim_world *world, sim_fault fault)
{
    struct sim_request *request =
        &world->requests[kvr_rng_below(&world->rng, world->request_count)];

    sim_injected(world, fault);
    for (uint32_t i = 0; i < SIM_SOURCES; i++)
        sim_at(world, world->now + 1 + sim_soon(world), order_run, request, i, fault);
}

void sim_abandon(struct sim_world *world)
{
    order(world, SIM_ABANDON);
}

void sim_renew(struct sim_world *world)
{
    order(world, SIM_RENEW);
}

/* ---- the engine's own ----------------------------------------------------------------------- */

static void engine_renew_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_publish *publish = event->object;
    struct sim_user *user = &publish->user;
    struct kvr_request request = {.kind = KVR_REQ_RENEW, .handle = user->handle};

    if (world->ending || user->ended || !user->engine->alive || !user->engine->attached ||
        sim_agent_deferred(user->engine->agent, event, world->now))
        return;
    if (kvr_rng_percent(&world->rng, 50)) {
        request.renew.lease_ms = (uint32_t)kvr_rng_between(&world->rng, 1, LEASE_MS_MAX);
        publish->lease_ns = request.renew.lease_ms * KVR_MS;
    }
    publish->lease_end = world->now + publish->lease_ns;
    sim_ask(user->engine, &request);
}

void sim_lease_low(struct sim_publish *publish)
{
    struct sim_world *world = publish->request->world;

    if (publish->renewed || !kvr_rng_percent(&world->rng, 30))
        return;
    publish->renewed = true; /* once: no engine waits for ever */
    sim_at(world, world->now + 1 + sim_soon(world), engine_renew_run, publish, 0, 0);
}

void sim_check_lease_end(const struct sim_publish *publish)
{
    const struct sim_world *world = publish->request->world;

    if (world->now < publish->lease_end)
        sim_fail(publish->request->world, (int)publish->request->number,
                 "its lease ends %.3f s early", (double)(publish->lease_end - world->now) / 1e9);
}
