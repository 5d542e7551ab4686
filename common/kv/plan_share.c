#include "kv/plan_share.h"

kvr_status kvr_plan_sides_index(const struct kvr_plan_input *input, struct kvr_plan_sides *sides,
                                struct kvr_error *error)
{
    kvr_status status = kvr_layout_planes_make(input->source_layouts, input->source_layout_count,
                                               input->group, "source", &sides->sources, error);

    if (status == KVR_OK)
        status = kvr_layout_planes_make(input->target_layouts, input->target_layout_count,
                                        input->group, "target", &sides->targets, error);
    if (status == KVR_OK)
        status =
            kvr_layout_planes_match(input->source_layouts, &sides->sources, input->target_layouts,
                                    &sides->targets, input->group, error);
    sides->input = input;
    return status;
}

/* Cuts [*first, *end) down to [other_first, other_first + other_count). */
static void intersect(uint64_t *first, uint64_t *end, uint64_t other_first, uint64_t other_count)
{
    if (*first < other_first)
        *first = other_first;
    if (*end > other_first + other_count)
        *end = other_first + other_count;
}

/* True when share->layer and share->part hold bytes that move; then sets the rest of *share. */
static bool find_share(const struct kvr_plan_sides *sides, struct kvr_plan_share *share)
{
    const struct kvr_plan_scope *scope = &sides->input->scope;
    uint64_t first = 0, end = UINT64_MAX;

    share->source =
        kvr_layout_plane(sides->input->source_layouts, &sides->sources, share->layer, share->part);
    share->target =
        kvr_layout_plane(sides->input->target_layouts, &sides->targets, share->layer, share->part);
    if (share->source == NULL || share->target == NULL)
        return false;
    if (scope->layer_count > 0 && (share->layer < scope->layer_first ||
                                   share->layer - scope->layer_first >= scope->layer_count))
        return false;
    intersect(&first, &end, share->source->head_first, share->source->head_count);
    intersect(&first, &end, share->target->head_first, share->target->head_count);
    if (scope->head_count > 0)
        intersect(&first, &end, scope->head_first, scope->head_count);
    if (first >= end)
        return false;
    share->head_first = (uint32_t)first;
    share->head_count = (uint32_t)(end - first);
    return true;
}

bool kvr_plan_share_next(const struct kvr_plan_sides *sides, struct kvr_plan_share *share)
{
    for (; share->layer < sides->targets.layer_end; share->layer++, share->part = KVR_PART_K) {
        for (; share->part <= KVR_PART_STATE; share->part++) {
            if (find_share(sides, share))
                return true;
        }
    }
    return false;
}
