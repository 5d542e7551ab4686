/* What must never be. Each failure ends the run with a sentence. */
#include "tools/virtual/virtual_state.h"

#include <inttypes.h>

#include "tools/replay/replay_content.h"

static void check_share(struct world *world, const struct request *request, const struct pool *pool,
                        const struct pool_share *share, const char *side)
{
    uint32_t page;

    if (!pool_owned(pool, share, &page))
        world_fail(world, KVR_INTERNAL,
                   "request %u uses page %u of its %s, but owner %u has that page", request->index,
                   page, side, pool->owners[page]);
}

void check_owned(struct world *world, const struct request *request)
{
    check_share(world, request, &world->prefills[request->prefill].pool, &request->source,
                "prefill engine");
    check_share(world, request, &world->decodes[request->decode].pool, &request->target,
                "decode engine");
}

void check_corrupt(struct world *world, struct request *request)
{
    struct pool *pool = &world->prefills[request->prefill].pool;
    uint32_t page = request->source.ids[request->source.count - 1];

    if (world->corrupted || world->config->corrupt == VIRTUAL_CORRUPT_NOTHING)
        return;
    /* A page of a full block will soon be the cache's. */
    if (world->config->corrupt == VIRTUAL_CORRUPT_OWNER &&
        asked(world, request)->input_tokens % KVR_TRACE_BLOCK_TOKENS == 0)
        return;
    world->corrupted = true;
    if (world->config->corrupt == VIRTUAL_CORRUPT_PAGE && pool->contents != NULL)
        pool->contents[page].block++;
    if (world->config->corrupt == VIRTUAL_CORRUPT_OWNER)
        pool->owners[page] = request->index + 2;
}

/* A place in a rank's region. */
struct place {
    uint32_t layer, part, page, token;
    uint64_t left; /* bytes of its page from there */
};

static struct place place_of(const struct kvr_region_layout *layout, uint64_t offset)
{
    struct place place = {.layer = (uint32_t)(offset / layout->layer_stride)};

    offset %= layout->layer_stride;
    place.part = (uint32_t)(offset / layout->part_stride);
    offset %= layout->part_stride;
    place.page = (uint32_t)(offset / layout->page_stride);
    offset %= layout->page_stride;
    place.token = (uint32_t)(offset / layout->token_stride);
    place.left = layout->page_stride - offset;
    return place;
}

/* What that place holds: a word for each token, which follows from the page's own tokens. */
static struct content content_of(const struct world *world, const struct pool *pool,
                                 const struct place *place, uint32_t tokens)
{
    const struct pool_content *content = &pool->contents[place->page];

    return (struct content){
        .key = content_key(world->config->seed, content->block, place->layer, place->part),
        .token_first = content->token_first + place->token,
        .token_count = 1,
        .token_words = tokens,
    };
}

static bool page_of(const struct pool *pool, const struct pool_share *share, uint32_t page)
{
    return pool->owners[page] == share->owner || pool->owners[page] == POOL_CACHED;
}

/* What a write brings to one page: the words that the source's page has are those that belong to
 * the target's. */
static bool check_page(struct world *world, const struct request *request, uint64_t source_offset,
                       uint64_t target_offset, uint64_t bytes, uint64_t *ret_bytes)
{
    const struct pool *sources = &world->prefills[request->prefill].pool;
    const struct pool *targets = &world->decodes[request->decode].pool;
    const struct place source = place_of(&world->layouts[0], source_offset);
    const struct place target = place_of(&world->layouts[1], target_offset);
    uint64_t run = kvr_min_u64(kvr_min_u64(source.left, target.left), bytes);
    uint32_t tokens = (uint32_t)(run / world->layouts[0].token_stride);
    const struct content from = content_of(world, sources, &source, tokens);
    const struct content to = content_of(world, targets, &target, tokens);
    uint64_t words[KVR_TRACE_BLOCK_TOKENS];
    struct content_wrong wrong;

    if (!page_of(sources, &request->source, source.page) ||
        !page_of(targets, &request->target, target.page) ||
        targets->owners[target.page] == POOL_CACHED)
        return false;
    world->figures->checked_words += tokens;
    content_fill(&from, words);
    if (!content_check(&to, words, &wrong))
        return false;
    *ret_bytes = run;
    return true;
}

void check_content(struct world *world, const struct request *request, const struct packet *packet)
{
    const struct chunk *chunk = &request->chunks[packet->unit / world->config->geometry.layers];
    struct kvr_plan_chunk write;

    kvr_plan_chunk(chunk->plan, packet->chunk, &write);
    for (uint32_t i = 0; i < write.piece_count; i++) {
        const struct kvr_plan_piece *piece = &write.pieces[i];
        uint64_t at = 0, run = 0;

        for (; at < piece->bytes; at += run) {
            if (check_page(world, request, piece->source_offset + at, piece->target_offset + at,
                           piece->bytes - at, &run))
                continue;
            world_fail(world, KVR_INTERNAL,
                       "request %u, layer %u: the page at %" PRIu64
                       " of the target does not hold the tokens that belong there",
                       request->index, write.layer, piece->target_offset + at);
            return;
        }
    }
}

/* After the last event: everything was served, and no page is lost. */
void check_end(struct world *world)
{
    if (world->config->corrupt != VIRTUAL_CORRUPT_NOTHING && !world->corrupted)
        world_fail(world, KVR_INTERNAL,
                   "the fault of --corrupt was not planted: every prompt ends with a full block");
    if (world->live_count > 0)
        world_fail(world, KVR_INTERNAL, "%u requests never ended, and nothing happens any more",
                   world->live_count);
    for (uint32_t i = 0; i < world->prefill_count; i++)
        if (!pool_whole(&world->prefills[i].pool))
            world_fail(world, KVR_INTERNAL, "pages of prefill engine %u are lost", i);
    for (uint32_t i = 0; i < world->decode_count; i++)
        if (!pool_whole(&world->decodes[i].pool))
            world_fail(world, KVR_INTERNAL, "pages of decode engine %u are lost", i);
}
