/* Device memory of engines: imported, and registered with the cards of its rail group, or else
 * staged. A device of a rail group has one stage. Its memory is made with the first region that
 * needs it. The stage of host memory, for fragments, is made with the first transfer that copies
 * them. Helper threads run this. */
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
#include "device/dmabuf.h"
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
                                                       (uint32_t)agent->config->device_failures,
                                                   .blind = strcmp(kind, "emulated-blind") == 0};

    if (ordinal < 0)
        return kvr_device_host_open(ret_device, error);
    if (strncmp(kind, "emulated", strlen("emulated")) == 0)
        return kvr_device_emulated_open(&emulated, ret_device, error);
    return kvr_device_cuda_open(ordinal, kvr_cuda_copier_of(agent->config->copying.device_copies),
                                ret_device, error);
}

/* Places memory near the group's cards, whichever thread touches it first. It is advice: a node
 * without room uses another's. */
static void place(void *base, uint64_t bytes, uint32_t node)
{
    unsigned long mask = 1;

    if (node == KVR_NODE_UNKNOWN || node >= 8 * sizeof(mask))
        return;
    mask <<= node;
    (void)syscall(SYS_mbind, base, bytes, 1 /* MPOL_PREFERRED */, &mask, 8 * sizeof(mask), 0);
}

static void group_rails(const struct kvr_agent *agent, uint32_t group,
                        struct kvr_rail *ret_rails[KVR_RAILS_MAX])
{
    for (uint32_t i = agent->groups.first[group]; i < agent->groups.first[group + 1]; i++)
        ret_rails[i] = agent->rails[i];
}

/* A memfd, so that targets that copy (provider local) can map it. */
static kvr_status memory_open(struct kvr_agent *agent, struct agent_stage *entry,
                              struct kvr_error *error)
{
    struct kvr_region_layout layout = {.bytes = agent->config->copying.staging_memory};
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
    group_rails(agent, entry->group, rails);
    KVR_TRY(kvr_region_open_memfd(&agent->fabric, rails, agent->rail_count, &layout, fd, 0, source,
                                  source ? KVR_REMOTE_NONE : KVR_REMOTE_GRANTED,
                                  &entry->stage.pinned, error));
    /* A source's regions are mapped so that nothing can be written to them; this one is ours. */
    if (mprotect(entry->stage.pinned->base, layout.bytes, PROT_READ | PROT_WRITE) != 0)
        return kvr_error_system(error, "region", errno, "to write to staging memory");
    place(entry->stage.pinned->base, layout.bytes, agent->group[entry->group].node);
    KVR_TRY(entry->stage.device->ops->pin(entry->stage.device, entry->stage.pinned->base,
                                          layout.bytes, error));
    entry->stage.base = entry->stage.pinned->base;
    entry->stage.bytes = layout.bytes;
    return KVR_OK;
}

static void memory_close(struct kvr_agent *agent, struct agent_stage *entry)
{
    if (entry->stage.base != NULL)
        entry->stage.device->ops->unpin(entry->stage.device, entry->stage.base);
    kvr_region_release(&agent->fabric, entry->stage.pinned);
    entry->stage.base = NULL;
    entry->stage.pinned = NULL;
}

