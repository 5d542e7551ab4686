#include "trace/trace_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/import_csv.h"
#include "trace/import_json.h"
#include "trace/import_serving.h"
#include "trace/trace_lines.h"

static const char where[] = "trace";

/* How the lines of a format are read: each has one of these. */
static const struct format {
    const struct kvr_import_columns *columns; /* CSV, with a header line */
    const struct kvr_import_members *members; /* a request a line */
    bool run, log;                            /* import_serving.h */
} formats[] = {
    [KVR_TRACE_MOONCAKE] = {.members = &kvr_import_mooncake},
    [KVR_TRACE_AZURE] = {.columns = &kvr_import_azure},
    [KVR_TRACE_BURSTGPT] = {.columns = &kvr_import_burstgpt},
    [KVR_TRACE_BAILIAN] = {.members = &kvr_import_bailian},
    [KVR_TRACE_VLLM_BENCH] = {.run = true},
    [KVR_TRACE_SGLANG_BENCH] = {.run = true},
    [KVR_TRACE_SGLANG_LOG] = {.log = true},
};

kvr_status kvr_trace_format_from_name(const char *name, kvr_trace_format *ret_format)
{
    static const char *const names[] = {KVR_TRACE_FORMAT_LIST(KVR_NAME)};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_format = (kvr_trace_format)i;
            return KVR_OK;
        }
    }
    return KVR_NOT_FOUND;
}

void kvr_trace_init(struct kvr_trace *trace)
{
    memset(trace, 0, sizeof(*trace));
}

void kvr_trace_note_problem(const struct kvr_trace *trace)
{
    if (trace->problem[0] != '\0')
        fprintf(stderr, "note: %s: %s. The requests before that are played.\n", trace->name,
                trace->problem);
}

void kvr_trace_done(struct kvr_trace *trace)
{
    free(trace->requests);
    free(trace->blocks);
    kvr_trace_init(trace);
}

/* Makes room for `more` elements behind `count`; doubles, so that appending is cheap. */
static bool reserve(void **array, uint32_t *capacity, uint32_t count, size_t more,
                    size_t element_bytes)
{
    size_t wanted = (size_t)count + more, room = *capacity > 0 ? *capacity : 256;
    void *larger;

    if (wanted <= *capacity)
        return true;
    while (room < wanted)
        room *= 2;
    larger = realloc(*array, room * element_bytes);
    if (larger == NULL)
        return false;
    *array = larger;
    *capacity = (uint32_t)room;
    return true;
}

static kvr_status check_request(const struct kvr_trace *trace, uint64_t input_tokens,
                                uint64_t output_tokens, const uint64_t *blocks, size_t block_count,
                                struct kvr_error *error)
{
    size_t wanted = (input_tokens + KVR_TRACE_BLOCK_TOKENS - 1) / KVR_TRACE_BLOCK_TOKENS;

    if (input_tokens == 0 || input_tokens > KVR_TRACE_TOKENS_MAX)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "%" PRIu64 " input tokens are outside 1 to %u", input_tokens,
                             KVR_TRACE_TOKENS_MAX);
    if (output_tokens > KVR_TRACE_TOKENS_MAX)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "%" PRIu64 " output tokens are more than %u", output_tokens,
                             KVR_TRACE_TOKENS_MAX);
    if (blocks != NULL && block_count != wanted)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "%zu block ids for %" PRIu64 " tokens, which are %zu blocks of %u",
                             block_count, input_tokens, wanted, KVR_TRACE_BLOCK_TOKENS);
    if (trace->request_count >= KVR_TRACE_REQUESTS_MAX ||
        wanted > KVR_TRACE_BLOCKS_MAX - trace->block_count)
        return kvr_error_set(error, KVR_TOO_LARGE, where,
                             "more than %u requests or %u blocks: read fewer requests",
                             KVR_TRACE_REQUESTS_MAX, KVR_TRACE_BLOCKS_MAX);
    return KVR_OK;
}

kvr_status kvr_trace_add(struct kvr_trace *trace, kvr_ns at, uint64_t input_tokens,
                         uint64_t output_tokens, const uint64_t *blocks, size_t block_count,
                         struct kvr_error *error)
{
    uint32_t count =
        (uint32_t)((input_tokens + KVR_TRACE_BLOCK_TOKENS - 1) / KVR_TRACE_BLOCK_TOKENS);

