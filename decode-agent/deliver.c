/* What the target engine is told: layers, the tail, and the one terminal notice. */
#include <assert.h>
#include <stdio.h>

#include "base/mutant.h"
#include "decode-agent/inbound.h"

/* ---- events for the scheduler ---------------------------------------------------------------- */

/* Of each KV group those of its first segment. */
static uint32_t layers_of(const struct transfer *transfer)
{
    uint32_t groups = 0, layers = 0;

    for (const struct landing_segment *at = transfer->segments; at != NULL; at = at->loop_next) {
        layers += groups >> at->group & 1 ? 0 : at->plan->layer_count;
        groups |= 1u << at->group;
    }
    return layers;
}

static kvr_path path_of(const struct fetch *fetch, const struct transfer *transfer)
{
    uint32_t groups = 0;
    kvr_path path;

    for (const struct landing_segment *at = transfer->segments; at != NULL; at = at->loop_next)
        groups |= 1u << at->group;
    path = kvr_region_set_path(fetch->set, groups);
    if (transfer->scatters && path != KVR_PATH_NONE)
        return KVR_PATH_STAGED;
    if (transfer->moves && path != KVR_PATH_NONE)
        return KVR_PATH_LOCAL;
    return transfer->local && path == KVR_PATH_HOST ? KVR_PATH_LOCAL : path;
}

void transfer_event(struct inbound *inbound, kvr_ns now, const struct transfer *transfer,
                    kvr_event_kind kind)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    const struct kvr_event_sink *sink = &inbound->ports->events;
    struct kvr_event event = {
        .kind = kind,
        .role = KVR_ROLE_TARGET,
        .at = now,
        .transfer = transfer->nonce,
        .attempt = fetch->attempt,
        .source_engine = transfer->source.engine,
        .target_engine = inbound->engines.local[fetch->engine].rank.engine,
        .source_rank = {transfer->source.tp, transfer->source.pp},
        .target_rank = {inbound->engines.local[fetch->engine].rank.tp,
                        inbound->engines.local[fetch->engine].rank.pp},
        .tokens = fetch->tokens,
        .skip_tokens = fetch->skip_tokens,
        .bytes = transfer->bytes,
        .layers = layers_of(transfer),
        .chunks = transfer->chunk_count,
        .retries = transfer->retries,
        .rails = transfer->rails,
        .path = path_of(fetch, transfer),
        .outcome = transfer->status,
    };

    if (sink->emit == NULL)
        return;
    memcpy(event.request, fetch->request, sizeof(event.request));
    if (transfer->peer_up) /* else it may be whoever had its number before, or nobody was dialed */
        memcpy(event.peer, inbound->peers[transfer->peer].agent, sizeof(event.peer));
    memcpy(event.detail, transfer->detail, sizeof(event.detail));
    sink->emit(sink->self, &event);
}

/* ---- layers and tail ------------------------------------------------------------------------- */

/* A late duplicate could still overwrite it (rule 3). And where we copy from the source's memory
 * ourselves (rule 11), what we copied after an absence may be of pages that it took back meanwhile:
 * a source that still answers has not. */
const char *transfer_held_by(const struct inbound *inbound, const struct transfer *transfer)
{
    if (inbound->peers[transfer->peer].unproven != 0 && !KVR_MUTANT(landed_away_trusted))
        return "absence";
    if (transfer->tainted && !transfer->quiet && !KVR_MUTANT(done_while_tainted))
        return "repeats";
    return "";
}

bool transfer_trusted(const struct inbound *inbound, const struct transfer *transfer)
{
    return transfer_held_by(inbound, transfer)[0] == '\0';
}

void tail_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                   const struct kvr_msg_tail *tail)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_TAIL_IN,
        .handle = fetch->handle,
        .bytes = tail->byte_count,
        .payload = tail->bytes,
        .payload_bytes = tail->byte_count,
    };

    if ((transfer->state != T_WANTED && transfer->state != T_LIVE) || transfer->tail_seen)
        return;
    if (tail->byte_count > KVR_TAIL_BYTES_MAX - 1024) { /* no engine could have sent it */
        transfer_fail(inbound, now, transfer, KVR_MALFORMED,
                      "a tail that is longer than a packet to the engine");
        return;
    }
    transfer->tail_seen = true;
    if (!fetch->engine_gone)
        inbound->ports->notify(inbound->ports->self, fetch->engine, &notice);
    transfer_check_done(inbound, now, transfer);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What was told before its pages are read is told again behind that. */
