/* `kvrail plan-fleet`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tools/html_text.h"
#include "tools/json_output.h"
#include "tools/tool.h"
#include "tools/virtual/plan_fleet_print.h"
#include "tools/virtual/virtual_options.h"

#define OPTIONS struct plan_options

struct plan_options {
    struct virtual_options model;
    struct kvr_option_list traces, prefill, decode, rails;
    char of[16], html[4096], json[JSON_OUTPUT_PATH_BYTES];
    kvr_ns budget;
    uint64_t percentile;
    bool progress;
};

static const struct kvr_option options[] = {
    {.name = "prefill",
     .section = "grid",
     .value = "HOSTS,…",
     .fallback = "2,4,8,16",
     .max = PLAN_COUNTS_MAX,
     KVR_OPTION_LIST(OPTIONS, prefill),
     .help = "Numbers of prefill hosts to try, each with 8 GPUs."},
    {.name = "decode",
     .value = "HOSTS,…",
     .fallback = "1,2,4,8",
     .max = PLAN_COUNTS_MAX,
     KVR_OPTION_LIST(OPTIONS, decode),
     .help = "Numbers of decode hosts to try, each with 8 GPUs."},
    {.name = "rails",
     .value = "CARDSxSPEED,…",
     .fallback = "32x100G,8x100G",
     .max = PLAN_CARDS_MAX,
     KVR_OPTION_LIST(OPTIONS, rails),
     .help = "Cards of each host to try, and their speed: 32x100G, 16x200G, 8x400G."},
    {.name = "budget",
     .section = "budget",
     .fallback = "2s",
     .min = KVR_MS,
     .max = 24 * 3600 * KVR_S,
     KVR_OPTION_DURATION(OPTIONS, budget),
     .help = "What the time may be at most."},
    {.name = "of",
     .choices = "wait|ttft|exposed_wait|queue|transfer",
     .fallback = "wait",
     KVR_OPTION_CHOICE(OPTIONS, of),
     .help =
         "The time with the budget. wait: from the arrival to the first token, without prefill "
         "itself. ttft: with it. exposed_wait: from the end of prefill to the last byte. queue: "
         "from the arrival to the start of prefill. transfer: from the first write to the last "
         "byte."},
    {.name = "percentile",
     .fallback = "99",
     .min = 1,
     .max = 100,
     KVR_OPTION_COUNT(OPTIONS, percentile),
     .help = "Of the requests, so many percent must meet the budget."},
    {.name = "html",
     .section = "output",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, html),
     .help = "Write one page with a plot there, without outside parts."},
    {.name = "progress",
     KVR_OPTION_BOOL(OPTIONS, progress),
     .help = "A line on standard error for each fleet."},
    JSON_OUTPUT_OPTION(OPTIONS, NULL, "all figures"),
};

static const struct kvr_option_part parts[] = {
    {.table = &virtual_option_table, .offset = offsetof(OPTIONS, model)},
    {.table = NULL},
};

static const struct kvr_command command = {
    .name = "kvrail plan-fleet",
    .description =
        "Says how many prefill and decode hosts, with which cards, meet a wait budget: it\n"
        "plays the trace in virtual time over each fleet of a grid (kvrail replay --virtual).\n"
        "A table, a plot with its knee, and what the model takes for granted.",
    .arguments = "TRACE",
    .arguments_offset = offsetof(OPTIONS, traces),
    .arguments_min = 1,
    .arguments_max = 1,
    .parts = parts,
    KVR_OPTION_ROWS(options),
    .footer = "Exit status 1: no fleet of the grid meets the budget, or a check failed.\n"
              "Example:\n"
              "  kvrail plan-fleet conversation.jsonl --requests 2000 --budget 1s \\\n"
              "      --rails 32x100G,8x400G --html fleet.html",
};

static kvr_status read_counts(const struct kvr_option_list *list, const char *name,
                              uint32_t ret_counts[PLAN_COUNTS_MAX], uint32_t *ret_count,
                              struct kvr_error *error)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const char *text = list->items[i];
        unsigned long value = strtoul(text, NULL, 10);

        if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0' || value < 1 ||
            value > VIRTUAL_HOSTS_MAX)
            return kvr_error_set(error, KVR_INVALID, "options",
                                 "--%s has '%s', but must be numbers of hosts from 1 to %u", name,
                                 text, VIRTUAL_HOSTS_MAX);
        ret_counts[i] = (uint32_t)value;
    }
    *ret_count = list->count;
    return KVR_OK;
}

static virtual_time time_of(const char *name)
{
    int time = 0;

    while (strcmp(virtual_time_name((virtual_time)time), name) != 0)
        time++;
    return (virtual_time)time;
}

static kvr_status make_grid(const OPTIONS *config, uint32_t gpus, struct plan_grid *grid,
                            struct kvr_error *error)
{
    if (config->prefill.count == 0 || config->decode.count == 0 || config->rails.count == 0)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--prefill, --decode and --rails must each name at least one");
    grid->time = time_of(config->of);
    grid->percent = config->percentile;
    grid->budget_ns = config->budget;
    grid->card_count = config->rails.count;
    for (uint32_t i = 0; i < config->rails.count; i++) {
        KVR_TRY(virtual_rails_parse(config->rails.items[i], gpus, &grid->cards[i], error));
        snprintf(grid->card_names[i], sizeof(grid->card_names[i]), "%.31s", config->rails.items[i]);
    }
    KVR_TRY(read_counts(&config->prefill, "prefill", grid->prefill, &grid->prefill_count, error));
    return read_counts(&config->decode, "decode", grid->decode, &grid->decode_count, error);
}

static void tell(const struct plan_grid *grid, const struct plan_cell *cell)
{
    fprintf(stderr, "%u prefill and %u decode hosts with %s: %.3f s\n", cell->fleet.prefill_hosts,
            cell->fleet.decode_hosts, grid->card_names[cell->cards], (double)cell->time_ns / 1e9);
}

static bool put_page(const void *report, FILE *stream)
{
    return plan_html(report, stream);
}

static int report_on(const OPTIONS *config, const struct plan_report *report)
{
    bool written;

    if (!json_output_replaces_text(config->json))
        plan_print(report, stdout);
    written = html_page_write(command.name, config->html, put_page, report);
    if (config->json[0] != '\0' && !json_output_write(plan_json(report), config->json))
        written = false;
    return written && plan_grid_best(report->grid) != NULL ? 0 : 1;
}

int tool_plan_fleet_main(int argc, char **argv)
{
    static OPTIONS config;
    static struct plan_grid grid;
    struct virtual_config run;
    struct kvr_error error = {0};
    struct kvr_trace trace;
    char shown[sizeof(trace.name)]; /* a file's name may be no UTF-8 */
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (virtual_config_make(&config.model, &run, &error) != KVR_OK ||
        make_grid(&config, virtual_gpus(&run), &grid, &error) != KVR_OK)
        return kvr_options_refuse(&command, "%s", error.detail);
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (!html_page_ready(command.name, config.html)) /* before a long run */
        return KVR_EXIT_USAGE;
    kvr_trace_init(&trace);
    exit_status = 1;
    if (virtual_trace_read(&config.model, config.traces.items[0], &trace, &error) == KVR_OK &&
        plan_grid_run(&grid, &run, &trace, config.progress ? tell : NULL, &error) == KVR_OK) {
        kvr_text_show(trace.name, sizeof(shown), shown);
        exit_status = report_on(&config, &(struct plan_report){.grid = &grid,
                                                               .config = &run,
                                                               .trace = shown,
                                                               .requests = trace.request_count});
    } else {
        fprintf(stderr, "%s: %s\n", command.name, error.detail);
    }
    kvr_trace_done(&trace);
    return exit_status;
}
