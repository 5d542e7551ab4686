#include "kv/plan_pattern.h"

#include <inttypes.h>

static struct kvr_plan_end end_of(const struct kvr_region_layout *layout, uint32_t head_count)
{
    return (struct kvr_plan_end){
        .page_stride = layout->page_count > 1 ? layout->page_stride : 0,
        .token_stride = layout->page_tokens > 1 ? layout->token_stride : 0,
        .head_stride = head_count > 1 ? layout->head_stride : 0,
    };
}

struct kvr_plan_shape kvr_plan_shape_of(const struct kvr_region_layout *source,
                                        const struct kvr_region_layout *target, uint32_t head_count)
{
    return (struct kvr_plan_shape){
        .head_bytes = target->head_bytes,
        .head_count = head_count,
        .source = end_of(source, head_count),
        .target = end_of(target, head_count),
    };
}

bool kvr_plan_head_major(const struct kvr_plan_shape *shape)
{
    return shape->target.head_stride > shape->target.token_stride;
}

/* The strides of rows (outer) and of the fragments in a row (inner). */
static uint64_t outer(const struct kvr_plan_end *end, bool head_major)
{
    return head_major ? end->head_stride : end->token_stride;
}

static uint64_t inner(const struct kvr_plan_end *end, bool head_major)
{
    return head_major ? end->token_stride : end->head_stride;
}

struct kvr_plan_grid kvr_plan_grid_of(const struct kvr_plan_shape *shape, uint64_t tokens)
{
    const struct kvr_plan_end *source = &shape->source, *target = &shape->target;
    bool heads = kvr_plan_head_major(shape);
    struct kvr_plan_grid grid = {
        .tokens = tokens,
        .row_count = heads ? shape->head_count : tokens,
        .fragment_count = heads ? tokens : shape->head_count,
        .fragment_bytes = shape->head_bytes,
    };

    if (inner(source, heads) == grid.fragment_bytes &&
        inner(target, heads) == grid.fragment_bytes) {
        grid.fragment_bytes *= grid.fragment_count;
        grid.fragment_count = 1;
    }
    if (grid.fragment_count == 1 && outer(source, heads) == grid.fragment_bytes &&
        outer(target, heads) == grid.fragment_bytes) {
        grid.fragment_bytes *= grid.row_count;
        grid.row_count = 1;
    }
    return grid;
}

uint64_t kvr_plan_grid_runs(const struct kvr_plan_shape *shape, const struct kvr_plan_grid *grid,
                            const struct kvr_plan_end *end)
{
    bool heads = kvr_plan_head_major(shape);
    uint64_t row_bytes = grid->fragment_count * grid->fragment_bytes;

    if (grid->fragment_count > 1 && inner(end, heads) != grid->fragment_bytes)
        return grid->row_count * grid->fragment_count;
    return grid->row_count == 1 || outer(end, heads) == row_bytes ? 1 : grid->row_count;
}

/* The end of a pattern as it is built. */
struct builder {
    struct kvr_plan_pattern *pattern;
    uint64_t chunk_bytes_max;
    uint64_t source_outer, target_outer, source_inner, target_inner;
    uint64_t piece_count;            /* before the last block */
    uint64_t row_count, row_pieces;  /* of the last block */
    uint32_t row_runs;               /* of its row */
    struct kvr_plan_run last;        /* its last run */
    uint64_t last_first;             /* pieces of the row before the last run */
    uint64_t source_end, target_end; /* of the last piece of its last row */
};

static struct builder begin(uint64_t chunk_bytes_max, struct kvr_plan_pattern *pattern)
{
    const struct kvr_plan_shape *shape = &pattern->shape;
    bool heads = kvr_plan_head_major(shape);

    pattern->run_count = pattern->block_count = pattern->piece_count = 0;
    return (struct builder){
        .pattern = pattern,
        .chunk_bytes_max = chunk_bytes_max,
        .source_outer = outer(&shape->source, heads),
        .target_outer = outer(&shape->target, heads),
        .source_inner = inner(&shape->source, heads),
        .target_inner = inner(&shape->target, heads),
    };
}

static void open_block(struct builder *builder, uint64_t row_count)
{
    struct kvr_plan_pattern *pattern = builder->pattern;

    builder->piece_count += builder->row_count * builder->row_pieces;
    builder->row_count = row_count;
    builder->row_pieces = builder->row_runs = 0;
    if (pattern->runs != NULL)
        pattern->blocks[pattern->block_count] = (struct kvr_plan_block){
            .piece_first = (uint32_t)builder->piece_count,
            .run_first = pattern->run_count,
            .row_count = (uint32_t)row_count,
        };
    pattern->block_count++;
}

