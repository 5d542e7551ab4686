/* Divides a host's rails among its GPUs, by distance, and assigns each group's thread its cores.
 *
 * A rail goes to the nearest GPU; of several equally near GPUs, to the one with the fewest rails. A
 * GPU takes only rails as near as its nearest one (the same kvr_nearness). So a storage card
 * somewhere in the node is not mixed with the cards on the GPU's own switch.
 *
 * A GPU without a rail takes a rail left over in its node. Without such a rail it shares the rails
 * of the nearest group that has near ones. Else it takes a rail left over anywhere. The remaining
 * rails form a group for each NUMA node.
 *
 * Pure: rails and a topology in, groups out. */
#ifndef KVR_TOPOLOGY_HOST_GROUPS_H
#define KVR_TOPOLOGY_HOST_GROUPS_H

#include "base/limits.h"
#include "base/names.h"
#include "topology/topology.h"

#define KVR_HOST_RAILS_MAX  KVR_CARDS_MAX
#define KVR_HOST_GROUPS_MAX 64
#define KVR_ODDITIES_MAX    64
#define KVR_ODDITY_BYTES    320

struct kvr_host_rail {
    char name[KVR_NAME_BYTES];
    char interface[KVR_NAME_BYTES]; /* or "" */
    char source[KVR_NAME_BYTES];    /* its local address, or "" */
    char pci[16];                   /* or "" */
    char provider[16];
    uint64_t speed_bps; /* 0: unknown */
    bool down;
    const struct kvr_topology_card *card; /* set by the grouping; NULL: not in the topology */
};

struct kvr_host_group {
    const struct kvr_topology_card *gpu; /* NULL: the rails of a NUMA node */
    uint32_t gpu_number;                 /* in the order of PCI addresses */
    uint32_t node;                       /* index in the topology's nodes, or KVR_NODE_UNKNOWN */
    uint32_t owner; /* the group that owns these rails; its own number where it shares no rails */
    uint32_t rail_count;
    struct kvr_group_rail {
        uint32_t rail; /* index in the rails given to the grouping */
        struct kvr_distance distance;
    } rails[KVR_RAILS_MAX];
    const int *cores; /* in the topology */
    uint32_t core_count;
};

struct kvr_host_groups {
    const struct kvr_topology *topology; /* borrowed for the life of this struct */
    uint32_t rail_count;
    struct kvr_host_rail rails[KVR_HOST_RAILS_MAX];
    uint32_t group_count;
    struct kvr_host_group groups[KVR_HOST_GROUPS_MAX];
    bool truncated; /* there were more than fit */
};

/* The name of the provider that fits a card. */
typedef const char *kvr_card_provider(const struct kvr_topology_card *card);
/* Fills rails from a topology alone: each card on PCI is one rail, with the provider that fits it.
 */
void kvr_host_rails_of_cards(const struct kvr_topology *topology, kvr_card_provider *provider_of,
                             struct kvr_host_groups *groups);
/* Rails and topology are set; fills the groups. */
void kvr_host_groups_make(struct kvr_host_groups *groups);
/* "GPU 3" or "NUMA node 1". */
const char *kvr_host_group_name(const struct kvr_host_groups *groups, uint32_t group,
                                char ret_name[KVR_NAME_BYTES]);

/* The rails that a provider offers here, or the reason why there are none. */
struct kvr_host_offer {
    const char *provider;
    uint32_t rail_count;
    const char *reason;
};

/* X(symbol, what to do about it) */
#define KVR_ODD_LIST(X)                                                                            \
    X(KVR_ODD_NO_CARD, "look for the cards and their drivers (lspci, ip link), and give each an "  \
                       "IP address")                                                               \
    X(KVR_ODD_MORE, "name cards for the agents with --rail")                                       \
    X(KVR_ODD_GPU_ALONE, "name cards for an agent of that GPU with --rail")                        \
    X(KVR_ODD_GPU_SHARES, "put a card on that GPU's PCIe switch, or let fewer GPUs transfer")      \
    X(KVR_ODD_FAR, "use a card on the GPU's own socket, or put one there")                         \
    X(KVR_ODD_SPEEDS, "give each GPU cards of one speed, or leave out the slow ones (--rail)")     \
    X(KVR_ODD_UNEVEN, "give each GPU as many cards: the slowest GPU holds the others back")        \
    X(KVR_ODD_RAIL_DOWN, "look at its cable and its switch port")                                  \
    X(KVR_ODD_CARD_DOWN, "look at its cable and its switch port")                                  \
    X(KVR_ODD_SLOT, "put it into another slot, or find why the link came up narrower than it is "  \
                    "(lspci -vv: LnkSta)")                                                         \
    X(KVR_ODD_NO_RAILS, "install the provider's driver and package, or choose a libfabric that "   \
                        "has it (--libfabric)")                                                    \
    X(KVR_ODD_CARD_UNUSED,                                                                         \
      "give each of its ports an IP address (to one of InfiniBand by IPoIB), "                     \
      "unless no agent will name it")                                                              \
    X(KVR_ODD_SHARED_SUBNET, "set sysctl net.ipv4.conf.all.arp_ignore=2 and a routing rule for "   \
                             "each source address, or give each card its own subnet")              \
    X(KVR_ODD_SMALL_MTU, "set an MTU of 4200 or more on it (ip link set NAME mtu 9000), on its "   \
                         "peers and on the switches between them")

typedef enum kvr_odd { KVR_ODD_LIST(KVR_SYMBOL) KVR_ODD_END } kvr_odd;

const char *kvr_odd_remedy(kvr_odd kind);

struct kvr_oddities {
    uint32_t count;
    struct kvr_oddity {
        kvr_odd kind;
        char text[KVR_ODDITY_BYTES]; /* a sentence without the remedy */
    } list[KVR_ODDITIES_MAX];
};

/* One more; none where the list is full. */
void kvr_oddity_add(struct kvr_oddities *oddities, kvr_odd kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Oddities that an operator should see. offers: of the queried providers; provider_of is called for
 * these only. */
void kvr_host_groups_odd(const struct kvr_host_groups *groups, kvr_card_provider *provider_of,
                         const struct kvr_host_offer *offers, uint32_t offer_count,
                         struct kvr_oddities *ret_oddities);

#endif
