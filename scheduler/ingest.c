#include "scheduler/ingest.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"
#include "scheduler/apply.h"
#include "scheduler/wall.h"

#define HOUSEKEEPING_NS (5 * KVR_S)
#define AGENT_LOST_NS   (60 * KVR_S)
#define PRUNE_NS        (100 * KVR_MS) /* or as long as the last reports took; then reports come */

/* One report, one order or one entry of the audit log. */
struct waiting {
    struct kvr_report *report; /* or NULL */
    struct order *order;       /* or NULL */
    struct audit_entry audit;  /* where neither is there */
    kvr_ns since;              /* it waits */
    ingest_answered *answered;
    void *self;
    kvr_status status;
    uint64_t acknowledged;
    struct kvr_error error;
};

struct ingest {
    struct ingest_options options;
    struct apply *apply;
    kvr_ns housekeeping_at;
    kvr_ns round_took; /* to store the last reports */
    bool pruning;      /* rows past their retention may be left */
    struct wall wall;  /* the writer's own, as the members above */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool stopping;           /* by lock, as the next two */
    struct waiting *waiting; /* INGEST_WAITING_MAX */
    int waiting_count;
    struct ingest_load round;  /* by lock: what the writer took */
    struct waiting *under_way; /* the writer's own: the same */
};

static kvr_status submit(struct ingest *ingest, const struct waiting *waiting)
{
    bool taken;

    pthread_mutex_lock(&ingest->lock);
    taken = !ingest->stopping && ingest->waiting_count < INGEST_WAITING_MAX;
    if (taken) {
        ingest->waiting[ingest->waiting_count] = *waiting;
        ingest->waiting[ingest->waiting_count++].since = kvr_clock_now();
        pthread_cond_signal(&ingest->change);
    }
    pthread_mutex_unlock(&ingest->lock);
    if (!taken)
        kvr_report_free(waiting->report);
    return taken ? KVR_OK : KVR_AGAIN;
}

kvr_status ingest_submit(struct ingest *ingest, struct kvr_report *report,
                         ingest_answered *answered, void *self)
{
    /* Its agent lives, however long the database takes. */
    fleet_hear(ingest->options.fleet, report, kvr_clock_now());
    return submit(ingest, &(struct waiting){.report = report, .answered = answered, .self = self});
}

kvr_status ingest_order(struct ingest *ingest, struct order *order, ingest_answered *answered,
                        void *self)
{
    return submit(ingest, &(struct waiting){.order = order, .answered = answered, .self = self});
}

struct ingest_load ingest_load(struct ingest *ingest)
{
    struct ingest_load load;

    pthread_mutex_lock(&ingest->lock);
    load = ingest->round;
    load.waiting += ingest->waiting_count;
    if (load.since == 0 && ingest->waiting_count > 0)
        load.since = ingest->waiting[0].since;
    pthread_mutex_unlock(&ingest->lock);
    return load;
}

/* For a reader of the log, in the order of the commits. */
static void log_audit(const struct audit_entry *entry, bool stored)
{
    if (entry->action[0] != '\0')
        kvr_log(stored ? KVR_LOG_INFO : KVR_LOG_ERROR, "audit: %s%s%s by %s%s%s from %s: %s%s%s%s",
                entry->action, entry->object[0] != '\0' ? " " : "", entry->object,
                entry->actor[0] != '\0' ? entry->actor : "a stranger",
                entry->via[0] != '\0' ? ", " : "", entry->via, entry->from, entry->outcome,
                entry->detail[0] != '\0' ? ": " : "", entry->detail,
                stored ? "" : " (the audit log could not be written)");
}

void ingest_audit(struct ingest *ingest, const struct audit_entry *entry)
{
    if (submit(ingest, &(struct waiting){.audit = *entry}) != KVR_OK)
        log_audit(entry, false);
}

/* ---- writer thread ---- */

static int64_t wall_now(struct ingest *ingest)
{
    return wall_time(&ingest->wall, kvr_clock_now(), kvr_clock_wall());
}

