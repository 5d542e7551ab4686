#include "agent/engine/engine_extents.h"

#include <unistd.h>

#include "base/need.h"

#define WHERE "engine_port"

void engine_extents_drop(struct engine_extents *extents)
{
    kvr_extents_release(extents->list);
    *extents = (struct engine_extents){.region = 0};
}

static void fail(struct engine_extents *extents)
{
    kvr_extents_release(extents->list);
    extents->list = NULL;
}

/* Each is a descriptor of ours, at least until the memory is imported. */
static void begin(struct engine_extents *extents, const struct kvr_req_extents *request)
{
    struct kvr_error limit;

    engine_extents_drop(extents);
    extents->region = request->region;
    if (request->total == 0)
        return;
    if (request->total > KVR_EXTENTS_MAX) {
        (void)kvr_error_set(
            &extents->error, KVR_TOO_LARGE, WHERE,
            "the region lies over %u allocations, and %d are the most: " KVR_EXTENTS_ADVICE,
            request->total, KVR_EXTENTS_MAX);
    } else if (kvr_need_more_files(request->total, &limit) != KVR_OK) {
        (void)kvr_error_set(&extents->error, KVR_FULL, WHERE,
                            "the region lies over %u allocations, a descriptor each, and in the "
                            "agent %s; or " KVR_EXTENTS_ADVICE,
                            request->total, limit.detail);
    } else {
        extents->list = kvr_extents_new(request->total);
        if (extents->list == NULL)
            (void)kvr_error_set(&extents->error, KVR_NO_MEMORY, WHERE, "no memory for a region");
    }
}

void engine_extents_take(struct engine_extents *extents, const struct kvr_req_extents *request,
                         struct kvr_packet_fds *fds)
{
    struct kvr_extents *list;

    if (request->first == 0)
        begin(extents, request);
    list = extents->list;
    if (list == NULL)
        return;
    if (request->region != extents->region || request->total != list->capacity ||
        request->first != list->count || request->count != fds->count ||
        request->count > list->capacity - list->count) {
        (void)kvr_error_set(&extents->error, KVR_INVALID, WHERE,
                            "allocations %u to %u of %u of region %u came with %u descriptors "
                            "behind %u of %u of region %u",
                            request->first, request->first + request->count, request->total,
                            request->region, fds->count, list->count, list->capacity,
                            extents->region);
        fail(extents);
        return;
    }
    for (uint32_t i = 0; i < fds->count; i++)
        kvr_extents_add(list, fds->fds[i], request->bytes[i]);
    fds->count = 0;
}

/* They are checked against the system's pages here; a device has larger ones, and knows. */
static kvr_status check(const struct kvr_extents *list, const struct kvr_req_region *region,
                        struct kvr_error *error)
{
    uint64_t whole;

    if (region->memory != KVR_MEMORY_CUDA_VMM)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "region '%s' is no VMM memory: such alone lies over several "
                             "allocations",
                             region->name);
    return kvr_extents_check(list, region->fd_offset, region->layout.bytes,
                             (uint64_t)sysconf(_SC_PAGESIZE), WHERE, &whole, error);
}

kvr_status engine_extents_finish(struct engine_extents *extents,
                                 const struct kvr_req_region *region, struct kvr_extents **ret_list,
                                 struct kvr_error *error)
{
    struct kvr_extents *list = extents->list;
    kvr_status status;

    if (extents->error.status != KVR_OK && extents->region == region->layout.region) {
        *error = extents->error;
        status = error->status;
    } else if (list == NULL || extents->region != region->layout.region ||
               list->count != region->extent_count || list->count != list->capacity) {
        status = kvr_error_set(
            error, KVR_INVALID, WHERE,
            "region '%s' lies over %u allocations, and descriptors of %u came", region->name,
            region->extent_count,
            list != NULL && extents->region == region->layout.region ? list->count : 0);
    } else {
        status = check(list, region, error);
    }
    if (status == KVR_OK)
        *ret_list = kvr_extents_keep(list);
    engine_extents_drop(extents);
    return status;
}
