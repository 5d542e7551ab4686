/* Decode engines: admission when a place and pages are free, in the order of arrival; the grant;
 * one output token a step. A request asks when its prefill begins: so those that hold pages here
 * wait for no pages elsewhere, and the fleet cannot stand still. */
#include "tools/virtual/virtual_state.h"

#include <stdlib.h>

static uint64_t tokens_of(const struct world *world, const struct request *request)
{
    return (uint64_t)asked(world, request)->input_tokens + asked(world, request)->output_tokens;
}

void decode_add(struct world *world, struct request *request)
{
    request->offered_at = request->started_at;
    TAILQ_INSERT_TAIL(&world->decodes[request->decode].queue, request, link);
    decode_next(world, request->decode);
}

/* WANT goes to the source and PLAN and GRANT follow: three messages. */
static void admit(struct world *world, struct request *request)
{
    kvr_ns control = world->config->costs.control_ns;
    kvr_ns now = world->now > request->offered_at ? world->now : request->offered_at;

    request->skip_tokens = request->target.cached_blocks * KVR_TRACE_BLOCK_TOKENS;
    request->opened_at = now;
    request->granted_at = now + 3 * control;
    world_at(world, request->granted_at, EVENT_GRANT, request->index);
}

void decode_next(struct world *world, uint32_t number)
{
    struct decode_engine *engine = &world->decodes[number];
    struct request *request;

    while ((request = TAILQ_FIRST(&engine->queue)) != NULL && engine->held < world->config->batch) {
        const struct kvr_trace_request *trace = asked(world, request);
        uint32_t blocks = (trace->input_tokens - 1) / KVR_TRACE_BLOCK_TOKENS;
        uint64_t tokens = tokens_of(world, request);
        uint32_t pages =
            (uint32_t)((tokens + world->config->page_tokens - 1) / world->config->page_tokens);

        if (!pool_take(&engine->pool, blocks_of(world, request), blocks, pages, request->index + 1,
                       &request->target))
            return; /* EVENT_DECODED comes */
        pool_fill(&engine->pool, blocks_of(world, request), trace->block_count, &request->target);
        TAILQ_REMOVE(&engine->queue, request, link);
        engine->held++;
        admit(world, request);
    }
}

static bool lanes_make(struct world *world, struct request *request)
{
    const uint32_t layers = world->config->geometry.layers;

    request->lanes = calloc(world->lanes, sizeof(request->lanes[0]));
    if (request->lanes == NULL)
        return false;
    for (uint32_t i = 0; i < world->lanes; i++) {
        struct lane *lane = &request->lanes[i];

        lane->request = request->index;
        lane->number = i;
        lane->source = group_of(world, request->prefill, i);
        lane->target = group_of(world, request->decode, i);
        lane->units = calloc((size_t)request->chunk_count * layers, sizeof(lane->units[0]));
        if (lane->units == NULL)
            return false;
        for (uint32_t unit = 0; unit < request->chunk_count * layers; unit++)
            lane->units[unit].left = request->chunks[unit / layers].layer_writes;
    }
    return true;
}

void decode_grant(struct world *world, struct request *request)
{
    cut_request(world, request);
    if (world->status != KVR_OK)
        return;
    if (!lanes_make(world, request)) {
        world_fail(world, KVR_NO_MEMORY, "no memory for a request");
        return;
    }
    request->granted = true;
    request->writes_left = request->writes * world->lanes;
    check_owned(world, request);
    check_corrupt(world, request);
    post_ready(world, request);
}

void decode_landed(struct world *world, struct request *request)
{
    const struct virtual_config *config = world->config;
    uint64_t steps = asked(world, request)->output_tokens;

    request->landed = true;
    request->landed_at = world->now;
    check_owned(world, request);
    figures_add(world, request);
    cut_free(world, request);
    pool_publish(&world->decodes[request->decode].pool, blocks_of(world, request),
                 asked(world, request)->input_tokens / KVR_TRACE_BLOCK_TOKENS, &request->target);
    world_at(world, world->now + config->costs.control_ns, EVENT_FREE, request->index);
    world_at(world, world->now + config->costs.control_ns + steps * config->step_ns, EVENT_DECODED,
             request->index);
}

void decode_end(struct world *world, struct request *request)
{
    struct decode_engine *engine = &world->decodes[request->decode];

    engine->tokens -= tokens_of(world, request);
    engine->held--;
    pool_give_back(&engine->pool, blocks_of(world, request), &request->target);
    decode_next(world, request->decode);
    request_release(world, request);
}
