/* What a run comes to. */
#include <stdlib.h>

#include "tools/virtual/virtual_state.h"

static const struct {
    const char *name, *meaning;
} times[] = {VIRTUAL_TIME_LIST(KVR_ROW)};

const char *virtual_time_name(virtual_time time)
{
    return times[time].name;
}

const char *virtual_time_meaning(virtual_time time)
{
    return times[time].meaning;
}

static bool make_room(struct virtual_figures *figures)
{
    size_t room = 2 * figures->room + 1024;

    if (figures->count < figures->room)
        return true;
    for (int i = 0; i < VIRTUAL_TIME_END; i++) {
        uint64_t *larger = realloc(figures->times[i], room * sizeof(larger[0]));

        if (larger == NULL)
            return false;
        figures->times[i] = larger;
    }
    figures->room = room;
    return true;
}

static void digest_request(struct world *world, const struct request *request)
{
    uint64_t facts[] = {request->index,
                        request->prefill,
                        request->decode,
                        request->bytes,
                        request->writes,
                        request->skip_tokens,
                        request->started_at,
                        request->granted_at,
                        request->prefilled_at,
                        request->first_post,
                        request->first_land,
                        request->landed_at,
                        XXH3_64bits(request->source.ids, request->source.count * sizeof(uint32_t)),
                        XXH3_64bits(request->target.ids, request->target.count * sizeof(uint32_t))};

    XXH3_64bits_update(world->digest, facts, sizeof(facts));
}

/* When bytes could move, as `kvrail replay` counts it (replay_tally.c). */
static kvr_ns fetch_from(const struct request *request)
{
    kvr_ns ready = request->chunks[0].start + request->chunks[0].layer_ns;

    return ready > request->opened_at ? ready : request->opened_at;
}

void figures_add(struct world *world, const struct request *request)
{
    struct virtual_figures *figures = world->figures;
    uint64_t ranks = (uint64_t)world->lanes * figures->lane_ranks;
    kvr_ns first_token = request->landed_at + world->config->step_ns;
    size_t at = figures->count;

    if (!make_room(figures)) {
        world_fail(world, KVR_NO_MEMORY, "no memory for the times of requests");
        return;
    }
    figures->times[VIRTUAL_TRANSFER][at] = request->landed_at - request->first_post;
    figures->times[VIRTUAL_FETCH][at] = request->landed_at - fetch_from(request);
    figures->times[VIRTUAL_EXPOSED][at] = request->landed_at - request->prefilled_at;
    figures->times[VIRTUAL_QUEUE][at] = request->started_at - request->arrived_at;
    figures->times[VIRTUAL_WAIT][at] = first_token - request->arrived_at - request->compute_ns;
    figures->times[VIRTUAL_TTFT][at] = first_token - request->arrived_at;
    figures->count++;
    figures->requests++;
    figures->tokens += asked(world, request)->input_tokens;
    figures->skipped_tokens += request->skip_tokens;
    figures->source_cached_tokens += request->source_cached_tokens;
    figures->bytes += request->bytes * ranks;
    figures->writes += request->writes * ranks;
    digest_request(world, request);
    if (world->record != NULL)
        record_request(world, request);
}

static struct virtual_use use_of(const struct world *world, const struct group *groups,
                                 uint32_t group_count)
{
    struct virtual_use use = {0};
    uint32_t cards = group_count * world->group_cards;
    double end = world->now > 0 ? (double)world->now : 1, sum = 0;

    for (uint32_t i = 0; i < cards; i++) {
        const struct card *card = &groups[i / world->group_cards].cards[i % world->group_cards];
        double share = (double)card->busy_ns / end;

        use.writes += card->writes * world->figures->lane_ranks;
        use.bytes += card->bytes * world->figures->lane_ranks;
        sum += share;
        use.share_max = share > use.share_max ? share : use.share_max;
    }
    use.share = sum / cards;
    return use;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

void figures_end(struct world *world)
{
    struct virtual_figures *figures = world->figures;
    double end = world->now > 0 ? (double)world->now : 1;
    uint32_t groups = world->source_count;

    figures->end = world->now;
    figures->digest = XXH3_64bits_digest(world->digest);
    figures->source = use_of(world, world->sources, groups);
    figures->target = use_of(world, world->targets, world->target_count);
    for (uint32_t i = 0; i < world->prefill_count; i++)
        figures->prefill_busy += (double)world->prefills[i].busy_ns / end / world->prefill_count;
    for (uint32_t i = 0; i < groups; i++)
        figures->thread_busy += (double)world->sources[i].thread_busy_ns / end / groups;
    for (int i = 0; i < VIRTUAL_TIME_END && figures->count > 0; i++)
        qsort(figures->times[i], figures->count, sizeof(uint64_t), by_value);
}

uint64_t virtual_percentile(const struct virtual_figures *figures, virtual_time time,
                            double percent)
{
    size_t at = (size_t)(percent / 100 * (double)figures->count);

    if (figures->count == 0)
        return 0;
    return figures->times[time][at < figures->count ? at : figures->count - 1];
}

void virtual_figures_done(struct virtual_figures *figures)
{
    for (int i = 0; i < VIRTUAL_TIME_END; i++)
        free(figures->times[i]);
    *figures = (struct virtual_figures){0};
}
