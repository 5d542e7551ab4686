#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "trace/kvtrace_book.h"
#include "trace/trace_file.h"

/* A request that a transfer names. */
struct named {
    UT_hash_handle hh;
    char id[KVR_REQUEST_BYTES];
};

struct requests {
    struct kvr_trace *trace;
    struct kvtrace_book book;
    struct named *named;
    bool has_requests; /* the file has records of them */
    int64_t first_us;
    uint32_t limit;
};

static kvr_status add(struct requests *requests, int64_t at_us, int64_t input_tokens,
                      int64_t output_tokens, const struct kvtrace_rows *blocks,
                      struct kvr_error *error)
{
    if (requests->trace->request_count == 0)
        requests->first_us = at_us;
    if (at_us < requests->first_us) /* they are put in order below */
        requests->first_us = at_us;
    return kvr_trace_add(
        requests->trace, (kvr_ns)at_us, (uint64_t)input_tokens, (uint64_t)output_tokens,
        blocks->count > 0 ? (const uint64_t *)blocks->numbers : NULL, blocks->count, error);
}

/* False: it was named before. *ret_status: whether there was memory. */
static bool name_first(struct requests *requests, const char *id, kvr_status *ret_status)
{
    struct named *named;

    *ret_status = KVR_OK;
    HASH_FIND_STR(requests->named, id, named);
    if (named != NULL)
        return false;
    named = calloc(1, sizeof(*named));
    if (named == NULL) {
        *ret_status = KVR_NO_MEMORY;
        return false;
    }
    snprintf(named->id, sizeof(named->id), "%s", id);
    HASH_ADD_STR(requests->named, id, named);
    return true;
}

/* Other ranks and attempts of one request count once. */
static kvr_status add_named(struct requests *requests, const struct kvtrace_transfer *transfer,
                            struct kvr_error *error)
{
    static const struct kvtrace_rows none;
    kvr_status status;

    if (transfer->tokens == 0)
        return KVR_OK;
    if (name_first(requests, transfer->request, &status))
        return add(requests, transfer->at_us, transfer->tokens, 0, &none, error);
    if (status != KVR_OK)
        return kvr_error_set(error, status, "trace", "no memory for the trace's requests");
    return KVR_OK;
}

/* What transfers named before the first record of a request does not count. */
static void begin_requests(struct requests *requests)
{
    if (requests->has_requests)
        return;
    requests->has_requests = true;
    requests->trace->request_count = requests->trace->block_count = 0;
}

static kvr_status take(struct requests *requests, const struct kvtrace_record *record,
                       struct kvr_error *error)
{
    KVR_TRY(kvtrace_book_take(&requests->book, record, error));
    if (record->kind == KVTRACE_REQUEST) {
        const struct kvtrace_request *request = &record->request;

        begin_requests(requests);
        return add(requests, request->at_us, request->input_tokens, request->output_tokens,
                   &request->blocks, error);
    }
    if (record->kind == KVTRACE_TRANSFER && !requests->has_requests)
        return add_named(requests, &record->transfer, error);
    return KVR_OK;
}

/* All of the file was read. */
static void note_ending(const struct requests *requests, const struct kvtrace_reader *reader)
{
    struct kvr_trace *trace = requests->trace;
    struct kvtrace_ending ending;

    kvtrace_ending(reader, &ending);
    if (requests->limit == 0 || trace->request_count < requests->limit)
        snprintf(trace->problem, sizeof(trace->problem), "%s", ending.problem);
}

static kvr_status read_records(struct requests *requests, struct kvtrace_reader *reader,
                               const char *path, struct kvr_error *error)
{
    const struct kvtrace_record *record;
    struct kvr_error inner = {0};
    kvr_status status;

    while ((status = kvtrace_next(reader, &record, &inner)) == KVR_OK) {
        status = take(requests, record, &inner);
        if (status != KVR_OK)
            return kvr_error_set(error, status, "trace", "%s, line %" PRIu64 ": %s", path,
                                 kvtrace_line(reader), inner.detail);
        if (requests->has_requests && requests->limit > 0 &&
            requests->trace->request_count == requests->limit)
            return KVR_OK;
    }
    if (status == KVR_NOT_FOUND) {
        note_ending(requests, reader);
        return KVR_OK;
    }
    *error = inner;
    return status;
}

/* Times from the first request, in nanoseconds. */
static kvr_status finish(struct requests *requests, const char *path, struct kvr_error *error)
{
    struct kvr_trace *trace = requests->trace;

    if (trace->request_count == 0)
        return kvr_error_set(error, KVR_MALFORMED, "trace", "%s holds no request", path);
    for (uint32_t i = 0; i < trace->request_count; i++) {
        int64_t after_us = (int64_t)trace->requests[i].at - requests->first_us;

        if (after_us > KVTRACE_TIME_MAX)
            return kvr_error_set(error, KVR_MALFORMED, "trace",
                                 "a request of %s comes %" PRId64 " us after the first, beyond all "
                                 "bounds",
                                 path, after_us);
        trace->requests[i].at = (kvr_ns)after_us * KVR_US;
    }
    kvr_trace_sort(trace);
    if (requests->limit > 0 && trace->request_count > requests->limit)
        trace->request_count = requests->limit;
    return KVR_OK;
}

kvr_status kvtrace_requests_quietly(const char *path, uint32_t limit, struct kvr_trace *trace,
                                    struct kvr_error *error)
{
    struct requests requests = {.trace = trace, .limit = limit};
    const char *slash = strrchr(path, '/');
    struct kvtrace_reader *reader;
    struct named *named, *next;
    kvr_status status;

    KVR_TRY(kvtrace_open(path, &reader, error));
    snprintf(trace->name, sizeof(trace->name), "%s", slash != NULL ? slash + 1 : path);
    status = read_records(&requests, reader, path, error);
    if (status == KVR_OK)
        status = finish(&requests, path, error);
    kvtrace_close(reader);
    kvtrace_book_close(&requests.book);
    HASH_ITER(hh, requests.named, named, next)
    {
        HASH_DEL(requests.named, named);
        free(named);
    }
    return status;
}

kvr_status kvtrace_requests(const char *path, uint32_t limit, struct kvr_trace *trace,
                            struct kvr_error *error)
{
    KVR_TRY(kvtrace_requests_quietly(path, limit, trace, error));
    kvr_trace_note_problem(trace);
    return KVR_OK;
}
