/* Other rails, or another rail group, when the granted rails are lost.
 *
 * state       | ASK   | KEEP    | REGISTER    | MOVE   | MOVED
 * ------------|-------|---------|-------------|--------|--------
 * SETTLED     | ASKED | -       | -           | -      | -
 * ASKED       | -     | SETTLED | REGISTERING | MOVING | -
 * REGISTERING | -     | SETTLED | -           | MOVING | -
 * MOVING      | -     | -       | -           | -      | SETTLED
 *
 * Which side is to blame is unknown, so both go on to their next rail group. */
#include "prefill-agent/grant.h"

#include <stdio.h>

#include "base/list.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/rail_repair.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

KVR_STATE_TABLE(source_failover, FAILOVER) = {
    /* ASK, KEEP, REGISTER, MOVE, MOVED */
    [FAILOVER_SETTLED] = {FAILOVER_ASKED, NEVER, NEVER, NEVER, NEVER},
    [FAILOVER_ASKED] = {NEVER, FAILOVER_SETTLED, FAILOVER_REGISTERING, FAILOVER_MOVING, NEVER},
    [FAILOVER_REGISTERING] = {NEVER, FAILOVER_SETTLED, NEVER, FAILOVER_MOVING, NEVER},
    [FAILOVER_MOVING] = {NEVER, NEVER, NEVER, NEVER, FAILOVER_SETTLED},
};

/* ---- commands that wait ---------------------------------------------------------------------- */

/* PUSH_STOP does not wait. After the target asked for the stop it may give its pages back and name
 * a fresh endpoint; nothing may be posted there. So a group gets PUSH_STOP before it gets that
 * address. A successor in another group does not exist yet; it awaits PUSH_STOP from its start. */
bool failover_takes(const struct source_transfer *transfer, uint32_t kind)
{
    return transfer->failover.state != FAILOVER_MOVING ||
           (kind == PUSH_STOP && transfer->failover.move->successor == NULL);
}

void failover_park(struct outbound *outbound, struct source_transfer *transfer,
                   const union push_message *message)
{
    struct source_failover *failover = &transfer->failover;

    if (message->head.kind == PUSH_RETRANSMIT)
        KVR_LIST_APPEND(failover->parked, failover->parked_last, message->retransmit, next);
    else if (message->head.kind == PUSH_LIST && message->list->target_rail != PUSH_ANY)
        KVR_LIST_APPEND(failover->parked_lists, failover->parked_lists_last, message->list, behind);
    else if (message->head.kind == PUSH_LIST)
        kvr_buddy_free(outbound->memory, message->list);
    /* The transfer's state and its segments hold the rest. */
}

/* What was posted before the failover is listed after it. After the failover, the job may post to
 * an epoch that ended during it, until its rail thread takes the rail's next address: the list that
 * names this epoch comes then. */
static void lists_hand_over(struct outbound *outbound, struct source_transfer *transfer)
{
    while (transfer->failover.parked_lists != NULL) {
        struct push_list *list = transfer->failover.parked_lists;

        transfer->failover.parked_lists = list->behind;
        list->behind = NULL;
        if (transfer->state == ST_LIVE)
            outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_LIST, .list = list));
        else
            kvr_buddy_free(outbound->memory, list);
    }
    if (transfer->state == ST_LIVE)
        retransmit_list(outbound, transfer, PUSH_ANY, PUSH_ANY, PUSH_ANY);
}

static void parked_hand_over(struct outbound *outbound, struct source_transfer *transfer)
{
    announce_hand_over(outbound, transfer);
    while (transfer->failover.parked != NULL) {
        struct push_retransmit *retransmit = transfer->failover.parked;

        transfer->failover.parked = retransmit->next;
        outbound_command(outbound, transfer,
                         PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = retransmit));
    }
    lists_hand_over(outbound, transfer);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const struct kvr_region_set *source_set(const struct outbound *outbound,
                                               const struct source_transfer *transfer)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);

    return publish != NULL ? publish->set : NULL;
}

/* Every group of either side is tried once. Where the target copies itself, cards of the same
 * groups are tried first. Pages that are gathered into a group's own memory stay with that group.
 */
