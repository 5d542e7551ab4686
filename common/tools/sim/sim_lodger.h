/* Lodgers: regions that lie in the memory of another region of their engine (memory_of), with a
 * layout of their own. */
#ifndef KVR_TOOLS_SIM_LODGER_H
#define KVR_TOOLS_SIM_LODGER_H

#include "tools/sim/sim_world.h"

/* Whether the world has them, by its seed alone: a world without is the one that it was before. */
bool sim_lodgers_in(uint64_t seed);
/* Which regions lodge, with which, and where. The regions have layouts, and no memory yet. */
void sim_lodgers_choose(struct sim_engine *engine);
/* Bits of the regions that share the memory of this one, and its own. */
uint32_t sim_lodgers_with(const struct sim_engine *engine, uint32_t which);

#endif
