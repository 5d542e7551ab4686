/* What was found of this host while the rails are opened: its topology, and the rails that the
 * provider offers. Main thread; the agent owns it until the rails are divided. */
#ifndef KVR_AGENT_AGENT_HOST_H
#define KVR_AGENT_AGENT_HOST_H

#include "agent/agent.h"
#include "fabric/host_rails.h"

struct agent_host {
    struct kvr_topology *topology;
    uint32_t offered_count;
    struct kvr_rail_facts offered[KVR_HOST_RAILS_MAX];
    struct kvr_error none; /* why nothing is offered */
    struct kvr_host_groups groups;
    struct kvr_host_place place; /* for callers */
    struct kvr_host_cards cards; /* the same */
};

/* Read by the first call; borrowed until agent_host_forget. */
KVR_MUST_CHECK kvr_status agent_host_read(struct kvr_agent *agent, struct agent_host **ret_host,
                                          struct kvr_error *error);
void agent_host_forget(struct kvr_agent *agent); /* idempotent */

/* The usable cards of the agent's provider, which are what `--rail all` means; says which others
 * were left out, and why. NOT_FOUND: there are none. TOO_LARGE: there are more than an agent takes.
 */
KVR_MUST_CHECK kvr_status agent_host_cards(struct kvr_agent *agent, struct agent_host **ret_host,
                                           struct kvr_error *error);

#endif
