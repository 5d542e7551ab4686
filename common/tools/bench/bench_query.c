/* `kvrail bench query`: how long the scheduler's API takes for each question of its page, with many
 * transfers in the database. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_history.h"
#include "tools/bench/bench_program.h"
#include "tools/bench/bench_questions.h"
#include "tools/bench/bench_rows.h"
#include "tools/bench/bench_scheduler.h"

#define OPTIONS     struct query_options
#define AGENTS_MAX  1000
#define HISTORY_MAX (365ull * 24 * 3600 * KVR_S)

struct query_options {
    uint64_t transfers, agents, seed, rounds;
    kvr_ns span;
    char database[BENCH_PATH_BYTES];
    char json[PATH_MAX];
};

static const struct kvr_option options[] = {
    {.name = "transfers",
     .section = "database",
     .fallback = "200000",
     .min = 1,
     .max = 1u << 30,
     KVR_OPTION_COUNT(OPTIONS, transfers),
     .help = "Transfers in the database, each with its events."},
    {.name = "agents",
     .fallback = "32",
     .min = 2,
     .max = AGENTS_MAX,
     KVR_OPTION_COUNT(OPTIONS, agents),
     .help =
         "Half of them are prefill-agents, half decode-agents; an even number. Each has 8 rails."},
    {.name = "span",
     .fallback = "168h",
     .min = 60 * KVR_S,
     .max = HISTORY_MAX,
     KVR_OPTION_DURATION(OPTIONS, span),
     .help = "The transfers began in this time before now."},
    {.name = "seed",
     .fallback = "1",
     KVR_OPTION_COUNT(OPTIONS, seed),
     .help = "Equal seeds give equal transfers."},
    BENCH_OPTION_DATABASE(OPTIONS, "DIR",
                          "Folder of the database, which is kept, and filled only once; "
                          "default: a temporary one."),
    BENCH_OPTION_ROUNDS(OPTIONS, "31", 100000, "How often each question is asked, warm."),
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench query",
    .description =
        "Fills a database of the scheduler with transfers of some days, and measures the answers\n"
        "of the API in this process: every page of the dashboard, the list of transfers with\n"
        "every filter and pair of filters, from the newest to the oldest. Caches are warm: the\n"
        "time of an answer is what the processor worked for it.",
    KVR_OPTION_ROWS(options),
    .footer =
        "Exit status 1: a question took 50 ms or more (95 % of the answers take no longer, in the\n"
        "best of four tries), or had no answer. Other programs slow a shared core: beside a "
        "second\n"
        "try a fixed piece of work is timed, and its slowness (`slower`) is taken out.\n"
        "Example:\n"
        "  kvrail bench query --transfers 1000000 --json -",
};

struct query_bench {
    struct query_options options;
    double fill_s;
    uint64_t bytes;
    struct bench_question_times times;
};

static kvr_status run(struct query_bench *bench, const char *folder, struct kvr_error *error)
{
    const struct query_options *config = &bench->options;
    struct bench_fleet fleet = bench_history_fleet(
        config->seed, (uint32_t)config->agents, config->transfers, config->span, kvr_clock_wall());
    kvr_ns begin = kvr_clock_now();
    const struct store_place place = {.folder = folder};
    struct bench_rows *rows;
    kvr_status status;
    bool filled;

    KVR_TRY(bench_history_fill(&fleet, folder, &filled, error));
    bench->fill_s = filled ? (double)(kvr_clock_now() - begin) / KVR_S : 0;
    rows = bench_rows_open(&place, error);
    if (rows == NULL)
        return error->status;
    status = bench_rows_bytes(rows, &bench->bytes, error);
    bench_rows_close(rows);
    if (status != KVR_OK)
        return status;
    return bench_questions_ask(&fleet, folder, (uint32_t)config->rounds, &bench->times, error);
}

static const char *verdict(const struct bench_question_time *time)
{
    return !time->answered                                           ? "  no answer"
           : bench_question_cost_ms(time) >= BENCH_QUESTION_WORST_MS ? "  too slow"
                                                                     : "";
}

static void print_table(const struct query_bench *bench, double worst)
{
    printf("%-56s %8s %8s %14s\n", "ms", "50 %", "95 %", "95 %, by clock");
    for (uint32_t i = 0; i < bench->times.count; i++) {
        const struct bench_question_time *time = &bench->times.list[i];

        printf("%-56s %8.2f %8.2f %14.2f%s\n", time->name, time->p50_ms, time->p95_ms,
               time->p95_wall_ms, verdict(time));
    }
    printf("%" PRIu64 " transfers, %" PRIu64
           " bytes, filled in %.1f s; the worst answer: %.2f ms\n",
           bench->options.transfers, bench->bytes, bench->fill_s, worst);
}

static int report(const struct query_bench *bench)
{
    const struct query_options *config = &bench->options;
    json_t *queries = json_array(), *json;
    bool answered = true;
    double worst = 0;

    for (uint32_t i = 0; i < bench->times.count; i++) {
        const struct bench_question_time *time = &bench->times.list[i];
        double cost = bench_question_cost_ms(time);

        worst = cost > worst ? cost : worst;
        answered = answered && time->answered;
        json_array_append_new(queries,
                              json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "name", time->name,
                                        "p50_ms", time->p50_ms, "p95_ms", time->p95_ms,
                                        "p95_wall_ms", time->p95_wall_ms, "slower", time->slower,
                                        "answered", time->answered));
    }
    if (!json_output_replaces_text(config->json))
        print_table(bench, worst);
    json = json_pack("{s:I, s:f, s:I, s:o, s:f, s:I}", "transfers", (json_int_t)config->transfers,
                     "fill_seconds", bench->fill_s, "db_bytes", (json_int_t)bench->bytes, "queries",
                     queries, "worst_p95_ms", worst, "agents", (json_int_t)config->agents);
    return json_output_write(json, config->json) && answered && worst < BENCH_QUESTION_WORST_MS ? 0
                                                                                                : 1;
}

int bench_query_main(int argc, char **argv)
{
    static struct query_bench bench;
    char folder[BENCH_PATH_BYTES];
    struct kvr_error error = {0};
    kvr_status status;
    bool keeps;
    int code;

    if (!kvr_options_load(&command, argc, argv, &bench.options, &code) ||
        !bench_database_check(&command, bench.options.database, &code))
        return code;
    if (bench.options.agents % 2 != 0)
        return kvr_options_refuse(&command, "--agents is %" PRIu64 ", but must be even",
                                  bench.options.agents);
    keeps = bench.options.database[0] != '\0';
    if (!keeps && !bench_folder_make(folder))
        return 1;
    status = run(&bench, keeps ? bench.options.database : folder, &error);
    if (!keeps)
        bench_folder_remove(folder);
    if (status == KVR_OK)
        return report(&bench);
    fprintf(stderr, "kvrail bench query: %s\n", error.detail);
    return 1;
}
