#include "agent/core/rail_recycle.h"

void kvr_rail_recycle_next(struct kvr_rail_recycle *recycle, const struct kvr_rail_groups *groups,
                           const struct kvr_ports *ports, uint32_t rail)
{
    uint32_t group = kvr_rail_groups_of(groups, rail);
    const uint32_t *first = &groups->first[group];

    for (uint32_t i = first[0]; i < first[1]; i++)
        if (kvr_rail_recycle_under_way(recycle, i))
            return;
    for (uint32_t i = first[0]; i < first[1]; i++) {
        struct kvr_group_message message = {.head = {.kind = KVR_GROUP_RECYCLE, .group = group},
                                            .recycle.rail = i};

        if ((recycle->wanted >> i & 1) == 0)
            continue;
        recycle->wanted &= ~(UINT64_C(1) << i);
        recycle->under_way |= UINT64_C(1) << i;
        ports->command(ports->self, &message);
        return;
    }
}
