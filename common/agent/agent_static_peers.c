/* The prefill-agents of --prefill-agent. The decode-agent dials them before any fetch names them,
 * and again after each loss, so that the first transfer waits neither for the hello nor for
 * connections of rails. While a peer does not answer, its own backoff dials it; this file only
 * begins a new session after one has ended. */
#include "agent/agent_state.h"
#include "base/log.h"

#define REFUSED_NS (10 * KVR_S) /* a peer that refused this agent is dialed again after that */

void agent_static_peers_dial(struct kvr_agent *agent, kvr_ns now)
{
    const struct kvr_option_list *addresses = &agent->config->prefill_agents;

    for (uint32_t i = 0; i < addresses->count && !agent->draining && !agent->closing; i++) {
        struct agent_static_peer *static_peer = &agent->static_peers[i];
        struct kvr_error error;

        if (static_peer->dialed || now < static_peer->dial_at)
            continue;
        static_peer->dialed =
            kvr_peers_dial(agent->peers, addresses->items[i], &static_peer->peer, &error) == KVR_OK;
        if (!static_peer->dialed && !static_peer->missed)
            kvr_log_failure(KVR_LOG_WARNING, "--prefill-agent", &error);
        static_peer->missed |= !static_peer->dialed;
    }
}

bool agent_static_peer_lost(struct kvr_agent *agent, kvr_ns now, uint32_t peer, bool was_up,
                            kvr_status status)
{
    bool missed = false;

    for (uint32_t i = 0; i < agent->config->prefill_agents.count; i++) {
        struct agent_static_peer *static_peer = &agent->static_peers[i];

        if (!static_peer->dialed || static_peer->peer != peer)
            continue;
        static_peer->dialed = false;
        missed |= static_peer->missed && !was_up;
        static_peer->missed = true;
        static_peer->dial_at = status == KVR_PEER_LOST ? 0 : now + REFUSED_NS;
    }
    return missed;
}
