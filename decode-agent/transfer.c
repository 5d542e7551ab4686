/* A transfer: opening, settling, closing.
 *
 * state    | HOLD_SENT | WANT_SENT | GRANTED | DRAIN    | SEAL    | SETTLED | CLOSED
 * ---------|-----------|-----------|---------|----------|---------|---------|-------
 * WAITING  | HELD      | WANTED    | -       | -        | -       | ENDED   | -
 * HELD     | -         | WANTED    | -       | -        | -       | ENDED   | -
 * WANTED   | -         | -         | LIVE    | -        | -       | ENDED   | -
 * LIVE     | -         | -         | -       | DRAINING | SEALING | CLOSING | -
 * DRAINING | -         | -         | -       | -        | SEALING | CLOSING | -
 * SEALING  | -         | -         | -       | -        | -       | CLOSING | -
 * CLOSING  | -         | -         | -       | -        | -       | -       | ENDED
 * ENDED    | -         | -         | -       | -        | -       | -       | -
 *
 *   WAITING   for the session with its source agent, and for the first page of its fetch
 *   HELD      WANT was sent, but not yet what is skipped: the source plans nothing
 *   WANTED    WANT was sent, and what is skipped. Nothing is granted, so nothing can land
 *   LIVE      GRANT was sent, or follows as soon as its keys are open: writes land
 *   DRAINING  the transfer failed. Its pages are held until nothing can land any more (rule 4)
 *   SEALING   nothing can land any more. Rail threads close its keys, then it settles (rule 14)
 *   CLOSING   settled. The rail thread is giving the landing back
 *   ENDED     given back */
#include "decode-agent/transfer.h"

#include <assert.h>

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/sending.h"

KVR_STATE_TABLE(transfer, T) = {
    /* HOLD_SENT, WANT_SENT, GRANTED, DRAIN, SEAL, SETTLED, CLOSED */
    [T_WAITING] = {T_HELD, T_WANTED, NEVER, NEVER, NEVER, T_ENDED, NEVER},
    [T_HELD] = {NEVER, T_WANTED, NEVER, NEVER, NEVER, T_ENDED, NEVER},
    [T_WANTED] = {NEVER, NEVER, T_LIVE, NEVER, NEVER, T_ENDED, NEVER},
    [T_LIVE] = {NEVER, NEVER, NEVER, T_DRAINING, T_SEALING, T_CLOSING, NEVER},
    [T_DRAINING] = {NEVER, NEVER, NEVER, NEVER, T_SEALING, T_CLOSING, NEVER},
    [T_SEALING] = {NEVER, NEVER, NEVER, NEVER, NEVER, T_CLOSING, NEVER},
    [T_CLOSING] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, T_ENDED},
    [T_ENDED] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER},
};

kvr_status transfer_open(struct inbound *inbound, struct fetch *fetch,
                         const struct kvr_source_address *source, struct kvr_error *error)
{
    uint64_t id;
    struct transfer *transfer = kvr_pool_acquire(&inbound->transfers, &id);
    kvr_status status;

    if (transfer == NULL)
        return kvr_error_set(error, KVR_FULL, "fetch", "%u transfers are live", KVR_TRANSFERS_MAX);
    transfer->id = id;
    transfer->fetch = fetch->id;
    transfer->source = *source;
    transfer->place = fetch->transfer_count;
    if (kvr_region_set_is_staged(fetch->set))
        landing_path_on(&transfer->path.state, PATH_ON_STAGE);
    transfer->trust.suspect_at = transfer->failure.drain_at = KVR_NEVER;
    transfer->nonce = kvr_nonce_next(&inbound->nonces);
    status = kvr_table_insert(&inbound->by_nonce, transfer->nonce, kvr_pool_index(id));
    assert(status == KVR_OK);
    fetch->transfers[fetch->transfer_count++] = id;
    status = inbound->ports->dial(inbound->ports->self, source->agent, &transfer->link.peer, error);
    if (status != KVR_OK) {
        source_link_on(&transfer->link.state,
                       LINK_ON_LOST); /* fetch_fail() settles it with this reason */
        return status;
    }
    if (inbound->peers[transfer->link.peer].up)
        source_link_on(&transfer->link.state, LINK_ON_UP);
    return KVR_OK;
}

