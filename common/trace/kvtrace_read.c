#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "trace/kvtrace_scan.h"
#include "trace/trace_lines.h"

#define PATH_BYTES 4096

struct kvtrace_reader {
    struct kvr_trace_lines *lines;
    char name[PATH_BYTES];
    XXH3_state_t *digest; /* of the lines before the present one */
    int64_t *numbers;
    size_t numbers_room;
    bool foot; /* the footer was read: nothing may follow */
    struct kvtrace_ending ending;
    struct kvtrace_header header;
    struct kvtrace_record record;
};

/* The first sentence stays. */
static void ends_badly(struct kvtrace_reader *reader, const char *problem)
{
    if (reader->ending.problem[0] == '\0')
        snprintf(reader->ending.problem, sizeof(reader->ending.problem), "%s", problem);
}

static kvr_status no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a line of a trace");
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* *ret_line NULL: there is none. A last line without a newline was cut, and is none. */
static kvr_status next_line(struct kvtrace_reader *reader, char **ret_line, size_t *ret_bytes,
                            struct kvr_error *error)
{
    kvr_status status = kvr_trace_lines_next(reader->lines, ret_line, ret_bytes, error);

    if (status == KVR_TOO_LARGE)
        return kvr_error_set(error, KVR_TOO_LARGE, "trace",
                             "%s, line %" PRIu64 " is longer than %u MiB", reader->name,
                             reader->ending.lines + 1, KVTRACE_LINE_BYTES_MAX >> 20);
    if (status == KVR_OK && *ret_line == NULL && kvr_trace_lines_damage(reader->lines) != NULL)
        ends_badly(reader, kvr_trace_lines_damage(reader->lines));
    return status;
}

/* With its newline, in place of which a NUL stands. */
static void digest_line(struct kvtrace_reader *reader, char *line, size_t bytes)
{
    line[bytes] = '\n';
    XXH3_64bits_update(reader->digest, line, bytes + 1);
    line[bytes] = '\0';
}

/* ---- records --------------------------------------------------------------------------------- */

static kvr_status malformed(struct kvtrace_reader *reader, const struct kvtrace_scan *scan,
                            const char *line, struct kvr_error *error)
{
    reader->ending.malformed++;
    return kvr_error_set(error, KVR_MALFORMED, "trace", "%s, line %" PRIu64 ", byte %td%s%s%s: %s",
                         reader->name, reader->ending.lines, scan->at - line + 1,
                         scan->key != NULL ? ", at or behind the key \"" : "",
                         scan->key != NULL ? scan->key : "", scan->key != NULL ? "\"" : "",
                         scan->problem);
}

static kvr_status scan_line(struct kvtrace_reader *reader, char *line, size_t bytes,
                            kvtrace_scanned *ret_scanned, struct kvr_error *error)
{
    struct kvtrace_scan scan = {.at = line, .end = line + bytes};

    if (reader->numbers_room < KVTRACE_NUMBERS(bytes)) {
        free(reader->numbers);
        reader->numbers_room = KVTRACE_NUMBERS(bytes);
        reader->numbers = malloc(reader->numbers_room * sizeof(reader->numbers[0]));
        if (reader->numbers == NULL) {
            reader->numbers_room = 0;
            return no_memory(error);
        }
    }
    scan.numbers = reader->numbers;
    *ret_scanned = kvtrace_scan_line(&scan, &reader->record);
    if (*ret_scanned == KVTRACE_SCANNED_NOT)
        return malformed(reader, &scan, line, error);
    return KVR_OK;
}

static void check_foot(struct kvtrace_reader *reader)
{
    const struct kvtrace_end *end = &reader->record.end;
    const struct kvtrace_ending *ending = &reader->ending;
    char digest[sizeof(end->digest)];

    snprintf(digest, sizeof(digest), "%016" PRIx64, (uint64_t)XXH3_64bits_digest(reader->digest));
    if (strcmp(digest, end->digest) != 0)
        ends_badly(reader, "its bytes are not those that its footer has the digest of: it was "
                           "changed or damaged");
    else if ((uint64_t)end->lines != ending->lines - 1 ||
             (uint64_t)end->transfers != ending->transfers ||
             (uint64_t)end->requests != ending->requests ||
             (uint64_t)end->dropped != ending->dropped)
        ends_badly(reader, "its footer counts other lines than there are");
}

static void count_record(struct kvtrace_reader *reader)
{
    const struct kvtrace_record *record = &reader->record;

    reader->ending.transfers += record->kind == KVTRACE_TRANSFER;
    reader->ending.requests += record->kind == KVTRACE_REQUEST;
    if (record->kind == KVTRACE_DROPPED)
        reader->ending.dropped += (uint64_t)record->dropped.count;
}

