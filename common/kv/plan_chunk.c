/* Finds the bytes of chunk k, which no plan stores: the plane by its first chunk, the batch by its
 * first chunk, its first piece by block and run. From there it walks piece after piece. A reader of
 * consecutive chunks searches once and then walks. */
#include <assert.h>

#include "kv/plan_pattern.h"

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

static const struct kvr_plan_block *block_of(const struct kvr_plan_pattern *pattern, uint32_t piece)
{
    const struct kvr_plan_block *block = pattern->blocks;

    for (uint32_t count = pattern->block_count, half; count > 1; count -= half) {
        half = count / 2;
        block += block[half].piece_first <= piece ? half : 0;
    }
    return block;
}

static const struct kvr_plan_run *run_of(const struct kvr_plan_run *run, uint32_t run_count,
                                         uint32_t piece)
{
    for (uint32_t count = run_count, half; count > 1; count -= half) {
        half = count / 2;
        run += run[half].piece_first <= piece ? half : 0;
    }
    return run;
}

static void enter_run(struct kvr_plan_cursor *cursor, const struct kvr_plan_run *run)
{
    cursor->run = run;
    cursor->cuts =
        (uint32_t)kvr_plan_cuts(run->fragment_bytes, cursor->plan->limits.chunk_bytes_max);
    cursor->fragment = cursor->cut = 0;
    cursor->single = cursor->batch->piece_count == 1 && cursor->cuts == 1 &&
                     run->fragment_count == 1 && cursor->block->row_count == 1;
}

static void enter_block(struct kvr_plan_cursor *cursor, const struct kvr_plan_block *block)
{
    cursor->block = block;
    cursor->row = 0;
    cursor->row_end = &cursor->pattern->runs[block[1].run_first];
}

static void enter_batch(struct kvr_plan_cursor *cursor, const struct kvr_plan_batch *batch)
{
    const struct kvr_plan_pattern *pattern = cursor->pattern;

    cursor->batch = batch;
    cursor->chunk_end = batch + 1 < &pattern->batches[pattern->batch_count] ? batch[1].chunk_first
                                                                            : pattern->chunk_count;
}

static void seek(struct kvr_plan_cursor *cursor, uint32_t piece)
{
    const struct kvr_plan_block *block = block_of(cursor->pattern, piece);
    const struct kvr_plan_run *runs = &cursor->pattern->runs[block->run_first];
    uint32_t row_pieces = (block[1].piece_first - block->piece_first) / block->row_count;

    piece -= block->piece_first;
    enter_block(cursor, block);
    cursor->row = piece / row_pieces;
    piece %= row_pieces;
    enter_run(cursor, run_of(runs, block[1].run_first - block->run_first, piece));
    piece -= cursor->run->piece_first;
    cursor->fragment = piece / cursor->cuts;
    cursor->cut = piece % cursor->cuts;
}

/* Requires one more piece in the pattern. */
static void advance(struct kvr_plan_cursor *cursor)
{
    if (++cursor->cut < cursor->cuts)
        return;
    cursor->cut = 0;
    if (++cursor->fragment < cursor->run->fragment_count)
        return;
    if (cursor->run + 1 < cursor->row_end) {
        enter_run(cursor, cursor->run + 1);
        return;
    }
    if (++cursor->row == cursor->block->row_count)
        enter_block(cursor, cursor->block + 1);
    enter_run(cursor, &cursor->pattern->runs[cursor->block->run_first]);
}

static uint64_t inside(const struct kvr_plan_end *end, bool head_major, uint64_t row,
                       uint64_t fragment)
{
    return head_major ? row * end->head_stride + fragment * end->token_stride
                      : row * end->token_stride + fragment * end->head_stride;
}

static void read_piece(const struct kvr_plan_cursor *cursor, struct kvr_plan_piece *ret_piece)
{
    const struct kvr_plan_shape *shape = &cursor->pattern->shape;
    const struct kvr_plan_run *run = cursor->run;
    uint64_t bytes_max = cursor->plan->limits.chunk_bytes_max, cut = cursor->cut * bytes_max;
    uint64_t left = run->fragment_bytes - cut;
    bool heads = kvr_plan_head_major(shape);

    *ret_piece = (struct kvr_plan_piece){
        .source_layout = cursor->plane->source_layout,
        .target_layout = cursor->plane->target_layout,
        .source_offset = cursor->plane->source_base + run->source_offset + cut +
                         inside(&shape->source, heads, cursor->row, cursor->fragment),
        .target_offset = cursor->plane->target_base + run->target_offset + cut +
                         inside(&shape->target, heads, cursor->row, cursor->fragment),
        .bytes = left < bytes_max ? left : bytes_max,
    };
}

