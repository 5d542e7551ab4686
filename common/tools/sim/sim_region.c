/* The regions of an engine: how their pages lie in memory, and their way to and from the agent. */
#include "tools/sim/sim_region.h"

#include <stdlib.h>
#include <string.h>

#include "kv/layout.h"
#include "tools/sim/sim_keys.h"
#include "tools/sim/sim_lodger.h"
#include "tools/sim/sim_page.h"

/* ---- memory -------------------------------------------------------------------------------- */

/* One region of some layers: which dimension is the outermost, and gaps between pages, by chance.
 */
static void layout_choose(struct sim_engine *engine, uint32_t number, uint32_t layer_first,
                          uint32_t layer_count)
{
    const struct sim_geometry *geometry = &engine->world->geometry;
    struct kvr_rng *rng = &engine->world->rng;
    struct kvr_region_layout *layout = &engine->layouts[number];
    bool state = sim_is_state(engine->world, layer_first);
    uint32_t tokens = state ? 1 : engine->page_tokens;
    uint64_t head_bytes = sim_head_bytes(engine->world, layer_first);
    uint64_t step = sim_page_bytes(engine, layer_first) +
                    (kvr_rng_percent(rng, 30) ? 8 * kvr_rng_between(rng, 1, 4) : 0);

    *layout = (struct kvr_region_layout){
        .region = 100 + number,
        .group = layer_first >= geometry->group_split,
        .layer_first = layer_first,
        .layer_count = layer_count,
        .part_count = sim_part_count(engine->world, layer_first),
        .replicated = geometry->parts[0] == KVR_PART_MLA,
        .head_first = engine->share.head_first,
        .head_count = engine->share.head_count,
        .page_tokens = state ? 0 : engine->page_tokens,
        .page_count = engine->page_count << engine->pooled,
        .base = 8 * kvr_rng_below(rng, 8),
        .token_stride = (engine->heads_outer ? 1 : engine->share.head_count) * head_bytes,
        .head_stride = (engine->heads_outer ? tokens : 1) * head_bytes,
        .head_bytes = head_bytes,
    };
    memcpy(layout->parts, geometry->parts, sizeof(geometry->parts));
    if (state)
        layout->parts[0] = KVR_PART_STATE;
    if (kvr_rng_percent(rng, 60)) { /* a tensor a layer and part */
        layout->page_stride = step;
        layout->part_stride = step * layout->page_count;
        layout->layer_stride = layout->part_stride * layout->part_count;
    } else { /* blocks across layers */
        layout->part_stride = step;
        layout->layer_stride = step * layout->part_count;
        layout->page_stride = layout->layer_stride * layout->layer_count;
    }
    layout->bytes = layout->base + step * layout->page_count * layout->part_count * layer_count +
                    8 * kvr_rng_below(rng, 8);
}

static void layouts_choose(struct sim_engine *engine)
{
    uint32_t split = engine->world->geometry.group_split, layer = engine->share.layer_first;
    uint32_t layer_end = layer + engine->share.layer_count;
    struct kvr_rng *rng = &engine->world->rng;

    for (; layer < layer_end; engine->region_count++) {
        uint32_t left = (layer < split && split < layer_end ? split : layer_end) - layer;
        uint32_t most = engine->world->lodgers && left > 1 ? left - 1 : left;
        uint32_t count = kvr_rng_percent(rng, 60) ? most : (uint32_t)kvr_rng_between(rng, 1, most);

        engine->lenders[engine->region_count] = engine->region_count;
        layout_choose(engine, engine->region_count, layer, count);
        layer += count;
    }
}

void sim_regions_choose(struct sim_engine *engine)
{
    engine->pooled = engine->world->lodgers && sim_engine_has_group(engine, 0, 0) &&
                     sim_engine_has_group(engine, 1, 0) && kvr_rng_percent(&engine->world->rng, 50);
    layouts_choose(engine);
    if (engine->world->lodgers)
        sim_lodgers_choose(engine);
    for (uint32_t r = 0; r < engine->region_count; r++) {
        if (engine->lenders[r] != r) {
            engine->memory[r] = engine->memory[engine->lenders[r]];
            continue;
        }
        engine->memory[r] = malloc(engine->layouts[r].bytes);
        if (engine->memory[r] == NULL)
            abort();
        memset(engine->memory[r], 0xee, engine->layouts[r].bytes);
    }
}

/* ---- to and from the agent ----------------------------------------------------------------- */

struct kvr_engines *sim_engines_of(const struct sim_engine *engine)
{
    return engine->agent->source ? &engine->agent->outbound->engines
                                 : &engine->agent->inbound->engines;
}

static uint32_t life_of(const struct kvr_region_layout *layout)
{
    return layout->region - 100;
}

/* The rail group that all of its regions are registered with. */
static uint32_t home_of(const struct sim_engine *engine)
{
    return engine->number % engine->agent->groups.count;
}

static kvr_status region_open(struct sim_engine *engine, uint32_t which,
                              struct kvr_region **ret_region, struct kvr_error *error)
{
    struct sim_agent *agent = engine->agent;
    const struct kvr_region_layout *layout = &engine->layouts[which];
    struct sim_group *group = &agent->group[home_of(engine)];
    struct kvr_rail *rails[SIM_RAILS];
    kvr_status status;

