#include "tests/support/small_plan.h"

#include "tests/support/check.h"

void small_side_init(struct small_side *side, uint32_t rail_count)
{
    memset(side, 0, sizeof(*side));
    side->layouts[0] = (struct kvr_region_layout){
        .region = 1,
        .layer_count = SMALL_LAYERS,
        .part_count = 1,
        .parts = {KVR_PART_KV},
        .head_count = 1,
        .page_tokens = 1,
        .page_count = SMALL_PAGES,
        .bytes = sizeof(side->memory),
        .layer_stride = (uint64_t)SMALL_PAGES * SMALL_PAGE_BYTES,
        .page_stride = SMALL_PAGE_BYTES,
        .token_stride = SMALL_PAGE_BYTES,
        .head_stride = SMALL_PAGE_BYTES,
        .head_bytes = SMALL_PAGE_BYTES,
    };
    side->region.layout = side->layouts[0];
    side->region.base = side->memory;
    side->region.rail_count = rail_count;
    side->regions[0] = &side->region;
    side->remotes[0].layout = side->layouts[0];
    side->remotes[0].rail_count = rail_count;
    side->set = (struct kvr_region_set){.references = 1,
                                        .count = 1,
                                        .layouts = side->layouts,
                                        .locals = side->regions,
                                        .remotes = side->remotes};
}

struct kvr_plan *small_plan_within(const struct small_side *source, const struct small_side *target,
                                   const struct kvr_plan_limits *limits, struct kvr_buddy *memory)
{
    static const uint32_t source_pages[SMALL_PLANNED] = {0, 2, 4, 6};
    static const uint32_t target_pages[SMALL_PLANNED] = {1, 3, 5, 7};
    struct kvr_plan_input input = {
        .source_layouts = source->layouts,
        .source_layout_count = 1,
        .target_layouts = target->layouts,
        .target_layout_count = 1,
        .source_pages = source_pages,
        .target_pages = target_pages,
        .source_page_count = SMALL_PLANNED,
        .target_page_count = SMALL_PLANNED,
        .token_end = SMALL_PLANNED,
        .limits = *limits,
    };
    struct kvr_plan *plan = NULL;
    struct kvr_error error;

    if (kvr_plan_make(&input, memory, &plan, &error) != KVR_OK)
        fail_msg("no plan: %s", error.detail);
    return plan;
}

struct kvr_plan *small_plan_make(const struct small_side *source, const struct small_side *target,
                                 struct kvr_buddy *memory)
{
    const struct kvr_plan_limits limits = {1, 1, SMALL_PAGE_BYTES};
    struct kvr_plan *plan = small_plan_within(source, target, &limits, memory);

    assert_int_equal(plan->chunk_count, SMALL_CHUNKS);
    return plan;
}

uint8_t *small_chunk(struct small_side *side, const struct kvr_plan *plan, uint32_t chunk,
                     bool source)
{
    struct kvr_plan_chunk planned;

    kvr_plan_chunk(plan, chunk, &planned);
    return side->memory +
           (source ? planned.pieces[0].source_offset : planned.pieces[0].target_offset);
}