/* Waits for reports, for housekeeping, or for the end. Returns how many it took. */
static int take(struct ingest *ingest, bool *ret_stopping)
{
    kvr_ns at = ingest->pruning ? kvr_clock_now() : ingest->housekeeping_at;
    struct timespec until = {.tv_sec = (time_t)(at / KVR_S), .tv_nsec = (long)(at % KVR_S)};
    struct waiting *taken;
    int count, result = 0;

    pthread_mutex_lock(&ingest->lock);
    while (ingest->waiting_count == 0 && !ingest->stopping && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&ingest->change, &ingest->lock, &until);
    taken = ingest->waiting;
    count = ingest->waiting_count;
    ingest->waiting = ingest->under_way;
    ingest->waiting_count = 0;
    ingest->under_way = taken;
    ingest->round = (struct ingest_load){count, count > 0 ? taken[0].since : 0};
    *ret_stopping = ingest->stopping;
    pthread_mutex_unlock(&ingest->lock);
    return count;
}

static kvr_status apply_reports(struct ingest *ingest, int count, int64_t now_ns,
                                struct kvr_error *error)
{
    for (int i = 0; i < count; i++) {
        struct waiting *waiting = &ingest->under_way[i];

        if (waiting->report == NULL)
            continue;
        waiting->status = apply_report(ingest->apply, waiting->report, now_ns,
                                       &waiting->acknowledged, &waiting->error);
        if (waiting->status == KVR_REFUSED)
            metrics_refused(ingest->options.metrics);
        if (waiting->status != KVR_OK && waiting->status != KVR_STALE &&
            waiting->status != KVR_REFUSED && waiting->status != KVR_AGAIN) {
            *error = waiting->error;
            return waiting->status;
        }
    }
    return apply_flush(ingest->apply, now_ns, error);
}

static kvr_status database_failed(struct ingest *ingest, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "ingest", "the database refused: %s",
                         store_problem(ingest->options.store));
}

static kvr_status apply_audit(struct ingest *ingest, int count, int64_t now_ns,
                              struct kvr_error *error)
{
    for (int i = 0; i < count; i++) {
        struct waiting *waiting = &ingest->under_way[i];
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
        if (!store_add_audit(ingest->options.store, entry, now_ns))
            return database_failed(ingest, error);
    }
    return KVR_OK;
}

/* After the reports: an order may be about a request of the same round. */
static kvr_status apply_orders(struct ingest *ingest, int count, int64_t now_ns,
                               struct kvr_error *error)
{
    for (int i = 0; i < count; i++) {
        struct waiting *waiting = &ingest->under_way[i];

        if (waiting->order == NULL)
            continue;
        waiting->status =
            order_store(ingest->options.store, waiting->order, now_ns, &waiting->error);
        if (waiting->status == KVR_SYSTEM) {
            strcpy(waiting->order->audit.outcome, "failed");
            *error = waiting->error;
            return KVR_SYSTEM;
        }
    }
    return KVR_OK;
}

/* Commits all reports of the round, or none: a failure of the database fails all of them. */
static kvr_status commit_round(struct ingest *ingest, int count, int64_t now_ns,
                               struct kvr_error *error)
{
    struct store *store = ingest->options.store;

    if (!store_begin(store))
        return database_failed(ingest, error);
    KVR_TRY(apply_reports(ingest, count, now_ns, error));
    KVR_TRY(apply_orders(ingest, count, now_ns, error));
    KVR_TRY(apply_audit(ingest, count, now_ns, error));
    if (!store_commit(store))
        return kvr_error_set(error, KVR_SYSTEM, "ingest", "the database cannot commit: %s",
                             store_problem(store));
    return KVR_OK;
}

static void tell_fleet_one(struct ingest *ingest, const struct kvr_report *report, int64_t now_ns)
{
    char host[KVR_NAME_BYTES];

    if (fleet_find_twin(ingest->options.fleet, report, kvr_clock_now(), host))
        kvr_log_warning(
            "two agents call themselves %s, on %s and on %s: they are shown as one, and "
            "each one's transfers as lost when the other reports; give each a --name of "
            "its own",
            report->agent, report->facts->host, host);
    if (!fleet_update(ingest->options.fleet, report, kvr_clock_now(), now_ns))
        kvr_log_warning("agent %s is not shown: there are %d others", report->agent,
                        FLEET_AGENTS_MAX);
}

/* After the commit, so that a change that was rolled back is still a change the next time. */
static void tell_fleet(struct ingest *ingest, int count, int64_t now_ns)
{
    for (int i = 0; i < count; i++)
        if (ingest->under_way[i].report != NULL && ingest->under_way[i].status == KVR_OK)
            tell_fleet_one(ingest, ingest->under_way[i].report, now_ns);
}

