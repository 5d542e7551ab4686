/* What the target engine is sent: the tail, FAILING, and the one terminal notice (rule 1). */
#include "decode-agent/deliver.h"

#include <stdio.h>

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"

void fetch_notify(const struct inbound *inbound, const struct fetch *fetch,
                  struct kvr_notice *notice)
{
    notice->handle = fetch->handle;
    if (!fetch->engine_gone)
        inbound->ports->notify(inbound->ports->self, fetch->engine, notice);
}

void tail_received(struct inbound *inbound, struct transfer *transfer,
                   const struct kvr_msg_tail *tail)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_TAIL_IN,
        .bytes = tail->byte_count,
        .payload = tail->bytes,
        .payload_bytes = tail->byte_count,
    };

    if ((transfer->state != T_WANTED && transfer->state != T_LIVE) || transfer->delivery.tail_in)
        return;
    if (tail->byte_count > KVR_TAIL_BYTES_MAX - 1024) { /* no engine can have sent it */
        transfer_fail(inbound, transfer, KVR_MALFORMED,
                      "a tail that is longer than a packet to the engine");
        return;
    }
    transfer->delivery.tail_in = true;
    fetch_notify(inbound, fetch, &notice);
    transfer_check_done(inbound, transfer);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Rule 6. DONE needs FINAL, all bits, TAIL, trust after a second posting, and equal digests where
 * they are asked for. */
void transfer_check_done(struct inbound *inbound, struct transfer *transfer)
{
    if (transfer->state != T_WANTED && transfer->state != T_LIVE)
        return;
    if (transfer->intake.state != INTAKE_FINAL || !transfer->delivery.all_in)
        return;
    if (transfer->intake.final.has_tail && !transfer->delivery.tail_in &&
        !KVR_MUTANT(done_without_tail))
        return;
    if (!transfer_trusted(inbound, transfer))
        return;
    if (!transfer_verified(inbound, transfer))
        return;
    transfer_settle(inbound, transfer);
}

/* Bytes of the tokens that the engine had. */
static uint64_t skipped_bytes(const struct fetch *fetch)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < fetch->set->count; i++) {
        const struct kvr_region_layout *layout = &fetch->set->layouts[i];

        if (layout->page_tokens > 0) /* a state has no bytes of a token */
            bytes += fetch->skip_tokens * layout->layer_count * layout->part_count *
                     layout->head_count * layout->head_bytes;
    }
    return bytes;
}

void fetch_end(struct inbound *inbound, struct fetch *fetch)
{
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_DONE,
        .status = fetch->result.status,
        .token_first = fetch->skip_tokens,
        .token_end = fetch->result.token_end,
        .bytes = fetch->result.bytes,
        .writes = fetch->result.writes,
        .retries = fetch->result.retries,
    };

    if (fetch->result.status == KVR_OK) {
        inbound->skipped_bytes += skipped_bytes(fetch);
    } else { /* the tokens that are not known to be right */
        notice.token_first = fetch->result.salvage_end;
        notice.token_end = fetch->tokens;
    }
    if (fetch->result.status == KVR_CANCELLED)
        notice.kind = KVR_NOTICE_CANCELLED;
    else if (fetch->result.status == KVR_EXPIRED)
        notice.kind = KVR_NOTICE_EXPIRED;
    else if (fetch->result.status != KVR_OK)
        notice.kind = KVR_NOTICE_FAILED;
    memcpy(notice.detail, fetch->result.detail, sizeof(notice.detail));
    fetch_on(&fetch->state, F_ON_SETTLED);
    landed_word_update(inbound, fetch);
    if (!fetch->engine_gone)
        kvr_ended_add(&inbound->ended, fetch->engine, fetch->handle, fetch->result.status,
                      fetch->result.detail);
    fetch_notify(inbound, fetch, &notice);
    if (KVR_MUTANT(terminal_told_twice))
        fetch_notify(inbound, fetch, &notice);
}

/* ---- failing --------------------------------------------------------------------------------- */

void fetch_fail(struct inbound *inbound, struct fetch *fetch, kvr_status status, const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_FAILING};
    uint64_t transfers[KVR_SOURCES_MAX];
    uint32_t count = fetch->transfer_count;

    if (fetch->state >= F_FAILING)
        return;
    fetch_on(&fetch->state, F_ON_FAILED);
    fetch->result.status = notice.status = status;
    snprintf(fetch->result.detail, sizeof(fetch->result.detail), "%s", detail);
    memcpy(notice.detail, fetch->result.detail, sizeof(notice.detail));
    slots_withdraw(inbound, fetch);
    fetch_notify(inbound, fetch, &notice);
    if (count == 0) { /* there was no place for its first transfer */
        fetch->result.salvage_end = fetch->skip_tokens;
        fetch_end(inbound, fetch);
        fetch_check_freed(inbound, fetch);
        return;
    }
    /* The last transfer that fails may free the fetch: walk a copy. */
    memcpy(transfers, fetch->transfers, sizeof(transfers));
    for (uint32_t i = 0; i < count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, transfers[i]);

        if (transfer != NULL)
            transfer_fail(inbound, transfer, status, detail);
    }
    slots_advance(inbound); /* other fetches may have waited for it */
}
