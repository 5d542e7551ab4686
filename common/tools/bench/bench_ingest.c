/* `kvrail bench ingest`: how many events a second the scheduler takes from its agents, and how many
 * plain inserts of the same rows the same disk takes. */
#include <curl/curl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_answers.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_posts.h"
#include "tools/bench/bench_reader.h"
#include "tools/bench/bench_rows.h"
#include "tools/bench/bench_scheduler.h"
#include "tools/interrupt.h"

#define OPTIONS        struct ingest_options
#define DATABASE_BYTES 1024 /* as the scheduler's own option */

struct ingest_options {
    uint64_t agents, transfers, load, connections, span_layers, schedulers;
    char scheduler[KVR_URL_BYTES];
    char database[DATABASE_BYTES], password_file[PATH_MAX];
    char json[PATH_MAX];
};

static const struct kvr_option options[] = {
    {.name = "agents",
     .section = "work",
     .fallback = "16",
     .min = 2,
     .max = 1000,
     KVR_OPTION_COUNT(OPTIONS, agents),
     .help = "Half of them are prefill-agents, half decode-agents; an even number."},
    {.name = "transfers",
     .fallback = "100000",
     .min = 1,
     .max = 1u << 30,
     KVR_OPTION_COUNT(OPTIONS, transfers),
     .help = "Spread over all pairs of agents; 14 events each, of both agents."},
    {.name = "span-layers",
     .fallback = "94",
     .max = KVR_LAYERS_MAX,
     KVR_OPTION_COUNT(OPTIONS, span_layers),
     .help =
         "Each agent sends the times of so many layers and what 8 rails carried with the end of "
         "each transfer, as agents do with --spans-every 1. 0: none."},
    {.name = "load",
     .fallback = "100000",
     .min = 100,
     .max = 10000000,
     KVR_OPTION_COUNT(OPTIONS, load),
     .help = "Events a second that the agents make together: it decides how many an agent gathers "
             "in the 200 ms before it posts. They are posted as fast as the scheduler takes them. "
             "The default is what a scheduler must take: faster agents gather more, and more "
             "events in a report cost less each."},
    {.name = "connections",
     .fallback = "64",
     .min = 1,
     .max = BENCH_CONNECTIONS_MAX,
     KVR_OPTION_COUNT(OPTIONS, connections),
     .help = "Posts on their way at once; agents share the connections."},
    {.name = "scheduler",
     .section = "scheduler",
     .value = "HOST:PORT",
     KVR_OPTION_STRING(OPTIONS, scheduler),
     .help = "One that runs, without TLS, in place of one that the benchmark starts; --database "
             "is its state folder, or its URL, then."},
    {.name = "schedulers",
     .fallback = "1",
     .min = 1,
     .max = BENCH_SCHEDULERS_MAX,
     KVR_OPTION_COUNT(OPTIONS, schedulers),
     .help = "So many are started, all with one database of PostgreSQL; agents are spread over "
             "them."},
    BENCH_OPTION_DATABASE(OPTIONS, "DIR|URL",
                          "State folder of the scheduler, or postgresql://USER@HOST/NAME, as its "
                          "own --database. It keeps the rows; default: a temporary folder. The "
                          "plain inserts go beside them, and are removed: in a folder \"inserts\", "
                          "or in a schema kvrail_bench_inserts."),
    {.name = "database-password-file",
     .section = "database",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, password_file),
     .help = "The password for a --database that is a URL, in the first line."},
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench ingest",
    .description =
        "Posts the reports of agents that do not exist to a scheduler, while a reader asks its\n"
        "API. Then every event and every transfer must be in the API and in the database. Last\n"
        "it inserts the same rows into fresh tables on the same disk, without a scheduler, in as\n"
        "many commits as the schedulers put reports on the disk: their commits and their writes\n"
        "of the journal.",
    KVR_OPTION_ROWS(options),
    .footer = "Exit status 1: an event or a transfer is missing.\n"
              "Example:\n"
              "  kvrail bench ingest --agents 1000 --transfers 100000 --json -",
};

struct ingest_bench {
    struct ingest_options options;
    struct store_place place; /* of the rows */
    struct bench_scheduler schedulers[BENCH_SCHEDULERS_MAX];
    struct scheduler_call calls[BENCH_SCHEDULERS_MAX];
    struct bench_fleet fleet;
    struct bench_posts posts;
    struct bench_reader reader;
    struct bench_row_counts counts;
    struct steps {
        uint64_t commits, journal_writes;
    } steps; /* of the posts */
    uint64_t bytes;
    struct bench_insert_time inserts;
    kvr_ns cpu; /* that schedulers of our own used for the posts; else 0 */
};

static bool is_url(const struct ingest_options *config)
{
    return strstr(config->database, "://") != NULL;
}

