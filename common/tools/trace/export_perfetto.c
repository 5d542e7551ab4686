/* Trace events of JSON, as ui.perfetto.dev and chrome://tracing read them.
 *
 * An agent is a process; its number in the trace plus one is the process's. Times are microseconds
 * since 1970 where the trace knows them.
 *
 *     transfers    slices ("X") in threads "transfers 1" and on, so many as overlap, with the
 *                  stages of that side as slices within
 *     flow         an arrow ("s", "f") from the source's slice to the target's
 *     layers       asynchronous slices ("b", "e"), a track a layer: at the source from ready to
 *                  posted, at the target from posted to landed and from landed to announced
 *     rails        asynchronous slices, a track a rail: as long as the transfer wrote or landed
 *     requests, faults, marks    instants ("i")
 *
 * Memory grows with the transfers that overlap. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/trace/export.h"
#include "tools/trace/export_lanes.h"
#include "trace/kvtrace_times.h"

#define FLEET 0 /* the process of requests, and of faults of no single agent */

struct perfetto {
    struct export_lanes *lanes; /* by agent */
    int64_t lane_agents;
    bool any;           /* events were written */
    uint64_t left_out;  /* transfers that found no lane */
    uint64_t flow_next; /* id of the next arrow */
};

/* ---- events ---------------------------------------------------------------------------------- */

/* The members that all have; the caller adds others, and the brace. */
static void open_event(struct export *export, const char *phase, int64_t process, size_t thread)
{
    struct perfetto *perfetto = export->state;

    export_print(export, "%s\n{\"ph\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%zu",
                 perfetto->any ? "," : "", phase, process, thread);
    perfetto->any = true;
}

static void put_text(struct export *export, const char *key, const char *text)
{
    export_print(export, ",\"%s\":", key);
    export_json(export, text);
}

static void put_moment(struct export *export, int64_t at_us)
{
    export_print(export, ",\"ts\":%" PRId64, export_wall_us(export, at_us));
}

static void name_track(struct export *export, const char *what, int64_t process, size_t thread,
                       const char *name)
{
    open_event(export, "M", process, thread);
    export_print(export, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    export_json(export, name);
    export_text(export, "}}");
}

static int64_t process_of(int64_t agent)
{
    return agent == KVTRACE_NONE ? FLEET : agent + 1;
}

/* ---- definitions ----------------------------------------------------------------------------- */

static void begin(struct export *export)
{
    struct perfetto *perfetto = calloc(1, sizeof(*perfetto));

    export->state = perfetto;
    if (perfetto == NULL) {
        export_no_memory(export);
        return;
    }
    export_text(export, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made_by\":");
    export_json(export, export->header->made_by);
    export_text(export, ",\"start\":");
    export_json(export, export->header->start);
    export_text(export, "},\"traceEvents\":[");
    name_track(export, "process_name", FLEET, 0, "requests");
}

static void put_agent(struct export *export, const struct kvtrace_agent *agent)
{
    struct perfetto *perfetto = export->state;
    size_t room = (size_t)agent->number + 1;
    struct export_lanes *larger = realloc(perfetto->lanes, room * sizeof(larger[0]));
    char name[2 * KVR_NAME_BYTES + 20];

    if (larger == NULL) {
        export_no_memory(export);
        return;
    }
    larger[agent->number] = (struct export_lanes){0};
    perfetto->lanes = larger;
    perfetto->lane_agents = agent->number + 1;
    snprintf(name, sizeof(name), "%s %s", agent->role == KVR_ROLE_SOURCE ? "prefill" : "decode",
             agent->name);
    name_track(export, "process_name", process_of(agent->number), 0, name);
    open_event(export, "M", process_of(agent->number), 0);
    export_print(export, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%" PRId64 "}}",
                 agent->number + (agent->role == KVR_ROLE_TARGET ? KVTRACE_DEFINITIONS_MAX : 0));
}

