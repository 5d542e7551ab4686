/* The regions of an engine: how their pages lie in memory, and their way to and from the agent. */
#ifndef KVR_TOOLS_SIM_REGION_H
#define KVR_TOOLS_SIM_REGION_H

#include "tools/sim/sim_world.h"

/* The layers that it holds, divided into regions. */
void sim_regions_choose(struct sim_engine *engine);
/* Under a number that no region of this engine had before. */
void sim_region_add(struct sim_engine *engine, uint32_t which);
/* Its agent has no more use for it. Regions of one memory are released with the last of them. */
void sim_region_done(struct sim_agent *agent, struct kvr_region *region, uint32_t number);
/* Those that its agent held to its end. */
void sim_engine_regions_release(struct sim_engine *engine);
/* Drops a region that is there, or all that share its memory, and adds them under other numbers
 * after a while. */
void sim_engine_region_change(struct sim_engine *engine);
/* All that its agent has attached. */
struct kvr_engines *sim_engines_of(const struct sim_engine *engine);

#endif
