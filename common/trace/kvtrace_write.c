#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/version.h"
#include "trace/kvtrace_bytes.h"
#include "trace/kvtrace_scan.h"

struct kvtrace_writer {
    struct kvtrace_sink *sink;
    struct kvtrace_text text; /* the present line */
    XXH3_state_t *digest;
    struct kvtrace_end counts;
    kvr_status status; /* of the first write that failed */
    struct kvr_error error;
};

static kvr_status put(struct kvtrace_writer *writer, const struct kvtrace_record *record,
                      struct kvr_error *error)
{
    const char *wrong;

    writer->text.count = 0;
    wrong = kvtrace_print(&writer->text, record);
    if (wrong != NULL)
        return kvr_error_set(error, KVR_INVALID, "trace",
                             "a record \"%s\" cannot be written: no line can hold its \"%s\"",
                             kvtrace_kind_name(record->kind), wrong);
    if (writer->text.failed)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a line of a trace");
    if (writer->text.count > KVTRACE_LINE_BYTES_MAX)
        return kvr_error_set(error, KVR_INVALID, "trace",
                             "a record \"%s\" of %zu bytes is longer than a line may be",
                             kvtrace_kind_name(record->kind), writer->text.count);
    writer->status =
        kvtrace_sink_write(writer->sink, writer->text.at, writer->text.count, &writer->error);
    if (writer->status != KVR_OK) {
        *error = writer->error;
        return writer->status;
    }
    XXH3_64bits_update(writer->digest, writer->text.at, writer->text.count);
    writer->counts.lines++;
    return KVR_OK;
}

static kvr_status put_header(struct kvtrace_writer *writer, const struct kvtrace_header *header,
                             struct kvr_error *error)
{
    static const char made_by[] = "kvrail " KVRAIL_VERSION;
    struct kvtrace_record *record = malloc(sizeof(*record));
    kvr_status status;

    if (record == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a line of a trace");
    kvtrace_clear(record, KVTRACE_HEADER);
    record->header = *header;
    record->header.version = KVTRACE_VERSION;
    if (header->made_by[0] == '\0')
        memcpy(record->header.made_by, made_by, sizeof(made_by));
    status = put(writer, record, error);
    free(record);
    return status;
}

kvr_status kvtrace_create(const char *path, const struct kvtrace_header *header,
                          struct kvtrace_writer **ret_writer, struct kvr_error *error)
{
    struct kvtrace_writer *writer = calloc(1, sizeof(*writer));
    kvr_status status;

    if (writer == NULL || (writer->digest = XXH3_createState()) == NULL) {
        kvtrace_abandon(writer);
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a trace file");
    }
    XXH3_64bits_reset(writer->digest);
    status = kvtrace_sink_open(path, &writer->sink, error);
    if (status == KVR_OK)
        status = put_header(writer, header, error);
    if (status != KVR_OK) {
        kvtrace_abandon(writer);
        return status;
    }
    *ret_writer = writer;
    return KVR_OK;
}

kvr_status kvtrace_write(struct kvtrace_writer *writer, const struct kvtrace_record *record,
                         struct kvr_error *error)
{
    if (writer->status != KVR_OK) {
        *error = writer->error;
        return writer->status;
    }
    KVR_TRY(put(writer, record, error));
    writer->counts.transfers += record->kind == KVTRACE_TRANSFER;
    writer->counts.requests += record->kind == KVTRACE_REQUEST;
    if (record->kind == KVTRACE_DROPPED)
        writer->counts.dropped += record->dropped.count;
    return KVR_OK;
}

kvr_status kvtrace_flush(struct kvtrace_writer *writer, struct kvr_error *error)
{
    if (writer->status == KVR_OK)
        writer->status = kvtrace_sink_flush(writer->sink, &writer->error);
    if (writer->status != KVR_OK)
        *error = writer->error;
    return writer->status;
}

static kvr_status put_foot(struct kvtrace_writer *writer, struct kvr_error *error)
{
    struct kvtrace_record *record = malloc(sizeof(*record));
    kvr_status status;

    if (record == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a line of a trace");
    kvtrace_clear(record, KVTRACE_END);
    record->end = writer->counts;
    snprintf(record->end.digest, sizeof(record->end.digest), "%016" PRIx64,
             (uint64_t)XXH3_64bits_digest(writer->digest));
    status = put(writer, record, error);
    free(record);
    return status;
}

static void release(struct kvtrace_writer *writer)
{
    XXH3_freeState(writer->digest);
    free(writer->text.at);
    free(writer);
}

kvr_status kvtrace_finish(struct kvtrace_writer *writer, struct kvr_error *error)
{
    kvr_status status = writer->status, closed;
    struct kvr_error close_error = {0};

    if (status != KVR_OK)
        *error = writer->error;
    else
        status = put_foot(writer, error);
    closed = kvtrace_sink_close(writer->sink, status == KVR_OK, &close_error);
    if (status == KVR_OK && closed != KVR_OK) {
        *error = close_error;
        status = closed;
    }
    release(writer);
    return status;
}

struct kvtrace_writer *kvtrace_abandon(struct kvtrace_writer *writer)
{
    struct kvr_error ignored;

    if (writer == NULL)
        return NULL;
    if (writer->sink != NULL)
        (void)!kvtrace_sink_close(writer->sink, false, &ignored);
    release(writer);
    return NULL;
}
