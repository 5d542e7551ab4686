/* Spans of OpenTelemetry in the JSON form of OTLP, as its file exporter writes them: each line is a
 * TracesData of its own, which a collector reads from the file or takes at /v1/traces.
 *
 *     trace        a request: the hash of its id in 128 bits. A transfer without a request is one
 *     request      the root: from its arrival, or its first transfer, to the end of its last one.
 *                  These lines come last
 *     transfer     its child, of the decode-agent: its id is that of the transfer, where that is 16
 *                  hexadecimal digits, else a hash of it
 *     source       a child of the transfer, of the prefill-agent
 *     stages       children of the side that measured them
 *
 * Ids are hexadecimal digits, times and whole numbers texts, and enums numbers, as OTLP/JSON has
 * them. Memory grows with the requests, some 150 bytes each: of each is kept when it began and
 * ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>
#include <xxhash.h>

#include "base/version.h"
#include "tools/trace/export.h"
#include "trace/kvtrace_times.h"

#define KIND_INTERNAL 1
#define KIND_SERVER   2
#define KIND_CLIENT   3
#define STATUS_OK     1
#define STATUS_ERROR  2

struct trace_id {
    uint64_t high, low;
};

/* A request; its span is written at the end. */
struct open_request {
    UT_hash_handle hh;
    struct trace_id trace;
    int64_t first_us, last_us;
    int64_t input_tokens, output_tokens; /* KVTRACE_NEVER: not known */
};

struct otlp {
    struct open_request *requests;
};

/* ---- ids ------------------------------------------------------------------------------------- */

static struct trace_id trace_of(const char *text)
{
    XXH128_hash_t hash = XXH3_128bits(text, strlen(text));

    if (hash.high64 == 0 && hash.low64 == 0)
        hash.low64 = 1;
    return (struct trace_id){hash.high64, hash.low64};
}

static uint64_t not_zero(uint64_t id)
{
    return id != 0 ? id : 1;
}

static uint64_t root_span(const struct trace_id *trace)
{
    return not_zero(XXH3_64bits(trace, sizeof(*trace)));
}

static uint64_t transfer_span(const struct kvtrace_transfer *transfer)
{
    size_t digits = strspn(transfer->id, "0123456789abcdef");

    if (digits == 16 && transfer->id[16] == '\0')
        return not_zero(strtoull(transfer->id, NULL, 16));
    return not_zero(XXH3_64bits(transfer->id, strlen(transfer->id)));
}

/* Of a part of the transfer; numbers from 1 on tell them apart. */
static uint64_t part_span(const struct kvtrace_transfer *transfer, uint64_t number)
{
    return not_zero(XXH3_64bits_withSeed(transfer->id, strlen(transfer->id), number));
}

/* ---- spans ----------------------------------------------------------------------------------- */

struct span {
    struct trace_id trace;
    uint64_t id, parent; /* parent 0: none */
    const char *name;
    int kind;
    int64_t first_us, last_us; /* since the trace's start */
};

static uint64_t nanoseconds(const struct export *export, int64_t at_us)
{
    int64_t wall_us = export_wall_us(export, at_us);

    if (wall_us <= 0)
        return 0;
    return (uint64_t)wall_us < UINT64_MAX / 1000 ? (uint64_t)wall_us * 1000 : UINT64_MAX;
}

/* Up to its attributes, which the caller adds, and the end. */
static void open_span(struct export *export, const struct span *span)
{
    export_print(export,
                 "{\"traceId\":\"%016" PRIx64 "%016" PRIx64 "\",\"spanId\":\"%016" PRIx64 "\"",
                 span->trace.high, span->trace.low, span->id);
    if (span->parent != 0)
        export_print(export, ",\"parentSpanId\":\"%016" PRIx64 "\"", span->parent);
    export_text(export, ",\"name\":");
    export_json(export, span->name);
    export_print(export,
                 ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRIu64 "\",\"endTimeUnixNano\":\"%" PRIu64
                 "\",\"attributes\":[",
                 span->kind, nanoseconds(export, span->first_us),
                 nanoseconds(export, span->last_us));
}

static void put_text(struct export *export, const char *separator, const char *key,
                     const char *text)
{
    export_print(export, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":", separator, key);
    export_json(export, text);
    export_text(export, "}}");
}

static void put_number(struct export *export, const char *separator, const char *key,
                       int64_t number)
{
    export_print(export, "%s{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}", separator,
                 key, number);
}

