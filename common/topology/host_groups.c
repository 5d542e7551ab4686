#include "topology/host_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

/* ---- rails of cards alone -------------------------------------------------------------------- */

/* The entry that stands for its card: the RDMA device, else the first interface. */
static bool stands_for_card(const struct kvr_topology *topology, uint32_t index)
{
    const struct kvr_topology_card *card = &topology->cards[index];

    if (card->kind == KVR_CARD_GPU || card->pci[0] == '\0')
        return false;
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *other = &topology->cards[i];

        if (i == index || strcmp(other->pci, card->pci) != 0)
            continue;
        if (other->kind == card->kind ? i < index : other->kind == KVR_CARD_RDMA)
            return false;
    }
    return true;
}

void kvr_host_rails_of_cards(const struct kvr_topology *topology, kvr_card_provider *provider_of,
                             struct kvr_host_groups *groups)
{
    groups->topology = topology;
    groups->rail_count = 0;
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];
        struct kvr_host_rail *rail;

        if (!stands_for_card(topology, i))
            continue;
        rail = &groups->rails[groups->rail_count++];
        *rail = (struct kvr_host_rail){.speed_bps = card->speed_bps, .down = card->down};
        memcpy(rail->name, card->name, sizeof(rail->name));
        memcpy(rail->pci, card->pci, sizeof(rail->pci));
        snprintf(rail->provider, sizeof(rail->provider), "%s", provider_of(card));
    }
}

/* ---- grouping -------------------------------------------------------------------------------- */

static struct kvr_distance distance(const struct kvr_host_groups *groups,
                                    const struct kvr_host_group *group, uint32_t rail)
{
    static const struct kvr_topology_card nowhere = {.node = KVR_NODE_UNKNOWN};
    const struct kvr_topology_card *card = groups->rails[rail].card;

    if (group->gpu == NULL)
        return (struct kvr_distance){KVR_NEAR_NODE, 0};
    return kvr_topology_distance(group->gpu, card != NULL ? card : &nowhere);
}

static void add_rail(struct kvr_host_groups *groups, struct kvr_host_group *group, uint32_t rail)
{
    if (group->rail_count == KVR_RAILS_MAX) {
        groups->truncated = true;
        return;
    }
    group->rails[group->rail_count++] =
        (struct kvr_group_rail){rail, distance(groups, group, rail)};
}

static struct kvr_host_group *add_group(struct kvr_host_groups *groups,
                                        const struct kvr_topology_card *gpu, uint32_t node)
{
    struct kvr_host_group *group;

    if (groups->group_count == KVR_HOST_GROUPS_MAX) {
        groups->truncated = true;
        return NULL;
    }
    group = &groups->groups[groups->group_count];
    *group = (struct kvr_host_group){.gpu = gpu, .node = node, .owner = groups->group_count};
    groups->group_count++;
    return group;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct kvr_host_group *)a)->gpu->pci,
                  ((const struct kvr_host_group *)b)->gpu->pci);
}

static void add_gpus(struct kvr_host_groups *groups)
{
    const struct kvr_topology *topology = groups->topology;

    for (uint32_t i = 0; i < topology->card_count; i++) {
        if (topology->cards[i].kind == KVR_CARD_GPU)
            (void)add_group(groups, &topology->cards[i], topology->cards[i].node);
    }
    qsort(groups->groups, groups->group_count, sizeof(groups->groups[0]), by_address);
    for (uint32_t i = 0; i < groups->group_count; i++) {
        groups->groups[i].gpu_number = i;
        groups->groups[i].owner = i;
    }
}

