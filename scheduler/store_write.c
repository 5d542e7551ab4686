#include <jansson.h>
#include <stdlib.h>

#include "scheduler/store_rows.h"

/* Binds from left to right, so that a list of values reads like the table's columns. */
struct binder {
    sqlite3_stmt *statement;
    int column;
};

static void put_int(struct binder *binder, uint64_t value)
{
    sqlite3_bind_int64(binder->statement, ++binder->column, (sqlite3_int64)value);
}

static void put_text(struct binder *binder, const char *text)
{
    sqlite3_bind_text(binder->statement, ++binder->column, text, -1, SQLITE_STATIC);
}

static void put_uuid(struct binder *binder, const struct kvr_uuid *uuid)
{
    sqlite3_bind_blob(binder->statement, ++binder->column, uuid->bytes, sizeof(uuid->bytes),
                      SQLITE_STATIC);
}

bool store_position(struct store *store, const char *agent, uint64_t boot, uint64_t *ret_sequence)
{
    struct binder binder = {store_statement(store, SQL_GET_POSITION), 0};
    int result;

    if (binder.statement == NULL)
        return false;
    put_text(&binder, agent);
    put_int(&binder, boot);
    result = sqlite3_step(binder.statement);
    if (result == SQLITE_ROW || result == SQLITE_DONE)
        *ret_sequence =
            result == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(binder.statement, 0) : 0;
    sqlite3_reset(binder.statement);
    return result == SQLITE_ROW || result == SQLITE_DONE;
}

bool store_set_position(struct store *store, const char *agent, uint64_t boot, uint64_t sequence,
                        int64_t now_ns)
{
    struct binder binder = {store_statement(store, SQL_SET_POSITION), 0};

    if (binder.statement == NULL)
        return false;
    put_text(&binder, agent);
    put_int(&binder, boot);
    put_int(&binder, sequence);
    put_int(&binder, (uint64_t)now_ns);
    return store_run(store, binder.statement);
}

bool store_add_event(struct store *store, uint64_t transfer, const char *agent, uint64_t boot,
                     uint64_t sequence, const struct kvr_event *event, int64_t at_ns,
                     int64_t now_ns)
{
    struct binder binder = {store_statement(store, SQL_ADD_EVENT), 0};

    if (binder.statement == NULL)
        return false;
    put_int(&binder, (uint64_t)now_ns);
    put_int(&binder, transfer);
    put_text(&binder, agent);
    put_int(&binder, boot);
    put_int(&binder, sequence);
    put_text(&binder, transfer_role_name(event->role));
    put_text(&binder, kvr_event_name(event->kind));
    put_int(&binder, (uint64_t)at_ns);
    put_text(&binder, event->peer);
    put_int(&binder, event->bytes);
    put_int(&binder, event->retries);
    put_text(&binder, kvr_status_name(event->outcome));
    put_text(&binder, event->detail);
    return store_run(store, binder.statement);
}

static void put_side(struct binder *binder, const struct transfer_side *side)
{
    put_text(binder, side->agent);
    put_int(binder, side->boot);
    put_int(binder, side->rails);
    put_text(binder, side->ended ? kvr_status_name(side->outcome) : "");
    put_int(binder, side->lost);
    put_text(binder, side->detail);
    for (int stage = 0; stage < STAGE_END; stage++)
        put_int(binder, (uint64_t)side->at_ns[stage]);
}

bool store_put_transfer(struct store *store, struct transfer *transfer)
{
    struct binder binder = {store_statement(store, SQL_PUT_TRANSFER), 0};

    if (binder.statement == NULL)
        return false;
    if (transfer->ordinal != 0)
        put_int(&binder, (uint64_t)transfer->ordinal);
    else
        sqlite3_bind_null(binder.statement, ++binder.column);
    put_int(&binder, transfer->id);
    put_text(&binder, transfer_state_name(transfer->state));
    put_int(&binder, transfer_state_live(transfer->state));
    put_text(&binder, kvr_status_name(transfer->reason));
    put_text(&binder, transfer->request);
    put_int(&binder, transfer->attempt);
    put_uuid(&binder, &transfer->source_engine);
    put_uuid(&binder, &transfer->target_engine);
    put_int(&binder, transfer->tokens);
    put_int(&binder, transfer->skip_tokens);
    put_int(&binder, transfer->bytes);
    put_int(&binder, transfer->layers);
    put_int(&binder, transfer->chunks);
    put_int(&binder, transfer->retries);
    put_int(&binder, (uint64_t)transfer->updated_ns);
    put_side(&binder, &transfer->sides[KVR_ROLE_SOURCE]);
    put_side(&binder, &transfer->sides[KVR_ROLE_TARGET]);
    put_int(&binder, transfer->source_rank.tp);
    put_int(&binder, transfer->source_rank.pp);
    put_int(&binder, transfer->target_rank.tp);
    put_int(&binder, transfer->target_rank.pp);
    put_int(&binder, transfer->pieces);
    put_int(&binder, transfer->fragment_bytes);
    put_text(&binder, kvr_path_name(transfer->sides[KVR_ROLE_SOURCE].path));
    put_text(&binder, kvr_path_name(transfer->sides[KVR_ROLE_TARGET].path));
    put_int(&binder, transfer->fragments_staged);
    put_int(&binder, transfer->fragments_direct.writes);
    put_int(&binder, transfer->fragments_direct.ns);
    put_int(&binder, transfer->fragments_copied.writes);
    put_int(&binder, transfer->fragments_copied.ns);
    put_int(&binder, transfer->limits.pieces_local);
    put_int(&binder, transfer->limits.pieces_remote);
    put_int(&binder, transfer->limits.bytes);
    put_int(&binder, transfer->limits.calibrated);
    if (!store_run(store, binder.statement))
        return false;
    if (transfer->ordinal == 0)
        transfer->ordinal = sqlite3_last_insert_rowid(store->database);
    return true;
}

