#include "tools/virtual/virtual_run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/virtual/virtual_state.h"

#define ARRIVAL_MAX (UINT64_MAX / 4 / 1000) /* a thousand times that is still a time */

void world_fail(struct world *world, kvr_status status, const char *format, ...)
{
    char detail[KVR_DETAIL_BYTES];
    va_list values;

    if (world->status != KVR_OK)
        return;
    va_start(values, format);
    vsnprintf(detail, sizeof(detail), format, values);
    va_end(values);
    world->status = kvr_error_set(world->error, status, "virtual", "%s", detail);
}

void world_at(struct world *world, kvr_ns at, virtual_kind kind, uint32_t subject)
{
    if (!virtual_heap_add(&world->heap, at, kind, subject))
        world_fail(world, KVR_NO_MEMORY, "no memory for more events");
}

/* ---- making ---------------------------------------------------------------------------------- */

static uint64_t token_bytes_of_rank(const struct virtual_config *config)
{
    const struct model_geometry *geometry = &config->geometry;
    uint32_t heads = geometry->heads > config->tp ? geometry->heads / config->tp : 1;

    return (uint64_t)geometry->layers * geometry->model->part_count * heads * geometry->head_bytes;
}

/* Where the trace does not say how many tokens came, the configuration does. */
static void fill_outputs(struct world *world)
{
    for (uint32_t i = 0; i < world->trace->request_count; i++) {
        struct kvr_trace_request *request = &world->trace->requests[i];

        if (request->output_tokens > 0)
            continue;
        world->figures->without_output++;
        request->output_tokens = world->config->output_tokens;
    }
}

/* Requests that no pool can hold are shortened. */
static void clip_requests(struct world *world, uint64_t pool_tokens)
{
    uint64_t most = pool_tokens < KVR_TRACE_TOKENS_MAX ? pool_tokens : KVR_TRACE_TOKENS_MAX;

    for (uint32_t i = 0; i < world->trace->request_count; i++) {
        struct kvr_trace_request *request = &world->trace->requests[i];
        bool clipped = kvr_trace_clip(request, (uint32_t)most);

        if (request->output_tokens > most - request->input_tokens) {
            request->output_tokens = (uint32_t)(most - request->input_tokens);
            clipped = true;
        }
        world->figures->clipped += clipped;
    }
}

static bool make_pools(struct world *world, uint32_t page_count)
{
    const struct virtual_config *config = world->config;
    bool good = true;

    for (uint32_t i = 0; i < world->prefill_count && good; i++) {
        TAILQ_INIT(&world->prefills[i].queue);
        good = pool_init(&world->prefills[i].pool, page_count, config->page_tokens, config->order,
                         config->seed + i, config->prefix_cache, config->exact);
    }
    for (uint32_t i = 0; i < world->decode_count && good; i++) {
        TAILQ_INIT(&world->decodes[i].queue);
        good =
            pool_init(&world->decodes[i].pool, page_count, config->page_tokens, config->order,
                      config->seed + world->prefill_count + i, config->prefix_cache, config->exact);
    }
    return good;
}

