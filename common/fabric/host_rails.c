#include "fabric/host_rails.h"

#include <string.h>

#include "base/address.h"

static bool is_rail_of(const struct kvr_host_groups *groups, const struct kvr_host_rail *rail,
                       const struct kvr_rail_facts *facts)
{
    const struct kvr_topology_card *card =
        kvr_topology_card_of(groups->topology, facts->pci, facts->interface);

    if (card != NULL && card->pci[0] != '\0' && strcmp(rail->pci, card->pci) == 0)
        return true;
    return facts->interface[0] != '\0' && strcmp(rail->interface, facts->interface) == 0;
}

static bool is_listed(const struct kvr_host_groups *groups, const struct kvr_rail_facts *facts)
{
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        if (is_rail_of(groups, &groups->rails[i], facts))
            return true;
    }
    return false;
}

static bool reaches_other_hosts(const struct kvr_rail_facts *facts)
{
    struct kvr_address address;

    return !facts->same_host_only &&
           (kvr_address_parse(facts->source, 0, NULL, &address) != KVR_OK ||
            !kvr_address_is_loopback(&address));
}

static void add_rail(struct kvr_host_groups *groups, const struct kvr_rail_facts *facts,
                     bool on_pci)
{
    const struct kvr_topology_card *card =
        kvr_topology_card_of(groups->topology, facts->pci, facts->interface);
    bool pci = facts->pci[0] != '\0' || (card != NULL && card->pci[0] != '\0');
    struct kvr_host_rail *rail;

    if (pci != on_pci || !reaches_other_hosts(facts) || is_listed(groups, facts))
        return;
    if (groups->rail_count == KVR_HOST_RAILS_MAX) {
        groups->truncated = true;
        return;
    }
    rail = &groups->rails[groups->rail_count++];
    *rail =
        (struct kvr_host_rail){.speed_bps = facts->speed_bps, .down = card != NULL && card->down};
    memcpy(rail->name, facts->name, sizeof(rail->name));
    memcpy(rail->interface, facts->interface, sizeof(rail->interface));
    memcpy(rail->pci, pci && card != NULL ? card->pci : facts->pci, sizeof(rail->pci));
    memcpy(rail->provider, facts->provider, sizeof(rail->provider));
}

void kvr_host_rails_choose(struct kvr_host_groups *groups, const struct kvr_rail_facts *facts,
                           uint32_t count)
{
    groups->rail_count = 0;
    for (uint32_t i = 0; i < count; i++)
        add_rail(groups, &facts[i], true);
    if (groups->rail_count > 0)
        return;
    for (uint32_t i = 0; i < count; i++) /* a bond, a veth pair: no card says where they lie */
        add_rail(groups, &facts[i], false);
}

static bool group_has(const struct kvr_host_groups *groups, const struct kvr_host_group *group,
                      const struct kvr_rail_facts *const *rails, uint32_t count)
{
    for (uint32_t i = 0; i < group->rail_count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (is_rail_of(groups, &groups->rails[group->rails[i].rail], rails[k]))
                return true;
    return false;
}

void kvr_host_rails_place(const struct kvr_host_groups *groups,
                          const struct kvr_rail_facts *const *rails, uint32_t count,
                          struct kvr_host_place *ret_place)
{
    *ret_place = (struct kvr_host_place){.node = KVR_NODE_UNKNOWN};
    for (uint32_t g = 0; g < groups->group_count; g++) {
        const struct kvr_host_group *group = &groups->groups[g];

        if (group->owner != g || !group_has(groups, group, rails, count))
            continue;
        if (ret_place->group_count++ == 0) {
            ret_place->group = g;
            ret_place->node = group->node;
        } else if (ret_place->node != group->node) {
            ret_place->node = KVR_NODE_UNKNOWN;
        }
        for (uint32_t i = 0; i < group->core_count && ret_place->core_count < KVR_CORES_MAX; i++)
            ret_place->cores[ret_place->core_count++] = group->cores[i];
    }
}

/* UINT32_MAX: none of them has a card. */
static uint32_t nearest(const struct kvr_topology *topology, const struct kvr_topology_card *gpu,
                        const struct kvr_rail_facts *const *rails, uint32_t count)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        const struct kvr_topology_card *card =
            kvr_topology_card_of(topology, rails[i]->pci, rails[i]->interface);

        if (card != NULL && card->pci[0] != '\0')
            best = kvr_min_u32(best, kvr_topology_distance(gpu, card).distance);
    }
    return best;
}

uint32_t kvr_host_rails_near(const struct kvr_topology *topology, const char *gpu,
                             const struct kvr_rail_facts *const *rails, const uint32_t *first,
                             uint32_t group_count)
{
    const struct kvr_topology_card *card =
        gpu[0] != '\0' ? kvr_topology_find_card(topology, gpu, "") : NULL;
    uint32_t best = UINT32_MAX, near = 0;

    if (card == NULL || card->kind != KVR_CARD_GPU)
        return 0;
    for (uint32_t g = 0; g < group_count; g++) {
        uint32_t distance = nearest(topology, card, rails + first[g], first[g + 1] - first[g]);

        if (distance < best) {
            best = distance;
            near = 0;
        }
        if (distance == best && distance != UINT32_MAX)
            near |= 1u << g;
    }
    return near;
}
