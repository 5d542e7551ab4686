/* The processes of a replay's engines. */
#ifndef KVR_TOOLS_REPLAY_PROCESSES_H
#define KVR_TOOLS_REPLAY_PROCESSES_H

#include "tools/replay/replay_router.h"

/* Starts the engine at that place of setup->agents; what fails is said. */
bool replay_process_start(struct replay_router *router, uint32_t at);
/* All that are declared in the setup. */
bool replay_processes_start(struct replay_router *router);
/* Writes the engines' process ids to the stream and closes that; NULL: nothing. */
bool replay_processes_write(const struct replay_router *router, FILE *pids);
/* Kills one, and waits for its end. */
void replay_process_kill(struct replay_router *router, uint32_t at);
void replay_processes_end(struct replay_router *router);

#endif