static kvr_status no_more(struct kvtrace_reader *reader, struct kvr_error *error)
{
    char problem[KVR_DETAIL_BYTES], *rest;

    if (!reader->foot) {
        snprintf(problem, sizeof(problem), "it has no footer: it was cut behind line %" PRIu64 "%s",
                 reader->ending.lines,
                 kvr_trace_lines_rest(reader->lines, &rest) > 0 ? ", within the next" : "");
        ends_badly(reader, problem);
    }
    reader->ending.complete = reader->ending.problem[0] == '\0';
    return kvr_error_set(error, KVR_NOT_FOUND, "trace", "%s has no more records", reader->name);
}

kvr_status kvtrace_next(struct kvtrace_reader *reader, const struct kvtrace_record **ret_record,
                        struct kvr_error *error)
{
    kvtrace_scanned scanned = KVTRACE_SCANNED_NOT;
    size_t bytes;
    char *line;

    do {
        kvr_status status;

        KVR_TRY(next_line(reader, &line, &bytes, error));
        if (line == NULL)
            return no_more(reader, error);
        reader->ending.lines++;
        if (reader->foot)
            ends_badly(reader, "something follows its footer");
        status = scan_line(reader, line, bytes, &scanned, error);
        if (status == KVR_OK && scanned == KVTRACE_SCANNED && reader->record.kind == KVTRACE_END) {
            check_foot(reader);
            reader->foot = true;
        }
        digest_line(reader, line, bytes);
        if (status != KVR_OK)
            return status;
        reader->ending.unknown += scanned == KVTRACE_SCANNED_UNKNOWN;
    } while (scanned == KVTRACE_SCANNED_UNKNOWN || reader->record.kind == KVTRACE_END);
    count_record(reader);
    *ret_record = &reader->record;
    return KVR_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static kvr_status read_header(struct kvtrace_reader *reader, struct kvr_error *error)
{
    const struct kvtrace_record *record;
    struct kvr_error why = {0};
    kvr_status status = kvtrace_next(reader, &record, &why);

    if (status == KVR_SYSTEM || status == KVR_NO_MEMORY) {
        *error = why;
        return status;
    }
    if (status != KVR_OK || record->kind != KVTRACE_HEADER)
        return kvr_error_set(error, KVR_MALFORMED, "trace",
                             "%s is no trace of transfers: its first line is not "
                             "{\"kvtrace\":{\"version\":…}}",
                             reader->name);
    if (record->header.version != KVTRACE_VERSION)
        return kvr_error_set(error, KVR_VERSION, "trace",
                             "%s has version %" PRId64 " of the format; this program reads %d",
                             reader->name, record->header.version, KVTRACE_VERSION);
    if (record->header.start_us < -KVTRACE_TIME_MAX || record->header.start_us > KVTRACE_TIME_MAX)
        return kvr_error_set(error, KVR_MALFORMED, "trace",
                             "%s starts at %" PRId64 " us since 1970, beyond all bounds: correct "
                             "start_us in its first line",
                             reader->name, record->header.start_us);
    reader->header = record->header;
    return KVR_OK;
}

kvr_status kvtrace_open(const char *path, struct kvtrace_reader **ret_reader,
                        struct kvr_error *error)
{
    struct kvtrace_reader *reader = calloc(1, sizeof(*reader));
    struct kvtrace_source *source;
    kvr_status status;

    if (reader == NULL)
        return no_memory(error);
    snprintf(reader->name, sizeof(reader->name), "%s",
             strcmp(path, "-") == 0 ? "standard input" : path);
    reader->digest = XXH3_createState();
    if (reader->digest == NULL) {
        kvtrace_close(reader);
        return no_memory(error);
    }
    XXH3_64bits_reset(reader->digest);
    status = kvtrace_source_open(path, &source, error);
    if (status == KVR_OK)
        status = kvr_trace_lines_open(source, KVTRACE_LINE_BYTES_MAX, &reader->lines, error);
    if (status == KVR_OK)
        status = read_header(reader, error);
    if (status != KVR_OK) {
        kvtrace_close(reader);
        return status;
    }
    *ret_reader = reader;
    return KVR_OK;
}

struct kvtrace_reader *kvtrace_close(struct kvtrace_reader *reader)
{
    if (reader == NULL)
        return NULL;
    reader->lines = kvr_trace_lines_close(reader->lines);
    XXH3_freeState(reader->digest);
    free(reader->numbers);
    free(reader);
    return NULL;
}

const struct kvtrace_header *kvtrace_header(const struct kvtrace_reader *reader)
{
    return &reader->header;
}

uint64_t kvtrace_line(const struct kvtrace_reader *reader)
{
    return reader->ending.lines;
}

void kvtrace_ending(const struct kvtrace_reader *reader, struct kvtrace_ending *ret_ending)
{
    *ret_ending = reader->ending;
}
