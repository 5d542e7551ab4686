/* `kvrail replay --virtual`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/text.h"
#include "tools/json_output.h"
#include "tools/tool.h"
#include "tools/virtual/virtual_options.h"
#include "tools/virtual/virtual_print.h"
#include "tools/virtual/virtual_record.h"

#define OPTIONS struct replay_virtual_options

struct replay_virtual_options {
    struct virtual_options model;
    bool in_virtual_time, exact;
    char trace[4096], hosts[32], rails[32], record[4096], corrupt[16];
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "virtual",
     .section = "run",
     KVR_OPTION_BOOL(OPTIONS, in_virtual_time),
     .help =
         "Play the trace in virtual time, over a modelled fleet. Without it kvrail replay plays "
         "the trace through running agents."},
    {.name = "trace",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, trace),
     .help = "Request trace to play. Without one, requests are synthesised from --seed."},
    {.name = "hosts",
     .value = "PREFILL:DECODE",
     .fallback = "8:8",
     KVR_OPTION_STRING(OPTIONS, hosts),
     .help = "Hosts of each kind, with 8 GPUs each."},
    {.name = "rails",
     .value = "CARDSxSPEED",
     .fallback = "32x100G",
     KVR_OPTION_STRING(OPTIONS, rails),
     .help = "Cards of each host, and their speed: 32x100G, 16x200G, 8x400G, 2x800M."},
    {.name = "exact",
     KVR_OPTION_BOOL(OPTIONS, exact),
     .help = "Play write by write, and check the tokens that each write brings. Else writes are "
             "taken together where nothing competes for their cards; pages, plans and counts are "
             "checked."},
    {.name = "corrupt",
     .choices = "page|owner",
     KVR_OPTION_CHOICE(OPTIONS, corrupt),
     .help =
         "Plant a fault: a page of the source has other tokens (needs --exact), or is handed to "
         "another request too early. Must end in exit 1."},
    {.name = "record",
     .section = "output",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, record),
     .help = "Write the transfers there as a trace, for kvrail compare."},
    JSON_OUTPUT_OPTION(OPTIONS, NULL, "all figures"),
};

static const struct kvr_option_part parts[] = {
    {.table = &virtual_option_table, .offset = offsetof(OPTIONS, model)},
    {.table = NULL},
};

static const struct kvr_command command = {
    .name = "kvrail replay --virtual",
    .description =
        "Plays a request trace in virtual time, over a modelled fleet: no agents, no cards\n"
        "and no GPUs are needed. Prefill, prefix caches, page tables, plans of writes, rail\n"
        "threads and cards of both ends are modelled or are the agents' own code. The same\n"
        "options give the same run, with the same digest.",
    .parts = parts,
    KVR_OPTION_ROWS(options),
    .footer =
        "Exit status 1: a check failed; the sentence names the seed.\n"
        "Keys of --json: times_ms has p50, p90, p99 and max of transfer, exposed_wait, queue,\n"
        "wait, ttft and layer; source_cards and target_cards have writes, bytes, share and\n"
        "share_max; digest is of all requests, pages and times.\n"
        "Example:\n"
        "  kvrail replay --virtual --trace conversation.jsonl --hosts 8:8 --rails 32x100G \\\n"
        "      --model qwen3-235b-a22b --json figures.json --record fleet.kvtrace",
};

static bool load(int argc, char **argv, OPTIONS *config, struct virtual_config *run, int *ret_exit)
{
    struct virtual_config made;
    struct kvr_error error = {0};

    if (!kvr_options_load(&command, argc, argv, config, ret_exit))
        return false;
    if (virtual_config_make(&config->model, &made, &error) != KVR_OK ||
        virtual_hosts_parse(config->hosts, &made.fleet, &error) != KVR_OK ||
        virtual_rails_parse(config->rails, virtual_gpus(&made), &made.fleet, &error) != KVR_OK) {
        *ret_exit = kvr_options_refuse(&command, "%s", error.detail);
        return false;
    }
    if (!config->in_virtual_time) {
        *ret_exit = kvr_options_refuse(&command, "--virtual is no, but stands on the command line");
        return false;
    }
    made.exact = config->exact;
    if (config->corrupt[0] != '\0')
        made.corrupt =
            strcmp(config->corrupt, "page") == 0 ? VIRTUAL_CORRUPT_PAGE : VIRTUAL_CORRUPT_OWNER;
    if (made.corrupt == VIRTUAL_CORRUPT_PAGE && !made.exact) {
        *ret_exit = kvr_options_refuse(&command, "--corrupt is page, which needs --exact");
        return false;
    }
    *ret_exit = KVR_EXIT_USAGE;
    *run = made;
    return json_output_ready(&command, config->json);
}

static long memory_kib(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}

static bool report(const OPTIONS *config, const struct virtual_config *run,
                   const struct virtual_figures *figures, const char *trace, kvr_ns started)
{
    char shown[sizeof(config->trace)]; /* a file's name may be no UTF-8 */
    struct virtual_report one = {.config = run,
                                 .figures = figures,
                                 .trace = shown,
                                 .wall_s = (double)(kvr_clock_now() - started) / 1e9,
                                 .memory_kib = memory_kib()};

    kvr_text_show(trace, sizeof(shown), shown);
    if (!json_output_replaces_text(config->json))
        virtual_print(&one, stdout);
    return config->json[0] == '\0' || json_output_write(virtual_json(&one), config->json);
}

static kvr_status run_recorded(const OPTIONS *config, const struct virtual_config *run,
                               struct kvr_trace *trace, struct virtual_figures *figures,
                               struct kvr_error *error)
{
    struct virtual_record *record = NULL;
    kvr_status status;

    if (config->record[0] != '\0')
        KVR_TRY(virtual_record_open(config->record, &record, error));
    status = virtual_run(run, trace, record, figures, error);
    if (status == KVR_OK && record != NULL)
        return virtual_record_finish(record, error);
    virtual_record_abandon(record);
    return status;
}

int tool_replay_virtual_main(int argc, char **argv)
{
    static OPTIONS config;
    static struct virtual_figures figures;
    struct virtual_config run;
    struct kvr_error error = {0};
    struct kvr_trace trace;
    kvr_ns started = kvr_clock_now();
    int exit_status = 1;
    kvr_status status;

    if (!load(argc, argv, &config, &run, &exit_status))
        return exit_status;
    exit_status = 1;
    kvr_trace_init(&trace);
    status = virtual_trace_read(&config.model, config.trace, &trace, &error);
    if (status == KVR_OK)
        status = run_recorded(&config, &run, &trace, &figures, &error);
    if (status == KVR_OK)
        exit_status = report(&config, &run, &figures, trace.name, started) ? 0 : 1;
    else
        fprintf(stderr, "%s: %s (seed %" PRIu64 ")\n", command.name, error.detail, run.seed);
    virtual_figures_done(&figures);
    kvr_trace_done(&trace);
    return exit_status;
}
