#include "scheduler/metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/version.h"

/* Phases, each by the clock of one agent: X(symbol, name, role, from, to) */
#define PHASE_LIST(X)                                                                              \
    X(PHASE_MATCH, "match", KVR_ROLE_TARGET, STAGE_OPENED, STAGE_MATCHED)                          \
    X(PHASE_GRANT, "grant", KVR_ROLE_TARGET, STAGE_MATCHED, STAGE_GRANTED)                         \
    X(PHASE_QUEUE, "queue", KVR_ROLE_SOURCE, STAGE_GRANTED, STAGE_FIRST_POST)                      \
    X(PHASE_POST, "post", KVR_ROLE_SOURCE, STAGE_FIRST_POST, STAGE_LAST_POST)                      \
    X(PHASE_WIRE, "wire", KVR_ROLE_TARGET, STAGE_FIRST_LAND, STAGE_LAST_LAND)                      \
    X(PHASE_DRAIN, "drain", KVR_ROLE_SOURCE, STAGE_LAST_POST, STAGE_ENDED)                         \
    X(PHASE_EXPOSED, "exposed", KVR_ROLE_SOURCE, STAGE_LAST_READY, STAGE_ENDED)                    \
    X(PHASE_TOTAL, "total", KVR_ROLE_TARGET, STAGE_OPENED, STAGE_ENDED)

enum phase {
#define X(symbol, name, role, from, to) symbol,
    PHASE_LIST(X)
#undef X
        PHASE_END
};

static const struct {
    const char *name;
    kvr_role role;
    transfer_stage from, to;
} phases[] = {
#define X(symbol, name, role, from, to) [symbol] = {name, role, from, to},
    PHASE_LIST(X)
#undef X
};

static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                5,      10,      30,     60,    300};
#define BOUNDS (sizeof(bounds) / sizeof(bounds[0]))

struct histogram {
    uint64_t buckets[BOUNDS + 1]; /* the last: beyond every bound */
    double sum;
};

static const struct {
    kvr_status status;
    const char *name;
} reasons[] = {
#define X(symbol, value, name, scope, text) {symbol, name},
    KVR_STATUS_LIST(X)
#undef X
};
#define REASONS (sizeof(reasons) / sizeof(reasons[0]))

#define RECENT 4096
struct recent {
    int64_t ended_ns, total_ns, wire_ns;
};

#define RATE_SECONDS (METRICS_SECONDS + 4)

struct metrics {
    pthread_mutex_t lock;
    kvr_ns started;
    uint64_t ended[2][REASONS]; /* by role */
    struct histogram durations[PHASE_END], commits;
    uint64_t paths[2][KVR_PATH_END]; /* done transfers that moved bytes, by role */
    uint64_t bytes, retries, events, reports_refused;
    uint64_t states[STATE_END];
    int64_t newest_event_ns;
    struct recent recent[RECENT];
    uint64_t recent_count;
    struct {
        int64_t second;
        double bytes;
    } rate[RATE_SECONDS];
};

struct metrics *metrics_open(void)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    if (metrics == NULL)
        return NULL;
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->started = kvr_clock_now();
    return metrics;
}

struct metrics *metrics_close(struct metrics *metrics)
{
    if (metrics != NULL)
        pthread_mutex_destroy(&metrics->lock);
    free(metrics);
    return NULL;
}

/* ---- counting ---- */

static void observe(struct histogram *histogram, double seconds)
{
    size_t bucket = 0;

    while (bucket < BOUNDS && seconds > bounds[bucket])
        bucket++;
    histogram->buckets[bucket]++;
    histogram->sum += seconds;
}

static int64_t span(const struct transfer *transfer, enum phase phase)
{
    const int64_t *at_ns = transfer->sides[phases[phase].role].at_ns;
    int64_t from = at_ns[phases[phase].from], to = at_ns[phases[phase].to];

    return from != 0 && to >= from ? to - from : -1;
}