void kvr_plan_seek(const struct kvr_plan *plan, uint32_t chunk, struct kvr_plan_cursor *ret_cursor)
{
    struct kvr_plan_cursor cursor = {.plan = plan};

    if (chunk < plan->chunk_count) {
        cursor.plane = plane_of(plan, chunk);
        cursor.pattern = &plan->patterns[cursor.plane->pattern];
        cursor.chunk = chunk - cursor.plane->chunk_first;
        enter_batch(&cursor, batch_of(cursor.pattern, cursor.chunk));
        seek(&cursor, cursor.batch->piece_first +
                          (cursor.chunk - cursor.batch->chunk_first) * cursor.batch->piece_count);
    }
    *ret_cursor = cursor;
}

/* Moves from the last piece of a batch to the first of the next one, if there is one. */
static void leave_batch(struct kvr_plan_cursor *cursor)
{
    const struct kvr_plan *plan = cursor->plan;

    if (cursor->chunk < cursor->pattern->chunk_count) {
        enter_batch(cursor, cursor->batch + 1);
        advance(cursor);
        return;
    }
    do {
        if (++cursor->plane == &plan->planes[plan->plane_count])
            return;
        cursor->pattern = &plan->patterns[cursor->plane->pattern];
    } while (cursor->pattern->chunk_count == 0);
    cursor->chunk = 0;
    enter_batch(cursor, cursor->pattern->batches);
    seek(cursor, 0);
}

static inline void next_chunk(struct kvr_plan_cursor *cursor)
{
    if (++cursor->chunk == cursor->chunk_end)
        leave_batch(cursor);
    else
        advance(cursor);
}

void kvr_plan_next_piece(struct kvr_plan_cursor *cursor, struct kvr_plan_piece *ret_piece)
{
    read_piece(cursor, ret_piece);
    if (++cursor->piece < cursor->batch->piece_count) {
        advance(cursor);
        return;
    }
    cursor->piece = 0;
    next_chunk(cursor);
}

void kvr_plan_next(struct kvr_plan_cursor *cursor, struct kvr_plan_chunk *ret_chunk)
{
    assert(cursor->batch->piece_count <= KVR_CHUNK_PIECES_MAX);
    ret_chunk->layer = cursor->plane->layer;
    ret_chunk->part = cursor->plane->part;
    ret_chunk->piece_count = cursor->batch->piece_count;
    read_piece(cursor, &ret_chunk->pieces[0]);
    for (uint32_t i = 1; i < ret_chunk->piece_count; i++) {
        advance(cursor);
        read_piece(cursor, &ret_chunk->pieces[i]);
    }
    next_chunk(cursor);
}

void kvr_plan_chunk(const struct kvr_plan *plan, uint32_t chunk, struct kvr_plan_chunk *ret_chunk)
{
    struct kvr_plan_cursor cursor;

    assert(chunk < plan->chunk_count);
    kvr_plan_seek(plan, chunk, &cursor);
    kvr_plan_next(&cursor, ret_chunk);
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

/* The bytes of the chunk at the cursor; moves the cursor to the next chunk. */
static uint64_t next_bytes(struct kvr_plan_cursor *cursor)
{
    uint64_t bytes = 0;

    for (uint32_t left = kvr_plan_cursor_pieces(cursor); left > 0; left--) {
        struct kvr_plan_piece piece;

        kvr_plan_next_piece(cursor, &piece);
        bytes += piece.bytes;
    }
    return bytes;
}

uint64_t kvr_plan_chunk_bytes(const struct kvr_plan *plan, uint32_t chunk)
{
    struct kvr_plan_cursor cursor;

    assert(chunk < plan->chunk_count);
    kvr_plan_seek(plan, chunk, &cursor);
    return next_bytes(&cursor);
}

bool kvr_plan_positions(const struct kvr_plan *plan, uint64_t ring_bytes, uint64_t *position,
                        uint64_t *ret_positions)
{
    struct kvr_plan_cursor cursor;
    uint64_t at = *position;

    kvr_plan_seek(plan, 0, &cursor);
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        uint64_t bytes = next_bytes(&cursor), left;

        if (bytes > ring_bytes)
            return false;
        left = ring_bytes - at % ring_bytes;
        at += bytes > left ? left : 0;
        ret_positions[i] = at;
        at += bytes;
    }
    *position = at;
    return true;
}
