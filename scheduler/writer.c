#include "scheduler/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/apply.h"
#include "scheduler/journal.h"
#include "scheduler/news.h"
#include "scheduler/round.h"
#include "scheduler/wall.h"

#define STEP_NS        (250 * KVR_MS) /* from the first report of a transaction to its commit */
#define LINGER_NS      (10 * KVR_MS)  /* without another round */
#define ASKED_NS       (20 * KVR_MS)  /* between two commits for readers, */
#define ASKED_SHARE    4              /* and so many times as long as a commit takes */
#define STEP_BYTES_MAX ((uint64_t)32 << 20) /* of reports in one transaction */
#define JOURNAL_AGENT  "" /* no agent has this name: its position is the journal's */

struct writer {
    struct writer_options options;
    struct apply *apply;
    struct news_parts news;
    struct wall wall;
    struct journal *journal; /* NULL: each round is committed */
    bool open;               /* reports that were acknowledged wait for their commit */
    bool owed;               /* the journal has reports that no transaction has */
    bool unjournaled;        /* the last write of the journal failed */
    uint64_t marked;         /* the database has the journal up to there */
    uint64_t commits, journal_writes;
    kvr_ns opened_at; /* while it is open, or reports are owed: when the oldest was taken */
    kvr_ns taken_at;  /* while it is open: the latest */
    kvr_ns committed_at, commit_took;
    struct round expected; /* reports, while they are applied */
};

static kvr_status database_failed(struct writer *writer, const char *what, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "ingest", "the database %s: %s", what,
                         store_problem(writer->options.store));
}

int64_t writer_wall(struct writer *writer)
{
    return wall_time(&writer->wall, kvr_clock_now(), kvr_clock_wall());
}

struct apply *writer_apply(struct writer *writer)
{
    return writer->apply;
}

void writer_hear(struct writer *writer)
{
    if (store_news_wanted(writer->options.store))
        (void)news_hear(&writer->news); /* else the next transaction says why */
}

/* ---- transactions ---- */

/* One that knows all that the schedulers of this database have committed. */
static bool begin(struct writer *writer)
{
    const struct news_parts *parts = &writer->news;

    if (!apply_begin(writer->apply))
        return false;
    return store_news_lost(parts->store) ? news_reload(parts) : news_hear(parts);
}

/* Before the rollback. */
static void not_stored(struct writer *writer, const struct kvr_error *error)
{
    struct store *store = writer->options.store;
    bool memory = error->status == KVR_NO_MEMORY; /* else the database refused */

    health_failed(writer->options.health, memory ? HEALTH_COMMITS : store_trouble(store),
                  memory ? error->detail : store_problem(store));
}

/* What was acknowledged comes again from the journal. */
static void roll_back(struct writer *writer, const struct kvr_error *error)
{
    not_stored(writer, error);
    store_rollback(writer->options.store);
    apply_reset(writer->apply);
    writer->open = false;
    if (writer->journal == NULL || journal_number(writer->journal) == writer->marked)
        return;
    writer->owed = true;
    fleet_forget_stored(writer->options.fleet);
}

/* After apply_flush. */
static kvr_status commit(struct writer *writer, int64_t now_ns, struct kvr_error *error)
{
    struct store *store = writer->options.store;
    struct journal *journal = writer->journal;

    if (journal != NULL && journal_number(journal) != writer->marked &&
        !store_set_position(store, JOURNAL_AGENT, journal_id(journal), journal_number(journal),
                            now_ns))
        return database_failed(writer, "refused", error);
    if (!store_commit(store))
        return database_failed(writer, "cannot commit", error);
    if (journal != NULL) {
        writer->marked = journal_number(journal);
        journal_clear(journal);
    }
    if (store_has_written(store))
        health_stored(writer->options.health);
    apply_count(writer->apply, writer->options.metrics, writer->options.changes, now_ns);
    apply_reset(writer->apply);
    writer->open = false;
    return KVR_OK;
}

/* The time from `begin` counts for the metrics. */
static void committed(struct writer *writer, kvr_ns begin)
{
    writer->committed_at = kvr_clock_now();
    writer->commit_took = writer->committed_at - begin;
    writer->commits++;
    metrics_committed(writer->options.metrics, writer->commit_took);
}

/* ---- the journal's reports, once more ---- */

struct replay {
    struct writer *writer;
    int64_t now_ns; /* of the last report */
    uint64_t reports;
};

static kvr_status replay_report(struct replay *replay, const struct kvr_report *report,
                                struct kvr_error *error)
{
    struct writer *writer = replay->writer;
    struct fleet *fleet = writer->options.fleet;
    bool turns = fleet_turns(fleet, report);
    uint64_t acknowledged;
    kvr_status status = apply_report(writer->apply, report, replay->now_ns, &acknowledged, error);