/* Orders that could not be read come with a later answer. */
static void answer_one(struct ingest *ingest, struct waiting *waiting, kvr_status status,
                       const struct kvr_error *error)
{
    struct kvr_report_answer answer = {0};

    log_audit(waiting->order != NULL ? &waiting->order->audit : &waiting->audit, status == KVR_OK);
    if (waiting->answered == NULL)
        return;
    if (status == KVR_OK && waiting->status == KVR_OK && waiting->report != NULL) {
        answer.acknowledged = waiting->acknowledged;
        if (!store_list_orders(ingest->options.store, waiting->report->agent, waiting->report->boot,
                               answer.orders, &answer.order_count))
            answer.order_count = 0;
    }
    if (status != KVR_OK)
        waiting->answered(waiting->self, status, &answer, error->detail);
    else
        waiting->answered(waiting->self, waiting->status, &answer, waiting->error.detail);
    kvr_report_free(waiting->report);
}

/* Before the rollback: problem is what else than the database refused, or NULL. */
static void not_stored(struct ingest *ingest, const char *problem)
{
    struct store *store = ingest->options.store;

    health_failed(ingest->options.health, problem != NULL ? HEALTH_COMMITS : store_trouble(store),
                  problem != NULL ? problem : store_problem(store));
}

static void round_over(struct ingest *ingest)
{
    pthread_mutex_lock(&ingest->lock);
    ingest->round = (struct ingest_load){0};
    pthread_mutex_unlock(&ingest->lock);
}

static void write_round(struct ingest *ingest, int count)
{
    int64_t now_ns = wall_now(ingest);
    kvr_ns begin = kvr_clock_now();
    struct kvr_error error = {0};
    kvr_status status = commit_round(ingest, count, now_ns, &error);

    if (status == KVR_OK) {
        metrics_committed(ingest->options.metrics, kvr_clock_now() - begin);
        if (store_has_written(ingest->options.store))
            health_stored(ingest->options.health);
        apply_count(ingest->apply, ingest->options.metrics, ingest->options.changes, now_ns);
        tell_fleet(ingest, count, now_ns);
    } else {
        not_stored(ingest, status == KVR_NO_MEMORY ? error.detail : NULL);
        store_rollback(ingest->options.store);
    }
    apply_reset(ingest->apply);
    for (int i = 0; i < count; i++)
        answer_one(ingest, &ingest->under_way[i], status, &error);
    ingest->round_took = kvr_clock_now() - begin;
    round_over(ingest);
}

static bool lose(struct ingest *ingest, const char *agent, const struct fleet_boots *alive,
                 const char *detail)
{
    struct store *store = ingest->options.store;
    struct kvr_error error = {0};
    bool stored = store_begin(store) &&
                  apply_agent_gone(ingest->apply, agent, alive, detail, &error) == KVR_OK &&
                  apply_flush(ingest->apply, wall_now(ingest), &error) == KVR_OK &&
                  store_commit(store);

    if (stored) {
        apply_count(ingest->apply, ingest->options.metrics, ingest->options.changes,
                    wall_now(ingest));
    } else {
        not_stored(ingest, NULL);
        store_rollback(store);
    }
    apply_reset(ingest->apply);
    return stored;
}

/* Ends the transfers of agents, and of starts of agents, that will not report any more. Where the
 * database refuses, at the next housekeeping again. */
static void lose_silent(struct ingest *ingest)
{
    struct fleet *fleet = ingest->options.fleet;
    kvr_ns now = kvr_clock_now();
    char agent[KVR_NAME_BYTES];
    struct fleet_boots alive;

    while (fleet_next_ended_boot(fleet, now, agent, &alive)) {
        if (!lose(ingest, agent, &alive, APPLY_RESTARTED))
            return;
        fleet_settle_boots(fleet, agent, now);
    }
    while (fleet_next_silent(fleet, now, ingest->options.agent_lost, agent)) {
        if (!lose(ingest, agent, NULL, "its agent fell silent before it said how this ended"))
            return;
        fleet_settle_silent(fleet, agent);
    }
}

/* One transaction. False: nothing is left, or the database refuses. */
static bool prune_some(struct ingest *ingest, int64_t before_ns)
{
    struct store *store = ingest->options.store;
    uint64_t removed, states[STATE_END] = {0};

    if (!store_begin(store) || !store_prune(store, before_ns, states, &removed) ||
        !store_commit(store)) {
        kvr_log_error("rows past --retention stay: %s", store_problem(store));
        not_stored(ingest, NULL);
        store_rollback(store);
        return false;
    }
    metrics_forgotten(ingest->options.metrics, states);
    if (removed > 0)
        apply_forget(ingest->apply);
    else
        fleet_prune(ingest->options.fleet, before_ns);
    return removed > 0;
}

