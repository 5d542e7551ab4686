/* Whether pairs of rails with a peer have carried bytes. Each group of ours reports its own pairs
 * in each session with the peer. When all pairs of a group have failed, the group reports that no
 * pair works, so that the other groups do not wait; another report follows when a pair works. A
 * group that reaches no rail of the peer has nothing to warm up. */
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

static void unreachable_say(struct agent_warmth *warmth, uint32_t peer,
                            const struct kvr_peer_info *info)
{
    if (!warmth->unreachable_said)
        kvr_log_warning(
            "no rail reaches peer %u (\"%s\"): what it fetches fails until one does. Look "
            "at the network between the cards of both hosts, and whether a firewall "
            "lets the rails' ports through",
            peer, info->agent);
    warmth->unreachable_said = true;
}

void agent_warmth_heard(struct kvr_agent *agent, kvr_ns now,
                        const struct kvr_group_message *message)
{
    bool warm = message->head.kind == KVR_GROUP_PEER_WARM;
    uint32_t peer = warm ? message->peer_warm.peer : message->peer_rails.peer;
    struct agent_warmth *warmth;
    struct kvr_peer_info info;

    if ((!warm && message->head.kind != KVR_GROUP_PEER_ADDED) || peer >= KVR_PEERS_MAX)
        return;
    warmth = &agent->warmth[peer];
    if (warmth->up_at == 0 || warmth->told)
        return;
    if (warm) {
        if (message->peer_warm.added_at < warmth->up_at)
            return; /* of the session before */
        warmth->pairs += message->peer_warm.pairs;
    } else if (message->peer_rails.status == KVR_OK) {
        return;
    }
    warmth->groups |= UINT32_C(1) << message->head.group;
    if (warmth->groups != (UINT32_C(1) << agent->groups.count) - 1 ||
        !kvr_peers_info(agent->peers, peer, &info))
        return;
    if (warmth->pairs == 0) {
        unreachable_say(warmth, peer, &info);
        return;
    }
    warmth->told = true;
    agent->peers_warm++;
    kvr_log_info("peer %u is warm: %u pair%s of rails connected, %.1f ms after its hello", peer,
                 warmth->pairs, warmth->pairs == 1 ? "" : "s",
                 (double)(now - warmth->up_at) / KVR_MS);
    agent_tell_peer_warm(agent, info.agent);
}