static void open_resource(struct export *export, const char *service,
                          const struct kvtrace_agent *agent)
{
    export_text(export, "{\"resource\":{\"attributes\":[");
    put_text(export, "", "service.name", service);
    if (agent != NULL) {
        put_text(export, ",", "service.instance.id", agent->name);
        put_text(export, ",", "service.version", agent->version);
        put_text(export, ",", "host.name", agent->host);
    }
    export_text(export, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"kvrail\",\"version\":"
                        "\"" KVRAIL_VERSION "\"},\"spans\":[");
}

static void close_resource(struct export *export)
{
    export_text(export, "]}]}");
}

/* ---- a transfer ------------------------------------------------------------------------------ */

static void put_rails(struct export *export, const struct kvtrace_side *side)
{
    if (side->rails.count == 0)
        return;
    export_text(export, ",{\"key\":\"kvrail.rails\",\"value\":{\"arrayValue\":{\"values\":[");
    for (size_t i = 0; i < side->rails.count; i += 4) {
        const int64_t *row = side->rails.numbers + i;

        export_print(export, "%s{\"kvlistValue\":{\"values\":[", i > 0 ? "," : "");
        put_text(export, "", "name", export_rail_name(export, side->agent, row[0]));
        put_number(export, ",", "writes", row[1]);
        put_number(export, ",", "bytes", row[2]);
        put_number(export, ",", "retries", row[3]);
        export_text(export, "]}}");
    }
    export_text(export, "]}}}");
}

static void put_stages(struct export *export, const struct kvtrace_transfer *transfer,
                       kvr_role role, const struct span *side)
{
    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        struct span span = {.trace = side->trace,
                            .id = part_span(transfer, 16 + (uint64_t)time),
                            .parent = side->id,
                            .name = kvtrace_time_name((kvtrace_time)time),
                            .kind = KIND_INTERNAL};

        if (kvtrace_time_role((kvtrace_time)time) != role || time == KVTRACE_TIME_TOTAL ||
            !kvtrace_time_span(transfer, (kvtrace_time)time, &span.first_us, &span.last_us))
            continue;
        span.first_us += transfer->at_us;
        span.last_us += transfer->at_us;
        export_text(export, ",");
        open_span(export, &span);
        export_text(export, "]}");
    }
}

static void put_status(struct export *export, const struct kvtrace_transfer *transfer)
{
    export_text(export, "],\"status\":{");
    if (transfer->outcome == KVTRACE_DONE)
        export_print(export, "\"code\":%d", STATUS_OK);
    else if (transfer->outcome != KVTRACE_LIVE) {
        export_print(export, "\"code\":%d,\"message\":", STATUS_ERROR);
        export_json(export, transfer->detail[0] != '\0' ? transfer->detail : transfer->reason);
    }
    export_text(export, "}}");
}

static void put_amounts(struct export *export, const struct kvtrace_transfer *transfer)
{
    put_text(export, "", "kvrail.transfer", transfer->id);
    put_text(export, ",", "kvrail.request", transfer->request);
    put_text(export, ",", "kvrail.tenant", transfer->tenant);
    put_text(export, ",", "kvrail.outcome", kvtrace_outcome_name(transfer->outcome));
    put_text(export, ",", "kvrail.reason", transfer->reason);
    put_number(export, ",", "kvrail.attempt", transfer->attempt);
    put_number(export, ",", "kvrail.tokens", transfer->tokens);
    put_number(export, ",", "kvrail.skip_tokens", transfer->skip_tokens);
    put_number(export, ",", "kvrail.bytes", transfer->bytes);
    put_number(export, ",", "kvrail.layers", transfer->layers);
    put_number(export, ",", "kvrail.chunks", transfer->chunks);
    put_number(export, ",", "kvrail.retries", transfer->retries);
}

/* The transfer, as its target saw it; as its source did where no target is known. */
static void put_target(struct export *export, const struct kvtrace_transfer *transfer,
                       const struct span *span)
{
    const struct kvtrace_side *side = &transfer->sides[KVR_ROLE_TARGET];

    open_resource(export, "decode-agent", kvtrace_book_agent(export->book, side->agent));
    open_span(export, span);
    put_amounts(export, transfer);
    put_rails(export, side);
    put_status(export, transfer);
    put_stages(export, transfer, KVR_ROLE_TARGET, span);
    close_resource(export);
}

