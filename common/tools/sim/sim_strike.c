/* What strikes in a world, and when. */
#include "decode-agent/transfer.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/source_transfer.h"
#include "tools/sim/sim_region.h"
#include "tools/sim/sim_world.h"

#define STRIKE_WAITS 10

/* ---- cancels ------------------------------------------------------------------------------- */

static void cancel_ask(struct sim_user *user)
{
    struct kvr_request request = {.kind = KVR_REQ_CANCEL, .handle = user->handle};

    request.cancel.reason = KVR_CANCELLED;
    sim_ask(user->engine, &request);
}

static void cancel_source_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_publish *publish = event->object;

    if (!sim_user_lives(&publish->user) || sim_engine_deferred(publish->user.engine, event) ||
        sim_agent_deferred(publish->user.engine->agent, event, world->now))
        return;
    sim_injected(world, SIM_CANCEL_SOURCE);
    publish->disturbed = true;
    cancel_ask(&publish->user);
}

static void cancel_target_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_fetch *fetch = event->object;

    if (!sim_user_lives(&fetch->user) || sim_engine_deferred(fetch->user.engine, event) ||
        sim_agent_deferred(fetch->user.engine->agent, event, world->now))
        return;
    sim_injected(world, SIM_CANCEL_TARGET);
    cancel_ask(&fetch->user);
    if (kvr_rng_percent(&world->rng, 20) && sim_user_lives(&fetch->user))
        cancel_ask(&fetch->user); /* it is idempotent */
}

/* ---- the control channel -------------------------------------------------------------------- */

static void hang_up(struct sim_world *world)
{
    struct sim_agent *agent = sim_agent_choose(world);
    struct sim_peer *peer = agent->peers;

    while (peer < &agent->peers[SIM_PEERS - 1] && (!peer->live || kvr_rng_percent(&world->rng, 30)))
        peer++;
    if (!agent->alive || sim_agent_stopped(agent) || !peer->live || peer->ending)
        return;
    sim_injected(world, SIM_HANG_UP);
    sim_disturb_all(world);
    sim_peer_hang_up(agent, peer->index, KVR_CANCELLED, "hung up");
}

/* At once, or at some byte that is still to be written. Sometimes no agent can dial for a while. */
static void connection_lost(struct sim_world *world)
{
    struct sim_connection *connection = world->connections;
    uint64_t more = kvr_rng_percent(&world->rng, 50) ? kvr_rng_between(&world->rng, 1, 4000) : 0;

    while (connection != NULL &&
           (connection->broken || !connection->ends[0].open || !connection->ends[1].open ||
            (connection->next != NULL && kvr_rng_percent(&world->rng, 30))))
        connection = connection->next;
    if (connection == NULL)
        return;
    sim_connection_break(connection, more);
    if (kvr_rng_percent(&world->rng, 30))
        world->apart_until = world->now + sim_short_or_long(world, 5 * KVR_S);
    sim_injected_until(world, SIM_CONNECTION_LOST, world->apart_until);
}

static void scheduler_away(struct sim_world *world)
{
    world->scheduler_back_at = world->now + sim_short_or_long(world, 20 * KVR_S);
    sim_injected(world, SIM_SCHEDULER_AWAY); /* it delays no transfer */
}

/* ---- engines' regions ----------------------------------------------------------------------- */

static void region_change(struct sim_world *world)
{
    struct sim_engine *engine = &world->engines[kvr_rng_below(&world->rng, world->engine_count)];

    if (!engine->attached || sim_agent_stopped(engine->agent) || sim_engine_stopped(engine))
        return;
    sim_injected(world, SIM_REGION_CHANGE);
    sim_disturb_all(world);
    sim_engine_region_change(engine);
    if (world->lodgers && sim_has(world, SIM_ENGINE_DEATH) && kvr_rng_percent(&world->rng, 40))
        sim_engine_death_soon(engine); /* while some of its regions are gone, others not */
}