/* ---- a side of a transfer -------------------------------------------------------------------- */

static void put_slice(struct export *export, int64_t process, size_t thread, const char *name,
                      int64_t first_us, int64_t last_us)
{
    open_event(export, "X", process, thread);
    put_text(export, "name", name);
    put_moment(export, first_us);
    export_print(export, ",\"dur\":%" PRId64, last_us - first_us);
}

/* An asynchronous slice; `place` tells apart those of one transfer in one category. */
static void put_async(struct export *export, const struct kvtrace_transfer *transfer, kvr_role role,
                      const char *category, int64_t place, const char *name,
                      const int64_t moments[2], const int64_t *row)
{
    char id[KVTRACE_ID_BYTES + 40];

    snprintf(id, sizeof(id), "%s.%s.%" PRId64, transfer->id, category, place);
    for (int i = 0; i < 2; i++) {
        open_event(export, i == 0 ? "b" : "e", process_of(transfer->sides[role].agent), 0);
        put_text(export, "cat", category);
        export_text(export, ",\"id2\":{\"local\":");
        export_json(export, id);
        export_text(export, "}");
        put_text(export, "name", name);
        put_moment(export, transfer->at_us + moments[i]);
        if (i == 0 && row != NULL)
            export_print(export,
                         ",\"args\":{\"writes\":%" PRId64 ",\"bytes\":%" PRId64
                         ",\"retries\":%" PRId64 "}",
                         row[1], row[2], row[3]);
        export_text(export, "}");
    }
}

/* From one moment to another, where both are known and in order. */
static void put_part(struct export *export, const struct kvtrace_transfer *transfer, kvr_role role,
                     const char *category, const char *what, int64_t layer, int64_t from_us,
                     int64_t to_us)
{
    const int64_t moments[2] = {from_us, to_us};
    char name[64];

    if (from_us == KVTRACE_NEVER || to_us == KVTRACE_NEVER || to_us < from_us)
        return;
    snprintf(name, sizeof(name), "layer %" PRId64 " %s", layer, what);
    put_async(export, transfer, role, category, layer, name, moments, NULL);
}

/* Of the layer, by its number in the model; NULL: that side does not say. */
static const int64_t *layer_row(const struct kvtrace_side *side, int64_t layer)
{
    int64_t place = layer - side->layer_first;

    return place >= 0 && place < (int64_t)side->layers_us.count / 2
               ? side->layers_us.numbers + 2 * place
               : NULL;
}

static void put_layers(struct export *export, const struct kvtrace_transfer *transfer)
{
    const struct kvtrace_side *source = &transfer->sides[KVR_ROLE_SOURCE];
    const struct kvtrace_side *target = &transfer->sides[KVR_ROLE_TARGET];
    const int64_t *row;

    for (int64_t i = 0; i < (int64_t)source->layers_us.count / 2; i++) {
        row = source->layers_us.numbers + 2 * i;
        put_part(export, transfer, KVR_ROLE_SOURCE, "layer", "ready to posted",
                 source->layer_first + i, row[0], row[1]);
    }
    for (int64_t i = 0; i < (int64_t)target->layers_us.count / 2; i++) {
        int64_t layer = target->layer_first + i;
        const int64_t *sent = layer_row(source, layer);

        row = target->layers_us.numbers + 2 * i;
        if (sent != NULL)
            put_part(export, transfer, KVR_ROLE_TARGET, "wire", "posted to landed", layer, sent[1],
                     row[0]);
        put_part(export, transfer, KVR_ROLE_TARGET, "layer", "landed to announced", layer, row[0],
                 row[1]);
    }
}