static bool may_ask(const struct outbound *outbound, const struct source_transfer *transfer)
{
    uint32_t ours = outbound->options.failover ? outbound->options.groups.count : 1;

    if (transfer->path.direct_copy == DIRECT_COPY_CHOSEN)
        return false;
    return transfer->grant.local ||
           (!transfer->path.gathers && source_set(outbound, transfer) != NULL &&
            transfer->failover.asks < ours - 1 + outbound->peers[transfer->peer].group_count - 1);
}

static void ask(struct outbound *outbound, struct source_transfer *transfer)
{
    struct kvr_message message = {.kind = KVR_MSG_NO_RAIL, .reason = {.status = KVR_NO_RAIL}};

    transfer->failover.ask_at = KVR_NEVER;
    if (transfer->failover.state != FAILOVER_SETTLED)
        return;
    source_failover_on(&transfer->failover.state, FAILOVER_ON_ASK);
    transfer->failover.asks += !transfer->grant.local;
    outbound_send_needed(outbound, transfer, &message);
}

/* The first trial of the peer's pairs is under way or has just ended: what it shows is fresh. */
static kvr_ns first_trial_end(const struct outbound *outbound, uint32_t peer)
{
    kvr_ns silence = outbound->options.silence_ns;

    return outbound->peers[peer].up_at + kvr_group_trial(silence) + silence / 12;
}

static bool in_first_trial(const struct outbound *outbound, uint32_t peer,
                           const struct outbound_lost *lost)
{
    return !lost->reached && outbound->now < first_trial_end(outbound, peer);
}

/* When a transfer without a rail gives up. A dead peer is found within the heartbeat bound, before
 * that. A peer that lives may be reached by fresh endpoints: each transfer waits for one trial of
 * them. Where pairs fail before the bound, by errors, the wait ends a little after the bound, too.
 * In the first trial each wait ends with it. */
static kvr_ns give_up_time(const struct outbound *outbound, const struct source_transfer *transfer,
                           const struct outbound_lost *lost)
{
    kvr_ns silence = outbound->options.silence_ns, soon = outbound->now + kvr_group_soon(silence);
    bool asks = may_ask(outbound, transfer);
    kvr_ns whole = (asks ? outbound->now : lost->from) + silence + silence / 4;
    kvr_ns end = first_trial_end(outbound, transfer->peer), least = outbound->now + silence / 6;

    if (!asks && in_first_trial(outbound, transfer->peer, lost))
        return end > least ? end : least;
    return (asks || lost->reached) && whole > soon ? whole : soon;
}

void failover_no_rail(struct outbound *outbound, struct source_transfer *transfer,
                      kvr_ns silent_from)
{
    struct outbound_lost *lost = &outbound->peers[transfer->peer].lost[transfer->grant.rail_group];

    if (lost->since == KVR_NEVER || lost->granted != transfer->grant.rails) {
        lost->granted = transfer->grant.rails;
        lost->since = outbound->now;
    }
    if (lost->from == KVR_NEVER) {
        lost->from = silent_from;
        lost->tried = 0;
    }
    transfer->failover.no_rail_at = give_up_time(outbound, transfer, lost);
    if (may_ask(outbound, transfer))
        transfer->failover.ask_at = in_first_trial(outbound, transfer->peer, lost)
                                        ? outbound->now
                                        : lost->since + outbound->options.silence_ns / 2;
    if (outbound->now >= transfer->failover.ask_at && transfer->state == ST_LIVE)
        ask(outbound, transfer);
    rail_repair_soon(outbound, transfer->peer, transfer->grant.rail_group);
}

/* A trial has the same time on each rail, however long it took to replace the endpoints of those
 * before it. */
void failover_trial_begins(struct outbound *outbound, uint32_t rail)
{
    uint32_t group = kvr_rail_groups_of(&outbound->options.groups, rail);
    kvr_ns end = outbound->now + kvr_group_soon(outbound->options.silence_ns);

    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers) {
        const struct outbound_lost *lost = &outbound->peers[transfer->peer].lost[group];

        if (transfer->grant.rail_group == group && transfer->failover.no_rail_at != KVR_NEVER &&
            lost->reached && (lost->tried >> rail & 1) == 0 && transfer->failover.no_rail_at < end)
            transfer->failover.no_rail_at = end;
    }
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        outbound->peers[peer].lost[group].tried |= UINT64_C(1) << rail;
}

