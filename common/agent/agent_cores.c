/* Divides the rails into groups and chooses cores. Each group's thread runs on the cores near its
 * cards. All other threads run in the cards' NUMA node, if it is one, so that memory that any
 * thread touches first lies there. */
#include "agent/agent_cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_host.h"
#include "agent/agent_state.h"
#include "base/log.h"

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

/* Where rails [first, end) lie. */
static void place_find(const struct kvr_agent *agent, struct agent_host *host, uint32_t first,
                       uint32_t end)
{
    const struct kvr_rail_facts *ours[KVR_RAILS_MAX];

    for (uint32_t i = first; i < end; i++)
        ours[i - first] = agent->fabric.ops->rail_facts(agent->rails[i]);
    kvr_host_rails_place(&host->groups, ours, end - first, &host->place);
}

/* Rails of one group of the host are one here, in the order in which they were named; those that
 * lie nowhere are one too. Rails get the numbers that this makes. */
static void rails_divide(struct kvr_agent *agent, struct agent_host *host)
{
    struct kvr_rail_groups *groups = &agent->groups;
    struct kvr_rail *before[KVR_RAILS_MAX];
    uint32_t host_group[KVR_RAILS_MAX], count = 0;

    memcpy(before, agent->rails, sizeof(before));
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        place_find(agent, host, i, i + 1);
        host_group[i] = host->place.group_count > 0 ? host->place.group : KVR_HOST_GROUPS_MAX;
    }
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        if (before[i] == NULL)
            continue;
        for (uint32_t k = i; k < agent->rail_count; k++) {
            if (host_group[k] != host_group[i] || before[k] == NULL)
                continue;
            agent->rails[count++] = before[k];
            before[k] = NULL;
        }
        if (groups->count < KVR_RAIL_GROUPS_MAX) /* the last one takes all the rest */
            groups->count++;
        groups->first[groups->count] = count;
    }
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
        kvr_log_warning("the system does not let this agent run on NUMA node %u alone",
                        home->number);
}

/* Which groups are near which GPU, for regions that come later. */
static void gpus_find(struct kvr_agent *agent, const struct kvr_topology *topology)
{
    const struct kvr_rail_facts *rails[KVR_RAILS_MAX];

    for (uint32_t i = 0; i < agent->rail_count; i++)
        rails[i] = agent->fabric.ops->rail_facts(agent->rails[i]);
    for (uint32_t i = 0; i < topology->card_count && agent->gpu_count < AGENT_GPUS_MAX; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];
        struct agent_gpu *gpu = &agent->gpus[agent->gpu_count];

        if (card->kind != KVR_CARD_GPU)
            continue;
        memcpy(gpu->pci, card->pci, sizeof(gpu->pci));
        memcpy(gpu->model, card->model, sizeof(gpu->model));
        gpu->node =
            card->node != KVR_NODE_UNKNOWN ? topology->nodes[card->node].number : card->node;
        gpu->groups = kvr_host_rails_near(topology, gpu->pci, rails, agent->groups.first,
                                          agent->groups.count);
        agent->gpu_count++;
    }
}

/* The cores near each group's cards, and the node of all of them, if it is one. */
static void cores_find(struct kvr_agent *agent, struct agent_host *host, bool choose)
{
    uint32_t node = KVR_NODE_UNKNOWN;

    for (uint32_t i = 0; i < agent->groups.count; i++) {
        struct agent_group *group = &agent->group[i];
        const struct kvr_host_place *place = &host->place;

        place_find(agent, host, agent->groups.first[i], agent->groups.first[i + 1]);
        node = i == 0 || node == place->node ? place->node : KVR_NODE_UNKNOWN;
        if (place->node != KVR_NODE_UNKNOWN)
            group->node = host->topology->nodes[place->node].number;
        if (!choose)
            continue;
        if (place->group_count == 0) {
            kvr_log_info("rail group %u: its thread runs on any core: no card says where it lies",
                         i);
            continue;
        }
        memcpy(group->cores, place->cores, place->core_count * sizeof(place->cores[0]));
        group->core_count = place->core_count;
        kvr_log_info("rail group %u: its thread runs on %u cores near its cards, the first is %d",
                     i, group->core_count, group->cores[0]);
    }
    if (choose && node != KVR_NODE_UNKNOWN && host->topology->node_count > 1)
        stay_in_node(host->topology, node);
}

/* One list for all groups, or a list for each. */
static kvr_status cores_given(struct kvr_agent *agent, struct kvr_error *error)
{
    char text[KVR_OPTION_ITEM_BYTES], *list = text;

    snprintf(text, sizeof(text), "%s", agent->config->cores);
    for (uint32_t i = 0; i < agent->groups.count; i++) {
        struct agent_group *group = &agent->group[i];
        char *end = strchr(list, '/');

        if (end != NULL)
            *end = '\0';
        KVR_TRY(agent_cores_parse(list, group->cores, &group->core_count, error));
        if (end != NULL)
            list = end + 1;
        if ((end == NULL) != (i + 1 == agent->groups.count || list == text))
            return kvr_error_set(error, KVR_INVALID, "cores",
                                 "--cores is '%s', but must be one list of cores, or one for each "
                                 "of the %u rail groups",
                                 agent->config->cores, agent->groups.count);
    }
    return KVR_OK;
}

static kvr_status host_use(struct kvr_agent *agent, bool divide, bool choose,
                           struct kvr_error *error)
{
    struct agent_host *host;

    KVR_TRY(agent_host_read(agent, &host, error));
    if (divide)
        rails_divide(agent, host);
    cores_find(agent, host, choose);
    gpus_find(agent, host->topology);
    return KVR_OK;
}

kvr_status agent_cores_choose(struct kvr_agent *agent, struct kvr_error *error)
{
    const char *text = agent->config->cores;
    bool divide = agent->groups.count == 0 && agent->rail_count > 1;
    bool choose = strcmp(text, "auto") == 0;
    kvr_status status = KVR_OK;

    for (uint32_t i = 0; i < KVR_RAIL_GROUPS_MAX; i++)
        agent->group[i].node = KVR_NODE_UNKNOWN;
    if (agent->groups.count == 0 && !divide)
        agent->groups = (struct kvr_rail_groups){.count = 1, .first = {0, agent->rail_count}};
    if (divide || choose || agent->groups.count > 1)
        status = host_use(agent, divide, choose, error);
    if (status == KVR_OK && !choose && strcmp(text, "any") != 0)
        status = cores_given(agent, error);
    return status;
}
