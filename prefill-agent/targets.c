#include "prefill-agent/targets.h"

#include "base/mutant.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/senders.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

void outbound_peer_up(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_msg_hello *hello)
{
    struct outbound_peer *state = &outbound->peers[peer];
    struct kvr_peer_rails *rails[KVR_RAIL_GROUPS_MAX];
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PEER_ADD, .peer_rails.peer = peer};

    outbound->now = now;
    if (!outbound_copies_take(outbound, sizeof(*rails[0]), (void **)rails)) {
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_NO_MEMORY,
                                 "no memory for a peer's rails");
        return;
    }
    state->up = true;
    state->up_at = now;
    state->session = hello->session;
    state->limits = hello->limits;
    memcpy(state->agent, hello->agent, sizeof(state->agent));
    state->group_count = 1;
    state->same_host = 0;
    state->needs_senders = false;
    memset(state->visibilities, 0, sizeof(state->visibilities));
    for (uint32_t i = 0; i < hello->rail_count; i++) {
        if (hello->rails[i].group >= state->group_count && hello->rails[i].group < KVR_RAILS_MAX)
            state->group_count = hello->rails[i].group + 1;
        state->needs_senders |= hello->rails[i].needs_senders;
        if (hello->rails[i].same_host && hello->rails[i].rail < KVR_RAILS_MAX)
            state->same_host |= UINT64_C(1) << hello->rails[i].rail;
    }
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        state->repair_at[i] = state->renew_at[i] = KVR_NEVER;
    for (uint32_t i = 0; i < KVR_RAIL_GROUPS_MAX; i++)
        state->lost[i] = (struct outbound_lost){.since = KVR_NEVER, .from = KVR_NEVER};
    state->broken = (struct kvr_group_pair_broken){0};
    state->shared = 0;
    for (uint32_t group = 0; group < outbound->options.groups.count; group++) {
        message.head.group = group;
        message.peer_rails.rails = rails[group];
        rails[group]->rail_count = hello->rail_count;
        memcpy(rails[group]->rails, hello->rails, hello->rail_count * sizeof(hello->rails[0]));
        outbound->ports->command(outbound->ports->self, &message);
    }
    senders_tell(outbound, peer);
}

void outbound_peer_lost(struct outbound *outbound, kvr_ns now, uint32_t peer, kvr_status status,
                        const char *detail)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PEER_DROP, .peer_drop.peer = peer};

    outbound->now = now;
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers) {
        if (transfer->peer != peer || transfer->peer_gone)
            continue;
        transfer->peer_gone = true;
        if (transfer->state == ST_ENDED)
            source_transfer_free(outbound, transfer);
        else
            source_transfer_end(outbound, transfer, status, detail);
    }
    kvr_engines_peer_lost(&outbound->engines, peer);
    if (!outbound->peers[peer].up)
        return;
    outbound->peers[peer].up = false;
    outbound_command_groups(outbound, &message);
}

void outbound_peer_writable(struct outbound *outbound, kvr_ns now, uint32_t peer)
{
    outbound->now = now;
    kvr_engines_writable(&outbound->engines, peer);
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers) {
        if (transfer->peer != peer || transfer->peer_gone)
            continue;
        pending_send(outbound, transfer);
        retransmit_lists_send(outbound, transfer);
        digest_send(outbound, transfer);
        source_transfer_advance(outbound, transfer);
    }
}

/* ---- absence (rule 8) ------------------------------------------------------------------------ */

/* A stopped process may find a GRANT queued when it wakes, from a peer that has fenced it
 * meanwhile. A gap between two events of the loop shows that the process was stopped; a group
 * thread may have slept for good reasons. */
void targets_awake(struct outbound *outbound)
{
    struct kvr_group_message away = {.head.kind = KVR_GROUP_SUSPENDED,
                                     .suspended.since = outbound->awake_at};

    if (outbound->awake_at != 0 && outbound_live(outbound) > 0 &&
        outbound->now - outbound->awake_at > outbound->options.silence_ns / 2)
        outbound_command_groups(outbound, &away);
    outbound->awake_at = outbound->now;
}

void targets_alive(struct outbound *outbound, uint32_t peer, uint64_t token)
{
    struct kvr_group_message message = {
        .head = {.kind = KVR_GROUP_CONFIRMED, .group = token % KVR_RAIL_GROUPS_MAX},
        .confirmed = {.peer = peer, .count = token / KVR_RAIL_GROUPS_MAX},
    };

    if (outbound->peers[peer].up && message.head.group < outbound->options.groups.count)
        outbound->ports->command(outbound->ports->self, &message);
}

/* A peer that has fenced us answers nothing: its session ends, and with it what we would post. */
void targets_probe(struct outbound *outbound, uint32_t group, uint64_t absences)
{
    struct kvr_message message = {.kind = KVR_MSG_PROBE};

    message.probe.token = absences * KVR_RAIL_GROUPS_MAX + group;
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        if (KVR_MUTANT(woke_without_round_trip))
            targets_alive(outbound, peer, message.probe.token);
        if (outbound->peers[peer].up)
            outbound_send(outbound, peer, &message);
    }
}
