/* Whether what landed may be announced: QUIET, rounds, and the epochs that a source may write on.
 *
 * state   | MISSING_SENT | ROOM_SENT | QUIET  | READ_BACK
 * --------|--------------|-----------|--------|----------
 * CLEAN   | TAINTED      | =         | QUIET  | =
 * QUIET   | TAINTED      | CLEAN     | =      | CLEAN
 * TAINTED | =            | =         | PROVEN | =
 * PROVEN  | TAINTED      | CLEAN     | =      | TAINTED
 *
 * LAYER_IN, ROOM and DONE wait while a transfer is TAINTED (rule 3). MISSING and ROOM each begin a
 * round: QUIET of an older round says nothing about what the source posts in this one. */
#include "decode-agent/trust.h"

#include <assert.h>

#include "base/mutant.h"
#include "decode-agent/layers.h"
#include "decode-agent/sending.h"

#define PATIENCE   5 /* times quiet_ns: the longest wait for a write, while others still arrive */
/* Where the source has given a rail up, what it posted there is lost, or slower than the repeats: a
 * part of quiet_ns is enough. */
#define LOST_PARTS 4
#define ALL_RAILS  UINT64_MAX

KVR_STATE_TABLE(trust, TRUST) = {
    /* MISSING_SENT, ROOM_SENT, QUIET, READ_BACK */
    [TRUST_CLEAN] = {TRUST_TAINTED, TRUST_CLEAN, TRUST_QUIET, TRUST_CLEAN},
    [TRUST_QUIET] = {TRUST_TAINTED, TRUST_CLEAN, TRUST_QUIET, TRUST_CLEAN},
    [TRUST_TAINTED] = {TRUST_TAINTED, TRUST_TAINTED, TRUST_PROVEN, TRUST_TAINTED},
    [TRUST_PROVEN] = {TRUST_TAINTED, TRUST_CLEAN, TRUST_PROVEN, TRUST_TAINTED},
};

/* ---- epochs ---------------------------------------------------------------------------------- */

/* One entry for each rail, its latest epoch: a rail has one open epoch at a time, so the older ones
 * are closed. The table can never be too small for a whole fence. */
void transfer_epoch_add(struct transfer *transfer, uint32_t rail, uint32_t epoch)
{
    for (uint32_t i = 0; i < transfer->trust.epoch_count; i++) {
        if (transfer->trust.epochs[i].rail != rail)
            continue;
        if (transfer->trust.epochs[i].epoch < epoch) {
            transfer->trust.epochs[i].epoch = epoch;
            transfer->trust.lost &= ~(UINT64_C(1) << rail);
        }
        return;
    }
    assert(transfer->trust.epoch_count < KVR_RAILS_MAX);
    transfer->trust.epochs[transfer->trust.epoch_count++] =
        (struct kvr_epoch_count){.rail = rail, .epoch = epoch};
}

void transfer_rail_lost(struct transfer *transfer, uint32_t rail, uint32_t epoch)
{
    for (uint32_t i = 0; i < transfer->trust.epoch_count; i++)
        if (transfer->trust.epochs[i].rail == rail && transfer->trust.epochs[i].epoch == epoch)
            transfer->trust.lost |= UINT64_C(1) << rail;
}

bool transfer_may_use(const struct transfer *transfer, uint32_t rail)
{
    for (uint32_t i = 0; i < transfer->trust.epoch_count; i++)
        if (transfer->trust.epochs[i].rail == rail)
            return true;
    return false;
}

/* ---- trust ----------------------------------------------------------------------------------- */

/* Rule 3: a late repeat could still overwrite what landed. Rule 11: what this agent copied after an
 * absence may come from pages that the source took back. A source that still answers has not. */
const char *transfer_held_by(const struct inbound *inbound, const struct transfer *transfer)
{
    if (inbound->peers[transfer->link.peer].unconfirmed != 0 && !KVR_MUTANT(landed_away_trusted))
        return "absence";
    if (transfer->trust.state == TRUST_TAINTED && !KVR_MUTANT(done_while_tainted))
        return "repeats";
    return "";
}