/* Its bytes did not all arrive at the end: spread evenly over the time in which they landed. */
static void add_rate(struct metrics *metrics, const struct transfer *transfer, int64_t wall_ns)
{
    const int64_t *at_ns = transfer->sides[KVR_ROLE_TARGET].at_ns;
    int64_t to = at_ns[STAGE_LAST_LAND] != 0 ? at_ns[STAGE_LAST_LAND] : at_ns[STAGE_ENDED];
    int64_t from = at_ns[STAGE_FIRST_LAND] != 0 ? at_ns[STAGE_FIRST_LAND] : to;
    int64_t second_first, second_last, second = (int64_t)KVR_S;

    if (to > wall_ns || to < from || to == 0)
        from = to = wall_ns; /* clocks of hosts differ */
    second_first = from / second;
    second_last = to / second;
    if (second_last - second_first >= RATE_SECONDS)
        second_first = second_last - RATE_SECONDS + 1;
    for (int64_t at = second_first; at <= second_last; at++) {
        int64_t begin = at * second > from ? at * second : from;
        int64_t end = (at + 1) * second < to ? (at + 1) * second : to;
        double share = to > from ? (double)(end - begin) / (double)(to - from) : 1;

        if (metrics->rate[at % RATE_SECONDS].second > at)
            continue; /* older than what is kept */
        if (metrics->rate[at % RATE_SECONDS].second != at)
            metrics->rate[at % RATE_SECONDS].bytes = 0;
        metrics->rate[at % RATE_SECONDS].second = at;
        metrics->rate[at % RATE_SECONDS].bytes += share * (double)transfer->bytes;
    }
}