#define BROKEN_BYTES 96

/* Of the last pair that broke. */
static void broken_text(const struct outbound_peer *peer, char ret_text[BROKEN_BYTES])
{
    const struct kvr_group_pair_broken *broken = &peer->broken;
    const char *why = broken->status == KVR_TIMED_OUT ? "nothing comes through, and no error either"
                                                      : kvr_status_text(broken->status);

    ret_text[0] = '\0';
    if (broken->status != KVR_OK)
        snprintf(ret_text, BROKEN_BYTES, "; the last, our rail %u to its rail %u: %.50s",
                 broken->pair.rail, broken->pair.target_rail, why);
}

static void give_up(struct outbound *outbound, struct source_transfer *transfer)
{
    char detail[KVR_DETAIL_BYTES], broken[BROKEN_BYTES];
    const char *why = "every other group was tried";

    transfer->failover.no_rail_at = KVR_NEVER;
    if (transfer->path.direct_copy == DIRECT_COPY_CHOSEN) {
        source_transfer_fail(
            outbound, transfer, KVR_NO_RAIL,
            "provider local, by which the target was moving our device's pages, is broken "
            "between the two agents");
        return;
    }
    broken_text(&outbound->peers[transfer->peer], broken);
    if (outbound->options.groups.count == 1 && outbound->peers[transfer->peer].group_count == 1) {
        snprintf(detail, sizeof(detail), "every pair of rails between the two agents is broken%s",
                 broken);
        source_transfer_fail(outbound, transfer, KVR_NO_RAIL, detail);
        return;
    }
    if (!outbound->options.failover)
        why = "no other group may carry on (--group-failover is off at the source)";
    else if (transfer->path.gathers)
        why = "its pages are staged for that group alone";
    snprintf(detail, sizeof(detail),
             "every pair of rails between group %u of the source and the target's is broken, "
             "and %.62s%.80s",
             transfer->grant.rail_group, why, broken);
    source_transfer_fail(outbound, transfer, KVR_NO_RAIL, detail);
}

/* A pair is usable again. */
void failover_rail_back(struct outbound *outbound, struct source_transfer *transfer)
{
    struct outbound_lost *lost = &outbound->peers[transfer->peer].lost[transfer->grant.rail_group];

    lost->from = KVR_NEVER;
    lost->reached = true;
    transfer->failover.ask_at = transfer->failover.no_rail_at = KVR_NEVER;
}

void failover_tick(struct outbound *outbound, struct source_transfer *transfer)
{
    if (outbound->now >= transfer->failover.ask_at)
        ask(outbound, transfer);
    if (outbound->now >= transfer->failover.no_rail_at)
        give_up(outbound, transfer);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Where rails are lost, a group of ours that has not been used; else the present one. */
static uint32_t group_next(const struct outbound *outbound, const struct source_transfer *transfer)
{
    uint32_t count = outbound->options.groups.count;

    for (uint32_t i = 1; i < count && outbound->options.failover && !transfer->grant.local &&
                         transfer->failover.no_rail_at != KVR_NEVER;
         i++) {
        uint32_t group = (transfer->grant.rail_group + i) % count;

        if ((transfer->failover.groups_used >> group & 1) == 0)
            return group;
    }
    return transfer->grant.rail_group;
}

/* The regions must be those of the plan; only their keys may differ. */
static bool same_regions(const struct kvr_region_set *a, const struct kvr_region_set *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->layouts[i].region != b->layouts[i].region ||
            a->layouts[i].bytes != b->layouts[i].bytes)
            return false;
    return true;
}

void failover_drop(struct outbound *outbound, struct source_transfer *transfer)
{
    if (transfer->failover.move == NULL)
        return;
    kvr_region_set_release(transfer->failover.move->target, outbound->memory);
    kvr_buddy_free(outbound->memory, transfer->failover.move->successor);
    kvr_buddy_free(outbound->memory, transfer->failover.move);
    transfer->failover.move = NULL;
}