bool transfer_trusted(const struct inbound *inbound, const struct transfer *transfer)
{
    return transfer_held_by(inbound, transfer)[0] == '\0';
}

/* ---- QUIET ----------------------------------------------------------------------------------- */

static kvr_ns patience(const struct inbound *inbound, const struct transfer *transfer)
{
    return transfer->trust.lost != 0 ? inbound->options.quiet_ns / LOST_PARTS
                                     : inbound->options.quiet_ns;
}

/* Every peer knows every epoch of a rail. A count on an unknown epoch would be awaited for ever. */
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

void quiet_received(struct inbound *inbound, struct transfer *transfer,
                    const struct kvr_msg_quiet *message)
{
    struct landing_quiet *quiet;

    if (transfer->grant.landing == NULL || transfer_ends(transfer) ||
        (message->round != transfer->trust.round && !KVR_MUTANT(old_quiet_accepted)))
        return; /* of an older round: another QUIET follows */
    if (!epochs_known(inbound, transfer, message)) {
        transfer_fail(inbound, transfer, KVR_MALFORMED,
                      "the source counts writes on an endpoint that was never announced to it");
        return; /* drain_at ends the epochs that it knows */
    }
    if (message->count_count > KVR_EPOCHS_PER_TRANSFER ||
        (quiet = kvr_buddy_alloc(inbound->memory, sizeof(*quiet))) == NULL) {
        /* Without the counts a lost write would go unnoticed: drain_at closes the epochs. */
        transfer_fail(inbound, transfer, KVR_NO_MEMORY,
                      "no memory for the counts of what the source has posted");
        return;
    }
    for (uint32_t i = 0; i < message->count_count;
         i++) /* newer epochs, where the source was stopping */
        transfer_epoch_add(transfer, message->counts[i].rail, message->counts[i].epoch);
    *quiet = (struct landing_quiet){.round = message->round, .count = message->count_count};
    memcpy(quiet->counts, message->counts, message->count_count * sizeof(quiet->counts[0]));
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_QUIET, .quiet = quiet));
    transfer->failure.drain_at = KVR_NEVER;
    if (transfer->trust.quiet_at != 0 && transfer->trust.quiet_round == message->round &&
        transfer->trust.suspect_at != KVR_NEVER)
        return; /* a repeat of QUIET does not prolong the wait */
    transfer->trust.quiet_at = inbound->now;
    transfer->trust.quiet_round = message->round;
    transfer->trust.suspect_at = inbound->now + patience(inbound, transfer);
}

/* While copies read the pages, the report is ignored: the rail thread repeats it afterwards. */
void quiet_proven(struct inbound *inbound, struct transfer *transfer, uint32_t round)
{
    if ((round != transfer->trust.round && !KVR_MUTANT(old_quiet_accepted)) ||
        transfer_ends(transfer) || transfer->verification.state == VERIFY_READING)
        return;
    trust_on(&transfer->trust.state, TRUST_ON_QUIET);
    transfer->trust.suspect_at = KVR_NEVER;
    if (transfer->state == T_DRAINING) {
        transfer_settle(inbound, transfer);
        return;
    }
    layers_release(inbound, transfer);
    room_check(inbound, transfer);
    transfer_check_done(inbound, transfer);
}

void suspects_check(struct inbound *inbound, struct transfer *transfer)
{
    bool waits = transfer->state == T_DRAINING ||
                 (transfer->state == T_LIVE &&
                  (transfer->trust.state == TRUST_TAINTED || !transfer->delivery.all_in));
    kvr_ns waited = inbound->now - transfer->trust.quiet_at, quiet = inbound->options.quiet_ns;
    struct land_suspects suspects = {
        .quiet_ns = quiet,
        .at_once = waited >= PATIENCE * quiet ? ALL_RAILS : transfer->trust.lost,
        .later = waited < quiet ? ~transfer->trust.lost : 0,
    };

    transfer->trust.suspect_at = KVR_NEVER;
    if (!waits || trust_quiet(&transfer->trust))
        return;
    transfer->trust.suspect_at = inbound->now + patience(inbound, transfer);
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_SUSPECTS, .suspects = suspects));
}
