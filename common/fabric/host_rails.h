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

#endif
