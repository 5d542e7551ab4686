#include "trace/trace_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/import_csv.h"
#include "trace/import_mooncake.h"

static const char where[] = "trace";

kvr_status kvr_trace_format_from_name(const char *name, kvr_trace_format *ret_format)
{
    static const char *const names[] = {"mooncake", "azure", "burstgpt"};

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
    trace->requests[trace->request_count++] = (struct kvr_trace_request){
        .at = at,
        .input_tokens = (uint32_t)input_tokens,
        .output_tokens = (uint32_t)output_tokens,
        .block_first = trace->block_count,
        .block_count = count,
    };
    trace->block_count += count;
    return KVR_OK;
}

/* What a stream of lines needs to be read: formats with a header line read that first. */
struct reader {
    kvr_trace_format format;
    bool header_seen;
    struct kvr_import_csv csv;
};

static kvr_status read_line(struct reader *reader, const char *line, size_t bytes,
                            struct kvr_trace *trace, struct kvr_error *error)
{
    const struct kvr_import_columns *columns =
        reader->format == KVR_TRACE_AZURE ? &kvr_import_azure : &kvr_import_burstgpt;

    if (reader->format == KVR_TRACE_MOONCAKE)
        return kvr_import_mooncake_line(line, bytes, trace, error);
    if (reader->header_seen)
        return kvr_import_csv_line(&reader->csv, line, bytes, trace, error);
    reader->header_seen = true;
    return kvr_import_csv_header(columns, line, bytes, &reader->csv, error);
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
    return a->block_first < b->block_first ? -1 : a->block_first > b->block_first;
}

static void normalise_times(struct kvr_trace *trace)
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

/* Reads the lines one after the other. getline() alone would take memory without bound for a file
 * without line ends, so lines are gathered by fgets() in a buffer of the largest size allowed. */
static kvr_status read_lines(FILE *stream, const char *name, struct reader *reader, uint32_t limit,
                             char *buffer, struct kvr_trace *trace, struct kvr_error *error)
{
    struct kvr_error local = {0};
    uint64_t number = 0;

    while ((limit == 0 || trace->request_count < limit) &&
           fgets(buffer, KVR_TRACE_LINE_BYTES_MAX, stream) != NULL) {
        size_t bytes = strlen(buffer);
        kvr_status status;

        number++;
        if (bytes == KVR_TRACE_LINE_BYTES_MAX - 1 && buffer[bytes - 1] != '\n')
            return kvr_error_set(error, KVR_MALFORMED, where,
                                 "%s, line %" PRIu64 ": longer than %u bytes", name, number,
                                 KVR_TRACE_LINE_BYTES_MAX);
        while (bytes > 0 && (buffer[bytes - 1] == '\n' || buffer[bytes - 1] == '\r'))
            buffer[--bytes] = '\0';
        if (is_blank(buffer, bytes))
            continue;
        status = read_line(reader, buffer, bytes, trace, &local);
        if (status != KVR_OK) {
            (void)locate(&local, name, number);
            if (error != NULL)
                *error = local;
            return status;
        }
    }
    if (ferror(stream))
        return kvr_error_system(error, where, errno, "%s cannot be read", name);
    return KVR_OK;
}

kvr_status kvr_trace_read_stream(FILE *stream, const char *name, kvr_trace_format format,
                                 uint32_t limit, struct kvr_trace *trace, struct kvr_error *error)
{
    struct reader reader = {.format = format};
    char *buffer = malloc(KVR_TRACE_LINE_BYTES_MAX);
    kvr_status status;

    if (buffer == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, where, "no memory for a line of the trace");
    snprintf(trace->name, sizeof(trace->name), "%s", name);
    status = read_lines(stream, name, &reader, limit, buffer, trace, error);
    free(buffer);
    if (status != KVR_OK)
        return status;
    if (trace->request_count == 0)
        return kvr_error_set(error, KVR_MALFORMED, where, "%s holds no request", name);
    normalise_times(trace);
    return KVR_OK;
}

kvr_status kvr_trace_read(const char *path, kvr_trace_format format, uint32_t limit,
                          struct kvr_trace *trace, struct kvr_error *error)
{
    const char *slash = strrchr(path, '/');
    FILE *stream = fopen(path, "re");
    kvr_status status;

    if (stream == NULL)
        return kvr_error_system(error, where, errno, "the trace %s cannot be opened", path);
    status = kvr_trace_read_stream(stream, slash != NULL && slash[1] != '\0' ? slash + 1 : path,
                                   format, limit, trace, error);
    fclose(stream);
    return status;
}

kvr_status kvr_trace_write(const struct kvr_trace *trace, FILE *stream, struct kvr_error *error)
{
    for (uint32_t i = 0; i < trace->request_count; i++) {
        const struct kvr_trace_request *request = &trace->requests[i];
        const uint64_t *blocks = kvr_trace_blocks(trace, request);

        fprintf(stream,
                "{\"timestamp\": %" PRIu64
                ", \"input_length\": %u, \"output_length\": %u, \"hash_ids\": [",
                request->at / KVR_MS, request->input_tokens, request->output_tokens);
        for (uint32_t block = 0; block < request->block_count; block++)
            fprintf(stream, "%s%" PRIu64, block > 0 ? ", " : "", blocks[block]);
        fputs("]}\n", stream);
    }
    if (fflush(stream) != 0 || ferror(stream))
        return kvr_error_system(error, where, errno, "the trace cannot be written");
    return KVR_OK;
}

bool kvr_trace_clip(struct kvr_trace_request *request, uint32_t tokens)
{
    if (request->input_tokens <= tokens)
        return false;
    request->input_tokens = tokens;
    request->block_count = (tokens + KVR_TRACE_BLOCK_TOKENS - 1) / KVR_TRACE_BLOCK_TOKENS;
    return true;
}
