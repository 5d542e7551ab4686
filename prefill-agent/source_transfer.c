/* A transfer has a push job from GRANT to its end:
 *
 * state    | MATCHED | GRANTED | STOP     | STOPPED | CLOSED
 * ---------|---------|---------|----------|---------|-------
 * PARKED   | OFFERED | -       | ENDED    | -       | -
 * OFFERED  | -       | LIVE    | ENDED    | -       | -
 * LIVE     | -       | -       | STOPPING | -       | -
 * STOPPING | -       | -       | =        | CLOSING | -
 * CLOSING  | -       | -       | =        | -       | ENDED
 * ENDED    | -       | -       | =        | -       | -
 *
 * A GRANT in LIVE is the answer to NO_RAIL (failover.c); in other states it is ignored. What
 * OFFERED and LIVE wait for stands in the states of path.c, announce.c and failover.c. */
#include "prefill-agent/source_transfer.h"

#include "base/mutant.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"

KVR_STATE_TABLE(source_transfer, ST) = {
    /* MATCHED, GRANTED, STOP, STOPPED, CLOSED */
    [ST_PARKED] = {ST_OFFERED, NEVER, ST_ENDED, NEVER, NEVER},
    [ST_OFFERED] = {NEVER, ST_LIVE, ST_ENDED, NEVER, NEVER},
    [ST_LIVE] = {NEVER, NEVER, ST_STOPPING, NEVER, NEVER},
    [ST_STOPPING] = {NEVER, NEVER, ST_STOPPING, ST_CLOSING, NEVER},
    [ST_CLOSING] = {NEVER, NEVER, ST_CLOSING, NEVER, ST_ENDED},
    [ST_ENDED] = {NEVER, NEVER, ST_ENDED, NEVER, NEVER},
};

static struct kvr_event_way way_of(const struct kvr_fragment_way *way)
{
    return (struct kvr_event_way){.writes = way->ns != 0 ? way->writes : 0, .ns = way->ns};
}

static struct kvr_event event_of(const struct outbound *outbound, kvr_ns at,
                                 const struct source_transfer *transfer, kvr_event_kind kind)
{
    struct kvr_event event = {
        .kind = kind,
        .role = KVR_ROLE_SOURCE,
        .at = at,
        .transfer = transfer->nonce,
        .attempt = transfer->match.attempt,
        .source_engine = transfer->match.source_engine,
        .target_engine = transfer->match.target.engine,
        .source_rank = {transfer->match.source_tp, transfer->match.source_pp},
        .target_rank = {transfer->match.target.tp, transfer->match.target.pp},
        .pieces = transfer->announce.pieces,
        .fragment_bytes = transfer->path.fragment_bytes,
        .fragments_staged = transfer->path.fragments.choice == KVR_FRAGMENT_STAGE,
        .fragments_direct = way_of(&transfer->path.fragments.direct),
        .fragments_copied = way_of(&transfer->path.fragments.staged),
        .tokens = transfer->match.tokens,
        .skip_tokens = transfer->match.skip_tokens,
        .bytes = transfer->announce.bytes,
        .chunks = transfer->announce.chunk_count,
        .retries = transfer->settle.retries,
        .limits = {transfer->path.limits.pieces_local, transfer->path.limits.pieces_remote,
                   transfer->path.limits.chunk_bytes_max, transfer->path.limits.calibrated},
        .rails = transfer->settle.rails,
        .path = transfer->grant.local && transfer->path.kind == KVR_PATH_HOST ? KVR_PATH_LOCAL
                                                                              : transfer->path.kind,
        .outcome = transfer->status,
    };

    memcpy(event.request, transfer->match.request, sizeof(event.request));
    kvr_tenants_name(&outbound->engines.tenants, transfer->match.tenant, event.tenant);
    memcpy(event.peer, outbound->peers[transfer->peer].agent, sizeof(event.peer));
    memcpy(event.detail, transfer->detail, sizeof(event.detail));
    return event;
}

