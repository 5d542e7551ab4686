#include "scheduler/metrics.h"

#include <stdlib.h>

#include "scheduler/metrics_state.h"

const struct metrics_phase metrics_phases[PHASE_END] = {PHASE_LIST(KVR_ROW)};

const double metrics_bounds[METRICS_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                               0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                               5,      10,      30,     60,    300};

const struct metrics_reason metrics_reasons[REASONS] = {
#define X(symbol, value, name, text) {symbol, name},
    KVR_STATUS_LIST(X)
#undef X
};

struct metrics *metrics_open(void)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    if (metrics == NULL)
        return NULL;
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->speeds = speeds_open();
    if (metrics->speeds == NULL)
        return metrics_close(metrics);
    metrics->started = kvr_clock_now();
    return metrics;
}

struct metrics *metrics_close(struct metrics *metrics)
{
    if (metrics != NULL) {
        pthread_mutex_destroy(&metrics->lock);
        speeds_close(metrics->speeds);
    }
    free(metrics);
    return NULL;
}

struct http_counts *metrics_http(struct metrics *metrics)
{
    return &metrics->http;
}

/* ---- counting ---- */

/* transfer: 0 where there is none. */
static void observe(struct metrics_histogram *histogram, double seconds, uint64_t transfer,
                    int64_t wall_ns)
{
    size_t bucket = 0;

    while (bucket < METRICS_BOUNDS && seconds > metrics_bounds[bucket])
        bucket++;
    histogram->buckets[bucket]++;
    histogram->sum += seconds;
    histogram->exemplars[bucket] = (struct exposition_exemplar){transfer, seconds, wall_ns};
}

static int64_t span(const struct transfer *transfer, enum phase phase)
{
    const int64_t *at_ns = transfer->sides[metrics_phases[phase].role].at_ns;
    int64_t from = at_ns[metrics_phases[phase].from], to = at_ns[metrics_phases[phase].to];

    return from != 0 && to >= from ? to - from : -1;
}

/* Spreads the bytes of a transfer evenly over the time between its first and its last landing. */
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
            continue; /* older than the kept seconds */
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
        metrics->ended[role][i] += metrics_reasons[i].status == outcome;
    if (role == KVR_ROLE_SOURCE)
        metrics->retries += transfer->retries;
    metrics->paths[role][transfer->sides[role].path] += outcome == KVR_OK;
    for (int phase = 0; phase < PHASE_END && outcome == KVR_OK; phase++) {
        int64_t ns = span(transfer, (enum phase)phase);

        if (metrics_phases[phase].role == role && ns >= 0)
            observe(&metrics->durations[phase], (double)ns / 1e9, transfer->id, wall_ns);
    }
    if (role == KVR_ROLE_TARGET && outcome == KVR_OK) {
        struct metrics_recent *recent = &metrics->recent[metrics->recent_count++ % RECENT];

        metrics->bytes += transfer->bytes;
        *recent = (struct metrics_recent){transfer->sides[role].at_ns[STAGE_ENDED],
                                          span(transfer, PHASE_TOTAL), span(transfer, PHASE_WIRE)};
        add_rate(metrics, transfer, wall_ns);
        speeds_take(metrics->speeds, transfer, wall_ns);
    }
    pthread_mutex_unlock(&metrics->lock);
}

struct speeds *metrics_speeds(struct metrics *metrics)
{
    return metrics->speeds;
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
    observe(&metrics->commits, (double)duration / 1e9, 0, 0);
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_refused(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->reports_refused++;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_contradicted(struct metrics *metrics, uint64_t count)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->reports_contradicted += count;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_absence(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->absences++;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_expiry(struct metrics *metrics, int64_t expiry)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->certificate_expiry = expiry;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_insecure(struct metrics *metrics, bool insecure)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->insecure = insecure;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_states(struct metrics *metrics, const uint64_t counts[STATE_END])
{
    pthread_mutex_lock(&metrics->lock);
    memcpy(metrics->states, counts, sizeof(metrics->states));
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_forgotten(struct metrics *metrics, const uint64_t counts[STATE_END])
{
    pthread_mutex_lock(&metrics->lock);
    for (int state = 0; state < STATE_END; state++)
        metrics->states[state] -=
            counts[state] < metrics->states[state] ? counts[state] : metrics->states[state];
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_removed(struct metrics *metrics, metrics_why_removed why, uint64_t rows)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->database.removed[why] += rows;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_database(struct metrics *metrics, uint64_t used, uint64_t bound)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->database.used = used;
    metrics->database.bound = bound;
    pthread_mutex_unlock(&metrics->lock);
}

static bool is_live(transfer_state state)
{
    return state != STATE_END && transfer_state_live(state);
}

void metrics_moved(struct metrics *metrics, const struct metrics_move *move)
{
    bool ended = move->to != STATE_END && !is_live(move->to) &&
                 (move->from == STATE_END || is_live(move->from));

    pthread_mutex_lock(&metrics->lock);
    if (move->from != STATE_END && metrics->states[move->from] > 0)
        metrics->states[move->from]--;
    if (move->to != STATE_END)
        metrics->states[move->to]++;
    for (size_t i = 0; i < REASONS && ended; i++)
        metrics->whole[i] += metrics_reasons[i].status == move->reason;
    if (move->held_before && metrics->held > 0)
        metrics->held--;
    metrics->held += move->held;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_held(struct metrics *metrics, uint64_t count)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->held = count;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_set_oldest(struct metrics *metrics, int64_t opened_ns)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->oldest_ns = opened_ns;
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- summary ---- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* By nearest rank: at least this percentage of the values is not larger. */
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
        const struct metrics_recent *recent = &metrics->recent[i];

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
    ret_summary->insecure = metrics->insecure;
    ret_summary->certificate_expiry = metrics->certificate_expiry;
    ret_summary->connections_refused = http_counts_refused(&metrics->http);
    ret_summary->connection_refused_ns = atomic_load(&metrics->http.refused_ns);
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
