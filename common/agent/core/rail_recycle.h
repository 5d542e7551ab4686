/* Which rails of an agent get a fresh endpoint, and when: one rail of a rail group at a time, so
 * that the others carry on. Pure. */
#ifndef KVR_AGENT_RAIL_RECYCLE_H
#define KVR_AGENT_RAIL_RECYCLE_H

#include "agent/core/ports.h"

struct kvr_rail_recycle { /* bit r: rail r */
    uint64_t wanted;      /* and not begun */
    uint64_t under_way;
};

static inline bool kvr_rail_recycle_under_way(const struct kvr_rail_recycle *recycle, uint32_t rail)
{
    return (recycle->under_way >> rail & 1) != 0;
}

/* The rail is wanted, or its recycling has ended: begins the next one of its rail group, unless one
 * is under way there. */
void kvr_rail_recycle_next(struct kvr_rail_recycle *recycle, const struct kvr_rail_groups *groups,
                           const struct kvr_ports *ports, uint32_t rail);

#endif
