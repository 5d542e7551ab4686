#include "prefill-agent/rail_repair.h"

#include "prefill-agent/outbound.h"
#include "prefill-agent/senders.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

#define RENEW_DOUBLINGS  5 /* up to 32 heartbeat bounds between two trials of an address */
/* And up to 4 where writes have come through to it: that pair is likely to come back. */
#define REPAIR_DOUBLINGS 2

/* ---- fresh endpoints ------------------------------------------------------------------------- */

void rail_repair_recycle(struct outbound *outbound, uint32_t rail)
{
    if (kvr_rail_recycle_under_way(&outbound->recycle, rail))
        return; /* it closes the same endpoint */
    outbound->recycle.wanted |= UINT64_C(1) << rail;
    kvr_rail_recycle_next(&outbound->recycle, &outbound->options.groups, outbound->ports, rail);
}

/* Whether another peer is written to over the rail, with a pair that works as far as is known. It
 * would lose what is on its way. */
static bool others_use(const struct outbound *outbound, uint32_t peer, uint32_t rail)
{
    uint32_t group = kvr_rail_groups_of(&outbound->options.groups, rail);

    KVR_POOL_EACH (const struct source_transfer, other, &outbound->transfers)
        if (other->peer != peer && other->state == ST_LIVE && other->grant.rail_group == group &&
            outbound->peers[other->peer].repair_at[rail] == KVR_NEVER &&
            outbound->peers[other->peer].renew_at[rail] == KVR_NEVER)
            return true;
    return false;
}

/* No write has ever come through to that address: it may be a dead one, or the fault is ours. */
static void renew(struct outbound *outbound, uint32_t peer, uint32_t rail)
{
    struct kvr_group_message message = {
        .head = {.kind = KVR_GROUP_PAIR_RENEW,
                 .group = kvr_rail_groups_of(&outbound->options.groups, rail)},
        .pair_renew = {peer, rail}};

    outbound->peers[peer].renew_at[rail] = KVR_NEVER;
    outbound->peers[peer].renewals[rail]++;
    if (((outbound->recycle.wanted | outbound->recycle.under_way) >> rail & 1) != 0)
        return; /* that tries every pair of the rail anew */
    if ((outbound->peers[peer].shared >> rail & 1) != 0 || others_use(outbound, peer, rail))
        outbound->ports->command(outbound->ports->self, &message);
    else
        rail_repair_recycle(outbound, rail);
}

/* Recycles our rails that have a broken pair to the peer, when the time for it has come. */
static void repair(struct outbound *outbound, uint32_t peer)
{
    struct outbound_peer *state = &outbound->peers[peer];

    for (uint32_t rail = 0; state->up && rail < outbound->options.rail_count; rail++) {
        if (outbound->now >= state->renew_at[rail])
            renew(outbound, peer, rail);
        if (outbound->now < state->repair_at[rail])
            continue;
        state->repair_at[rail] = KVR_NEVER;
        state->renewals[rail] += state->shared >> rail & 1;
        rail_repair_recycle(outbound, rail);
    }
}

void rail_repair_recycled(struct outbound *outbound, const struct kvr_group_message *message)
{
    uint32_t rail = message->recycled.rail;
    bool renewed = message->recycled.status == KVR_OK;

    outbound->retry_at[rail] = renewed ? KVR_NEVER : outbound->now + OUTBOUND_RETRY_NS;
    outbound->renewed_at[rail] = outbound->now;
    outbound->recycle.under_way &= ~(UINT64_C(1) << rail);
    if (renewed) {
        senders_renewed(outbound, rail);
        failover_trial_begins(outbound, rail);
    }
    if (renewed) /* pairs that break with the fresh endpoint come later */
        for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
            outbound->peers[peer].repair_at[rail] = outbound->peers[peer].renew_at[rail] =
                KVR_NEVER;
    retransmit_list_all(outbound, PUSH_ANY, rail, PUSH_ANY, PUSH_ANY);
    kvr_rail_recycle_next(&outbound->recycle, &outbound->options.groups, outbound->ports, rail);
}

/* ---- what is broken -------------------------------------------------------------------------- */

void rail_repair_epoch_ended(struct outbound *outbound, uint32_t peer,
                             const struct kvr_msg_epoch_ended *ended)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_PEER_RAIL, .peer_rail.peer = peer};
    struct kvr_rail_address *successor[KVR_RAIL_GROUPS_MAX];

    if (ended->rail >= KVR_RAILS_MAX || ended->successor.rail != ended->rail ||
        ended->successor.epoch <= ended->epoch) {
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_MALFORMED,
                                 "an epoch ended without a later one");
        return;
    }
    if (!outbound_copies_take(outbound, sizeof(*successor[0]), (void **)successor)) {
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_NO_MEMORY,
                                 "no memory for a rail's new address");
        return;
    }
    for (uint32_t group = 0; group < outbound->options.groups.count; group++) {
        *successor[group] = ended->successor;
        message.head.group = group;
        message.peer_rail.address = successor[group];
        outbound->ports->command(outbound->ports->self, &message);
    }
    retransmit_list_all(outbound, peer, PUSH_ANY, ended->rail, ended->epoch);
}

