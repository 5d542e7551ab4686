/* One JSON object: counts, bytes, the percentiles of each part of a transfer, and the same by
 * reason, agent and rail. Memory grows with the agents: some 30 KiB for each that has transfers. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/histogram.h"
#include "tools/trace/export.h"
#include "trace/kvtrace_times.h"

#define REASONS_MAX 256 /* kvr_status has fewer names */

struct amounts {
    uint64_t transfers, bad, bytes, retries;
};

struct agent_sum {
    struct amounts amounts;
    struct kvr_histogram *total_us;   /* NULL: no done transfer with a time */
    uint64_t rails[KVR_RAILS_MAX][3]; /* writes, bytes, retries */
};

struct summary {
    struct amounts amounts;
    uint64_t requests, faults, marks, dropped, tokens;
    uint64_t outcomes[KVTRACE_OUTCOME_END];
    struct kvr_histogram times[KVTRACE_TIME_END];
    struct reason_sum {
        char name[24];
        uint64_t count;
    } reasons[REASONS_MAX];
    size_t reason_count;
    struct agent_sum **agents; /* by number; NULL: none of its transfers came */
    int64_t agent_count;
    bool any;
    int64_t first_us, last_us; /* at_us of transfers and requests */
};

/* ---- counting -------------------------------------------------------------------------------- */

static void begin(struct export *export)
{
    export->state = calloc(1, sizeof(struct summary));
    if (export->state == NULL)
        export_no_memory(export);
}

static void add_agent(struct export *export, const struct kvtrace_agent *agent)
{
    struct summary *summary = export->state;
    struct agent_sum **larger =
        realloc(summary->agents, (size_t)(agent->number + 1) * sizeof(larger[0]));

    if (larger == NULL) {
        export_no_memory(export);
        return;
    }
    larger[agent->number] = NULL;
    summary->agents = larger;
    summary->agent_count = agent->number + 1;
}

static void add_amounts(struct amounts *amounts, const struct kvtrace_transfer *transfer)
{
    amounts->transfers++;
    amounts->bad += transfer->outcome != KVTRACE_DONE && transfer->outcome != KVTRACE_LIVE;
    amounts->bytes += (uint64_t)transfer->bytes;
    amounts->retries += (uint64_t)transfer->retries;
}

static void add_reason(struct summary *summary, const char *reason)
{
    size_t at = 0;

    if (reason[0] == '\0')
        return;
    while (at < summary->reason_count && strcmp(summary->reasons[at].name, reason) != 0)
        at++;
    if (at == REASONS_MAX)
        return;
    if (at == summary->reason_count)
        snprintf(summary->reasons[summary->reason_count++].name, sizeof(summary->reasons[0].name),
                 "%s", reason);
    summary->reasons[at].count++;
}

static void add_total(struct export *export, struct agent_sum *sum,
                      const struct kvtrace_transfer *transfer)
{
    int64_t total_us = kvtrace_time_us(transfer, KVTRACE_TIME_TOTAL);

    if (transfer->outcome != KVTRACE_DONE || total_us == KVTRACE_NEVER)
        return;
    if (sum->total_us == NULL)
        sum->total_us = calloc(1, sizeof(*sum->total_us));
    if (sum->total_us == NULL)
        export_no_memory(export);
    else
        kvr_histogram_record(sum->total_us, (uint64_t)total_us);
}

static void add_side(struct export *export, const struct kvtrace_transfer *transfer, kvr_role role)
{
    struct summary *summary = export->state;
    const struct kvtrace_side *side = &transfer->sides[role];
    struct agent_sum *sum;

    if (side->agent == KVTRACE_NONE)
        return;
    if (summary->agents[side->agent] == NULL)
        summary->agents[side->agent] = calloc(1, sizeof(*sum));
    sum = summary->agents[side->agent];
    if (sum == NULL) {
        export_no_memory(export);
        return;
    }
    add_amounts(&sum->amounts, transfer);
    add_total(export, sum, transfer);
    for (size_t i = 0; i < side->rails.count; i += 4)
        for (int k = 0; k < 3; k++)
            sum->rails[side->rails.numbers[i]][k] +=
                (uint64_t)side->rails.numbers[i + 1 + (size_t)k];
}

static void add_moment(struct summary *summary, int64_t at_us)
{
    if (!summary->any || at_us < summary->first_us)
        summary->first_us = at_us;
    if (!summary->any || at_us > summary->last_us)
        summary->last_us = at_us;
    summary->any = true;
}

static void add_transfer(struct export *export, const struct kvtrace_transfer *transfer)
{
    struct summary *summary = export->state;

    add_amounts(&summary->amounts, transfer);
    add_moment(summary, transfer->at_us);
    add_reason(summary, transfer->reason);
    summary->outcomes[transfer->outcome]++;
    summary->tokens += (uint64_t)(transfer->tokens - transfer->skip_tokens);
    for (int time = 0; time < KVTRACE_TIME_END && transfer->outcome == KVTRACE_DONE; time++) {
        int64_t took_us = kvtrace_time_us(transfer, (kvtrace_time)time);

        if (took_us != KVTRACE_NEVER)
            kvr_histogram_record(&summary->times[time], (uint64_t)took_us);
    }
    for (int role = 0; role < 2; role++)
        add_side(export, transfer, (kvr_role)role);
}

