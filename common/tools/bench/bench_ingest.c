/* `kvrail bench ingest`: how many events a second the scheduler takes from its agents, and how many
 * plain inserts of the same rows the same disk takes. */
#include <curl/curl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/entropy.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_answers.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_posts.h"
#include "tools/bench/bench_reader.h"
#include "tools/bench/bench_rows.h"
#include "tools/bench/bench_scheduler.h"

#define OPTIONS struct ingest_options

struct ingest_options {
    uint64_t agents, transfers, load, connections, span_layers;
    char scheduler[KVR_URL_BYTES];
    char database[BENCH_PATH_BYTES];
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
     .fallback = "50000",
     .min = 100,
     .max = 10000000,
     KVR_OPTION_COUNT(OPTIONS, load),
     .help = "Events a second that the agents make together: it decides how many an agent gathers "
             "in the 200 ms before it posts. They are posted as fast as the scheduler takes them."},
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
             "is its state folder then."},
    BENCH_OPTION_DATABASE(OPTIONS, "State folder of the scheduler, which keeps the rows; default: "
                                   "a temporary one. The plain inserts go beside them, and are "
                                   "removed."),
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench ingest",
    .description =
        "Posts the reports of agents that do not exist to a scheduler, while a reader asks its\n"
        "API. Then every event and every transfer must be in the API and in the database. Last\n"
        "it inserts the same rows into a fresh database on the same disk, in as many commits,\n"
        "without a scheduler.",
    KVR_OPTION_ROWS(options),
    .footer = "Exit status 1: an event or a transfer is missing.\n"
              "Example:\n"
              "  kvrail bench ingest --agents 1000 --transfers 100000 --json -",
};

struct ingest_bench {
    struct ingest_options options;
    struct bench_scheduler scheduler;
    struct scheduler_call call;
    struct bench_fleet fleet;
    struct bench_posts posts;
    struct bench_reader reader;
    struct bench_row_counts counts;
    uint64_t bytes;
    struct bench_insert_time inserts;
    kvr_ns cpu; /* that a scheduler of our own used for the posts; else 0 */
};

static bool check(struct ingest_options *config, int *ret_exit)
{
    if (config->agents % 2 != 0)
        *ret_exit = kvr_options_refuse(&command, "--agents is %" PRIu64 ", but must be even",
                                       config->agents);
    else if (config->scheduler[0] != '\0' && config->database[0] == '\0')
        *ret_exit = kvr_options_refuse(&command, "--scheduler needs --database, that scheduler's "
                                                 "state folder: the rows are counted there");
    else
        return bench_database_check(&command, config->database, ret_exit);
    return false;
}