void metrics_ended(struct metrics *metrics, const struct transfer *transfer, kvr_role role,
                   int64_t wall_ns)
{
    kvr_status outcome = transfer->sides[role].outcome;

    pthread_mutex_lock(&metrics->lock);
    for (size_t i = 0; i < REASONS; i++)
        metrics->ended[role][i] += reasons[i].status == outcome;
    if (role == KVR_ROLE_SOURCE)
        metrics->retries += transfer->retries;
    metrics->paths[role][transfer->sides[role].path] += outcome == KVR_OK;
    for (int phase = 0; phase < PHASE_END && outcome == KVR_OK; phase++) {
        int64_t ns = span(transfer, (enum phase)phase);

        if (phases[phase].role == role && ns >= 0)
            observe(&metrics->durations[phase], (double)ns / 1e9);
    }
    if (role == KVR_ROLE_TARGET && outcome == KVR_OK) {
        struct recent *recent = &metrics->recent[metrics->recent_count++ % RECENT];

        metrics->bytes += transfer->bytes;
        *recent = (struct recent){transfer->sides[role].at_ns[STAGE_ENDED],
                                  span(transfer, PHASE_TOTAL), span(transfer, PHASE_WIRE)};
        add_rate(metrics, transfer, wall_ns);
    }
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_events(struct metrics *metrics, uint64_t count, int64_t newest_wall_ns)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->events += count;
    if (newest_wall_ns > metrics->newest_event_ns)
        metrics->newest_event_ns = newest_wall_ns;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_committed(struct metrics *metrics, kvr_ns duration)
{
    pthread_mutex_lock(&metrics->lock);
    observe(&metrics->commits, (double)duration / 1e9);
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_refused(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->reports_refused++;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_states(struct metrics *metrics, const uint64_t counts[STATE_END])
{
    pthread_mutex_lock(&metrics->lock);
    memcpy(metrics->states, counts, sizeof(metrics->states));
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_moved(struct metrics *metrics, transfer_state from, transfer_state to)
{
    pthread_mutex_lock(&metrics->lock);
    if (from != STATE_END && metrics->states[from] > 0)
        metrics->states[from]--;
    if (to != STATE_END)
        metrics->states[to]++;
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- summary ---- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* By nearest rank: so many percent of the values, or more, are not larger. */
static double percentile_s(const int64_t *sorted, uint64_t count, unsigned percent)
{
    uint64_t rank = (count * percent + 99) / 100;

    return (double)sorted[rank - 1] / 1e9;
}

static struct metrics_latency percentiles(int64_t *values, uint64_t count)
{
    struct metrics_latency latency = {.count = count};

    if (count == 0)
        return latency;
    qsort(values, count, sizeof(values[0]), by_size);
    latency.p50 = percentile_s(values, count, 50);
    latency.p95 = percentile_s(values, count, 95);
    latency.p99 = percentile_s(values, count, 99);
    return latency;
}

static void summarise_latency(const struct metrics *metrics, int64_t since_ns,
                              struct metrics_summary *summary)
{
    int64_t total[RECENT], wire[RECENT];
    uint64_t totals = 0, wires = 0;
    uint64_t kept = metrics->recent_count < RECENT ? metrics->recent_count : RECENT;

    for (uint64_t i = 0; i < kept; i++) {
        const struct recent *recent = &metrics->recent[i];

        if (recent->ended_ns < since_ns)
            continue;
        if (recent->total_ns >= 0)
            total[totals++] = recent->total_ns;
        if (recent->wire_ns >= 0)
            wire[wires++] = recent->wire_ns;
    }
    summary->total = percentiles(total, totals);
    summary->wire = percentiles(wire, wires);
}

void metrics_summarise(struct metrics *metrics, int64_t wall_ns,
                       struct metrics_summary *ret_summary)
{
    int64_t last = wall_ns / (int64_t)KVR_S - 1;

    memset(ret_summary, 0, sizeof(*ret_summary));
    pthread_mutex_lock(&metrics->lock);
    memcpy(ret_summary->states, metrics->states, sizeof(ret_summary->states));
    ret_summary->events = metrics->events;
    ret_summary->newest_event_ns = metrics->newest_event_ns;
    for (int i = 0; i < METRICS_SECONDS; i++) {
        int64_t second = last - (METRICS_SECONDS - 1 - i);

        if (metrics->rate[second % RATE_SECONDS].second == second)
            ret_summary->bytes_per_second[i] = metrics->rate[second % RATE_SECONDS].bytes;
    }
    summarise_latency(metrics, wall_ns - METRICS_SECONDS * (int64_t)KVR_S, ret_summary);
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- exposition ---- */

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
                            const struct histogram *histogram)
{
    uint64_t count = 0;
    int length = (int)strlen(label);
    bool labelled = length > 0;

    for (size_t i = 0; i < BOUNDS; i++) {
        count += histogram->buckets[i];
        fprintf(out, "kvrail_%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, label, bounds[i], count);
    }
    count += histogram->buckets[BOUNDS];
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
            if (reasons[i].status != KVR_AGAIN)
                fprintf(out,
                        "kvrail_transfers_total{role=\"%s\",outcome=\"%s\",reason=\"%s\"} %" PRIu64
                        "\n",
                        transfer_role_name((kvr_role)role), outcome_of(reasons[i].status),
                        reasons[i].name, metrics->ended[role][i]);
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
        snprintf(label, sizeof(label), "phase=\"%s\",", phases[phase].name);
        write_histogram(out, "transfer_duration_seconds", label, &metrics->durations[phase]);
    }
    counter(out, "transfer_bytes_total", "Bytes of done transfers, as the targets count them.",
            metrics->bytes);
    counter(out, "retries_total", "Chunks that were posted a second time.", metrics->retries);
    head(out, "inflight_transfers", "gauge", "Transfers that have not ended.");
    fprintf(out, "kvrail_inflight_transfers %" PRIu64 "\n", live_of(metrics));
}

static void write_self(const struct metrics *metrics, kvr_ns now, FILE *out)
{
    counter(out, "ingest_events_total", "Events that were committed.", metrics->events);
    counter(out, "ingest_reports_refused_total", "Reports that were refused for good.",
            metrics->reports_refused);
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

/* The group is named where there are several. */
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

static void write_rail_counters(struct fleet *fleet, kvr_ns now, struct agent_series *series)
{
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) {
        const struct kvr_rail_counter_facts *facts = kvr_rail_counter_facts((kvr_rail_counter)i);
        char name[64];

        snprintf(name, sizeof(name), "rail_%s%s", facts->name, facts->gauge ? "" : "_total");
        head(series->out, name, facts->gauge ? "gauge" : "counter", facts->text);
        series->name = name;
        series->rail_counter = i;
        fleet_each(fleet, now, write_rail_counters_of, series);
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
    write_self(metrics, now, out);
    pthread_mutex_unlock(&metrics->lock);
    write_agents(fleet, now, out);
}
