/* state    | COUNT    | SUM     | CLOSED
 * ---------|----------|---------|-------
 * COUNTED  | COUNTING | =       | CLOSED
 * COUNTING | =        | COUNTED | -
 * CLOSED   | -        | -       | -
 *
 * A report is a COUNT for each (target rail, epoch), and then the SUM. */
#include "prefill-agent/settle.h"

#include <assert.h>
#include <stdio.h>

#include "base/mutant.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/rail_repair.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"
#include "wire/revocation_words.h"

KVR_STATE_TABLE(source_settle, SETTLE) = {
    /* COUNT, SUM, CLOSED */
    [SETTLE_COUNTED] = {SETTLE_COUNTING, SETTLE_COUNTED, SETTLE_CLOSED},
    [SETTLE_COUNTING] = {SETTLE_COUNTING, SETTLE_COUNTED, NEVER},
    [SETTLE_CLOSED] = {NEVER, NEVER, NEVER},
};

/* ---- the end --------------------------------------------------------------------------------- */

void source_transfer_free(struct outbound *outbound, struct source_transfer *transfer)
{
    kvr_table_remove(&outbound->by_nonce, transfer->nonce);
    if (transfer->state == ST_ENDED)
        outbound->tombs--;
    kvr_pool_release(&outbound->transfers, transfer->id);
}

/* The publish has one consumer less to wait for. */
static void publish_settle(struct outbound *outbound, const struct source_transfer *transfer)
{
    struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);

    if (publish == NULL)
        return;
    consumer_ends(publish, transfer);
    publish->writes += transfer->settle.writes;
    publish->retries += transfer->settle.retries;
    if (transfer->status == KVR_OK)
        publish->bytes += transfer->announce.bytes;
    if (publish->consumers.awaited) { /* a rank that comes again keeps the publish from ending */
        publish->consumers.awaited = false;
        match_parked(outbound, publish);
        publish = kvr_pool_get(&outbound->publishes, transfer->publish);
    }
    if (publish != NULL)
        publish_check_free(outbound, publish);
}

/* No card and no copy can read the pages for this transfer any more (rule 2). */
static void settle(struct outbound *outbound, struct source_transfer *transfer, bool parked)
{
    outbound->tombs++;
    if (transfer->grant.revocation_word != NULL) /* before the pages can be given back (rule 11) */
        kvr_revocation_word_revoke(transfer->grant.revocation_word);
    transfer->grant.revocation_word = NULL;
    source_transfer_ended(outbound, transfer);
    if (parked)
        match_unpark(outbound, transfer);
    segments_free(outbound, transfer->announce.waiting);
    segments_free(outbound, transfer->announce.segment);
    kvr_buddy_free(outbound->memory, transfer->match.siblings);
    failover_drop(outbound, transfer);
    retransmit_lists_drop(outbound, transfer);
    if (transfer->grant.job != NULL) {
        segments_free(outbound, transfer->grant.job->first);
        kvr_buddy_free(outbound->memory, transfer->grant.job);
    }
    kvr_buddy_free(outbound->memory, transfer->grant.keys);
    transfer->grant.keys = NULL;
    kvr_buddy_free(outbound->memory, transfer->grant.spans);
    transfer->grant.spans = NULL;
    if (transfer->match.remote != NULL) {
        kvr_page_tables_done(&transfer->match.pages, outbound->memory);
        kvr_region_set_release(transfer->match.remote, outbound->memory);
    }
    transfer->announce.waiting = transfer->announce.segment = NULL;
    transfer->match.siblings = NULL;
    transfer->match.sibling_count = 0;
    transfer->grant.job = NULL;
    transfer->match.remote = NULL;
    transfer->settle.tombstone_end = outbound->now + 2 * outbound->options.silence_ns;
    publish_settle(outbound, transfer);
    /* An unmatched WANT was never granted, so it needs no tombstone. A target that has everything
     * asks nothing more, and tombstones would fill the table at a thousand transfers a second. */
    if (transfer->peer_gone || transfer->settle.landed || (parked && !pending_waits(transfer)))
        source_transfer_free(outbound, transfer);
}

static void stop(struct outbound *outbound, struct source_transfer *transfer)
{
    enum source_transfer_state before = transfer->state;

    source_transfer_on(&transfer->state, ST_ON_STOP);
    if (transfer->state == before)
        return; /* it is ending already */
    if (transfer->state == ST_STOPPING)
        outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_STOP));
    else
        settle(outbound, transfer, before == ST_PARKED);
}

static void reason_set(struct source_transfer *transfer, kvr_status status, const char *detail)
{
    if (transfer->status != KVR_OK || status == KVR_OK)
        return;
    transfer->status = status;
    snprintf(transfer->detail, sizeof(transfer->detail), "%s", detail);
}

