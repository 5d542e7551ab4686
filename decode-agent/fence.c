/* Draining what failed, asking again for what was lost, and ending epochs (rules 3, 4 and 7). */
#include <assert.h>
#include <stdio.h>

#include "base/mutant.h"
#include "decode-agent/inbound.h"

#define PATIENCE 5 /* times quiet_ns: however much else comes in, a write is not awaited longer */

/* One entry a rail, its latest epoch: the older ones are closed already, since a rail has one open
 * epoch at a time. So the table can never be too small for the fence to be whole. */
void transfer_epoch_add(struct transfer *transfer, uint32_t rail, uint32_t epoch)
{
    for (uint32_t i = 0; i < transfer->epoch_count; i++) {
        if (transfer->epochs[i].rail != rail)
            continue;
        if (transfer->epochs[i].epoch < epoch)
            transfer->epochs[i].epoch = epoch;
        return;
    }
    assert(transfer->epoch_count < KVR_RAILS_MAX);
    transfer->epochs[transfer->epoch_count++] =
        (struct kvr_epoch_count){.rail = rail, .epoch = epoch};
}

static bool transfer_may_use(const struct transfer *transfer, uint32_t rail)
{
    for (uint32_t i = 0; i < transfer->epoch_count; i++)
        if (transfer->epochs[i].rail == rail)
            return true;
    return false;
}

/* ---- draining -------------------------------------------------------------------------------- */

void transfer_fail(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                   kvr_status status, const char *detail)
{
    struct kvr_message cancel = {.kind = KVR_MSG_CANCEL, .reason = {.status = status}};

    if (transfer->status != KVR_OK || transfer->settled)
        return;
    transfer->status = status;
    snprintf(transfer->detail, sizeof(transfer->detail), "%s", detail);
    transfer_event(inbound, now, transfer, KVR_EVENT_FAILING);
    fetch_fail(inbound, now, fetch_of(inbound, transfer), status, detail); /* and its siblings */
    memcpy(cancel.reason.detail, transfer->detail, sizeof(cancel.reason.detail));
    if (transfer->state != T_WAITING && !transfer->source_failed)
        inbound_send_needed(inbound, transfer, &cancel);
    if (transfer->state != T_LIVE || transfer->quiet || KVR_MUTANT(free_before_quiet) ||
        (transfer->peer_gone && KVR_MUTANT(no_fence_after_death))) {
        transfer_settle(inbound, now, transfer); /* nothing granted, or nothing on its way */
        return;
    }
    transfer->state = T_DRAINING;
    if (KVR_MUTANT(slot_reused_at_once))
        slots_release(inbound, now, transfer);
    transfer->drain_at = now + inbound->options.silence_ns;
    if (transfer->peer_gone)
        transfer_fence(inbound, now, transfer);
}

/* The source will not say what it posted: only closing every epoch that it could use proves quiet.
 */
void transfer_fence(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    struct landing_quiet *quiet = kvr_buddy_alloc(inbound->memory, sizeof(*quiet));

    transfer->drain_at = KVR_NEVER;
    /* A source that goes on writing, on what replaced those epochs, is fenced there too. */
    transfer->suspect_at = now + inbound->options.quiet_ns;
    if (quiet == NULL) { /* as soon as there is memory: until then the pages are held */
        transfer->drain_at = now + inbound->options.quiet_ns;
        return;
    }
    *quiet = (struct landing_quiet){
        .round = transfer->round, .count = transfer->epoch_count, .closed_only = true};
    memcpy(quiet->counts, transfer->epochs, sizeof(transfer->epochs));
    inbound_group_command(inbound, transfer, LAND_QUIET, 0, quiet);
    for (uint32_t i = 0; i < transfer->epoch_count; i++)
        inbound_rail_recycle(inbound, transfer->epochs[i].rail, transfer->epochs[i].epoch);
}

/* Nothing was posted on an epoch that was never told: it would be waited for, and ended, for ever.
 * Every peer is told of every epoch of a rail. */
static bool epochs_known(const struct inbound *inbound, const struct transfer *transfer,
                         const struct kvr_msg_quiet *message)
{
    for (uint32_t i = 0; i < message->count_count; i++) {
        const struct kvr_epoch_count *count = &message->counts[i];

        if (!transfer_may_use(transfer, count->rail) ||
            count->epoch > inbound->rails[count->rail].epoch)
            return false;
    }
    return true;
}

