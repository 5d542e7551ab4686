/* `kvrail trace validate`: whether a trace keeps the rules of the format. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/json_output.h"
#include "tools/trace/trace_tool.h"
#include "trace/kvtrace_order.h"

#define OPTIONS struct validate_options

struct validate_options {
    struct kvr_option_list files;
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option options[] = {
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the counts"),
};

static const struct kvr_command command = {
    .name = "kvrail trace validate",
    .description =
        "Reads a trace of transfers to its end and checks each line: the format, numbers that\n"
        "other lines define, the footer's counts and its digest. Names the first 20 wrong lines.\n"
        "Records that are not in the order of their times are no fault, and are noted.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Exit status 1: a line is wrong, or the file was cut or changed.\n"
              "Example:\n"
              "  kvrail trace validate incident.kvtrace.zst",
};

/* Records behind a later one. */
struct disorder {
    int64_t latest_us;
    bool any;
    uint64_t count, line; /* of the first */
};

static void look_at(struct disorder *disorder, const struct kvtrace_record *record, uint64_t line)
{
    int64_t at_us;

    if (!kvtrace_moment(record, &at_us))
        return;
    if (disorder->any && at_us < disorder->latest_us) {
        disorder->line = disorder->count++ == 0 ? line : disorder->line;
        return;
    }
    disorder->latest_us = at_us;
    disorder->any = true;
}

static json_t *json_of(const struct kvtrace_ending *ending, uint64_t wrong,
                       const struct disorder *disorder, bool valid)
{
    return json_pack("{s:I, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "out_of_order",
                     (json_int_t)disorder->count, "valid", valid, "complete", ending->complete,
                     "lines", (json_int_t)ending->lines, "transfers", (json_int_t)ending->transfers,
                     "requests", (json_int_t)ending->requests, "dropped",
                     (json_int_t)ending->dropped, "wrong_lines", (json_int_t)wrong, "unknown_kinds",
                     (json_int_t)ending->unknown, "problem", ending->problem);
}

int trace_validate_main(int argc, char **argv)
{
    static OPTIONS config;
    struct trace_walk walk;
    struct kvtrace_ending ending;
    const struct kvtrace_record *record;
    struct disorder disorder = {0};
    bool good, valid;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (!trace_walk_open(&walk, command.name, config.files.items[0]))
        return 1;
    while ((record = trace_walk_next(&walk, &good)) != NULL)
        look_at(&disorder, record, kvtrace_line(walk.reader));
    valid = trace_walk_close(&walk, &ending) && good;
    if (ending.problem[0] != '\0')
        fprintf(stderr, "%s: %s: %s\n", command.name, config.files.items[0], ending.problem);
    if (!json_output_replaces_text(config.json))
        printf("%s: %" PRIu64 " lines, %" PRIu64 " transfers, %" PRIu64 " requests, %" PRIu64
               " wrong lines: %s\n",
               config.files.items[0], ending.lines, ending.transfers, ending.requests, walk.wrong,
               valid ? "valid" : "not valid");
    if (disorder.count > 0)
        fprintf(stderr,
                "note: %s: %" PRIu64 " records stand behind a later one, line %" PRIu64
                " is the first; kvrail trace merge puts them in order\n",
                config.files.items[0], disorder.count, disorder.line);
    if (!json_output_write(json_of(&ending, walk.wrong, &disorder, valid), config.json))
        return 1;
    return valid ? 0 : 1;
}
