/* Where the rails that libfabric offers lie on this host: facts of rails and the topology, put
 * together. Any thread; nothing is kept. */
#ifndef KVR_FABRIC_HOST_RAILS_H
#define KVR_FABRIC_HOST_RAILS_H

#include "fabric/fabric.h"
#include "topology/host_groups.h"

/* One rail for each card, of those that reach other hosts: the first that names it, so facts come
 * in the order of preference. What is not on PCI (a container's veth, a bridge) counts only where
 * nothing else is. groups->topology is set; fills groups->rails. */
void kvr_host_rails_choose(struct kvr_host_groups *groups, const struct kvr_rail_facts *facts,
                           uint32_t count);

/* The groups that these rails are of, as one: the cores of all of them, and the node where it is
 * one. groups were made. Rails that are in no group (loopback) count for nothing. */
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