void quiet_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                    const struct kvr_msg_quiet *message)
{
    struct landing_quiet *quiet;

    if (transfer->landing == NULL || transfer->state == T_CLOSING ||
        (message->round != transfer->round && !KVR_MUTANT(old_quiet_accepted)))
        return; /* of a round that a MISSING has voided: another follows */
    if (!epochs_known(inbound, transfer, message)) {
        transfer_fail(inbound, now, transfer, KVR_MALFORMED,
                      "the source counts writes on an endpoint that it was never told of");
        return; /* drain_at ends the epochs that it was told of */
    }
    if (message->count_count > KVR_EPOCHS_PER_TRANSFER ||
        (quiet = kvr_buddy_alloc(inbound->memory, sizeof(*quiet))) == NULL) {
        /* What does not come would never be missed: drain_at ends it by closing the epochs. */
        transfer_fail(inbound, now, transfer, KVR_NO_MEMORY,
                      "no memory for the counts of what the source has posted");
        return;
    }
    for (uint32_t i = 0; i < message->count_count; i++) /* newer ones, of what is to stop */
        transfer_epoch_add(transfer, message->counts[i].rail, message->counts[i].epoch);
    *quiet = (struct landing_quiet){.round = message->round, .count = message->count_count};
    memcpy(quiet->counts, message->counts, message->count_count * sizeof(quiet->counts[0]));
    inbound_group_command(inbound, transfer, LAND_QUIET, 0, quiet);
    transfer->drain_at = KVR_NEVER;
    if (transfer->quiet_at != 0 && transfer->quiet_round == message->round &&
        transfer->suspect_at != KVR_NEVER)
        return; /* said again: who goes on saying it is not awaited any longer for that */
    transfer->quiet_at = now;
    transfer->quiet_round = message->round;
    transfer->suspect_at = now + inbound->options.quiet_ns;
}

/* Counts that stay unequal: a write was lost or hangs. End the epochs that are not even. */
void suspects_check(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    bool waits = transfer->state == T_DRAINING ||
                 (transfer->state == T_LIVE && (transfer->tainted || !transfer->all_in));
    struct kvr_group_message message = {
        .kind = LAND_SUSPECTS,
        .a = inbound->options.quiet_ns,
        .b = now - transfer->quiet_at >= PATIENCE * inbound->options.quiet_ns,
    };

    transfer->suspect_at = KVR_NEVER;
    if (!waits || transfer->quiet)
        return;
    transfer->suspect_at = now + inbound->options.quiet_ns;
    message.index = kvr_pool_index(transfer->id);
    message.id = transfer->nonce;
    message.group = transfer->group;
    inbound->ports->command(inbound->ports->self, &message);
}

/* ---- asking again ---------------------------------------------------------------------------- */

void rail_lost_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                        const struct kvr_msg_rail_lost *lost)
{
    struct landing_filter *filter;
    uint64_t total = 0;

    if (transfer->state != T_LIVE || lost->run_count == 0)
        return;
    for (uint32_t i = 0; i < lost->run_count; i++) {
        total += lost->runs[i].chunk_count;
        if ((uint64_t)lost->runs[i].chunk_first + lost->runs[i].chunk_count >
                transfer->chunk_count ||
            total > transfer->chunk_count) {
            transfer_fail(inbound, now, transfer, KVR_MALFORMED,
                          "the source lost chunks that the transfer does not have");
            return;
        }
    }
    filter = kvr_buddy_alloc(inbound->memory,
                             sizeof(*filter) + (total + lost->run_count) * sizeof(filter->runs[0]));
    if (filter == NULL) {
        transfer_fail(inbound, now, transfer, KVR_NO_MEMORY, "no memory to ask for lost chunks");
        return;
    }
    filter->capacity = (uint32_t)total;
    filter->asked_count = lost->run_count;
    memcpy(&filter->runs[total], lost->runs, lost->run_count * sizeof(filter->runs[0]));
    inbound_group_command(inbound, transfer, LAND_FILTER, 0, filter);
}

