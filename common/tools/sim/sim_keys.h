/* Keys of one transfer alone (rule 14). */
#ifndef KVR_TOOLS_SIM_KEYS_H
#define KVR_TOOLS_SIM_KEYS_H

#include "tools/sim/sim_world.h"

/* As an agent opens the memory that its peers write to. */
static inline kvr_remote_access sim_remote_access(const struct sim_agent *agent)
{
    return agent->source ? KVR_REMOTE_NONE : KVR_REMOTE_GRANTED;
}

/* Whenever a target engine gets its pages back. */
void sim_keys_check(const struct sim_agent *agent);
/* Whenever an agent sends a message. */
void sim_keys_check_grant(const struct sim_agent *agent, const struct kvr_message *message);
/* At the end of a world. */
void sim_keys_check_empty(const struct sim_agent *agent);

#endif
