/* A region that an engine brings: its descriptors are checked, and given to the handler. */
#include <unistd.h>

#include "agent/engine/engine_link.h"

static void region_refused(struct engine_link *engine, const struct kvr_req_region *region,
                           const struct kvr_error *error)
{
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_REGION_GONE, .handle = region->layout.region, .status = error->status};

    memcpy(notice.detail, error->detail, sizeof(notice.detail));
    engine_link_notify(engine, &notice);
}

void kvr_region_memory_close(struct kvr_region_memory *memory)
{
    if (memory->fd >= 0)
        close(memory->fd);
    if (memory->dmabuf >= 0)
        close(memory->dmabuf);
    kvr_extents_release(memory->extents);
    *memory = (struct kvr_region_memory){.fd = -1, .dmabuf = -1};
}

void engine_link_region(struct engine_link *engine, const struct kvr_req_region *region,
                        struct kvr_packet_fds *fds)
{
    const struct kvr_engine_handler *handler = &engine->port->handler;
    struct kvr_region_memory memory = {.fd = -1, .dmabuf = -1};
    bool own = region->memory_of == 0;
    bool one = own && region->memory != KVR_MEMORY_CUDA_IPC && region->extent_count == 0;
    bool dmabuf = own && region->dmabuf;
    uint32_t wanted = (uint32_t)one + (uint32_t)dmabuf;
    struct kvr_error error;

    if (fds->count != wanted) {
        kvr_error_set(&error, KVR_INVALID, "engine_port",
                      "region '%s' came with %u descriptors, but needs %u", region->name,
                      fds->count, wanted);
        region_refused(engine, region, &error);
        return;
    }
    if (one && kvr_engine_region_check(region, fds->fds[0], &error) != KVR_OK) {
        region_refused(engine, region, &error);
        return;
    }
    if (region->extent_count > 0 && own &&
        engine_extents_finish(&engine->extents, region, &memory.extents, &error) != KVR_OK) {
        region_refused(engine, region, &error);
        return;
    }
    if (dmabuf)
        memory.dmabuf = fds->fds[--fds->count];
    if (one)
        memory.fd = fds->fds[--fds->count];
    handler->region(handler->self, kvr_clock_now(), engine->index, region, &memory);
}
