#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/store_rows.h"

/* Reads from left to right, in the order of the table's columns. */
struct reader {
    sqlite3_stmt *statement;
    int column;
};

static int64_t get_int(struct reader *reader)
{
    return sqlite3_column_int64(reader->statement, reader->column++);
}

static const char *get_text(struct reader *reader)
{
    const char *text = (const char *)sqlite3_column_text(reader->statement, reader->column++);

    return text != NULL ? text : "";
}

static void get_name(struct reader *reader, char *to, size_t room)
{
    snprintf(to, room, "%s", get_text(reader));
}

#define GET_NAME(reader, field) get_name(reader, field, sizeof(field))

static void get_uuid(struct reader *reader, struct kvr_uuid *uuid)
{
    const void *bytes = sqlite3_column_blob(reader->statement, reader->column);

    if (bytes != NULL &&
        sqlite3_column_bytes(reader->statement, reader->column) == (int)sizeof(uuid->bytes))
        memcpy(uuid->bytes, bytes, sizeof(uuid->bytes));
    reader->column++;
}

static kvr_status get_status(struct reader *reader)
{
    bool known;
    kvr_status status = kvr_status_from_name(get_text(reader), &known);

    return known ? status : KVR_INTERNAL;
}

/* Calls `row` for each row; false when the database fails. */
static bool each_row(sqlite3_stmt *statement, void (*row)(struct reader *reader, void *self),
                     void *self)
{
    int result;

    if (statement == NULL)
        return false;
    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        struct reader reader = {statement, 0};

        row(&reader, self);
    }
    sqlite3_reset(statement);
    return result == SQLITE_DONE;
}

static void read_side(struct reader *reader, struct transfer_side *side)
{
    GET_NAME(reader, side->agent);
    side->boot = (uint64_t)get_int(reader);
    side->rails = (uint64_t)get_int(reader);
    side->ended = sqlite3_column_bytes(reader->statement, reader->column) > 0;
    if (side->ended)
        side->outcome = get_status(reader);
    else
        reader->column++;
    side->lost = get_int(reader) != 0;
    GET_NAME(reader, side->detail);
    for (int stage = 0; stage < STAGE_END; stage++)
        side->at_ns[stage] = get_int(reader);
}

static void read_transfer(struct reader *reader, struct transfer *transfer)
{
    memset(transfer, 0, sizeof(*transfer));
    transfer->ordinal = get_int(reader);
    transfer->id = (uint64_t)get_int(reader);
    if (!transfer_state_from_name(get_text(reader), &transfer->state))
        transfer->state = STATE_LOST;
    reader->column++; /* live follows from state */
    transfer->reason = get_status(reader);
    GET_NAME(reader, transfer->request);
    transfer->attempt = (uint32_t)get_int(reader);
    get_uuid(reader, &transfer->source_engine);
    get_uuid(reader, &transfer->target_engine);
    transfer->tokens = (uint64_t)get_int(reader);
    transfer->skip_tokens = (uint64_t)get_int(reader);
    transfer->bytes = (uint64_t)get_int(reader);
    transfer->layers = (uint32_t)get_int(reader);
    transfer->chunks = (uint32_t)get_int(reader);
    transfer->retries = (uint32_t)get_int(reader);
    transfer->updated_ns = get_int(reader);
    read_side(reader, &transfer->sides[KVR_ROLE_SOURCE]);
    read_side(reader, &transfer->sides[KVR_ROLE_TARGET]);
    transfer->source_rank.tp = (uint32_t)get_int(reader);
    transfer->source_rank.pp = (uint32_t)get_int(reader);
    transfer->target_rank.tp = (uint32_t)get_int(reader);
    transfer->target_rank.pp = (uint32_t)get_int(reader);
    transfer->pieces = (uint64_t)get_int(reader);
    transfer->fragment_bytes = (uint64_t)get_int(reader);
    transfer->sides[KVR_ROLE_SOURCE].path = kvr_path_from_name(get_text(reader));
    transfer->sides[KVR_ROLE_TARGET].path = kvr_path_from_name(get_text(reader));
    transfer->fragments_staged = get_int(reader) != 0;
    transfer->fragments_direct.writes = (uint64_t)get_int(reader);
    transfer->fragments_direct.ns = (uint64_t)get_int(reader);
    transfer->fragments_copied.writes = (uint64_t)get_int(reader);
    transfer->fragments_copied.ns = (uint64_t)get_int(reader);
    transfer->limits.pieces_local = (uint32_t)get_int(reader);
    transfer->limits.pieces_remote = (uint32_t)get_int(reader);
    transfer->limits.bytes = (uint64_t)get_int(reader);
    transfer->limits.calibrated = get_int(reader) != 0;
}

static bool get_one(sqlite3_stmt *statement, struct transfer *ret_transfer, bool *ret_found)
{
    struct reader reader = {statement, 0};
    int result = sqlite3_step(statement);

    if (result == SQLITE_ROW)
        read_transfer(&reader, ret_transfer);
    sqlite3_reset(statement);
    *ret_found = result == SQLITE_ROW;
    return result == SQLITE_ROW || result == SQLITE_DONE;
}

