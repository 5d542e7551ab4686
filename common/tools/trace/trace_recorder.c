#include "tools/trace/trace_recorder_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uthash.h>

#include "base/text.h"

/* A transfer that had not ended: a later page may have it again. */
struct live {
    UT_hash_handle hh;
    char id[KVTRACE_ID_BYTES];
};

struct trace_recorder *trace_recorder_open(struct kvtrace_writer *writer, int64_t start_us,
                                           const uint8_t key[TRACE_KEY_BYTES])
{
    struct trace_recorder *recorder = calloc(1, sizeof(*recorder));
    struct kvr_error ignored;

    if (recorder == NULL)
        return NULL;
    if (kvtrace_order_open(KVTRACE_ORDER_ROOM, &recorder->order, &ignored) != KVR_OK)
        return trace_recorder_close(recorder);
    recorder->writer = writer;
    recorder->start_us = start_us;
    recorder->plain = key == NULL;
    if (key != NULL)
        memcpy(recorder->key, key, sizeof(recorder->key));
    return recorder;
}

struct trace_recorder *trace_recorder_close(struct trace_recorder *recorder)
{
    struct live *live, *next;

    if (recorder == NULL)
        return NULL;
    HASH_ITER(hh, recorder->live, live, next)
    {
        HASH_DEL(recorder->live, live);
        free(live);
    }
    kvtrace_book_close(&recorder->book);
    kvtrace_order_close(recorder->order);
    free(recorder->pages.numbers);
    free(recorder);
    return NULL;
}

uint64_t trace_recorder_transfers(const struct trace_recorder *recorder)
{
    return recorder->transfers;
}

/* ---- values ---------------------------------------------------------------------------------- */

const char *recorder_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

int64_t recorder_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void copy_text(char *to, size_t room, const char *text)
{
    kvr_text_show(text, room, to);
}

/* Of "2026-11-27T10:00:00.123Z", since the start. */
static int64_t moment_of(const struct trace_recorder *recorder, const char *text)
{
    struct tm parts = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    double fraction = rest != NULL && *rest == '.' ? strtod(rest, NULL) : 0;

    return rest != NULL
               ? (int64_t)timegm(&parts) * 1000000 + llround(fraction * 1e6) - recorder->start_us
               : 0;
}

/* The same for the same id, and no way back. */
static void hash_id(const struct trace_recorder *recorder, const char *id, char *to, size_t room)
{
    if (recorder->plain || id[0] == '\0') {
        copy_text(to, room, id);
        return;
    }
    snprintf(to, room, "%016" PRIx64, trace_hash(recorder->key, id, strlen(id)));
}

kvr_status recorder_put(struct trace_recorder *recorder, struct kvr_error *error)
{
    int64_t at_us;

    KVR_TRY(kvtrace_book_take(&recorder->book, &recorder->record, error));
    if (kvtrace_moment(&recorder->record, &at_us))
        return kvtrace_order_put(recorder->order, &recorder->record, error);
    return kvtrace_write(recorder->writer, &recorder->record, error);
}