static void put_rails(struct export *export, const struct kvtrace_transfer *transfer, kvr_role role)
{
    const struct kvtrace_side *side = &transfer->sides[role];
    bool source = role == KVR_ROLE_SOURCE;
    const int64_t moments[2] = {
        side->stages_us[source ? KVR_EVENT_FIRST_POST : KVR_EVENT_FIRST_LAND],
        side->stages_us[source ? KVR_EVENT_LAST_POST : KVR_EVENT_LAST_LAND]};
    char name[KVR_NAME_BYTES + 20];

    if (moments[0] == KVTRACE_NEVER || moments[1] < moments[0])
        return;
    for (size_t i = 0; i < side->rails.count; i += 4) {
        const int64_t *row = side->rails.numbers + i;

        snprintf(name, sizeof(name), "rail %s", export_rail_name(export, side->agent, row[0]));
        put_async(export, transfer, role, "rail", row[0], name, moments, row);
    }
}

/* The stages of the side, one after the other within the transfer's slice. */
static void put_stages(struct export *export, const struct kvtrace_transfer *transfer,
                       kvr_role role, size_t thread, int64_t first_us)
{
    int64_t done = first_us, from, to;

    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        if (kvtrace_time_role((kvtrace_time)time) != role || time == KVTRACE_TIME_TOTAL ||
            !kvtrace_time_span(transfer, (kvtrace_time)time, &from, &to))
            continue;
        from = from > done ? from : done;
        to = to > from ? to : from;
        done = to;
        put_slice(export, process_of(transfer->sides[role].agent), thread,
                  kvtrace_time_name((kvtrace_time)time), transfer->at_us + from,
                  transfer->at_us + to);
        export_text(export, "}");
    }
}

static void put_transfer_slice(struct export *export, const struct kvtrace_transfer *transfer,
                               kvr_role role, size_t thread, int64_t first_us, int64_t last_us)
{
    put_slice(export, process_of(transfer->sides[role].agent), thread, transfer->id,
              transfer->at_us + first_us, transfer->at_us + last_us);
    export_text(export, ",\"args\":{\"request\":");
    export_json(export, transfer->request);
    put_text(export, "tenant", transfer->tenant);
    put_text(export, "outcome", kvtrace_outcome_name(transfer->outcome));
    put_text(export, "reason", transfer->reason);
    put_text(export, "detail", transfer->detail);
    export_print(export,
                 ",\"attempt\":%" PRId64 ",\"tokens\":%" PRId64 ",\"bytes\":%" PRId64
                 ",\"chunks\":%" PRId64 ",\"retries\":%" PRId64 "}}",
                 transfer->attempt, transfer->tokens, transfer->bytes, transfer->chunks,
                 transfer->retries);
}

/* False: it has no slice. *ret_thread: the one that has it. */
static bool put_side(struct export *export, const struct kvtrace_transfer *transfer, kvr_role role,
                     size_t *ret_thread)
{
    struct perfetto *perfetto = export->state;
    const struct kvtrace_side *side = &transfer->sides[role];
    int64_t first_us, last_us;
    char name[40];
    size_t lane, before;

    if (side->agent == KVTRACE_NONE || !export_side_span(transfer, role, &first_us, &last_us))
        return false;
    before = perfetto->lanes[side->agent].count;
    if (!export_lanes_place(&perfetto->lanes[side->agent], transfer->at_us + first_us,
                            transfer->at_us + last_us, &lane)) {
        perfetto->left_out++;
        return false;
    }
    *ret_thread = lane + 1;
    snprintf(name, sizeof(name), "transfers %zu", lane + 1);
    if (lane == before)
        name_track(export, "thread_name", process_of(side->agent), *ret_thread, name);
    put_transfer_slice(export, transfer, role, *ret_thread, first_us, last_us);
    put_stages(export, transfer, role, *ret_thread, first_us);
    put_rails(export, transfer, role);
    return true;
}

/* From the first write to its arrival, or from end to end where these are not known. An end lies
 * within its slice. */
static int64_t arrow_end(const struct kvtrace_transfer *transfer, kvr_role role)
{
    kvr_event_kind kind = role == KVR_ROLE_SOURCE ? KVR_EVENT_FIRST_POST : KVR_EVENT_FIRST_LAND;
    int64_t at_us = transfer->sides[role].stages_us[kind], first_us = 0, last_us = 0;

    (void)export_side_span(transfer, role, &first_us, &last_us);
    return transfer->at_us + (at_us != KVTRACE_NEVER ? at_us : first_us);
}

