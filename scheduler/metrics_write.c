/* The metrics of transfers and of the scheduler's own work. */
#include <inttypes.h>
#include <string.h>

#include "base/version.h"
#include "scheduler/metrics_state.h"

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

static void write_ends(const struct metrics *metrics, struct exposition *out)
{
    exposition_counter(out, "kvrail_transfers_ended_total", "Transfers that ended, each once.");
    for (size_t i = 0; i < REASONS; i++) {
        const struct exposition_label labels[] = {
            {"outcome", outcome_of(metrics_reasons[i].status)},
            {"reason", metrics_reasons[i].name},
            {NULL, NULL}};

        if (metrics_reasons[i].status != KVR_AGAIN)
            exposition_count(out, labels, metrics->whole[i]);
    }
    exposition_counter(out, "kvrail_transfer_sides_ended_total",
                       "Ends of transfers, each counted by either agent.");
    for (int role = 0; role < 2; role++)
        for (size_t i = 0; i < REASONS; i++) {
            const struct exposition_label labels[] = {
                {"role", transfer_role_name((kvr_role)role)},
                {"outcome", outcome_of(metrics_reasons[i].status)},
                {"reason", metrics_reasons[i].name},
                {NULL, NULL}};

            if (metrics_reasons[i].status != KVR_AGAIN)
                exposition_count(out, labels, metrics->ended[role][i]);
        }
    exposition_counter(out, "kvrail_transfer_sides_done_total",
                       "Sides of done transfers that moved bytes, by the way between pages and "
                       "wire.");
    for (int role = 0; role < 2; role++)
        for (int path = KVR_PATH_NONE + 1; path < KVR_PATH_END; path++) {
            const struct exposition_label labels[] = {{"role", transfer_role_name((kvr_role)role)},
                                                      {"path", kvr_path_name((kvr_path)path)},
                                                      {NULL, NULL}};

            exposition_count(out, labels, metrics->paths[role][path]);
        }
}

static void write_histogram(const struct metrics_histogram *histogram,
                            const struct exposition_label *label, struct exposition *out)
{
    exposition_buckets(out, label, metrics_bounds, histogram->buckets, METRICS_BOUNDS,
                       histogram->sum, histogram->exemplars);
}

static void write_live(const struct metrics *metrics, int64_t wall_ns, struct exposition *out)
{
    int64_t oldest_ns = metrics->oldest_ns;

    exposition_one(out, false, "kvrail_inflight_transfers", "Transfers that have not ended.",
                   (double)live_of(metrics));
    exposition_gauge(out, "kvrail_transfers_in_stage",
                     "Transfers that have not ended, by the stage that they have reached.");
    for (int state = 0; state < STATE_END; state++) {
        const struct exposition_label labels[] = {
            {"stage", transfer_state_name((transfer_state)state)}, {NULL, NULL}};

        if (transfer_state_live((transfer_state)state))
            exposition_count(out, labels, metrics->states[state]);
    }
    exposition_one(out, false, "kvrail_held_requests",
                   "Published requests with pages that wait for their target.",
                   (double)metrics->held);
    exposition_one(out, false, "kvrail_oldest_transfer_seconds",
                   "How long ago the oldest transfer that has not ended was opened; 0: there is "
                   "none.",
                   oldest_ns > 0 && wall_ns > oldest_ns ? (double)(wall_ns - oldest_ns) / 1e9 : 0);
}

static void write_transfers(const struct metrics *metrics, int64_t wall_ns, struct exposition *out)
{
    write_ends(metrics, out);
    exposition_histogram(out, "kvrail_transfer_duration_seconds",
                         "Time that done transfers spent in a phase, by the clock of one agent.");
    for (int phase = 0; phase < PHASE_END; phase++)
        write_histogram(&metrics->durations[phase],
                        &(struct exposition_label){"phase", metrics_phases[phase].name}, out);
    exposition_one(out, true, "kvrail_transfer_bytes_total",
                   "Bytes of done transfers, as the targets count them.", (double)metrics->bytes);
    exposition_one(out, true, "kvrail_retries_total", "Chunks that were posted a second time.",
                   (double)metrics->retries);
    write_live(metrics, wall_ns, out);
}

static void write_access(const struct metrics *metrics, struct exposition *out)
{
    http_counts_write(&metrics->http, out);
    exposition_one(out, true, "kvrail_scheduler_absences_total",
                   "Times that the scheduler did not run for a second or more.",
                   (double)metrics->absences);
    exposition_one(out, false, "kvrail_scheduler_insecure",
                   "1 for a scheduler that runs with --insecure: agents prove no identity to it.",
                   metrics->insecure);
    if (metrics->certificate_expiry != 0)
        exposition_one(out, false, "kvrail_scheduler_certificate_expiry_seconds",
                       "When the scheduler's certificate ends, in seconds since 1970.",
                       (double)metrics->certificate_expiry);
}

static void write_database(const struct metrics *metrics, struct exposition *out)
{
    static const char *const whys[] = {METRICS_REMOVED_LIST(KVR_NAME)};

    exposition_one(out, false, "kvrail_database_used_bytes",
                   "Of the database, without its free pages.", (double)metrics->database.used);
    exposition_one(out, false, "kvrail_database_bound_bytes",
                   "--database-bytes: with more in use the oldest ended transfers go; 0: no bound.",
                   (double)metrics->database.bound);
    exposition_counter(out, "kvrail_rows_removed_total",
                       "Rows that were removed: past --retention (age), or beyond "
                       "--database-bytes (size).");
    for (int i = 0; i < METRICS_REMOVED_END; i++)
        exposition_count(out, (const struct exposition_label[]){{"reason", whys[i]}, {NULL, NULL}},
                         metrics->database.removed[i]);
}

static void write_work(const struct metrics *metrics, kvr_ns now, struct exposition *out)
{
    exposition_one(out, true, "kvrail_ingest_events_total", "Events that were committed.",
                   (double)metrics->events);
    exposition_one(out, true, "kvrail_ingest_reports_refused_total",
                   "Reports that were refused for good.", (double)metrics->reports_refused);
    exposition_one(out, true, "kvrail_ingest_reports_contradicted_total",
                   "Reports that showed that another program had reported in their agent's name.",
                   (double)metrics->reports_contradicted);
    exposition_histogram(out, "kvrail_db_commit_seconds",
                         "Time of one commit, all its reports included.");
    write_histogram(&metrics->commits, NULL, out);
    exposition_one(out, false, "kvrail_uptime_seconds", "Time since the scheduler started.",
                   (double)(now - metrics->started) / 1e9);
    exposition_gauge(out, "kvrail_build_info", "Constant 1; the version is in the label.");
    exposition_count(
        out, (const struct exposition_label[]){{"version", KVRAIL_VERSION}, {NULL, NULL}}, 1);
}

void metrics_write(struct metrics *metrics, kvr_ns now, int64_t wall_ns, struct exposition *out)
{
    pthread_mutex_lock(&metrics->lock);
    write_transfers(metrics, wall_ns, out);
    write_access(metrics, out);
    write_database(metrics, out);
    write_work(metrics, now, out);
    pthread_mutex_unlock(&metrics->lock);
}
