#include "fabric/region.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memfd.h"

static bool any_pins_writable(const struct kvr_fabric *fabric, struct kvr_rail *const *rails,
                              uint32_t rail_count)
{
    for (uint32_t i = 0; i < rail_count; i++) {
        if (rails[i] != NULL && fabric->ops->rail_facts(rails[i])->pins_writable)
            return true;
    }
    return false;
}

static kvr_path path_of(const struct kvr_fabric *fabric, const struct kvr_rail *rail)
{
    return fabric->ops->rail_facts(rail)->target_copies ? KVR_PATH_LOCAL : KVR_PATH_HOST;
}

/* On a rail with grant_keys the memory is registered to be found there, and opens nothing.
 */
static void access_set(const struct kvr_fabric *fabric, const struct kvr_rail *rail, bool local,
                       kvr_remote_access remote, struct kvr_memory_span *span)
{
    bool granted = remote == KVR_REMOTE_GRANTED && fabric->ops->rail_facts(rail)->grant_keys;

    span->remote = remote != KVR_REMOTE_NONE && !granted;
    span->local = local || granted;
}

static kvr_status open_span(const struct kvr_fabric *fabric, struct kvr_rail *const *rails,
                            uint32_t rail_count, const struct kvr_region_layout *layout,
                            const struct kvr_memory_span *wanted, kvr_remote_access remote,
                            struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_memory_span span = *wanted;
    struct kvr_region *region;

    if (rail_count > KVR_RAILS_MAX)
        return kvr_error_set(error, KVR_INVALID, "region", "%u rails; at most %d are possible",
                             rail_count, KVR_RAILS_MAX);
    region = calloc(1, sizeof(*region));
    if (region == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "region", "no memory for a region");
    region->layout = *layout;
    region->base = span.base;
    region->remote = remote;
    for (uint32_t i = 0; i < rail_count; i++) {
        kvr_status status;

        region->rail_count = i + 1;
        if (rails[i] == NULL)
            continue;
        access_set(fabric, rails[i], wanted->local, remote, &span);
        status = fabric->ops->memory_register(rails[i], &span, &region->memory[i], error);
        if (status != KVR_OK && region->path != KVR_PATH_NONE &&
            fabric->ops->rail_facts(rails[i])->same_host_only)
            continue; /* one way less, where there are others */
        if (region->path == KVR_PATH_NONE)
            region->path = path_of(fabric, rails[i]);
        if (status != KVR_OK) {
            kvr_region_release(fabric, region);
            return status;
        }
        region->keys[i] = fabric->ops->memory_key(region->memory[i]);
    }
    *ret_region = region;
    return KVR_OK;
}

kvr_status kvr_region_open_mapped(const struct kvr_fabric *fabric, struct kvr_rail *const *rails,
                                  uint32_t rail_count, const struct kvr_region_layout *layout,
                                  void *base, bool local, kvr_remote_access remote,
                                  struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_memory_span span = {.base = base, .bytes = layout->bytes, .local = local, .fd = -1};

    return open_span(fabric, rails, rail_count, layout, &span, remote, ret_region, error);
}

kvr_status kvr_region_open_memfd(const struct kvr_fabric *fabric, struct kvr_rail *const *rails,
                                 uint32_t rail_count, const struct kvr_region_layout *layout,
                                 int fd, uint64_t fd_offset, bool local, kvr_remote_access remote,
                                 struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_memory_span span = {
        .bytes = layout->bytes, .local = local, .fd = fd, .fd_offset = fd_offset};
    /* What nothing is written to is mapped so that nothing can be, where the rails allow it. */
    bool writable = remote != KVR_REMOTE_NONE || any_pins_writable(fabric, rails, rail_count);
    kvr_status status = kvr_memfd_map(fd, fd_offset, layout->bytes, writable, &span.base, error);

    if (status == KVR_OK) {
        kvr_memfd_touch(span.base, span.bytes); /* not later, on the thread that drives the rails */
        status = open_span(fabric, rails, rail_count, layout, &span, remote, ret_region, error);
        if (status == KVR_OK)
            (*ret_region)->mapped_bytes = layout->bytes;
        else
            kvr_memfd_unmap(span.base, layout->bytes);
    }
    close(fd); /* the mapping keeps the memory */
    return status;
}

kvr_status kvr_region_open_staged(const struct kvr_region *pinned,
                                  const struct kvr_region_layout *layout, struct kvr_stage *stage,
                                  struct kvr_device_memory *pages, struct kvr_region **ret_region,
                                  struct kvr_error *error)
{
    struct kvr_region *region = malloc(sizeof(*region));

    if (region == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "region", "no memory for a region");
    *region = *pinned;
    region->layout = *layout;
    region->mapped_bytes = 0;
    region->path = KVR_PATH_STAGED;
    region->stage = stage;
    region->pages = pages;
    *ret_region = region;
    return KVR_OK;
}

kvr_status kvr_region_register(const struct kvr_fabric *fabric, const struct kvr_region *region,
                               struct kvr_rail *const *rails, bool local, kvr_remote_access remote,
                               struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct kvr_memory_span span = {.base = region->base, .bytes = region->layout.bytes, .fd = -1};
    kvr_status status = KVR_OK;

    memset(ret_memory, 0, KVR_RAILS_MAX * sizeof(struct kvr_memory *));
    if (kvr_region_is_staged(region) || kvr_path_direct(region->path))
        return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                             "its pages are on a GPU, which one rail group alone serves");
    for (uint32_t i = 0; i < region->rail_count && status == KVR_OK; i++) {
        if (rails[i] == NULL || region->memory[i] != NULL)
            continue;
        access_set(fabric, rails[i], local, remote, &span);
        status = fabric->ops->memory_register(rails[i], &span, &ret_memory[i], error);
    }
    for (uint32_t i = 0; i < region->rail_count && status != KVR_OK; i++) {
        if (ret_memory[i] != NULL)
            fabric->ops->memory_release(ret_memory[i]);
        ret_memory[i] = NULL;
    }
    return status;
}

bool kvr_region_adopt(const struct kvr_fabric *fabric, struct kvr_region *region,
                      struct kvr_memory *const *memory)
{
    bool any = false;

    for (uint32_t i = 0; i < region->rail_count; i++) {
        if (memory[i] == NULL)
            continue;
        region->memory[i] = memory[i];
        region->keys[i] = fabric->ops->memory_key(memory[i]);
        any = true;
    }
    return any;
}

void kvr_region_release(const struct kvr_fabric *fabric, struct kvr_region *region)
{
    if (region == NULL)
        return;
    kvr_region_release(fabric, region->moved);
    for (uint32_t i = 0; i < region->rail_count && !kvr_region_is_staged(region); i++)
        if (region->memory[i] != NULL)
            fabric->ops->memory_release(region->memory[i]);
    if (region->mapped_bytes > 0)
        kvr_memfd_unmap(region->base, region->mapped_bytes);
    free(region);
}
