/* What this agent reports of its host and rails that a peer's should have in common. */
#include <stdio.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/clock_sync.h"
#include "base/need.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "fabric/rail_link.h"

static kvr_path device_path(const struct kvr_agent *agent, const struct kvr_rail_facts *facts)
{
    struct kvr_path_form form = {.dmabuf = true, .address = true, .copies = true};
    struct kvr_path_choice choice;

    if (!agent_serves_gpus(agent->config))
        return KVR_PATH_NONE;
    kvr_path_choose(&facts->device, facts->same_host_only, facts->moves_pages, &form, &choice);
    return choice.path;
}

static void node_set(uint32_t node, bool *known, uint32_t *ret_node)
{
    *known = node != KVR_NODE_UNKNOWN;
    *ret_node = *known ? node : 0;
}

void agent_traits_read(struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        const struct kvr_rail_facts *facts = agent->fabric.ops->rail_facts(agent->rails[i]);
        struct kvr_rail_traits *traits = &agent->traits[i];

        memset(traits, 0, sizeof(*traits));
        traits->reported = true;
        memcpy(traits->plane, agent->planes.of[i], sizeof(traits->plane));
        snprintf(traits->network, sizeof(traits->network), "%s", facts->network);
        kvr_rail_link_read(KVR_SYS, facts, &traits->link);
        traits->device_path = device_path(agent, facts);
        traits->pins_memory = facts->pins_memory;
        node_set(agent->group[kvr_rail_groups_of(&agent->groups, i)].node, &traits->node_known,
                 &traits->node);
    }
}

/* The kernel's bound grows all the time; facts that change are sent and stored. */
static uint64_t coarse(uint64_t us)
{
    uint64_t bound = 1000;

    while (bound < us)
        bound *= 2;
    return bound;
}

static void clock_tell(struct kvr_host_traits *traits)
{
    struct kvr_clock_sync clock;

    kvr_clock_sync_read(&clock);
    traits->clock_known = clock.error.status == KVR_OK;
    traits->clock_synchronised = traits->clock_known && clock.synchronised;
    traits->clock_error_us = traits->clock_synchronised ? coarse(clock.error_us) : 0;
}

static void gpus_tell(const struct kvr_agent *agent, struct kvr_host_traits *host)
{
    host->gpu_count = kvr_min_u32(agent->gpu_count, KVR_GPU_TRAITS_MAX);
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        const struct agent_gpu *gpu = &agent->gpus[i];

        memcpy(host->gpus[i].pci, gpu->pci, sizeof(gpu->pci));
        memcpy(host->gpus[i].model, gpu->model, sizeof(gpu->model));
        node_set(gpu->node, &host->gpus[i].node_known, &host->gpus[i].node);
        host->gpus[i].groups = gpu->groups;
    }
}

void agent_traits_tell(struct kvr_agent *agent, struct kvr_agent_facts *facts)
{
    struct kvr_host_traits *host = &facts->traits;
    uint32_t renewed = agent->traits_renewed++ % (agent->rail_count > 0 ? agent->rail_count : 1);

    host->reported = true;
    snprintf(host->libfabric, sizeof(host->libfabric), "%s", kvr_libfabric_version());
    host->files_limit = kvr_limit_files();
    host->lockable_bytes = kvr_lockable_bytes();
    host->rail_port_first = agent->ports_of_rails.first;
    host->rail_port_last = agent->ports_of_rails.last;
    clock_tell(host);
    gpus_tell(agent, host);
    for (uint32_t i = 0; i < facts->rail_count; i++) {
        if (i == renewed)
            agent->traits[i].link.mtu =
                kvr_rail_link_mtu(KVR_SYS, agent->fabric.ops->rail_facts(agent->rails[i]));
        facts->rails[i].traits = agent->traits[i];
    }
}
