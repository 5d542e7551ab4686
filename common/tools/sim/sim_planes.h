/* Worlds in which rails are in planes that do not reach each other. */
#ifndef KVR_TOOLS_SIM_PLANES_H
#define KVR_TOOLS_SIM_PLANES_H

#include "base/clock.h"
#include "rail_group/rail_group.h"

struct sim_agent;

/* Of a source's process. */
struct sim_planes {
    kvr_other_planes other;
    bool broken;     /* a pair within a plane broke, or may have been in doubt */
    bool left;       /* while none had, a write left its plane */
    uint32_t target; /* for that agent */
    kvr_ns left_at;
    kvr_ns tried_from; /* when pairs with the first target were made; 0: not yet */
};

/* Of a process that begins: the planes of its cards, "" where its world has none. */
void sim_planes_choose(struct sim_agent *agent, uint32_t cards, const char *ret_names[]);
/* A write goes from one plane to another; a hook of the net. */
void sim_planes_across(void *self, void *host, void *target_host);
/* The loop hears this of a group. */
void sim_planes_heard(struct sim_agent *agent, const struct kvr_group_message *message);
/* At the end: no write left its plane without need (rule 16). */
void sim_planes_check(const struct sim_agent *agent);

#endif
