/* `kvrail trace merge`: several traces as one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/trace/trace_seen.h"
#include "tools/trace/trace_tool.h"
#include "trace/kvtrace_order.h"

#define OPTIONS struct merge_options

struct merge_options {
    struct kvr_option_list files;
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    TRACE_OUTPUT_OPTION(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail trace merge",
    .description =
        "Writes several traces as one, by time, in whatever order they are. The earliest start\n"
        "counts. An agent with the same name, role, host and rails in two traces is one in the\n"
        "result. A record that several traces have, with the same id and time, is written once: "
        "of\n"
        "a transfer the one that says more. Ids are the same where both recordings had one\n"
        "--key-file, or --plain-ids.",
    .arguments = "FILE FILE…",
    .arguments_offset = offsetof(OPTIONS, files),
    .arguments_min = 2,
    .arguments_max = KVR_OPTION_LIST_MAX,
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail trace merge monday.kvtrace tuesday.kvtrace --output week.kvtrace.zst",
};

/* New numbers of one kind, by the old ones. */
struct numbers {
    int64_t *at;
    int64_t count;
};

struct input {
    struct trace_walk walk;
    int64_t shift_us; /* of its times */
    struct numbers agents, geometries, engines;
    uint64_t put_end; /* of the merge's records in order, those of the inputs so far */
    bool open;
};

struct merge {
    const struct merge_options *options;
    struct input inputs[KVR_OPTION_LIST_MAX];
    struct kvtrace_writer *writer;
    struct kvtrace_book book;     /* of the result */
    struct kvtrace_record record; /* with the numbers and times of the result */
    struct kvtrace_order *order;
    struct trace_seen seen;
    uint64_t put_count;      /* records in order */
    uint64_t twice, changed; /* records that several traces have; of them, not the same in each */
    bool good;
};

static kvr_status no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory to merge traces");
}

static kvr_status number(struct numbers *numbers, int64_t new, struct kvr_error *error)
{
    int64_t *larger = realloc(numbers->at, (size_t)(numbers->count + 1) * sizeof(numbers->at[0]));

    if (larger == NULL)
        return no_memory(error);
    numbers->at = larger;
    numbers->at[numbers->count++] = new;
    return KVR_OK;
}

/* The walk has checked that the old number is one. */
static void rename_number(const struct numbers *numbers, int64_t *number)
{
    if (*number != KVTRACE_NONE)
        *number = numbers->at[*number];
}

/* ---- definitions ----------------------------------------------------------------------------- */

static bool same_rails(const struct kvtrace_agent *a, const struct kvtrace_agent *b)
{
    return a->rail_count == b->rail_count &&
           memcmp(a->rails, b->rails, a->rail_count * sizeof(a->rails[0])) == 0;
}

static int64_t find_agent(const struct kvtrace_book *book, const struct kvtrace_agent *agent)
{
    int64_t at = 0;

    while (at < book->agent_count && !(book->agents[at]->role == agent->role &&
                                       strcmp(book->agents[at]->name, agent->name) == 0 &&
                                       strcmp(book->agents[at]->host, agent->host) == 0 &&
                                       same_rails(book->agents[at], agent)))
        at++;
    return at;
}

static int64_t find_geometry(const struct kvtrace_book *book,
                             const struct kvtrace_geometry *geometry)
{
    struct kvtrace_geometry one = *geometry;
    int64_t at = 0;

    for (; at < book->geometry_count; at++) {
        one.number = at;
        if (memcmp(book->geometries[at], &one, sizeof(one)) == 0)
            break;
    }
    return at;
}

static int64_t find_engine(const struct kvtrace_book *book, const struct kvtrace_engine *engine)
{
    struct kvtrace_engine one = *engine;
    int64_t at = 0;

    for (; at < book->engine_count; at++) {
        one.number = at;
        if (memcmp(book->engines[at], &one, sizeof(one)) == 0)
            break;
    }
    return at;
}

static kvr_status write_new(struct merge *merge, struct kvr_error *error)
{
    KVR_TRY(kvtrace_book_take(&merge->book, &merge->record, error));
    return kvtrace_write(merge->writer, &merge->record, error);
}