static void put_source(struct export *export, const struct kvtrace_transfer *transfer,
                       const struct span *parent)
{
    const struct kvtrace_side *side = &transfer->sides[KVR_ROLE_SOURCE];
    struct span span = {.trace = parent->trace,
                        .id = part_span(transfer, 1),
                        .parent = parent->id,
                        .name = "source",
                        .kind = KIND_SERVER};

    if (!export_side_span(transfer, KVR_ROLE_SOURCE, &span.first_us, &span.last_us))
        return;
    span.first_us += transfer->at_us;
    span.last_us += transfer->at_us;
    export_text(export, ",");
    open_resource(export, "prefill-agent", kvtrace_book_agent(export->book, side->agent));
    open_span(export, &span);
    put_text(export, "", "kvrail.transfer", transfer->id);
    put_rails(export, side);
    put_status(export, transfer);
    put_stages(export, transfer, KVR_ROLE_SOURCE, &span);
    close_resource(export);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The request's, which is made. NULL: there is no memory. */
static struct open_request *find_request(struct export *export, const struct trace_id *trace,
                                         int64_t first_us, int64_t last_us)
{
    struct otlp *otlp = export->state;
    struct open_request *request;

    HASH_FIND(hh, otlp->requests, trace, sizeof(*trace), request);
    if (request == NULL) {
        request = malloc(sizeof(*request));
        if (request == NULL) {
            export_no_memory(export);
            return NULL;
        }
        *request = (struct open_request){.trace = *trace,
                                         .first_us = first_us,
                                         .last_us = last_us,
                                         .input_tokens = KVTRACE_NEVER,
                                         .output_tokens = KVTRACE_NEVER};
        HASH_ADD(hh, otlp->requests, trace, sizeof(request->trace), request);
    }
    request->first_us = first_us < request->first_us ? first_us : request->first_us;
    request->last_us = last_us > request->last_us ? last_us : request->last_us;
    return request;
}

static void put_transfer(struct export *export, const struct kvtrace_transfer *transfer)
{
    const char *request = transfer->request[0] != '\0' ? transfer->request : transfer->id;
    struct span span = {.trace = trace_of(request),
                        .id = transfer_span(transfer),
                        .name = "transfer",
                        .kind = KIND_CLIENT};

    if (!export_side_span(transfer, KVR_ROLE_TARGET, &span.first_us, &span.last_us))
        (void)export_side_span(transfer, KVR_ROLE_SOURCE, &span.first_us, &span.last_us);
    span.first_us += transfer->at_us;
    span.last_us += transfer->at_us;
    if (transfer->request[0] != '\0') {
        span.parent = root_span(&span.trace);
        if (find_request(export, &span.trace, span.first_us, span.last_us) == NULL)
            return;
    }
    export_text(export, "{\"resourceSpans\":[");
    put_target(export, transfer, &span);
    put_source(export, transfer, &span);
    export_text(export, "]}\n");
}

static void take_request(struct export *export, const struct kvtrace_request *request)
{
    const struct trace_id trace = trace_of(request->id);
    struct open_request *open;

    open = find_request(export, &trace, request->at_us, request->at_us);
    if (open != NULL) {
        open->input_tokens = request->input_tokens;
        open->output_tokens = request->output_tokens;
    }
}

static void put_request(struct export *export, const struct open_request *request)
{
    const struct span span = {.trace = request->trace,
                              .id = root_span(&request->trace),
                              .name = "request",
                              .kind = KIND_INTERNAL,
                              .first_us = request->first_us,
                              .last_us = request->last_us};

    export_text(export, "{\"resourceSpans\":[");
    open_resource(export, "kvrail", NULL);
    open_span(export, &span);
    if (request->input_tokens != KVTRACE_NEVER) {
        put_number(export, "", "kvrail.input_tokens", request->input_tokens);
        put_number(export, ",", "kvrail.output_tokens", request->output_tokens);
    }
    export_text(export, "]}");
    close_resource(export);
    export_text(export, "]}\n");
}

/* ---- the format ------------------------------------------------------------------------------ */

static void begin(struct export *export)
{
    export->state = calloc(1, sizeof(struct otlp));
    if (export->state == NULL)
        export_no_memory(export);
}

static void put_record(struct export *export, const struct kvtrace_record *record)
{
    if (record->kind == KVTRACE_TRANSFER)
        put_transfer(export, &record->transfer);
    else if (record->kind == KVTRACE_REQUEST && record->request.id[0] != '\0')
        take_request(export, &record->request);
}

static void end(struct export *export)
{
    const struct otlp *otlp = export->state;

    for (const struct open_request *one = otlp->requests; one != NULL; one = one->hh.next)
        put_request(export, one);
}

static void release(struct export *export)
{
    struct otlp *otlp = export->state;
    struct open_request *request, *next;

    if (otlp == NULL)
        return;
    HASH_ITER(hh, otlp->requests, request, next)
    {
        HASH_DEL(otlp->requests, request);
        free(request);
    }
    free(otlp);
}

const struct export_format export_otlp = {begin, put_record, end, release};