    if (status == KVR_STALE || status == KVR_REFUSED || status == KVR_AGAIN) {
        kvr_log_error("events of %s are lost that were acknowledged: the database is another one "
                      "than that of the journal (%s)",
                      report->agent, error->detail);
        return KVR_OK;
    }
    if (status == KVR_OK && turns)
        (void)fleet_update(fleet, report, kvr_clock_now(), replay->now_ns);
    return status;
}

static kvr_status replay_one(void *self, int64_t arrived_ns, const struct journal_report *body,
                             struct kvr_error *error)
{
    struct replay *replay = self;
    struct kvr_report *report;
    kvr_status status = kvr_report_decode(body->bytes, body->count, &report, error);

    if (status == KVR_NO_MEMORY)
        return status;
    if (status != KVR_OK) { /* of a newer scheduler, perhaps */
        kvr_log_error("a report is lost that was acknowledged: %s", error->detail);
        return KVR_OK;
    }
    replay->now_ns = arrived_ns;
    replay->reports++;
    status = replay_report(replay, report, error);
    kvr_report_free(report);
    return status;
}

static kvr_status replay_all(struct writer *writer, struct replay *replay, struct kvr_error *error)
{
    struct journal *journal = writer->journal;
    uint64_t has;

    if (!begin(writer) ||
        !store_position(writer->options.store, JOURNAL_AGENT, journal_id(journal), &has))
        return database_failed(writer, "refused", error);
    writer->marked = has;
    if (has == 0)
        KVR_TRY(journal_begin_anew(journal, error));
    else
        KVR_TRY(journal_replay(journal, has, replay_one, replay, error));
    KVR_TRY(apply_flush(writer->apply, replay->now_ns, error));
    return commit(writer, replay->now_ns, error);
}

/* Else the database refuses, or the journal cannot be read. */
static kvr_status recover(struct writer *writer, struct kvr_error *error)
{
    struct replay replay = {.writer = writer, .now_ns = writer_wall(writer)};
    kvr_ns begin_at = kvr_clock_now();
    kvr_status status;

    if (!writer->owed)
        return KVR_OK;
    status = replay_all(writer, &replay, error);
    if (status != KVR_OK) {
        roll_back(writer, error);
        writer->owed = true;
        return status;
    }
    writer->owed = false;
    if (replay.reports == 0)
        return KVR_OK;
    committed(writer, begin_at);
    kvr_log_info("%llu acknowledged reports of the journal are in the database now",
                 (unsigned long long)replay.reports);
    return KVR_OK;
}

bool writer_commit(struct writer *writer)
{
    struct kvr_error error = {0};
    int64_t now_ns = writer_wall(writer);
    kvr_ns begin_at = kvr_clock_now();
    kvr_status status;

    if (!writer->open)
        return recover(writer, &error) == KVR_OK;
    status = apply_flush(writer->apply, now_ns, &error);
    if (status == KVR_OK)
        status = commit(writer, now_ns, &error);
    if (status == KVR_OK)
        committed(writer, begin_at);
    else
        roll_back(writer, &error);
    return status == KVR_OK;
}

bool writer_run(struct writer *writer, writer_work *work, void *self)
{
    struct kvr_error error = {0};
    int64_t now_ns = writer_wall(writer);
    kvr_status status = KVR_OK;

    if (!writer_commit(writer))
        return false;
    if (!begin(writer))
        status = database_failed(writer, "refused", &error);
    if (status == KVR_OK)
        status = work(self, now_ns, &error);
    if (status == KVR_OK)
        status = apply_flush(writer->apply, now_ns, &error);
    if (status == KVR_OK)
        status = commit(writer, now_ns, &error);
    if (status != KVR_OK)
        roll_back(writer, &error);
    return status == KVR_OK;
}

kvr_ns writer_due(const struct writer *writer, bool asked)
{
    kvr_ns due = writer->opened_at + STEP_NS, rest = writer->taken_at + LINGER_NS, share;

    if (!writer->open)
        return KVR_NEVER;
    if (journal_bytes(writer->journal) >= STEP_BYTES_MAX)
        return 0;
    if (asked) {
        share = writer->commit_took * ASKED_SHARE;
        rest = writer->committed_at + (share > ASKED_NS ? share : (kvr_ns)ASKED_NS);
    }
    return rest < due ? rest : due;
}

/* ---- one round ---- */

