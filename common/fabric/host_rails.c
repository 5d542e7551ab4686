#include "fabric/host_rails.h"

#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "fabric/fabric_provider.h"

#define LINK_DOWN "its link is down"

static bool is_rail_of(const struct kvr_host_groups *groups, const struct kvr_host_rail *rail,
                       const struct kvr_rail_facts *facts)
{
    const struct kvr_topology_card *card =
        kvr_topology_card_of(groups->topology, facts->pci, facts->interface);

    if (card != NULL && card->pci[0] != '\0' && strcmp(rail->pci, card->pci) == 0)
        return true;
    if (facts->pci[0] != '\0' && strcmp(rail->pci, facts->pci) == 0)
        return true; /* the topology may lack it, as in a container */
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

/* A card of the rail's kind: its RDMA device, or its interface. */
static bool is_card_of(const struct kvr_topology_card *card, kvr_card_kind kind,
                       const struct kvr_rail_facts *facts)
{
    if (card->kind != kind)
        return false;
    if (kind == KVR_CARD_INTERFACE)
        return strcmp(card->name, facts->interface) == 0;
    return strcmp(card->name, facts->name) == 0 ||
           (card->pci[0] != '\0' && strcmp(card->pci, facts->pci) == 0);
}

/* A card has an entry for its RDMA device and one for each of its interfaces, of which others than
 * the rail's may be off. */
static bool is_down(const struct kvr_topology *topology, const struct kvr_rail_facts *facts)
{
    const struct kvr_provider *provider = kvr_provider_find(facts->provider);
    bool known = false;

    for (uint32_t i = 0; provider != NULL && i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        if (!is_card_of(card, provider->card.kind, facts))
            continue;
        if (!card->down)
            return false;
        known = true;
    }
    return known;
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
    *rail = (struct kvr_host_rail){.speed_bps = facts->speed_bps,
                                   .down = is_down(groups->topology, facts)};
    memcpy(rail->name, facts->name, sizeof(rail->name));
    memcpy(rail->interface, facts->interface, sizeof(rail->interface));
    memcpy(rail->source, facts->source, sizeof(rail->source));
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

/* ---- the cards of --rail all ----------------------------------------------------------------- */

static void leave_out(struct kvr_host_cards *cards, const char *name, const char *place,
                      const char *why)
{
    if (cards->left_out_count < KVR_LEFT_OUT_MAX)
        snprintf(cards->left_out[cards->left_out_count], KVR_LEFT_OUT_BYTES, "%s (%s): %s", name,
                 place, why);
    cards->left_out_count++;
}

static bool is_offered(const struct kvr_topology *topology, const struct kvr_topology_card *card,
                       const struct kvr_rail_facts *facts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct kvr_topology_card *of =
            kvr_topology_card_of(topology, facts[i].pci, facts[i].interface);

        if (strcmp(facts[i].pci, card->pci) == 0 || (of != NULL && strcmp(of->pci, card->pci) == 0))
            return true;
    }
    return false;
}

/* A card of two ports, or with two names, is said once. */
static bool is_first(const struct kvr_topology *topology, uint32_t index)
{
    const struct kvr_topology_card *card = &topology->cards[index];

    for (uint32_t i = 0; i < index; i++) {
        if (topology->cards[i].kind == card->kind && strcmp(topology->cards[i].pci, card->pci) == 0)
            return false;
    }
    return true;
}

/* Cards that the provider is made for, but offers no rail on. */
static void leave_out_unoffered(const struct kvr_host_groups *groups,
                                const struct kvr_provider *provider,
                                const struct kvr_rail_facts *facts, uint32_t count,
                                struct kvr_host_cards *cards)
{
    const struct kvr_topology *topology = groups->topology;

    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        if (card->pci[0] == '\0' || strcmp(kvr_provider_of_card(card), provider->name) != 0 ||
            !is_first(topology, i) || is_offered(topology, card, facts, count))
            continue;
        leave_out(cards, card->name, card->pci,
                  card->down                       ? LINK_DOWN
                  : provider->libfabric.by_address ? "libfabric offers no rail on it; a rail needs "
                                                     "an IP address (InfiniBand: IPoIB)"
                                                   : "libfabric offers no rail on it");
    }
}

/* A bond, a bridge, a veth pair beside cards: they may be what the cards are for, or something of
 * containers. */
static void leave_out_virtual(const struct kvr_host_groups *groups,
                              const struct kvr_rail_facts *facts, uint32_t count,
                              struct kvr_host_cards *cards)
{
    for (uint32_t i = 0; i < count; i++) {
        if (reaches_other_hosts(&facts[i]) && !is_listed(groups, &facts[i]))
            leave_out(cards, facts[i].name, facts[i].source,
                      "it lies on no PCI card, and others do; name it by --rail to use it");
    }
}

void kvr_host_cards_usable(const struct kvr_host_groups *groups, const char *provider,
                           const struct kvr_rail_facts *facts, uint32_t count,
                           struct kvr_host_cards *ret_cards)
{
    ret_cards->count = 0;
    ret_cards->left_out_count = 0;
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        const struct kvr_host_rail *rail = &groups->rails[i];

        if (rail->down)
            leave_out(ret_cards, rail->name, rail->pci[0] != '\0' ? rail->pci : rail->source,
                      LINK_DOWN);
        else
            ret_cards->rails[ret_cards->count++] = i;
    }
    leave_out_unoffered(groups, kvr_provider_find(provider), facts, count, ret_cards);
    leave_out_virtual(groups, facts, count, ret_cards);
}

/* ---- places ---------------------------------------------------------------------------------- */

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