static void stage_close(struct kvr_agent *agent, struct agent_stage *entry)
{
    memory_close(agent, entry);
    kvr_device_close(entry->stage.device);
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

static void device_say(const struct kvr_agent *agent, const struct kvr_device *device)
{
    if (device->held_bytes > 0)
        kvr_log_info("device %d: this agent takes about %" PRIu64 " MiB of its memory (a context "
                     "and what copies need); leave them free beside the engine",
                     device->ordinal, device->held_bytes >> 20);
    if (device->slower.status != KVR_OK)
        kvr_log_failure(KVR_LOG_WARNING,
                        "the GPU's driver copies each piece by itself, which takes longer",
                        &device->slower);
    if (device->copier != NULL)
        kvr_log_info("pages on device %d that no card reaches: %s (--device-copies %s)",
                     device->ordinal, device->copier, agent->config->copying.device_copies);
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
    if (status != KVR_OK) {
        stage_close(agent, entry);
        return status;
    }
    device_say(agent, entry->stage.device);
    atomic_fetch_add(&agent->gpu_bytes, entry->stage.device->held_bytes);
    if (strcmp(entry->stage.device->ops->name, "cuda") == 0 && !agent->tried) {
        agent->tried = true;
        agent_trial(agent, entry->stage.device);
    }
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

/* The memory of a stage, with the first region that no card of the group reaches, and why. */
static kvr_status stage_fill(struct kvr_agent *agent, struct agent_stage *entry, const char *why,
                             struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    pthread_mutex_lock(&agent->stages_lock);
    if (entry->stage.base == NULL) {
        status = memory_open(agent, entry, error);
        if (status == KVR_OK)
            kvr_log_info("device %d (%s) is staged by %" PRIu64 " MiB for rail group %u: %s",
                         entry->stage.device->ordinal, entry->stage.device->ops->name,
                         entry->stage.bytes >> 20, entry->group, why);
        else
            memory_close(agent, entry);
    }
    pthread_mutex_unlock(&agent->stages_lock);
    return status;
}

kvr_status agent_stages_check(const struct kvr_agent *agent, const struct kvr_req_region *region,
                              struct kvr_error *error)
{
    if (region->memory == KVR_MEMORY_MEMFD)
        return KVR_OK;
    if (strcmp(agent->config->device, "none") == 0)
        return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                             "this agent takes no device memory (--device none): register host "
                             "memory (memfd)");
    if (region->device < 0 || (strcmp(agent->config->device, "cuda") != 0 && region->device != 0))
        return kvr_error_set(error, KVR_INVALID, "region",
                             "device memory of device %d: name the GPU's number%s", region->device,
                             region->device < 0 ? "" : "; the emulated one is 0");
    return KVR_OK;
}

/* ---- regions -------------------------------------------------------------------------------- */

/* Registers it with the cards of its group, if all of them take it. */
static kvr_status region_direct(struct kvr_agent *agent, uint32_t group,
                                const struct kvr_req_region *request, struct kvr_device_form *form,
                                struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    bool source = agent->machine.role == KVR_ROLE_SOURCE;

    form->ordinal = request->device;
    form->hashed = strcmp(agent->config->digest, "off") != 0;
    group_rails(agent, group, rails);
    for (uint32_t i = 0; i < agent->rail_count; i++)
        if ((agent->groups.same_host >> i & 1) != 0)
            rails[i] = NULL; /* peers of this host too write to such pages by their cards */
    KVR_TRY(kvr_region_open_direct(&agent->fabric, rails, agent->rail_count, &request->layout, form,
                                   source, !source, ret_region, error));
    kvr_log_info("region '%s' of device %d is reached by the cards of rail group %u: %s",
                 request->name, request->device, group, kvr_path_name((*ret_region)->path));
    return KVR_OK;
}

kvr_status agent_write_order_check(const struct kvr_agent *agent, kvr_write_order order,
                                   bool flushes, struct kvr_error *error)
{
    if (agent->machine.role == KVR_ROLE_SOURCE || order < KVR_ORDER_FLUSHED ||
        (order == KVR_ORDER_FLUSHED && flushes))
        return KVR_OK;
    return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                         "this GPU sees writes of cards in no order (WRITES_ORDERING is none), and "
                         "%s",
                         order == KVR_ORDER_NONE
                             ? "its driver offers no flush"
                             : "the agent cannot flush without the memory's CUDA handle");
}

/* A region of a dmabuf: registering it needs no context on the GPU. */
static kvr_status region_of_dmabuf(struct kvr_agent *agent, uint32_t group,
                                   const struct kvr_req_region *request, int fd,
                                   struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_device_form form = {.dmabuf = fd, .dmabuf_offset = request->fd_offset};
    kvr_status status;
    struct kvr_error reason;

    KVR_TRY(kvr_dmabuf_check(fd, request->fd_offset, request->layout.bytes, error));
    status = agent_write_order_check(agent, request->order, false, &reason);
    if (status == KVR_OK)
        status = region_direct(agent, group, request, &form, ret_region, &reason);
    if (status == KVR_OK)
        return status;
    return kvr_error_set(error, status, "region",
                         "%s; and a dmabuf cannot be staged: give the CUDA IPC handle or a VMM "
                         "descriptor",
                         reason.detail);
}

