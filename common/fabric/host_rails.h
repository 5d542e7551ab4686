/* Where the rails lie on this host: puts the facts of rails and the topology together. Any thread;
 * nothing is kept. */
#ifndef KVR_FABRIC_HOST_RAILS_H
#define KVR_FABRIC_HOST_RAILS_H

#include "fabric/fabric.h"
#include "topology/host_groups.h"

/* Fills groups->rails: one rail for each card that reaches other hosts, the first in `facts` that
 * names it; so facts come in the order of preference. Rails outside PCI (a container's veth, a
 * bridge) count only where there is no other. groups->topology is set. */
void kvr_host_rails_choose(struct kvr_host_groups *groups, const struct kvr_rail_facts *facts,
                           uint32_t count);

#define KVR_LEFT_OUT_MAX   64
#define KVR_LEFT_OUT_BYTES 240

/* What `--rail all` means: the rails that kvr_host_rails_choose chose of the one provider, without
 * those that cannot be used. */
struct kvr_host_cards {
    uint32_t count;
    uint32_t rails[KVR_HOST_RAILS_MAX]; /* indices in groups->rails */
    uint32_t left_out_count;            /* of the provider's cards; all are counted */
    char left_out[KVR_LEFT_OUT_MAX][KVR_LEFT_OUT_BYTES]; /* a card, and why, each */
};
/* facts, count: as in kvr_host_rails_choose, of that provider. */
void kvr_host_cards_usable(const struct kvr_host_groups *groups, const char *provider,
                           const struct kvr_rail_facts *facts, uint32_t count,
                           struct kvr_host_cards *ret_cards);

/* The groups of these rails, put together: all their cores, and their node where they share one.
 * The groups were made before. Rails that are in no group (loopback) count for nothing. */
struct kvr_host_place {
    uint32_t group_count;
    uint32_t group; /* the first of them */
    uint32_t node;  /* index in the topology's nodes; KVR_NODE_UNKNOWN: none, or several */
    uint32_t core_count;
    int cores[KVR_CORES_MAX];
};
void kvr_host_rails_place(const struct kvr_host_groups *groups,
                          const struct kvr_rail_facts *const *rails, uint32_t count,
                          struct kvr_host_place *ret_place);

/* Of groups of rails, group g being rails [first[g], first[g + 1]): those with a card as near to
 * the GPU at that PCI address as any, a bit each. 0: there is no such GPU, or no rail has a card.
 */
uint32_t kvr_host_rails_near(const struct kvr_topology *topology, const char *gpu,
                             const struct kvr_rail_facts *const *rails, const uint32_t *first,
                             uint32_t group_count);

#endif