/* What the reports need of the database is read at once. */
static bool expect_reports(struct writer *writer, const struct waiting *round, int count)
{
    round_begin(&writer->expected);
    for (int i = 0; i < count; i++)
        if (round[i].report != NULL)
            round_add(&writer->expected, round[i].report);
    return apply_expect(writer->apply, writer->expected.reports, writer->expected.count);
}

static kvr_status apply_reports(struct writer *writer, struct waiting *round, int count,
                                int64_t now_ns, struct kvr_error *error)
{
    if (!expect_reports(writer, round, count))
        return database_failed(writer, "refused", error);
    for (int i = 0; i < count; i++) {
        struct waiting *waiting = &round[i];

        if (waiting->report == NULL)
            continue;
        waiting->status = apply_report(writer->apply, waiting->report, now_ns,
                                       &waiting->acknowledged, &waiting->error);
        if (waiting->status == KVR_REFUSED)
            metrics_refused(writer->options.metrics);
        if (waiting->status != KVR_OK && waiting->status != KVR_STALE &&
            waiting->status != KVR_REFUSED && waiting->status != KVR_AGAIN) {
            *error = waiting->error;
            return waiting->status;
        }
    }
    return KVR_OK;
}

static kvr_status apply_audit(struct writer *writer, struct waiting *round, int count,
                              int64_t now_ns, struct kvr_error *error)
{
    for (int i = 0; i < count; i++) {
        struct waiting *waiting = &round[i];
        struct audit_entry *entry =
            waiting->order != NULL ? &waiting->order->audit : &waiting->audit;

        if (entry->action[0] == '\0')
            continue;
        if (waiting->order != NULL) {
            snprintf(entry->outcome, sizeof(entry->outcome), "%s",
                     waiting->status == KVR_OK ? "done" : kvr_status_name(waiting->status));
            if (waiting->status != KVR_OK)
                memcpy(entry->detail, waiting->error.detail, sizeof(entry->detail));
        }
        if (!store_add_audit(writer->options.store, entry, now_ns))
            return database_failed(writer, "refused", error);
    }
    return KVR_OK;
}

/* After the reports: an order may be about a request of the same round. */
static kvr_status apply_orders(struct writer *writer, struct waiting *round, int count,
                               int64_t now_ns, struct kvr_error *error)
{
    for (int i = 0; i < count; i++) {
        struct waiting *waiting = &round[i];

        if (waiting->order == NULL)
            continue;
        waiting->status =
            order_store(writer->options.store, waiting->order, now_ns, &waiting->error);
        if (waiting->status == KVR_SYSTEM) {
            strcpy(waiting->order->audit.outcome, "failed");
            *error = waiting->error;
            return KVR_SYSTEM;
        }
    }
    return KVR_OK;
}

/* The journal has reports alone, and the fleet must know no start of an agent that a rollback would
 * take from the database. */
static bool needs_commit(struct writer *writer, const struct waiting *round, int count)
{
    bool needs = writer->journal == NULL;

    for (int i = 0; i < count && !needs; i++)
        needs = round[i].report == NULL || round[i].body.count == 0 ||
                fleet_turns(writer->options.fleet, round[i].report);
    return needs || count > JOURNAL_REPORTS_MAX;
}

/* False: the round must be committed. */
static bool journal_round(struct writer *writer, const struct waiting *round, int count,
                          int64_t now_ns)
{
    struct journal_report reports[JOURNAL_REPORTS_MAX];
    struct kvr_error error = {0};
    uint32_t taken = 0;
    kvr_status status;

    for (int i = 0; i < count; i++)
        if (round[i].status == KVR_OK)
            reports[taken++] = (struct journal_report){round[i].body.bytes, round[i].body.count};
    if (taken == 0)
        return true;
    status = journal_append(writer->journal, now_ns, reports, taken, &error);
    if (status != KVR_OK && !writer->unjournaled)
        kvr_log_warning("%s: each round of reports is committed to the database instead, which "
                        "takes longer",
                        error.detail);
    if (status == KVR_OK && writer->unjournaled)
        kvr_log_info("the journal can be written again");
    writer->unjournaled = status != KVR_OK;
    if (status == KVR_OK)
        writer->journal_writes++;
    return status == KVR_OK;
}

static void tell_fleet_one(struct writer *writer, const struct kvr_report *report, int64_t now_ns)
{
    struct fleet *fleet = writer->options.fleet;
    char host[KVR_NAME_BYTES];

    if (fleet_find_twin(fleet, report, kvr_clock_now(), host))
        kvr_log_warning(
            "two agents call themselves %s, on %s and on %s: they are shown as one, and "
            "each one's transfers as lost when the other reports; give each a --name of "
            "its own",
            report->agent, report->facts->host, host);
    if (!fleet_update(fleet, report, kvr_clock_now(), now_ns))
        kvr_log_warning("agent %s is not shown: there are %d others", report->agent,
                        FLEET_AGENTS_MAX);
}

