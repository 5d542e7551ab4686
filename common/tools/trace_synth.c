/* `kvrail trace synth`: a request trace from a seed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "tools/tool.h"
#include "trace/synth.h"

struct synth_options {
    uint64_t requests, seed;
    char output[4096];
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
     .help = "Where to write it; standard output when not given."},
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

static int fail(const char *sentence)
{
    fprintf(stderr, "kvrail trace synth: %s\n", sentence);
    return 1;
}

static int write_trace(const struct kvr_trace *trace, const char *path)
{
    FILE *stream = path[0] != '\0' ? fopen(path, "we") : stdout;
    struct kvr_error error = {0};
    kvr_status status;

    if (stream == NULL) {
        (void)kvr_error_system(&error, "trace", errno, "%s cannot be written", path);
        return fail(error.detail);
    }
    status = kvr_trace_write(trace, stream, &error);
    if (stream != stdout && fclose(stream) != 0 && status == KVR_OK)
        status = kvr_error_system(&error, "trace", errno, "%s cannot be written", path);
    return status == KVR_OK ? 0 : fail(error.detail);
}

static int synth_main(int argc, char **argv)
{
    struct synth_options config = {0};
    struct kvr_error error = {0};
    struct kvr_trace trace;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    kvr_trace_init(&trace);
    if (kvr_trace_synth(config.seed, (uint32_t)config.requests, &trace, &error) == KVR_OK)
        exit_status = write_trace(&trace, config.output);
    else
        exit_status = fail(error.detail);
    kvr_trace_done(&trace);
    return exit_status;
}

int tool_trace_main(int argc, char **argv)
{
    static const struct kvr_subcommand subcommands[] = {
        {"synth", "write a request trace made from a seed", synth_main},
        {NULL, NULL, NULL},
    };

    return kvr_subcommands_run("kvrail trace", "Request traces.", subcommands, argc, argv);
}