static bool check(const struct ingest_options *config, int *ret_exit)
{
    if (config->agents % 2 != 0)
        *ret_exit = kvr_options_refuse(&command, "--agents is %" PRIu64 ", but must be even",
                                       config->agents);
    else if (config->scheduler[0] != '\0' && config->database[0] == '\0')
        *ret_exit = kvr_options_refuse(&command, "--scheduler needs --database, that scheduler's "
                                                 "own: the rows are counted there");
    else if (config->schedulers > 1 && (!is_url(config) || config->scheduler[0] != '\0'))
        *ret_exit =
            kvr_options_refuse(&command,
                               "--schedulers %" PRIu64 " needs --database postgresql://..., and no "
                               "--scheduler: SQLite has one scheduler alone",
                               config->schedulers);
    else if (!is_url(config) && strlen(config->database) >= BENCH_PATH_BYTES)
        *ret_exit = kvr_options_refuse(&command,
                                       "--database has %zu characters, and a folder may "
                                       "have %d",
                                       strlen(config->database), BENCH_PATH_BYTES - 1);
    else
        return true;
    return false;
}

/* The schedulers, their database, and how to ask them. */
static kvr_status find_schedulers(struct ingest_bench *bench, struct kvr_error *error)
{
    const struct ingest_options *config = &bench->options;
    bool own = config->scheduler[0] == '\0';

    bench->place = (struct store_place){
        .folder = config->database,
        .url = is_url(config) ? config->database : NULL,
        .password_file = config->password_file[0] != '\0' ? config->password_file : NULL,
    };
    for (uint64_t i = 0; i < config->schedulers; i++) {
        struct scheduler_call *call = &bench->calls[i];

        if (own && !bench_scheduler_start(&bench->schedulers[i], &bench->place))
            return kvr_error_set(error, KVR_SYSTEM, "bench", "there is no scheduler to measure");
        call->timeout = 30 * KVR_S;
        snprintf(call->address, sizeof(call->address), "%s",
                 own ? bench->schedulers[i].url : config->scheduler);
        KVR_TRY(scheduler_prepare(call, error));
    }
    if (own && bench->place.url == NULL)
        bench->place.folder = bench->schedulers[0].state;
    return KVR_OK;
}

/* A boot and ids that no earlier run had. */
static void make_fleet(struct ingest_bench *bench)
{
    const struct ingest_options *config = &bench->options;

    bench->fleet = (struct bench_fleet){
        .seed = kvr_random_u64(),
        .boot = kvr_random_u64() | 1,
        .pairs = (uint32_t)(config->agents / 2),
        .transfers = config->transfers,
        .transfers_per_s = (double)config->load / BENCH_FLEET_EVENTS,
        .start = kvr_clock_now(),
        .span_layers = (uint32_t)config->span_layers,
    };
}

static uint64_t metric(const char *text, const char *name)
{
    size_t length = strlen(name);

    while ((text = strstr(text, name)) != NULL && text[length] != ' ')
        text += length;
    return text != NULL ? strtoull(text + length, NULL, 10) : 0;
}

/* Times that the schedulers have put reports on the disk. All that was acknowledged is in the
 * database then: a scheduler commits before it answers this question. */
static kvr_status count_steps(const struct ingest_bench *bench, struct steps *ret_steps,
                              struct kvr_error *error)
{
    *ret_steps = (struct steps){0};
    for (uint64_t i = 0; i < bench->options.schedulers; i++) {
        char *text = scheduler_get_text(&bench->calls[i], "/metrics", error);

        if (text == NULL)
            return error->status;
        ret_steps->commits += metric(text, "\nkvrail_db_commit_seconds_count");
        ret_steps->journal_writes += metric(text, "\nkvrail_journal_writes_total");
        free(text);
    }
    return KVR_OK;
}

static kvr_status post(struct ingest_bench *bench, struct kvr_error *error)
{
    uint64_t count = bench->options.schedulers;
    kvr_ns before = bench_schedulers_cpu(bench->schedulers, count);
    struct steps begin, end;
    kvr_status status;

    KVR_TRY(count_steps(bench, &begin, error));
    KVR_TRY(bench_reader_start(&bench->reader, &bench->calls[0], error));
    status = bench_posts_run(&bench->fleet, bench->calls, (uint32_t)count,
                             (uint32_t)bench->options.connections, &bench->posts, error);
    bench_reader_stop(&bench->reader);
    bench->cpu = bench_schedulers_cpu(bench->schedulers, count) - before;
    KVR_TRY(status);
    KVR_TRY(count_steps(bench, &end, error));
    bench->steps = (struct steps){.commits = end.commits - begin.commits,
                                  .journal_writes = end.journal_writes - begin.journal_writes};
    return KVR_OK;
}

/* Nothing may be missing, in the API and in the database. */
static kvr_status compare(struct ingest_bench *bench, struct bench_rows *rows,
                          struct kvr_error *error)
{
    uint64_t transfers = bench->options.transfers, events = transfers * BENCH_FLEET_EVENTS;
    const struct bench_row_counts *counts = &bench->counts;

