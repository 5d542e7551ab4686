/* What can go wrong: names, which of it a world has, and what was injected. */
#include "decode-agent/transfer.h"
#include "tools/sim/sim_world.h"

#define NEWEST_PERCENT 30

static const struct {
    const char *name;
    bool mendable;
} faults[] = {
#define X(symbol, name, mendable, text) {name, mendable},
    SIM_FAULT_LIST(X)
#undef X
};

const char *sim_fault_name(sim_fault fault)
{
    return faults[fault].name;
}

uint64_t sim_faults_mendable(void)
{
    uint64_t mendable = 0;

    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
        mendable |= (uint64_t)faults[i].mendable << i;
    return mendable;
}

/* At least one transfer has some of its chunks, and not all. */
bool sim_mid_transfer(const struct sim_world *world)
{
    for (uint32_t i = SIM_SOURCES; i < SIM_AGENTS; i++) {
        const struct inbound *inbound = world->agents[i].inbound;

        for (uint32_t t = 0; world->agents[i].alive && t < inbound->transfers.reach; t++) {
            const struct transfer *transfer = kvr_pool_at(&inbound->transfers, t, NULL);

            if (transfer != NULL && transfer->state == T_LIVE && !transfer->delivery.all_in &&
                transfer->grant.landing->chunk_count > 0)
                return true;
        }
    }
    return false;
}

void sim_fault_note(struct sim_world *world, sim_fault fault, kvr_ns until)
{
    world->injected[fault]++;
    if ((world->mid >> fault & 1) == 0 && sim_mid_transfer(world))
        world->mid |= SIM_FAULT_BIT(fault);
    sim_history_add(&world->history, &(struct sim_line){.at = world->now,
                                                        .who = "fault",
                                                        .what = faults[fault].name,
                                                        .a = until - world->now,
                                                        .request = -1});
}

void sim_injected_until(struct sim_world *world, sim_fault fault, kvr_ns until)
{
    sim_time_struck(world, until);
    sim_fault_note(world, fault, until);
}

void sim_mended(struct sim_world *world)
{
    sim_time_struck(world, world->now);
}

void sim_injected(struct sim_world *world, sim_fault fault)
{
    sim_injected_until(world, fault, world->now);
}

kvr_ns sim_soon(struct sim_world *world)
{
    return kvr_rng_below(&world->rng, (KVR_US << kvr_rng_below(&world->rng, 17)) + 1);
}

/* A quarter of the worlds is healthy; of the others each has a few faults. What was added last has
 * numbers of its own, so that a seed without it is the world that it was before: so have ways
 * (sim_ways.c). */
void sim_fault_begin(struct sim_world *world)
{
    struct kvr_rng last, newest;

    if (kvr_rng_percent(&world->rng, 25))
        return;
    kvr_rng_init(&last, ~world->seed);
    for (uint32_t i = SIM_WORDS; i < SIM_WAY_LOST; i++)
        if (kvr_rng_percent(&last, 25))
            world->faults |= SIM_FAULT_BIT(i) & world->allowed;
    kvr_rng_init(&newest, kvr_mix64(world->seed ^ UINT64_C(0x66726f7a)));
    for (uint32_t i = SIM_AGENT_FROZEN; i < SIM_FAULT_COUNT; i++)
        if (kvr_rng_percent(&newest, NEWEST_PERCENT))
            world->faults |= SIM_FAULT_BIT(i) & world->allowed;
    for (uint32_t i = 0; i < SIM_WORDS; i++)
        if (kvr_rng_percent(&world->rng, i == SIM_GROUP_LOST ? 40 : 25))
            world->faults |= SIM_FAULT_BIT(i) & world->allowed;
}

/* ---- what strikes chooses by ------------------------------------------------------------------
 */

bool sim_user_lives(const struct sim_user *user)
{
    return user->open && !user->ended && user->engine->alive && user->engine->attached;
}

struct sim_agent *sim_agent_choose(struct sim_world *world)
{
    return &world->agents[kvr_rng_below(&world->rng, SIM_AGENTS)];
}

bool sim_agent_stopped(const struct sim_agent *agent)
{
    return agent->world->now < agent->stopped_until;
}

kvr_ns sim_short_or_long(struct sim_world *world, kvr_ns most)
{
    return kvr_rng_percent(&world->rng, 60) ? sim_soon(world) : kvr_rng_below(&world->rng, most);
}

void sim_disturb_all(struct sim_world *world)
{
    for (uint32_t r = 0; r < world->request_count; r++)
        for (uint32_t i = 0; i < world->requests[r].publish_count; i++)
            world->requests[r].publishes[i].disturbed = true;
}
