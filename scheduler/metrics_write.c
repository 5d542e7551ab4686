/* The metrics in Prometheus' text format. */
#include <inttypes.h>
#include <string.h>

#include "base/version.h"
#include "scheduler/metrics_state.h"

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP kvrail_%s %s\n# TYPE kvrail_%s %s\n", name, help, name, type);
}

static void counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "counter", help);
    fprintf(out, "kvrail_%s %" PRIu64 "\n", name, value);
}

/* label: `phase="wire",` or nothing. */
static void write_histogram(FILE *out, const char *name, const char *label,
                            const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    int length = (int)strlen(label);
    bool labelled = length > 0;

    for (size_t i = 0; i < METRICS_BOUNDS; i++) {
        count += histogram->buckets[i];
        fprintf(out, "kvrail_%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, label, metrics_bounds[i],
                count);
    }
    count += histogram->buckets[METRICS_BOUNDS];
    fprintf(out, "kvrail_%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, label, count);
    length -= labelled; /* without the comma */
    fprintf(out, "kvrail_%s_sum%s%.*s%s %.9g\n", name, labelled ? "{" : "", length, label,
            labelled ? "}" : "", histogram->sum);
    fprintf(out, "kvrail_%s_count%s%.*s%s %" PRIu64 "\n", name, labelled ? "{" : "", length, label,
            labelled ? "}" : "", count);
}

static const char *outcome_of(kvr_status status)
{
    return status == KVR_OK          ? "done"
           : status == KVR_CANCELLED ? "cancelled"
           : status == KVR_EXPIRED   ? "expired"
                                     : "failed";
}

static uint64_t live_of(const struct metrics *metrics)
{
    uint64_t live = 0;

    for (int state = 0; state < STATE_END; state++)
        if (transfer_state_live((transfer_state)state))
            live += metrics->states[state];
    return live;
}

static void write_transfers(const struct metrics *metrics, FILE *out)
{
    char label[64];

    head(out, "transfers_total", "counter",
         "Transfers that ended, by the role of the agent that said so.");
    for (int role = 0; role < 2; role++)
        for (size_t i = 0; i < REASONS; i++)
            if (metrics_reasons[i].status != KVR_AGAIN)
                fprintf(out,
                        "kvrail_transfers_total{role=\"%s\",outcome=\"%s\",reason=\"%s\"} %" PRIu64
                        "\n",
                        transfer_role_name((kvr_role)role), outcome_of(metrics_reasons[i].status),
                        metrics_reasons[i].name, metrics->ended[role][i]);
    head(out, "path_transfers_total", "counter",
         "Done transfers that moved bytes, by how an agent's pages and the wire were joined.");
    for (int role = 0; role < 2; role++)
        for (int path = KVR_PATH_NONE + 1; path < KVR_PATH_END; path++)
            fprintf(out, "kvrail_path_transfers_total{role=\"%s\",path=\"%s\"} %" PRIu64 "\n",
                    transfer_role_name((kvr_role)role), kvr_path_name((kvr_path)path),
                    metrics->paths[role][path]);
    head(out, "transfer_duration_seconds", "histogram",
         "Time that done transfers spent in a phase, by the clock of one agent.");
    for (int phase = 0; phase < PHASE_END; phase++) {
        snprintf(label, sizeof(label), "phase=\"%s\",", metrics_phases[phase].name);
        write_histogram(out, "transfer_duration_seconds", label, &metrics->durations[phase]);
    }
    counter(out, "transfer_bytes_total", "Bytes of done transfers, as the targets count them.",
            metrics->bytes);
    counter(out, "retries_total", "Chunks that were posted a second time.", metrics->retries);
    head(out, "inflight_transfers", "gauge", "Transfers that have not ended.");
    fprintf(out, "kvrail_inflight_transfers %" PRIu64 "\n", live_of(metrics));
}

static void write_access(const struct metrics *metrics, FILE *out)
{
    head(out, "http_refusals_total", "counter",
         "Requests over HTTP that were refused before they were looked at.");
    for (int why = 0; why < REFUSAL_END; why++)
        fprintf(out, "kvrail_http_refusals_total{reason=\"%s\"} %" PRIu64 "\n",
                refusal_facts((refusal)why)->name, metrics->refusals[why]);
    counter(out, "scheduler_absences_total",
            "Times that the scheduler did not run for a second or more.", metrics->absences);
    counter(out, "http_silent_connections_total",
            "Connections to the scheduler that ended without a request.", metrics->silent);
    counter(out, "http_sign_ins_total", "Sessions of browsers that began.", metrics->signed_in);
    head(out, "scheduler_insecure", "gauge",
         "1 for a scheduler that runs with --insecure: agents prove no identity to it.");
    fprintf(out, "kvrail_scheduler_insecure %d\n", metrics->insecure);
    if (metrics->certificate_expiry == 0)
        return;
    head(out, "scheduler_certificate_expiry_seconds", "gauge",
         "When the scheduler's certificate ends, in seconds since 1970.");
    fprintf(out, "kvrail_scheduler_certificate_expiry_seconds %" PRId64 "\n",
            metrics->certificate_expiry);
}

static void write_self(const struct metrics *metrics, kvr_ns now, FILE *out)
{
    counter(out, "ingest_events_total", "Events that were committed.", metrics->events);
    counter(out, "ingest_reports_refused_total", "Reports that were refused for good.",
            metrics->reports_refused);
    counter(out, "ingest_reports_contradicted_total",
            "Reports that showed that another program had reported in their agent's name.",
            metrics->reports_contradicted);
    head(out, "db_commit_seconds", "histogram", "Time of one commit, all its reports included.");
    write_histogram(out, "db_commit_seconds", "", &metrics->commits);
    head(out, "uptime_seconds", "gauge", "Time since the scheduler started.");
    fprintf(out, "kvrail_uptime_seconds %.3f\n", (double)(now - metrics->started) / 1e9);
    head(out, "build_info", "gauge", "Constant 1; the version is in the label.");
    fprintf(out, "kvrail_build_info{version=\"%s\"} 1\n", KVRAIL_VERSION);
}

/* Label values: \ " and newline are escaped. */
static void write_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (*value == '\\' || *value == '"')
            fputc('\\', out);
        fputc(*value, out);
    }
    fputc('"', out);
}