    if (bench->posts.events != events)
        return kvr_error_set(error, KVR_INTERNAL, "bench",
                             "%" PRIu64 " of %" PRIu64 " events were posted", bench->posts.events,
                             events);
    KVR_TRY(bench_rows_count(rows, bench->fleet.boot, &bench->counts, error));
    bench->counts.rounds = bench->steps.commits + bench->steps.journal_writes;
    if (counts->events != events || counts->transfers != transfers || counts->ended != transfers)
        return kvr_error_set(error, KVR_NOT_FOUND, "bench",
                             "the database has %" PRIu64 " of %" PRIu64 " events, %" PRIu64
                             " of %" PRIu64 " transfers and the end of %" PRIu64,
                             counts->events, events, counts->transfers, transfers, counts->ended);
    if (bench->options.span_layers > 0 && counts->spans != 2 * transfers)
        return kvr_error_set(error, KVR_NOT_FOUND, "bench",
                             "the database has %" PRIu64 " of %" PRIu64 " ends with spans",
                             counts->spans, 2 * transfers);
    return bench_answers_check(&bench->fleet, bench->calls, (uint32_t)bench->options.schedulers,
                               error);
}

static kvr_status run(struct ingest_bench *bench, struct kvr_error *error)
{
    struct bench_rows *rows;
    kvr_status status;

    KVR_TRY(find_schedulers(bench, error));
    make_fleet(bench);
    KVR_TRY(post(bench, error));
    rows = bench_rows_open(&bench->place, error);
    if (rows == NULL)
        return error->status;
    status = compare(bench, rows, error);
    if (status == KVR_OK)
        status = bench_rows_bytes(rows, &bench->bytes, error);
    if (status == KVR_OK)
        status = bench_rows_insert(rows, bench->fleet.boot, &bench->counts, &bench->inserts, error);
    bench_rows_close(rows);
    return status;
}

static double ms(const struct kvr_histogram *histogram, double percent)
{
    return (double)kvr_histogram_percentile(histogram, percent) / KVR_MS;
}

static int report(const struct ingest_bench *bench)
{
    const struct ingest_options *config = &bench->options;
    const struct bench_posts *posts = &bench->posts;
    double seconds = (double)(posts->end - posts->begin) / KVR_S, events = (double)posts->events;
    double rate = events / seconds, raw = events / ((double)bench->inserts.wall / KVR_S);
    json_t *json =
        json_pack("{s:I, s:f, s:f, s:f, s:f, s:I}", "events", (json_int_t)posts->events,
                  "events_per_s", rate, "raw_inserts_per_s", raw, "ratio", rate / raw, "p99_ack_ms",
                  ms(&posts->acks, 99), "db_bytes", (json_int_t)bench->bytes);
    json_t *more = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:f}",
        "agents", (json_int_t)config->agents, "schedulers", (json_int_t)config->schedulers,
        "transfers", (json_int_t)config->transfers, "load", (json_int_t)config->load, "connections",
        (json_int_t)config->connections, "seconds", seconds, "reports", (json_int_t)posts->reports,
        "events_per_report", events / (double)posts->reports, "repeats", (json_int_t)posts->repeats,
        "commits", (json_int_t)bench->steps.commits, "journal_writes",
        (json_int_t)bench->steps.journal_writes, "p50_ack_ms", ms(&posts->acks, 50),
        "scheduler_cpu_s", (double)bench->cpu / KVR_S, "inserts_cpu_s",
        (double)bench->inserts.cpu / KVR_S, "reads", (json_int_t)bench->reader.times.count,
        "reads_unanswered", (json_int_t)bench->reader.unanswered, "p99_read_ms",
        ms(&bench->reader.times, 99));

    json_object_update(json, more);
    json_decref(more);
    if (!json_output_replaces_text(config->json))
        printf(
            "%.0f events a second of %" PRIu64 " agents: %" PRIu64 " events in %.1f s, %" PRIu64
            " reports, %" PRIu64 " commits and %" PRIu64 " writes of the journal\n"
            "%.0f a second inserted without a scheduler: ratio %.3f\n"
            "an answer after %.1f ms (median), %.1f ms (99 %%); the API's after %.1f ms (99 %%)\n"
            "of the processor the scheduler used %.1f s, the inserts %.1f s\n"
            "the database has %" PRIu64 " bytes\n",
            rate, config->agents, posts->events, seconds, posts->reports, bench->steps.commits,
            bench->steps.journal_writes, raw, rate / raw, ms(&posts->acks, 50),
            ms(&posts->acks, 99), ms(&bench->reader.times, 99), (double)bench->cpu / KVR_S,
            (double)bench->inserts.cpu / KVR_S, bench->bytes);
    return json_output_write(json, config->json) ? 0 : 1;
}

int bench_ingest_main(int argc, char **argv)
{
    static struct ingest_bench bench;
    struct kvr_error error = {0};
    kvr_status status;
    int code;

    if (!kvr_options_load(&command, argc, argv, &bench.options, &code) ||
        !check(&bench.options, &code))
        return code;
    interrupt_catch();
    curl_global_init(CURL_GLOBAL_DEFAULT); /* before the first thread */
    status = run(&bench, &error);
    for (uint64_t i = 0; i < bench.options.schedulers; i++)
        bench_scheduler_stop(&bench.schedulers[i]);
    if (status == KVR_OK)
        return report(&bench);
    fprintf(stderr, "kvrail bench ingest: %s\n", error.detail);
    return 1;
}