static bool make_links(struct world *world)
{
    size_t count = (size_t)world->source_count * world->target_count;

    world->links = calloc(count, sizeof(world->links[0]));
    world->links_in_flight = calloc(count * world->group_cards, sizeof(uint64_t));
    if (world->links == NULL || world->links_in_flight == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        world->links[i].in_flight = world->links_in_flight + i * world->group_cards;
    return true;
}

static bool make_groups(struct world *world)
{
    uint32_t sources = world->source_count, targets = world->target_count;
    struct card *card;

    world->sources = calloc(sources, sizeof(world->sources[0]));
    world->targets = calloc(targets, sizeof(world->targets[0]));
    world->cards = calloc((size_t)(sources + targets) * world->group_cards, sizeof(*card));
    if (world->sources == NULL || world->targets == NULL || world->cards == NULL)
        return false;
    card = world->cards;
    for (uint32_t i = 0; i < sources + targets; i++, card += world->group_cards) {
        struct group *group = i < sources ? &world->sources[i] : &world->targets[i - sources];

        group->cards = card;
        TAILQ_INIT(&group->ring);
    }
    return make_links(world);
}

/* How engines, ranks and cards are laid out. */
static void lay_out(struct world *world)
{
    const struct virtual_config *config = world->config;
    const struct virtual_fleet *fleet = &config->fleet;
    uint32_t gpus = virtual_gpus(config);

    world->host_groups = fleet->rails < gpus ? fleet->rails : gpus;
    world->group_cards = fleet->rails / world->host_groups;
    world->own_groups = fleet->rails >= gpus;
    world->lanes = world->own_groups ? 1 : config->tp;
    world->figures->lanes = world->lanes;
    world->figures->lane_ranks = config->tp / world->lanes;
    world->prefill_count = fleet->prefill_hosts * gpus / config->tp;
    world->decode_count = fleet->decode_hosts * gpus / config->tp;
    world->source_count =
        world->own_groups ? world->prefill_count : fleet->prefill_hosts * world->host_groups;
    world->target_count =
        world->own_groups ? world->decode_count : fleet->decode_hosts * world->host_groups;
    world->line_bps = rail_costs_line_bps(&config->costs, fleet->card_bps);
    world->packet_free = NO_NUMBER;
}

static void make_world(struct world *world)
{
    const struct virtual_config *config = world->config;
    uint64_t pages = config->pool_bytes / (token_bytes_of_rank(config) * config->page_tokens);

    if (pages < 2 * KVR_TRACE_BLOCK_TOKENS / config->page_tokens || pages > UINT32_MAX / 2) {
        world_fail(world, KVR_INVALID,
                   "a pool of %" PRIu64 " bytes holds %" PRIu64
                   " pages of %u tokens, but must hold at least 1,024 tokens",
                   config->pool_bytes, pages, config->page_tokens);
        return;
    }
    lay_out(world);
    world->prefills = calloc(world->prefill_count, sizeof(world->prefills[0]));
    world->decodes = calloc(world->decode_count, sizeof(world->decodes[0]));
    world->live = calloc((size_t)world->trace->request_count + 1, sizeof(world->live[0]));
    world->digest = XXH3_createState();
    if (world->prefills == NULL || world->decodes == NULL || world->live == NULL ||
        world->digest == NULL || !make_pools(world, (uint32_t)pages) || !make_groups(world)) {
        world_fail(world, KVR_NO_MEMORY, "no memory for a fleet of %u engines",
                   world->prefill_count + world->decode_count);
        return;
    }
    XXH3_64bits_reset(world->digest);
    fill_outputs(world);
    clip_requests(world, pages * config->page_tokens);
    cut_init(world);
}

static void world_done(struct world *world)
{
    for (uint32_t i = 0; world->live != NULL && i < world->trace->request_count; i++)
        if (world->live[i] != NULL)
            request_release(world, world->live[i]);
    for (uint32_t i = 0; world->prefills != NULL && i < world->prefill_count; i++)
        pool_done(&world->prefills[i].pool);
    for (uint32_t i = 0; world->decodes != NULL && i < world->decode_count; i++)
        pool_done(&world->decodes[i].pool);
    free(world->prefills);
    free(world->decodes);
    free(world->sources);
    free(world->targets);
    free(world->cards);
    free(world->links);
    free(world->links_in_flight);
    free(world->packets);
    free(world->live);
    free(world->plan_memory);
    XXH3_freeState(world->digest);
    virtual_heap_done(&world->heap);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The prompt goes where it would be computed first, cached prefixes counted; then to the decode
 * engine with the fewest tokens, cached ones not counted. */
static void route(struct world *world, struct request *request)
{
    const struct kvr_trace_request *trace = asked(world, request);
    const uint64_t *blocks = kvr_trace_blocks(world->trace, trace);
    uint32_t blocks_max = (trace->input_tokens - 1) / KVR_TRACE_BLOCK_TOKENS;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < world->prefill_count; i++) {
        uint64_t load = world->prefills[i].backlog_ns + prefill_estimate(world, i, trace);

        if (load < least) {
            least = load;
            request->prefill = i;
        }
    }
    least = UINT64_MAX;
    for (uint32_t i = 0; i < world->decode_count; i++) {
        uint64_t cached = pool_peek(&world->decodes[i].pool, blocks, blocks_max);
        uint64_t load =
            world->decodes[i].tokens + trace->input_tokens - cached * KVR_TRACE_BLOCK_TOKENS;

        if (load < least) {
            least = load;
            request->decode = i;
        }
    }
    world->decodes[request->decode].tokens += (uint64_t)trace->input_tokens + trace->output_tokens;
}

static kvr_ns arrival_of(struct world *world, uint32_t index)
{
    kvr_ns at = world->trace->requests[index].at;

    if (at / world->config->speed_permille > ARRIVAL_MAX)
        world_fail(world, KVR_INVALID,
                   "request %u arrives %" PRIu64
                   " s after the first one, which is too late to be played at this --speed",
                   index, at / KVR_S);
    return at / world->config->speed_permille * 1000 +
           at % world->config->speed_permille * 1000 / world->config->speed_permille;
}

static void begin(struct world *world, uint32_t index)
{
    struct request *request = calloc(1, sizeof(*request));

    if (request == NULL) {
        world_fail(world, KVR_NO_MEMORY, "no memory for a request");
        return;
    }
    request->index = index;
    request->arrived_at = arrival_of(world, index);
    world->live[index] = request;
    world->live_count++;
    if (world->live_count > world->figures->live_max)
        world->figures->live_max = world->live_count;
    route(world, request);
    prefill_add(world, request);
}

/* Requests that have arrived begin in their order, as far as --concurrency allows. */
static void begin_all(struct world *world)
{
    uint32_t most = world->config->concurrency;

    while (world->routed < world->arrived && world->status == KVR_OK &&
           (most == 0 || world->live_count < most))
        begin(world, world->routed++);
}

static void arrive(struct world *world, uint32_t index)
{
    if (index + 1 < world->trace->request_count)
        world_at(world, arrival_of(world, index + 1), EVENT_ARRIVAL, index + 1);
    world->arrived = index + 1;
    begin_all(world);
}

void request_release(struct world *world, struct request *request)
{
    world->live[request->index] = NULL;
    world->live_count--;
    for (uint32_t i = 0; request->lanes != NULL && i < world->lanes; i++)
        free(request->lanes[i].units);
    free(request->lanes);
    if (request->chunks != NULL)
        cut_free(world, request);
    free(request->chunks);
    free(request->source.ids);
    free(request->target.ids);
    free(request);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void happen(struct world *world, const struct virtual_event *event)
{
    switch ((virtual_kind)event->kind) {
    case EVENT_ARRIVAL:
        arrive(world, event->subject);
        break;
    case EVENT_LAYER:
        prefill_layer(world, event->subject);
        break;
    case EVENT_GRANT:
        decode_grant(world, world->live[event->subject]);
        break;
    case EVENT_POST:
        post_turn(world, event->subject);
        break;
    case EVENT_ARRIVE:
        cards_arrive(world, event->subject);
        break;
    case EVENT_LAND:
        cards_land(world, event->subject);
        break;
    case EVENT_FREE:
        prefill_free(world, world->live[event->subject]);
        break;
    case EVENT_DECODED:
        decode_end(world, world->live[event->subject]);
        begin_all(world);
        break;
    }
}

static void play(struct world *world)
{
    struct virtual_event event;

    if (world->trace->request_count > 0)
        world_at(world, arrival_of(world, 0), EVENT_ARRIVAL, 0);
    while (world->status == KVR_OK && virtual_heap_next(&world->heap, &event)) {
        if (event.at < world->now)
            world_fail(world, KVR_INTERNAL, "an event of kind %u came %" PRIu64 " ns too late",
                       event.kind, world->now - event.at);
        world->now = event.at;
        world->figures->events++;
        happen(world, &event);
    }
    if (world->status == KVR_OK)
        check_end(world);
}

kvr_status virtual_run(const struct virtual_config *config, struct kvr_trace *trace,
                       struct virtual_record *record, struct virtual_figures *ret_figures,
                       struct kvr_error *error)
{
    struct world world = {.config = config,
                          .trace = trace,
                          .record = record,
                          .figures = ret_figures,
                          .error = error,
                          .status = KVR_OK};

    *ret_figures = (struct virtual_figures){0};
    make_world(&world);
    if (world.status == KVR_OK && record != NULL)
        record_begin(&world);
    if (world.status == KVR_OK)
        play(&world);
    if (world.status == KVR_OK)
        figures_end(&world);
    world_done(&world);
    return world.status;
}
