/* Where an agent runs: the rails' thread on the cores beside its cards, and everything else of the
 * process in their NUMA node, so that what any thread touches first lies there. */
#include "agent/agent_cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "fabric/fabric_ofi.h"
#include "fabric/host_rails.h"

/* What the choice is made from; large, and gone after it. */
struct work {
    struct kvr_topology *topology;
    struct kvr_host_groups groups;
    struct kvr_host_place place;
    struct kvr_rail_facts offered[KVR_HOST_RAILS_MAX];
};

kvr_status agent_cores_parse(const char *text, int ret_cores[KVR_CORES_MAX], uint32_t *ret_count,
                             struct kvr_error *error)
{
    const char *at = text;

    *ret_count = 0;
    while (true) {
        char *end;
        long first = strtol(at, &end, 10), last = first;

        if (end != at && *end == '-')
            last = strtol(at = end + 1, &end, 10);
        if (end == at || first < 0 || last < first || last >= CPU_SETSIZE ||
            (*end != ',' && *end != '\0'))
            return kvr_error_set(error, KVR_INVALID, "cores",
                                 "--cores is '%s', but must be auto, any, or a list as 0-3,8",
                                 text);
        for (long core = first; core <= last && *ret_count < KVR_CORES_MAX; core++)
            ret_cores[(*ret_count)++] = (int)core;
        if (*end == '\0')
            return KVR_OK;
        at = end + 1;
    }
}

static kvr_status place_find(struct kvr_agent *agent, struct work *work, struct kvr_error *error)
{
    const struct kvr_rail_facts *ours[KVR_RAILS_MAX];
    struct kvr_error none;
    unsigned count =
        kvr_fabric_ofi_list(agent->config->provider, work->offered, KVR_HOST_RAILS_MAX, &none);
    kvr_status status = kvr_topology_read(NULL, &work->topology, error);

    if (status != KVR_OK)
        return status;
    for (uint32_t i = 0; i < agent->rail_count; i++)
        ours[i] = agent->fabric.ops->rail_facts(agent->rails[i]);
    work->groups.topology = work->topology;
    kvr_host_rails_choose(&work->groups, work->offered,
                          count < KVR_HOST_RAILS_MAX ? count : KVR_HOST_RAILS_MAX);
    kvr_host_groups_make(&work->groups);
    kvr_host_rails_place(&work->groups, ours, agent->rail_count, &work->place);
    return KVR_OK;
}

/* Threads that are made from here on inherit it. */
static void stay_in_node(const struct kvr_topology *topology, uint32_t node)
{
    const struct kvr_topology_node *home = &topology->nodes[node];
    cpu_set_t cores;

    CPU_ZERO(&cores);
    for (uint32_t i = 0; i < home->core_count; i++)
        CPU_SET((unsigned)topology->cores[home->core_first + i], &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores) != 0)
        kvr_log_warning("the system keeps this agent from running on NUMA node %u alone",
                        home->number);
}

static void place_use(struct kvr_agent *agent, const struct work *work)
{
    const struct kvr_host_place *place = &work->place;

    if (place->group_count == 0) {
        kvr_log_info("the rails' thread runs on any core: no card says where it lies");
        return;
    }
    if (place->group_count > 1)
        kvr_log_warning("rails of %u groups (see kvrail topo) are driven by one thread: an agent "
                        "for each group, with --rail for its cards, uses them better",
                        place->group_count);
    memcpy(agent->cores, place->cores, place->core_count * sizeof(place->cores[0]));
    agent->core_count = place->core_count;
    if (place->node != KVR_NODE_UNKNOWN && work->topology->node_count > 1)
        stay_in_node(work->topology, place->node);
    kvr_log_info("the rails' thread runs on %u cores near its cards, the first is %d",
                 agent->core_count, agent->cores[0]);
}

kvr_status agent_cores_choose(struct kvr_agent *agent, struct kvr_error *error)
{
    const char *text = agent->config->cores;
    struct work *work;
    kvr_status status;

    if (strcmp(text, "any") == 0)
        return KVR_OK;
    if (strcmp(text, "auto") != 0)
        return agent_cores_parse(text, agent->cores, &agent->core_count, error);
    work = calloc(1, sizeof(*work));
    if (work == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "cores", "no memory for the host's topology");
    status = place_find(agent, work, error);
    if (status == KVR_OK)
        place_use(agent, work);
    kvr_topology_free(work->topology);
    free(work);
    return status;
}