/* The nearest rail to a group: of the rails that `owners` marks as free (UINT32_MAX), or of all. */
static uint32_t nearest_rail(const struct kvr_host_groups *groups, uint32_t group,
                             const uint32_t *owners, bool free_only, struct kvr_distance *ret)
{
    uint32_t best = NOBODY;

    for (uint32_t i = 0; i < groups->rail_count; i++) {
        struct kvr_distance here = distance(groups, &groups->groups[group], i);

        if (free_only && owners[i] != NOBODY)
            continue;
        if (best == NOBODY || here.distance < ret->distance) {
            best = i;
            *ret = here;
        }
    }
    return best;
}

/* The GPU that takes a rail. UINT32_MAX where no GPU is near, or where all near GPUs have nearer
 * rails. */
static uint32_t gpu_for(const struct kvr_host_groups *groups, uint32_t rail,
                        const kvr_nearness *best_of_gpu)
{
    uint32_t best = NOBODY, least = UINT32_MAX;

    for (uint32_t g = 0; g < groups->group_count; g++) {
        const struct kvr_host_group *group = &groups->groups[g];
        struct kvr_distance here = distance(groups, group, rail);

        if (here.nearness == KVR_NEAR_NOT || here.nearness > best_of_gpu[g])
            continue;
        if (best == NOBODY || here.distance < least ||
            (here.distance == least && group->rail_count < groups->groups[best].rail_count)) {
            best = g;
            least = here.distance;
        }
    }
    return best;
}

static void give_to_nearest(struct kvr_host_groups *groups, uint32_t *owners)
{
    kvr_nearness best_of_gpu[KVR_HOST_GROUPS_MAX];

    for (uint32_t g = 0; g < groups->group_count; g++) {
        struct kvr_distance best = {KVR_NEAR_NOT, UINT32_MAX};

        (void)nearest_rail(groups, g, owners, false, &best);
        best_of_gpu[g] = best.nearness;
    }
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        owners[i] = gpu_for(groups, i, best_of_gpu);
        if (owners[i] != NOBODY)
            add_rail(groups, &groups->groups[owners[i]], i);
    }
}

/* Serves GPUs without a rail, in turns, from the rails left over; unless such a rail is far and a
 * near rail can be shared. */
static void give_what_is_left(struct kvr_host_groups *groups, uint32_t *owners)
{
    bool empty[KVR_HOST_GROUPS_MAX], moved = true;

    for (uint32_t g = 0; g < groups->group_count; g++)
        empty[g] = groups->groups[g].rail_count == 0;
    while (moved) {
        moved = false;
        for (uint32_t g = 0; g < groups->group_count; g++) {
            struct kvr_distance left, any;
            uint32_t rail = nearest_rail(groups, g, owners, true, &left);

            if (!empty[g] || rail == NOBODY)
                continue;
            (void)nearest_rail(groups, g, owners, false, &any);
            if (left.nearness == KVR_NEAR_NOT && any.nearness != KVR_NEAR_NOT)
                continue;
            owners[rail] = g;
            add_rail(groups, &groups->groups[g], rail);
            moved = true;
        }
    }
}

static void share(struct kvr_host_groups *groups, const uint32_t *owners)
{
    for (uint32_t g = 0; g < groups->group_count; g++) {
        struct kvr_host_group *group = &groups->groups[g];
        struct kvr_distance best;
        uint32_t rail;

        if (group->gpu == NULL || group->rail_count > 0)
            continue;
        rail = nearest_rail(groups, g, owners, false, &best);
        if (rail == NOBODY || owners[rail] == NOBODY)
            continue;
        group->owner = owners[rail];
        for (uint32_t i = 0; i < groups->groups[group->owner].rail_count; i++)
            add_rail(groups, group, groups->groups[group->owner].rails[i].rail);
    }
}

static uint32_t node_of_rail(const struct kvr_host_groups *groups, uint32_t rail)
{
    const struct kvr_topology_card *card = groups->rails[rail].card;

    if (card != NULL && card->node != KVR_NODE_UNKNOWN)
        return card->node;
    return groups->topology->node_count == 1 ? 0 : KVR_NODE_UNKNOWN;
}