static void event_at(struct outbound *outbound, kvr_ns at, const struct source_transfer *transfer,
                     kvr_event_kind kind)
{
    const struct kvr_event_sink *sink = &outbound->ports->events;
    struct kvr_event event;

    if (sink->emit == NULL)
        return;
    event = event_of(outbound, at, transfer, kind);
    sink->emit(sink->self, &event);
}

void source_transfer_event(struct outbound *outbound, const struct source_transfer *transfer,
                           kvr_event_kind kind)
{
    event_at(outbound, outbound->now, transfer, kind);
}

static void rails_sum(const struct push_posts *posts, struct kvr_rail_span *rails)
{
    for (uint32_t i = 0; i < posts->pair_count; i++) {
        const struct push_pair *pair = &posts->pairs[i];
        struct kvr_rail_span *rail = &rails[pair->pair.rail];

        rail->bytes += pair->bytes;
        rail->writes += pair->count;
        rail->retries += pair->repeated;
    }
}

void source_transfer_ended(struct outbound *outbound, const struct source_transfer *transfer)
{
    const struct kvr_event_sink *sink = &outbound->ports->events;
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);
    struct kvr_span_book *book = transfer->grant.spans;
    uint8_t spans[KVR_SPANS_BYTES_MAX], *pages = NULL;
    struct kvr_event event;

    if (sink->emit == NULL)
        return;
    event = event_of(outbound, outbound->now, transfer, KVR_EVENT_ENDED);
    if (kvr_spans_wanted(&outbound->options.spans, book, &event)) {
        rails_sum(&transfer->grant.job->posts, book->rails);
        event.spans = spans;
        event.spans_bytes = (uint32_t)kvr_spans_pack(book, KVR_ROLE_SOURCE, outbound->now, spans);
    }
    if (transfer->grant.job != NULL)
        event.unrecorded += kvr_spans_missed(&outbound->options.spans, book, &event);
    if (publish != NULL &&
        kvr_pages_wanted(&outbound->pages, &outbound->options.spans, book, &event))
        pages = kvr_page_tables_record(&publish->pages, outbound->memory, &event);
    sink->emit(sink->self, &event);
    kvr_buddy_free(outbound->memory, pages);
}

bool source_transfer_lends(const struct outbound *outbound, const struct source_transfer *transfer,
                           const struct publish *publish)
{
    const struct kvr_rail_groups *groups = &outbound->options.groups;

    if (outbound->ports->revocation_words == NULL || groups->same_host == 0)
        return outbound->ports->revocation_words != NULL;
    return outbound->peers[transfer->peer].same_host != 0 && publish->set->count > 0 &&
           kvr_region_set_lies_on(publish->set,
                                  kvr_rail_groups_same_host(groups, publish->set->locals[0]->home));
}

void source_transfer_advance(struct outbound *outbound, struct source_transfer *transfer)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);
    struct kvr_error error;

    if ((transfer->state != ST_OFFERED && transfer->state != ST_LIVE) ||
        transfer->announce.state == ANNOUNCE_ALL_SENT ||
        transfer->path.state != SOURCE_PATH_READY || publish == NULL)
        return;
    if (announce_all(outbound, transfer, publish, &error) < 0)
        source_transfer_fail(outbound, transfer, error.status, error.detail);
}

void source_transfer_message(struct outbound *outbound, struct source_transfer *transfer,
                             const struct kvr_message *message)
{
    if (transfer->state == ST_ENDED && message->kind != KVR_MSG_ROOM &&
        message->kind != KVR_MSG_MISSING)
        return;
    switch (message->kind) {
    case KVR_MSG_SKIP:
        match_skip(outbound, transfer, &message->skip);
        break;
    case KVR_MSG_PAGES:
        match_pages(outbound, transfer, &message->pages);
        break;
    case KVR_MSG_GRANT:
        grant_received(outbound, transfer, &message->grant);
        break;
    case KVR_MSG_ROOM:
        retransmit_room(outbound, transfer, &message->room);
        break;
    case KVR_MSG_MISSING:
        retransmit_missing(outbound, transfer, &message->missing);
        break;
    case KVR_MSG_LANDED:
        source_transfer_end(outbound, transfer, message->reason.status, message->reason.detail);
        break;
    case KVR_MSG_CANCEL: /* a cancel without a reason is no success */
        source_transfer_end(outbound, transfer,
                            message->reason.status < 0 ? message->reason.status : KVR_CANCELLED,
                            message->reason.detail);
        break;
    default:
        outbound->ports->hang_up(outbound->ports->self, transfer->peer, KVR_MALFORMED,
                                 "a message that only a source sends");
    }
}