/* A transfer over that group of ours waits for any pair to the peer. */
static bool is_awaited(const struct outbound *outbound, uint32_t peer, uint32_t rail_group)
{
    KVR_POOL_EACH (const struct source_transfer, transfer, &outbound->transfers)
        if (transfer->peer == peer && transfer->grant.rail_group == rail_group &&
            transfer->state == ST_LIVE && transfer->failover.no_rail_at != KVR_NEVER)
            return true;
    return false;
}

static void repair_later(struct outbound *outbound, const struct kvr_group_pair_broken *broken)
{
    struct outbound_peer *state = &outbound->peers[broken->peer];
    const struct kvr_pair *pair = &broken->pair;
    uint32_t doublings = kvr_min_u32(state->renewals[pair->rail], RENEW_DOUBLINGS);

    if (!broken->proven) {
        /* Tried anew, less and less often. */
        if (state->renew_at[pair->rail] == KVR_NEVER)
            state->renew_at[pair->rail] =
                outbound->now + (outbound->options.silence_ns << doublings);
        return;
    }
    /* If the network failed and not the peer, a fresh endpoint of ours may reach it again. Where it
     * costs pairs that work their writes, that too is tried less and less often. */
    if (state->repair_at[pair->rail] == KVR_NEVER)
        state->repair_at[pair->rail] =
            outbound->now + (outbound->options.silence_ns
                             << (broken->shared ? kvr_min_u32(doublings, REPAIR_DOUBLINGS) : 0));
}

/* Whether the group writes to another peer: that peer would lose what is on its way. */
static bool others_post(const struct outbound *outbound, uint32_t peer, uint32_t rail_group)
{
    KVR_POOL_EACH (const struct source_transfer, other, &outbound->transfers)
        if (other->peer != peer && other->grant.rail_group == rail_group && other->state == ST_LIVE)
            return true;
    return false;
}

/* When the rail gets a fresh endpoint for a transfer that has no other: at once where no other peer
 * loses by it, unless the present endpoint is fresh. */
static kvr_ns repair_time(const struct outbound *outbound, uint32_t peer, uint32_t rail_group,
                          uint32_t rail)
{
    kvr_ns patience = outbound->options.silence_ns / 4, renewed = outbound->renewed_at[rail];

    if (others_post(outbound, peer, rail_group))
        return outbound->now + patience;
    return renewed != 0 && renewed + patience > outbound->now ? renewed + patience : outbound->now;
}

void rail_repair_soon(struct outbound *outbound, uint32_t peer, uint32_t rail_group)
{
    const uint32_t *first = &outbound->options.groups.first[rail_group];
    kvr_ns *repair_at = outbound->peers[peer].repair_at;
    kvr_ns *renew_at = outbound->peers[peer].renew_at;

    for (uint32_t rail = first[0]; rail < first[1]; rail++) {
        kvr_ns soon = repair_time(outbound, peer, rail_group, rail);

        if (repair_at[rail] != KVR_NEVER && repair_at[rail] > soon)
            repair_at[rail] = soon;
        if (renew_at[rail] != KVR_NEVER && renew_at[rail] > soon)
            renew_at[rail] = soon;
    }
    repair(outbound, peer);
}

/* Of a time that is set; KVR_NEVER stays. */
static kvr_ns sooner(kvr_ns set, kvr_ns moment)
{
    return set != KVR_NEVER && moment < set ? moment : set;
}

/* Transfers need not wait for another trial of the rail. Where an earlier pair of it broke, the
 * fresh endpoint for that one is still to come. */
static void trial_over(struct outbound *outbound, const struct kvr_group_pair_broken *broken)
{
    const struct kvr_pair *pair = &broken->pair;
    struct outbound_peer *state = &outbound->peers[broken->peer];
    uint32_t group = kvr_rail_groups_of(&outbound->options.groups, pair->rail);

    if (broken->fresh && state->repair_at[pair->rail] == KVR_NEVER &&
        state->renew_at[pair->rail] == KVR_NEVER)
        state->lost[group].tried |= UINT64_C(1) << pair->rail;
}

/* A trial may fail by chance: transfers that wait get another, a moment later. */
void rail_repair_broken(struct outbound *outbound, const struct kvr_group_pair_broken *broken)
{
    struct outbound_peer *state = &outbound->peers[broken->peer];
    const struct kvr_pair *pair = &broken->pair;
    uint32_t group = kvr_rail_groups_of(&outbound->options.groups, pair->rail);
    kvr_ns moment = outbound->now + outbound->options.silence_ns / 4;
    uint64_t bit = UINT64_C(1) << pair->rail;

    if (!state->up)
        return;
    state->broken = *broken;
    state->shared = broken->shared ? state->shared | bit : state->shared & ~bit;
    retransmit_list_all(outbound, broken->peer, pair->rail, pair->target_rail, pair->epoch);
    trial_over(outbound, broken);
    repair_later(outbound, broken);
    if (!is_awaited(outbound, broken->peer, group))
        return;
    state->repair_at[pair->rail] = sooner(state->repair_at[pair->rail], moment);
    state->renew_at[pair->rail] = sooner(state->renew_at[pair->rail], moment);
}

void rail_repair_tick(struct outbound *outbound)
{
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        repair(outbound, peer);
    for (uint32_t rail = 0; rail < outbound->options.rail_count; rail++) {
        if (outbound->now < outbound->retry_at[rail])
            continue;
        outbound->retry_at[rail] = outbound->now + OUTBOUND_RETRY_NS;
        rail_repair_recycle(outbound, rail);
    }
}
