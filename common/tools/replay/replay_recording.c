#include "tools/replay/replay_recording.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/replay/replay_recording_items.h"

static kvr_status take_fault(struct recording_reader *reader, const struct kvtrace_fault *fault,
                             struct kvr_error *error)
{
    struct replay_recording *recording = reader->recording;
    struct replay_recorded_fault *one;

    if (!recording_reserve((void **)&recording->faults, &reader->fault_capacity,
                           recording->fault_count, 1, sizeof(*one)))
        return recording_no_memory(error);
    one = &recording->faults[recording->fault_count++];
    *one = (struct replay_recorded_fault){
        .at_us = fault->at_us,
        .for_us =
            fault->for_us > 0 && fault->for_us < KVTRACE_NUMBER_MAX / 1000 ? fault->for_us : 0,
        .agent = fault->agent};
    snprintf(one->kind, sizeof(one->kind), "%s", fault->kind);
    return KVR_OK;
}

static kvr_status take(struct recording_reader *reader, const struct kvtrace_record *record,
                       struct kvr_error *error)
{
    KVR_TRY(kvtrace_book_take(&reader->book, record, error));
    switch (record->kind) {
    case KVTRACE_REQUEST:
        return recording_take_request(reader, &record->request, error);
    case KVTRACE_TRANSFER:
        return recording_take_transfer(reader, &record->transfer, error);
    case KVTRACE_FAULT:
        return take_fault(reader, &record->fault, error);
    default:
        return KVR_OK;
    }
}

static kvr_status read_records(struct recording_reader *reader, struct kvtrace_reader *file,
                               const char *path, struct kvr_error *error)
{
    const struct kvtrace_record *record;
    struct kvr_error inner = {0};
    struct kvtrace_ending ending;
    kvr_status status;

    while ((status = kvtrace_next(file, &record, &inner)) == KVR_OK) {
        status = take(reader, record, &inner);
        if (status != KVR_OK)
            return kvr_error_set(error, status, "trace", "%s, line %" PRIu64 ": %s", path,
                                 kvtrace_line(file), inner.detail);
    }
    if (status == KVR_NOT_FOUND) {
        kvtrace_ending(file, &ending);
        snprintf(reader->trace->problem, sizeof(reader->trace->problem), "%s", ending.problem);
        return KVR_OK;
    }
    *error = inner;
    return status;
}

static kvr_status keep_definitions(struct recording_reader *reader, struct kvr_error *error)
{
    struct replay_recording *recording = reader->recording;
    const struct kvtrace_book *book = &reader->book;

    recording->agent_count = (uint32_t)book->agent_count;
    recording->agents = calloc((size_t)book->agent_count + 1, sizeof(recording->agents[0]));
    if (recording->agents == NULL)
        return recording_no_memory(error);
    for (int64_t i = 0; i < book->agent_count; i++) {
        recording->agents[i].role = book->agents[i]->role;
        snprintf(recording->agents[i].name, sizeof(recording->agents[i].name), "%s",
                 book->agents[i]->name);
    }
    if (book->geometry_count > 0 && book->geometries[0]->group_count > 0)
        recording->page_tokens = (uint32_t)book->geometries[0]->groups[0].page_tokens;
    return KVR_OK;
}

static int fault_by_time(const void *left, const void *right)
{
    const struct replay_recorded_fault *a = left, *b = right;

    return (a->at_us > b->at_us) - (a->at_us < b->at_us);
}

/* By time, from the first request; those of a part that is not played are left out. */
static void order_faults(struct replay_recording *recording, int64_t first_us, int64_t end_us)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < recording->fault_count; i++) {
        struct replay_recorded_fault *fault = &recording->faults[i];

        fault->at_us -= first_us;
        if (fault->at_us > KVTRACE_NUMBER_MAX / 1000)
            fault->at_us = KVTRACE_NUMBER_MAX / 1000;
        if (fault->at_us < end_us)
            recording->faults[count++] = *fault;
    }
    recording->fault_count = count;
    if (count > 0)
        qsort(recording->faults, count, sizeof(recording->faults[0]), fault_by_time);
}

/* Without the requests that transfers stand for. Times count from the first. */
static kvr_status finish(struct recording_reader *reader, const char *path, uint32_t limit,
                         struct kvr_error *error)
{
    struct replay_recording *recording = reader->recording;
    struct kvr_trace *trace = reader->trace;
    int64_t first_us = INT64_MAX, end_us = INT64_MAX;
    uint32_t count;

