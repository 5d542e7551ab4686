/* The regions of an engine: how their pages lie in memory, and their way to and from the agent. */
#include "tools/sim/sim_region.h"

#include <stdlib.h>
#include <string.h>

#include "kv/layout.h"
#include "tools/sim/sim_keys.h"

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
        .page_count = engine->page_count,
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
    engine->memory[number] = malloc(layout->bytes);
    if (engine->memory[number] == NULL)
        abort();
    memset(engine->memory[number], 0xee, layout->bytes);
}

void sim_regions_choose(struct sim_engine *engine)
{
    struct sim_world *world = engine->world;
    struct kvr_rng *rng = &world->rng;
    uint32_t layer, layer_end;

    layer = engine->share.layer_first;
    layer_end = layer + engine->share.layer_count;
    for (; layer < layer_end; engine->region_count++) {
        uint32_t split = engine->world->geometry.group_split;
        uint32_t left = (layer < split && split < layer_end ? split : layer_end) - layer;
        uint32_t count = kvr_rng_percent(rng, 60) ? left : (uint32_t)kvr_rng_between(rng, 1, left);

        layout_choose(engine, engine->region_count, layer, count);
        layer += count;
    }
}

/* ---- to and from the agent ----------------------------------------------------------------- */

struct kvr_engines *sim_engines_of(const struct sim_engine *engine)
{
    return engine->agent->source ? &engine->agent->outbound->engines
                                 : &engine->agent->inbound->engines;
}

/* The rail group that all of its regions are registered with. */
static uint32_t home_of(const struct sim_engine *engine)
{
    return engine->number % engine->agent->groups.count;
}

/* Under a number that no region of this engine had before. */
void sim_region_add(struct sim_engine *engine, uint32_t which)
{
    struct sim_agent *agent = engine->agent;
    struct kvr_region_layout *layout = &engine->layouts[which];
    struct kvr_region *region = NULL;
    struct kvr_error error;
    struct sim_group *group = &agent->group[home_of(engine)];
    struct kvr_rail *rails[SIM_RAILS];
    kvr_status status;

    sim_group_rails(group, rails);
    layout->region = 100 + engine->region_lives;
    status = kvr_layout_check(layout, &error);
    if (status == KVR_OK && agent->staged)
        status = sim_stage_region(group, layout, engine->memory[which], &region, &error);
    else if (status == KVR_OK)
        status = kvr_region_open_mapped(&agent->fabric, rails, agent->rail_count, layout,
                                        engine->memory[which], agent->source,
                                        sim_remote_access(agent), &region, &error);
    if (status == KVR_OK) {
        region->home = home_of(engine);
        status = kvr_engines_region_add(sim_engines_of(engine), engine->index, layout, region, &error);
    }
    engine->region_serials[engine->region_lives] = ++engine->world->region_serial;
    engine->regions[engine->region_lives++] = region;
    if (status != KVR_OK)
        sim_fail(engine->world, -1, "engine %u region %u: %s", engine->number, which, error.detail);
}

void sim_engine_regions_release(struct sim_engine *engine)
{
    for (uint32_t r = 0; r < engine->region_lives; r++) {
        sim_region_release(engine->agent, engine->regions[r]);
        engine->regions[r] = NULL;
    }
    engine->region_lives = 0;
}

/* a: which, b: life of the agent. */
static void region_again_run(struct sim_world *world, const struct sim_event *event)
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
    sim_region_add(engine, (uint32_t)event->a);
}

void sim_engine_region_change(struct sim_engine *engine)
{
    struct sim_world *world = engine->world;
    uint32_t which = (uint32_t)kvr_rng_below(&world->rng, engine->region_count);
    const struct kvr_region_layout *layout = &engine->layouts[which];
    kvr_status status;

    if (engine->region_lives == SIM_REGION_LIVES || engine->region_changes)
        return;
    sim_hoard_end(engine->agent);
    status = kvr_engines_region_drop(sim_engines_of(engine), engine->index, layout->region);
    sim_engine_note(engine, "drops region", -1, layout->region, 0, NULL);
    if (status != KVR_OK) {
        sim_fail(world, -1, "engine %u cannot drop region %u: %s", engine->number, which,
                 kvr_status_name(status));
        return;
    }
    world->busy++;
    engine->region_changes = true;
    engine->layers_missing = ((1u << layout->layer_count) - 1) << layout->layer_first;
    sim_at(world, world->now + 1 + sim_soon(world), region_again_run, engine, which,
           engine->agent->life);
}
