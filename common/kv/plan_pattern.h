/* Turns a segment's pages into runs and blocks, and those into batches of chunks, for one shape.
 * Private to common/kv. Pure. */
#ifndef KVR_KV_PLAN_PATTERN_H
#define KVR_KV_PLAN_PATTERN_H

#include "kv/plan_pages.h"

/* The shape of the moved bytes in the pages of two regions that share head_count heads. */
struct kvr_plan_shape kvr_plan_shape_of(const struct kvr_region_layout *source,
                                        const struct kvr_region_layout *target,
                                        uint32_t head_count);

/* The target has heads outside and tokens inside. */
bool kvr_plan_head_major(const struct kvr_plan_shape *shape);

/* The grid in which a span of so many tokens moves: row_count rows of fragment_count fragments. */
struct kvr_plan_grid {
    uint64_t tokens;
    uint64_t row_count, fragment_count, fragment_bytes;
};
struct kvr_plan_grid kvr_plan_grid_of(const struct kvr_plan_shape *shape, uint64_t tokens);
/* The number of runs that the grid's fragments make, one after the other, at one end of the shape.
 */
uint64_t kvr_plan_grid_runs(const struct kvr_plan_shape *shape, const struct kvr_plan_grid *grid,
                            const struct kvr_plan_end *end);

/* The shape of *pattern is given. measure sets the most runs and blocks that build can need (the
 * mark not counted). build writes them, with the mark, and sets the numbers it used. KVR_TOO_LARGE:
 * more than 2^32 - 1 pieces. */
KVR_MUST_CHECK kvr_status kvr_plan_pattern_measure(const struct kvr_plan_pages *pages,
                                                   uint64_t chunk_bytes_max,
                                                   struct kvr_plan_pattern *pattern,
                                                   struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvr_plan_pattern_build(const struct kvr_plan_pages *pages,
                                                 uint64_t chunk_bytes_max,
                                                 struct kvr_plan_pattern *pattern,
                                                 struct kvr_error *error);
/* Gathers runs and blocks into chunks: counts batches and chunks, and writes the first `capacity`
 * batches to pattern->batches. */
void kvr_plan_pattern_gather(const struct kvr_plan_limits *limits, uint32_t capacity,
                             struct kvr_plan_pattern *pattern);

/* Pieces of one fragment. */
static inline uint64_t kvr_plan_cuts(uint64_t fragment_bytes, uint64_t chunk_bytes_max)
{
    return fragment_bytes <= chunk_bytes_max ? 1 : (fragment_bytes - 1) / chunk_bytes_max + 1;
}

#endif
