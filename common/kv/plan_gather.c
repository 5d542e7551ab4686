/* Gathers pieces into chunks: each chunk takes as many of the next pieces as its limits allow. This
 * gives the fewest chunks, because a write that fits still fits without pieces at either end. */
#include "kv/plan_pattern.h"

struct gatherer {
    struct kvr_plan_pattern *pattern;
    const struct kvr_plan_limits *limits;
    uint32_t pieces_max;               /* of a chunk */
    uint32_t capacity;                 /* of the pattern's batches */
    uint64_t chunk_count, piece_count; /* of closed chunks */
    uint32_t batch_pieces;             /* of each chunk of the last batch */
    /* the open chunk; empty when pieces is 0 */
    uint32_t pieces, locals, remotes;
    uint64_t bytes, source_end, target_end;
};

static void emit(struct gatherer *gatherer, uint64_t chunk_count, uint32_t pieces)
{
    struct kvr_plan_pattern *pattern = gatherer->pattern;

    if (chunk_count == 0)
        return;
    if (pieces != gatherer->batch_pieces) {
        if (pattern->batch_count < gatherer->capacity)
            pattern->batches[pattern->batch_count] = (struct kvr_plan_batch){
                .chunk_first = (uint32_t)gatherer->chunk_count,
                .piece_first = (uint32_t)gatherer->piece_count,
                .piece_count = pieces,
            };
        pattern->batch_count++;
        gatherer->batch_pieces = pieces;
    }
    gatherer->chunk_count += chunk_count;
    gatherer->piece_count += chunk_count * pieces;
}

static void close_chunk(struct gatherer *gatherer)
{
    if (gatherer->pieces > 0)
        emit(gatherer, 1, gatherer->pieces);
    gatherer->pieces = gatherer->locals = gatherer->remotes = 0;
    gatherer->bytes = 0;
}

/* False: the piece does not fit in the open chunk. */
static bool add_piece(struct gatherer *gatherer, uint64_t source, uint64_t target, uint64_t bytes)
{
    const struct kvr_plan_limits *limits = gatherer->limits;
    bool any = gatherer->pieces > 0;
    uint32_t locals = gatherer->locals + !(any && source == gatherer->source_end);
    uint32_t remotes = gatherer->remotes + !(any && target == gatherer->target_end);

    if (locals > limits->pieces_local || remotes > limits->pieces_remote ||
        gatherer->pieces == gatherer->pieces_max ||
        bytes > limits->chunk_bytes_max - gatherer->bytes)
        return false;
    gatherer->pieces++;
    gatherer->locals = locals;
    gatherer->remotes = remotes;
    gatherer->bytes += bytes;
    gatherer->source_end = source + bytes;
    gatherer->target_end = target + bytes;
    return true;
}

static void put_piece(struct gatherer *gatherer, uint64_t source, uint64_t target, uint64_t bytes)
{
    if (add_piece(gatherer, source, target, bytes))
        return;
    close_chunk(gatherer);
    (void)add_piece(gatherer, source, target, bytes); /* alone it fits */
}

/* Cuts of full chunk length stand alone; the remaining piece may share a chunk. */
static void put_long(struct gatherer *gatherer, uint64_t source, uint64_t target, uint64_t bytes)
{
    uint64_t bytes_max = gatherer->limits->chunk_bytes_max, rest = bytes % bytes_max;

    close_chunk(gatherer);
    emit(gatherer, bytes / bytes_max, 1);
    if (rest > 0)
        put_piece(gatherer, source + bytes - rest, target + bytes - rest, rest);
}

/* Equal pieces at a constant distance. */
struct series {
    uint64_t source, target, bytes, count;
    uint64_t source_step, target_step;
};

/* The number of such pieces that a chunk holds. */
static uint64_t series_fit(const struct gatherer *gatherer, const struct series *series)
{
    const struct kvr_plan_limits *limits = gatherer->limits;
    uint64_t fit = limits->chunk_bytes_max / series->bytes;

    if (fit > gatherer->pieces_max)
        fit = gatherer->pieces_max;
    if (series->source_step != series->bytes && fit > limits->pieces_local)
        fit = limits->pieces_local;
    if (series->target_step != series->bytes && fit > limits->pieces_remote)
        fit = limits->pieces_remote;
    return fit;
}