/* Without memory for a successor the transfer stays in its group. */
static void move_begin(struct outbound *outbound, struct source_transfer *transfer)
{
    struct push_failover *move = transfer->failover.move;

    if (transfer->failover.next_group != transfer->grant.rail_group)
        move->successor = kvr_buddy_alloc(outbound->memory, sizeof(*move->successor));
    if (move->successor == NULL)
        transfer->failover.next_group = transfer->grant.rail_group;
    if (move->successor == NULL && move->target_rails == transfer->grant.rails) {
        source_failover_on(&transfer->failover.state, FAILOVER_ON_KEEP);
        failover_drop(outbound, transfer);
        return;
    }
    outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_FAILOVER, .failover = move));
    source_failover_on(&transfer->failover.state, FAILOVER_ON_MOVE);
}

void failover_granted(struct outbound *outbound, struct source_transfer *transfer,
                      const struct kvr_msg_grant *grant)
{
    const struct kvr_remote_engine *remote =
        kvr_engines_remote(&outbound->engines, transfer->peer, &transfer->match.target);
    uint64_t rails = grant_rails_of(outbound, transfer, grant);
    uint32_t group = group_next(outbound, transfer);
    struct kvr_error error;

    if (transfer->failover.state != FAILOVER_ASKED)
        return;
    if (remote == NULL || !same_regions(transfer->match.remote, remote->set)) {
        source_failover_on(&transfer->failover.state, FAILOVER_ON_KEEP);
        source_transfer_fail(outbound, transfer, KVR_MALFORMED,
                             "the target grants other rails for other regions");
        return;
    }
    if (grant_keys_take(outbound, transfer, grant, &error) != KVR_OK) {
        source_failover_on(&transfer->failover.state, FAILOVER_ON_KEEP);
        source_transfer_fail(outbound, transfer, error.status, error.detail);
        return;
    }
    if (group == transfer->grant.rail_group && rails == transfer->grant.rails) {
        source_failover_on(&transfer->failover.state,
                           FAILOVER_ON_KEEP); /* failover_tick gives up in time */
        return;
    }
    transfer->failover.move = kvr_buddy_alloc(outbound->memory, sizeof(*transfer->failover.move));
    if (transfer->failover.move == NULL) {
        source_failover_on(&transfer->failover.state, FAILOVER_ON_KEEP);
        return;
    }
    *transfer->failover.move = (struct push_failover){.target = kvr_region_set_acquire(remote->set),
                                                      .keys = transfer->grant.keys,
                                                      .target_rails = rails};
    transfer->failover.next_group = group;
    if (group == transfer->grant.rail_group)
        move_begin(outbound, transfer);
    else {
        source_failover_on(&transfer->failover.state, FAILOVER_ON_REGISTER);
        outbound->ports->region_register(outbound->ports->self, source_set(outbound, transfer),
                                         group, transfer->id);
    }
}

void failover_registered(struct outbound *outbound, struct source_transfer *transfer,
                         kvr_status status)
{
    if (transfer->failover.state != FAILOVER_REGISTERING || transfer->state != ST_LIVE)
        return; /* it is about to end */
    if (status != KVR_OK)
        transfer->failover.next_group = transfer->grant.rail_group;
    move_begin(outbound, transfer);
}

void failover_moved(struct outbound *outbound, struct source_transfer *transfer,
                    struct push_failover *move)
{
    struct kvr_region_set *before = transfer->match.remote;

    source_failover_on(&transfer->failover.state, FAILOVER_ON_MOVED);
    transfer->failover.move = NULL;
    transfer->match.remote = move->target;
    grant_take(outbound, transfer, move->target_rails);
    failover_rail_back(outbound, transfer);
    kvr_region_set_release(before, outbound->memory);
    if (move->successor != NULL) {
        transfer->failover.retiring_jobs++;
        transfer->grant.job = move->successor;
        transfer->grant.rail_group = transfer->failover.next_group;
        transfer->failover.groups_used |= UINT32_C(1) << transfer->grant.rail_group;
        if (transfer->state == ST_STOPPING)
            transfer->grant.job->state = PUSH_JOB_AWAITING_STOP;
        outbound_command(outbound, transfer,
                         PUSH_MESSAGE(PUSH_OPEN, .opened = transfer->grant.job));
        if (transfer->state == ST_STOPPING)
            outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_STOP));
    }
    kvr_buddy_free(outbound->memory, move);
    parked_hand_over(outbound, transfer);
}
