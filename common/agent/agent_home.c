/* Which rail group serves an engine: one near its pages.
 *
 * All regions of an engine are registered with one rail group, since a transfer has chunks of all
 * of them. The first region decides: device memory by the PCI address of its GPU, host memory by
 * the NUMA node of its first page. Engines take equally near groups in turns. */
#include "agent/agent_state.h"
#include "base/log.h"
#include "base/memfd.h"

uint32_t agent_gpu_groups(const struct kvr_agent *agent, const char *pci)
{
    for (uint32_t i = 0; i < agent->gpu_count; i++)
        if (strcmp(agent->gpus[i].pci, pci) == 0)
            return agent->gpus[i].groups;
    return 0;
}

static uint32_t node_groups(const struct kvr_agent *agent, int node)
{
    uint32_t near = 0;

    for (uint32_t i = 0; i < agent->groups.count; i++)
        if (node >= 0 && agent->group[i].node == (uint32_t)node)
            near |= 1u << i;
    return near;
}

/* The turn-th of the groups in `near`; of all `count` where it has none. */
static uint32_t choose(uint32_t near, uint32_t turn, uint32_t count)
{
    uint32_t left;

    if (near == 0)
        return turn % count;
    left = turn % (uint32_t)__builtin_popcount(near);
    while (left-- > 0)
        near &= near - 1;
    return (uint32_t)__builtin_ctz(near);
}

uint32_t agent_home_of(struct kvr_agent *agent, uint32_t engine,
                       const struct kvr_req_region *region, int fd)
{
    struct agent_engine *state = &agent->engines[engine];
    bool device = region->memory != KVR_MEMORY_MEMFD;
    uint32_t near;

    if (state->home_known || agent->groups.count <= 1)
        return state->home;
    near = device ? agent_gpu_groups(agent, region->gpu.pci)
                  : node_groups(agent, kvr_memfd_node(fd, region->fd_offset));
    state->home = choose(near, engine, agent->groups.count);
    state->home_known = true;
    if (device && near != 0)
        kvr_log_info("engine %u is served by rail group %u, near its GPU %s", engine, state->home,
                     region->gpu.pci);
    else
        kvr_log_info("engine %u is served by rail group %u%s", engine, state->home,
                     near != 0 ? "" : ": no card is known to be near its memory");
    return state->home;
}