void is_quiet(struct inbound *inbound, kvr_ns now, struct transfer *transfer, uint32_t round)
{
    if ((round != transfer->round && !KVR_MUTANT(old_quiet_accepted)) ||
        transfer->state == T_CLOSING || transfer->reading)
        return;
    transfer->quiet = true;
    transfer->suspect_at = KVR_NEVER;
    if (transfer->state == T_DRAINING) {
        transfer_settle(inbound, now, transfer);
        return;
    }
    layers_release(inbound, transfer);
    room_check(inbound, transfer);
    transfer_check_done(inbound, now, transfer);
}

/* DONE needs FINAL, all bits, TAIL, after a second posting that nothing can land any more, and
 * where asked that the bytes hash to what the source's did. */
void transfer_check_done(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    if (transfer->state != T_WANTED && transfer->state != T_LIVE)
        return;
    if (!transfer->final_seen || !transfer->all_in)
        return;
    if (transfer->final.has_tail && !transfer->tail_seen && !KVR_MUTANT(done_without_tail))
        return;
    if (!transfer_trusted(inbound, transfer))
        return;
    if (!transfer_verified(inbound, transfer))
        return;
    transfer_settle(inbound, now, transfer);
}

/* What its engine had and nobody moved. */
static uint64_t skipped_bytes(const struct fetch *fetch)
{
    uint64_t token_bytes = 0;

    for (uint32_t i = 0; i < fetch->set->count; i++) {
        const struct kvr_region_layout *layout = &fetch->set->layouts[i];

        token_bytes += (uint64_t)layout->layer_count * layout->part_count * layout->head_count *
                       layout->head_bytes;
    }
    return fetch->skip_tokens * token_bytes;
}

static void fetch_end(struct inbound *inbound, struct fetch *fetch)
{
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_DONE,
        .handle = fetch->handle,
        .status = fetch->status,
        .token_first = fetch->skip_tokens,
        .token_end = fetch->token_end,
        .bytes = fetch->bytes,
        .writes = fetch->writes,
        .retries = fetch->retries,
    };

    if (fetch->status == KVR_OK) {
        inbound->skipped_bytes += skipped_bytes(fetch);
    } else { /* what is not known to be right */
        notice.token_first = fetch->salvage_end;
        notice.token_end = fetch->tokens;
    }
    if (fetch->status == KVR_CANCELLED)
        notice.kind = KVR_NOTICE_CANCELLED;
    else if (fetch->status == KVR_EXPIRED)
        notice.kind = KVR_NOTICE_EXPIRED;
    else if (fetch->status != KVR_OK)
        notice.kind = KVR_NOTICE_FAILED;
    memcpy(notice.detail, fetch->detail, sizeof(notice.detail));
    fetch->ended = true;
    landed_tell(inbound, fetch);
    if (!fetch->engine_gone)
        kvr_ended_add(&inbound->ended, fetch->engine, fetch->handle, fetch->status, fetch->detail);
    if (!fetch->engine_gone)
        inbound->ports->notify(inbound->ports->self, fetch->engine, &notice);
    if (!fetch->engine_gone && KVR_MUTANT(terminal_told_twice))
        inbound->ports->notify(inbound->ports->self, fetch->engine, &notice);
}

static void segments_free(struct inbound *inbound, struct landing_segment *segment)
{
    while (segment != NULL) {
        struct landing_segment *next = segment->loop_next;

        kvr_plan_free(segment->plan, inbound->memory);
        kvr_buddy_free(inbound->memory, segment->left);
        kvr_buddy_free(inbound->memory, segment->held);
        kvr_buddy_free(inbound->memory, segment->positions);
        kvr_buddy_free(inbound->memory, segment);
        segment = next;
    }
}

