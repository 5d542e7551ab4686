/* How an offer ends: QUIET, LANDED, failures; and nothing of it is being read any more. */
#include <assert.h>
#include <stdio.h>

#include "base/mutant.h"
#include "prefill-agent/outbound.h"

static struct kvr_event_way way_of(const struct kvr_fragment_way *way)
{
    return (struct kvr_event_way){.writes = way->ns != 0 ? way->writes : 0, .ns = way->ns};
}

void offer_event(struct outbound *outbound, kvr_ns now, const struct offer *offer,
                 kvr_event_kind kind)
{
    const struct kvr_event_sink *sink = &outbound->ports->events;
    struct kvr_event event = {
        .kind = kind,
        .role = KVR_ROLE_SOURCE,
        .at = now,
        .transfer = offer->nonce,
        .attempt = offer->attempt,
        .source_engine = offer->source_engine,
        .target_engine = offer->target.engine,
        .source_rank = {offer->source_tp, offer->source_pp},
        .target_rank = {offer->target.tp, offer->target.pp},
        .pieces = offer->pieces,
        .fragment_bytes = offer->fragment_bytes,
        .fragments_staged = offer->fragments.choice == KVR_FRAGMENT_STAGE,
        .fragments_direct = way_of(&offer->fragments.direct),
        .fragments_copied = way_of(&offer->fragments.staged),
        .tokens = offer->tokens,
        .skip_tokens = offer->skip_tokens,
        .bytes = offer->bytes,
        .chunks = offer->chunk_count,
        .retries = offer->retries,
        .limits = {offer->limits.pieces_local, offer->limits.pieces_remote,
                   offer->limits.chunk_bytes_max, offer->limits.calibrated},
        .rails = offer->rails,
        .path = offer->local && offer->path == KVR_PATH_HOST ? KVR_PATH_LOCAL : offer->path,
        .outcome = offer->status,
    };

    if (sink->emit == NULL)
        return;
    memcpy(event.request, offer->request, sizeof(event.request));
    memcpy(event.peer, outbound->peers[offer->peer].agent, sizeof(event.peer));
    memcpy(event.detail, offer->detail, sizeof(event.detail));
    sink->emit(sink->self, &event);
}

/* ---- the end --------------------------------------------------------------------------------- */

void offer_free(struct outbound *outbound, struct offer *offer)
{
    kvr_table_remove(&outbound->by_nonce, offer->nonce);
    if (offer->state == O_TOMB)
        outbound->tombs--;
    kvr_pool_release(&outbound->offers, offer->id);
}

static void segments_free(struct outbound *outbound, struct push_segment *segment)
{
    while (segment != NULL) {
        struct push_segment *next = segment->next;

        segment_free(outbound, segment);
        segment = next;
    }
}

/* The publish's part: one consumer less to wait for. */
static void publish_settle(struct outbound *outbound, kvr_ns now, const struct offer *offer)
{
    struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);

    if (publish == NULL)
        return;
    consumer_ends(publish, offer);
    publish->writes += offer->writes;
    publish->retries += offer->retries;
    if (offer->status == KVR_OK) {
        publish->bytes += offer->bytes;
        outbound->sent_bytes += offer->bytes;
    }
    publish_check_free(outbound, now, publish);
}

/* It met its publish, or never will. */
void offer_unpark(struct outbound *outbound, const struct offer *offer)
{
    struct outbound_peer *peer = &outbound->peers[offer->peer];

    outbound->parked--;
    peer->parked--;
    if (offer->remote != NULL) /* else it was refused before it had a page table */
        peer->parked_bytes -= kvr_page_tables_bytes(offer->remote, offer->tokens);
}