/* ---- revocation words ----------------------------------------------------------------------- */

/* Transfers of other engines of its agent, with pages that are lent as far as their words say. */
static uint32_t others_lent(const struct sim_engine *engine)
{
    const struct outbound *outbound = engine->agent->outbound;
    uint32_t lent = 0;

    for (uint32_t i = 0; i < outbound->transfers.reach; i++) {
        const struct source_transfer *transfer = kvr_pool_at(&outbound->transfers, i, NULL);
        const struct publish *publish =
            transfer != NULL ? kvr_pool_get(&outbound->publishes, transfer->publish) : NULL;

        lent += publish != NULL && publish->engine != engine->index &&
                transfer->grant.revocation_word != NULL &&
                kvr_revocation_word_holds(transfer->grant.revocation_word, transfer->nonce);
    }
    return lent;
}

/* One that has words; NULL: there is none. */
static struct sim_engine *lender_choose(struct sim_world *world)
{
    uint32_t first = (uint32_t)kvr_rng_below(&world->rng, world->engine_count);

    for (uint32_t i = 0; i < world->engine_count; i++) {
        struct sim_engine *engine = &world->engines[(first + i) % world->engine_count];

        if (engine->attached && engine->agent->source &&
            engine->agent->ports.revocation_words != NULL)
            return engine;
    }
    return NULL;
}

/* Rule 11: it disturbs its own requests alone. */
static void words_write(struct sim_world *world)
{
    struct sim_engine *engine = lender_choose(world);
    uint32_t lent;

    if (engine == NULL)
        return;
    sim_injected(world, SIM_WORDS);
    lent = others_lent(engine);
    sim_engine_words_write(engine);
    if (others_lent(engine) != lent)
        sim_fail(world, -1, "engine %u has written over revocation words of other engines",
                 engine->number);
}

/* ---- cards ---------------------------------------------------------------------------------- */

static struct kvr_rail *rail_choose(struct sim_world *world)
{
    struct sim_agent *agent = sim_agent_choose(world);

    return agent->alive ? agent->rails[kvr_rng_below(&world->rng, agent->rail_count)] : NULL;
}

/* One card for a while. */
static void rail_strike(struct sim_world *world, sim_fault fault, kvr_ns most,
                        void (*strike)(struct kvr_rail *rail, kvr_ns until))
{
    struct kvr_rail *rail = rail_choose(world);
    kvr_ns until = world->now + sim_short_or_long(world, most);

    if (rail == NULL)
        return;
    sim_injected_until(world, fault, until);
    strike(rail, until);
}

static void rail_silence(struct sim_world *world)
{
    rail_strike(world, SIM_RAIL_SILENCE, 4 * KVR_S, kvr_sim_rail_silence);
}

static void rail_lost(struct sim_world *world)
{
    rail_strike(world, SIM_RAIL_LOST, 4 * KVR_S, kvr_sim_rail_fail);
}

static bool has_layer(const struct transfer *transfer)
{
    const struct landing_segment *at = transfer->intake.segments;

    while (at != NULL && at->layers_in == 0)
        at = at->loop_next;
    return at != NULL;
}

/* A transfer that is on its way, best one of which a layer is in; NULL: none is. */
static const struct transfer *at_work(struct sim_world *world, struct sim_agent **ret_agent)
{
    const struct transfer *found = NULL;

    for (uint32_t i = SIM_SOURCES; i < SIM_AGENTS; i++) {
        struct sim_agent *agent = &world->agents[i];

        for (uint32_t k = 0; agent->alive && k < agent->inbound->transfers.reach; k++) {
            const struct transfer *transfer = kvr_pool_at(&agent->inbound->transfers, k, NULL);

            if (transfer == NULL || transfer->state != T_LIVE || transfer->delivery.all_in)
                continue;
            found = transfer;
            *ret_agent = agent;
            if (has_layer(transfer))
                return found;
        }
    }
    return found;
}

