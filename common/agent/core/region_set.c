#include "agent/core/region_set.h"

struct kvr_region_set *kvr_region_set_new(struct kvr_buddy *memory, uint32_t count, bool local)
{
    struct kvr_region_set *set = kvr_buddy_alloc(memory, sizeof(*set));

    if (set == NULL)
        return NULL;
    memset(set, 0, sizeof(*set));
    set->references = 1;
    set->count = count;
    if (count == 0)
        return set;
    set->layouts = kvr_buddy_alloc(memory, count * sizeof(*set->layouts));
    if (local)
        set->locals = kvr_buddy_alloc(memory, count * sizeof(struct kvr_region *));
    else
        set->remotes = kvr_buddy_alloc(memory, count * sizeof(*set->remotes));
    if (set->layouts == NULL || (set->locals == NULL && set->remotes == NULL)) {
        kvr_region_set_release(set, memory);
        return NULL;
    }
    return set;
}

bool kvr_region_set_release(struct kvr_region_set *set, struct kvr_buddy *memory)
{
    if (--set->references > 0)
        return false;
    kvr_buddy_free(memory, set->layouts);
    kvr_buddy_free(memory, set->locals);
    kvr_buddy_free(memory, set->remotes);
    kvr_buddy_free(memory, set);
    return true;
}

bool kvr_region_set_group(const struct kvr_region_set *set, uint32_t group,
                          uint32_t *ret_page_tokens, uint32_t *ret_page_limit)
{
    uint32_t page_limit = UINT32_MAX, page_tokens = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct kvr_region_layout *layout = &set->layouts[i];

        if (layout->group != group)
            continue;
        page_tokens = kvr_page_tokens(layout);
        if (layout->page_count < page_limit)
            page_limit = layout->page_count;
    }
    if (page_tokens == 0)
        return false;
    *ret_page_tokens = page_tokens;
    *ret_page_limit = page_limit;
    return true;
}

static bool lies_on(const struct kvr_region *region, uint64_t rails)
{
    for (uint32_t rail = 0; rail < region->rail_count; rail++)
        if ((rails >> rail & 1) != 0 && region->memory[rail] != NULL)
            return true;
    return false;
}

bool kvr_region_set_lies_on(const struct kvr_region_set *set, uint64_t rails)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (!lies_on(set->locals[i], rails))
            return false;
    return set->count > 0;
}

bool kvr_region_set_direct_copy_on(const struct kvr_region_set *set, uint64_t rails)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->locals[i]->moved == NULL || !lies_on(set->locals[i]->moved, rails))
            return false;
    return set->count > 0;
}

struct kvr_stage *kvr_region_set_stage(const struct kvr_region_set *set)
{
    struct kvr_stage *stage = set->count > 0 ? set->locals[0]->stage : NULL;

    for (uint32_t i = 0; i < set->count; i++)
        if (set->locals[i]->stage != stage)
            return NULL;
    return stage;
}

bool kvr_region_set_can_stage(const struct kvr_region_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct kvr_region *region = set->locals[i];

        if (kvr_region_is_staged(region) || kvr_path_direct(region->path) ||
            (region->device != NULL && region->stage == NULL))
            return false;
    }
    return true;
}

struct kvr_device *kvr_region_set_flushed(const struct kvr_region_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        struct kvr_device *device = set->locals[i]->device;

        if (device != NULL && device->order == KVR_ORDER_FLUSHED)
            return device;
    }
    return NULL;
}

bool kvr_region_set_is_staged(const struct kvr_region_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (kvr_region_is_staged(set->locals[i]))
            return true;
    return false;
}

kvr_path kvr_region_set_path(const struct kvr_region_set *set, uint32_t groups)
{
    kvr_path path = KVR_PATH_NONE;

    for (uint32_t i = 0; i < set->count; i++)
        if ((groups >> set->layouts[i].group & 1) != 0 && set->locals[i]->path > path)
            path = set->locals[i]->path;
    return path;
}

void kvr_region_set_layers(const struct kvr_region_set *set, uint32_t *ret_first,
                           uint32_t *ret_count)
{
    uint32_t first = UINT32_MAX, end = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct kvr_region_layout *layout = &set->layouts[i];
        uint32_t layout_end = layout->layer_first + layout->layer_count;

        first = kvr_min_u32(first, layout->layer_first);
        end = layout_end > end ? layout_end : end;
    }
    *ret_first = end > first ? first : 0;
    *ret_count = end > first ? end - first : 0;
}

kvr_status kvr_region_set_hashed(const struct kvr_region_set *set, kvr_digest_mode digest,
                                 struct kvr_error *error)
{
    for (uint32_t i = 0; digest != KVR_DIGEST_OFF && i < set->count; i++)
        if (kvr_path_direct(set->locals[i]->path))
            return kvr_error_set(error, KVR_UNSUPPORTED, "digest",
                                 "a digest was asked for, and pages on a GPU that cards reach by "
                                 "themselves (%s) cannot be hashed: start the agent with --digest, "
                                 "which stages them",
                                 kvr_path_name(set->locals[i]->path));
    return KVR_OK;
}

/* K and V may have regions of their own, with the same layers. */
static void group_of(const struct kvr_region_set *set, uint32_t group,
                     struct kvr_geometry_group *ret_group)
{
    bool has[KVR_LAYERS_MAX] = {false};
    uint64_t bytes = 0;

    *ret_group = (struct kvr_geometry_group){.group = group};
    for (uint32_t i = 0; i < set->count; i++) {
        const struct kvr_region_layout *layout = &set->layouts[i];

        if (layout->group != group)
            continue;
        ret_group->page_tokens = layout->page_tokens;
        bytes += layout->layer_count * layout->part_count * kvr_page_bytes(layout);
        for (uint32_t k = layout->layer_first; k < layout->layer_first + layout->layer_count; k++) {
            ret_group->layers += !has[k];
            has[k] = true;
        }
    }
    ret_group->page_bytes = ret_group->layers > 0 ? bytes / ret_group->layers : 0;
}

void kvr_region_set_geometry(const struct kvr_region_set *set, const struct kvr_compat *compat,
                             char text[KVR_GEOMETRY_BYTES])
{
    struct kvr_geometry geometry = {.layers = compat->layers_total};

    _Static_assert(sizeof(geometry.dtype) == sizeof(compat->dtype), "it gets all of it");
    memcpy(geometry.dtype, compat->dtype, sizeof(geometry.dtype));
    for (uint32_t group = 0; set != NULL && group < KVR_GROUPS_MAX; group++) {
        struct kvr_geometry_group *next = &geometry.groups[geometry.group_count];

        group_of(set, group, next);
        geometry.group_count += next->layers > 0;
    }
    kvr_geometry_write(&geometry, text);
}