/* Where it is staged for cards: a target on this host can do without. */
static void region_move(struct kvr_agent *agent, const struct agent_stage *entry,
                        const struct kvr_req_region *request,
                        const struct kvr_device_import *import, struct kvr_region *region)
{
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    bool source = agent->machine.role == KVR_ROLE_SOURCE;
    struct kvr_device_import kept = *import; /* by the rails, for longer than the call */
    struct kvr_error reason;

    kept.dmabuf = NULL;
    group_rails(agent, entry->group, rails);
    if (kvr_region_move(&agent->fabric, rails, region, &kept, source, !source, &reason) == KVR_OK)
        kvr_log_info(
            "region '%s' of device %d: %s", request->name, request->device,
            source ? "agents on this host with a device that sees it copy its pages themselves"
                   : "pages of devices on this host are moved to it without staging");
    else
        kvr_log_debug("region '%s' is staged for peers on this host too: %s", request->name,
                      reason.detail);
}

/* Through its device: direct where all cards of the group take it, else staged. */
static kvr_status region_of_pages(struct kvr_agent *agent, struct agent_stage *entry,
                                  const struct kvr_req_region *request,
                                  const struct kvr_device_import *import,
                                  struct kvr_device_memory *pages, struct kvr_region **ret_region,
                                  struct kvr_error *error)
{
    struct kvr_device *device = entry->stage.device;
    struct kvr_device_hint hint = device->ops->hint(pages);
    struct kvr_device_form form = {.dmabuf = hint.dmabuf,
                                   .dmabuf_offset = hint.dmabuf_offset,
                                   .addressable = hint.addressable,
                                   .address = hint.address,
                                   .copies = true};
    struct kvr_error reason;
    kvr_status status = agent_write_order_check(agent, device->order, true, &reason);

    if (status == KVR_OK)
        status = region_direct(agent, entry->group, request, &form, ret_region, &reason);
    if (status != KVR_OK && hint.not_for_cards && import->for_cards)
        (void)kvr_error_set(&reason, KVR_UNSUPPORTED, "region",
                            "the memory was made without gpuDirectRDMACapable: take "
                            "kvrail_device_memory_create's, cudaMalloc's or PyTorch's; in vLLM no "
                            "sleep mode, or a later version");
    if (status != KVR_OK && agent->config->require_gpudirect)
        return kvr_error_set(error, KVR_UNSUPPORTED, "region", "--require-gpudirect: %s",
                             reason.detail);
    if (status != KVR_OK) {
        status = stage_fill(agent, entry, reason.detail, error);
        if (status == KVR_OK)
            status = kvr_region_open_staged(entry->stage.pinned, &request->layout, &entry->stage,
                                            pages, ret_region, error);
        if (status == KVR_OK)
            region_move(agent, entry, request, import, *ret_region);
    }
    if (status != KVR_OK)
        return status;
    (*ret_region)->device = device;
    (*ret_region)->pages = pages;
    return KVR_OK;
}

static bool any_takes_dmabuf(const struct kvr_agent *agent, uint32_t group)
{
    for (uint32_t i = agent->groups.first[group]; i < agent->groups.first[group + 1]; i++)
        if (agent->fabric.ops->rail_facts(agent->rails[i])->device.dmabuf == KVR_WHY_NOTHING)
            return true;
    return false;
}

