/* Whether a peer's pairs of rails are connected: its groups say so one by one, each once for a
 * session. One that reaches no rail of the peer has nothing to warm up. */
#include "agent/agent_state.h"
#include "base/log.h"

void agent_warmth_up(struct kvr_agent *agent, kvr_ns now, uint32_t peer)
{
    agent->warmth[peer] = (struct agent_warmth){.up_at = now};
}

void agent_warmth_lost(struct kvr_agent *agent, uint32_t peer)
{
    agent->peers_warm -= agent->warmth[peer].told;
    agent->warmth[peer] = (struct agent_warmth){0};
}

void agent_warmth_heard(struct kvr_agent *agent, kvr_ns now,
                        const struct kvr_group_message *message)
{
    struct agent_warmth *warmth;
    struct kvr_peer_info info;

    if ((message->kind != KVR_GROUP_PEER_WARM && message->kind != KVR_GROUP_PEER_ADDED) ||
        message->index >= KVR_PEERS_MAX)
        return;
    warmth = &agent->warmth[message->index];
    if (warmth->up_at == 0 || warmth->told)
        return;
    if (message->kind == KVR_GROUP_PEER_WARM) {
        if (message->b < warmth->up_at)
            return; /* of the session before */
        warmth->pairs += (uint32_t)message->a;
    } else if (message->status == KVR_OK) {
        return;
    }
    warmth->groups |= UINT32_C(1) << message->group;
    if (warmth->groups != (UINT32_C(1) << agent->groups.count) - 1 || warmth->pairs == 0 ||
        !kvr_peers_info(agent->peers, message->index, &info))
        return;
    warmth->told = true;
    agent->peers_warm++;
    kvr_log_info("peer %u is warm: %u pair%s of rails connected, %.1f ms after its hello",
                 message->index, warmth->pairs, warmth->pairs == 1 ? "" : "s",
                 (double)(now - warmth->up_at) / KVR_MS);
    agent_tell_peer_warm(agent, info.agent);
}