/* Writes the last run in its present form, and the end of its last piece in the last row. */
static void set_last(struct builder *builder)
{
    const struct kvr_plan_run *last = &builder->last;
    uint64_t fragments = last->fragment_count - 1, rows = builder->row_count - 1;

    builder->source_end = last->source_offset + fragments * builder->source_inner +
                          rows * builder->source_outer + last->fragment_bytes;
    builder->target_end = last->target_offset + fragments * builder->target_inner +
                          rows * builder->target_outer + last->fragment_bytes;
    builder->row_pieces =
        builder->last_first +
        last->fragment_count * kvr_plan_cuts(last->fragment_bytes, builder->chunk_bytes_max);
    if (builder->pattern->runs != NULL)
        builder->pattern->runs[builder->pattern->run_count - 1] = *last;
}

static void add_run(struct builder *builder, uint64_t source, uint64_t target, uint64_t count,
                    uint64_t bytes)
{
    builder->last = (struct kvr_plan_run){
        .source_offset = source,
        .target_offset = target,
        .fragment_bytes = bytes,
        .fragment_count = (uint32_t)count,
        .piece_first = (uint32_t)builder->row_pieces,
    };
    builder->last_first = builder->row_pieces;
    builder->pattern->run_count++;
    builder->row_runs++;
    set_last(builder);
}

/* The last row of the last block becomes a block of its own. */
static void split_row(struct builder *builder)
{
    struct kvr_plan_pattern *pattern = builder->pattern;
    uint64_t rows = builder->row_count - 1, source = rows * builder->source_outer;
    uint64_t target = rows * builder->target_outer;
    uint32_t runs = builder->row_runs, first = pattern->run_count - runs;

    builder->row_count = rows;
    if (pattern->runs != NULL)
        pattern->blocks[pattern->block_count - 1].row_count = (uint32_t)rows;
    open_block(builder, 1);
    for (uint32_t i = 0; pattern->runs != NULL && i + 1 < runs; i++) {
        struct kvr_plan_run *copy = &pattern->runs[pattern->run_count + i];

        *copy = pattern->runs[first + i];
        copy->source_offset += source;
        copy->target_offset += target;
    }
    pattern->run_count += runs;
    builder->row_runs = runs;
    builder->last.source_offset += source;
    builder->last.target_offset += target;
    set_last(builder);
}

/* Moves the last fragment into a run of its own, in a block of one row, so it can grow. */
static void isolate_last(struct builder *builder)
{
    struct kvr_plan_run *last = &builder->last;
    uint64_t fragments = last->fragment_count - 1;

    if (builder->row_count > 1)
        split_row(builder);
    if (fragments == 0)
        return;
    last->fragment_count = (uint32_t)fragments;
    set_last(builder);
    add_run(builder, last->source_offset + fragments * builder->source_inner,
            last->target_offset + fragments * builder->target_inner, 1, last->fragment_bytes);
}

static bool touches(const struct builder *builder, uint64_t source, uint64_t target)
{
    return builder->row_count > 0 && builder->source_end == source && builder->target_end == target;
}

/* One row of a grid. The row's first fragment may continue the last one. */
static void add_row(struct builder *builder, const struct kvr_plan_grid *grid, uint64_t source,
                    uint64_t target)
{
    uint64_t count = grid->fragment_count;

    if (touches(builder, source, target)) {
        isolate_last(builder);
        builder->last.fragment_bytes += grid->fragment_bytes;
        set_last(builder);
        source += builder->source_inner;
        target += builder->target_inner;
        if (--count == 0)
            return;
    }
    if (builder->row_count != 1)
        open_block(builder, 1);
    add_run(builder, source, target, count, grid->fragment_bytes);
}

static uint64_t offset_of(const struct kvr_plan_end *end, uint32_t page, uint64_t token)
{
    return page * end->page_stride + token * end->token_stride;
}

/* Rows of tokens: one span after the other. */
static void add_token_rows(struct builder *builder, const struct kvr_plan_grid *grid,
                           const struct kvr_plan_span *span)
{
    const struct kvr_plan_shape *shape = &builder->pattern->shape;
    uint64_t source = offset_of(&shape->source, span->source_page, span->source_token);
    uint64_t target = offset_of(&shape->target, span->target_page, span->target_token);
    uint64_t rows = grid->row_count;

    if (rows == 1 || touches(builder, source, target)) {
        add_row(builder, grid, source, target);
        source += builder->source_outer;
        target += builder->target_outer;
        rows--;
    }
    if (rows == 0)
        return;
    open_block(builder, rows);
    add_run(builder, source, target, grid->fragment_count, grid->fragment_bytes);
}

