/* `kvrail trace import`: a request trace of another format as a *.kvtrace file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/trace/trace_tool.h"
#include "trace/trace_file.h"

#define OPTIONS struct import_options

struct import_options {
    struct kvr_option_list files;
    char format[16], on_error[8];
    uint64_t requests;
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "format",
     .section = "input",
     .choices = KVR_TRACE_FORMATS,
     .required = true,
     KVR_OPTION_CHOICE(OPTIONS, format),
     .help = "What FILE holds: " KVR_TRACE_FORMATS_HELP "."},
    {.name = "on-error",
     .choices = "stop|skip",
     .fallback = "stop",
     KVR_OPTION_CHOICE(OPTIONS, on_error),
     .help =
         "A wrong line ends the import, or is left out; either way its number and what is wrong "
         "are said."},
    {.name = "requests",
     .fallback = "0",
     .max = KVR_TRACE_REQUESTS_MAX,
     KVR_OPTION_COUNT(OPTIONS, requests),
     .help = "How many requests, from the start; 0: all of them."},
    TRACE_OUTPUT_OPTION(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail trace import",
    .description =
        "Writes the requests of a public trace format as a trace, which can be cut, merged and\n"
        "replayed as any other. Arrival times, tokens and shared prefixes come over, and no "
        "texts.\n"
        "FILE may be compressed with Zstandard; -: standard input.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail trace import --format mooncake conversation_trace.jsonl --output "
              "conversation.kvtrace.zst",
};

static void say_wrong(void *self, const char *sentence)
{
    (void)self;
    trace_fail(command.name, sentence);
}

/* Ids that were made up say nothing: they are left out. */
static void set_blocks(struct kvtrace_request *request, const uint64_t *blocks, uint32_t count)
{
    if (count > 0 && (blocks[0] & KVR_TRACE_BLOCK_OWN) == 0)
        request->blocks = (struct kvtrace_rows){(const int64_t *)blocks, count};
}

static kvr_status write_requests(const struct kvr_trace *trace, struct kvtrace_writer *writer,
                                 struct kvr_error *error)
{
    struct kvtrace_record *record = malloc(sizeof(*record));
    kvr_status status = KVR_OK;

    if (record == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a record");
    for (uint32_t i = 0; i < trace->request_count && status == KVR_OK; i++) {
        const struct kvr_trace_request *one = &trace->requests[i];

        kvtrace_clear(record, KVTRACE_REQUEST);
        snprintf(record->request.id, sizeof(record->request.id), "%" PRIu32, i);
        record->request.at_us = (int64_t)(one->at / KVR_US);
        record->request.input_tokens = one->input_tokens;
        record->request.output_tokens = one->output_tokens;
        set_blocks(&record->request, kvr_trace_blocks(trace, one), one->block_count);
        status = kvtrace_write(writer, record, error);
    }
    free(record);
    return status;
}

static kvr_status write_trace(const struct kvr_trace *trace, const char *output,
                              struct kvr_error *error)
{
    struct kvtrace_header header = {.plain_ids = true};
    struct kvtrace_writer *writer;
    kvr_status status;

    snprintf(header.note, sizeof(header.note), "requests of %s", trace->name);
    KVR_TRY(kvtrace_create(output, &header, &writer, error));
    status = write_requests(trace, writer, error);
    if (status == KVR_OK)
        return kvtrace_finish(writer, error);
    kvtrace_abandon(writer);
    return status;
}

int trace_import_main(int argc, char **argv)
{
    static OPTIONS config;
    struct kvr_trace_wrong wrong = {.say = say_wrong};
    struct kvr_error error = {0};
    struct kvr_trace trace;
    kvr_trace_format format;
    kvr_status status;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    kvr_trace_init(&trace);
    status = kvr_trace_format_from_name(config.format, &format);
    if (status == KVR_OK)
        status =
            kvr_trace_read(config.files.items[0], format, (uint32_t)config.requests,
                           strcmp(config.on_error, "skip") == 0 ? &wrong : NULL, &trace, &error);
    if (status == KVR_OK)
        status = write_trace(&trace, config.output, &error);
    if (status != KVR_OK)
        trace_fail(command.name, error.detail);
    else
        fprintf(stderr, "%u requests, %u without tokens and %" PRIu64 " wrong lines left out\n",
                trace.request_count, trace.skipped_count, wrong.count);
    kvr_trace_done(&trace);
    return status == KVR_OK ? 0 : 1;
}