/* QUIET follows FAIL even when nothing was posted: a GRANT may be on its way. */
void source_transfer_fail(struct outbound *outbound, struct source_transfer *transfer,
                          kvr_status status, const char *detail)
{
    if (source_transfer_next(transfer->state, ST_ON_STOP) == transfer->state)
        return; /* it is ending already */
    reason_set(transfer, status, detail);
    source_transfer_event(outbound, transfer, KVR_EVENT_FAILING);
    pending_due(outbound, transfer, PENDING_ON_FAIL_DUE);
    if (transfer->state != ST_LIVE)
        pending_due(outbound, transfer, PENDING_ON_QUIET_DUE);
    stop(outbound, transfer);
}

void source_transfer_end(struct outbound *outbound, struct source_transfer *transfer,
                         kvr_status status, const char *detail)
{
    if (status > 0)
        status = KVR_MALFORMED; /* from the wire: neither a success nor a reason */
    reason_set(transfer, status, detail);
    if (status == KVR_OK) {
        transfer->settle.landed = true;
        source_pending_on(&transfer->settle.pending, PENDING_ON_LANDED);
        if (transfer->settle.writes > 0) /* one without pages has tried no pair */
            outbound->peers[transfer->peer].lost[transfer->grant.rail_group] =
                (struct outbound_lost){.since = KVR_NEVER, .from = KVR_NEVER, .reached = true};
    }
    if (transfer->peer_gone && transfer->state == ST_CLOSING)
        transfer->settle.fence_at = outbound->now + outbound->options.quiet_ns;
    stop(outbound, transfer);
}

/* ---- rounds (rule 4) ------------------------------------------------------------------------- */

/* A message that crossed our final QUIET: the same counts hold for its round. */
void settle_round(struct outbound *outbound, struct source_transfer *transfer, uint32_t round)
{
    if (round > transfer->settle.round) {
        transfer->settle.round = round;
        source_pending_on(&transfer->settle.pending, PENDING_ON_ROUND);
    }
    if ((transfer->state == ST_CLOSING || transfer->state == ST_ENDED) && !transfer->settle.landed)
        pending_due(outbound, transfer, PENDING_ON_QUIET_DUE);
}

/* ---- the rail thread ------------------------------------------------------------------------ */

void settle_count(struct source_transfer *transfer, const struct kvr_epoch_count *count)
{
    struct source_settle *settle = &transfer->settle;

    if (settle->state == SETTLE_COUNTED)
        settle->count_count = 0;
    source_settle_on(&settle->state, SETTLE_ON_COUNT);
    assert(settle->count_count < KVR_EPOCHS_PER_TRANSFER);
    settle->counts[settle->count_count++] = *count;
}

void settle_sum(struct source_transfer *transfer, const struct push_sum *sum)
{
    if (transfer->settle.state == SETTLE_COUNTED)
        transfer->settle.count_count = 0; /* nothing was posted */
    source_settle_on(&transfer->settle.state, SETTLE_ON_SUM);
    transfer->settle.rails = sum->rails;
    transfer->settle.writes = sum->posted;
    transfer->settle.retries = sum->repeated;
}

/* Planted bugs: the pages are given back while cards, or copies for them, may still read. */
static bool frees_early(const struct outbound *outbound, const struct source_transfer *transfer)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);

    if (KVR_MUTANT(source_free_before_completion))
        return true;
    return KVR_MUTANT(source_free_before_the_copy) && publish != NULL && transfer->path.gathers;
}

void settle_stopped(struct outbound *outbound, struct source_transfer *transfer,
                    const struct push_sum *sum)
{
    settle_sum(transfer, sum);
    if (!transfer->settle.landed)
        pending_due(outbound, transfer, PENDING_ON_QUIET_DUE);
    source_transfer_on(&transfer->state, ST_ON_STOPPED);
    if (frees_early(outbound, transfer)) {
        publish_settle(outbound, transfer);
        transfer->publish = 0;
    }
    transfer->settle.fence_at =
        outbound->now +
        (transfer->peer_gone ? outbound->options.quiet_ns : outbound->options.silence_ns);
    outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_CLOSE));
}

void settle_closed(struct outbound *outbound, struct source_transfer *transfer,
                   struct push_job *job)
{
    if (job == transfer->grant.job) {
        source_settle_on(&transfer->settle.state, SETTLE_ON_CLOSED);
    } else {
        kvr_buddy_free(outbound->memory, job);
        transfer->failover.retiring_jobs--;
    }
    if (transfer->settle.state != SETTLE_CLOSED || transfer->failover.retiring_jobs > 0)
        return;
    source_transfer_on(&transfer->state, ST_ON_CLOSED);
    settle(outbound, transfer, false);
}

void settle_tick(struct outbound *outbound, struct source_transfer *transfer)
{
    if (transfer->state == ST_ENDED && outbound->now >= transfer->settle.tombstone_end &&
        !pending_waits(transfer))
        source_transfer_free(outbound, transfer);
    else if (transfer->state == ST_CLOSING && outbound->now >= transfer->settle.fence_at) {
        transfer->settle.fence_at = outbound->now + outbound->options.silence_ns;
        for (uint32_t rail = 0; rail < outbound->options.rail_count; rail++)
            if (transfer->settle.rails >> rail & 1)
                rail_repair_recycle(outbound, rail);
    }
}
