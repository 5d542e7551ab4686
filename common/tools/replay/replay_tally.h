/* From what the engines say of a request to the figures of a replay. */
#ifndef KVR_TOOLS_REPLAY_TALLY_H
#define KVR_TOOLS_REPLAY_TALLY_H

#include "tools/replay/replay_router.h"

/* READY or IN. */
void replay_tally_layers(struct replay_live *live, const struct replay_message *message);
/* The target's ENDED. */
void replay_tally_fetch(struct replay_live *live, const struct replay_message *message,
                        struct replay_figures *figures);
/* Both sides have settled. */
void replay_tally_request(const struct replay_setup *setup, const struct replay_live *live,
                          struct replay_figures *figures);

/* The agents' CPU time, at the start and at the end of the replay. */
void replay_tally_agents(const struct replay_setup *setup, struct replay_figures *figures,
                         bool starting);

#endif