static void transfer_free(struct inbound *inbound, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);

    share_give(inbound, transfer);
    segments_free(inbound, transfer->segments);
    kvr_buddy_free(inbound->memory, transfer->bits);
    kvr_buddy_free(inbound->memory, transfer->taken);
    if (transfer->planning)
        kvr_page_table_done(&transfer->planned, inbound->memory);
    if (transfer->remote != NULL)
        kvr_region_set_release(transfer->remote, inbound->memory);
    kvr_table_remove(&inbound->by_nonce, transfer->nonce);
    kvr_pool_release(&inbound->transfers, transfer->id);
    fetch->closed_count++;
    fetch_check_freed(inbound, fetch);
}

/* Nothing of this transfer can land any more. The last one of its fetch hands the pages back; the
 * engine is told before the source, because it waits for what it asked for. */
void transfer_settle(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_message landed = {.kind = KVR_MSG_LANDED};
    uint64_t salvaged;

    assert(!transfer->settled);
    transfer->settled = true;
    transfer->suspect_at = transfer->drain_at = KVR_NEVER;
    if (transfer->status == KVR_OK) {
        fetch->bytes += transfer->bytes;
        inbound->landed_bytes += transfer->bytes;
    }
    fetch->writes += transfer->chunk_count + transfer->retries;
    fetch->retries += transfer->retries;
    salvaged = transfer_salvage(inbound, transfer);
    if (salvaged < fetch->salvage_end)
        fetch->salvage_end = salvaged;
    fetch->settled_count++;
    if (fetch->settled_count == fetch->transfer_count || KVR_MUTANT(done_with_first_source))
        fetch_end(inbound, fetch);
    if (transfer->status == KVR_OK)
        inbound_send_needed(inbound, transfer, &landed);
    if (transfer->landing != NULL) {
        transfer->state = T_CLOSING;
        transfer->lands_open = 1;
        inbound_group_command(inbound, transfer, LAND_CLOSE, 0, NULL);
        guests_leave(inbound, transfer);
        return;
    }
    transfer_event(inbound, now, transfer, KVR_EVENT_ENDED);
    slots_release(inbound, now, transfer);
    transfer_free(inbound, transfer);
}

/* The group thread has given the landing back: its slots may name others now. */
void transfer_closed(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    transfer_event(inbound, now, transfer, KVR_EVENT_ENDED);
    while (transfer->landing->digest_first != NULL) {
        struct landing_digest *digest = transfer->landing->digest_first;

        transfer->landing->digest_first = digest->next;
        kvr_buddy_free(inbound->memory, digest);
    }
    if (transfer->landing->loan != NULL)
        inbound->ports->loan_return(inbound->ports->self, transfer->landing->loan);
    kvr_buddy_free(inbound->memory, transfer->landing);
    slots_release(inbound, now, transfer);
    transfer_free(inbound, transfer);
    shares_advance(inbound, now);
}

/* ---- failing --------------------------------------------------------------------------------- */

void fetch_fail(struct inbound *inbound, kvr_ns now, struct fetch *fetch, kvr_status status,
                const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_FAILING, .handle = fetch->handle};
    uint64_t transfers[KVR_SOURCES_MAX];
    uint32_t count = fetch->transfer_count;

    if (fetch->ended || fetch->failing_told)
        return;
    fetch->failing_told = true;
    fetch->status = notice.status = status;
    snprintf(fetch->detail, sizeof(fetch->detail), "%s", detail);
    memcpy(notice.detail, fetch->detail, sizeof(notice.detail));
    waiting_remove(inbound, fetch);
    if (!fetch->engine_gone)
        inbound->ports->notify(inbound->ports->self, fetch->engine, &notice);
    if (count == 0) { /* not even its first transfer found a place */
        fetch->salvage_end = fetch->skip_tokens;
        fetch_end(inbound, fetch);
        fetch_check_freed(inbound, fetch);
        return;
    }
    /* The fetch may be gone after the last transfer fails: walk a copy. */
    memcpy(transfers, fetch->transfers, sizeof(transfers));
    for (uint32_t i = 0; i < count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, transfers[i]);

        if (transfer != NULL)
            transfer_fail(inbound, now, transfer, status, detail);
    }
    waiting_advance(inbound, now); /* it may have kept others waiting */
}
