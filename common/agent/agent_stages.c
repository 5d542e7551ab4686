/* Device memory of engines: imported, and staged, since no card is told of it yet. A device of a
 * rail group has one stage, opened with its first region; helper threads come here. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "device/device_cuda.h"
#include "device/device_emulated.h"
#include "device/stage.h"

struct agent_stage {
    struct agent_stage *next;
    uint32_t group;
    struct kvr_stage stage;
};

#define EMULATED_COPY_NS      (20 * KVR_US) /* about what a launch takes */
#define EMULATED_BYTES_PER_US 20000

static kvr_status device_open(const struct kvr_agent *agent, int32_t ordinal,
                              struct kvr_device **ret_device, struct kvr_error *error)
{
    const char *kind = agent->config->device;
    struct kvr_device_emulated_options emulated = {.seed = (uint64_t)ordinal,
                                                   .latency_ns = EMULATED_COPY_NS,
                                                   .bytes_per_us = EMULATED_BYTES_PER_US,
                                                   .fail_promille =
                                                       (uint32_t)agent->config->device_failures};

    if (strcmp(kind, "emulated") == 0)
        return kvr_device_emulated_open(&emulated, ret_device, error);
    if (strcmp(kind, "cuda") == 0)
        return kvr_device_cuda_open(ordinal, KVR_CUDA_COPIER_AUTO, ret_device, error);
    return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                         "this agent takes no device memory (--device none): register host memory "
                         "(memfd)");
}

/* Near the group's cards, whoever touches it first. Advice: a node without room lends another's. */
static void place(void *base, uint64_t bytes, uint32_t node)
{
    unsigned long mask = 1;

    if (node == KVR_NODE_UNKNOWN || node >= 8 * sizeof(mask))
        return;
    mask <<= node;
    (void)syscall(SYS_mbind, base, bytes, 1 /* MPOL_PREFERRED */, &mask, 8 * sizeof(mask), 0);
}

/* A memfd, so that a provider whose targets copy can map it. */
static kvr_status memory_open(struct kvr_agent *agent, struct agent_stage *entry,
                              struct kvr_error *error)
{
    struct kvr_region_layout layout = {.bytes = agent->config->staging_memory};
    const uint32_t *first = &agent->groups.first[entry->group];
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    bool source = agent->machine.role == KVR_ROLE_SOURCE;
    kvr_status status;
    int fd;

    if (layout.bytes < 2 * agent->limits.chunk_bytes_max)
        return kvr_error_set(error, KVR_INVALID, "region",
                             "--staging-memory %" PRIu64 " is less than two writes of %" PRIu64
                             " bytes: raise it, or lower --chunk-bytes-max",
                             layout.bytes, agent->limits.chunk_bytes_max);
    fd = memfd_create("kvrail-staging", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)layout.bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        status = kvr_error_system(error, "region", errno, "%" PRIu64 " bytes of staging memory",
                                  layout.bytes);
        if (fd >= 0)
            close(fd);
        return status;
    }
    for (uint32_t i = first[0]; i < first[1]; i++)
        rails[i] = agent->rails[i];
    status = kvr_region_open_memfd(&agent->fabric, rails, agent->rail_count, &layout, fd, 0, source,
                                   !source, &entry->stage.pinned, error);
    if (status != KVR_OK)
        return status;
    /* A source's regions are mapped so that nothing can be written to them; this one is ours. */
    if (mprotect(entry->stage.pinned->base, layout.bytes, PROT_READ | PROT_WRITE) != 0)
        return kvr_error_system(error, "region", errno, "to write to staging memory");
    entry->stage.base = entry->stage.pinned->base;
    entry->stage.bytes = layout.bytes;
    place(entry->stage.base, layout.bytes, agent->group[entry->group].node);
    return entry->stage.device->ops->pin(entry->stage.device, entry->stage.base, layout.bytes,
                                         error);
}

static void stage_close(struct kvr_agent *agent, struct agent_stage *entry)
{
    if (entry->stage.base != NULL)
        entry->stage.device->ops->unpin(entry->stage.device, entry->stage.base);
    kvr_device_close(entry->stage.device);
    kvr_region_release(&agent->fabric, entry->stage.pinned);
    free(entry->stage.user);
    free(entry);
}

static uint32_t stage_count(const struct kvr_agent *agent, uint32_t group)
{
    uint32_t count = 0;

    for (const struct agent_stage *at = agent->stages; at != NULL; at = at->next)
        count += at->group == group;
    return count;
}

static kvr_status stage_open(struct kvr_agent *agent, uint32_t group, int32_t ordinal,
                             struct agent_stage **ret_entry, struct kvr_error *error)
{
    struct agent_stage *entry;
    kvr_status status;