    recording_settle(reader);
    count = trace->request_count;
    if (count == 0)
        return kvr_error_set(error, KVR_MALFORMED, "trace", "%s holds no request", path);
    for (uint32_t i = 0; i < count; i++)
        if ((int64_t)trace->requests[i].at < first_us)
            first_us = (int64_t)trace->requests[i].at;
    for (uint32_t i = 0; i < count; i++)
        trace->requests[i].at = recording_ns((int64_t)trace->requests[i].at - first_us);
    kvr_trace_sort(trace);
    if (limit > 0 && count >= limit)
        trace->problem[0] = '\0'; /* no request is missing */
    if (limit > 0 && count > limit) {
        trace->request_count = limit;
        end_us = (int64_t)(trace->requests[limit].at / KVR_US);
    }
    order_faults(recording, first_us, end_us);
    return keep_definitions(reader, error);
}

kvr_status replay_recording_read(const char *path, uint32_t limit, struct kvr_trace *trace,
                                 struct replay_recording *recording, struct kvr_error *error)
{
    struct recording_reader reader = {.trace = trace, .recording = recording};
    const char *slash = strrchr(path, '/');
    struct kvtrace_reader *file;
    kvr_status status;

    KVR_TRY(kvtrace_open(path, &file, error));
    snprintf(trace->name, sizeof(trace->name), "%s", slash != NULL ? slash + 1 : path);
    status = read_records(&reader, file, path, error);
    if (status == KVR_OK)
        status = finish(&reader, path, limit, error);
    kvtrace_close(file);
    kvtrace_book_close(&reader.book);
    recording_names_done(&reader);
    free(reader.entries);
    return status;
}

void replay_recording_done(struct replay_recording *recording)
{
    free(recording->items);
    free(recording->numbers);
    free(recording->agents);
    free(recording->faults);
    *recording = (struct replay_recording){0};
}

/* ---- placement ------------------------------------------------------------------------------- */

/* names, numbers: room for all recorded agents. */
static kvr_status map_role(struct replay_recording *recording, const struct replay_agents *agents,
                           kvr_role role, const char **names, uint32_t *numbers,
                           uint32_t *ret_shared, struct kvr_error *error)
{
    uint32_t count = 0, next = 0;

    for (uint32_t i = 0; i < recording->agent_count; i++)
        if (recording->agents[i].role == role)
            names[count++] = recording->agents[i].name;
    KVR_TRY(replay_agents_map(agents, role, names, count, numbers, ret_shared, error));
    for (uint32_t i = 0; i < recording->agent_count; i++)
        if (recording->agents[i].role == role)
            recording->agents[i].given = numbers[next++];
    return KVR_OK;
}

static kvr_status map_agents(struct replay_recording *recording, const struct replay_agents *agents,
                             uint32_t ret_shared[REPLAY_ROLES], struct kvr_error *error)
{
    const char **names = calloc((size_t)recording->agent_count + 1, sizeof(*names));
    uint32_t *numbers = calloc((size_t)recording->agent_count + 1, sizeof(*numbers));
    kvr_status status = KVR_OK;

    if (names == NULL || numbers == NULL)
        status = recording_no_memory(error);
    else
        for (int role = 0; status == KVR_OK && role < (int)REPLAY_ROLES; role++)
            status = map_role(recording, agents, (kvr_role)role, names, numbers, &ret_shared[role],
                              error);
    free((void *)names);
    free(numbers);
    return status;
}

kvr_status replay_recording_place(struct replay_recording *recording, const struct kvr_trace *trace,
                                  const struct replay_agents *agents,
                                  uint32_t ret_shared[REPLAY_ROLES], struct kvr_error *error)
{
    KVR_TRY(map_agents(recording, agents, ret_shared, error));
    for (uint32_t i = 0; i < trace->request_count; i++) {
        struct replay_recorded *item = &recording->items[trace->requests[i].number];

        replay_agents_in_turn(agents, i, item->numbers);
        for (int role = 0; role < (int)REPLAY_ROLES; role++)
            if (item->agents[role] != KVTRACE_NONE)
                item->numbers[role] = recording->agents[item->agents[role]].given;
    }
    return KVR_OK;
}
