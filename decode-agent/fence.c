/* A transfer fails: it settles at once where nothing can land, else it drains (rules 4 and 7). It
 * waits for QUIET from the source. Without QUIET in time, or without the source, it ends every
 * epoch that the source could write on. */
#include "decode-agent/fence.h"

#include <stdio.h>

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/sending.h"

void transfer_fail(struct inbound *inbound, struct transfer *transfer, kvr_status status,
                   const char *detail)
{
    struct kvr_message cancel = {.kind = KVR_MSG_CANCEL, .reason = {.status = status}};

    if (transfer->failure.status != KVR_OK || transfer_settled(transfer))
        return;
    transfer->failure.status = status;
    snprintf(transfer->failure.detail, sizeof(transfer->failure.detail), "%s", detail);
    transfer_report(inbound, transfer, KVR_EVENT_FAILING);
    fetch_fail(inbound, fetch_of(inbound, transfer), status, detail); /* and all its transfers */
    memcpy(cancel.reason.detail, transfer->failure.detail, sizeof(cancel.reason.detail));
    if (transfer->state != T_WAITING && !transfer->failure.by_source)
        inbound_send_needed(inbound, transfer, &cancel);
    if (transfer->state != T_LIVE || !transfer->grant.sent || trust_quiet(&transfer->trust) ||
        KVR_MUTANT(free_before_quiet) ||
        (source_link_gone(&transfer->link) && KVR_MUTANT(no_fence_after_death))) {
        transfer_settle(inbound, transfer); /* nothing was granted, or no write can still arrive */
        return;
    }
    transfer_on(&transfer->state, T_ON_DRAIN);
    if (KVR_MUTANT(slot_reused_at_once))
        slots_release(inbound, transfer);
    transfer->failure.drain_at = inbound->now + inbound->options.silence_ns;
    if (source_link_gone(&transfer->link))
        transfer_fence(inbound, transfer);
}

void transfer_fence(struct inbound *inbound, struct transfer *transfer)
{
    struct landing_quiet *quiet = kvr_buddy_alloc(inbound->memory, sizeof(*quiet));

    transfer->failure.drain_at = KVR_NEVER;
    /* A source that writes on, on the epochs after those, is fenced there too. */
    transfer->trust.suspect_at = inbound->now + inbound->options.quiet_ns;
    if (quiet == NULL) { /* tried again later: until then the pages are held */
        transfer->failure.drain_at = inbound->now + inbound->options.quiet_ns;
        return;
    }
    *quiet = (struct landing_quiet){
        .round = transfer->trust.round, .count = transfer->trust.epoch_count, .closed_only = true};
    memcpy(quiet->counts, transfer->trust.epochs, sizeof(transfer->trust.epochs));
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_QUIET, .quiet = quiet));
    for (uint32_t i = 0; i < transfer->trust.epoch_count; i++)
        inbound_rail_recycle(inbound, transfer->trust.epochs[i].rail,
                             transfer->trust.epochs[i].epoch);
}