static kvr_status region_open(struct kvr_agent *agent, uint32_t group,
                              const struct kvr_req_region *request,
                              const struct kvr_region_memory *memory,
                              struct kvr_region **ret_region, struct kvr_error *error)
{
    static const kvr_device_kind kinds[] = {[KVR_MEMORY_MEMFD] = KVR_DEVICE_MEMFD,
                                            [KVR_MEMORY_DMABUF] = KVR_DEVICE_DMABUF,
                                            [KVR_MEMORY_CUDA_IPC] = KVR_DEVICE_IPC,
                                            [KVR_MEMORY_CUDA_VMM] = KVR_DEVICE_VMM};
    struct kvr_extents *extents = memory->extents;
    struct kvr_device_dmabuf dmabuf = {.fd = memory->dmabuf, .offset = request->dmabuf_offset};
    struct kvr_device_import import = {.kind = kinds[request->memory],
                                       .fd = memory->fd,
                                       .extents = extents,
                                       .dmabuf = memory->dmabuf >= 0 ? &dmabuf : NULL,
                                       .offset = request->fd_offset,
                                       .bytes = request->layout.bytes,
                                       .for_cards = any_takes_dmabuf(agent, group)};
    struct kvr_device_memory *pages = NULL;
    struct agent_stage *entry = NULL;
    kvr_status status;

    if (request->memory == KVR_MEMORY_DMABUF && strcmp(agent->config->device, "cuda") == 0)
        return region_of_dmabuf(agent, group, request, memory->fd, ret_region, error);
    KVR_TRY(stage_of(agent, group, request->device, &entry, error));
    memcpy(import.ipc, request->ipc, sizeof(import.ipc));
    KVR_TRY(entry->stage.device->ops->import(entry->stage.device, &import, &pages, error));
    if (extents != NULL)
        kvr_log_info("region '%s' of device %d lies over %u allocations side by side",
                     request->name, request->device, extents->count);
    if (extents != NULL && import.for_cards && entry->stage.device->ops->hint(pages).dmabuf < 0)
        kvr_log_info("region '%s': the driver gives no dmabuf over several allocations, so cards "
                     "get its address or it is staged",
                     request->name);
    status = region_of_pages(agent, entry, request, &import, pages, ret_region, error);
    if (status != KVR_OK)
        entry->stage.device->ops->release(entry->stage.device, pages);
    return status;
}

/* From here on `device` is an ordinal of this process. A dmabuf needs none, where the agent sees no
 * GPU. */
static kvr_status gpu_find(const struct kvr_agent *agent, struct kvr_req_region *request,
                           struct kvr_error *error)
{
    static const struct kvr_uuid unknown;
    kvr_status status;

    if (strcmp(agent->config->device, "cuda") != 0 || kvr_uuid_equal(&request->gpu.uuid, &unknown))
        return KVR_OK;
    status = kvr_device_cuda_ordinal(&request->gpu, &request->device, error);
    return request->memory == KVR_MEMORY_DMABUF ? KVR_OK : status;
}

kvr_status agent_stages_region(struct kvr_agent *agent, uint32_t group,
                               const struct kvr_req_region *request,
                               const struct kvr_region_memory *memory,
                               struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_req_region ours = *request;
    kvr_status status = gpu_find(agent, &ours, error);

    if (status == KVR_OK)
        status = region_open(agent, group, &ours, memory, ret_region, error);
    return status;
}

kvr_status agent_stages_host(struct kvr_agent *agent, const struct kvr_region *region,
                             struct kvr_stage **ret_stage, struct kvr_device_memory **ret_pages,
                             struct kvr_error *error)
{
    struct kvr_device_import import = {.kind = KVR_DEVICE_MAPPED,
                                       .fd = -1,
                                       .address = region->base,
                                       .bytes = region->layout.bytes};
    struct agent_stage *entry = NULL;

    KVR_TRY(stage_of(agent, region->home, -1, &entry, error));
    KVR_TRY(stage_fill(agent, entry, "fragments of host memory", error));
    KVR_TRY(entry->stage.device->ops->import(entry->stage.device, &import, ret_pages, error));
    *ret_stage = &entry->stage;
    return KVR_OK;
}

/* Cards let go of it before it is unmapped. */
void agent_region_release(struct kvr_agent *agent, struct kvr_region *region)
{
    struct kvr_device *device = region != NULL ? region->device : NULL;
    struct kvr_device_memory *pages = region != NULL ? region->pages : NULL;

    kvr_region_release(&agent->fabric, region);
    if (device != NULL)
        device->ops->release(device, pages);
}

void agent_stages_close(struct kvr_agent *agent)
{
    while (agent->stages != NULL) {
        struct agent_stage *entry = agent->stages;

        agent->stages = entry->next;
        stage_close(agent, entry);
    }
}
