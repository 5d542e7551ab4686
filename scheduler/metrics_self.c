/* The metrics of the scheduler's health, its queue of reports, its database and its process. */
#include "scheduler/metrics_self.h"

#include "http/process_series.h"

/* ---- health and ingest ---- */

static void write_health(struct health *health, struct exposition *out)
{
    struct health_view view;
    bool there[HEALTH_END] = {false};

    health_look(health, &view);
    for (int i = 0; i < view.count; i++)
        there[view.entries[i].problem] = true;
    exposition_one(out, false, "kvrail_ready",
                   "1 while /readyz answers 200: nothing keeps the scheduler from its work.",
                   health_worst(&view) == HEALTH_NOTED);
    exposition_gauge(out, "kvrail_scheduler_problem",
                     "1 while that keeps the scheduler from its work.");
    for (int i = 0; i < HEALTH_END; i++)
        exposition_count(out,
                         (const struct exposition_label[]){
                             {"problem", health_facts((health_problem)i)->name}, {NULL, NULL}},
                         there[i]);
    exposition_one(out, true, "kvrail_commits_failed_total",
                   "Transactions that were not committed: agents send their reports again.",
                   (double)view.failed);
}

static void write_ingest(struct ingest *ingest, kvr_ns now, struct exposition *out)
{
    struct ingest_load load = ingest_load(ingest);

    exposition_one(out, false, "kvrail_ingest_waiting",
                   "Reports and orders that are not acknowledged yet.", load.waiting);
    exposition_one(out, false, "kvrail_ingest_oldest_seconds",
                   "How long the oldest of these has waited.",
                   load.since != 0 && now > load.since ? (double)(now - load.since) / 1e9 : 0);
    exposition_one(out, true, "kvrail_journal_writes_total",
                   "Rounds of reports that were written to the journal and acknowledged.",
                   (double)load.journal_writes);
    exposition_one(out, false, "kvrail_journal_bytes",
                   "Of reports that are acknowledged and not in the database yet.",
                   (double)load.journal_bytes);
    exposition_one(out, false, "kvrail_journal_oldest_seconds",
                   "How long the oldest of these has waited for its commit.",
                   load.oldest_since != 0 && now > load.oldest_since
                       ? (double)(now - load.oldest_since) / 1e9
                       : 0);
    exposition_one(out, false, "kvrail_database_bytes", "Of the database's files, or tables.",
                   (double)load.database_bytes);
}

static void write_stream(struct stream *stream, struct exposition *out)
{
    struct stream_counts counts = stream_counts(stream);

    exposition_one(out, false, "kvrail_stream_viewers", "Viewers of /api/v1/stream.",
                   counts.viewers);
    exposition_one(out, true, "kvrail_stream_resyncs_total",
                   "Times that a viewer of the stream had missed news and got a snapshot.",
                   (double)counts.resyncs);
    exposition_one(out, true, "kvrail_stream_refused_total",
                   "Viewers that were refused because there were too many.",
                   (double)counts.refused);
}

void metrics_write_self(const struct metrics_self *self, kvr_ns now, struct exposition *out)
{
    write_health(self->health, out);
    write_ingest(self->ingest, now, out);
    write_stream(self->stream, out);
    process_series_write(out);
}