bool store_get_transfer(struct store *store, uint64_t id, struct transfer *ret_transfer,
                        bool *ret_found)
{
    sqlite3_stmt *statement = store_statement(store, SQL_GET_TRANSFER);

    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)id);
    return get_one(statement, ret_transfer, ret_found);
}

bool store_get_request(struct store *store, const char *request, int64_t attempt,
                       struct transfer *ret_transfer, bool *ret_found)
{
    sqlite3_stmt *statement = store_statement(store, SQL_OF_REQUEST);

    if (statement == NULL)
        return false;
    sqlite3_bind_text(statement, 1, request, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, attempt);
    return get_one(statement, ret_transfer, ret_found);
}

struct id_list {
    uint64_t *ids;
    size_t room, count;
};

static void add_id(struct reader *reader, void *self)
{
    struct id_list *list = self;

    if (list->count < list->room)
        list->ids[list->count++] = (uint64_t)get_int(reader);
}

bool store_live_of_agent(struct store *store, const char *agent, uint64_t *ids, size_t room,
                         size_t *ret_count)
{
    sqlite3_stmt *statement = store_statement(store, SQL_LIVE_OF_AGENT);
    struct id_list list = {ids, room, 0};

    sqlite3_bind_text(statement, 1, agent, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)room);
    if (!each_row(statement, add_id, &list))
        return false;
    *ret_count = list.count;
    return true;
}

struct transfer_visitor {
    transfer_visit *visit;
    void *self;
};

static void visit_transfer(struct reader *reader, void *self)
{
    const struct transfer_visitor *visitor = self;
    struct transfer transfer;

    read_transfer(reader, &transfer);
    visitor->visit(visitor->self, &transfer);
}

bool store_list_transfers(struct store *store, const struct transfer_filter *filter,
                          transfer_visit *visit, void *self)
{
    static const store_sql sqls[] = {[FILTER_ALL] = SQL_LIST_ALL,
                                     [FILTER_LIVE] = SQL_LIST_LIVE,
                                     [FILTER_STATE] = SQL_LIST_STATE,
                                     [FILTER_REQUEST] = SQL_LIST_REQUEST};
    sqlite3_stmt *statement = store_statement(store, sqls[filter->kind]);
    struct transfer_visitor visitor = {visit, self};

    sqlite3_bind_int64(statement, 1, filter->before != 0 ? filter->before : INT64_MAX);
    sqlite3_bind_int64(statement, 2, filter->limit);
    if (filter->kind == FILTER_STATE)
        sqlite3_bind_text(statement, 3, transfer_state_name(filter->state), -1, SQLITE_STATIC);
    if (filter->kind == FILTER_REQUEST)
        sqlite3_bind_text(statement, 3, filter->request, -1, SQLITE_STATIC);
    return each_row(statement, visit_transfer, &visitor);
}

struct event_visitor {
    event_visit *visit;
    void *self;
};

static void visit_event(struct reader *reader, void *self)
{
    const struct event_visitor *visitor = self;
    struct stored_event event;

    event.agent = get_text(reader);
    event.sequence = (uint64_t)get_int(reader);
    event.role = get_text(reader);
    event.kind = get_text(reader);
    event.at_ns = get_int(reader);
    event.peer = get_text(reader);
    event.bytes = (uint64_t)get_int(reader);
    event.retries = (uint64_t)get_int(reader);
    event.outcome = get_text(reader);
    event.detail = get_text(reader);
    visitor->visit(visitor->self, &event);
}

bool store_list_events(struct store *store, uint64_t transfer, uint32_t limit, event_visit *visit,
                       void *self)
{
    sqlite3_stmt *statement = store_statement(store, SQL_LIST_EVENTS);
    struct event_visitor visitor = {visit, self};

    sqlite3_bind_int64(statement, 1, (sqlite3_int64)transfer);
    sqlite3_bind_int64(statement, 2, limit);
    return each_row(statement, visit_event, &visitor);
}

static void count_state(struct reader *reader, void *self)
{
    uint64_t *counts = self;
    transfer_state state;

    if (transfer_state_from_name(get_text(reader), &state))
        counts[state] = (uint64_t)get_int(reader);
}

bool store_count_states(struct store *store, uint64_t ret_counts[STATE_END])
{
    memset(ret_counts, 0, STATE_END * sizeof(ret_counts[0]));
    return each_row(store_statement(store, SQL_COUNT_STATES), count_state, ret_counts);
}

struct reason_visitor {
    reason_visit *visit;
    void *self;
};

static void visit_reason(struct reader *reader, void *self)
{
    const struct reason_visitor *visitor = self;
    struct reason_group group;

    group.state = get_text(reader);
    group.reason = get_text(reader);
    group.count = (uint64_t)get_int(reader);
    reader->column++; /* max(ordinal): SQLite takes the bare column id from that same row */
    group.last_id = (uint64_t)get_int(reader);
    visitor->visit(visitor->self, &group);
}