/* A group with rails that carry it, at one of its ends; false: none. */
static bool group_at_work(struct sim_world *world, struct sim_agent **ret_agent,
                          uint32_t *ret_group)
{
    const struct transfer *transfer = at_work(world, ret_agent);

    if (transfer == NULL)
        return false;
    *ret_group = transfer->grant.granted_group;
    for (uint32_t i = 0; i < SIM_SOURCES && kvr_rng_percent(&world->rng, 50); i++) {
        struct sim_agent *agent = &world->agents[i];

        for (uint32_t k = 0; agent->alive && k < agent->outbound->transfers.reach; k++) {
            const struct source_transfer *sent = kvr_pool_at(&agent->outbound->transfers, k, NULL);

            if (sent != NULL && sent->nonce == transfer->nonce && sent->state == ST_LIVE) {
                *ret_agent = agent;
                *ret_group = sent->grant.rail_group;
                return true;
            }
        }
    }
    return true;
}

/* Mostly for so long that others are asked to carry on. */
static void group_lost(struct sim_world *world)
{
    struct sim_agent *agent = sim_agent_choose(world);
    kvr_ns until = world->now + (kvr_rng_percent(&world->rng, 80)
                                     ? kvr_rng_between(&world->rng, 2 * KVR_S, 12 * KVR_S)
                                     : sim_soon(world));
    bool silent = kvr_rng_percent(&world->rng, 30);
    const uint32_t *first;
    uint32_t group = 0;

    if (!group_at_work(world, &agent, &group) && !agent->alive)
        return;
    first = &agent->groups.first[group];
    sim_injected_until(world, SIM_GROUP_LOST, until);
    for (uint32_t i = first[0]; i < first[1]; i++) {
        if (silent)
            kvr_sim_rail_silence(agent->rails[i], until);
        else
            kvr_sim_rail_fail(agent->rails[i], until);
    }
}

static void rail_slow(struct sim_world *world)
{
    struct kvr_rail *rail = rail_choose(world);
    kvr_ns until = world->now + sim_short_or_long(world, KVR_S);

    if (rail == NULL)
        return;
    sim_injected_until(world, SIM_RAIL_SLOW, until);
    kvr_sim_rail_slow(rail, UINT64_C(1000000) << kvr_rng_below(&world->rng, 10), until);
}

/* ---- memory -------------------------------------------------------------------------------- */

