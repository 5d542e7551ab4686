/* `kvrail trace head`: the first records of a trace, as a trace. */
#include "tools/trace/trace_tool.h"

#define OPTIONS struct head_options

struct head_options {
    struct kvr_option_list files;
    uint64_t count;
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "count",
     .section = "output",
     .fallback = "10",
     .min = 1,
     KVR_OPTION_COUNT(OPTIONS, count),
     .help =
         "How many transfers or requests; agents, engines and geometries before them come, too."},
    {.name = "output",
     .value = "FILE",
     .fallback = "-",
     KVR_OPTION_STRING(OPTIONS, output),
     .help = "Where to write them, compressed where the name ends in .zst; -: standard output."},
};

static const struct kvr_command command = {
    .name = "kvrail trace head",
    .description =
        "Writes the first transfers and requests of a trace, with all that stands before\n"
        "them, as a trace of its own.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail trace head incident.kvtrace.zst --count 3",
};

static const struct kvtrace_record *choose(void *self, const struct kvtrace_book *book,
                                           const struct kvtrace_record *record, bool *ret_stop)
{
    uint64_t *left = self;

    (void)book;
    *left -= record->kind == KVTRACE_TRANSFER || record->kind == KVTRACE_REQUEST;
    *ret_stop = *left == 0;
    return record;
}

int trace_head_main(int argc, char **argv)
{
    static OPTIONS config;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    return trace_copy(&(const struct trace_copy){.command = command.name,
                                                 .path = config.files.items[0],
                                                 .output = config.output,
                                                 .choose = choose,
                                                 .self = &config.count});
}
