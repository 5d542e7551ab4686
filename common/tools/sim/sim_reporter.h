/* What simulated agents report to the scheduler, as agent/reporter.c does: events are numbered from
 * 1 in every boot, kept until they are acknowledged, and sent again until then. A boot that died
 * leaves a spool, or does not; the next boot of the agent sends it.
 *
 * Owned by the world, freed with it. */
#ifndef KVR_TOOLS_SIM_REPORTER_H
#define KVR_TOOLS_SIM_REPORTER_H

#include "trace/event.h"

struct sim_world;
struct sim_agent;

struct sim_reporter { /* one boot of one agent */
    struct sim_reporter *next;
    struct sim_agent *agent;
    uint64_t boot, acknowledged; /* events up to this number need not be sent again */
    bool dead, armed;
    struct kvr_event *events; /* all of them: events[i] has number i + 1 */
    uint32_t count, capacity;
};

struct sim_reporter *sim_reporter_open(struct sim_agent *agent);
void sim_reporter_event(struct sim_reporter *reporter, const struct kvr_event *event);
void sim_reporter_die(struct sim_reporter *reporter); /* with its agent */
/* Every report that can still reach the scheduler has, and it has given up the agents that are
 * gone.
 */
void sim_reporters_settle(struct sim_world *world);
void sim_reporters_free(struct sim_world *world);

#endif
