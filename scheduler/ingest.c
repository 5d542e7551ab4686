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
#include "scheduler/fault_watch.h"
#include "scheduler/prune.h"
#include "scheduler/round.h"
#include "scheduler/store_listen.h"
#include "scheduler/store_news.h"
#include "scheduler/writer.h"

#define HOUSEKEEPING_NS (5 * KVR_S)
#define AGENT_LOST_NS   (60 * KVR_S)
#define NEWS_NS         (2 * KVR_S)    /* where none was announced */
#define ABSENCE_NS      (2 * KVR_S)    /* shorter ones are not kept */
#define PRUNE_NS        (100 * KVR_MS) /* or as long as the last reports took; then reports come */

struct ingest {
    struct ingest_options options;
    struct writer *writer;
    kvr_ns housekeeping_at;
    kvr_ns round_took;  /* to take the last reports */
    uint64_t commits;   /* that were seen */
    struct prune prune; /* the writer's own, as the members above */

    struct store_listener *listener; /* NULL: with SQLite */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change, settling;
    bool stopping;           /* by lock, as all until under_way */
    bool heard;              /* another scheduler has committed */
    bool asked;              /* a reader waits for a commit */
    uint64_t settled;        /* times that nothing was open, or was committed */
    uint64_t given_up;       /* 1 + settled when a reader waited in vain; 0: none has */
    struct waiting *waiting; /* INGEST_WAITING_MAX */
    int waiting_count;
    struct ingest_load load;   /* waiting and since: what the writer took */
    struct waiting *under_way; /* the writer's own: as many; and those that are answered */
    struct round reports;
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

kvr_status ingest_submit(struct ingest *ingest, struct kvr_report *report, struct ingest_body body,
                         ingest_answered *answered, void *self)
{
    /* Its agent lives, however long the database takes. */
    fleet_hear(ingest->options.fleet, report, kvr_clock_now());
    return submit(ingest, &(struct waiting){
                              .report = report, .body = body, .answered = answered, .self = self});
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
    load = ingest->load;
    load.waiting += ingest->waiting_count;
    if (load.since == 0 && ingest->waiting_count > 0)
        load.since = ingest->waiting[0].since;
    pthread_mutex_unlock(&ingest->lock);
    return load;
}

void ingest_settle(struct ingest *ingest, kvr_ns within)
{
    kvr_ns at = kvr_clock_now() + within;
    struct timespec until = {.tv_sec = (time_t)(at / KVR_S), .tv_nsec = (long)(at % KVR_S)};
    uint64_t settled;
    int result = 0;

    pthread_mutex_lock(&ingest->lock);
    settled = ingest->settled;
    if (ingest->load.open_since != 0) {
        ingest->asked = true;
        pthread_cond_signal(&ingest->change);
    }
    while (ingest->load.open_since != 0 && ingest->settled == settled && result != ETIMEDOUT &&
           ingest->given_up != settled + 1)
        result = pthread_cond_timedwait(&ingest->settling, &ingest->lock, &until);
    if (result == ETIMEDOUT) /* those behind do not wait for the same commit */
        ingest->given_up = settled + 1;
    pthread_mutex_unlock(&ingest->lock);
}

void ingest_audit(struct ingest *ingest, const struct audit_entry *entry)
{
    if (submit(ingest, &(struct waiting){.audit = *entry}) != KVR_OK)
        audit_log(entry, false);
}

/* ---- writer thread ---- */

/* Also other schedulers are listened to. */
static kvr_ns wait_until(struct ingest *ingest)
{
    kvr_ns now = kvr_clock_now(), at = ingest->housekeeping_at;
    kvr_ns due = writer_due(ingest->writer, ingest->asked);

    if (prune_wanted(&ingest->prune))
        return now;
    if (store_news_wanted(ingest->options.store) && now + NEWS_NS < at)
        at = now + NEWS_NS;
    return due < at ? due : at;
}

/* By lock. Waits for reports, for a commit, for housekeeping, or for the end. */
static void await(struct ingest *ingest)
{
    int result = 0;

    while (ingest->waiting_count == 0 && !ingest->stopping && !ingest->heard &&
           result != ETIMEDOUT) {
        kvr_ns at = wait_until(ingest);
        struct timespec until = {.tv_sec = (time_t)(at / KVR_S), .tv_nsec = (long)(at % KVR_S)};

        result = pthread_cond_timedwait(&ingest->change, &ingest->lock, &until);
    }
}

/* Returns how many it took. */
static int take(struct ingest *ingest, bool *ret_stopping)
{
    struct waiting *taken;
    int count;

    pthread_mutex_lock(&ingest->lock);
    await(ingest);
    ingest->heard = false;
    taken = ingest->waiting;
    count = ingest->waiting_count;
    ingest->waiting = ingest->under_way;
    ingest->waiting_count = 0;
    ingest->under_way = taken;
    ingest->load.waiting = count;
    ingest->load.since = count > 0 ? taken[0].since : 0;
    *ret_stopping = ingest->stopping;
    pthread_mutex_unlock(&ingest->lock);
    return count;
}

/* What others see of the writer; and readers that wait for a commit go on. */
static void show(struct ingest *ingest)
{
    struct writer_counts counts = writer_counts(ingest->writer);
    bool committed = counts.commits != ingest->commits;

    ingest->commits = counts.commits;
    pthread_mutex_lock(&ingest->lock);
    ingest->load.journal_bytes = counts.journal_bytes;
    ingest->load.journal_writes = counts.journal_writes;
    ingest->load.open_since = counts.open_since;
    ingest->load.oldest_since = counts.oldest_since;
    if (counts.open_since == 0 || committed) {
        ingest->asked = false;
        ingest->settled++;
        pthread_cond_broadcast(&ingest->settling);
    }
    pthread_mutex_unlock(&ingest->lock);
    if (committed)
        prune_after_round(&ingest->prune);
}

static bool is_acknowledged(const struct waiting *waiting, kvr_status status)
{
    return status == KVR_OK && waiting->status == KVR_OK && waiting->report != NULL;
}

/* Orders that could not be read come with a later answer. */
static void answer_one(struct ingest *ingest, struct waiting *waiting, kvr_status status,
                       const struct kvr_error *error)
{
    struct kvr_report_answer answer = {0};

    audit_log(waiting->order != NULL ? &waiting->order->audit : &waiting->audit, status == KVR_OK);
    if (waiting->answered == NULL)
        return;
    if (is_acknowledged(waiting, status)) {
        answer.acknowledged = waiting->acknowledged;
        if (round_next_has_orders(&ingest->reports) &&
            !store_list_orders(ingest->options.store, waiting->report->agent, waiting->report->boot,
                               answer.orders, &answer.order_count))
            answer.order_count = 0;
    }
    if (status != KVR_OK)
        waiting->answered(waiting->self, status, &answer, error->detail);
    else
        waiting->answered(waiting->self, waiting->status, &answer, waiting->error.detail);
    kvr_report_free(waiting->report);
}

static void answer_all(struct ingest *ingest, int count, kvr_status status,
                       const struct kvr_error *error)
{
    round_begin(&ingest->reports);
    for (int i = 0; i < count; i++)
        if (is_acknowledged(&ingest->under_way[i], status))
            round_add(&ingest->reports, ingest->under_way[i].report);
    round_find_orders(&ingest->reports, ingest->options.store);
    for (int i = 0; i < count; i++)
        answer_one(ingest, &ingest->under_way[i], status, error);
}

static void round_over(struct ingest *ingest)
{
    pthread_mutex_lock(&ingest->lock);
    ingest->load.waiting = 0;
    ingest->load.since = 0;
    pthread_mutex_unlock(&ingest->lock);
}

static void write_round(struct ingest *ingest, int count)
{
    kvr_ns begin = kvr_clock_now();
    struct kvr_error error = {0};
    kvr_status status = writer_take(ingest->writer, ingest->under_way, count, &error);

    show(ingest); /* before the answers: a reader may ask as soon as it has one */
    answer_all(ingest, count, status, &error);
    ingest->round_took = kvr_clock_now() - begin;
    round_over(ingest);
}

/* ---- housekeeping ---- */

struct losing {
    struct ingest *ingest;
    const char *agent;
    const struct fleet_boots *alive;
    const char *detail;
};

static kvr_status lose_work(void *self, int64_t now_ns, struct kvr_error *error)
{
    const struct losing *losing = self;

    (void)now_ns;
    return apply_agent_gone(writer_apply(losing->ingest->writer), losing->agent, losing->alive,
                            losing->detail, error);
}

static bool lose(struct ingest *ingest, const char *agent, const struct fleet_boots *alive,
                 const char *detail)
{
    struct losing losing = {ingest, agent, alive, detail};

    return writer_run(ingest->writer, lose_work, &losing);
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

/* Goes on after the next reports, so that they wait for little. */
static void prune(struct ingest *ingest)
{
    struct prune *prune = &ingest->prune;
    kvr_ns until =
        kvr_clock_now() + (ingest->round_took > PRUNE_NS ? ingest->round_took : (kvr_ns)PRUNE_NS);

    (void)writer_commit(ingest->writer); /* else it is rolled back: room may be what it lacks */
    show(ingest);
    do
        prune_some(prune, writer_wall(ingest->writer));
    while (prune_holds(prune) || (prune_wanted(prune) && kvr_clock_now() < until));
}

/* Also where no report comes that could not be stored. */
static void look_for_database(struct ingest *ingest)
{
    if (store_has_moved(ingest->options.store))
        health_set(ingest->options.health, HEALTH_MISSING, "");
    else
        health_clear(ingest->options.health, HEALTH_MISSING);
}

struct summing {
    struct ingest *ingest;
    bool more;
};

static kvr_status sum_up_work(void *self, int64_t now_ns, struct kvr_error *error)
{
    struct summing *summing = self;

    return apply_sum_up(writer_apply(summing->ingest->writer), now_ns, &summing->more, error);
}

/* A few transactions, so that reports wait for little; the rest at the next housekeeping. */
static void sum_up(struct ingest *ingest)
{
    struct summing summing = {.ingest = ingest, .more = true};
    kvr_ns until = kvr_clock_now() + PRUNE_NS;
    bool stored = true;

    while (summing.more && stored && kvr_clock_now() < until)
        stored = writer_run(ingest->writer, sum_up_work, &summing);
}

static void measure(struct ingest *ingest)
{
    uint64_t bytes = store_size(ingest->options.store);

    pthread_mutex_lock(&ingest->lock);
    ingest->load.database_bytes = bytes;
    pthread_mutex_unlock(&ingest->lock);
}

static kvr_status presence_work(void *self, int64_t now_ns, struct kvr_error *error)
{
    struct ingest *ingest = self;

    (void)now_ns;
    if (store_news_prune(ingest->options.store))
        return KVR_OK;
    return kvr_error_set(error, KVR_SYSTEM, "ingest", "the database refused: %s",
                         store_problem(ingest->options.store));
}

/* ---- what broke ---- */

static kvr_status faults_kept(const struct ingest *ingest, bool kept, struct kvr_error *error)
{
    return kept ? KVR_OK
                : kvr_error_set(error, KVR_SYSTEM, "ingest", "the database refused: %s",
                                store_problem(ingest->options.store));
}

static kvr_status start_work(void *self, int64_t now_ns, struct kvr_error *error)
{
    struct ingest *ingest = self;

    return faults_kept(
        ingest, fault_watch_start(apply_faults(writer_apply(ingest->writer)), now_ns), error);
}

/* With PostgreSQL another scheduler may go on. */
static kvr_status stop_work(void *self, int64_t now_ns, struct kvr_error *error)
{
    struct ingest *ingest = self;

    return faults_kept(ingest,
                       ingest->listener != NULL ||
                           fault_watch_stop(apply_faults(writer_apply(ingest->writer)), now_ns),
                       error);
}

static kvr_status silence_work(void *self, int64_t now_ns, struct kvr_error *error)
{
    struct ingest *ingest = self;
    struct fault_watch *faults = apply_faults(writer_apply(ingest->writer));
    kvr_ns away = fleet_take_absence(ingest->options.fleet);
    bool kept = fault_watch_fleet(faults, ingest->options.fleet, kvr_clock_now(), now_ns);

    if (kept && away >= ABSENCE_NS)
        kept = fault_watch_absence(faults, away, now_ns);
    return faults_kept(ingest, kept, error);
}

static void keep_house(struct ingest *ingest)
{
    int64_t oldest_ns;

    measure(ingest);
    look_for_database(ingest);
    if (store_oldest_live(ingest->options.store, &oldest_ns))
        metrics_set_oldest(ingest->options.metrics, oldest_ns);
    /* The other schedulers see that this one lives. */
    if (writer_run(ingest->writer, presence_work, ingest)) {
        if (!store_leads(ingest->options.store))
            return;
        writer_rest(ingest->writer);
        (void)writer_run(ingest->writer, silence_work, ingest); /* else at the next housekeeping */
        lose_silent(ingest);
        sum_up(ingest);
    } else if (!store_leads(ingest->options.store)) {
        return;
    }
    prune_after_pause(&ingest->prune);
}

/* Also at the end: what was acknowledged is then in the database. */
static void commit_if_due(struct ingest *ingest, bool stopping)
{
    bool asked;

    pthread_mutex_lock(&ingest->lock);
    asked = ingest->asked;
    pthread_mutex_unlock(&ingest->lock);
    if (!stopping && kvr_clock_now() < writer_due(ingest->writer, asked))
        return;
    (void)writer_commit(ingest->writer); /* else the health says why */
    show(ingest);
}

static void *writer_main(void *self)
{
    struct ingest *ingest = self;
    bool stopping = false;

    (void)writer_run(ingest->writer, start_work, ingest); /* else a gap is not kept */
    while (!stopping) {
        int count = take(ingest, &stopping);

        if (count > 0)
            write_round(ingest, count);
        else
            writer_hear(ingest->writer);
        commit_if_due(ingest, stopping);
        if (!stopping && kvr_clock_now() >= ingest->housekeeping_at) {
            keep_house(ingest);
            show(ingest);
            ingest->housekeeping_at = kvr_clock_now() + HOUSEKEEPING_NS;
        }
        if (!stopping && prune_wanted(&ingest->prune))
            prune(ingest);
    }
    (void)writer_run(ingest->writer, stop_work, ingest);
    return NULL;
}

/* ---- start and stop ---- */

static void hear(void *self)
{
    struct ingest *ingest = self;

    pthread_mutex_lock(&ingest->lock);
    ingest->heard = true;
    pthread_cond_signal(&ingest->change);
    pthread_mutex_unlock(&ingest->lock);
}

kvr_status ingest_start(const struct ingest_options *options, struct ingest **ret_ingest,
                        struct kvr_error *error)
{
    struct ingest *ingest = calloc(1, sizeof(*ingest));
    kvr_status status = KVR_OK;
    int failed;

    if (ingest == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for the writer");
    ingest->options = *options;
    if (ingest->options.agent_lost == 0)
        ingest->options.agent_lost = AGENT_LOST_NS;
    pthread_mutex_init(&ingest->lock, NULL);
    kvr_condition_init(&ingest->change);
    kvr_condition_init(&ingest->settling);
    ingest->waiting = calloc(INGEST_WAITING_MAX, sizeof(struct waiting));
    ingest->under_way = calloc(INGEST_WAITING_MAX, sizeof(struct waiting));
    if (ingest->waiting == NULL || ingest->under_way == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for the writer");
    else
        status = writer_open(&(struct writer_options){.store = options->store,
                                                      .fleet = options->fleet,
                                                      .metrics = options->metrics,
                                                      .health = options->health,
                                                      .changes = options->changes},
                             &ingest->writer, error);
    if (status != KVR_OK) {
        ingest_close(ingest);
        return status;
    }
    ingest->housekeeping_at = kvr_clock_now() + HOUSEKEEPING_NS;
    measure(ingest);
    ingest->prune = prune_begin(&(struct prune_options){.apply = writer_apply(ingest->writer),
                                                        .store = options->store,
                                                        .fleet = options->fleet,
                                                        .metrics = options->metrics,
                                                        .health = options->health,
                                                        .retention = options->retention,
                                                        .bound = options->bound});
    if (options->place != NULL)
        status =
            store_listen(options->place, options->store, hear, ingest, &ingest->listener, error);
    if (status != KVR_OK) {
        ingest_close(ingest);
        return status;
    }
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
    ingest->listener = store_listen_end(ingest->listener);
    writer_close(ingest->writer);
    free(ingest->waiting);
    free(ingest->under_way);
    pthread_cond_destroy(&ingest->change);
    pthread_cond_destroy(&ingest->settling);
    pthread_mutex_destroy(&ingest->lock);
    free(ingest);
    return NULL;
}
