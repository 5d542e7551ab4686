#include "tools/trace/trace_recorder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uthash.h>

#include "base/text.h"
#include "trace/geometry.h"
#include "trace/kvtrace_order.h"

/* A transfer that had not ended: a later page may have it again. */
struct live {
    UT_hash_handle hh;
    char id[KVTRACE_ID_BYTES];
};

struct trace_recorder {
    struct kvtrace_writer *writer;
    struct kvtrace_book book;
    struct kvtrace_order *order;  /* of records that have a time */
    struct kvtrace_record record; /* what is written next */
    int64_t start_us;
    bool plain;
    uint8_t key[TRACE_KEY_BYTES];
    struct live *live;
    uint64_t transfers;
    int64_t rows[2][2 * KVR_LAYERS_MAX + 4 * KVR_RAILS_MAX]; /* of the record, by role */
    struct kvtrace_pages_room {                              /* of its page tables */
        int64_t *numbers;
        size_t count, capacity;
    } pages;
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

/* "" where the member is null, or no text. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static int64_t number_of(const json_t *object, const char *key)
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

static kvr_status put(struct trace_recorder *recorder, struct kvr_error *error)
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

/* ---- agents ---------------------------------------------------------------------------------- */

static int64_t find_agent(const struct trace_recorder *recorder, const char *name, kvr_role role)
{
    for (int64_t i = 0; i < recorder->book.agent_count; i++)
        if (recorder->book.agents[i]->role == role &&
            strcmp(recorder->book.agents[i]->name, name) == 0)
            return i;
    return KVTRACE_NONE;
}

static void set_rails(struct kvtrace_agent *agent, const json_t *rails)
{
    size_t index;
    json_t *rail;

    json_array_foreach(rails, index, rail)
    {
        struct kvtrace_rail *one = &agent->rails[index];

        if (index == KVR_RAILS_MAX)
            break;
        copy_text(one->name, sizeof(one->name), text_of(rail, "name"));
        copy_text(one->provider, sizeof(one->provider), text_of(rail, "provider"));
        copy_text(one->plane, sizeof(one->plane),
                  text_of(json_object_get(rail, "traits"), "plane"));
        one->speed_bps = number_of(rail, "speed_bits_per_second");
        one->group = number_of(rail, "group");
        agent->rail_count = index + 1;
    }
}

/* Also one that a transfer names and the scheduler knows no more. */
static kvr_status add_agent(struct trace_recorder *recorder, const char *name, kvr_role role,
                            const json_t *agent, struct kvr_error *error)
{
    struct kvtrace_agent *one = &recorder->record.agent;

    kvtrace_clear(&recorder->record, KVTRACE_AGENT);
    one->number = recorder->book.agent_count;
    one->role = role;
    copy_text(one->name, sizeof(one->name), name);
    if (agent != NULL) {
        copy_text(one->host, sizeof(one->host), text_of(agent, "host"));
        copy_text(one->version, sizeof(one->version), text_of(agent, "version"));
        copy_text(one->options, sizeof(one->options), text_of(agent, "options"));
        set_rails(one, json_object_get(agent, "rails"));
    }
    return put(recorder, error);
}

static int64_t find_geometry(const struct trace_recorder *recorder,
                             const struct kvtrace_geometry *wanted)
{
    for (int64_t i = 0; i < recorder->book.geometry_count; i++) {
        const struct kvtrace_geometry *one = recorder->book.geometries[i];

        if (strcmp(one->model, wanted->model) == 0 && strcmp(one->dtype, wanted->dtype) == 0 &&
            one->layers == wanted->layers && one->group_count == wanted->group_count &&
            memcmp(one->groups, wanted->groups, one->group_count * sizeof(one->groups[0])) == 0)
            return i;
    }
    return KVTRACE_NONE;
}

/* A group's place is its number. Which layers look back no farther than a window, no agent knows.
 */
static void set_geometry(struct kvtrace_geometry *one, const char *text)
{
    struct kvr_geometry geometry;

    if (!kvr_geometry_read(text, &geometry))
        return;
    copy_text(one->dtype, sizeof(one->dtype), geometry.dtype);
    one->layers = geometry.layers;
    for (uint32_t i = 0; i < geometry.group_count; i++) {
        const struct kvr_geometry_group *group = &geometry.groups[i];
        struct kvtrace_kv_group *to = &one->groups[group->group];

        if (group->page_tokens == 0)
            copy_text(to->kind, sizeof(to->kind), "state");
        to->layers = group->layers;
        to->page_tokens = group->page_tokens;
        to->page_bytes = (int64_t)group->page_bytes;
        if (one->group_count <= group->group)
            one->group_count = group->group + 1;
    }
}

/* Of an older agent, and of an engine that is gone, the model's name alone is known, or nothing. */
static kvr_status geometry_of(struct trace_recorder *recorder, const json_t *engine,
                              int64_t *ret_number, struct kvr_error *error)
{
    struct kvtrace_geometry *one = &recorder->record.geometry;

    *ret_number = KVTRACE_NONE;
    kvtrace_clear(&recorder->record, KVTRACE_GEOMETRY);
    copy_text(one->model, sizeof(one->model), text_of(engine, "model"));
    set_geometry(one, text_of(engine, "geometry"));
    if (one->model[0] == '\0' && one->group_count == 0)
        return KVR_OK;
    *ret_number = find_geometry(recorder, one);
    if (*ret_number != KVTRACE_NONE)
        return KVR_OK;
    *ret_number = one->number = recorder->book.geometry_count;
    return put(recorder, error);
}

static kvr_status add_engine(struct trace_recorder *recorder, int64_t agent, const json_t *engine,
                             struct kvr_error *error)
{
    struct kvtrace_engine *one = &recorder->record.engine;
    int64_t geometry;

