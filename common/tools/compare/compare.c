/* `kvrail compare`: what changed between two traces. */
#include <stdlib.h>

#include "tools/compare/compare_report.h"
#include "tools/html_text.h"
#include "tools/json_output.h"
#include "tools/tool.h"

#define OPTIONS   struct compare_options
#define FAIL_EXIT 1

struct compare_options {
    struct kvr_option_list files, conditions;
    uint64_t seed;
    char html[4096];
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "fail-if",
     .section = "verdict",
     .value = "CONDITION",
     .max = 32,
     KVR_OPTION_LIST(OPTIONS, conditions),
     .help =
         "Exit status 1 where this change is there and no chance: p99_total>+5%, "
         "mean_land<-2ms. The figures are p50, p95, p99 and mean, the times those of the table; "
         "repeated or separated by commas, each counts."},
    {.name = "seed",
     .fallback = "1",
     KVR_OPTION_COUNT(OPTIONS, seed),
     .help = "Of the draws: the same seed gives the same report."},
    {.name = "html",
     .section = "output",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, html),
     .help = "Write one page with plots of the matched transfers there, without outside parts."},
    JSON_OUTPUT_OPTION(OPTIONS, NULL,
                       "all figures and curves, which the Replay page of the dashboard shows,"),
};

static const struct kvr_command command = {
    .name = "kvrail compare",
    .description =
        "Compares two traces of transfers (kvrail trace): the same requests are matched, and each\n"
        "part of their transfers is compared. How far a difference may be chance is found by\n"
        "drawing the requests again with replacement. Options and rails that changed are named.",
    .arguments = "A B",
    .arguments_offset = offsetof(OPTIONS, files),
    .arguments_min = 2,
    .arguments_max = 2,
    KVR_OPTION_ROWS(options),
    .footer =
        "Exit status 1: a condition of --fail-if holds, or nothing is known of it, or a trace\n"
        "cannot be read.\n"
        "Example:\n"
        "  kvrail compare before.kvtrace after.kvtrace --fail-if 'p99_total>+5%' --html "
        "changes.html",
};

static bool put_page(const void *report, FILE *stream)
{
    return compare_html(report, stream);
}

/* Says each that holds, and each without a pair of transfers. */
static bool any_holds(const struct compare_options *config, const struct compare_report *report)
{
    struct compare_condition condition;
    struct kvr_error error = {0};
    bool holds = false;

    for (uint32_t i = 0; i < config->conditions.count; i++) {
        if (compare_condition_parse(config->conditions.items[i], &condition, &error) != KVR_OK)
            continue;
        if (report->times[condition.time].count == 0)
            fprintf(stderr, "%s: %s cannot be said: no transfer is done in both\n", command.name,
                    config->conditions.items[i]);
        else if (compare_condition_holds(&condition, report))
            fprintf(stderr, "%s: %s holds\n", command.name, config->conditions.items[i]);
        else
            continue;
        holds = true;
    }
    return holds;
}

static bool check(const struct compare_options *config, int *ret_exit)
{
    struct compare_condition condition;
    struct kvr_error error = {0};

    for (uint32_t i = 0; i < config->conditions.count; i++) {
        if (compare_condition_parse(config->conditions.items[i], &condition, &error) != KVR_OK) {
            *ret_exit = kvr_options_refuse(&command, "--fail-if is %s", error.detail);
            return false;
        }
    }
    *ret_exit = KVR_EXIT_USAGE;
    return json_output_ready(&command, config->json);
}

static int report_on(const struct compare_options *config, const struct compare_report *report)
{
    bool written;

    if (!json_output_replaces_text(config->json))
        compare_print(report, stdout);
    written = html_page_write(command.name, config->html, put_page, report);
    if (!json_output_write(compare_json(report), config->json))
        written = false;
    return any_holds(config, report) || !written ? FAIL_EXIT : 0;
}

int tool_compare_main(int argc, char **argv)
{
    static OPTIONS config;
    static struct compare_report report;
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status) ||
        !check(&config, &exit_status))
        return exit_status;
    if (compare_report_make(config.files.items[0], config.files.items[1], config.seed, &report,
                            &error) == KVR_OK) {
        exit_status = report_on(&config, &report);
    } else {
        fprintf(stderr, "%s: %s\n", command.name, error.detail);
        exit_status = FAIL_EXIT;
    }
    compare_report_release(&report);
    return exit_status;
}