/* The answer of the group thread: ask the source to post what is not here. */
void filtered(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
              const struct landing_filter *filter)
{
    if (transfer->state != T_LIVE || filter->run_count == 0)
        return;
    transfer->tainted = true;
    transfer->quiet = false;
    transfer->suspect_at = KVR_NEVER;
    if (!KVR_MUTANT(old_quiet_accepted))
        inbound_group_command(inbound, transfer, LAND_LOUD, 0, NULL);
    for (uint32_t i = 0; i < filter->run_count; i++)
        transfer->retries += filter->runs[i].chunk_count;
    for (uint32_t i = 0; i < filter->run_count; i += KVR_RUNS_PER_MESSAGE) {
        uint32_t left = filter->run_count - i;
        struct kvr_message message = {.kind = KVR_MSG_MISSING};

        /* A round each: QUIET after the first must not speak for what the second asks. */
        message.missing = (struct kvr_msg_missing){
            .round = ++transfer->round,
            .runs = filter->runs + i,
            .run_count = left < KVR_RUNS_PER_MESSAGE ? left : KVR_RUNS_PER_MESSAGE,
        };
        inbound_send_needed(inbound, transfer, &message);
    }
    transfer_event(inbound, now, transfer, KVR_EVENT_RETRY);
}

/* ---- ending epochs --------------------------------------------------------------------------- */

/* One rail of a group at a time: the others carry on, and one recycling serves all that wait for
 * it. */
static void recycle_next(struct inbound *inbound, uint32_t rail)
{
    uint32_t group = kvr_rail_groups_of(&inbound->options.groups, rail);
    const uint32_t *first = &inbound->options.groups.first[group];

    for (uint32_t i = first[0]; i < first[1]; i++)
        if (inbound->rails[i].recycling)
            return;
    for (uint32_t i = first[0]; i < first[1]; i++) {
        struct kvr_group_message message = {.kind = KVR_GROUP_RECYCLE, .index = i, .group = group};

        if (inbound->rails[i].wanted == 0)
            continue;
        inbound->rails[i].recycling = true;
        inbound->recycles++;
        inbound->ports->command(inbound->ports->self, &message);
        return;
    }
}

void inbound_rail_recycle(struct inbound *inbound, uint32_t rail, uint32_t epoch)
{
    if (rail >= inbound->options.rail_count || epoch < inbound->rails[rail].epoch)
        return; /* it has ended already */
    inbound->rails[rail].wanted = epoch;
    recycle_next(inbound, rail);
}

static void tell_peers(struct inbound *inbound, const struct kvr_message *message)
{
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        if (inbound->peers[peer].up)
            inbound_tell_peer(inbound, peer, message);
}

/* Our HELLO named the rails as they were when it was said. A rail that has been recycled since
 * then, while there was no session to tell it on, would be an address that nobody answers for ever.
 */
void rails_tell(struct inbound *inbound, uint32_t peer)
{
    for (uint32_t i = 0; i < inbound->options.rail_count; i++) {
        struct kvr_message ended = {.kind = KVR_MSG_EPOCH_ENDED};

        if (inbound->rails[i].epoch == 1)
            continue;
        ended.epoch_ended.rail = i;
        ended.epoch_ended.epoch = inbound->rails[i].epoch - 1;
        ended.epoch_ended.successor = inbound->rails[i].address;
        inbound_tell_peer(inbound, peer, &ended);
    }
}

void inbound_rail_recycled(struct inbound *inbound, kvr_ns now,
                           const struct kvr_group_message *message)
{
    struct inbound_rail *rail = &inbound->rails[message->index];
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    uint32_t count = inbound->ports->rails(inbound->ports->self, rails);
    struct kvr_message ended = {.kind = KVR_MSG_EPOCH_ENDED};
    bool told = message->status != KVR_OK && rail->retry_at != KVR_NEVER;

    rail->recycling = false;
    rail->retry_at = message->status == KVR_OK ? KVR_NEVER : now + INBOUND_RETRY_NS;
    if (rail->wanted <= (uint32_t)message->a)
        rail->wanted = 0; /* else it was granted, and given up, before this message was read */
    rail->epoch = (uint32_t)message->b;
    rail->address = (struct kvr_rail_address){.rail = message->index, .epoch = rail->epoch};
    for (uint32_t i = 0; i < count; i++)
        if (rails[i].rail == message->index && message->status == KVR_OK)
            rail->address = rails[i]; /* else without an address: none was opened */
    ended.epoch_ended.rail = message->index;
    ended.epoch_ended.epoch = (uint32_t)message->a;
    ended.epoch_ended.successor = rail->address;
    for (uint32_t i = 0; i < inbound->transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound->transfers, i, NULL);

        if (transfer != NULL && transfer->state == T_LIVE &&
            transfer_may_use(transfer, message->index))
            transfer_epoch_add(transfer, message->index, rail->epoch);
    }
    if (!told) /* peers know already that it has no endpoint */
        tell_peers(inbound, &ended);
    recycle_next(inbound, message->index);
}