bool store_group_reasons(struct store *store, int64_t since_ns, reason_visit *visit, void *self)
{
    sqlite3_stmt *statement = store_statement(store, SQL_GROUP_REASONS);
    struct reason_visitor visitor = {visit, self};

    sqlite3_bind_int64(statement, 1, since_ns);
    return each_row(statement, visit_reason, &visitor);
}

/* ---- agents ---- */

static void read_rail(struct reader *reader, void *self)
{
    struct kvr_agent_facts *facts = self;
    struct kvr_rail_snapshot *rail = &facts->rails[facts->rail_count];
    const char *state;

    if (facts->rail_count == KVR_RAILS_MAX)
        return;
    facts->rail_count++;
    reader->column = 2; /* behind agent and position */
    GET_NAME(reader, rail->name);
    GET_NAME(reader, rail->provider);
    GET_NAME(reader, rail->address);
    rail->epoch = (uint32_t)get_int(reader);
    state = get_text(reader);
    for (int i = 0; i < KVR_RAIL_STATE_END; i++)
        if (strcmp(kvr_rail_state_name((kvr_rail_state)i), state) == 0)
            rail->state = (kvr_rail_state)i;
    rail->speed_bps = (uint64_t)get_int(reader);
    rail->bytes = (uint64_t)get_int(reader);
    rail->writes = (uint64_t)get_int(reader);
    rail->group = (uint32_t)get_int(reader);
}

static void read_engine(struct reader *reader, void *self)
{
    struct kvr_agent_facts *facts = self;
    struct kvr_engine_facts *engine = &facts->engines[facts->engine_count];

    if (facts->engine_count == KVR_ENGINES_MAX)
        return;
    facts->engine_count++;
    reader->column = 2;
    GET_NAME(reader, engine->name);
    get_uuid(reader, &engine->rank.engine);
    engine->rank.generation = (uint64_t)get_int(reader);
    engine->rank.tp = (uint32_t)get_int(reader);
    engine->rank.tp_size = (uint32_t)get_int(reader);
    engine->rank.pp = (uint32_t)get_int(reader);
    engine->rank.pp_size = (uint32_t)get_int(reader);
    GET_NAME(reader, engine->model);
    engine->region_count = (uint32_t)get_int(reader);
    engine->region_bytes = (uint64_t)get_int(reader);
}

static void read_counters(const char *text, struct kvr_agent_facts *facts)
{
    json_t *object = json_loads(text, 0, NULL);

    for (int i = 0; i < KVR_COUNTER_END; i++) {
        json_t *value = json_object_get(object, kvr_counter_name((kvr_counter)i));

        facts->counters[i] = (uint64_t)json_integer_value(value);
    }
    json_decref(object);
}

static bool read_lists(struct store *store, const char *agent, struct kvr_agent_facts *facts)
{
    sqlite3_stmt *rails = store_statement(store, SQL_LIST_RAILS);
    sqlite3_stmt *engines = store_statement(store, SQL_LIST_ENGINES);

    sqlite3_bind_text(rails, 1, agent, -1, SQLITE_STATIC);
    sqlite3_bind_text(engines, 1, agent, -1, SQLITE_STATIC);
    return each_row(rails, read_rail, facts) && each_row(engines, read_engine, facts);
}

struct agent_visitor {
    struct store *store;
    agent_visit *visit;
    void *self;
    bool failed;
    struct kvr_agent_facts facts;
};

static void read_agent(struct reader *reader, void *self)
{
    struct agent_visitor *visitor = self;
    struct kvr_agent_facts *facts = &visitor->facts;
    struct agent_row row;

    memset(facts, 0, sizeof(*facts));
    GET_NAME(reader, row.name);
    row.boot = (uint64_t)get_int(reader);
    facts->role = strcmp(get_text(reader), "source") == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
    GET_NAME(reader, facts->version);
    GET_NAME(reader, facts->host);
    facts->pid = (uint32_t)get_int(reader);
    GET_NAME(reader, facts->listen);
    GET_NAME(reader, facts->provider);
    facts->transfers_live = (uint32_t)get_int(reader);
    facts->peers_up = (uint32_t)get_int(reader);
    row.dropped = (uint64_t)get_int(reader);
    read_counters(get_text(reader), facts);
    row.stopped = get_int(reader) != 0;
    row.seen_ns = get_int(reader);
    facts->peers_warm = (uint32_t)get_int(reader);
    visitor->failed |= !read_lists(visitor->store, row.name, facts);
    visitor->visit(visitor->self, &row, facts);
}

bool store_list_agents(struct store *store, agent_visit *visit, void *self)
{
    struct agent_visitor *visitor = calloc(1, sizeof(*visitor));
    bool listed;

    if (visitor == NULL)
        return false;
    visitor->store = store;
    visitor->visit = visit;
    visitor->self = self;
    listed =
        each_row(store_statement(store, SQL_LIST_AGENTS), read_agent, visitor) && !visitor->failed;
    free(visitor);
    return listed;
}