    KVR_TRY(check_request(trace, input_tokens, output_tokens, blocks, block_count, error));
    if (!reserve((void **)&trace->requests, &trace->request_capacity, trace->request_count, 1,
                 sizeof(trace->requests[0])) ||
        !reserve((void **)&trace->blocks, &trace->block_capacity, trace->block_count, count,
                 sizeof(trace->blocks[0])))
        return kvr_error_set(error, KVR_NO_MEMORY, where, "no memory for the trace's requests");
    for (uint32_t i = 0; i < count; i++)
        trace->blocks[trace->block_count + i] =
            blocks != NULL ? blocks[i]
                           : KVR_TRACE_BLOCK_OWN | (uint64_t)trace->request_count << 32 | i;
    trace->requests[trace->request_count] = (struct kvr_trace_request){
        .at = at,
        .input_tokens = (uint32_t)input_tokens,
        .output_tokens = (uint32_t)output_tokens,
        .block_first = trace->block_count,
        .block_count = count,
        .number = trace->request_count,
    };
    trace->request_count++;
    trace->block_count += count;
    return KVR_OK;
}

/* A file being read. */
struct reader {
    const struct format *format;
    const char *name;
    struct kvr_trace_wrong *wrong; /* or NULL */
    bool header_read;
    struct kvr_import_csv csv;
    struct kvr_import_runs runs;
};

static kvr_status read_line(struct reader *reader, char *line, size_t bytes,
                            struct kvr_trace *trace, struct kvr_error *error)
{
    const struct format *format = reader->format;

    if (format->members != NULL)
        return kvr_import_json_line(format->members, line, bytes, trace, error);
    if (format->run)
        return kvr_import_run_line(&reader->runs, line, bytes, trace, error);
    if (format->log)
        return kvr_import_log_line(line, bytes, trace, error);
    if (reader->header_read)
        return kvr_import_csv_line(&reader->csv, line, bytes, trace, error);
    KVR_TRY(kvr_import_csv_header(format->columns, line, bytes, &reader->csv, error));
    reader->header_read = true;
    return KVR_OK;
}

/* Puts "FILE, line N: " before the sentence, so that a person finds the place. */
static kvr_status locate(struct kvr_error *error, const char *name, uint64_t line)
{
    struct kvr_error inner;

    if (error == NULL)
        return KVR_MALFORMED;
    inner = *error;
    return kvr_error_set(error, inner.status, where, "%s, line %" PRIu64 ": %s", name, line,
                         inner.detail);
}

static int by_time(const void *left, const void *right)
{
    const struct kvr_trace_request *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->block_first != b->block_first)
        return a->block_first < b->block_first ? -1 : 1;
    return (a->number > b->number) -
           (a->number < b->number); /* ranks of one request share blocks */
}

void kvr_trace_sort(struct kvr_trace *trace)
{
    kvr_ns first;

    if (trace->request_count == 0)
        return;
    qsort(trace->requests, trace->request_count, sizeof(trace->requests[0]), by_time);
    first = trace->requests[0].at;
    for (uint32_t i = 0; i < trace->request_count; i++)
        trace->requests[i].at -= first;
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (strchr(" \t\r\n", line[i]) == NULL || line[i] == '\0')
            return false;
    return true;
}

/* A wrong line: left out where the caller says so; else its failure is the whole trace's. */
static kvr_status line_failed(struct reader *reader, uint64_t number, kvr_status status,
                              struct kvr_error *inner, struct kvr_error *error)
{
    struct kvr_trace_wrong *wrong = reader->wrong;
    /* Without its header no line of a CSV can be read. */
    bool header = reader->format->columns != NULL && !reader->header_read;

    (void)locate(inner, reader->name, number);
    if (status == KVR_MALFORMED && wrong != NULL && !header) {
        wrong->count++;
        wrong->say(wrong->self, inner->detail);
        return KVR_OK;
    }
    if (error != NULL)
        *error = *inner;
    return status;
}

static kvr_status take_line(struct reader *reader, uint64_t number, char *line, size_t bytes,
                            struct kvr_trace *trace, struct kvr_error *error)
{
    struct kvr_error local = {0};
    kvr_status status;

    while (bytes > 0 && line[bytes - 1] == '\r')
        line[--bytes] = '\0';
    if (is_blank(line, bytes))
        return KVR_OK;
    status = read_line(reader, line, bytes, trace, &local);
    return status == KVR_OK ? KVR_OK : line_failed(reader, number, status, &local, error);
}

static bool enough(const struct kvr_trace *trace, uint32_t limit)
{
    return limit > 0 && trace->request_count >= limit;
}

static kvr_status read_lines(struct kvr_trace_lines *lines, struct reader *reader, uint32_t limit,
                             struct kvr_trace *trace, struct kvr_error *error)
{
    uint64_t number = 0;
    size_t bytes;
    char *line;