/* Nothing of it can be read any more. */
static void offer_settle(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    bool parked = offer->state == O_PARKED;

    if (outbound->ports->loans != NULL) /* before the pages are anybody's */
        kvr_loan_end(&outbound->ports->loans[kvr_pool_index(offer->id)]);
    offer_event(outbound, now, offer, KVR_EVENT_ENDED);
    if (parked)
        offer_unpark(outbound, offer);
    segments_free(outbound, offer->segments);
    segments_free(outbound, offer->telling);
    kvr_buddy_free(outbound->memory, offer->siblings);
    offer_move_drop(outbound, offer);
    offer_lists_drop(outbound, offer);
    if (offer->job != NULL) {
        segments_free(outbound, offer->job->first);
        kvr_buddy_free(outbound->memory, offer->job);
    }
    if (offer->remote != NULL) {
        kvr_page_tables_done(&offer->pages, outbound->memory);
        kvr_region_set_release(offer->remote, outbound->memory);
    }
    offer->segments = offer->telling = NULL;
    offer->siblings = NULL;
    offer->sibling_count = 0;
    offer->job = NULL;
    offer->remote = NULL;
    offer->state = O_TOMB;
    outbound->tombs++;
    offer->deadline_tomb = now + 2 * outbound->options.silence_ns;
    publish_settle(outbound, now, offer);
    /* Of what never had a publish nothing was granted: "unknown" is as good an answer. Whoever has
     * it whole asks nothing more, and tombstones would fill the table at a thousand a second. */
    if (offer->peer_gone || offer->landed || (parked && !offer_owes(offer)))
        offer_free(outbound, offer);
}

static void offer_stop(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    if (offer->state == O_STOPPING || offer->state == O_CLOSING || offer->state == O_TOMB)
        return;
    if (offer->state != O_LIVE) {
        offer_settle(outbound, now, offer);
        return;
    }
    offer->state = O_STOPPING;
    outbound_group_command(outbound, offer, PUSH_STOP, NULL);
}

static void reason_set(struct offer *offer, kvr_status status, const char *detail)
{
    if (offer->status != KVR_OK || status == KVR_OK)
        return;
    offer->status = status;
    snprintf(offer->detail, sizeof(offer->detail), "%s", detail);
}

/* Our side gives up. QUIET follows FAIL also when nothing was posted: a GRANT may be on its way. */
void offer_fail(struct outbound *outbound, kvr_ns now, struct offer *offer, kvr_status status,
                const char *detail)
{
    if (offer->state == O_STOPPING || offer->state == O_CLOSING || offer->state == O_TOMB)
        return;
    reason_set(offer, status, detail);
    offer_event(outbound, now, offer, KVR_EVENT_FAILING);
    offer_fail_tell(outbound, offer);
    if (offer->state != O_LIVE)
        offer_quiet_tell(outbound, offer);
    offer_stop(outbound, now, offer);
}

void offer_ended(struct outbound *outbound, kvr_ns now, struct offer *offer, kvr_status status,
                 const char *detail)
{
    if (status > 0)
        status = KVR_MALFORMED; /* from the wire: neither a success nor a reason */
    reason_set(offer, status, detail);
    if (status == KVR_OK) {
        offer->landed = true;
        offer->owes_fail = offer->owes_quiet = false;
        outbound->peers[offer->peer].lost[offer->group].since = KVR_NEVER;
    }
    if (offer->peer_gone && offer->state == O_CLOSING)
        offer->fence_at = now + outbound->options.quiet_ns;
    offer_stop(outbound, now, offer);
}

/* ---- the group thread ------------------------------------------------------------------------ */

static void count_received(struct offer *offer, const struct kvr_group_message *message)
{
    if (!offer->counting)
        offer->count_count = 0;
    offer->counting = true;
    assert(offer->count_count < KVR_EPOCHS_PER_TRANSFER);
    offer->counts[offer->count_count++] = (struct kvr_epoch_count){
        .rail = (uint32_t)message->a, .epoch = (uint32_t)message->b, .count = message->c};
}

static void sum_received(struct offer *offer, const struct kvr_group_message *message)
{
    if (!offer->counting)
        offer->count_count = 0;
    offer->counting = false;
    offer->rails = message->id;
    offer->writes = (uint32_t)message->b;
    offer->retries = (uint32_t)message->c;
}

/* Planted bugs: the pages are given back while cards, or copies for them, may still read. */
static bool frees_early(const struct outbound *outbound, const struct offer *offer)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);

    if (KVR_MUTANT(source_free_before_completion))
        return true;
    return KVR_MUTANT(source_free_before_the_copy) && publish != NULL && offer->gathers;
}

static void stopped(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    if (!offer->landed)
        offer_quiet_tell(outbound, offer);
    offer->state = O_CLOSING;
    if (frees_early(outbound, offer)) {
        publish_settle(outbound, now, offer);
        offer->publish = 0;
    }
    offer->fence_at =
        now + (offer->peer_gone ? outbound->options.quiet_ns : outbound->options.silence_ns);
    outbound_group_command(outbound, offer, PUSH_CLOSE, NULL);
}