static void take_record(struct export *export, const struct kvtrace_record *record)
{
    struct summary *summary = export->state;

    if (record->kind == KVTRACE_AGENT)
        add_agent(export, &record->agent);
    else if (record->kind == KVTRACE_TRANSFER)
        add_transfer(export, &record->transfer);
    else if (record->kind == KVTRACE_REQUEST)
        add_moment(summary, record->request.at_us);
    else if (record->kind == KVTRACE_DROPPED)
        summary->dropped += (uint64_t)record->dropped.count;
    summary->requests += record->kind == KVTRACE_REQUEST;
    summary->faults += record->kind == KVTRACE_FAULT;
    summary->marks += record->kind == KVTRACE_MARK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *histogram_json(const struct kvr_histogram *one)
{
    return json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)one->count, "mean",
        kvr_histogram_mean(one) / 1e3, "p50", (double)kvr_histogram_percentile(one, 50) / 1e3,
        "p90", (double)kvr_histogram_percentile(one, 90) / 1e3, "p95",
        (double)kvr_histogram_percentile(one, 95) / 1e3, "p99",
        (double)kvr_histogram_percentile(one, 99) / 1e3, "max", (double)one->max / 1e3);
}

static json_t *amounts_json(const struct amounts *amounts)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "transfers", (json_int_t)amounts->transfers, "bad",
                     (json_int_t)amounts->bad, "bytes", (json_int_t)amounts->bytes, "retries",
                     (json_int_t)amounts->retries);
}

static json_t *rails_json(const struct kvtrace_agent *agent, const struct agent_sum *sum)
{
    json_t *list = json_array();

    for (size_t rail = 0; rail < agent->rail_count; rail++)
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I}", "name", agent->rails[rail].name,
                                        "writes", (json_int_t)sum->rails[rail][0], "bytes",
                                        (json_int_t)sum->rails[rail][1], "retries",
                                        (json_int_t)sum->rails[rail][2]));
    return list;
}

static json_t *agents_json(const struct export *export)
{
    const struct summary *summary = export->state;
    json_t *list = json_array();

    for (int64_t i = 0; i < summary->agent_count; i++) {
        const struct kvtrace_agent *agent = export->book->agents[i];
        const struct agent_sum *sum = summary->agents[i];
        json_t *one;

        if (sum == NULL)
            continue;
        one = amounts_json(&sum->amounts);
        json_object_set_new(one, "name", json_string(agent->name));
        json_object_set_new(one, "role",
                            json_string(agent->role == KVR_ROLE_SOURCE ? "prefill" : "decode"));
        json_object_set_new(one, "host", json_string(agent->host));
        json_object_set_new(one, "rails", rails_json(agent, sum));
        if (sum->total_us != NULL)
            json_object_set_new(one, "total_ms", histogram_json(sum->total_us));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *times_json(const struct summary *summary)
{
    json_t *object = json_object();

    for (int time = 0; time < KVTRACE_TIME_END; time++)
        json_object_set_new(object, kvtrace_time_name((kvtrace_time)time),
                            histogram_json(&summary->times[time]));
    return object;
}

static json_t *summary_json(const struct export *export)
{
    const struct summary *summary = export->state;
    json_t *object = amounts_json(&summary->amounts), *outcomes = json_object(),
           *reasons = json_object();

    for (int i = 0; i < KVTRACE_OUTCOME_END; i++)
        json_object_set_new(outcomes, kvtrace_outcome_name((kvtrace_outcome)i),
                            json_integer((json_int_t)summary->outcomes[i]));
    for (size_t i = 0; i < summary->reason_count; i++)
        json_object_set_new(reasons, summary->reasons[i].name,
                            json_integer((json_int_t)summary->reasons[i].count));
    json_object_set_new(object, "start", json_string(export->header->start));
    json_object_set_new(object, "seconds",
                        json_real((double)(summary->last_us - summary->first_us) / 1e6));
    json_object_set_new(object, "tokens", json_integer((json_int_t)summary->tokens));
    json_object_set_new(object, "requests", json_integer((json_int_t)summary->requests));
    json_object_set_new(object, "faults", json_integer((json_int_t)summary->faults));
    json_object_set_new(object, "marks", json_integer((json_int_t)summary->marks));
    json_object_set_new(object, "dropped", json_integer((json_int_t)summary->dropped));
    json_object_set_new(object, "outcomes", outcomes);
    json_object_set_new(object, "reasons", reasons);
    json_object_set_new(object, "time_ms", times_json(summary));
    json_object_set_new(object, "agents", agents_json(export));
    return object;
}

static int put_part(const char *bytes, size_t count, void *self)
{
    struct export *export = self;

    if (export->status == KVR_OK)
        export->status = kvtrace_sink_write(export->sink, bytes, count, &export->error);
    return export->status == KVR_OK ? 0 : -1;
}

static void end(struct export *export)
{
    json_t *object = summary_json(export);

    if (json_dump_callback(object, put_part, export, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0)
        export_no_memory(export);
    json_decref(object);
    export_text(export, "\n");
}

static void release(struct export *export)
{
    struct summary *summary = export->state;

    for (int64_t i = 0; summary != NULL && i < summary->agent_count; i++) {
        if (summary->agents[i] != NULL)
            free(summary->agents[i]->total_us);
        free(summary->agents[i]);
    }
    if (summary != NULL)
        free(summary->agents);
    free(summary);
}

const struct export_format export_summary = {begin, take_record, end, release};
