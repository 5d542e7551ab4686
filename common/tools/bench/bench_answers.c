#include "tools/bench/bench_answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_child.h"

#define PAGE       500  /* transfers of one answer, the most that the API gives */
#define ALONE_MOST 1000 /* transfers that are asked for alone */
#define PATH_BYTES 96
#define TRIES      60 /* of a question that the scheduler has no time for */
#define PAUSE_NS   (500 * KVR_MS)

struct answers {
    const struct bench_fleet *fleet;
    const struct scheduler_call *calls;
    uint32_t call_count, asked; /* asked: how many questions there were */
    struct kvr_error *error;
    uint8_t *seen; /* by the number of the transfer */
    uint64_t count;
};

static const char *state_of(kvr_status outcome)
{
    switch (outcome) {
    case KVR_OK:
        return "done";
    case KVR_CANCELLED:
        return "cancelled";
    case KVR_EXPIRED:
        return "expired";
    default:
        return "failed";
    }
}

static bool is_text(const json_t *object, const char *member, const char *text)
{
    const char *value = json_string_value(json_object_get(object, member));

    return value != NULL && strcmp(value, text) == 0;
}

/* Transfers of other fleets are passed over. */
static kvr_status look_at(struct answers *answers, const json_t *shown)
{
    const char *request = json_string_value(json_object_get(shown, "request"));
    struct bench_transfer transfer;
    char id[24];
    uint64_t number;

    if (request == NULL || !bench_fleet_number(request, &number) ||
        number >= answers->fleet->transfers)
        return KVR_OK;
    transfer = bench_fleet_transfer(answers->fleet, number);
    snprintf(id, sizeof(id), "%016" PRIx64, transfer.id);
    if (!is_text(shown, "id", id))
        return KVR_OK;
    if (answers->seen[number]++ != 0)
        return kvr_error_set(answers->error, KVR_NOT_FOUND, "bench",
                             "the API lists transfer %s twice", id);
    if (!is_text(shown, "state", state_of(transfer.outcome)))
        return kvr_error_set(
            answers->error, KVR_NOT_FOUND, "bench", "the API shows transfer %s as %s, and it is %s",
            id, json_string_value(json_object_get(shown, "state")), state_of(transfer.outcome));
    answers->count++;
    return KVR_OK;
}

/* The API gives up what takes too long, on a busy machine. */
static json_t *get(struct answers *answers, const char *path)
{
    const struct scheduler_call *call = &answers->calls[answers->asked++ % answers->call_count];
    json_t *answer = scheduler_get(call, path, NULL, answers->error);

    for (int tries = 1; answer == NULL && answers->error->status == KVR_SYSTEM && tries < TRIES;
         tries++) {
        bench_sleep(PAUSE_NS);
        answer = scheduler_get(call, path, NULL, answers->error);
    }
    return answer;
}

/* One page of the list; *after: where the next one begins, "" at the end. */
static kvr_status look_at_page(struct answers *answers, char after[24])
{
    char path[PATH_BYTES];
    json_t *page, *shown;
    const char *next;
    kvr_status status = KVR_OK;
    size_t index;

    snprintf(path, sizeof(path), "/api/v1/transfers?limit=%d%s%s", PAGE,
             after[0] != '\0' ? "&after=" : "", after);
    page = get(answers, path);
    if (page == NULL)
        return answers->error->status;
    json_array_foreach(json_object_get(page, "transfers"), index, shown)
    {
        if (status == KVR_OK)
            status = look_at(answers, shown);
    }
    next = json_string_value(json_object_get(page, "next"));
    snprintf(after, 24, "%s", next != NULL ? next : "");
    json_decref(page);
    return status;
}

static kvr_status look_at_list(struct answers *answers)
{
    char after[24] = "";

    do {
        KVR_TRY(look_at_page(answers, after));
    } while (after[0] != '\0' && answers->count < answers->fleet->transfers);
    if (answers->count == answers->fleet->transfers)
        return KVR_OK;
    return kvr_error_set(answers->error, KVR_NOT_FOUND, "bench",
                         "the API lists %" PRIu64 " of %" PRIu64 " transfers", answers->count,
                         answers->fleet->transfers);
}

static kvr_status look_at_one(struct answers *answers, uint64_t number)
{
    struct bench_transfer transfer = bench_fleet_transfer(answers->fleet, number);
    char path[PATH_BYTES];
    json_t *shown;
    size_t count;

    snprintf(path, sizeof(path), "/api/v1/transfers/%016" PRIx64, transfer.id);
    shown = get(answers, path);
    if (shown == NULL)
        return answers->error->status;
    count = json_array_size(json_object_get(shown, "events"));
    json_decref(shown);
    if (count == BENCH_FLEET_EVENTS)
        return KVR_OK;
    return kvr_error_set(answers->error, KVR_NOT_FOUND, "bench",
                         "the API shows %zu of %d events of transfer %016" PRIx64, count,
                         BENCH_FLEET_EVENTS, transfer.id);
}

/* How long each layer took, of a transfer that was asked for alone. */
static kvr_status look_at_layers(struct answers *answers, uint64_t number)
{
    struct bench_transfer transfer = bench_fleet_transfer(answers->fleet, number);
    uint32_t layers = answers->fleet->span_layers;
    char path[PATH_BYTES];
    json_t *timeline;
    size_t count;

    if (layers == 0)
        return KVR_OK;
    snprintf(path, sizeof(path), "/api/v1/transfers/%016" PRIx64 "/timeline", transfer.id);
    timeline = get(answers, path);
    if (timeline == NULL)
        return answers->error->status;
    count = json_array_size(json_object_get(timeline, "layers"));
    json_decref(timeline);
    if (count == layers)
        return KVR_OK;
    return kvr_error_set(answers->error, KVR_NOT_FOUND, "bench",
                         "the API shows %zu of %u layers of transfer %016" PRIx64, count, layers,
                         transfer.id);
}

static kvr_status look_at_some(struct answers *answers)
{
    uint64_t step = answers->fleet->transfers / ALONE_MOST + 1;

    for (uint64_t number = 0; number < answers->fleet->transfers; number += step) {
        KVR_TRY(look_at_one(answers, number));
        KVR_TRY(look_at_layers(answers, number));
    }
    return KVR_OK;
}

/* Each has counted what it took since its start, of other fleets too. */
static kvr_status look_at_summaries(struct answers *answers)
{
    uint64_t wanted = answers->fleet->transfers * BENCH_FLEET_EVENTS, events = 0;

    for (uint32_t i = 0; i < answers->call_count; i++) {
        json_t *summary = get(answers, "/api/v1/summary");

        if (summary == NULL)
            return answers->error->status;
        events += (uint64_t)json_integer_value(json_object_get(summary, "events"));
        json_decref(summary);
    }
    if (events >= wanted)
        return KVR_OK;
    return kvr_error_set(answers->error, KVR_NOT_FOUND, "bench",
                         "the API counts %" PRIu64 " of %" PRIu64 " events", events, wanted);
}

kvr_status bench_answers_check(const struct bench_fleet *fleet, const struct scheduler_call *calls,
                               uint32_t count, struct kvr_error *error)
{
    struct answers answers = {.fleet = fleet,
                              .calls = calls,
                              .call_count = count,
                              .error = error,
                              .seen = calloc(fleet->transfers, 1)};
    kvr_status status;

    if (answers.seen == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for the transfers");
    status = look_at_list(&answers);
    if (status == KVR_OK)
        status = look_at_some(&answers);
    if (status == KVR_OK)
        status = look_at_summaries(&answers);
    free(answers.seen);
    return status;
}
