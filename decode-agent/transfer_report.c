/* Events of a transfer, for the scheduler. */
#include "decode-agent/sending.h"

#include "decode-agent/fetch.h"

/* The layers of the first segment of each KV group. */
static uint32_t layers_of(const struct transfer *transfer)
{
    uint32_t groups = 0, layers = 0;

    for (const struct landing_segment *at = transfer->intake.segments; at != NULL;
         at = at->loop_next) {
        layers += groups >> at->group & 1 ? 0 : at->plan->layer_count;
        groups |= 1u << at->group;
    }
    return layers;
}

static kvr_path path_of(const struct fetch *fetch, const struct transfer *transfer)
{
    uint32_t groups = 0;
    kvr_path path;

    for (const struct landing_segment *at = transfer->intake.segments; at != NULL;
         at = at->loop_next)
        groups |= 1u << at->group;
    path = kvr_region_set_path(fetch->set, groups);
    if (landing_path_staged(&transfer->path) && path != KVR_PATH_NONE)
        return KVR_PATH_STAGED;
    if (transfer->path.state == PATH_DIRECT_COPY && path != KVR_PATH_NONE)
        return KVR_PATH_LOCAL;
    return transfer->grant.same_host && path == KVR_PATH_HOST ? KVR_PATH_LOCAL : path;
}

/* The landing is the loop's again. RAIL_LOST may have named a rail that there is not, which has no
 * writes. */
static uint32_t spans_pack(const struct inbound *inbound, const struct transfer *transfer,
                           uint8_t bytes[KVR_SPANS_BYTES_MAX])
{
    const struct landing_arrivals *arrived = &transfer->grant.landing->arrived;
    struct kvr_span_book *book = transfer->grant.spans;

    for (uint32_t i = 0; i < arrived->count_count; i++)
        if (arrived->counts[i].rail < KVR_RAILS_MAX)
            book->rails[arrived->counts[i].rail].writes += arrived->counts[i].count;
    return (uint32_t)kvr_spans_pack(book, KVR_ROLE_TARGET, inbound->now, bytes);
}

/* Returns memory that the event borrows, to be freed; or NULL. */
static uint8_t *records_add(struct inbound *inbound, const struct fetch *fetch,
                            const struct transfer *transfer, uint8_t spans[KVR_SPANS_BYTES_MAX],
                            struct kvr_event *event)
{
    const struct kvr_spans_choice *choice = &inbound->options.spans;
    const struct kvr_span_book *book = transfer->grant.spans;

    if (kvr_spans_wanted(choice, book, event)) {
        event->spans = spans;
        event->spans_bytes = spans_pack(inbound, transfer, spans);
    }
    if (transfer->grant.landing != NULL)
        event->unrecorded += kvr_spans_missed(choice, book, event);
    return kvr_pages_wanted(&inbound->pages, choice, book, event)
               ? kvr_page_tables_record(&fetch->pages, inbound->memory, event)
               : NULL;
}

void transfer_report(struct inbound *inbound, const struct transfer *transfer, kvr_event_kind kind)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    const struct kvr_event_sink *sink = &inbound->ports->events;
    uint8_t spans[KVR_SPANS_BYTES_MAX], *pages = NULL;
    struct kvr_event event = {
        .kind = kind,
        .role = KVR_ROLE_TARGET,
        .at = inbound->now,
        .transfer = transfer->nonce,
        .attempt = fetch->attempt,
        .source_engine = transfer->source.engine,
        .target_engine = inbound->engines.local[fetch->engine].rank.engine,
        .source_rank = {transfer->source.tp, transfer->source.pp},
        .target_rank = {inbound->engines.local[fetch->engine].rank.tp,
                        inbound->engines.local[fetch->engine].rank.pp},
        .tokens = fetch->tokens,
        .skip_tokens = fetch->skip_tokens,
        .bytes = transfer->intake.bytes,
        .layers = layers_of(transfer),
        .chunks = transfer->intake.chunk_count,
        .retries = transfer->retries,
        .rails = transfer->rails,
        .path = path_of(fetch, transfer),
        .outcome = transfer->failure.status,
    };

    if (sink->emit == NULL)
        return;
    memcpy(event.request, fetch->request, sizeof(event.request));
    kvr_tenants_name(&inbound->engines.tenants, fetch->tenant, event.tenant);
    if (source_link_answered(&transfer->link)) /* else the number may be an older session's */
        memcpy(event.peer, inbound->peers[transfer->link.peer].agent, sizeof(event.peer));
    memcpy(event.detail, transfer->failure.detail, sizeof(event.detail));
    if (kind == KVR_EVENT_ENDED)
        pages = records_add(inbound, fetch, transfer, spans, &event);
    sink->emit(sink->self, &event);
    kvr_buddy_free(inbound->memory, pages);
}
