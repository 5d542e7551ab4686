/* Describes oddities of a host's rails in sentences. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topology/host_groups.h"

#define GBPS(bits) ((double)(bits) / 1e9)

const char *kvr_odd_remedy(kvr_odd kind)
{
    static const char *const remedies[KVR_ODD_END] = {KVR_ODD_LIST(KVR_NAME)};

    return remedies[kind];
}

void kvr_oddity_add(struct kvr_oddities *oddities, kvr_odd kind, const char *format, ...)
{
    struct kvr_oddity *oddity;
    va_list arguments;

    if (oddities->count == KVR_ODDITIES_MAX)
        return;
    oddity = &oddities->list[oddities->count++];
    oddity->kind = kind;
    va_start(arguments, format);
    (void)vsnprintf(oddity->text, sizeof(oddity->text), format, arguments);
    va_end(arguments);
}

static const char *node_name(const struct kvr_topology *topology, uint32_t node, char text[32])
{
    if (node == KVR_NODE_UNKNOWN)
        snprintf(text, 32, "an unknown NUMA node");
    else
        snprintf(text, 32, "NUMA node %u", topology->nodes[node].number);
    return text;
}

static void odd_distances(const struct kvr_host_groups *groups, uint32_t g,
                          struct kvr_oddities *oddities)
{
    const struct kvr_host_group *group = &groups->groups[g];
    char here[32], there[32], owner[KVR_NAME_BYTES];

    if (group->gpu == NULL)
        return;
    if (group->rail_count == 0 && groups->rail_count > 0)
        kvr_oddity_add(oddities, KVR_ODD_GPU_ALONE, "GPU %u (%s) has no card", group->gpu_number,
                       group->gpu->pci);
    else if (group->owner != g)
        kvr_oddity_add(
            oddities, KVR_ODD_GPU_SHARES,
            "GPU %u (%s) has no card of its own and shares those of %s: their speed is divided",
            group->gpu_number, group->gpu->pci, kvr_host_group_name(groups, group->owner, owner));
    for (uint32_t i = 0; i < group->rail_count; i++) {
        const struct kvr_host_rail *rail = &groups->rails[group->rails[i].rail];

        if (group->rails[i].distance.nearness != KVR_NEAR_NOT)
            continue;
        kvr_oddity_add(
            oddities, KVR_ODD_FAR,
            "card %s (%s) is far from GPU %u (%s): it is on %s and the GPU on %s, so that every "
            "byte crosses the processors",
            rail->name, rail->pci[0] != '\0' ? rail->pci : "not on PCI", group->gpu_number,
            group->gpu->pci,
            node_name(groups->topology, rail->card != NULL ? rail->card->node : KVR_NODE_UNKNOWN,
                      here),
            node_name(groups->topology, group->gpu->node, there));
    }
}

/* Writes go to any rail that has room, so unequal cards work, but the GPU then has less bandwidth.
 */
static void odd_speeds(const struct kvr_host_groups *groups, uint32_t g,
                       struct kvr_oddities *oddities)
{
    const struct kvr_host_group *group = &groups->groups[g];
    const struct kvr_host_rail *slow = NULL, *fast = NULL;
    char name[KVR_NAME_BYTES];

    if (group->owner != g)
        return;
    for (uint32_t i = 0; i < group->rail_count; i++) {
        const struct kvr_host_rail *rail = &groups->rails[group->rails[i].rail];

        if (rail->speed_bps == 0)
            continue;
        if (slow == NULL || rail->speed_bps < slow->speed_bps)
            slow = rail;
        if (fast == NULL || rail->speed_bps > fast->speed_bps)
            fast = rail;
    }
    if (slow != NULL && slow->speed_bps < fast->speed_bps)
        kvr_oddity_add(oddities, KVR_ODD_SPEEDS,
                       "the cards of %s have unequal speeds: %s %.0f Gb/s, %s %.0f Gb/s",
                       kvr_host_group_name(groups, g, name), fast->name, GBPS(fast->speed_bps),
                       slow->name, GBPS(slow->speed_bps));
}

static uint64_t speed_of(const struct kvr_host_groups *groups, const struct kvr_host_group *group)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < group->rail_count; i++)
        sum += groups->rails[group->rails[i].rail].speed_bps;
    return sum;
}

/* GPUs of one host do the same work: a GPU with less bandwidth than another holds all of them back.
 */
static void odd_shares(const struct kvr_host_groups *groups, struct kvr_oddities *oddities)
{
    const struct kvr_host_group *least = NULL, *most = NULL;

    for (uint32_t g = 0; g < groups->group_count; g++) {
        const struct kvr_host_group *group = &groups->groups[g];

        if (group->gpu == NULL || group->owner != g)
            continue;
        if (least == NULL || group->rail_count < least->rail_count)
            least = group;
        if (most == NULL || group->rail_count > most->rail_count)
            most = group;
    }
    if (least != NULL && least->rail_count < most->rail_count)
        kvr_oddity_add(oddities, KVR_ODD_UNEVEN,
                       "GPU %u has %u cards (%.0f Gb/s), GPU %u has %u (%.0f Gb/s)",
                       most->gpu_number, most->rail_count, GBPS(speed_of(groups, most)),
                       least->gpu_number, least->rail_count, GBPS(speed_of(groups, least)));
}