    while (!enough(trace, limit)) {
        struct kvr_error local = {0};
        kvr_status status = kvr_trace_lines_next(lines, &line, &bytes, &local);

        if (status == KVR_TOO_LARGE) {
            (void)locate(&local, reader->name, number + 1);
            local.status = KVR_MALFORMED;
        }
        if (status != KVR_OK) {
            if (error != NULL)
                *error = local;
            return status == KVR_TOO_LARGE ? KVR_MALFORMED : status;
        }
        if (line == NULL)
            break;
        KVR_TRY(take_line(reader, ++number, line, bytes, trace, error));
    }
    if (enough(trace, limit))
        return KVR_OK;
    if (kvr_trace_lines_damage(lines) != NULL)
        return kvr_error_set(error, KVR_MALFORMED, where, "%s", kvr_trace_lines_damage(lines));
    bytes = kvr_trace_lines_rest(lines, &line);
    return bytes > 0 ? take_line(reader, number + 1, line, bytes, trace, error) : KVR_OK;
}

/* Takes the source. */
static kvr_status read_source(struct kvtrace_source *source, struct reader *reader, uint32_t limit,
                              struct kvr_trace *trace, struct kvr_error *error)
{
    bool large = reader->format->run || reader->format->log;
    struct kvr_trace_lines *lines;
    kvr_status status;

    KVR_TRY(kvr_trace_lines_open(source, large ? KVR_TRACE_RUN_BYTES_MAX : KVR_TRACE_LINE_BYTES_MAX,
                                 &lines, error));
    snprintf(trace->name, sizeof(trace->name), "%s", reader->name);
    status = read_lines(lines, reader, limit, trace, error);
    kvr_trace_lines_close(lines);
    if (status != KVR_OK)
        return status;
    if (trace->request_count == 0)
        return kvr_error_set(error, KVR_MALFORMED, where, "%s holds no request", reader->name);
    kvr_trace_sort(trace);
    if (enough(trace, limit)) /* a run has more than one */
        trace->request_count = limit;
    return KVR_OK;
}

kvr_status kvr_trace_read_bytes(const void *bytes, size_t count, const char *name,
                                kvr_trace_format format, uint32_t limit,
                                struct kvr_trace_wrong *wrong, struct kvr_trace *trace,
                                struct kvr_error *error)
{
    struct reader reader = {.format = &formats[format], .name = name, .wrong = wrong};
    struct kvtrace_source *source;

    KVR_TRY(kvtrace_source_memory(bytes, count, &source, error));
    return read_source(source, &reader, limit, trace, error);
}

kvr_status kvr_trace_read(const char *path, kvr_trace_format format, uint32_t limit,
                          struct kvr_trace_wrong *wrong, struct kvr_trace *trace,
                          struct kvr_error *error)
{
    struct reader reader = {.format = &formats[format], .name = path, .wrong = wrong};
    const char *slash = strrchr(path, '/');
    struct kvtrace_source *source;

    if (strcmp(path, "-") == 0)
        reader.name = "standard input";
    else if (slash != NULL && slash[1] != '\0')
        reader.name = slash + 1;
    KVR_TRY(kvtrace_source_open(path, &source, error));
    return read_source(source, &reader, limit, trace, error);
}

/* ---- writing --------------------------------------------------------------------------------- */

static kvr_status write_request(const struct kvr_trace *trace,
                                const struct kvr_trace_request *request, struct kvtrace_sink *sink,
                                struct kvr_error *error)
{
    const uint64_t *blocks = kvr_trace_blocks(trace, request);
    char text[160];
    size_t used = (size_t)snprintf(
        text, sizeof(text),
        "{\"timestamp\": %" PRIu64 ", \"input_length\": %u, \"output_length\": %u, \"hash_ids\": [",
        request->at / KVR_MS, request->input_tokens, request->output_tokens);

    KVR_TRY(kvtrace_sink_write(sink, text, used, error));
    for (uint32_t block = 0; block < request->block_count; block++) {
        used = (size_t)snprintf(text, sizeof(text), "%s%" PRIu64, block > 0 ? ", " : "",
                                blocks[block]);
        KVR_TRY(kvtrace_sink_write(sink, text, used, error));
    }
    return kvtrace_sink_write(sink, "]}\n", 3, error);
}

kvr_status kvr_trace_write(const struct kvr_trace *trace, const char *path, struct kvr_error *error)
{
    struct kvtrace_sink *sink;
    kvr_status status = KVR_OK;

    struct kvr_error ignored;

    KVR_TRY(kvtrace_sink_open(path, &sink, error));
    for (uint32_t i = 0; i < trace->request_count && status == KVR_OK; i++)
        status = write_request(trace, &trace->requests[i], sink, error);
    if (status == KVR_OK)
        return kvtrace_sink_close(sink, true, error);
    (void)!kvtrace_sink_close(sink, false, &ignored);
    return status;
}

bool kvr_trace_clip(struct kvr_trace_request *request, uint32_t tokens)
{
    if (request->input_tokens <= tokens)
        return false;
    request->input_tokens = tokens;
    request->block_count = (tokens + KVR_TRACE_BLOCK_TOKENS - 1) / KVR_TRACE_BLOCK_TOKENS;
    return true;
}