void sim_hoard_end(struct sim_agent *agent)
{
    while (agent->hoard_count > 0)
        kvr_buddy_free(&agent->buddy, agent->hoard[--agent->hoard_count]);
    sim_mended(agent->world);
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
    struct sim_agent *agent = sim_agent_choose(world);
    size_t least = (size_t)64 << kvr_rng_below(&world->rng, 10);

    if (!agent->alive || sim_agent_stopped(agent) || agent->hoard_count > 0)
        return;
    sim_injected(world, SIM_NO_MEMORY);
    sim_disturb_all(world);
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

static void schedule_cancels(struct sim_world *world, struct sim_request *request)
{
    kvr_ns from = world->now + kvr_rng_below(&world->rng, 25 * KVR_MS);

    if (sim_has(world, SIM_CANCEL_SOURCE) && kvr_rng_percent(&world->rng, 40))
        sim_at(world, from + sim_soon(world), cancel_source_run,
               &request->publishes[kvr_rng_below(&world->rng, request->source_count)], 0, 0);
    for (uint32_t i = 0; i < request->fetch_count; i++)
        if (sim_has(world, SIM_CANCEL_TARGET) && kvr_rng_percent(&world->rng, 40))
            sim_at(world, from + sim_soon(world), cancel_target_run, &request->fetches[i], 0, 0);
}

static bool layer_in(const struct sim_world *world)
{
    struct sim_agent *agent;
    const struct transfer *transfer = at_work((struct sim_world *)world, &agent);

    return transfer != NULL && has_layer(transfer);
}

static const struct strike {
    sim_fault fault;
    void (*run)(struct sim_world *);
    bool (*ripe)(const struct sim_world *);
} strikes[] = {
    {SIM_ABANDON, sim_abandon, sim_mid_transfer},
    {SIM_RENEW, sim_renew, sim_mid_transfer},
    {SIM_ENGINE_DEATH, sim_engine_death, sim_mid_transfer},
    {SIM_AGENT_DEATH, sim_agent_death, sim_mid_transfer},
    {SIM_DRAIN, sim_drain, sim_mid_transfer},
    {SIM_AGENT_STOPPED, sim_agent_stop_awhile, sim_mid_transfer},
    {SIM_HANG_UP, hang_up, sim_mid_transfer},
    {SIM_CONNECTION_LOST, connection_lost, sim_mid_transfer},
    {SIM_REGION_CHANGE, region_change, sim_mid_transfer},
    {SIM_RAIL_LOST, rail_lost, sim_mid_transfer},
    {SIM_GROUP_LOST, group_lost, layer_in},
    {SIM_RAIL_SILENCE, rail_silence, sim_mid_transfer},
    {SIM_RAIL_SLOW, rail_slow, sim_mid_transfer},
    {SIM_NO_MEMORY, hoard, sim_mid_transfer},
    {SIM_SCHEDULER_AWAY, scheduler_away, sim_mid_transfer},
    {SIM_STRANGER, sim_stranger, sim_mid_transfer},
    {SIM_WORDS, words_write, sim_mid_transfer},
    {SIM_AGENT_FROZEN, sim_agent_freeze, sim_mid_transfer},
    {SIM_ENGINE_STOPPED, sim_engine_stop_awhile, sim_mid_transfer},
};

/* a: which, b: how often it may wait for a transfer to be under way. Nothing strikes any more once
 * the world is being cleared away. */
static void strike_run(struct sim_world *world, const struct sim_event *event)
{
    if (world->ending)
        return;
    if (event->b > 0 && kvr_rng_percent(&world->rng, 80) && !strikes[event->a].ripe(world))
        sim_at(world, world->now + 1 + sim_soon(world) / 4, strike_run, NULL, event->a,
               event->b - 1);
    else
        strikes[event->a].run(world);
}

/* A transfer that failed over to another group is soon at its end: any fault may strike it now. */
void sim_fault_moved(struct sim_world *world)
{
    if (world->ending)
        return;
    for (uint32_t r = 0; r < world->request_count; r++)
        for (uint32_t i = 0; i < world->requests[r].fetch_count; i++)
            if ((world->allowed >> SIM_CANCEL_TARGET & 1) != 0 && kvr_rng_percent(&world->rng, 15))
                sim_at(world, world->now + sim_soon(world), cancel_target_run,
                       &world->requests[r].fetches[i], 0, 0);
    for (uint32_t i = 0; i < sizeof(strikes) / sizeof(strikes[0]); i++)
        if ((world->allowed >> strikes[i].fault & 1) != 0 && strikes[i].fault < SIM_AGENT_FROZEN &&
            kvr_rng_percent(&world->rng, 10))
            sim_at(world, world->now + sim_soon(world), strike_run, NULL, i, 0);
}

void sim_fault_schedule(struct sim_world *world)
{
    for (uint32_t r = 0; r < world->request_count; r++)
        schedule_cancels(world, &world->requests[r]);
    for (uint32_t i = 0; i < sizeof(strikes) / sizeof(strikes[0]); i++)
        for (uint64_t n = sim_has(world, strikes[i].fault) ? kvr_rng_between(&world->rng, 1, 3) : 0;
             n > 0; n--)
            sim_at(world, world->now + kvr_rng_below(&world->rng, 20 * KVR_MS) + sim_soon(world),
                   strike_run, NULL, i, STRIKE_WAITS);
}