    KVR_TRY(geometry_of(recorder, engine, &geometry, error));
    kvtrace_clear(&recorder->record, KVTRACE_ENGINE);
    one->number = recorder->book.engine_count;
    one->agent = agent;
    one->geometry = geometry;
    copy_text(one->name, sizeof(one->name), text_of(engine, "engine"));
    one->tp = number_of(engine, "tp");
    one->tp_size = number_of(engine, "tp_size");
    one->pp = number_of(engine, "pp");
    one->pp_size = number_of(engine, "pp_size");
    return put(recorder, error);
}

static kvr_status add_dropped(struct trace_recorder *recorder, int64_t agent, int64_t count,
                              const char *what, struct kvr_error *error)
{
    if (count <= 0)
        return KVR_OK;
    kvtrace_clear(&recorder->record, KVTRACE_DROPPED);
    recorder->record.dropped = (struct kvtrace_dropped){.agent = agent, .count = count};
    copy_text(recorder->record.dropped.what, sizeof(recorder->record.dropped.what), what);
    return put(recorder, error);
}

kvr_status trace_record_agents(struct trace_recorder *recorder, const json_t *agents,
                               struct kvr_error *error)
{
    size_t index, place;
    json_t *agent, *engine;

    json_array_foreach(agents, index, agent)
    {
        bool source = strcmp(text_of(agent, "role"), "prefill") == 0;
        int64_t number = recorder->book.agent_count;

        KVR_TRY(add_agent(recorder, text_of(agent, "name"),
                          source ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET, agent, error));
        json_array_foreach(json_object_get(agent, "engines"), place, engine)
            KVR_TRY(add_engine(recorder, number, engine, error));
        KVR_TRY(add_dropped(recorder, number, number_of(agent, "events_dropped"),
                            "events since the agent's start", error));
        KVR_TRY(add_dropped(recorder, number,
                            number_of(json_object_get(agent, "counters"), "records_dropped"),
                            "spans or page tables since the agent's start", error));
    }
    return KVR_OK;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static int64_t find_engine(const struct trace_recorder *recorder, int64_t agent, const json_t *side)
{
    const char *name = text_of(side, "engine");

    for (int64_t i = 0; i < recorder->book.engine_count && name[0] != '\0'; i++) {
        const struct kvtrace_engine *engine = recorder->book.engines[i];

        if (engine->agent == agent && strcmp(engine->name, name) == 0 &&
            engine->tp == number_of(side, "tp") && engine->pp == number_of(side, "pp"))
            return i;
    }
    return KVTRACE_NONE;
}

/* What a transfer names and no agent has any more is added first. */
static kvr_status find_side(struct trace_recorder *recorder, const json_t *side, kvr_role role,
                            int64_t *ret_agent, int64_t *ret_engine, struct kvr_error *error)
{
    const char *name = text_of(side, "agent");

    *ret_agent = *ret_engine = KVTRACE_NONE;
    if (name[0] == '\0')
        return KVR_OK;
    *ret_agent = find_agent(recorder, name, role);
    if (*ret_agent == KVTRACE_NONE) {
        *ret_agent = recorder->book.agent_count;
        KVR_TRY(add_agent(recorder, name, role, NULL, error));
    }
    *ret_engine = find_engine(recorder, *ret_agent, side);
    if (*ret_engine != KVTRACE_NONE || text_of(side, "engine")[0] == '\0')
        return KVR_OK;
    *ret_engine = recorder->book.engine_count;
    return add_engine(recorder, *ret_agent, side, error);
}

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

    side->layer_first = number_of(spans, "layer_first");
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
        pages->group = number_of(group, "group");
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
        kvr_event_kind kind = kvr_event_from_name(text_of(stage, "stage"));
        bool source = strcmp(text_of(stage, "role"), "source") == 0;
        double seconds = json_number_value(json_object_get(stage, "seconds"));

        if (kind != KVR_EVENT_KIND_END)
            transfer->sides[source ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET].stages_us[kind] =
                llround(seconds * 1e6);
    }
}

static kvtrace_outcome outcome_of(const json_t *transfer)
{
    const char *state = text_of(transfer, "state");

    for (int i = 0; i < KVTRACE_OUTCOME_END; i++)
        if (strcmp(state, kvtrace_outcome_name((kvtrace_outcome)i)) == 0)
            return (kvtrace_outcome)i;
    return KVTRACE_LIVE; /* any stage */
}