kvr_status trace_recorder_finish(struct trace_recorder *recorder, struct kvr_error *error)
{
    const struct kvtrace_record *record;
    kvr_status status;

    while ((status = kvtrace_order_next(recorder->order, &record, error)) == KVR_OK)
        KVR_TRY(kvtrace_write(recorder->writer, record, error));
    return status == KVR_NOT_FOUND ? KVR_OK : status;
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* The rows of a list; width: numbers of one. Wrong ones, or too many, are left out. */
static size_t read_rows(const json_t *list, size_t width, size_t room, int64_t *to)
{
    size_t count = 0, index, place;
    json_t *row, *number;

    json_array_foreach(list, index, row)
    {
        if (json_array_size(row) != width || count + width > room)
            continue;
        json_array_foreach(row, place, number) to[count++] = json_integer_value(number);
    }
    return count;
}

/* Rails that the agent's record has not, as one that the scheduler knows no more. */
static size_t known_rails(const struct trace_recorder *recorder, int64_t agent, int64_t *rows,
                          size_t count)
{
    const struct kvtrace_agent *known = kvtrace_book_agent(&recorder->book, agent);
    size_t kept = 0;

    for (size_t i = 0; i < count && known != NULL; i += 4) {
        if (rows[i] < 0 || rows[i] >= (int64_t)known->rail_count)
            continue;
        memmove(&rows[kept], &rows[i], 4 * sizeof(rows[0]));
        kept += 4;
    }
    return kept;
}

static void set_spans(struct trace_recorder *recorder, kvr_role role, const json_t *spans)
{
    struct kvtrace_side *side = &recorder->record.transfer.sides[role];
    int64_t *layers = recorder->rows[role], *rails = layers + 2 * KVR_LAYERS_MAX;
    size_t count = read_rows(json_object_get(spans, "layers_us"), 2, 2 * KVR_LAYERS_MAX, layers);

    side->layer_first = recorder_number(spans, "layer_first");
    side->layers_us = (struct kvtrace_rows){layers, count};
    count = read_rows(json_object_get(spans, "rails"), 4, 4 * KVR_RAILS_MAX, rails);
    side->rails = (struct kvtrace_rows){rails, known_rails(recorder, side->agent, rails, count)};
}

/* Room for so many numbers more: of both sides of one transfer. Rows that were taken before move.
 */
static bool pages_room(struct trace_recorder *recorder, size_t more)
{
    struct kvtrace_pages_room *room = &recorder->pages;
    size_t capacity = room->count + more;
    int64_t *grown;

    if (capacity <= room->capacity)
        return true;
    grown = realloc(room->numbers, capacity * sizeof(grown[0]));
    if (grown == NULL)
        return false;
    room->numbers = grown;
    room->capacity = capacity;
    return true;
}

static size_t count_numbers(const json_t *groups)
{
    size_t count = 0, index;
    json_t *group;

    json_array_foreach(groups, index, group) count +=
        2 * json_array_size(json_object_get(group, "runs"));
    return count;
}

/* There is room for all of its numbers. */
static void set_pages(struct trace_recorder *recorder, kvr_role role, const json_t *groups)
{
    struct kvtrace_side *side = &recorder->record.transfer.sides[role];
    struct kvtrace_pages_room *room = &recorder->pages;
    size_t index;
    json_t *group;

    json_array_foreach(groups, index, group)
    {
        struct kvtrace_pages *pages = &side->pages[side->pages_count];
        int64_t *numbers = room->numbers + room->count;
        size_t count;

        if (side->pages_count == KVR_GROUPS_MAX)
            return;
        count = read_rows(json_object_get(group, "runs"), 2, room->capacity - room->count, numbers);
        pages->group = recorder_number(group, "group");
        pages->runs = (struct kvtrace_rows){numbers, count};
        room->count += count;
        side->pages_count++;
    }
}

static void set_stages(struct kvtrace_transfer *transfer, const json_t *stages)
{
    size_t index;
    json_t *stage;

    json_array_foreach(stages, index, stage)
    {
        kvr_event_kind kind = kvr_event_from_name(recorder_text(stage, "stage"));
        bool source = strcmp(recorder_text(stage, "role"), "source") == 0;
        double seconds = json_number_value(json_object_get(stage, "seconds"));

        if (kind != KVR_EVENT_KIND_END)
            transfer->sides[source ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET].stages_us[kind] =
                llround(seconds * 1e6);
    }
}

static kvtrace_outcome outcome_of(const json_t *transfer)
{
    const char *state = recorder_text(transfer, "state");

    for (int i = 0; i < KVTRACE_OUTCOME_END; i++)
        if (strcmp(state, kvtrace_outcome_name((kvtrace_outcome)i)) == 0)
            return (kvtrace_outcome)i;
    return KVTRACE_LIVE; /* any stage */
}

/* A sentence may name the request. One of a newer scheduler's reasons is left out. */
static void set_reason(struct trace_recorder *recorder, const json_t *transfer)
{
    struct kvtrace_transfer *one = &recorder->record.transfer;
    const char *request = recorder_text(transfer, "request"),
               *detail = recorder_text(transfer, "detail");
    bool known;

    (void)kvr_status_from_name(recorder_text(transfer, "reason"), &known);
    copy_text(one->reason, sizeof(one->reason), known ? recorder_text(transfer, "reason") : "");
    if (recorder->plain || request[0] == '\0' || strstr(detail, request) == NULL)
        copy_text(one->detail, sizeof(one->detail), detail);
}

static void set_amounts(struct trace_recorder *recorder, const json_t *transfer)
{
    struct kvtrace_transfer *one = &recorder->record.transfer;

    hash_id(recorder, recorder_text(transfer, "id"), one->id, sizeof(one->id));
    hash_id(recorder, recorder_text(transfer, "request"), one->request, sizeof(one->request));
    copy_text(one->tenant, sizeof(one->tenant), recorder_text(transfer, "tenant"));
    one->attempt = recorder_number(transfer, "attempt");
    one->at_us = recorder_number(transfer, "opened_us") - recorder->start_us;
    one->tokens = recorder_number(transfer, "tokens");
    one->skip_tokens = recorder_number(transfer, "skip_tokens");
    if (one->skip_tokens > one->tokens)
        one->skip_tokens = one->tokens;
    one->bytes = recorder_number(transfer, "bytes");
    one->layers = recorder_number(transfer, "layers");
    one->chunks = recorder_number(transfer, "chunks");
    one->retries = recorder_number(transfer, "retries");
    one->pieces = recorder_number(transfer, "pieces");
    one->outcome = outcome_of(transfer);
    set_reason(recorder, transfer);
    set_stages(one, json_object_get(transfer, "stages"));
}

/* False: it was written when it had not ended, or *ret_status says that there is no memory. */
static bool is_new(struct trace_recorder *recorder, const json_t *transfer, kvr_status *ret_status)
{
    const char *id = recorder_text(transfer, "id");
    struct live *live;

    *ret_status = KVR_OK;
    HASH_FIND_STR(recorder->live, id, live);
    if (live != NULL || outcome_of(transfer) != KVTRACE_LIVE)
        return live == NULL;
    live = calloc(1, sizeof(*live));
    if (live == NULL) {
        *ret_status = KVR_NO_MEMORY;
        return false;
    }
    copy_text(live->id, sizeof(live->id), id);
    HASH_ADD_STR(recorder->live, id, live);
    return true;
}

kvr_status trace_record_transfer(struct trace_recorder *recorder, const json_t *transfer,
                                 struct kvr_error *error)
{
    static const char *const names[] = {"source", "target"};
    const json_t *pages = json_object_get(transfer, "pages");
    int64_t agents[2], engines[2];
    kvr_status status;

    if (!is_new(recorder, transfer, &status))
        return status == KVR_OK ? KVR_OK
                                : kvr_error_set(error, status, "trace", "no memory for a transfer");
    for (int role = 0; role < 2; role++)
        KVR_TRY(recorder_side(recorder, json_object_get(transfer, names[role]), (kvr_role)role,
                              &agents[role], &engines[role], error));
    recorder->pages.count = 0;
    if (!pages_room(recorder, count_numbers(json_object_get(pages, names[KVR_ROLE_SOURCE])) +
                                  count_numbers(json_object_get(pages, names[KVR_ROLE_TARGET]))))
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for page tables");
    kvtrace_clear(&recorder->record, KVTRACE_TRANSFER);
    set_amounts(recorder, transfer);
    for (int role = 0; role < 2; role++) {
        struct kvtrace_side *side = &recorder->record.transfer.sides[role];
        const json_t *given = json_object_get(transfer, names[role]);

        side->agent = agents[role];
        side->engine = engines[role];
        side->path = kvr_path_from_name(recorder_text(given, "path"));
        set_spans(recorder, (kvr_role)role,
                  json_object_get(json_object_get(transfer, "spans"), names[role]));
        set_pages(recorder, (kvr_role)role, json_object_get(pages, names[role]));
    }
    KVR_TRY(recorder_put(recorder, error));
    recorder->transfers++;
    return KVR_OK;
}

/* Of one that began before the recording, the part in it. A text of another agent's name stays: it
 * names no request. */
kvr_status trace_record_fault(struct trace_recorder *recorder, const json_t *fault,
                              struct kvr_error *error)
{
    struct kvtrace_fault *one = &recorder->record.fault;
    int64_t agent = recorder_agent(recorder, recorder_text(fault, "agent"));
    const json_t *rail = json_object_get(fault, "rail");
    const struct kvtrace_agent *known = kvtrace_book_agent(&recorder->book, agent);
    int64_t at = moment_of(recorder, recorder_text(fault, "at"));
    int64_t until = moment_of(recorder, recorder_text(fault, "until"));

    kvtrace_clear(&recorder->record, KVTRACE_FAULT);
    one->at_us = at > 0 ? at : 0;
    one->for_us = until > one->at_us ? until - one->at_us : 0;
    one->agent = agent;
    if (json_is_integer(rail) && known != NULL &&
        json_integer_value(rail) < (json_int_t)known->rail_count)
        one->rail = json_integer_value(rail);
    one->amount = recorder_number(fault, "amount");
    copy_text(one->kind, sizeof(one->kind), recorder_text(fault, "kind"));
    copy_text(one->text, sizeof(one->text), recorder_text(fault, "text"));
    return recorder_put(recorder, error);
}

kvr_status trace_record_mark(struct trace_recorder *recorder, const json_t *mark,
                             struct kvr_error *error)
{
    struct kvtrace_mark *one = &recorder->record.mark;

    kvtrace_clear(&recorder->record, KVTRACE_MARK);
    one->at_us = moment_of(recorder, recorder_text(mark, "at"));
    one->agent = recorder_agent(recorder, recorder_text(mark, "agent"));
    copy_text(one->kind, sizeof(one->kind), recorder_text(mark, "kind"));
    copy_text(one->before, sizeof(one->before), recorder_text(mark, "before"));
    copy_text(one->after, sizeof(one->after), recorder_text(mark, "after"));
    return recorder_put(recorder, error);
}