static void transfer_free(struct inbound *inbound, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);

    staging_quota_give(inbound, transfer);
    plan_intake_done(inbound, &transfer->intake);
    kvr_buddy_free(inbound->memory, transfer->slots.bits);
    kvr_buddy_free(inbound->memory, transfer->slots.again);
    kvr_buddy_free(inbound->memory, transfer->grant.taken);
    kvr_buddy_free(inbound->memory, transfer->grant.spans);
    kvr_secret_wipe(&transfer->proof_key, sizeof(transfer->proof_key));
    kvr_table_remove(&inbound->by_nonce, transfer->nonce);
    kvr_pool_release(&inbound->transfers, transfer->id);
    fetch->closed_count++;
    fetch_check_freed(inbound, fetch);
}

void transfer_settle(struct inbound *inbound, struct transfer *transfer)
{
    if (transfer->state == T_SEALING)
        return; /* it settles as soon as its keys are closed */
    if (grant_keys_close(inbound, transfer) || KVR_MUTANT(keys_closed_late)) {
        transfer_sealed(inbound, transfer);
        return;
    }
    transfer_on(&transfer->state, T_ON_SEAL);
    transfer->trust.suspect_at = transfer->failure.drain_at = KVR_NEVER;
}

/* The last transfer of a fetch hands the pages back. The engine hears before the source, because it
 * waits. */
void transfer_sealed(struct inbound *inbound, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_message landed = {.kind = KVR_MSG_LANDED};
    uint64_t salvaged;

    transfer_on(&transfer->state, T_ON_SETTLED);
    transfer->trust.suspect_at = transfer->failure.drain_at = KVR_NEVER;
    if (transfer->failure.status == KVR_OK)
        fetch->result.bytes += transfer->intake.bytes;
    fetch->result.writes += transfer->intake.chunk_count + transfer->retries;
    fetch->result.retries += transfer->retries;
    salvaged = transfer_salvage(inbound, transfer);
    if (salvaged < fetch->result.salvage_end)
        fetch->result.salvage_end = salvaged;
    fetch->settled_count++;
    if (fetch->settled_count == fetch->transfer_count || KVR_MUTANT(done_with_first_source))
        fetch_end(inbound, fetch);
    if (transfer->failure.status == KVR_OK)
        inbound_send_needed(inbound, transfer, &landed);
    if (transfer->state == T_CLOSING) {
        transfer->regrant.landings_open = 1;
        inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_CLOSE));
        forwarding_end(inbound, transfer);
        return;
    }
    transfer_report(inbound, transfer, KVR_EVENT_ENDED);
    slots_release(inbound, transfer);
    transfer_free(inbound, transfer);
}

/* The rail thread has given the landing back: its slots may name other transfers now. */
void transfer_closed(struct inbound *inbound, struct transfer *transfer)
{
    transfer_on(&transfer->state, T_ON_CLOSED);
    transfer_report(inbound, transfer, KVR_EVENT_ENDED);
    while (transfer->grant.landing->verify.digests != NULL) {
        struct landing_digest *digest = transfer->grant.landing->verify.digests;

        transfer->grant.landing->verify.digests = digest->next;
        kvr_buddy_free(inbound->memory, digest);
    }
    if (transfer->grant.landing->revocation_word != NULL)
        inbound->ports->revocation_word_return(inbound->ports->self,
                                               transfer->grant.landing->revocation_word);
    kvr_buddy_free(inbound->memory, transfer->grant.landing);
    kvr_buddy_free(inbound->memory, transfer->keys.spans);
    transfer->keys.spans = NULL;
    slots_release(inbound, transfer);
    transfer_free(inbound, transfer);
    staging_quotas_advance(inbound);
}
