/* Queries on a host that has been read. */
#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>

#define STEP 10 /* of the distance, for each part of the processor on the way */

void kvr_topology_free(struct kvr_topology *topology)
{
    free(topology);
}

const char *kvr_card_kind_name(kvr_card_kind kind)
{
    switch (kind) {
    case KVR_CARD_INTERFACE:
        return "interface";
    case KVR_CARD_RDMA:
        return "rdma";
    case KVR_CARD_GPU:
        return "gpu";
    }
    return "?";
}

const struct kvr_topology_card *kvr_topology_find_card(const struct kvr_topology *topology,
                                                       const char *pci, const char *name)
{
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        if (pci[0] != '\0' ? strcmp(card->pci, pci) == 0 : strcmp(card->name, name) == 0)
            return card;
    }
    return NULL;
}

const struct kvr_topology_card *kvr_topology_card_of(const struct kvr_topology *topology,
                                                     const char *pci, const char *interface)
{
    const struct kvr_topology_card *card = NULL;

    if (pci[0] != '\0')
        card = kvr_topology_find_card(topology, pci, "");
    if (card == NULL && interface[0] != '\0')
        card = kvr_topology_find_card(topology, "", interface);
    return card;
}

struct kvr_distance kvr_topology_distance(const struct kvr_topology_card *a,
                                          const struct kvr_topology_card *b)
{
    uint32_t shared = 0, links;

    while (shared < a->bridge_count && shared < b->bridge_count &&
           a->bridges[shared] == b->bridges[shared])
        shared++;
    links = (a->bridge_count - shared) + (b->bridge_count - shared) + (shared > 0 ? 2 : 0);
    if (shared > 1)
        return (struct kvr_distance){KVR_NEAR_SWITCH, links};
    if (shared == 1)
        return (struct kvr_distance){KVR_NEAR_HOST, links + STEP};
    if (a->node == b->node && a->node != KVR_NODE_UNKNOWN)
        return (struct kvr_distance){KVR_NEAR_NODE, links + 2 * STEP};
    return (struct kvr_distance){KVR_NEAR_NOT, links + 3 * STEP};
}

const char *kvr_nearness_name(kvr_nearness nearness)
{
    static const char *const names[] = {"switch", "host bridge", "node", "far"};

    return names[nearness];
}