/* The group is a label where there are several. */
static void write_rail_labels(FILE *out, const struct agent_view *agent, uint32_t index)
{
    const struct kvr_agent_facts *facts = agent->facts;
    bool several = false;

    for (uint32_t i = 1; i < facts->rail_count; i++)
        several |= facts->rails[i].group != facts->rails[0].group;
    write_label(out, "agent", agent->row.name);
    fprintf(out, ",rail=\"%u\",", index);
    if (several)
        fprintf(out, "group=\"%u\",", facts->rails[index].group);
    write_label(out, "provider", facts->rails[index].provider);
}

struct agent_series {
    FILE *out;
    int counter;                                               /* which kvr_counter */
    uint64_t (*of_rail)(const struct kvr_rail_snapshot *rail); /* which value of a rail */
    int rail_counter;                                          /* which kvr_rail_counter */
    int tenant_counter;                                        /* which kvr_tenant_counter */
    const char *name;
    uint64_t up[2], total[2]; /* agents by role */
};

static void count_agents(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;

    series->total[agent->facts->role]++;
    series->up[agent->facts->role] += agent->state == AGENT_UP;
}

static void write_dropped(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;

    fputs("kvrail_events_dropped_total{", series->out);
    write_label(series->out, "agent", agent->row.name);
    fprintf(series->out, "} %" PRIu64 "\n", agent->row.dropped);
}

static void write_insecure(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;

    fputs("kvrail_agent_insecure{", series->out);
    write_label(series->out, "agent", agent->row.name);
    fprintf(series->out, "} %d\n", agent->facts->secure ? 0 : 1);
}

static void write_registered(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < agent->facts->engine_count; i++)
        bytes += agent->facts->engines[i].region_bytes;
    fputs("kvrail_registered_bytes{", series->out);
    write_label(series->out, "agent", agent->row.name);
    fprintf(series->out, "} %" PRIu64 "\n", bytes);
}

static void write_counter_of(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;

    fprintf(series->out, "kvrail_%s_total{", kvr_counter_name((kvr_counter)series->counter));
    write_label(series->out, "agent", agent->row.name);
    fprintf(series->out, "} %" PRIu64 "\n", agent->facts->counters[series->counter]);
}

static void write_rails_of(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;

    for (uint32_t i = 0; i < agent->facts->rail_count; i++) {
        const struct kvr_rail_snapshot *rail = &agent->facts->rails[i];
        bool up = agent->state == AGENT_UP && rail->state == KVR_RAIL_UP;

        fprintf(series->out, "kvrail_%s{", series->name);
        write_rail_labels(series->out, agent, i);
        fprintf(series->out, "} %" PRIu64 "\n",
                series->of_rail != NULL ? series->of_rail(rail) : (uint64_t)up);
    }
}

static void write_rail_counters_of(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;
    double unit = kvr_rail_counter_facts((kvr_rail_counter)series->rail_counter)->unit;

    for (uint32_t i = 0; i < agent->facts->rail_count; i++) {
        const struct kvr_rail_snapshot *rail = &agent->facts->rails[i];

        fprintf(series->out, "kvrail_%s{", series->name);
        write_rail_labels(series->out, agent, i);
        fprintf(series->out, "} %.15g\n", (double)rail->counters[series->rail_counter] * unit);
    }
}