static void put_series(struct gatherer *gatherer, const struct series *series)
{
    uint64_t source = series->source, target = series->target, i = 0, full, fit;

    if (series->count == 1) {
        put_piece(gatherer, source, target, series->bytes);
        return;
    }
    for (; i < series->count && add_piece(gatherer, source, target, series->bytes); i++) {
        source += series->source_step;
        target += series->target_step;
    }
    if (i == series->count)
        return;
    /* From here all chunks are alike; the last stays open. */
    close_chunk(gatherer);
    fit = series_fit(gatherer, series);
    full = (series->count - i - 1) / fit;
    emit(gatherer, full, (uint32_t)fit);
    i += full * fit;
    for (; i < series->count; i++)
        put_piece(gatherer, series->source + i * series->source_step,
                  series->target + i * series->target_step, series->bytes);
}

static void put_fragments(struct gatherer *gatherer, const struct series *series)
{
    if (series->bytes <= gatherer->limits->chunk_bytes_max) {
        put_series(gatherer, series);
        return;
    }
    for (uint64_t i = 0; i < series->count; i++)
        put_long(gatherer, series->source + i * series->source_step,
                 series->target + i * series->target_step, series->bytes);
}

/* Runs of one piece each, by far the most common case. False: there are other runs. */
static bool put_list(struct gatherer *gatherer, const struct kvr_plan_run *runs, uint32_t run_count)
{
    uint64_t bytes_max = gatherer->limits->chunk_bytes_max;

    for (uint32_t i = 0; i < run_count; i++) {
        if (runs[i].fragment_count > 1)
            return false;
    }
    for (uint32_t i = 0; i < run_count; i++) {
        if (runs[i].fragment_bytes <= bytes_max)
            put_piece(gatherer, runs[i].source_offset, runs[i].target_offset,
                      runs[i].fragment_bytes);
        else
            put_long(gatherer, runs[i].source_offset, runs[i].target_offset,
                     runs[i].fragment_bytes);
    }
    return true;
}

static void put_block(struct gatherer *gatherer, const struct kvr_plan_block *block)
{
    const struct kvr_plan_shape *shape = &gatherer->pattern->shape;
    const struct kvr_plan_run *runs = &gatherer->pattern->runs[block->run_first];
    const struct kvr_plan_end *source = &shape->source, *target = &shape->target;
    uint32_t run_count = block[1].run_first - block->run_first;
    bool heads = kvr_plan_head_major(shape);
    uint64_t source_outer = heads ? source->head_stride : source->token_stride;
    uint64_t target_outer = heads ? target->head_stride : target->token_stride;

    if (run_count == 1 && runs->fragment_count == 1) {
        put_fragments(gatherer, &(struct series){runs->source_offset, runs->target_offset,
                                                 runs->fragment_bytes, block->row_count,
                                                 source_outer, target_outer});
        return;
    }
    if (block->row_count == 1 && put_list(gatherer, runs, run_count))
        return;
    for (uint64_t row = 0; row < block->row_count; row++) {
        for (uint32_t i = 0; i < run_count; i++) {
            const struct series series = {
                .source = runs[i].source_offset + row * source_outer,
                .target = runs[i].target_offset + row * target_outer,
                .bytes = runs[i].fragment_bytes,
                .count = runs[i].fragment_count,
                .source_step = heads ? source->token_stride : source->head_stride,
                .target_step = heads ? target->token_stride : target->head_stride,
            };

            put_fragments(gatherer, &series);
        }
    }
}

void kvr_plan_pattern_gather(const struct kvr_plan_limits *limits, uint32_t capacity,
                             struct kvr_plan_pattern *pattern)
{
    struct gatherer gatherer = {.pattern = pattern,
                                .limits = limits,
                                .pieces_max = kvr_plan_pieces_max(limits),
                                .capacity = capacity};

    pattern->batch_count = 0;
    for (uint32_t i = 0; i < pattern->block_count; i++)
        put_block(&gatherer, &pattern->blocks[i]);
    close_chunk(&gatherer);
    pattern->chunk_count = (uint32_t)gatherer.chunk_count;
}
