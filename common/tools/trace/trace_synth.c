/* `kvrail trace synth`: a request trace from a seed. */
#include "base/options.h"
#include "tools/trace/trace_tool.h"
#include "trace/synth.h"

struct synth_options {
    uint64_t requests, seed;
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "requests",
     .section = "trace",
     .fallback = "200",
     .min = 1,
     .max = KVR_TRACE_REQUESTS_MAX,
     KVR_OPTION_COUNT(struct synth_options, requests),
     .help = "How many requests."},
    {.name = "seed",
     .fallback = "1",
     KVR_OPTION_COUNT(struct synth_options, seed),
     .help = "The same seed gives the same trace."},
    {.name = "output",
     .value = "FILE",
     KVR_OPTION_STRING(struct synth_options, output),
     .fallback = "-",
     .help = "Where to write it, compressed where the name ends in .zst; -: standard output."},
};

static const struct kvr_command command = {
    .name = "kvrail trace synth",
    .description =
        "Writes a request trace in Mooncake's form, JSON lines of timestamp, input_length,\n"
        "output_length and hash_ids, with lengths, arrivals and shared prefixes like those\n"
        "published for a conversation service.",
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n  kvrail trace synth --requests 1000 --seed 7 --output trace.jsonl",
};

int trace_synth_main(int argc, char **argv)
{
    struct synth_options config = {0};
    struct kvr_error error = {0};
    struct kvr_trace trace;
    kvr_status status;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    kvr_trace_init(&trace);
    status = kvr_trace_synth(config.seed, (uint32_t)config.requests, &trace, &error);
    if (status == KVR_OK)
        status = kvr_trace_write(&trace, config.output, &error);
    kvr_trace_done(&trace);
    return status == KVR_OK ? 0 : trace_fail(command.name, error.detail);
}
