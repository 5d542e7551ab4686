/* The prefill-agents that a decode-agent is told of at its start: they are dialed before any fetch
 * names them, and again after each loss, so that the first transfer waits neither for the hello nor
 * for connections of rails. What dials a peer that answers slowly is the peer's own backoff; this
 * only brings back a session that has ended. */
#include "agent/agent_state.h"
#include "base/log.h"

#define REFUSED_NS (10 * KVR_S) /* whoever turned us away is asked again then */

void agent_wanted_dial(struct kvr_agent *agent, kvr_ns now)
{
    const struct kvr_option_list *addresses = &agent->config->prefill_agents;

    for (uint32_t i = 0; i < addresses->count && !agent->draining && !agent->closing; i++) {
        struct agent_wanted *wanted = &agent->wanted[i];
        struct kvr_error error;

        if (wanted->dialed || now < wanted->dial_at)
            continue;
        wanted->dialed =
            kvr_peers_dial(agent->peers, addresses->items[i], &wanted->peer, &error) == KVR_OK;
        if (!wanted->dialed && !wanted->missed)
            kvr_log_failure(KVR_LOG_WARNING, "--prefill-agent", &error);
        wanted->missed |= !wanted->dialed;
    }
}

bool agent_wanted_lost(struct kvr_agent *agent, kvr_ns now, uint32_t peer, bool was_up,
                       kvr_status status)
{
    bool missed = false;

    for (uint32_t i = 0; i < agent->config->prefill_agents.count; i++) {
        struct agent_wanted *wanted = &agent->wanted[i];

        if (!wanted->dialed || wanted->peer != peer)
            continue;
        wanted->dialed = false;
        missed |= wanted->missed && !was_up;
        wanted->missed = true;
        wanted->dial_at = status == KVR_PEER_LOST ? 0 : now + REFUSED_NS;
    }
    return missed;
}
