/* Where lodgers lie in their lender's memory: behind its pages, between them, or in a pool of
 * blocks that KV groups take by turns, as engines with several groups have it. */
#include "tools/sim/sim_lodger.h"

#include "kv/layout.h"
#include "tools/sim/sim_page.h"

#define SHARE_PERCENT 25 /* of the worlds */
#define LODGE_PERCENT 75 /* of the regions that may */

bool sim_lodgers_in(uint64_t seed)
{
    return kvr_mix64(seed ^ UINT64_C(0x6c6f6467)) % 100 < SHARE_PERCENT;
}

uint32_t sim_lodgers_with(const struct sim_engine *engine, uint32_t which)
{
    uint32_t bits = 0;

    for (uint32_t r = 0; r < engine->region_count; r++)
        bits |= (uint32_t)(engine->lenders[r] == engine->lenders[which]) << r;
    return bits;
}

static bool by_block(const struct kvr_region_layout *layout)
{
    return layout->page_stride >= layout->layer_stride;
}

/* Of one page of one layer and part, with its gap. */
static uint64_t step_of(const struct kvr_region_layout *layout)
{
    return by_block(layout) ? layout->part_stride : layout->page_stride;
}

/* All layers and parts of one page. */
static uint64_t block_of(const struct kvr_region_layout *layout)
{
    return step_of(layout) * layout->part_count * layout->layer_count;
}

/* The pages of one region after those of another. Returns where the last end. */
static uint64_t behind(struct sim_engine *engine, uint32_t members)
{
    uint32_t first = (uint32_t)kvr_rng_below(&engine->world->rng, engine->region_count);
    uint64_t end = 0;

    for (uint32_t i = 0; i < engine->region_count; i++) {
        uint32_t r = (first + i) % engine->region_count;
        struct kvr_region_layout *layout = &engine->layouts[r];

        if (!(members >> r & 1))
            continue;
        layout->base += end;
        end = layout->base + block_of(layout) * layout->page_count;
    }
    return end;
}

/* Page by page. In a pool a block is a page of one KV group: the regions of each group begin at the
 * block's start again, and so lie over those of the other. */
static uint64_t woven(struct sim_engine *engine, uint32_t members, bool pool)
{
    struct kvr_rng *rng = &engine->world->rng;
    uint32_t first = (uint32_t)kvr_rng_below(rng, engine->region_count), page_count = 0;
    uint64_t at[SIM_KV_GROUPS], base = 8 * kvr_rng_below(rng, 8), stride;

    for (uint32_t group = 0; group < SIM_KV_GROUPS; group++)
        at[group] = pool ? 8 * kvr_rng_below(rng, 4) : 0;
    for (uint32_t i = 0; i < engine->region_count; i++) {
        uint32_t r = (first + i) % engine->region_count;
        struct kvr_region_layout *layout = &engine->layouts[r];
        uint64_t block = block_of(layout), step = step_of(layout);

        if (!(members >> r & 1))
            continue;
        layout->base = base + at[pool ? layout->group : 0];
        layout->part_stride = step;
        layout->layer_stride = step * layout->part_count;
        at[pool ? layout->group : 0] += block;
        page_count = layout->page_count;
    }
    stride = at[0] > at[1] ? at[0] : at[1];
    for (uint32_t r = 0; r < engine->region_count; r++)
        if (members >> r & 1)
            engine->layouts[r].page_stride = stride;
    return base + stride * page_count;
}

/* The lender has the whole memory, and a lodger of it what its pages need at least. */
static void bytes_choose(struct sim_engine *engine, uint32_t members, uint64_t end)
{
    struct kvr_rng *rng = &engine->world->rng;
    uint64_t bytes = end + 8 * kvr_rng_below(rng, 8);

    for (uint32_t r = 0; r < engine->region_count; r++) {
        struct kvr_region_layout *layout = &engine->layouts[r];
        uint64_t first, least;

        if (!(members >> r & 1))
            continue;
        kvr_layout_span(layout, 0, layout->page_count - 1, &first, &least);
        layout->bytes = engine->lenders[r] == r    ? bytes
                        : kvr_rng_percent(rng, 50) ? least
                                                   : kvr_rng_between(rng, least, bytes);
    }
}

static void family_place(struct sim_engine *engine, uint32_t members)
{
    struct kvr_rng *rng = &engine->world->rng;
    uint64_t end;

    if (engine->pooled && kvr_rng_percent(rng, 60))
        end = woven(engine, members, true);
    else if (kvr_rng_percent(rng, 50))
        end = woven(engine, members, false);
    else
        end = behind(engine, members);
    bytes_choose(engine, members, end);
}

void sim_lodgers_choose(struct sim_engine *engine)
{
    struct kvr_rng *rng = &engine->world->rng;

    for (uint32_t r = 1; r < engine->region_count; r++)
        if (kvr_rng_percent(rng, LODGE_PERCENT))
            engine->lenders[r] = engine->lenders[kvr_rng_below(rng, r)];
    for (uint32_t r = 0; r < engine->region_count; r++) {
        uint32_t members = sim_lodgers_with(engine, r);

        if (engine->lenders[r] == r && members != 1u << r)
            family_place(engine, members);
    }
}
