/* The overlap of source and target in a KV group, by (layer, part). Private to common/kv. Pure. */
#ifndef KVR_KV_PLAN_SHARE_H
#define KVR_KV_PLAN_SHARE_H

#include "kv/layout_planes.h"
#include "kv/plan.h"

struct kvr_plan_sides {
    const struct kvr_plan_input *input;
    struct kvr_layout_planes sources, targets;
};

/* Checks and indexes both sides' regions. Fails as kvr_layout_match does. */
KVR_MUST_CHECK kvr_status kvr_plan_sides_index(const struct kvr_plan_input *input,
                                               struct kvr_plan_sides *sides,
                                               struct kvr_error *error);

struct kvr_plan_share {
    const struct kvr_region_layout *source, *target;
    uint32_t layer, part;
    uint32_t head_first, head_count; /* in both sides and in the scope */
};

/* The next share in plan order, from *share on; false after the last. Begin with part K of layer 0
 * and go on with part++. */
bool kvr_plan_share_next(const struct kvr_plan_sides *sides, struct kvr_plan_share *share);

#endif