    sim_group_rails(group, rails);
    if (agent->staged)
        status = sim_stage_region(group, layout, engine->memory[which], ret_region, error);
    else
        status = kvr_region_open_mapped(&agent->fabric, rails, agent->rail_count, layout,
                                        engine->memory[which], agent->source,
                                        sim_remote_access(agent), ret_region, error);
    if (status == KVR_OK) {
        (*ret_region)->home = home_of(engine);
        engine->region_serials[engine->region_lives] = ++engine->world->region_serial;
    }
    return status;
}

/* As agent_regions.c does: nothing is registered anew. */
static kvr_status region_lodge(struct sim_engine *engine, uint32_t which,
                               struct kvr_region **ret_region, struct kvr_error *error)
{
    uint32_t life = life_of(&engine->layouts[engine->lenders[which]]);

    if (engine->layouts[which].bytes > engine->regions[life]->layout.bytes)
        return kvr_error_set(error, KVR_INVALID, "sim", "it is larger than its lender");
    *ret_region = engine->regions[life];
    engine->region_serials[engine->region_lives] = engine->region_serials[life];
    engine->world->totals->lodgers++;
    sim_engine_note(engine, "lodges region", -1, 100 + engine->region_lives, 100 + life, NULL);
    return KVR_OK;
}

/* Under a number that no region of this engine had before. */
void sim_region_add(struct sim_engine *engine, uint32_t which)
{
    struct kvr_region_layout *layout = &engine->layouts[which];
    bool lodges = engine->lenders[which] != which;
    struct kvr_region *region = NULL;
    struct kvr_error error;
    kvr_status status;

    layout->region = 100 + engine->region_lives;
    status = kvr_layout_check(layout, &error);
    if (status == KVR_OK)
        status = (lodges ? region_lodge : region_open)(engine, which, &region, &error);
    if (status == KVR_OK)
        status =
            kvr_engines_region_add(sim_engines_of(engine), engine->index, layout, region, &error);
    engine->regions[engine->region_lives++] = region;
    if (status != KVR_OK)
        sim_fail(engine->world, -1, "engine %u region %u: %s", engine->number, which, error.detail);
}

static bool region_has(const struct sim_engine *engine, const struct kvr_region *region)
{
    for (uint32_t r = 0; r < engine->region_lives; r++)
        if (engine->regions[r] == region)
            return true;
    return false;
}

void sim_region_done(struct sim_agent *agent, struct kvr_region *region, uint32_t number)
{
    uint32_t life = number - 100;

    for (uint32_t i = 0; i < agent->world->engine_count; i++) {
        struct sim_engine *engine = &agent->world->engines[i];

        if (!region_has(engine, region))
            continue;
        if (life >= engine->region_lives || engine->regions[life] != region)
            sim_fail(agent->world, -1, "region %u of engine %u is done twice", number,
                     engine->number);
        else
            engine->regions[life] = NULL;
        if (!region_has(engine, region))
            sim_region_release(agent, region);
        return;
    }
    sim_fail(agent->world, -1, "a region that no engine has is done");
}

void sim_engine_regions_release(struct sim_engine *engine)
{
    for (uint32_t r = 0; r < engine->region_lives; r++) {
        struct kvr_region *region = engine->regions[r];

        engine->regions[r] = NULL;
        if (!region_has(engine, region))
            sim_region_release(engine->agent, region);
    }
    engine->region_lives = 0;
}

/* a: bits of them, b: life of the agent. Lenders come first. */
static void regions_again_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_engine *engine = event->object;

    if (engine->attached && engine->agent->life == event->b &&
        sim_agent_deferred(engine->agent, event, world->now))
        return;
    world->busy--;
    if (!engine->attached || engine->agent->life != event->b)
        return; /* if it attaches again, then with all regions */
    engine->region_changes = false;
    engine->layers_missing = 0;
    sim_hoard_end(engine->agent); /* an engine that is refused would try again */
    for (uint32_t r = 0; r < engine->region_count; r++)
        if (event->a >> r & 1)
            sim_region_add(engine, r);
}

static void region_drop(struct sim_engine *engine, uint32_t which)
{
    const struct kvr_region_layout *layout = &engine->layouts[which];
    kvr_status status;

    sim_hoard_end(engine->agent);
    status = kvr_engines_region_drop(sim_engines_of(engine), engine->index, layout->region);
    sim_engine_note(engine, "drops region", -1, layout->region, 0, NULL);
    if (status != KVR_OK)
        sim_fail(engine->world, -1, "engine %u cannot drop region %u: %s", engine->number, which,
                 kvr_status_name(status));
    engine->layers_missing |= ((1u << layout->layer_count) - 1) << layout->layer_first;
}

void sim_engine_region_change(struct sim_engine *engine)
{
    struct sim_world *world = engine->world;
    uint32_t which = (uint32_t)kvr_rng_below(&world->rng, engine->region_count), count;
    uint32_t dropped = 1u << which;
    bool last_first = false;

    if (engine->region_changes)
        return;
    if (world->lodgers && kvr_rng_percent(&world->rng, 50))
        dropped = sim_lodgers_with(engine, which);
    count = (uint32_t)__builtin_popcount(dropped);
    if (engine->region_lives + count > SIM_REGION_LIVES)
        return;
    engine->region_changes = true;
    if (count > 1)
        last_first = kvr_rng_percent(&world->rng, 50);
    for (uint32_t i = 0; i < engine->region_count && !world->failed; i++) {
        uint32_t r = last_first ? engine->region_count - 1 - i : i;

        if (dropped >> r & 1)
            region_drop(engine, r);
    }
    world->busy++;
    sim_at(world, world->now + 1 + sim_soon(world), regions_again_run, engine, dropped,
           engine->agent->life);
}