/* The job, or what an earlier group had of it. */
static void closed(struct outbound *outbound, kvr_ns now, struct offer *offer, void *job)
{
    if (job == offer->job) {
        offer->job_closed = true;
    } else {
        kvr_buddy_free(outbound->memory, job);
        offer->husks--;
    }
    if (offer->job_closed && offer->husks == 0)
        offer_settle(outbound, now, offer);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

void offer_group(struct outbound *outbound, kvr_ns now, struct offer *offer,
                 const struct kvr_group_message *message)
{
    switch (message->kind) {
    case PUSH_FIRST_POST:
        offer_event(outbound, message->a, offer, KVR_EVENT_FIRST_READY);
        offer_event(outbound, now, offer, KVR_EVENT_FIRST_POST);
        break;
    case PUSH_ALL_READY:
        offer_event(outbound, message->a, offer, KVR_EVENT_LAST_READY);
        break;
    case PUSH_COUNT:
        count_received(offer, message);
        break;
    case PUSH_POSTED:
        sum_received(offer, message);
        offer_hashed(outbound, offer, message->pointer);
        if (offer->state == O_LIVE && message->a == offer->round) {
            offer_event(outbound, now, offer, KVR_EVENT_LAST_POST);
            offer_quiet_tell(outbound, offer);
            if (KVR_MUTANT(source_free_without_landed))
                offer_ended(outbound, now, offer, KVR_OK, "");
        }
        break;
    case PUSH_RESTS:
        sum_received(offer, message);
        if (offer->state == O_LIVE && message->a == offer->round)
            offer_quiet_tell(outbound, offer);
        break;
    case PUSH_STOPPED:
        sum_received(offer, message);
        stopped(outbound, now, offer);
        break;
    case PUSH_LISTED:
        offer_listed(outbound, offer, message->pointer);
        break;
    case PUSH_COPY_FAILED:
        offer_fail(outbound, now, offer, KVR_COPY_FAILED,
                   "the source's pages could not be copied out of device memory");
        break;
    case PUSH_NO_RAIL:
        offer_no_rail(outbound, now, offer);
        break;
    case PUSH_RAIL_BACK:
        offer->ask_at = offer->no_rail_at = KVR_NEVER;
        break;
    case PUSH_MOVED:
        offer_moved(outbound, offer, message->pointer);
        break;
    case PUSH_CLOSED:
        closed(outbound, now, offer, message->pointer);
        break;
    default:
        break;
    }
}

/* A target ends its fetch at the deadline, and its CANCEL is here within the heartbeat bound. One
 * that beats and says no more may not hold the pages for ever. */
static bool is_overdue(const struct outbound *outbound, kvr_ns now, const struct offer *offer)
{
    return (offer->state == O_OFFERED || offer->state == O_LIVE) &&
           now >= outbound->options.silence_ns &&
           now - outbound->options.silence_ns >= offer->deadline;
}

void offer_tick(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    if (offer->state == O_TOMB) {
        if (now >= offer->deadline_tomb && !offer_owes(offer))
            offer_free(outbound, offer);
        return;
    }
    if (offer->state == O_PARKED && outbound->draining) {
        offer_fail(outbound, now, offer, KVR_DRAINING, OFFER_DRAINING);
        return;
    }
    if (offer->state == O_PARKED && now >= offer->deadline) {
        offer_fail(outbound, now, offer, KVR_NO_SOURCE,
                   "no engine published this request, attempt and generation in time");
        return;
    }
    if (is_overdue(outbound, now, offer)) {
        offer_fail(outbound, now, offer, KVR_EXPIRED,
                   "the deadline of its fetch has passed, and the target agent has not ended it");
        return;
    }
    if (offer->state == O_LIVE && now >= offer->ask_at)
        offer_ask(outbound, offer);
    if (offer->state == O_LIVE && now >= offer->no_rail_at) {
        offer_unreachable(outbound, now, offer);
        return;
    }
    if (offer->state == O_CLOSING && now >= offer->fence_at) {
        offer->fence_at = now + outbound->options.silence_ns;
        for (uint32_t rail = 0; rail < outbound->options.rail_count; rail++)
            if (offer->rails >> rail & 1)
                outbound_rail_recycle(outbound, rail);
    }
}