static void put_flow(struct export *export, const struct kvtrace_transfer *transfer,
                     const size_t threads[2])
{
    struct perfetto *perfetto = export->state;
    uint64_t id = ++perfetto->flow_next;

    for (int role = 0; role < 2; role++) {
        open_event(export, role == KVR_ROLE_SOURCE ? "s" : "f",
                   process_of(transfer->sides[role].agent), threads[role]);
        export_print(export, ",\"cat\":\"transfer\",\"name\":\"transfer\",\"id\":%" PRIu64, id);
        put_moment(export, arrow_end(transfer, (kvr_role)role));
        export_text(export, role == KVR_ROLE_TARGET ? ",\"bp\":\"e\"}" : "}");
    }
}

static void put_transfer(struct export *export, const struct kvtrace_transfer *transfer)
{
    size_t threads[2];
    bool source = put_side(export, transfer, KVR_ROLE_SOURCE, &threads[KVR_ROLE_SOURCE]);
    bool target = put_side(export, transfer, KVR_ROLE_TARGET, &threads[KVR_ROLE_TARGET]);

    if (source && target)
        put_flow(export, transfer, threads);
    put_layers(export, transfer);
}

/* ---- instants and the end -------------------------------------------------------------------- */

static void open_instant(struct export *export, int64_t agent, int64_t at_us, const char *name)
{
    open_event(export, "i", process_of(agent), 0);
    export_text(export, ",\"s\":\"p\"");
    put_text(export, "name", name);
    put_moment(export, at_us);
    export_text(export, ",\"args\":{");
}

static void put_request(struct export *export, const struct kvtrace_request *request)
{
    open_instant(export, KVTRACE_NONE, request->at_us, "request");
    export_text(export, "\"id\":");
    export_json(export, request->id);
    export_print(export, ",\"input_tokens\":%" PRId64 ",\"output_tokens\":%" PRId64 "}}",
                 request->input_tokens, request->output_tokens);
}

static void put_record(struct export *export, const struct kvtrace_record *record)
{
    switch (record->kind) {
    case KVTRACE_AGENT:
        put_agent(export, &record->agent);
        break;
    case KVTRACE_TRANSFER:
        put_transfer(export, &record->transfer);
        break;
    case KVTRACE_REQUEST:
        put_request(export, &record->request);
        break;
    case KVTRACE_FAULT:
        open_instant(export, record->fault.agent, record->fault.at_us, record->fault.kind);
        export_print(export, "\"rail\":%" PRId64 ",\"text\":", record->fault.rail);
        export_json(export, record->fault.text);
        export_text(export, "}}");
        break;
    case KVTRACE_MARK:
        open_instant(export, record->mark.agent, record->mark.at_us, record->mark.kind);
        export_text(export, "\"before\":");
        export_json(export, record->mark.before);
        put_text(export, "after", record->mark.after);
        export_text(export, "}}");
        break;
    default:
        break;
    }
}

static void end(struct export *export)
{
    const struct perfetto *perfetto = export->state;

    export_text(export, "\n]}\n");
    if (perfetto->left_out > 0)
        fprintf(stderr,
                "kvrail trace export: %" PRIu64 " transfers have no slice: more than %d overlap\n",
                perfetto->left_out, EXPORT_LANES_MAX);
}

static void release(struct export *export)
{
    struct perfetto *perfetto = export->state;

    for (int64_t i = 0; perfetto != NULL && i < perfetto->lane_agents; i++)
        export_lanes_done(&perfetto->lanes[i]);
    if (perfetto != NULL)
        free(perfetto->lanes);
    free(perfetto);
}

const struct export_format export_perfetto = {begin, put_record, end, release};