/* What has room was posted; with PUSH_POSTED, everything. */
static void posted(struct outbound *outbound, struct source_transfer *transfer,
                   const union push_message *message)
{
    settle_sum(transfer, &message->sum);
    if (message->head.kind == PUSH_POSTED)
        digest_posted(outbound, transfer, message->sum.first);
    if (transfer->state != ST_LIVE || message->sum.round != transfer->settle.round)
        return;
    if (message->head.kind == PUSH_POSTED)
        source_transfer_event(outbound, transfer, KVR_EVENT_LAST_POST);
    pending_due(outbound, transfer, PENDING_ON_QUIET_DUE);
    if (KVR_MUTANT(source_free_without_landed) && message->head.kind == PUSH_POSTED)
        source_transfer_end(outbound, transfer, KVR_OK, "");
}

void source_transfer_group(struct outbound *outbound, struct source_transfer *transfer,
                           const union push_message *message)
{
    switch (message->head.kind) {
    case PUSH_FIRST_POST:
        event_at(outbound, message->ready_at, transfer, KVR_EVENT_FIRST_READY);
        source_transfer_event(outbound, transfer, KVR_EVENT_FIRST_POST);
        break;
    case PUSH_ALL_READY:
        event_at(outbound, message->ready_at, transfer, KVR_EVENT_LAST_READY);
        break;
    case PUSH_POSTED:
    case PUSH_STAGING_FULL:
        posted(outbound, transfer, message);
        break;
    case PUSH_COUNT:
        settle_count(transfer, &message->count);
        break;
    case PUSH_STOPPED:
        settle_stopped(outbound, transfer, &message->sum);
        break;
    case PUSH_CLOSED:
        settle_closed(outbound, transfer, message->closed);
        break;
    case PUSH_LISTED:
        retransmit_listed(outbound, transfer, message->list);
        break;
    case PUSH_COPY_FAILED:
        source_transfer_fail(outbound, transfer, KVR_COPY_FAILED,
                             "the source's pages could not be copied out of device memory");
        break;
    case PUSH_NO_RAIL:
        failover_no_rail(outbound, transfer, message->silent_from);
        break;
    case PUSH_RAIL_BACK:
        failover_rail_back(outbound, transfer);
        break;
    case PUSH_FAILED_OVER:
        failover_moved(outbound, transfer, message->failover);
        break;
    default:
        break;
    }
}

/* A target ends its fetch at the deadline, and its CANCEL is here within the heartbeat bound. One
 * that beats and says no more may not hold the pages for ever. */
static bool is_overdue(const struct outbound *outbound, const struct source_transfer *transfer)
{
    return (transfer->state == ST_OFFERED || transfer->state == ST_LIVE) &&
           outbound->now >= outbound->options.silence_ns &&
           outbound->now - outbound->options.silence_ns >= transfer->match.deadline;
}

void source_transfer_tick(struct outbound *outbound, struct source_transfer *transfer)
{
    if (transfer->state == ST_PARKED)
        match_tick(outbound, transfer);
    else if (is_overdue(outbound, transfer))
        source_transfer_fail(
            outbound, transfer, KVR_EXPIRED,
            "the deadline of its fetch has passed, and the target agent has not ended it");
    else if (transfer->state == ST_LIVE)
        failover_tick(outbound, transfer);
    else
        settle_tick(outbound, transfer);
}
