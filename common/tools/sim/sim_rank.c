/* How engines are divided into ranks, and which of them give to which. */
#include <string.h>

#include "tools/sim/sim_world.h"

static void side_divide(struct sim_world *world, struct sim_side *side)
{
    const struct sim_geometry *geometry = &world->geometry;

    side->page_tokens <<= kvr_rng_below(&world->rng, 3) == 0;
    side->heads_outer = kvr_rng_percent(&world->rng, 30);
    switch (kvr_rng_below(&world->rng, 3)) {
    case 0:
        side->tp_size = geometry->heads % 2 == 0 ? 2 : 1;
        break;
    case 1:
        side->pp_size = geometry->layers > 1 ? 2 : 1;
        break;
    default:
        break;
    }
}

/* In most worlds both sides are alike, and every engine is one rank. */
void sim_sides_choose(struct sim_world *world)
{
    struct sim_geometry *geometry = &world->geometry;
    const struct sim_side whole = {
        .tp_size = 1, .pp_size = 1, .page_tokens = geometry->page_tokens};

    geometry->source = geometry->target = whole;
    if (kvr_rng_percent(&world->rng, 70))
        return;
    side_divide(world, &geometry->source);
    side_divide(world, &geometry->target);
    geometry->page_tokens = geometry->source.page_tokens < geometry->target.page_tokens
                                ? geometry->source.page_tokens
                                : geometry->target.page_tokens;
}

/* The agent of a rank that is not the first: tensor ranks and stages may be on other machines. */
static struct sim_agent *agent_beside(struct sim_world *world, struct sim_agent *agent)
{
    uint32_t first = agent->source ? 0 : SIM_SOURCES;
    uint32_t count = agent->source ? world->source_count : world->target_count;

    return kvr_rng_percent(&world->rng, 50)
               ? agent
               : &world->agents[first + kvr_rng_below(&world->rng, count)];
}

void sim_ranks_begin(struct sim_world *world, struct sim_agent *agent)
{
    const struct sim_geometry *geometry = &world->geometry;
    const struct sim_side *side = agent->source ? &geometry->source : &geometry->target;
    struct kvr_rank rank = {.generation = 1, .tp_size = side->tp_size, .pp_size = side->pp_size};

    memset(rank.engine.bytes, (int)world->engine_count + 1, sizeof(rank.engine.bytes));
    for (rank.pp = 0; rank.pp < rank.pp_size; rank.pp++)
        for (rank.tp = 0; rank.tp < rank.tp_size; rank.tp++)
            sim_engine_attach(sim_engine_new(
                world, rank.tp + rank.pp == 0 ? agent : agent_beside(world, agent), &rank));
}

bool sim_rank_first(const struct sim_engine *engine)
{
    return engine->rank.tp == 0 && engine->rank.pp == 0;
}

uint32_t sim_ranks_of(struct sim_engine *first, struct sim_engine *ret_ranks[SIM_RANKS])
{
    struct sim_world *world = first->world;
    uint32_t count = 0;

    for (uint32_t i = 0; i < world->engine_count && count < SIM_RANKS; i++)
        if (kvr_uuid_equal(&world->engines[i].rank.engine, &first->rank.engine))
            ret_ranks[count++] = &world->engines[i];
    return count;
}

bool sim_ranks_meet(const struct sim_engine *a, const struct sim_engine *b)
{
    const struct kvr_shares of_a = {.count = 1, .shares = {a->share}};
    const struct kvr_shares of_b = {.count = 1, .shares = {b->share}};

    return kvr_shares_meet(&of_a, &of_b);
}