/* Rows of heads: a row goes through all spans of the target's page. */
static void add_head_rows(struct builder *builder, const struct kvr_plan_pages *pages,
                          const struct kvr_plan_slot *slot, uint32_t n, struct kvr_plan_span span)
{
    const struct kvr_plan_shape *shape = &builder->pattern->shape;
    const struct kvr_plan_span first = span;
    uint64_t source = offset_of(&shape->source, span.source_page, span.source_token);
    uint64_t target = offset_of(&shape->target, span.target_page, span.target_token);
    uint64_t done = 0;

    if (touches(builder, source, target)) { /* the first row continues the last page */
        do {
            struct kvr_plan_grid grid = kvr_plan_grid_of(shape, span.tokens);

            add_row(builder, &grid, offset_of(&shape->source, span.source_page, span.source_token),
                    offset_of(&shape->target, span.target_page, span.target_token));
        } while (kvr_plan_span_next(pages, slot, n, &span));
        done = 1;
    }
    open_block(builder, shape->head_count - done);
    span = first;
    do {
        struct kvr_plan_grid grid = kvr_plan_grid_of(shape, span.tokens);

        add_run(builder,
                offset_of(&shape->source, span.source_page, span.source_token) +
                    done * builder->source_outer,
                offset_of(&shape->target, span.target_page, span.target_token) +
                    done * builder->target_outer,
                grid.fragment_count, grid.fragment_bytes);
    } while (kvr_plan_span_next(pages, slot, n, &span));
}

static void add_page(struct builder *builder, const struct kvr_plan_pages *pages,
                     const struct kvr_plan_slot *slot, uint32_t n, bool head_major)
{
    struct kvr_plan_span span;

    if (!kvr_plan_span_begin(pages, slot, n, &span))
        return;
    if (head_major && kvr_plan_grid_of(&builder->pattern->shape, span.tokens).row_count > 1) {
        add_head_rows(builder, pages, slot, n, span);
        return;
    }
    do {
        struct kvr_plan_grid grid = kvr_plan_grid_of(&builder->pattern->shape, span.tokens);

        add_token_rows(builder, &grid, &span);
    } while (kvr_plan_span_next(pages, slot, n, &span));
}

static kvr_status check_pieces(const struct kvr_plan_pages *pages,
                               const struct kvr_plan_pattern *pattern, uint64_t piece_count,
                               uint64_t chunk_bytes_max, struct kvr_error *error)
{
    if (piece_count <= UINT32_MAX)
        return KVR_OK;
    return kvr_error_set(error, KVR_TOO_LARGE, "plan",
                         "%" PRIu64 " tokens of %" PRIu64 " heads of %" PRIu64
                         " B need more than 2^32 pieces of at most %" PRIu64 " B",
                         pages->token_end - pages->token_first, pattern->shape.head_count,
                         pattern->shape.head_bytes, chunk_bytes_max);
}

static kvr_status build_rows(const struct kvr_plan_pages *pages, uint64_t chunk_bytes_max,
                             struct kvr_plan_pattern *pattern, struct kvr_error *error)
{
    struct builder builder = begin(chunk_bytes_max, pattern);
    bool head_major = kvr_plan_head_major(&pattern->shape);

    for (uint32_t i = 0; i < pages->slot_count; i++) {
        for (uint32_t n = 0; n < pages->slots[i].page_count; n++) {

            add_page(&builder, pages, &pages->slots[i], n, head_major);
            KVR_TRY(check_pieces(pages, pattern,
                                 builder.piece_count + builder.row_count * builder.row_pieces,
                                 chunk_bytes_max, error));
        }
    }
    open_block(&builder, 0); /* the mark */
    pattern->block_count--;
    pattern->piece_count = (uint32_t)builder.piece_count;
    return KVR_OK;
}

/* ---- spans of one fragment, by far the most: a list of runs and nothing else ----------------- */

/* Every span of the segment is one run of bytes at both ends. */
static bool all_flat(const struct kvr_plan_pages *pages, const struct kvr_plan_shape *shape)
{
    uint64_t source = pages->source_page_tokens, target = pages->target_page_tokens;
    uint64_t small = source < target ? source : target;
    struct kvr_plan_grid whole = kvr_plan_grid_of(shape, small);
    struct kvr_plan_grid part = kvr_plan_grid_of(shape, small > 1 ? small - 1 : 1);
    bool only_whole = source == target && pages->token_first % source == 0;

    return whole.row_count == 1 && whole.fragment_count == 1 &&
           (only_whole || (part.row_count == 1 && part.fragment_count == 1));
}