/* A sentence may name the request. One of a newer scheduler's reasons is left out. */
static void set_reason(struct trace_recorder *recorder, const json_t *transfer)
{
    struct kvtrace_transfer *one = &recorder->record.transfer;
    const char *request = text_of(transfer, "request"), *detail = text_of(transfer, "detail");
    bool known;

    (void)kvr_status_from_name(text_of(transfer, "reason"), &known);
    copy_text(one->reason, sizeof(one->reason), known ? text_of(transfer, "reason") : "");
    if (recorder->plain || request[0] == '\0' || strstr(detail, request) == NULL)
        copy_text(one->detail, sizeof(one->detail), detail);
}

static void set_amounts(struct trace_recorder *recorder, const json_t *transfer)
{
    struct kvtrace_transfer *one = &recorder->record.transfer;

    hash_id(recorder, text_of(transfer, "id"), one->id, sizeof(one->id));
    hash_id(recorder, text_of(transfer, "request"), one->request, sizeof(one->request));
    copy_text(one->tenant, sizeof(one->tenant), text_of(transfer, "tenant"));
    one->attempt = number_of(transfer, "attempt");
    one->at_us = number_of(transfer, "opened_us") - recorder->start_us;
    one->tokens = number_of(transfer, "tokens");
    one->skip_tokens = number_of(transfer, "skip_tokens");
    if (one->skip_tokens > one->tokens)
        one->skip_tokens = one->tokens;
    one->bytes = number_of(transfer, "bytes");
    one->layers = number_of(transfer, "layers");
    one->chunks = number_of(transfer, "chunks");
    one->retries = number_of(transfer, "retries");
    one->pieces = number_of(transfer, "pieces");
    one->outcome = outcome_of(transfer);
    set_reason(recorder, transfer);
    set_stages(one, json_object_get(transfer, "stages"));
}

/* False: it was written when it had not ended, or *ret_status says that there is no memory. */
static bool is_new(struct trace_recorder *recorder, const json_t *transfer, kvr_status *ret_status)
{
    const char *id = text_of(transfer, "id");
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
        KVR_TRY(find_side(recorder, json_object_get(transfer, names[role]), (kvr_role)role,
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
        side->path = kvr_path_from_name(text_of(given, "path"));
        set_spans(recorder, (kvr_role)role,
                  json_object_get(json_object_get(transfer, "spans"), names[role]));
        set_pages(recorder, (kvr_role)role, json_object_get(pages, names[role]));
    }
    KVR_TRY(put(recorder, error));
    recorder->transfers++;
    return KVR_OK;
}

/* An agent is found by its name, whatever its role. */
static int64_t agent_of(const struct trace_recorder *recorder, const char *name)
{
    int64_t number = find_agent(recorder, name, KVR_ROLE_SOURCE);

    return number != KVTRACE_NONE ? number : find_agent(recorder, name, KVR_ROLE_TARGET);
}

/* Of one that began before the recording, the part in it. A text of another agent's name stays: it
 * names no request. */
kvr_status trace_record_fault(struct trace_recorder *recorder, const json_t *fault,
                              struct kvr_error *error)
{
    struct kvtrace_fault *one = &recorder->record.fault;
    int64_t agent = agent_of(recorder, text_of(fault, "agent"));
    const json_t *rail = json_object_get(fault, "rail");
    const struct kvtrace_agent *known = kvtrace_book_agent(&recorder->book, agent);
    int64_t at = moment_of(recorder, text_of(fault, "at"));
    int64_t until = moment_of(recorder, text_of(fault, "until"));

    kvtrace_clear(&recorder->record, KVTRACE_FAULT);
    one->at_us = at > 0 ? at : 0;
    one->for_us = until > one->at_us ? until - one->at_us : 0;
    one->agent = agent;
    if (json_is_integer(rail) && known != NULL &&
        json_integer_value(rail) < (json_int_t)known->rail_count)
        one->rail = json_integer_value(rail);
    one->amount = number_of(fault, "amount");
    copy_text(one->kind, sizeof(one->kind), text_of(fault, "kind"));
    copy_text(one->text, sizeof(one->text), text_of(fault, "text"));
    return put(recorder, error);
}

kvr_status trace_record_mark(struct trace_recorder *recorder, const json_t *mark,
                             struct kvr_error *error)
{
    struct kvtrace_mark *one = &recorder->record.mark;

    kvtrace_clear(&recorder->record, KVTRACE_MARK);
    one->at_us = moment_of(recorder, text_of(mark, "at"));
    one->agent = agent_of(recorder, text_of(mark, "agent"));
    copy_text(one->kind, sizeof(one->kind), text_of(mark, "kind"));
    copy_text(one->before, sizeof(one->before), text_of(mark, "before"));
    copy_text(one->after, sizeof(one->after), text_of(mark, "after"));
    return put(recorder, error);
}
