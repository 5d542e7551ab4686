/* Prefill engines: a queue, one prompt at a time, in chunks, layer after layer. */
#include "tools/virtual/virtual_state.h"

#include <stdlib.h>

static uint32_t chunks_for(const struct world *world, uint32_t cached, uint32_t tokens)
{
    uint32_t size = world->config->chunk_tokens;

    return (cached > 0) + (tokens - cached + size - 1) / size;
}

static kvr_ns layer_time(const struct virtual_config *config, uint32_t tokens, uint32_t prefix)
{
    uint64_t layers_per_s = (uint64_t)config->prefill_tokens_per_s * config->geometry.layers;

    if (layers_per_s > 0)
        return tokens * KVR_S / layers_per_s;
    return prefill_layer_ns(config->prefill, config->tp, tokens, prefix);
}

/* The whole of the computation behind `cached` tokens. */
static kvr_ns compute_ns(const struct world *world, uint32_t cached, uint32_t tokens)
{
    const struct virtual_config *config = world->config;
    kvr_ns sum = 0;

    for (uint32_t first = cached; first < tokens; first += config->chunk_tokens) {
        uint32_t left = tokens - first;

        sum += layer_time(config, left < config->chunk_tokens ? left : config->chunk_tokens, first);
    }
    return sum * config->geometry.layers;
}

/* At least one token is computed: the first output follows from it. */
static uint32_t blocks_max(const struct kvr_trace_request *request)
{
    return (request->input_tokens - 1) / KVR_TRACE_BLOCK_TOKENS;
}

kvr_ns prefill_estimate(const struct world *world, uint32_t engine,
                        const struct kvr_trace_request *request)
{
    const struct pool *pool = &world->prefills[engine].pool;
    uint32_t blocks = pool_peek(pool, kvr_trace_blocks(world->trace, request), blocks_max(request));

    return compute_ns(world, blocks * KVR_TRACE_BLOCK_TOKENS, request->input_tokens);
}

void prefill_add(struct world *world, struct request *request)
{
    struct prefill_engine *engine = &world->prefills[request->prefill];

    request->compute_ns = prefill_estimate(world, request->prefill, asked(world, request));
    engine->backlog_ns += request->compute_ns;
    TAILQ_INSERT_TAIL(&engine->queue, request, link);
    prefill_next(world, request->prefill, world->now);
}

static bool chunks_make(struct world *world, struct request *request, kvr_ns start)
{
    uint32_t cached = request->source.cached_blocks * KVR_TRACE_BLOCK_TOKENS;
    uint32_t tokens = asked(world, request)->input_tokens, size = world->config->chunk_tokens;
    struct chunk *chunk;

    request->chunk_count = chunks_for(world, cached, tokens);
    request->chunks = calloc(request->chunk_count, sizeof(request->chunks[0]));
    if (request->chunks == NULL)
        return false;
    chunk = request->chunks;
    if (cached > 0)
        *chunk++ = (struct chunk){.token_end = cached, .start = start};
    for (uint32_t first = cached; first < tokens; first += size, chunk++) {
        *chunk =
            (struct chunk){.token_first = first,
                           .token_end = first + (tokens - first < size ? tokens - first : size)};
        chunk->layer_ns = layer_time(world->config, chunk->token_end - first, first);
    }
    request->chunk = cached > 0;
    request->ready_units = cached > 0 ? world->config->geometry.layers : 0;
    request->chunks[request->chunk].start = start;
    return true;
}

static void layer_at(struct world *world, uint32_t engine, const struct request *request)
{
    const struct chunk *chunk = &request->chunks[request->chunk];

    world_at(world,
             chunk->start + (request->layer + 1) * chunk->layer_ns + world->config->costs.layer_ns,
             EVENT_LAYER, engine);
}

void prefill_next(struct world *world, uint32_t number, kvr_ns from)
{
    struct prefill_engine *engine = &world->prefills[number];
    struct request *request = TAILQ_FIRST(&engine->queue);
    const struct kvr_trace_request *trace;
    uint32_t pages;
    kvr_ns planned;

    if (engine->current != NULL || request == NULL)
        return;
    trace = asked(world, request);
    pages = (trace->input_tokens + world->config->page_tokens - 1) / world->config->page_tokens;
    if (!pool_take(&engine->pool, blocks_of(world, request), blocks_max(trace), pages,
                   request->index + 1, &request->source))
        return; /* EVENT_FREE comes */
    pool_fill(&engine->pool, blocks_of(world, request), trace->block_count, &request->source);
    TAILQ_REMOVE(&engine->queue, request, link);
    engine->current = request;
    request->started_at = from > request->arrived_at ? from : request->arrived_at;
    if (!chunks_make(world, request, request->started_at)) {
        world_fail(world, KVR_NO_MEMORY, "no memory for a request");
        return;
    }
    request->source_cached_tokens = request->source.cached_blocks * KVR_TRACE_BLOCK_TOKENS;
    planned = request->compute_ns;
    request->compute_ns = compute_ns(world, request->source.cached_blocks * KVR_TRACE_BLOCK_TOKENS,
                                     trace->input_tokens);
    engine->backlog_ns += request->compute_ns - planned;
    layer_at(world, number, request);
    decode_add(world, request);
}

static void prefilled(struct world *world, uint32_t number, struct request *request)
{
    struct prefill_engine *engine = &world->prefills[number];

    request->prefilled = true;
    request->prefilled_at = request->started_at + request->compute_ns;
    engine->free_at = request->prefilled_at;
    engine->busy_ns += request->compute_ns;
    engine->backlog_ns -= request->compute_ns;
    engine->current = NULL;
    pool_publish(&engine->pool, blocks_of(world, request),
                 asked(world, request)->input_tokens / KVR_TRACE_BLOCK_TOKENS, &request->source);
    post_ready(world, request);
    prefill_next(world, number, engine->free_at);
}

void prefill_layer(struct world *world, uint32_t number)
{
    struct request *request = world->prefills[number].current;
    const struct chunk *chunk = &request->chunks[request->chunk];

    request->ready_units++;
    if (++request->layer == world->config->geometry.layers) {
        kvr_ns end = chunk->start + request->layer * chunk->layer_ns;

        request->layer = 0;
        if (++request->chunk == request->chunk_count) {
            prefilled(world, number, request);
            return;
        }
        request->chunks[request->chunk].start = end;
    }
    layer_at(world, number, request);
    post_ready(world, request);
}

void prefill_free(struct world *world, struct request *request)
{
    pool_give_back(&world->prefills[request->prefill].pool, blocks_of(world, request),
                   &request->source);
    prefill_next(world, request->prefill, world->now);
}