/* A definition of an input, in merge->record: written unless the result has it. */
static kvr_status define(struct merge *merge, struct input *input, struct kvr_error *error)
{
    struct kvtrace_record *record = &merge->record;
    struct kvtrace_book *book = &merge->book;
    struct numbers *numbers;
    int64_t place, count;

    if (record->kind == KVTRACE_AGENT) {
        numbers = &input->agents;
        count = book->agent_count;
        place = record->agent.number = find_agent(book, &record->agent);
    } else if (record->kind == KVTRACE_GEOMETRY) {
        numbers = &input->geometries;
        count = book->geometry_count;
        place = record->geometry.number = find_geometry(book, &record->geometry);
    } else {
        numbers = &input->engines;
        count = book->engine_count;
        rename_number(&input->agents, &record->engine.agent);
        rename_number(&input->geometries, &record->engine.geometry);
        place = record->engine.number = find_engine(book, &record->engine);
    }
    if (place == count)
        KVR_TRY(write_new(merge, error));
    return number(numbers, place, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static kvr_status put(struct merge *merge, const struct input *input, struct kvr_error *error)
{
    struct kvtrace_record *record = &merge->record;

    switch (record->kind) {
    case KVTRACE_REQUEST:
        record->request.at_us += input->shift_us;
        rename_number(&input->agents, &record->request.source);
        rename_number(&input->agents, &record->request.target);
        break;
    case KVTRACE_TRANSFER:
        record->transfer.at_us += input->shift_us;
        for (int role = 0; role < 2; role++) {
            rename_number(&input->agents, &record->transfer.sides[role].agent);
            rename_number(&input->engines, &record->transfer.sides[role].engine);
        }
        break;
    case KVTRACE_FAULT:
        record->fault.at_us += input->shift_us;
        rename_number(&input->agents, &record->fault.agent);
        break;
    case KVTRACE_MARK:
        record->mark.at_us += input->shift_us;
        rename_number(&input->agents, &record->mark.agent);
        break;
    case KVTRACE_DROPPED:
        rename_number(&input->agents, &record->dropped.agent);
        return kvtrace_write(merge->writer, record, error);
    default:
        return KVR_OK;
    }
    KVR_TRY(kvtrace_book_take(&merge->book, record, error));
    merge->put_count++;
    return kvtrace_order_put(merge->order, record, error);
}

static kvr_status read_input(struct merge *merge, struct input *input, struct kvr_error *error)
{
    const struct kvtrace_record *record;
    bool good;

    while ((record = trace_walk_next(&input->walk, &good)) != NULL) {
        kvtrace_copy(&merge->record, record);
        if (record->kind == KVTRACE_AGENT || record->kind == KVTRACE_GEOMETRY ||
            record->kind == KVTRACE_ENGINE)
            KVR_TRY(define(merge, input, error));
        else
            KVR_TRY(put(merge, input, error));
    }
    input->put_end = merge->put_count;
    merge->good &= good;
    return KVR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Two records that follow each other are one thing that two traces have. */
static bool is_same(const struct kvtrace_record *a, const struct kvtrace_record *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case KVTRACE_TRANSFER:
        return a->transfer.at_us == b->transfer.at_us && a->transfer.id[0] != '\0' &&
               strcmp(a->transfer.id, b->transfer.id) == 0;
    case KVTRACE_FAULT:
        return memcmp(&a->fault, &b->fault, sizeof(a->fault)) == 0;
    case KVTRACE_MARK:
        return memcmp(&a->mark, &b->mark, sizeof(a->mark)) == 0;
    default:
        return false;
    }
}

/* How much a transfer says. One that ended says more than a live one. */
static uint64_t says(const struct kvtrace_transfer *transfer)
{
    uint64_t sum = transfer->outcome != KVTRACE_LIVE ? UINT64_C(1) << 32 : 0;

    for (int role = 0; role < 2; role++) {
        const struct kvtrace_side *side = &transfer->sides[role];

        sum += (side->agent != KVTRACE_NONE) + (side->engine != KVTRACE_NONE);
        sum += side->layers_us.count + side->rails.count;
        for (int stage = 0; stage < KVR_EVENT_KIND_END; stage++)
            sum += side->stages_us[stage] != KVTRACE_NEVER;
        for (size_t i = 0; i < side->pages_count; i++)
            sum += side->pages[i].runs.count;
    }
    return sum;
}

/* The one to keep. */
static const struct kvtrace_record *choose(struct merge *merge, const struct kvtrace_record *a,
                                           const struct kvtrace_record *b)
{
    merge->twice++;
    if (a->kind != KVTRACE_TRANSFER || says(&a->transfer) == says(&b->transfer))
        return a;
    merge->changed++;
    return says(&b->transfer) > says(&a->transfer) ? b : a;
}

/* Of the record that came last. */
static uint32_t input_of(const struct merge *merge)
{
    uint32_t input = 0;

    while (kvtrace_order_number(merge->order) >= merge->inputs[input].put_end)
        input++;
    return input;
}

/* The records that have a time. */
static kvr_status write_ordered(struct merge *merge, struct kvr_error *error)
{
    const struct kvtrace_record *held = NULL, *record;
    kvr_status status;

    while ((status = kvtrace_order_next(merge->order, &record, error)) == KVR_OK) {
        bool seen = false;

        if (record->kind == KVTRACE_REQUEST)
            KVR_TRY(trace_seen_take(&merge->seen, &record->request, input_of(merge), &seen, error));
        if (seen) {
            merge->twice++;
            kvtrace_order_keep(merge->order);
            continue;
        }
        if (held != NULL && is_same(held, record)) {
            const struct kvtrace_record *kept = choose(merge, held, record);

            if (kept == held) /* the next one takes the other's place */
                kvtrace_order_keep(merge->order);
            held = kept;
            continue;
        }
        if (held != NULL)
            KVR_TRY(kvtrace_write(merge->writer, held, error));
        held = record;
    }
    if (status == KVR_NOT_FOUND)
        return held != NULL ? kvtrace_write(merge->writer, held, error) : KVR_OK;
    return status;
}

static kvr_status merge_records(struct merge *merge, struct kvr_error *error)
{
    for (uint32_t i = 0; i < merge->options->files.count; i++)
        KVR_TRY(read_input(merge, &merge->inputs[i], error));
    return write_ordered(merge, error);
}

/* ---- open and close -------------------------------------------------------------------------- */

static bool open_inputs(struct merge *merge)
{
    for (uint32_t i = 0; i < merge->options->files.count; i++) {
        struct input *input = &merge->inputs[i];

        input->open = trace_walk_open(&input->walk, command.name, merge->options->files.items[i]);
        if (!input->open)
            return false;
    }
    return true;
}

/* The earliest start, of those that have one. */
static void set_start(struct merge *merge, struct kvtrace_header *ret_header)
{
    *ret_header = *kvtrace_header(merge->inputs[0].walk.reader);
    for (uint32_t i = 1; i < merge->options->files.count; i++) {
        const struct kvtrace_header *header = kvtrace_header(merge->inputs[i].walk.reader);

        ret_header->plain_ids |= header->plain_ids;
        if (header->start_us != 0 &&
            (ret_header->start_us == 0 || header->start_us < ret_header->start_us)) {
            ret_header->start_us = header->start_us;
            memcpy(ret_header->start, header->start, sizeof(header->start));
        }
    }
    for (uint32_t i = 0; i < merge->options->files.count; i++) {
        int64_t start_us = kvtrace_header(merge->inputs[i].walk.reader)->start_us;

        merge->inputs[i].shift_us = start_us != 0 ? start_us - ret_header->start_us : 0;
    }
}

static kvr_status merge_traces(struct merge *merge, struct kvr_error *error)
{
    struct kvtrace_header header;
    kvr_status status;

    set_start(merge, &header);
    KVR_TRY(kvtrace_order_open(KVTRACE_ORDER_ROOM, &merge->order, error));
    KVR_TRY(kvtrace_create(merge->options->output, &header, &merge->writer, error));
    status = merge_records(merge, error);
    if (status == KVR_OK)
        return kvtrace_finish(merge->writer, error);
    kvtrace_abandon(merge->writer);
    return status;
}

static bool close_inputs(struct merge *merge)
{
    bool valid = true;

    for (uint32_t i = 0; i < merge->options->files.count; i++) {
        struct input *input = &merge->inputs[i];
        struct kvtrace_ending ending;

        if (!input->open)
            continue;
        valid &= trace_walk_close(&input->walk, &ending);
        if (ending.problem[0] != '\0')
            fprintf(stderr, "%s: %s: %s\n", command.name, merge->options->files.items[i],
                    ending.problem);
        free(input->agents.at);
        free(input->geometries.at);
        free(input->engines.at);
    }
    kvtrace_book_close(&merge->book);
    merge->order = kvtrace_order_close(merge->order);
    trace_seen_done(&merge->seen);
    return valid;
}

int trace_merge_main(int argc, char **argv)
{
    static OPTIONS config;
    static struct merge merge = {.options = &config, .good = true};
    struct kvr_error error = {0};
    kvr_status status = KVR_INVALID;
    bool valid;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (open_inputs(&merge)) {
        status = merge_traces(&merge, &error);
        if (status != KVR_OK)
            trace_fail(command.name, error.detail);
        else if (merge.twice > 0)
            fprintf(stderr,
                    "note: %" PRIu64 " records are in several traces and are written once; of "
                    "%" PRIu64 " transfers among them one trace says more, and its record is "
                    "written\n",
                    merge.twice, merge.changed);
    }
    valid = close_inputs(&merge);
    return status == KVR_OK && merge.good && valid ? 0 : 1;
}