/* Neighbouring whole pages are one run of bytes. */
static bool slots_dense(const struct kvr_plan_pages *pages, const struct kvr_plan_shape *shape)
{
    uint64_t page_bytes = shape->head_count * shape->head_bytes * pages->target_page_tokens;

    return shape->source.page_stride == page_bytes && shape->target.page_stride == page_bytes;
}

static struct kvr_plan_run *add_flat(struct kvr_plan_run *last, bool any, uint64_t source,
                                     uint64_t target, uint64_t bytes)
{
    if (any && last->source_offset + last->fragment_bytes == source &&
        last->target_offset + last->fragment_bytes == target) {
        last->fragment_bytes += bytes;
        return last;
    }
    last += any;
    *last = (struct kvr_plan_run){source, target, bytes, 1, 0};
    return last;
}

/* The runs of one slot, behind `last`; returns the new last one. */
static struct kvr_plan_run *add_flat_slot(const struct kvr_plan_pages *pages,
                                          const struct kvr_plan_slot *slot,
                                          const struct kvr_plan_shape *shape,
                                          struct kvr_plan_run *last, bool any)
{
    uint64_t token_bytes = shape->head_count * shape->head_bytes;
    bool dense = slots_dense(pages, shape);
    struct kvr_plan_span span;

    for (uint32_t n = 0; n < slot->page_count; n++) {
        for (bool more = kvr_plan_span_begin(pages, slot, n, &span); more;
             more = kvr_plan_span_next(pages, slot, n, &span)) {
            uint64_t tokens = span.tokens;

            if (dense && slot->page_count > 1) { /* all of them at once */
                tokens *= slot->page_count;
                n = slot->page_count;
            }
            last =
                add_flat(last, any, offset_of(&shape->source, span.source_page, span.source_token),
                         offset_of(&shape->target, span.target_page, span.target_token),
                         tokens * token_bytes);
            any = true;
        }
    }
    return last;
}

static kvr_status fill_flat(const struct kvr_plan_pages *pages, uint64_t chunk_bytes_max,
                            struct kvr_plan_pattern *pattern, struct kvr_error *error)
{
    struct kvr_plan_run *last = pattern->runs;
    uint64_t pieces = 0;

    for (uint32_t i = 0; i < pages->slot_count; i++)
        last = add_flat_slot(pages, &pages->slots[i], &pattern->shape, last, i > 0);
    pattern->run_count = pages->slot_count > 0 ? (uint32_t)(last - pattern->runs) + 1 : 0;
    for (uint32_t i = 0; i < pattern->run_count; i++) {
        pattern->runs[i].piece_first = (uint32_t)pieces;
        pieces += kvr_plan_cuts(pattern->runs[i].fragment_bytes, chunk_bytes_max);
    }
    KVR_TRY(check_pieces(pages, pattern, pieces, chunk_bytes_max, error));
    pattern->piece_count = (uint32_t)pieces;
    pattern->block_count = pages->slot_count > 0;
    pattern->blocks[0] = (struct kvr_plan_block){0, 0, 1};
    pattern->blocks[pattern->block_count] =
        (struct kvr_plan_block){pattern->piece_count, pattern->run_count, 0};
    return KVR_OK;
}

/* ---- either --------------------------------------------------------------------------------- */

kvr_status kvr_plan_pattern_measure(const struct kvr_plan_pages *pages, uint64_t chunk_bytes_max,
                                    struct kvr_plan_pattern *pattern, struct kvr_error *error)
{
    pattern->runs = NULL;
    if (!all_flat(pages, &pattern->shape))
        return build_rows(pages, chunk_bytes_max, pattern, error);
    pattern->run_count = pages->slot_count;
    if (pages->source_page_tokens != pages->target_page_tokens)
        pattern->run_count = pages->source_page_count + pages->target_page_count;
    else if (pages->slot_count > 0 && !slots_dense(pages, &pattern->shape))
        pattern->run_count = pages->target_page_count;
    pattern->block_count = 1;
    return KVR_OK;
}

kvr_status kvr_plan_pattern_build(const struct kvr_plan_pages *pages, uint64_t chunk_bytes_max,
                                  struct kvr_plan_pattern *pattern, struct kvr_error *error)
{
    if (all_flat(pages, &pattern->shape))
        return fill_flat(pages, chunk_bytes_max, pattern, error);
    return build_rows(pages, chunk_bytes_max, pattern, error);
}
