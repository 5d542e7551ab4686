/* Finding the bytes of chunk k, which no plan stores: the plane by its first chunk, then the batch
 * by its first chunk, then either a cut of one long run or a list of short ones. */
#include <assert.h>

#include "kv/plan.h"

/* The last plane that begins at or before the chunk. The loop has no branch to mispredict. */
static const struct kvr_plan_plane *plane_of(const struct kvr_plan *plan, uint32_t chunk)
{
    const struct kvr_plan_plane *plane = plan->planes;

    for (uint32_t count = plan->plane_count, half; count > 1; count -= half) {
        half = count / 2;
        plane += plane[half].chunk_first <= chunk ? half : 0;
    }
    return plane;
}

static const struct kvr_plan_batch *batch_of(const struct kvr_plan_pattern *pattern, uint32_t chunk)
{
    const struct kvr_plan_batch *batch = pattern->batches;

    for (uint32_t count = pattern->batch_count, half; count > 1; count -= half) {
        half = count / 2;
        batch += batch[half].chunk_first <= chunk ? half : 0;
    }
    return batch;
}

static void set_piece(const struct kvr_plan_plane *plane, const struct kvr_plan_pattern *pattern,
                      const struct kvr_plan_run *run, uint64_t skip, uint64_t bytes,
                      struct kvr_plan_piece *piece)
{
    piece->source_layout = plane->source_layout;
    piece->target_layout = plane->target_layout;
    piece->source_offset =
        plane->source_base + run->source_page * pattern->source_page_stride + skip;
    piece->target_offset =
        plane->target_base + run->target_page * pattern->target_page_stride + skip;
    piece->bytes = bytes;
}

void kvr_plan_chunk(const struct kvr_plan *plan, uint32_t chunk, struct kvr_plan_chunk *ret_chunk)
{
    const struct kvr_plan_plane *plane;
    const struct kvr_plan_pattern *pattern;
    const struct kvr_plan_batch *batch;
    const struct kvr_plan_run *runs;

    assert(chunk < plan->chunk_count);
    plane = plane_of(plan, chunk);
    pattern = &plan->patterns[plane->pattern];
    batch = batch_of(pattern, chunk - plane->chunk_first);
    runs = &pattern->runs[batch->run_first];
    ret_chunk->layer = plane->layer;
    ret_chunk->part = plane->part;
    ret_chunk->piece_count = batch->run_count;
    if (batch->run_count == 1) {
        uint64_t bytes_max = plan->limits.chunk_bytes_max;
        uint64_t cut_at = (chunk - plane->chunk_first - batch->chunk_first) * bytes_max;
        uint64_t left = runs->page_count * pattern->page_bytes - cut_at;

        set_piece(plane, pattern, runs, cut_at, left < bytes_max ? left : bytes_max,
                  &ret_chunk->pieces[0]);
        return;
    }
    for (uint32_t i = 0; i < batch->run_count; i++)
        set_piece(plane, pattern, &runs[i], 0, runs[i].page_count * pattern->page_bytes,
                  &ret_chunk->pieces[i]);
}

uint32_t kvr_plan_layer_index(const struct kvr_plan *plan, uint32_t chunk)
{
    const uint32_t *first = plan->layer_planes;

    assert(chunk < plan->chunk_count);
    for (uint32_t count = plan->layer_count, half; count > 1; count -= half) {
        half = count / 2;
        first += plan->planes[first[half]].chunk_first <= chunk ? half : 0;
    }
    return (uint32_t)(first - plan->layer_planes);
}

uint32_t kvr_plan_layer(const struct kvr_plan *plan, uint32_t layer_index,
                        struct kvr_chunk_run *ret_chunks)
{
    const struct kvr_plan_plane *plane;
    uint32_t next, end;

    assert(layer_index < plan->layer_count);
    plane = &plan->planes[plan->layer_planes[layer_index]];
    next = plan->layer_planes[layer_index + 1];
    end = next < plan->plane_count ? plan->planes[next].chunk_first : plan->chunk_count;
    ret_chunks->chunk_first = plane->chunk_first;
    ret_chunks->chunk_count = end - plane->chunk_first;
    return plane->layer;
}