bool store_delete_transfer(struct store *store, uint64_t id)
{
    struct binder binder = {store_statement(store, SQL_DELETE_TRANSFER), 0};

    if (binder.statement == NULL)
        return false;
    put_int(&binder, id);
    return store_run(store, binder.statement);
}

static char *counters_json(const struct kvr_agent_facts *facts)
{
    json_t *object = json_object();
    char *text;

    for (int i = 0; i < KVR_COUNTER_END; i++)
        json_object_set_new(object, kvr_counter_name((kvr_counter)i),
                            json_integer((json_int_t)facts->counters[i]));
    text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

static bool put_rail(struct store *store, const char *agent, uint32_t position,
                     const struct kvr_rail_snapshot *rail)
{
    struct binder binder = {store_statement(store, SQL_ADD_RAIL), 0};

    if (binder.statement == NULL)
        return false;
    put_text(&binder, agent);
    put_int(&binder, position);
    put_text(&binder, rail->name);
    put_text(&binder, rail->provider);
    put_text(&binder, rail->address);
    put_int(&binder, rail->epoch);
    put_text(&binder, kvr_rail_state_name(rail->state));
    put_int(&binder, rail->speed_bps);
    put_int(&binder, rail->bytes);
    put_int(&binder, rail->writes);
    put_int(&binder, rail->group);
    return store_run(store, binder.statement);
}

static bool put_engine(struct store *store, const char *agent, uint32_t position,
                       const struct kvr_engine_facts *engine)
{
    struct binder binder = {store_statement(store, SQL_ADD_ENGINE), 0};

    if (binder.statement == NULL)
        return false;
    put_text(&binder, agent);
    put_int(&binder, position);
    put_text(&binder, engine->name);
    put_uuid(&binder, &engine->rank.engine);
    put_int(&binder, engine->rank.generation);
    put_int(&binder, engine->rank.tp);
    put_int(&binder, engine->rank.tp_size);
    put_int(&binder, engine->rank.pp);
    put_int(&binder, engine->rank.pp_size);
    put_text(&binder, engine->model);
    put_int(&binder, engine->region_count);
    put_int(&binder, engine->region_bytes);
    return store_run(store, binder.statement);
}

static bool clear_lists(struct store *store, const char *agent)
{
    struct binder rails = {store_statement(store, SQL_CLEAR_RAILS), 0};
    struct binder engines = {store_statement(store, SQL_CLEAR_ENGINES), 0};

    if (rails.statement == NULL || engines.statement == NULL)
        return false;
    put_text(&rails, agent);
    put_text(&engines, agent);
    return store_run(store, rails.statement) && store_run(store, engines.statement);
}

static bool put_agent_row(struct store *store, const struct agent_row *row,
                          const struct kvr_agent_facts *facts)
{
    struct binder binder = {store_statement(store, SQL_PUT_AGENT), 0};
    char *counters = counters_json(facts);
    bool stored;

    if (binder.statement == NULL || counters == NULL) {
        free(counters);
        return false;
    }
    put_text(&binder, row->name);
    put_int(&binder, row->boot);
    put_text(&binder, transfer_role_name(facts->role));
    put_text(&binder, facts->version);
    put_text(&binder, facts->host);
    put_int(&binder, facts->pid);
    put_text(&binder, facts->listen);
    put_text(&binder, facts->provider);
    put_int(&binder, facts->transfers_live);
    put_int(&binder, facts->peers_up);
    put_int(&binder, row->dropped);
    put_text(&binder, counters);
    put_int(&binder, row->stopped);
    put_int(&binder, (uint64_t)row->seen_ns);
    put_int(&binder, facts->peers_warm);
    stored = store_run(store, binder.statement);
    free(counters);
    return stored;
}

bool store_put_agent(struct store *store, const struct agent_row *row,
                     const struct kvr_agent_facts *facts)
{
    if (!clear_lists(store, row->name) || !put_agent_row(store, row, facts))
        return false;
    for (uint32_t i = 0; i < facts->rail_count; i++)
        if (!put_rail(store, row->name, i, &facts->rails[i]))
            return false;
    for (uint32_t i = 0; i < facts->engine_count; i++)
        if (!put_engine(store, row->name, i, &facts->engines[i]))
            return false;
    return true;
}

bool store_prune(struct store *store, int64_t before_ns, uint64_t *ret_removed)
{
    static const store_sql prunes[] = {SQL_PRUNE_EVENTS, SQL_PRUNE_TRANSFERS, SQL_PRUNE_POSITIONS,
                                       SQL_PRUNE_AGENTS, SQL_PRUNE_ORDERS};
    uint64_t removed = 0;

    for (size_t i = 0; i < sizeof(prunes) / sizeof(prunes[0]); i++) {
        struct binder binder = {store_statement(store, prunes[i]), 0};

        if (binder.statement == NULL)
            return false;
        put_int(&binder, (uint64_t)before_ns);
        if (!store_run(store, binder.statement))
            return false;
        removed += (uint64_t)sqlite3_changes(store->database);
    }
    *ret_removed = removed;
    return true;
}