static void group_by_node(struct kvr_host_groups *groups, uint32_t *owners)
{
    uint32_t first = groups->group_count;

    for (uint32_t i = 0; i < groups->rail_count; i++) {
        uint32_t node = node_of_rail(groups, i), g = first;

        if (owners[i] != NOBODY)
            continue;
        while (g < groups->group_count && groups->groups[g].node != node)
            g++;
        if (g == groups->group_count && add_group(groups, NULL, node) == NULL)
            return;
        owners[i] = g;
        add_rail(groups, &groups->groups[g], i);
    }
}

/* ---- cores ----------------------------------------------------------------------------------- */

/* A node's cores are divided evenly among its groups that have a thread. With fewer cores than
 * groups, each group may run on all of them. */
static void give_cores(struct kvr_host_groups *groups, uint32_t g)
{
    const struct kvr_topology *topology = groups->topology;
    struct kvr_host_group *group = &groups->groups[g];
    uint32_t first = 0, count = topology->core_count, cores, before = 0, all = 0;
    uint32_t threads = topology->core_threads > 0 ? topology->core_threads : 1;

    if (group->node != KVR_NODE_UNKNOWN) {
        first = topology->nodes[group->node].core_first;
        count = topology->nodes[group->node].core_count;
    }
    for (uint32_t i = 0; i < groups->group_count; i++) {
        if (groups->groups[i].node != group->node || groups->groups[i].owner != i)
            continue;
        before += i < g;
        all++;
    }
    cores = count / threads;
    if (cores >= all && all > 0) {
        uint32_t from = cores * before / all * threads;
        uint32_t to = before + 1 == all ? count : cores * (before + 1) / all * threads;

        first += from;
        count = to - from;
    }
    group->cores = &topology->cores[first];
    group->core_count = count;
}

void kvr_host_groups_make(struct kvr_host_groups *groups)
{
    uint32_t owners[KVR_HOST_RAILS_MAX];

    groups->group_count = 0;
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        struct kvr_host_rail *rail = &groups->rails[i];

        owners[i] = NOBODY;
        rail->card = kvr_topology_card_of(groups->topology, rail->pci, rail->interface);
        if (rail->card != NULL && rail->pci[0] == '\0')
            memcpy(rail->pci, rail->card->pci, sizeof(rail->pci));
        if (rail->card != NULL && rail->speed_bps == 0)
            rail->speed_bps = rail->card->speed_bps;
    }
    add_gpus(groups);
    give_to_nearest(groups, owners);
    give_what_is_left(groups, owners);
    group_by_node(groups, owners);
    share(groups, owners);
    for (uint32_t g = 0; g < groups->group_count; g++) {
        struct kvr_host_group *group = &groups->groups[g];

        if (group->node == KVR_NODE_UNKNOWN && group->rail_count > 0)
            group->node = node_of_rail(groups, group->rails[0].rail);
    }
    for (uint32_t g = 0; g < groups->group_count; g++)
        if (groups->groups[g].owner == g)
            give_cores(groups, g);
    for (uint32_t g = 0; g < groups->group_count; g++) {
        const struct kvr_host_group *owner = &groups->groups[groups->groups[g].owner];

        groups->groups[g].cores = owner->cores;
        groups->groups[g].core_count = owner->core_count;
    }
}

const char *kvr_host_group_name(const struct kvr_host_groups *groups, uint32_t group,
                                char ret_name[KVR_NAME_BYTES])
{
    const struct kvr_host_group *named = &groups->groups[group];

    if (named->gpu != NULL)
        snprintf(ret_name, KVR_NAME_BYTES, "GPU %u", named->gpu_number);
    else if (named->node != KVR_NODE_UNKNOWN)
        snprintf(ret_name, KVR_NAME_BYTES, "NUMA node %u",
                 groups->topology->nodes[named->node].number);
    else
        snprintf(ret_name, KVR_NAME_BYTES, "no node");
    return ret_name;
}