    if (stage_count(agent, group) == KVR_STAGES_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "region", "a rail group serves at most %d GPUs",
                             KVR_STAGES_MAX);
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL || (entry->stage.user = calloc(1, agent->machine.stage_bytes)) == NULL) {
        free(entry);
        return kvr_error_set(error, KVR_NO_MEMORY, "region", "no memory for a stage");
    }
    entry->group = group;
    entry->stage.index = stage_count(agent, group);
    status = device_open(agent, ordinal, &entry->stage.device, error);
    if (status == KVR_OK)
        status = memory_open(agent, entry, error);
    if (status != KVR_OK) {
        stage_close(agent, entry);
        return status;
    }
    kvr_log_info("device %d (%s) is staged by %" PRIu64 " MiB for rail group %u", ordinal,
                 entry->stage.device->ops->name, entry->stage.bytes >> 20, group);
    entry->next = agent->stages;
    agent->stages = entry;
    *ret_entry = entry;
    return KVR_OK;
}

/* Helpers open several regions at once, and the first of them the stage. */
static kvr_status stage_of(struct kvr_agent *agent, uint32_t group, int32_t ordinal,
                           struct agent_stage **ret_entry, struct kvr_error *error)
{
    struct agent_stage *at;
    kvr_status status = KVR_OK;

    pthread_mutex_lock(&agent->stages_lock);
    at = agent->stages;
    while (at != NULL && (at->group != group || at->stage.device->ordinal != ordinal))
        at = at->next;
    if (at == NULL)
        status = stage_open(agent, group, ordinal, &at, error);
    pthread_mutex_unlock(&agent->stages_lock);
    *ret_entry = at;
    return status;
}

kvr_status agent_stages_check(const struct kvr_agent *agent, const struct kvr_req_region *region,
                              struct kvr_error *error)
{
    if (region->memory == KVR_MEMORY_MEMFD)
        return KVR_OK;
    if (agent->config->require_gpudirect)
        return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                             "--require-gpudirect: no rail of %s registers device memory in this "
                             "build, so it would be copied through host memory",
                             agent->config->provider);
    if (region->memory == KVR_MEMORY_DMABUF && strcmp(agent->config->device, "cuda") == 0)
        return kvr_error_set(
            error, KVR_UNSUPPORTED, "region",
            "a dmabuf is for cards that take device memory, and no rail of %s does "
            "in this build: give the CUDA IPC handle or a VMM descriptor",
            agent->config->provider);
    if (region->device < 0 ||
        (strcmp(agent->config->device, "emulated") == 0 && region->device != 0))
        return kvr_error_set(error, KVR_INVALID, "region",
                             "device memory of device %d: name the GPU's number%s", region->device,
                             region->device < 0 ? "" : "; the emulated one is 0");
    return KVR_OK;
}

kvr_status agent_stages_region(struct kvr_agent *agent, uint32_t group,
                               const struct kvr_req_region *request, int fd,
                               struct kvr_region **ret_region, struct kvr_error *error)
{
    static const kvr_device_kind kinds[] = {[KVR_MEMORY_MEMFD] = KVR_DEVICE_MEMFD,
                                            [KVR_MEMORY_DMABUF] = KVR_DEVICE_DMABUF,
                                            [KVR_MEMORY_CUDA_IPC] = KVR_DEVICE_IPC,
                                            [KVR_MEMORY_CUDA_VMM] = KVR_DEVICE_VMM};
    struct kvr_device_import import = {.kind = kinds[request->memory],
                                       .fd = fd,
                                       .offset = request->fd_offset,
                                       .bytes = request->layout.bytes};
    struct kvr_device_memory *pages = NULL;
    struct agent_stage *entry = NULL;
    kvr_status status = stage_of(agent, group, request->device, &entry, error);

    if (status == KVR_OK) {
        struct kvr_device *device = entry->stage.device;

        memcpy(import.ipc, request->ipc, sizeof(import.ipc));
        status = device->ops->import(device, &import, &pages, error);
    }
    if (status == KVR_OK)
        status = kvr_region_open_staged(entry->stage.pinned, &request->layout, &entry->stage, pages,
                                        ret_region, error);
    if (status != KVR_OK && pages != NULL)
        entry->stage.device->ops->release(entry->stage.device, pages);
    if (fd >= 0)
        close(fd);
    return status;
}

void agent_region_release(struct kvr_agent *agent, struct kvr_region *region)
{
    if (region != NULL && region->stage != NULL)
        region->stage->device->ops->release(region->stage->device, region->pages);
    kvr_region_release(&agent->fabric, region);
}

void agent_stages_close(struct kvr_agent *agent)
{
    while (agent->stages != NULL) {
        struct agent_stage *entry = agent->stages;

        agent->stages = entry->next;
        stage_close(agent, entry);
    }
}
