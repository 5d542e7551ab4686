/* Agents with cards that cannot reach their engines' pages, or that may copy short pieces although
 * they can: an emulated device for each rail group, and the staging memory between it and the
 * cards. The checks of a card's accesses hold for a copy's too. */
#include <stdlib.h>

#include "decode-agent/fetch.h"
#include "decode-agent/landing_path.h"
#include "decode-agent/transfer.h"
#include "device/device_emulated.h"
#include "prefill-agent/push.h"
#include "tools/sim/sim_keys.h"
#include "tools/sim/sim_world.h"

struct sim_stage {
    struct sim_stage *next; /* of the world's */
    struct sim_agent *agent;
    struct kvr_stage stage;
    uint8_t *memory;
};

static void on_moving(void *self, kvr_device_way way, const struct kvr_device_piece *piece)
{
    struct sim_stage *stage = self;
    struct kvr_sim_access access = {
        .host = stage->agent,
        .address = kvr_device_emulated_address(piece),
        .bytes = piece->bytes,
        .incoming = piece->host,
        .copied = stage->agent->world->target_copies || stage->agent->world->mixed,
    };

    if (way == KVR_DEVICE_GATHER)
        sim_check_read(stage->agent->world, &access);
    else
        sim_check_land(stage->agent->world, &access);
}

static void on_failing(void *self)
{
    struct sim_stage *stage = self;

    sim_injected(stage->agent->world, SIM_COPY_FAILED);
    sim_disturb_all(stage->agent->world);
}

static struct kvr_device *device_open(struct sim_stage *stage)
{
    static const kvr_ns latencies[] = {2 * KVR_US, 50 * KVR_US, 3 * KVR_MS};
    struct sim_world *world = stage->agent->world;
    struct kvr_rng *rng = &world->rng;
    struct kvr_device_emulated_options options = {
        .seed = kvr_rng_next(rng),
        .latency_ns = latencies[kvr_rng_below(rng, 3)],
        .bytes_per_us = kvr_rng_percent(rng, 50) ? kvr_rng_between(rng, 10, 1000) : 0,
        .copies_max = (uint32_t)kvr_rng_between(rng, 1, 8),
        .fail_promille = sim_has(world, SIM_COPY_FAILED) ? 20 : 0,
        .moving = on_moving,
        .failing = on_failing,
        .self = stage,
    };
    struct kvr_device *device = NULL;

    if (kvr_device_emulated_open(&options, &device, NULL) != KVR_OK)
        abort();
    return device;
}

/* A source's ring holds two large writes at least. A target's memory holds the largest transfer, or
 * few writes, so that transfers go through it many times. */
static uint64_t bytes_choose(struct sim_agent *agent)
{
    struct kvr_rng *rng = &agent->world->rng;

    if (agent->source)
        return UINT64_C(8192) << kvr_rng_below(rng, 4);
    if (kvr_rng_percent(rng, 20))
        return UINT64_C(400000) << kvr_rng_below(rng, 2);
    return agent->limits.chunk_bytes_max +
           (kvr_rng_percent(rng, 70) ? kvr_rng_below(rng, 8192) : kvr_rng_below(rng, 65536));
}

void sim_stage_choose(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    agent->staged = kvr_rng_percent(&world->rng, world->neighbours ? 90 : 50);
    agent->stages = !agent->staged && kvr_rng_percent(&world->rng, 50);
    if (world->narrow)
        agent->staged = agent->stages = false;
    agent->stage_bytes = bytes_choose(agent);
    world->revocable |=
        (agent->staged || agent->stages) && agent->source && (world->target_copies || world->mixed);
}

static void pin(struct sim_group *group, struct sim_stage *stage)
{
    struct sim_agent *agent = group->agent;
    struct kvr_region_layout layout = {.bytes = stage->stage.bytes};
    struct kvr_rail *rails[SIM_RAILS];

    sim_group_rails(group, rails);
    if (kvr_region_open_mapped(&agent->fabric, rails, agent->rail_count, &layout, stage->memory,
                               agent->source, sim_remote_access(agent), &stage->stage.pinned,
                               NULL) != KVR_OK)
        abort();
}

void sim_stage_open(struct sim_group *group)
{
    struct sim_agent *agent = group->agent;
    struct sim_stage *stage;

    if (!agent->staged && !agent->stages)
        return;
    stage = calloc(1, sizeof(*stage));
    if (stage == NULL)
        abort();
    stage->agent = agent;
    stage->stage.bytes = agent->stage_bytes;
    stage->memory = stage->stage.base = calloc(1, stage->stage.bytes);
    stage->stage.user = calloc(1, agent->machine.stage_bytes);
    if (stage->memory == NULL || stage->stage.user == NULL)
        abort();
    stage->stage.device = device_open(stage);
    pin(group, stage);
    stage->next = agent->world->stages;
    agent->world->stages = stage;
    group->stage = stage;
}

kvr_ns sim_stage_next(const struct sim_group *group)
{
    return group->stage != NULL ? kvr_device_emulated_next(group->stage->stage.device) : KVR_NEVER;
}

/* Where a rail of the group's can. */
static void region_move(const struct sim_group *group, const struct kvr_device_import *import,
                        struct kvr_region *region)
{
    struct sim_agent *agent = group->agent;
    struct kvr_rail *rails[SIM_RAILS];

    sim_group_rails(group, rails);
    (void)!kvr_region_move(&agent->fabric, rails, region, import, agent->source, !agent->source,
                           NULL);
}