/* The scheduler, its state folder, and how to ask it. */
static kvr_status find_scheduler(struct ingest_bench *bench, struct kvr_error *error)
{
    const struct ingest_options *config = &bench->options;
    bool own = config->scheduler[0] == '\0';

    if (own && !bench_scheduler_start(&bench->scheduler, config->database))
        return kvr_error_set(error, KVR_SYSTEM, "bench", "there is no scheduler to measure");
    if (!own)
        snprintf(bench->scheduler.state, sizeof(bench->scheduler.state), "%s", config->database);
    bench->call.timeout = 30 * KVR_S;
    snprintf(bench->call.address, sizeof(bench->call.address), "%s",
             own ? bench->scheduler.url : config->scheduler);
    return scheduler_prepare(&bench->call, error);
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

static kvr_status post(struct ingest_bench *bench, struct kvr_error *error)
{
    kvr_ns before = bench->scheduler.pid != 0 ? bench_cpu_time(bench->scheduler.pid) : 0;
    kvr_status status;

    KVR_TRY(bench_reader_start(&bench->reader, &bench->call, error));
    status = bench_posts_run(&bench->fleet, bench->call.url, (uint32_t)bench->options.connections,
                             &bench->posts, error);
    bench_reader_stop(&bench->reader);
    if (bench->scheduler.pid != 0)
        bench->cpu = bench_cpu_time(bench->scheduler.pid) - before;
    return status;
}

/* Nothing may be missing, in the API and in the database. */
static kvr_status compare(struct ingest_bench *bench, sqlite3 *database, struct kvr_error *error)
{
    uint64_t transfers = bench->options.transfers, events = transfers * BENCH_FLEET_EVENTS;
    const struct bench_row_counts *counts = &bench->counts;

    if (bench->posts.events != events)
        return kvr_error_set(error, KVR_INTERNAL, "bench",
                             "%" PRIu64 " of %" PRIu64 " events were posted", bench->posts.events,
                             events);
    KVR_TRY(bench_rows_count(database, bench->fleet.boot, &bench->counts, error));
    if (counts->events != events || counts->transfers != transfers || counts->ended != transfers)
        return kvr_error_set(error, KVR_NOT_FOUND, "bench",
                             "the database has %" PRIu64 " of %" PRIu64 " events, %" PRIu64
                             " of %" PRIu64 " transfers and the end of %" PRIu64,
                             counts->events, events, counts->transfers, transfers, counts->ended);
    if (bench->options.span_layers > 0 && counts->spans != 2 * transfers)
        return kvr_error_set(error, KVR_NOT_FOUND, "bench",
                             "the database has %" PRIu64 " of %" PRIu64 " ends with spans",
                             counts->spans, 2 * transfers);
    return bench_answers_check(&bench->fleet, &bench->call, error);
}

static kvr_status insert(struct ingest_bench *bench, sqlite3 *database, struct kvr_error *error)
{
    char folder[BENCH_PATH_BYTES + 64];
    kvr_status status;

    snprintf(folder, sizeof(folder), "%s/inserts", bench->scheduler.state);
    if (mkdir(folder, 0700) != 0)
        return kvr_error_set(error, KVR_SYSTEM, "bench", "%s cannot be made, or is there", folder);
    status = bench_rows_insert(database, bench->fleet.boot, &bench->counts, folder, &bench->inserts,
                               error);
    bench_folder_remove(folder);
    return status;
}

static kvr_status run(struct ingest_bench *bench, struct kvr_error *error)
{
    sqlite3 *database;
    kvr_status status;

    KVR_TRY(find_scheduler(bench, error));
    make_fleet(bench);
    KVR_TRY(post(bench, error));
    database = bench_rows_open(bench->scheduler.state, error);
    if (database == NULL)
        return error->status;
    status = compare(bench, database, error);
    if (status == KVR_OK)
        status = bench_rows_bytes(database, &bench->bytes, error);
    if (status == KVR_OK)
        status = insert(bench, database, error);
    sqlite3_close(database);
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
        "{s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:f}", "agents",
        (json_int_t)config->agents, "transfers", (json_int_t)config->transfers, "load",
        (json_int_t)config->load, "connections", (json_int_t)config->connections, "seconds",
        seconds, "reports", (json_int_t)posts->reports, "events_per_report",
        events / (double)posts->reports, "repeats", (json_int_t)posts->repeats, "commits",
        (json_int_t)bench->counts.rounds, "p50_ack_ms", ms(&posts->acks, 50), "scheduler_cpu_s",
        (double)bench->cpu / KVR_S, "inserts_cpu_s", (double)bench->inserts.cpu / KVR_S, "reads",
        (json_int_t)bench->reader.times.count, "reads_unanswered",
        (json_int_t)bench->reader.unanswered, "p99_read_ms", ms(&bench->reader.times, 99));

    json_object_update(json, more);
    json_decref(more);
    if (!json_output_replaces_text(config->json))
        printf(
            "%.0f events a second of %" PRIu64 " agents: %" PRIu64 " events in %.1f s, %" PRIu64
            " reports, %" PRIu64 " commits\n"
            "%.0f a second inserted without a scheduler: ratio %.3f\n"
            "an answer after %.1f ms (median), %.1f ms (99 %%); the API's after %.1f ms (99 %%)\n"
            "of the processor the scheduler used %.1f s, the inserts %.1f s\n"
            "the database has %" PRIu64 " bytes\n",
            rate, config->agents, posts->events, seconds, posts->reports, bench->counts.rounds, raw,
            rate / raw, ms(&posts->acks, 50), ms(&posts->acks, 99), ms(&bench->reader.times, 99),
            (double)bench->cpu / KVR_S, (double)bench->inserts.cpu / KVR_S, bench->bytes);
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
    bench_catch_signals();
    curl_global_init(CURL_GLOBAL_DEFAULT); /* before the first thread */
    status = run(&bench, &error);
    bench_scheduler_stop(&bench.scheduler);
    if (status == KVR_OK)
        return report(&bench);
    fprintf(stderr, "kvrail bench ingest: %s\n", error.detail);
    return 1;
}
