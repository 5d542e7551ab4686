/* A stranger: it reaches the ports of the rails, has no key, and forges arrivals (rule 5). Or a
 * peer that hangs up in mid write (rule 4): the rail must be renewed for it, too. Where writes
 * carry tags it may even know the slots in use. Where they do not, it guesses: numbers count up
 * from 1, as a stranger would think.
 *
 * One guess in some ten thousands is right by luck, and would be believed. So the first right guess
 * of a world stays unsent. A second one is no luck: the slots can be foretold. */
#include <inttypes.h>

#include "decode-agent/transfer.h"
#include "tools/sim/sim_world.h"

#define GUESSES 64
#define LARGEST (KVR_STRANGERS_TAGGED_MAX + 8)

static bool in_use(const struct sim_agent *agent, uint32_t slot)
{
    for (uint32_t i = 0; i < agent->groups.count; i++)
        if (agent->group[i].land->slots[slot].landing != 0)
            return true;
    return false;
}

/* A slot that is in use, or just any. */
static uint32_t slot_known(struct sim_world *world, const struct sim_agent *agent)
{
    for (uint32_t k = 0; k < agent->inbound->transfers.reach; k++) {
        const struct transfer *transfer = kvr_pool_at(&agent->inbound->transfers, k, NULL);

        if (transfer != NULL && transfer->slots.count > 0 && kvr_rng_percent(&world->rng, 60))
            return transfer->slots.numbers[kvr_rng_below(&world->rng, transfer->slots.count)];
    }
    return (uint32_t)kvr_rng_between(&world->rng, 1, 2 * agent->inbound->options.slot_last);
}

/* 0: it keeps the guess to itself. */
static uint64_t forged(struct sim_world *world, const struct sim_agent *agent)
{
    uint32_t chunk = (uint32_t)kvr_rng_below(&world->rng, 16), slot;
    uint64_t tag = kvr_rng_next(&world->rng) >> 32;

    if (world->tagged) {
        slot = slot_known(world, agent);
        return tag << 32 | slot << 16 | chunk;
    }
    slot = (uint32_t)kvr_rng_between(&world->rng, 1, GUESSES);
    if (!in_use(agent, slot))
        return slot << 16 | chunk;
    if (++world->guessed > 1)
        sim_fail(world, -1, "a stranger has guessed two slots in use: the last one is %u", slot);
    return 0;
}

static uint32_t count_choose(struct sim_world *world)
{
    if (!kvr_rng_percent(&world->rng, 30))
        return (uint32_t)kvr_rng_between(&world->rng, 1, KVR_STRANGERS_MAX - 1);
    return world->tagged && !kvr_rng_percent(&world->rng, 20)
               ? 2 * KVR_STRANGERS_MAX
               : (world->tagged ? LARGEST : 2 * KVR_STRANGERS_MAX);
}

/* The epoch must end; looked at when the world is over. */
static void visit_note(struct sim_world *world, const struct sim_agent *agent, uint32_t rail)
{
    uint32_t group = kvr_rail_groups_of(&agent->groups, rail);

    if (world->visit_count < SIM_VISITS)
        world->visits[world->visit_count++] =
            (struct sim_visit){agent->number, agent->life, rail,
                               kvr_group_address(agent->group[group].group, rail).epoch};
}

void sim_stranger(struct sim_world *world)
{
    struct sim_agent *agent = &world->agents[SIM_SOURCES + kvr_rng_below(&world->rng, SIM_TARGETS)];
    uint32_t count = count_choose(world), sent = 0, rail;

    if (!agent->alive || world->target_copies)
        return;
    rail = (uint32_t)kvr_rng_below(&world->rng, agent->rail_count);
    if ((agent->groups.same_host >> rail & 1) != 0)
        return; /* no stranger reaches it */
    if (kvr_rng_percent(&world->rng, 25)) {
        if (!kvr_sim_rail_break_off(agent->rails[rail]))
            return;
        sim_injected_until(world, SIM_STRANGER, world->now + 2 * KVR_S);
        visit_note(world, agent, rail);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t immediate = forged(world, agent);

        sent += immediate != 0 && kvr_sim_rail_forge(agent->rails[rail], immediate);
    }
    if (sent == 0)
        return;
    /* A rail without tags counts nothing until it is renewed: within a second after the last time.
     */
    sim_injected_until(world, SIM_STRANGER, world->now + 2 * KVR_S);
    if (sent >= (world->tagged ? KVR_STRANGERS_TAGGED_MAX : KVR_STRANGERS_MAX))
        visit_note(world, agent, rail);
}

/* It was renewed a short time ago, and what has come since is seen to with a tick. An agent that
 * stands still renews nothing, and has its next tick after it wakes. */
static bool awaits_renewal(const struct sim_agent *agent, uint32_t rail)
{
    const struct inbound_strangers *strangers = &agent->inbound->rails[rail].strangers;
    kvr_ns due = strangers->renewed_at + strangers->wait;

    due = due > agent->stopped_until ? due : agent->stopped_until;
    return sim_agent_stopped(agent) ||
           (strangers->epoch != 0 && agent->world->now < due + SIM_TICK_NS * 3 / 2);
}

/* Rule 5: without strangers and entries that come twice each write is one of a transfer. */
static void idle_slots_check(struct sim_world *world, const struct sim_agent *agent)
{
    uint64_t writes = 0;

    for (uint32_t i = 0; i < agent->groups.count; i++)
        for (uint32_t rail = 0; rail < agent->rail_count; rail++)
            writes += agent->group[i].land->unexpected[rail][UNEXPECTED_IDLE_SLOT];
    if (writes > 0)
        sim_fail(world, -1, "%" PRIu64 " writes came to agent %u for slots of no transfer", writes,
                 agent->number);
}

void sim_strangers_check(struct sim_world *world)
{
    bool honest = world->injected[SIM_STRANGER] + world->injected[SIM_WRITE_TWICE] == 0;

    for (uint32_t i = SIM_SOURCES; honest && i < SIM_AGENTS; i++)
        if (world->agents[i].alive)
            idle_slots_check(world, &world->agents[i]);
    for (uint32_t i = 0; i < world->visit_count; i++) {
        const struct sim_visit *visit = &world->visits[i];
        struct sim_agent *agent = &world->agents[visit->agent];
        uint32_t group = kvr_rail_groups_of(&agent->groups, visit->rail);

        if (agent->alive && agent->life == visit->life && !awaits_renewal(agent, visit->rail) &&
            kvr_group_address(agent->group[group].group, visit->rail).epoch <= visit->epoch)
            sim_fail(world, -1, "rail %u of agent %u was visited by strangers and never renewed",
                     visit->rail, visit->agent);
    }
}
