/* Checks and compares the layouts of engines' pages (struct kvr_region_layout, base/types.h). Pure.
 */
#ifndef KVR_KV_LAYOUT_H
#define KVR_KV_LAYOUT_H

#include "base/status.h"
#include "base/types.h"

/* Every byte that a (layer, part, page, token, head) names lies inside [0, bytes). No arithmetic
 * overflows, and counts are inside limits.h. No two places overlap. The tokens and heads of a page
 * lie inside one step of page_stride. KVR_INVALID names the field and its value. Layouts from other
 * processes pass this check before any other code reads them. */
KVR_MUST_CHECK kvr_status kvr_layout_check(const struct kvr_region_layout *layout,
                                           struct kvr_error *error);

/* The bytes between the first and the last that pages [page_first, page_last] have in the region,
 * in any layer and part. */
void kvr_layout_span(const struct kvr_region_layout *layout, uint32_t page_first,
                     uint32_t page_last, uint64_t *ret_first, uint64_t *ret_end);

/* kvr_plan_make can map the source's regions to the target's for this KV group: dimensions that
 * both have are alike. Pages may differ in tokens, heads, order and gaps. Else KVR_INCOMPATIBLE,
 * with a sentence that names the field and both values ("head_bytes: the source has 128, the target
 * has 256"). */
KVR_MUST_CHECK kvr_status kvr_layout_match(const struct kvr_region_layout *sources,
                                           uint32_t source_count,
                                           const struct kvr_region_layout *targets,
                                           uint32_t target_count, uint32_t group,
                                           struct kvr_error *error);
/* One rank's regions. */
struct kvr_layout_list {
    const struct kvr_region_layout *layouts;
    uint32_t count;
};
/* Together the source ranks have every layer, part and head of the KV group that the target has.
 * Else KVR_INCOMPATIBLE names the first that no region has. The regions have passed
 * kvr_layout_check. */
KVR_MUST_CHECK kvr_status kvr_layout_covers(const struct kvr_layout_list *sources,
                                            uint32_t source_count,
                                            const struct kvr_layout_list *target, uint32_t group,
                                            struct kvr_error *error);

#endif
