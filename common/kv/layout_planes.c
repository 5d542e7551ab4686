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
    if (planes->layer_end < layout->layer_first + layout->layer_count)
        planes->layer_end = layout->layer_first + layout->layer_count;
    planes->region_count++;
    return KVR_OK;
}

static kvr_status add_page_tokens(const struct kvr_region_layout *layout, const char *side,
                                  struct kvr_layout_planes *planes, struct kvr_error *error)
{
    uint32_t page_tokens = kvr_page_tokens(layout);

    if (planes->page_tokens != 0 && planes->page_tokens != page_tokens)
        return kvr_error_set(error, KVR_INVALID, "layout",
                             "region %" PRIu32 " of the %s has page_tokens %" PRIu32
                             ", others of group %" PRIu32 " have %" PRIu32,
                             layout->region, side, layout->page_tokens, layout->group,
                             planes->page_tokens < KVR_PAGE_ENDLESS ? planes->page_tokens : 0);
    planes->page_tokens = page_tokens;
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
        if (layouts[i].group != group)
            continue;
        KVR_TRY(kvr_layout_check(&layouts[i], error));
        KVR_TRY(add_page_tokens(&layouts[i], side, planes, error));
        KVR_TRY(add_region(layouts, i, side, planes, error));
    }
    return KVR_OK;
}

const struct kvr_region_layout *kvr_layout_plane(const struct kvr_region_layout *layouts,
                                                 const struct kvr_layout_planes *planes,
                                                 uint32_t layer, uint32_t part)
{
    uint16_t region = planes->regions[layer][part];

    return region > 0 ? &layouts[region - 1] : NULL;
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

/* Tokens and heads may lie in any order and with gaps. Both sides must agree on a head's bytes, and
 * for an opaque state also on the tokens of a page. */
static kvr_status match_pages(const struct pair *pair, struct kvr_error *error)
{
    const struct kvr_region_layout *source = pair->source, *target = pair->target;

    if (source->head_bytes != target->head_bytes)
        return incompatible(pair, "head_bytes", source->head_bytes, target->head_bytes, error);
    if (pair->part == KVR_PART_STATE && source->page_tokens != target->page_tokens)
        return incompatible(pair, "page_tokens", source->page_tokens, target->page_tokens, error);
    return KVR_OK;
}

/* The next (layer, part) of the target, from *pair on; false after the last. */
static bool next_target(const struct kvr_region_layout *sources,
                        const struct kvr_layout_planes *source_planes,
                        const struct kvr_region_layout *targets,
                        const struct kvr_layout_planes *target_planes, struct pair *pair)
{
    for (; pair->layer < target_planes->layer_end; pair->layer++, pair->part = KVR_PART_K) {
        for (; pair->part <= KVR_PART_STATE; pair->part++) {
            pair->source = kvr_layout_plane(sources, source_planes, pair->layer, pair->part);
            pair->target = kvr_layout_plane(targets, target_planes, pair->layer, pair->part);
            if (pair->target != NULL)
                return true;
        }
    }
    return false;
}

kvr_status kvr_layout_planes_match(const struct kvr_region_layout *sources,
                                   const struct kvr_layout_planes *source_planes,
                                   const struct kvr_region_layout *targets,
                                   const struct kvr_layout_planes *target_planes, uint32_t group,
                                   struct kvr_error *error)
{
    struct pair pair = {.part = KVR_PART_K};

    if (source_planes->region_count == 0 || target_planes->region_count == 0)
        return kvr_error_set(error, KVR_INCOMPATIBLE, "layout",
                             "regions of group %" PRIu32 ": the source has %" PRIu32
                             ", the target has %" PRIu32,
                             group, source_planes->region_count, target_planes->region_count);
    for (; next_target(sources, source_planes, targets, target_planes, &pair); pair.part++) {
        KVR_TRY(pair.source != NULL ? match_pages(&pair, error) : KVR_OK);
    }
    return KVR_OK;
}

kvr_status kvr_layout_match(const struct kvr_region_layout *sources, uint32_t source_count,
                            const struct kvr_region_layout *targets, uint32_t target_count,
                            uint32_t group, struct kvr_error *error)
{
    struct kvr_layout_planes source_planes, target_planes;

    KVR_TRY(kvr_layout_planes_make(sources, source_count, group, "source", &source_planes, error));
    KVR_TRY(kvr_layout_planes_make(targets, target_count, group, "target", &target_planes, error));
    return kvr_layout_planes_match(sources, &source_planes, targets, &target_planes, group, error);
}

/* ---- several sources ------------------------------------------------------------------------ */

static bool has_plane(const struct kvr_region_layout *layout, uint32_t group, uint32_t layer,
                      uint32_t part)
{
    if (layout->group != group || layer < layout->layer_first ||
        layer - layout->layer_first >= layout->layer_count)
        return false;
    for (uint32_t i = 0; i < layout->part_count; i++) {
        if (layout->parts[i] == part)
            return true;
    }
    return false;
}

/* The end of the heads from `head` on that one source has without a gap; `head` when the source
 * does not have that head. */
static uint64_t heads_end(const struct kvr_layout_list *source, uint32_t group, uint32_t layer,
                          uint32_t part, uint64_t head)
{
    for (uint32_t i = 0; i < source->count; i++) {
        const struct kvr_region_layout *layout = &source->layouts[i];
        uint64_t end = (uint64_t)layout->head_first + layout->head_count;

        if (has_plane(layout, group, layer, part) && head >= layout->head_first && head < end)
            return end;
    }
    return head;
}

static kvr_status cover_plane(const struct kvr_layout_list *sources, uint32_t source_count,
                              const struct kvr_region_layout *target, uint32_t layer, uint32_t part,
                              struct kvr_error *error)
{
    uint64_t head = target->head_first, end = head + target->head_count;

    while (head < end) {
        uint64_t next = head;

        for (uint32_t i = 0; i < source_count && next == head; i++)
            next = heads_end(&sources[i], target->group, layer, part, head);
        if (next == head)
            return kvr_error_set(error, KVR_INCOMPATIBLE, "layout",
                                 "layer %" PRIu32 " %s of group %" PRIu32 ", head %" PRIu64
                                 ": no source has it, the target has it in region %" PRIu32,
                                 layer, kvr_part_name(part), target->group, head, target->region);
        head = next;
    }
    return KVR_OK;
}

kvr_status kvr_layout_covers(const struct kvr_layout_list *sources, uint32_t source_count,
                             const struct kvr_layout_list *target, uint32_t group,
                             struct kvr_error *error)
{
    for (uint32_t i = 0; i < target->count; i++) {
        const struct kvr_region_layout *layout = &target->layouts[i];

        if (layout->group != group)
            continue;
        for (uint32_t plane = 0; plane < layout->layer_count * layout->part_count; plane++) {
            KVR_TRY(cover_plane(sources, source_count, layout,
                                layout->layer_first + plane / layout->part_count,
                                layout->parts[plane % layout->part_count], error));
        }
    }
    return KVR_OK;
}