/* Goes on after the next reports, so that they wait for little. */
static void prune(struct ingest *ingest)
{
    int64_t before_ns = ingest_kept_since((kvr_ns)wall_now(ingest), ingest->options.retention);
    kvr_ns until =
        kvr_clock_now() + (ingest->round_took > PRUNE_NS ? ingest->round_took : (kvr_ns)PRUNE_NS);

    do
        ingest->pruning = prune_some(ingest, before_ns);
    while (ingest->pruning && kvr_clock_now() < until);
}

/* Also where no report comes that could not be stored. */
static void look_for_database(struct ingest *ingest)
{
    if (store_has_moved(ingest->options.store))
        health_set(ingest->options.health, HEALTH_MISSING, "");
    else
        health_clear(ingest->options.health, HEALTH_MISSING);
}

/* A few transactions, so that reports wait for little; the rest at the next housekeeping. */
static void sum_up(struct ingest *ingest)
{
    struct store *store = ingest->options.store;
    kvr_ns until = kvr_clock_now() + PRUNE_NS;
    bool more = true, stored = true;

    while (more && stored && kvr_clock_now() < until) {
        struct kvr_error error = {0};

        stored = store_begin(store) &&
                 apply_sum_up(ingest->apply, wall_now(ingest), &more, &error) == KVR_OK &&
                 store_commit(store);
        if (stored) {
            apply_count(ingest->apply, ingest->options.metrics, NULL, wall_now(ingest));
        } else {
            not_stored(ingest, NULL);
            store_rollback(store);
        }
        apply_reset(ingest->apply);
    }
}

static void keep_house(struct ingest *ingest)
{
    int64_t oldest_ns;

    look_for_database(ingest);
    if (store_oldest_live(ingest->options.store, &oldest_ns))
        metrics_set_oldest(ingest->options.metrics, oldest_ns);
    lose_silent(ingest);
    sum_up(ingest);
    ingest->pruning = ingest->options.retention != KVR_NEVER;
}

static void *writer_main(void *self)
{
    struct ingest *ingest = self;
    bool stopping = false;

    while (!stopping) {
        int count = take(ingest, &stopping);

        if (count > 0)
            write_round(ingest, count);
        if (kvr_clock_now() >= ingest->housekeeping_at) {
            keep_house(ingest);
            ingest->housekeeping_at = kvr_clock_now() + HOUSEKEEPING_NS;
        }
        if (ingest->pruning)
            prune(ingest);
    }
    return NULL;
}

/* ---- start and stop ---- */

kvr_status ingest_start(const struct ingest_options *options, struct ingest **ret_ingest,
                        struct kvr_error *error)
{
    struct ingest *ingest = calloc(1, sizeof(*ingest));
    int failed;

    if (ingest == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for the writer");
    ingest->options = *options;
    if (ingest->options.agent_lost == 0)
        ingest->options.agent_lost = AGENT_LOST_NS;
    pthread_mutex_init(&ingest->lock, NULL);
    kvr_condition_init(&ingest->change);
    ingest->apply = apply_open(options->store, options->fleet);
    ingest->waiting = calloc(INGEST_WAITING_MAX, sizeof(struct waiting));
    ingest->under_way = calloc(INGEST_WAITING_MAX, sizeof(struct waiting));
    if (ingest->apply == NULL || ingest->waiting == NULL || ingest->under_way == NULL) {
        ingest_close(ingest);
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for the writer");
    }
    ingest->housekeeping_at = kvr_clock_now() + HOUSEKEEPING_NS;
    failed = kvr_thread_start("writer", writer_main, ingest, &ingest->thread);
    if (failed != 0) {
        ingest_close(ingest);
        return kvr_error_system(error, "ingest", failed, "no thread for the writer");
    }
    *ret_ingest = ingest;
    return KVR_OK;
}

void ingest_stop(struct ingest *ingest)
{
    pthread_mutex_lock(&ingest->lock);
    ingest->stopping = true;
    pthread_cond_signal(&ingest->change);
    pthread_mutex_unlock(&ingest->lock);
    pthread_join(ingest->thread, NULL);
}

struct ingest *ingest_close(struct ingest *ingest)
{
    if (ingest == NULL)
        return NULL;
    apply_close(ingest->apply);
    free(ingest->waiting);
    free(ingest->under_way);
    pthread_cond_destroy(&ingest->change);
    pthread_mutex_destroy(&ingest->lock);
    free(ingest);
    return NULL;
}
