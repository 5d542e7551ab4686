/* Which rails belong together: a host's rails divided among its GPUs, by distance, and the cores
 * that each group's thread may run on.
 *
 * A rail goes to the GPU that it is nearest to; of several equally near GPUs to the one with the
 * fewest rails. A GPU takes only rails of the kind of nearness that its nearest one has, so that a
 * storage card somewhere in the node is not mixed with the cards on the GPU's own switch. A GPU
 * that got none takes what is left over in its node, else shares the rails of the nearest group
 * that has some near, else takes what is left over anywhere. What is left then forms a group for
 * each NUMA node.
 *
 * Pure: rails and a topology in, groups out. */
#ifndef KVR_TOPOLOGY_HOST_GROUPS_H
#define KVR_TOPOLOGY_HOST_GROUPS_H

#include "base/limits.h"
#include "topology/topology.h"

#define KVR_HOST_RAILS_MAX  KVR_CARDS_MAX
#define KVR_HOST_GROUPS_MAX 64
#define KVR_ODDITIES_MAX    64
#define KVR_ODDITY_BYTES    320

struct kvr_host_rail {
    char name[KVR_NAME_BYTES];
    char interface[KVR_NAME_BYTES]; /* or "" */
    char pci[16];                   /* or "" */
    char provider[16];
    uint64_t speed_bps; /* 0: nobody says */
    bool down;
    const struct kvr_topology_card *card; /* NULL: not known to the topology. Set by the grouping */
};

struct kvr_host_group {
    const struct kvr_topology_card *gpu; /* NULL: the rails of a NUMA node */
    uint32_t gpu_number;                 /* in the order of PCI addresses */
    uint32_t node;                       /* index in the topology's nodes, or KVR_NODE_UNKNOWN */
    uint32_t owner; /* the group whose rails these are; its own number where it shares nobody's */
    uint32_t rail_count;
    struct kvr_group_rail {
        uint32_t rail; /* index in the rails that were grouped */
        struct kvr_distance distance;
    } rails[KVR_RAILS_MAX];
    const int *cores; /* in the topology */
    uint32_t core_count;
};

struct kvr_host_groups {
    const struct kvr_topology *topology; /* borrowed, as long as this is used */
    uint32_t rail_count;
    struct kvr_host_rail rails[KVR_HOST_RAILS_MAX];
    uint32_t group_count;
    struct kvr_host_group groups[KVR_HOST_GROUPS_MAX];
    bool truncated; /* there were more than fit */
};

/* Fills rails from a topology alone: every card on PCI is one, with the provider that it is made
 * for. */
void kvr_host_rails_of_cards(const struct kvr_topology *topology, struct kvr_host_groups *groups);
/* Rails and topology are set; fills the groups. */
void kvr_host_groups_make(struct kvr_host_groups *groups);
/* "GPU 3" or "NUMA node 1". */
const char *kvr_host_group_name(const struct kvr_host_groups *groups, uint32_t group,
                                char ret_name[KVR_NAME_BYTES]);

/* What a provider offers here, and where that is nothing, why. */
struct kvr_host_offer {
    const char *provider;
    uint32_t rail_count;
    const char *reason;
};

struct kvr_oddities {
    uint32_t count;
    char text[KVR_ODDITIES_MAX][KVR_ODDITY_BYTES];
};

/* What somebody should look at: a sentence each. offers: of the providers that were asked. */
void kvr_host_groups_odd(const struct kvr_host_groups *groups, const struct kvr_host_offer *offers,
                         uint32_t offer_count, struct kvr_oddities *ret_oddities);

#endif
