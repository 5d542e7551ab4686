/* The most chunks that plans can have, before any page is known. The bound is the number of pieces,
 * because a chunk has at least one. Merged runs only save pieces. */
#include "kv/plan_pattern.h"
#include "kv/plan_share.h"

/* Pieces of one span. */
static uint64_t span_pieces(const struct kvr_plan_shape *shape, uint64_t tokens,
                            uint64_t chunk_bytes_max)
{
    struct kvr_plan_grid grid = kvr_plan_grid_of(shape, tokens);
    uint64_t cuts = kvr_plan_cuts(grid.fragment_bytes, chunk_bytes_max), pieces;

    if (__builtin_mul_overflow(grid.row_count, grid.fragment_count, &pieces) ||
        __builtin_mul_overflow(pieces, cuts, &pieces))
        return UINT64_MAX;
    return pieces;
}

/* Pieces of one (layer, part). Where one page size divides the other, every span is a whole smaller
 * page. Else any span may be shorter, and a segment may end in either page. A shorter span can have
 * more pieces, because heads that were side by side are then apart. */
static bool plane_pieces_max(const struct kvr_plan_shape *shape, uint32_t source_tokens,
                             uint32_t target_tokens, uint64_t tokens, uint32_t segment_count,
                             uint64_t chunk_bytes_max, uint64_t *ret_count)
{
    uint32_t small = source_tokens < target_tokens ? source_tokens : target_tokens;
    uint32_t large = source_tokens < target_tokens ? target_tokens : source_tokens;
    uint64_t pieces = span_pieces(shape, small, chunk_bytes_max), part;
    uint64_t spans = tokens / small + (tokens % small != 0);

    if (large % small != 0) {
        part = span_pieces(shape, small - 1, chunk_bytes_max);
        pieces = part > pieces ? part : pieces;
        spans += tokens / large + 2 * (uint64_t)segment_count;
    }
    return !__builtin_mul_overflow(spans, pieces, ret_count);
}

uint64_t kvr_plan_chunks_max(const struct kvr_plan_input *input, uint64_t tokens,
                             uint32_t segment_count)
{
    struct kvr_plan_share share = {.part = KVR_PART_K};
    struct kvr_plan_input known = *input;
    struct kvr_plan_sides sides;
    uint64_t total = 0;

    if (input->source_layout_count == 0) {
        known.source_layouts = input->target_layouts;
        known.source_layout_count = input->target_layout_count;
    }
    if (kvr_plan_limits_check(&input->limits, NULL) != KVR_OK ||
        kvr_plan_sides_index(&known, &sides, NULL) != KVR_OK)
        return UINT64_MAX;
    for (; kvr_plan_share_next(&sides, &share); share.part++) {
        struct kvr_plan_shape shape =
            kvr_plan_shape_of(share.source, share.target, share.head_count);
        bool state = share.source->page_tokens == 0; /* at both sides: one page, which moves once */
        uint64_t count;

        if (!plane_pieces_max(&shape, state ? 1 : share.source->page_tokens,
                              state ? 1 : share.target->page_tokens, state ? tokens > 0 : tokens,
                              segment_count, input->limits.chunk_bytes_max, &count) ||
            __builtin_add_overflow(total, count, &total))
            return UINT64_MAX;
    }
    return total;
}
