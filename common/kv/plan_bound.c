/* The most chunks that a plan can have, before any source is known. */
#include "kv/layout.h"
#include "kv/plan.h"

/* Of the pages of one (layer, part), whose page has page_bytes.
 *
 * A page larger than a chunk is cut, and merging pages only saves cuts. Otherwise let a chunk hold
 * m pages by bytes and g pieces. A gathered chunk ends because it is full of pieces: it has at
 * least g pages. Or because the next run would not fit: with that run, and the chunk or two that
 * the run becomes, there are at least m + 1 pages in two chunks, or m + 2 in three where the run is
 * longer than a chunk; the last is the worst. Or because the segment ends: once a segment. And no
 * page needs a chunk more than its own. */
static bool plane_chunks_max(uint64_t page_bytes, uint32_t page_count, uint32_t segment_count,
                             const struct kvr_plan_limits *limits, uint64_t *ret_count)
{
    uint64_t gathered =
        limits->pieces_local < limits->pieces_remote ? limits->pieces_local : limits->pieces_remote;
    uint64_t fit = limits->chunk_bytes_max / page_bytes;
    uint64_t thirds = 3 * gathered < fit + 2 ? 3 * gathered : fit + 2;
    uint64_t cuts, count;

    if (fit == 0) {
        cuts = page_bytes / limits->chunk_bytes_max + (page_bytes % limits->chunk_bytes_max != 0);
        return !__builtin_mul_overflow(cuts, page_count, ret_count);
    }
    count = 3 * (uint64_t)page_count / thirds + segment_count;
    *ret_count = count < page_count ? count : page_count;
    return true;
}

uint64_t kvr_plan_chunks_max(const struct kvr_region_layout *target_layouts,
                             uint32_t target_layout_count, uint32_t group, uint32_t page_count,
                             uint32_t segment_count, const struct kvr_plan_limits *limits)
{
    uint64_t total = 0;

    if (kvr_plan_limits_check(limits, NULL) != KVR_OK)
        return UINT64_MAX;
    for (uint32_t i = 0; i < target_layout_count; i++) {
        const struct kvr_region_layout *layout = &target_layouts[i];
        uint64_t planes = (uint64_t)layout->layer_count * layout->part_count, chunks;

        if (layout->group != group)
            continue;
        if (kvr_layout_check(layout, NULL) != KVR_OK ||
            !plane_chunks_max(kvr_layout_page_bytes(layout), page_count, segment_count, limits,
                              &chunks) ||
            __builtin_mul_overflow(chunks, planes, &chunks) ||
            __builtin_add_overflow(total, chunks, &total))
            return UINT64_MAX;
    }
    return total;
}