/* One counter of all agents; `series` says its number. */
static void write_counter(struct fleet *fleet, kvr_ns now, struct agent_series *series,
                          const char *prefix, const struct kvr_rail_counter_facts *facts,
                          void (*write)(void *, const struct agent_view *))
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s%s", prefix, facts->name, facts->gauge ? "" : "_total");
    head(series->out, name, facts->gauge ? "gauge" : "counter", facts->text);
    series->name = name;
    fleet_each(fleet, now, write, series);
}

static void write_rail_counters(struct fleet *fleet, kvr_ns now, struct agent_series *series)
{
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) {
        series->rail_counter = i;
        write_counter(fleet, now, series, "rail", kvr_rail_counter_facts((kvr_rail_counter)i),
                      write_rail_counters_of);
    }
}

static void write_tenant_counters_of(void *self, const struct agent_view *agent)
{
    struct agent_series *series = self;

    for (uint32_t i = 0; i < agent->facts->tenant_count; i++) {
        const struct kvr_tenant_facts *tenant = &agent->facts->tenants[i];

        fprintf(series->out, "kvrail_%s{", series->name);
        write_label(series->out, "agent", agent->row.name);
        fputs(",", series->out);
        write_label(series->out, "tenant", tenant->name);
        fprintf(series->out, "} %" PRIu64 "\n", tenant->counters[series->tenant_counter]);
    }
}

static void write_tenant_counters(struct fleet *fleet, kvr_ns now, struct agent_series *series)
{
    for (int i = 0; i < KVR_TENANT_COUNTER_END; i++) {
        series->tenant_counter = i;
        write_counter(fleet, now, series, "tenant", kvr_tenant_counter_facts((kvr_tenant_counter)i),
                      write_tenant_counters_of);
    }
}

static uint64_t rail_bytes(const struct kvr_rail_snapshot *rail)
{
    return rail->bytes;
}

static uint64_t rail_writes(const struct kvr_rail_snapshot *rail)
{
    return rail->writes;
}

static void write_agents(struct fleet *fleet, kvr_ns now, FILE *out)
{
    struct agent_series series = {.out = out};
    char name[64];

    fleet_each(fleet, now, count_agents, &series);
    head(out, "agents_up", "gauge", "Agents that were heard within 6 s.");
    for (int role = 0; role < 2; role++)
        fprintf(out, "kvrail_agents_up{role=\"%s\"} %" PRIu64 "\n",
                transfer_role_name((kvr_role)role), series.up[role]);
    head(out, "agents_known", "gauge", "Agents that were ever heard and are not forgotten.");
    for (int role = 0; role < 2; role++)
        fprintf(out, "kvrail_agents_known{role=\"%s\"} %" PRIu64 "\n",
                transfer_role_name((kvr_role)role), series.total[role]);
    head(out, "agent_insecure", "gauge",
         "1 for an agent that runs with --insecure: its peers prove no identity.");
    fleet_each(fleet, now, write_insecure, &series);
    head(out, "rail_up", "gauge", "1 while the rail carries writes and its agent is heard.");
    series.name = "rail_up";
    fleet_each(fleet, now, write_rails_of, &series);
    head(out, "rail_bytes_total", "counter", "Bytes posted (source) or landed (target) on a rail.");
    series.name = "rail_bytes_total";
    series.of_rail = rail_bytes;
    fleet_each(fleet, now, write_rails_of, &series);
    head(out, "rail_writes_total", "counter",
         "Writes posted (source) or landed (target) on a rail.");
    series.name = "rail_writes_total";
    series.of_rail = rail_writes;
    fleet_each(fleet, now, write_rails_of, &series);
    write_rail_counters(fleet, now, &series);
    write_tenant_counters(fleet, now, &series);
    head(out, "events_dropped_total", "counter",
         "Events that an agent lost before they came here.");
    fleet_each(fleet, now, write_dropped, &series);
    head(out, "registered_bytes", "gauge", "Memory that an agent's engines registered.");
    fleet_each(fleet, now, write_registered, &series);
    for (series.counter = 0; series.counter < KVR_COUNTER_END; series.counter++) {
        snprintf(name, sizeof(name), "%s_total", kvr_counter_name((kvr_counter)series.counter));
        head(out, name, "counter", kvr_counter_text((kvr_counter)series.counter));
        fleet_each(fleet, now, write_counter_of, &series);
    }
}

void metrics_write(struct metrics *metrics, struct fleet *fleet, kvr_ns now, FILE *out)
{
    pthread_mutex_lock(&metrics->lock);
    write_transfers(metrics, out);
    write_access(metrics, out);
    write_self(metrics, now, out);
    pthread_mutex_unlock(&metrics->lock);
    write_agents(fleet, now, out);
}
