/* `kvrail trace export`: a trace as a file of another format. */
#include <stdio.h>

#include "tools/trace/export.h"
#include "tools/trace/trace_tool.h"

#define OPTIONS struct export_options

struct export_options {
    struct kvr_option_list files;
    char to[16];
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "to",
     .section = "output",
     .choices = EXPORT_FORMATS,
     .required = true,
     KVR_OPTION_CHOICE(OPTIONS, to),
     .help = "perfetto: trace events of JSON for ui.perfetto.dev; otlp: spans of OpenTelemetry, "
             "OTLP/JSON, a line a transfer; csv: a row a transfer; summary: counts and percentiles "
             "as JSON."},
    TRACE_OUTPUT_OPTION(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail trace export",
    .description =
        "Writes a trace of transfers for other programs. It is read once, from start to end.\n"
        "perfetto has a process an agent, with the stages of each transfer, its layers and its\n"
        "rails. otlp has a trace a request, with a span a transfer and a span a stage.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Exit status 1: a line of the trace is wrong, or the trace was cut or changed.\n"
              "Example:\n"
              "  kvrail trace export --to perfetto incident.kvtrace.zst --output incident.json",
};

static const struct export_format *format_of(const char *name)
{
    static const char *const names[] = {EXPORT_FORMAT_LIST(KVR_NAME)};
    static const struct export_format *const formats[] = {
        [EXPORT_PERFETTO] = &export_perfetto,
        [EXPORT_OTLP] = &export_otlp,
        [EXPORT_CSV] = &export_csv,
        [EXPORT_SUMMARY] = &export_summary,
    };

    return formats[kvr_name_find(names, EXPORT_FORMAT_END, name)];
}

static kvr_status write_records(const struct export_format *format, struct export *export,
                                struct trace_walk *walk, bool *ret_good)
{
    const struct kvtrace_record *record;

    format->begin(export);
    while (export->status == KVR_OK && (record = trace_walk_next(walk, ret_good)) != NULL)
        format->record(export, record);
    if (export->status == KVR_OK && *ret_good)
        format->end(export);
    format->release(export);
    return export->status;
}

static kvr_status write_file(const struct export_options *config, struct trace_walk *walk,
                             bool *ret_good, struct kvr_error *error)
{
    struct export export = {.book = &walk->book, .header = kvtrace_header(walk->reader)};
    struct kvr_error ignored;
    kvr_status status;

    KVR_TRY(kvtrace_sink_open(config->output, &export.sink, error));
    status = write_records(format_of(config->to), &export, walk, ret_good);
    if (status == KVR_OK && *ret_good)
        return kvtrace_sink_close(export.sink, true, error);
    *error = export.error;
    (void)!kvtrace_sink_close(export.sink, false, &ignored);
    return status;
}

int trace_export_main(int argc, char **argv)
{
    static OPTIONS config;
    struct trace_walk walk;
    struct kvtrace_ending ending;
    struct kvr_error error = {0};
    bool good = true, valid;
    kvr_status status;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!trace_walk_open(&walk, command.name, config.files.items[0]))
        return 1;
    status = write_file(&config, &walk, &good, &error);
    valid = trace_walk_close(&walk, &ending) && good;
    if (status != KVR_OK)
        return trace_fail(command.name, error.detail);
    if (ending.problem[0] != '\0')
        fprintf(stderr, "%s: %s: %s\n", command.name, config.files.items[0], ending.problem);
    return valid ? 0 : 1;
}
