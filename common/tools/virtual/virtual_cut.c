/* The plan of each segment, by the agents' own kvr_plan_make(), from the page tables of both ends.
 * All ranks of an engine have the same page ids, so one plan is that of each of them. */
#include "tools/virtual/virtual_state.h"

#include <stdlib.h>

#define PLAN_MEMORY (512u << 20) /* of the plans of all transfers that are under way */

static struct kvr_region_layout layout_of(const struct world *world, uint32_t page_count)
{
    const struct virtual_config *config = world->config;
    const struct model_geometry *geometry = &config->geometry;
    const struct model *model = geometry->model;
    uint32_t heads = geometry->heads > config->tp ? geometry->heads / config->tp : 1;
    struct kvr_region_layout layout = {.layer_count = geometry->layers,
                                       .part_count = model->part_count,
                                       .replicated = geometry->heads < config->tp,
                                       .head_count = heads,
                                       .page_tokens = config->page_tokens,
                                       .page_count = page_count,
                                       .head_bytes = geometry->head_bytes};

    for (uint32_t i = 0; i < model->part_count; i++)
        layout.parts[i] = model->parts[i];
    if (config->fused && model->part_count > 1) {
        layout.part_count = 1;
        layout.parts[0] = KVR_PART_KV;
        layout.head_bytes *= model->part_count;
    }
    layout.head_stride = heads > 1 ? layout.head_bytes : 0;
    layout.token_stride = layout.head_bytes * heads;
    layout.page_stride = layout.token_stride * layout.page_tokens;
    layout.part_stride = layout.page_stride * page_count;
    layout.layer_stride = layout.part_stride * layout.part_count;
    layout.bytes = layout.layer_stride * layout.layer_count;
    return layout;
}

void cut_init(struct world *world)
{
    world->layouts[0] = layout_of(world, world->prefills[0].pool.pages.page_count);
    world->layouts[1] = layout_of(world, world->decodes[0].pool.pages.page_count);
    world->plan_memory = malloc(PLAN_MEMORY);
    if (world->plan_memory == NULL) {
        world_fail(world, KVR_NO_MEMORY, "no memory for plans");
        return;
    }
    kvr_buddy_init(&world->buddy, world->plan_memory, PLAN_MEMORY);
}

static kvr_status cut_chunk(struct world *world, struct request *request, struct chunk *chunk)
{
    const struct virtual_config *config = world->config;
    uint32_t first = chunk->move_first / config->page_tokens;
    uint32_t end = (chunk->token_end + config->page_tokens - 1) / config->page_tokens;
    struct kvr_plan_input input = {
        .source_layouts = &world->layouts[0],
        .target_layouts = &world->layouts[1],
        .source_layout_count = 1,
        .target_layout_count = 1,
        .source_pages = request->source.ids + first,
        .target_pages = request->target.ids + first,
        .source_page_count = end - first,
        .target_page_count = end - first,
        .token_first = chunk->move_first,
        .token_end = chunk->token_end,
        .limits = {.pieces_local = config->costs.pieces_local,
                   .pieces_remote = config->costs.pieces_remote,
                   .chunk_bytes_max = config->costs.chunk_bytes_max},
    };

    if (config->costs.page_writes)
        input.limits.chunk_bytes_max = kvr_page_bytes(&world->layouts[0]);
    return kvr_plan_make(&input, &world->buddy, &chunk->plan, world->error);
}

void cut_request(struct world *world, struct request *request)
{
    const uint32_t layers = world->config->geometry.layers;

    for (uint32_t i = 0; i < request->chunk_count; i++) {
        struct chunk *chunk = &request->chunks[i];
        kvr_status status;

        chunk->move_first =
            chunk->token_first > request->skip_tokens ? chunk->token_first : request->skip_tokens;
        if (chunk->move_first >= chunk->token_end)
            continue;
        status = cut_chunk(world, request, chunk);
        if (status == KVR_NO_MEMORY) {
            world_fail(
                world, status,
                "plans of the %u requests that are under way take more than %u MiB: the fleet "
                "is too small for this load, or --page-tokens too small",
                world->live_count, PLAN_MEMORY >> 20);
            return;
        }
        if (status != KVR_OK) {
            world->status = status;
            return;
        }
        chunk->layer_writes = chunk->plan->chunk_count / layers;
        chunk->layer_bytes = chunk->plan->bytes / layers;
        request->writes += chunk->plan->chunk_count;
        request->bytes += chunk->plan->bytes;
        if (chunk->layer_writes * layers != chunk->plan->chunk_count ||
            chunk->layer_bytes * layers != chunk->plan->bytes)
            world_fail(world, KVR_INTERNAL, "layers of one segment differ in their writes");
    }
}

void cut_free(struct world *world, struct request *request)
{
    for (uint32_t i = 0; i < request->chunk_count; i++) {
        kvr_plan_free(request->chunks[i].plan, &world->buddy);
        request->chunks[i].plan = NULL;
    }
}
