/* Two engines of a few layers and pages of 4 KiB each, and a plan between them in which every page
 * of every layer is one write. For tests of writes, not of plans. */
#ifndef KVR_TESTS_SMALL_PLAN_H
#define KVR_TESTS_SMALL_PLAN_H

#include "agent/core/region_set.h"
#include "kv/plan.h"

#define SMALL_LAYERS     2
#define SMALL_PAGES      8 /* of an engine; every second one is used, so that none are neighbours */
#define SMALL_PLANNED    4 /* pages of a plan */
#define SMALL_CHUNKS     (SMALL_LAYERS * SMALL_PLANNED)
#define SMALL_PAGE_BYTES 4096u

struct small_side {
    uint8_t memory[SMALL_LAYERS * SMALL_PAGES * SMALL_PAGE_BYTES];
    struct kvr_region region;
    struct kvr_region *regions[1];
    struct kvr_remote_region remotes[1];
    struct kvr_region_layout layouts[1];
    struct kvr_region_set set;
};

/* set.locals for the side itself, set.remotes for the other one. */
void small_side_init(struct small_side *side, uint32_t rail_count);
/* SMALL_CHUNKS chunks; to be freed with the memory that it came from. */
struct kvr_plan *small_plan_make(const struct small_side *source, const struct small_side *target,
                                 struct kvr_buddy *memory);
/* The same with other limits. */
struct kvr_plan *small_plan_within(const struct small_side *source, const struct small_side *target,
                                   const struct kvr_plan_limits *limits, struct kvr_buddy *memory);
/* Where chunk 0 … SMALL_CHUNKS - 1 of the plan lies on that side. */
uint8_t *small_chunk(struct small_side *side, const struct kvr_plan *plan, uint32_t chunk,
                     bool source);

#endif