static void add_down(const struct kvr_host_rail *rail, kvr_odd kind, struct kvr_oddities *oddities)
{
    kvr_oddity_add(oddities, kind, "the link of card %s (%s) is down", rail->name,
                   rail->pci[0] != '\0' ? rail->pci : "not on PCI");
}

static void odd_links(const struct kvr_host_groups *groups, struct kvr_oddities *oddities)
{
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        const struct kvr_host_rail *rail = &groups->rails[i];

        if (rail->down)
            add_down(rail, KVR_ODD_RAIL_DOWN, oddities);
        if (rail->card != NULL && rail->card->pci_link_bps > 0 &&
            rail->card->pci_link_bps < rail->speed_bps)
            kvr_oddity_add(oddities, KVR_ODD_SLOT,
                           "card %s (%s) can do %.0f Gb/s, its PCIe slot only %.0f", rail->name,
                           rail->pci, GBPS(rail->speed_bps), GBPS(rail->card->pci_link_bps));
    }
}

static bool has_rail(const struct kvr_host_groups *groups, const struct kvr_host_rail *card)
{
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        if (strcmp(groups->rails[i].pci, card->pci) == 0)
            return true;
    }
    return false;
}

/* The first card that fits a provider. */
static const struct kvr_host_rail *made_for(const struct kvr_host_groups *cards,
                                            const char *provider)
{
    for (uint32_t i = 0; i < cards->rail_count; i++) {
        if (strcmp(cards->rails[i].provider, provider) == 0)
            return &cards->rails[i];
    }
    return NULL;
}

static bool has_rail_of(const struct kvr_host_groups *groups, const struct kvr_topology_card *card,
                        const char *provider)
{
    for (uint32_t i = 0; i < groups->rail_count; i++) {
        if (strcmp(groups->rails[i].pci, card->pci) == 0 &&
            strcmp(groups->rails[i].provider, provider) == 0)
            return true;
    }
    return false;
}

/* libfabric offers rails on other cards of the provider, but none on this one: its ports have no
 * address that the provider could use. */
static void odd_unused(const struct kvr_host_groups *groups, kvr_card_provider *provider_of,
                       const struct kvr_host_offer *offer, struct kvr_oddities *oddities)
{
    for (uint32_t i = 0; i < groups->topology->card_count; i++) {
        const struct kvr_topology_card *card = &groups->topology->cards[i];

        if (card->kind == KVR_CARD_RDMA && card->pci[0] != '\0' && !card->down &&
            strcmp(provider_of(card), offer->provider) == 0 &&
            !has_rail_of(groups, card, offer->provider))
            kvr_oddity_add(oddities, KVR_ODD_CARD_UNUSED,
                           "card %s (%s) is up, but libfabric offers no %s rail on it", card->name,
                           card->pci, offer->provider);
    }
}

static void odd_providers(const struct kvr_host_groups *groups, kvr_card_provider *provider_of,
                          const struct kvr_host_offer *offers, uint32_t offer_count,
                          struct kvr_oddities *oddities)
{
    static struct kvr_host_groups cards; /* large; written anew by each call */

    if (offer_count == 0)
        return;
    kvr_host_rails_of_cards(groups->topology, provider_of, &cards);
    for (uint32_t i = 0; i < cards.rail_count; i++) {
        if (cards.rails[i].down && !has_rail(groups, &cards.rails[i]))
            add_down(&cards.rails[i], KVR_ODD_CARD_DOWN, oddities);
    }
    for (uint32_t i = 0; i < offer_count; i++) {
        const struct kvr_host_rail *card = made_for(&cards, offers[i].provider);

        if (card != NULL && offers[i].rail_count == 0)
            kvr_oddity_add(oddities, KVR_ODD_NO_RAILS,
                           "card %s (%s) is made for provider %s, but libfabric offers none: %s",
                           card->name, card->pci, offers[i].provider, offers[i].reason);
        else if (offers[i].rail_count > 0)
            odd_unused(groups, provider_of, &offers[i], oddities);
    }
}

void kvr_host_groups_odd(const struct kvr_host_groups *groups, kvr_card_provider *provider_of,
                         const struct kvr_host_offer *offers, uint32_t offer_count,
                         struct kvr_oddities *ret_oddities)
{
    ret_oddities->count = 0;
    if (groups->rail_count == 0)
        kvr_oddity_add(ret_oddities, KVR_ODD_NO_CARD,
                       "there is no network card that a rail could use");
    for (uint32_t g = 0; g < groups->group_count; g++) {
        odd_distances(groups, g, ret_oddities);
        odd_speeds(groups, g, ret_oddities);
    }
    odd_shares(groups, ret_oddities);
    odd_links(groups, ret_oddities);
    odd_providers(groups, provider_of, offers, offer_count, ret_oddities);
    if (groups->truncated || groups->topology->truncated)
        kvr_oddity_add(ret_oddities, KVR_ODD_MORE,
                       "this host has more devices than kvrail looks at");
}