/* Once it is durable, so that a change that was rolled back is still a change the next time. */
static void tell_fleet(struct writer *writer, const struct waiting *round, int count,
                       int64_t now_ns)
{
    for (int i = 0; i < count; i++)
        if (round[i].report != NULL && round[i].status == KVR_OK)
            tell_fleet_one(writer, round[i].report, now_ns);
}

static kvr_status commit_round(struct writer *writer, struct waiting *round, int count,
                               int64_t now_ns, struct kvr_error *error)
{
    KVR_TRY(apply_flush(writer->apply, now_ns, error));
    KVR_TRY(apply_orders(writer, round, count, now_ns, error));
    KVR_TRY(apply_audit(writer, round, count, now_ns, error));
    return commit(writer, now_ns, error);
}

/* In a transaction. */
static kvr_status take(struct writer *writer, struct waiting *round, int count, int64_t now_ns,
                       struct kvr_error *error)
{
    bool commits = needs_commit(writer, round, count);
    kvr_ns begin_at = kvr_clock_now();

    KVR_TRY(apply_reports(writer, round, count, now_ns, error));
    if (!commits && !writer->open)
        commits = !apply_has_changes(writer->apply); /* then the disk has nothing to take */
    if (!commits && !journal_round(writer, round, count, now_ns)) {
        journal_skip(writer->journal);
        commits = true;
    }
    if (commits) {
        KVR_TRY(commit_round(writer, round, count, now_ns, error));
        committed(writer, begin_at);
    } else {
        writer->taken_at = kvr_clock_now();
        if (!writer->open)
            writer->opened_at = begin_at;
        writer->open = true;
    }
    tell_fleet(writer, round, count, now_ns);
    return KVR_OK;
}

kvr_status writer_take(struct writer *writer, struct waiting *round, int count,
                       struct kvr_error *error)
{
    int64_t now_ns = writer_wall(writer);
    kvr_status status = KVR_OK;

    KVR_TRY(recover(writer, error));
    if (!writer->open && !begin(writer))
        status = database_failed(writer, "refused", error);
    if (status == KVR_OK)
        status = take(writer, round, count, now_ns, error);
    if (status != KVR_OK)
        roll_back(writer, error);
    return status;
}

/* ---- open and close ---- */

struct writer_counts writer_counts(const struct writer *writer)
{
    struct writer_counts counts = {.commits = writer->commits,
                                   .journal_writes = writer->journal_writes,
                                   .open_since = writer->open ? writer->opened_at : 0};

    if (writer->open || writer->owed)
        counts.oldest_since = writer->opened_at;
    if (writer->journal != NULL)
        counts.journal_bytes = journal_bytes(writer->journal);
    return counts;
}

void writer_rest(struct writer *writer)
{
    if (writer->journal != NULL && !writer->open && !writer->owed)
        journal_trim(writer->journal);
}

kvr_status writer_open(const struct writer_options *options, struct writer **ret_writer,
                       struct kvr_error *error)
{
    struct writer *writer = calloc(1, sizeof(*writer));
    const char *folder = store_journal_folder(options->store);
    struct kvr_error refused = {0}; /* at the next round again */
    kvr_status status = KVR_OK;

    if (writer == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for the writer");
    writer->options = *options;
    writer->apply = apply_open(options->store, options->fleet);
    writer->news = (struct news_parts){.store = options->store,
                                       .fleet = options->fleet,
                                       .metrics = options->metrics,
                                       .changes = options->changes,
                                       .apply = writer->apply};
    if (writer->apply == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for the writer");
    if (status == KVR_OK && folder != NULL)
        status = journal_open(folder, &writer->journal, error);
    if (status != KVR_OK) {
        writer_close(writer);
        return status;
    }
    writer->owed = writer->journal != NULL;
    writer->opened_at = kvr_clock_now(); /* of what an earlier scheduler left: not known */
    if (writer->owed && recover(writer, &refused) == KVR_OK && writer->commits > 0)
        (void)fleet_load(options->fleet, options->store); /* else it knows a little less */
    *ret_writer = writer;
    return KVR_OK;
}

struct writer *writer_close(struct writer *writer)
{
    if (writer == NULL)
        return NULL;
    writer_rest(writer);
    journal_close(writer->journal);
    apply_close(writer->apply);
    free(writer);
    return NULL;
}
