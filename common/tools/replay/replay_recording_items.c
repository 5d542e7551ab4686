#include "tools/replay/replay_recording_items.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct recording_name {
    UT_hash_handle hh;
    char id[KVR_REQUEST_BYTES];
    uint32_t number; /* of its `request` record's item */
    uint32_t latest; /* item of the last transfer that names it; UINT32_MAX: none does */
    bool is_record;  /* there is one */
};

kvr_status recording_no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for the trace's transfers");
}

bool recording_reserve(void **array, size_t *capacity, size_t count, size_t more, size_t bytes)
{
    size_t room = *capacity > 0 ? *capacity : 256;
    void *larger;

    if (count + more <= *capacity)
        return true;
    while (room < count + more)
        room *= 2;
    larger = realloc(*array, room * bytes);
    if (larger == NULL)
        return false;
    *array = larger;
    *capacity = room;
    return true;
}

kvr_ns recording_ns(int64_t us)
{
    return us <= 0 ? 0 : us < KVTRACE_NUMBER_MAX / 1000 ? (kvr_ns)us * KVR_US : KVR_NEVER;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* The item of the request that was added to the trace last. */
static struct replay_recorded *add_item(struct recording_reader *reader)
{
    struct replay_recording *recording = reader->recording;
    uint32_t number = reader->trace->request_count - 1;
    struct replay_recorded *item;

    if (!recording_reserve((void **)&reader->entries, &reader->entry_capacity, number, 1,
                           sizeof(reader->entries[0])) ||
        !recording_reserve((void **)&recording->items, &reader->item_capacity, number, 1,
                           sizeof(*item)))
        return NULL;
    reader->entries[number] = (struct recording_entry){.previous = UINT32_MAX};
    item = &recording->items[number];
    *item = (struct replay_recorded){.agents = {KVTRACE_NONE, KVTRACE_NONE},
                                     .cancelled = KVR_NEVER,
                                     .cancelled_by = KVR_ROLE_TARGET};
    recording->item_count = number + 1;
    return item;
}

static int32_t priority_of(int64_t priority)
{
    return priority > INT32_MAX ? INT32_MAX : priority < INT32_MIN ? INT32_MIN : (int32_t)priority;
}

/* NULL without memory. */
static struct recording_name *name_request(struct recording_reader *reader, const char *id)
{
    struct recording_name *named;

    HASH_FIND_STR(reader->names, id, named);
    if (named != NULL)
        return named;
    named = calloc(1, sizeof(*named));
    if (named == NULL)
        return NULL;
    snprintf(named->id, sizeof(named->id), "%s", id);
    named->latest = UINT32_MAX;
    HASH_ADD_STR(reader->names, id, named);
    return named;
}

kvr_status recording_take_request(struct recording_reader *reader,
                                  const struct kvtrace_request *request, struct kvr_error *error)
{
    const struct kvtrace_rows *blocks = &request->blocks;
    struct replay_recorded *item;
    struct recording_name *named = NULL;

    if (request->id[0] != '\0') {
        named = name_request(reader, request->id);
        if (named == NULL)
            return recording_no_memory(error);
        if (named->latest != UINT32_MAX)
            return KVR_OK; /* that stands for it */
    }
    KVR_TRY(kvr_trace_add(reader->trace, (kvr_ns)request->at_us, (uint64_t)request->input_tokens,
                          (uint64_t)request->output_tokens,
                          blocks->count > 0 ? (const uint64_t *)blocks->numbers : NULL,
                          blocks->count, error));
    item = add_item(reader);
    if (item == NULL)
        return recording_no_memory(error);
    item->agents[KVR_ROLE_SOURCE] = request->source;
    item->agents[KVR_ROLE_TARGET] = request->target;
    item->priority = priority_of(request->priority);
    if (named != NULL) {
        named->is_record = true;
        named->number = reader->trace->request_count - 1;
    }
    return KVR_OK;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static kvr_status keep_numbers(struct recording_reader *reader, size_t count,
                               struct replay_numbers *ret_numbers, struct kvr_error *error)
{
    struct replay_recording *recording = reader->recording;

    if (!recording_reserve((void **)&recording->numbers, &reader->number_capacity,
                           recording->number_count, count, sizeof(recording->numbers[0])))
        return recording_no_memory(error);
    *ret_numbers = (struct replay_numbers){recording->number_count, (uint32_t)count};
    recording->number_count += count;
    return KVR_OK;
}

static kvr_status keep_pages(struct recording_reader *reader, const struct kvtrace_side *side,
                             struct replay_numbers ret_runs[REPLAY_RECORDED_GROUPS],
                             struct kvr_error *error)
{
    for (size_t i = 0; i < side->pages_count; i++) {
        const struct kvtrace_pages *pages = &side->pages[i];
        struct replay_numbers *runs;

        if (pages->group >= REPLAY_RECORDED_GROUPS || pages->runs.count == 0)
            continue;
        runs = &ret_runs[pages->group];
        KVR_TRY(keep_numbers(reader, pages->runs.count, runs, error));
        memcpy(reader->recording->numbers + runs->first, pages->runs.numbers,
               pages->runs.count * sizeof(int64_t));
    }
    return KVR_OK;
}

/* A layer is final after those before it, and one without a time with the one before it. */
static kvr_status keep_ready(struct recording_reader *reader, const struct kvtrace_side *source,
                             struct replay_numbers *ret_ready, struct kvr_error *error)
{
    size_t layers = source->layers_us.count / 2;
    int64_t latest = 0;
    bool known = false;

    for (size_t i = 0; i < layers; i++)
        known = known || source->layers_us.numbers[2 * i] != KVTRACE_NEVER;
    if (!known)
        return KVR_OK;
    KVR_TRY(keep_numbers(reader, layers, ret_ready, error));
    for (size_t i = 0; i < layers; i++) {
        int64_t ready = source->layers_us.numbers[2 * i];

        if (ready > latest && recording_ns(ready) != KVR_NEVER)
            latest = ready;
        reader->recording->numbers[ret_ready->first + i] = latest;
    }
    return KVR_OK;
}

/* When a side knew of the end. */
static int64_t end_of(const struct kvtrace_side *side)
{
    int64_t failing = side->stages_us[KVR_EVENT_FAILING];

    return failing != KVTRACE_NEVER ? failing : side->stages_us[KVR_EVENT_ENDED];
}

/* The side that knew of the end first asked for it. */
static void keep_cancel(const struct kvtrace_transfer *transfer, struct replay_recorded *item)
{
    int64_t source = end_of(&transfer->sides[KVR_ROLE_SOURCE]);
    int64_t target = end_of(&transfer->sides[KVR_ROLE_TARGET]);
    bool by_source = source != KVTRACE_NEVER && (target == KVTRACE_NEVER || source < target);
    int64_t at_us = transfer->cancelled_us != KVTRACE_NEVER ? transfer->cancelled_us
                    : by_source                             ? source
                                                            : target;

    if (transfer->outcome != KVTRACE_CANCELLED)
        return;
    item->cancelled = recording_ns(at_us);
    item->cancelled_by = by_source ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
}

/* The request that the transfer is one of gives it its blocks, as far as the tokens reach. */
static kvr_status add_transfer(struct recording_reader *reader,
                               const struct kvtrace_transfer *transfer,
                               const struct recording_name *named, struct kvr_error *error)
{
    struct kvr_trace *trace = reader->trace;
    struct kvr_trace_request *request;

    KVR_TRY(kvr_trace_add(trace, (kvr_ns)transfer->at_us, (uint64_t)transfer->tokens, 0, NULL, 0,
                          error));
    if (named == NULL || !named->is_record)
        return KVR_OK;
    request = &trace->requests[trace->request_count - 1];
    reader->entries[named->number].gone = true;
    request->output_tokens = trace->requests[named->number].output_tokens;
    if (request->block_count <= trace->requests[named->number].block_count)
        request->block_first = trace->requests[named->number].block_first;
    return KVR_OK;
}

/* ---- halves ---------------------------------------------------------------------------------- */

static bool is_half(const struct replay_recorded *item)
{
    return (item->agents[KVR_ROLE_SOURCE] == KVTRACE_NONE) !=
           (item->agents[KVR_ROLE_TARGET] == KVTRACE_NONE);
}

static bool may_be_one(int64_t one, int64_t other)
{
    return one == KVTRACE_NONE || other == KVTRACE_NONE || one == other;
}

/* Both are of one transfer: one is a half, and together they have both sides. */
static bool belong(const struct recording_reader *reader, uint32_t one, uint32_t other)
{
    const struct recording_entry *a = &reader->entries[one], *b = &reader->entries[other];
    const struct replay_recorded *x = &reader->recording->items[one];
    const struct replay_recorded *y = &reader->recording->items[other];
    bool fit =
        a->attempt == b->attempt && !a->ended_well && !b->ended_well && (is_half(x) || is_half(y));

    for (int role = 0; role < (int)REPLAY_ROLES; role++)
        fit = fit && may_be_one(x->agents[role], y->agents[role]) &&
              may_be_one(a->engines[role], b->engines[role]) &&
              (x->agents[role] != KVTRACE_NONE || y->agents[role] != KVTRACE_NONE);
    return fit;
}

/* Whichever asked for the end first did. Times count from the earlier start. */
static void join_times(struct recording_reader *reader, uint32_t into, uint32_t from)
{
    struct replay_recorded *item = &reader->recording->items[into];
    const struct replay_recorded *other = &reader->recording->items[from];
    int64_t at = (int64_t)reader->trace->requests[into].at;
    int64_t other_at = (int64_t)reader->trace->requests[from].at;
    int64_t start = at < other_at ? at : other_at, end = INT64_MAX;

    if (item->cancelled != KVR_NEVER)
        end = at + (int64_t)(item->cancelled / KVR_US);
    if (other->cancelled != KVR_NEVER && other_at + (int64_t)(other->cancelled / KVR_US) < end) {
        end = other_at + (int64_t)(other->cancelled / KVR_US);
        item->cancelled_by = other->cancelled_by;
    }
    item->cancelled = end != INT64_MAX ? recording_ns(end - start) : KVR_NEVER;
    reader->trace->requests[into].at = (kvr_ns)start;
}

static void join(struct recording_reader *reader, uint32_t into, uint32_t from)
{
    struct replay_recorded *item = &reader->recording->items[into];
    const struct replay_recorded *other = &reader->recording->items[from];

    join_times(reader, into, from);
    for (int role = 0; role < (int)REPLAY_ROLES; role++) {
        if (item->agents[role] == KVTRACE_NONE) {
            item->agents[role] = other->agents[role];
            reader->entries[into].engines[role] = reader->entries[from].engines[role];
        }
        for (uint32_t group = 0; group < REPLAY_RECORDED_GROUPS; group++)
            if (item->runs[role][group].count == 0)
                item->runs[role][group] = other->runs[role][group];
    }
    if (item->ready.count == 0)
        item->ready = other->ready;
    if (item->skip_tokens < other->skip_tokens)
        item->skip_tokens = other->skip_tokens;
    if (item->deadline == 0)
        item->deadline = other->deadline;
    if (item->priority == 0)
        item->priority = other->priority;
    reader->entries[from].gone = true;
}

/* Whether another record of the request, from `latest` back, has the same transfer. */
static bool join_other(struct recording_reader *reader, uint32_t number, uint32_t latest)
{
    for (uint32_t other = latest; other != UINT32_MAX; other = reader->entries[other].previous) {
        if (!belong(reader, other, number))
            continue;
        join(reader, other, number);
        return true;
    }
    return false;
}

static kvr_status fill_item(struct recording_reader *reader,
                            const struct kvtrace_transfer *transfer, struct replay_recorded *item,
                            struct kvr_error *error)
{
    item->transfer = true;
    item->priority = priority_of(transfer->priority);
    item->skip_tokens = (uint64_t)transfer->skip_tokens;
    item->deadline = recording_ns(transfer->deadline_us);
    keep_cancel(transfer, item);
    for (int role = 0; role < (int)REPLAY_ROLES; role++) {
        item->agents[role] = transfer->sides[role].agent;
        KVR_TRY(keep_pages(reader, &transfer->sides[role], item->runs[role], error));
    }
    return keep_ready(reader, &transfer->sides[KVR_ROLE_SOURCE], &item->ready, error);
}

static void fill_entry(const struct kvtrace_transfer *transfer, struct recording_entry *entry)
{
    entry->ended_well = transfer->outcome == KVTRACE_DONE;
    entry->attempt = transfer->attempt;
    for (int role = 0; role < (int)REPLAY_ROLES; role++)
        entry->engines[role] = transfer->sides[role].engine;
}

kvr_status recording_take_transfer(struct recording_reader *reader,
                                   const struct kvtrace_transfer *transfer, struct kvr_error *error)
{
    uint32_t number = reader->trace->request_count;
    struct recording_name *named = NULL;
    struct replay_recorded *item;

    if (transfer->tokens == 0)
        return KVR_OK;
    if (transfer->request[0] != '\0' && (named = name_request(reader, transfer->request)) == NULL)
        return recording_no_memory(error);
    KVR_TRY(add_transfer(reader, transfer, named, error));
    item = add_item(reader);
    if (item == NULL)
        return recording_no_memory(error);
    fill_entry(transfer, &reader->entries[number]);
    KVR_TRY(fill_item(reader, transfer, item, error));
    if (named == NULL || join_other(reader, number, named->latest))
        return KVR_OK;
    reader->entries[number].previous = named->latest;
    named->latest = number;
    return KVR_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* It ended before it met the other side, and no other record has that. */
static bool is_lone(const struct recording_reader *reader, uint32_t number)
{
    const struct replay_recorded *item = &reader->recording->items[number];

    return item->transfer && !reader->entries[number].ended_well && is_half(item);
}

void recording_settle(struct recording_reader *reader)
{
    struct kvr_trace *trace = reader->trace;
    uint32_t count = 0;

    for (uint32_t i = 0; i < trace->request_count; i++) {
        bool gone = reader->entries[i].gone, lone = !gone && is_lone(reader, i);

        reader->recording->lone_count += lone;
        if (gone || lone)
            continue;
        reader->recording->transfer_count += reader->recording->items[i].transfer;
        trace->requests[count++] = trace->requests[i];
    }
    trace->request_count = count;
}

void recording_names_done(struct recording_reader *reader)
{
    struct recording_name *named, *next;

    HASH_ITER(hh, reader->names, named, next)
    {
        HASH_DEL(reader->names, named);
        free(named);
    }
}
