#include "kv/layout_planes.h"

#include <inttypes.h>

#include "kv/layout.h"

const char *kvr_part_name(uint32_t part)
{
    static const char *const names[] = {"?", "K", "V", "KV", "MLA", "STATE"};

    return names[part <= KVR_PART_STATE ? part : 0];
}

static kvr_status add_region(const struct kvr_region_layout *layouts, uint32_t index,
                             const char *side, struct kvr_layout_planes *planes,
                             struct kvr_error *error)
{
    const struct kvr_region_layout *layout = &layouts[index];

    for (uint32_t i = 0; i < layout->layer_count; i++) {
        uint32_t layer = layout->layer_first + i;

        for (uint32_t part_index = 0; part_index < layout->part_count; part_index++) {
            uint8_t part = layout->parts[part_index];
            uint16_t *region = &planes->regions[layer][part];

            if (*region != 0)
                return kvr_error_set(error, KVR_INVALID, "layout",
                                     "layer %" PRIu32 " %s of the %s is in region %" PRIu32
                                     " and in region %" PRIu32,
                                     layer, kvr_part_name(part), side, layouts[*region - 1].region,
                                     layout->region);
            *region = (uint16_t)(index + 1);
            planes->part_indexes[layer][part] = (uint8_t)part_index;
        }
    }
    planes->region_count++;
    return KVR_OK;
}

kvr_status kvr_layout_planes_make(const struct kvr_region_layout *layouts, uint32_t layout_count,
                                  uint32_t group, const char *side,
                                  struct kvr_layout_planes *planes, struct kvr_error *error)
{
    memset(planes, 0, sizeof(*planes));
    if (layout_count > KVR_REGIONS_MAX)
        return kvr_error_set(error, KVR_INVALID, "layout",
                             "the %s has %" PRIu32 " regions, allowed are %d", side, layout_count,
                             KVR_REGIONS_MAX);
    for (uint32_t i = 0; i < layout_count; i++) {
        kvr_status status;

        if (layouts[i].group != group)
            continue;
        status = kvr_layout_check(&layouts[i], error);
        if (status == KVR_OK)
            status = add_region(layouts, i, side, planes, error);
        if (status != KVR_OK)
            return status;
    }
    return KVR_OK;
}

/* One (layer, part) that both sides have. */
struct pair {
    const struct kvr_region_layout *source, *target;
    uint32_t layer, part;
};

static kvr_status incompatible(const struct pair *pair, const char *field, uint64_t source,
                               uint64_t target, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INCOMPATIBLE, "layout",
                         "%s: the source has %" PRIu64 ", the target has %" PRIu64
                         " (layer %" PRIu32 " %s)",
                         field, source, target, pair->layer, kvr_part_name(pair->part));
}

/* Pages move whole, as one run of bytes: everything inside a page must be the same on both sides.
 */
static kvr_status match_pages(const struct pair *pair, struct kvr_error *error)
{
    const struct kvr_region_layout *source = pair->source, *target = pair->target;
    bool tokens = target->page_tokens > 1, heads = target->head_count > 1;

    if (source->page_tokens != target->page_tokens)
        return incompatible(pair, "page_tokens", source->page_tokens, target->page_tokens, error);
    if (source->head_count != target->head_count)
        return incompatible(pair, "head_count", source->head_count, target->head_count, error);
    if (source->head_first != target->head_first)
        return incompatible(pair, "head_first", source->head_first, target->head_first, error);
    if (source->head_bytes != target->head_bytes)
        return incompatible(pair, "head_bytes", source->head_bytes, target->head_bytes, error);
    if (tokens && source->token_stride != target->token_stride)
        return incompatible(pair, "token_stride", source->token_stride, target->token_stride,
                            error);
    if (heads && source->head_stride != target->head_stride)
        return incompatible(pair, "head_stride", source->head_stride, target->head_stride, error);
    if (!kvr_layout_page_contiguous(target))
        return kvr_error_set(error, KVR_INCOMPATIBLE, "layout",
                             "page_bytes: a page of %" PRIu64 " B has gaps on both sides"
                             " (token_stride %" PRIu64 ", head_stride %" PRIu64 "; layer %" PRIu32
                             " %s)",
                             kvr_layout_page_bytes(target), target->token_stride,
                             target->head_stride, pair->layer, kvr_part_name(pair->part));
    return KVR_OK;
}

kvr_status kvr_layout_planes_match(const struct kvr_region_layout *sources,
                                   const struct kvr_layout_planes *source_planes,
                                   const struct kvr_region_layout *targets,
                                   const struct kvr_layout_planes *target_planes, uint32_t group,
                                   struct kvr_error *error)
{
    if (source_planes->region_count == 0 || target_planes->region_count == 0)
        return kvr_error_set(error, KVR_INCOMPATIBLE, "layout",
                             "regions of group %" PRIu32 ": the source has %" PRIu32
                             ", the target has %" PRIu32,
                             group, source_planes->region_count, target_planes->region_count);
    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        for (uint32_t part = KVR_PART_K; part <= KVR_PART_STATE; part++) {
            uint16_t source = source_planes->regions[layer][part];
            uint16_t target = target_planes->regions[layer][part];
            struct pair pair = {.layer = layer, .part = part};
            kvr_status status;

            if (target == 0)
                continue;
            if (source == 0)
                return kvr_error_set(error, KVR_INCOMPATIBLE, "layout",
                                     "layer %" PRIu32 " %s of group %" PRIu32
                                     ": the source has none, the target has it in region %" PRIu32,
                                     layer, kvr_part_name(part), group, targets[target - 1].region);
            pair.source = &sources[source - 1];
            pair.target = &targets[target - 1];
            status = match_pages(&pair, error);
            if (status != KVR_OK)
                return status;
        }
    }
    return KVR_OK;
}

kvr_status kvr_layout_match(const struct kvr_region_layout *sources, uint32_t source_count,
                            const struct kvr_region_layout *targets, uint32_t target_count,
                            uint32_t group, struct kvr_error *error)
{
    struct kvr_layout_planes source_planes, target_planes;
    kvr_status status =
        kvr_layout_planes_make(sources, source_count, group, "source", &source_planes, error);

    if (status == KVR_OK)
        status =
            kvr_layout_planes_make(targets, target_count, group, "target", &target_planes, error);
    if (status != KVR_OK)
        return status;
    return kvr_layout_planes_match(sources, &source_planes, targets, &target_planes, group, error);
}
