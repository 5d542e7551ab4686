#include "kv/plan_hash.h"

#include <assert.h>
#include <xxhash.h>

static_assert(sizeof(struct kvr_plan_shape) == 64, "shapes are hashed as memory: no padding");
static_assert(sizeof(struct kvr_plan_run) == 32, "runs are hashed as memory: no padding");
static_assert(sizeof(struct kvr_plan_block) == 12, "blocks are hashed as memory: no padding");
static_assert(sizeof(struct kvr_plan_batch) == 12, "batches are hashed as memory: no padding");

/* Each step's hash seeds the next. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, uint64_t count)
{
    return count > 0 ? XXH3_64bits_withSeed(bytes, count, hash) : hash;
}

static uint64_t hash_input(const struct kvr_plan_input *input, const struct kvr_plan_pages *pages)
{
    const uint64_t fields[] = {
        input->group,
        pages->source_page_count,
        pages->target_page_count,
        pages->source_page_tokens,
        pages->target_page_tokens,
        input->token_first,
        input->token_end,
        input->scope.layer_first,
        input->scope.layer_count,
        input->scope.head_first,
        input->scope.head_count,
        input->limits.pieces_local,
        input->limits.pieces_remote,
        input->limits.chunk_bytes_max,
    };
    uint64_t hash = hash_bytes(0, fields, sizeof(fields));

    hash = hash_bytes(hash, input->source_pages, pages->source_page_count * sizeof(uint32_t));
    return hash_bytes(hash, input->target_pages, pages->target_page_count * sizeof(uint32_t));
}

static uint64_t hash_pattern(uint64_t hash, const struct kvr_plan_pattern *pattern)
{
    const uint64_t fields[] = {
        pattern->run_count,   pattern->block_count, pattern->batch_count,
        pattern->piece_count, pattern->chunk_count,
    };

    hash = hash_bytes(hash, fields, sizeof(fields));
    hash = hash_bytes(hash, &pattern->shape, sizeof(pattern->shape));
    hash = hash_bytes(hash, pattern->runs, pattern->run_count * sizeof(*pattern->runs));
    hash = hash_bytes(hash, pattern->blocks, pattern->block_count * sizeof(*pattern->blocks));
    return hash_bytes(hash, pattern->batches, pattern->batch_count * sizeof(*pattern->batches));
}

static uint64_t hash_plane(uint64_t hash, const struct kvr_plan_plane *plane,
                           const struct kvr_plan_input *input)
{
    const uint64_t fields[] = {
        plane->layer,
        plane->part,
        plane->pattern,
        plane->chunk_first,
        input->source_layouts[plane->source_layout].region,
        input->target_layouts[plane->target_layout].region,
        plane->source_base,
        plane->target_base,
    };

    return hash_bytes(hash, fields, sizeof(fields));
}

uint64_t kvr_plan_hash(const struct kvr_plan *plan, const struct kvr_plan_input *input,
                       const struct kvr_plan_pages *pages)
{
    uint64_t hash = hash_input(input, pages);

    for (uint32_t i = 0; i < plan->pattern_count; i++)
        hash = hash_pattern(hash, &plan->patterns[i]);
    for (uint32_t i = 0; i < plan->plane_count; i++)
        hash = hash_plane(hash, &plan->planes[i], input);
    return hash;
}