kvr_status sim_stage_region(struct sim_group *group, const struct kvr_region_layout *layout,
                            void *base, struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_stage *stage = &group->stage->stage;
    struct kvr_device_import import = {
        .kind = KVR_DEVICE_MAPPED, .address = base, .bytes = layout->bytes};
    struct kvr_device_memory *pages = NULL;
    kvr_status status = stage->device->ops->import(stage->device, &import, &pages, error);

    if (status != KVR_OK)
        return status;
    status = kvr_region_open_staged(stage->pinned, layout, stage, pages, ret_region, error);
    if (status == KVR_OK)
        region_move(group, &import, *ret_region);
    return status;
}

void sim_stage_give(struct sim_agent *agent, struct kvr_region *region)
{
    struct kvr_stage *stage = &agent->group[region->home].stage->stage;
    struct kvr_device_import import = {
        .kind = KVR_DEVICE_MAPPED, .address = region->base, .bytes = region->layout.bytes};

    if (region->stage != NULL)
        return;
    if (stage->device->ops->import(stage->device, &import, &region->pages, NULL) != KVR_OK)
        abort();
    region->stage = stage;
}

void sim_region_release(struct sim_agent *agent, struct kvr_region *region)
{
    if (region != NULL && region->stage != NULL)
        region->stage->device->ops->release(region->stage->device, region->pages);
    kvr_region_release(&agent->fabric, region);
}

void sim_stage_lose(const struct kvr_region *region)
{
    if (region != NULL && kvr_region_is_staged(region))
        kvr_device_emulated_lose(region->pages);
}

bool sim_stage_has(const struct sim_agent *agent, const uint8_t *address)
{
    for (const struct sim_stage *at = agent->world->stages; at != NULL; at = at->next)
        if (at->agent == agent && address >= at->memory && address < at->memory + at->stage.bytes)
            return true;
    return false;
}

/* The transfer with this part of the staging memory; or NULL. */
static const struct transfer *transfer_of(const struct inbound *inbound, const uint8_t *address)
{
    for (uint32_t i = 0; i < inbound->transfers.reach; i++) {
        const struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);
        const struct kvr_stage *stage = transfer != NULL && transfer->quota.bytes > 0
                                            ? landing_path_stage(inbound, transfer)
                                            : NULL;

        if (stage != NULL && address >= stage->base + transfer->quota.offset &&
            address < stage->base + transfer->quota.offset + transfer->quota.bytes)
            return transfer;
    }
    return NULL;
}

struct sim_fetch *sim_stage_fetch(struct sim_agent *agent, const uint8_t *address)
{
    const struct inbound *inbound = agent->inbound;
    const struct transfer *transfer = transfer_of(inbound, address);
    struct sim_publish *publish;
    struct sim_fetch *fetch = NULL;

    if (transfer != NULL)
        (void)sim_user_find(agent, fetch_of(inbound, transfer)->engine,
                            fetch_of(inbound, transfer)->handle, &publish, &fetch);
    return fetch;
}

/* The chunk that the immediate names; UINT32_MAX: none of the transfer's. */
static uint32_t chunk_of(const struct transfer *transfer, uint32_t immediate)
{
    for (uint32_t i = 0; i < transfer->slots.count; i++)
        if (transfer->slots.numbers[i] == immediate >> 16)
            return i << KVR_SLOT_CHUNK_BITS | (immediate & 0xffff);
    return UINT32_MAX;
}

/* Rule 3: a write that comes late does not come where other bytes may lie by then. */
void sim_stage_check_land(struct sim_world *world, const struct kvr_sim_access *access)
{
    const struct sim_agent *agent = access->host;
    const struct transfer *transfer = transfer_of(agent->inbound, access->address);
    uint32_t chunk = transfer != NULL ? chunk_of(transfer, access->immediate) : UINT32_MAX;
    const struct landing_segment *segment = transfer != NULL ? transfer->intake.segments : NULL;

    if (chunk == UINT32_MAX) {
        sim_fail(world, -1, "a write lands in staging memory that its transfer does not have");
        return;
    }
    while (segment != NULL && chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->loop_next;
    if (segment != NULL &&
        segment->positions[chunk - segment->chunk_first] + transfer->quota.bytes <
            transfer->quota.room)
        sim_fail(world, -1, "write %u lands in staging memory where others may be written by now",
                 chunk);
}

void sim_stage_check_empty(const struct sim_group *group)
{
    const struct sim_agent *agent = group->agent;
    const struct push_stage *push = group->stage != NULL ? group->stage->stage.user : NULL;

    if (push == NULL)
        return;
    if (sim_stage_next(group) != KVR_NEVER)
        sim_fail(agent->world, -1, "agent %u goes on copying", agent->number);
    if (agent->source && (push->ring.count > 0 || push->unposted > 0))
        sim_fail(agent->world, -1, "agent %u keeps %u parts of its staging memory", agent->number,
                 push->ring.count);
    if (!agent->source && agent->inbound->pools != NULL)
        sim_fail(agent->world, -1, "agent %u keeps shares of its staging memory", agent->number);
}

void sim_stages_free(struct sim_world *world)
{
    while (world->stages != NULL) {
        struct sim_stage *stage = world->stages;

        world->stages = stage->next;
        kvr_region_release(&stage->agent->fabric, stage->stage.pinned);
        kvr_device_close(stage->stage.device);
        free(stage->stage.user);
        free(stage->memory);
        free(stage);
    }
}
