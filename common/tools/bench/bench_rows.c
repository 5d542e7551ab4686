#include "tools/bench/bench_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scheduler/event_pack.h"
#include "scheduler/store_rows.h"
#include "tools/bench/bench_child.h"

#define PATH_BYTES  4200
#define COLUMNS_MAX 128

static kvr_status failed(sqlite3 *database, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "bench", "the database fails: %s",
                         sqlite3_errmsg(database));
}

sqlite3 *bench_rows_open(const char *folder, struct kvr_error *error)
{
    char path[PATH_BYTES];
    sqlite3 *database = NULL;

    snprintf(path, sizeof(path), "%s/kvrail.db", folder);
    if (sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
        SQLITE_OK) {
        sqlite3_busy_timeout(database, 5000);
        return database;
    }
    kvr_error_set(error, KVR_SYSTEM, "bench", "%s cannot be read: %s", path,
                  sqlite3_errmsg(database));
    sqlite3_close(database);
    return NULL;
}

/* One number; ?1 is the boot. */
static kvr_status number(sqlite3 *database, const char *sql, uint64_t boot, uint64_t *ret_number,
                         struct kvr_error *error)
{
    sqlite3_stmt *statement = NULL;
    bool found = false;

    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, (int64_t)boot);
        found = sqlite3_step(statement) == SQLITE_ROW;
        if (found)
            *ret_number = (uint64_t)sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return found ? KVR_OK : failed(database, error);
}

/* Of one packed row. False: it cannot be read. */
static bool count_records(sqlite3_stmt *statement, uint64_t *count)
{
    struct event_unpack unpack = {.bytes = sqlite3_column_blob(statement, 0),
                                  .count = (size_t)sqlite3_column_bytes(statement, 0)};
    struct event_record record;
    kvr_status status;

    while ((status = event_unpack_next(&unpack, &record)) == KVR_OK)
        ++*count;
    return status == KVR_NOT_FOUND;
}

static bool has_spans(sqlite3_stmt *statement)
{
    struct kvr_spans spans;

    return kvr_spans_unpack(sqlite3_column_blob(statement, 1),
                            (size_t)sqlite3_column_bytes(statement, 1), &spans) == KVR_OK;
}

static kvr_status count_events(sqlite3 *database, uint64_t boot, struct bench_row_counts *counts,
                               struct kvr_error *error)
{
    sqlite3_stmt *statement = NULL;
    bool whole = true;
    int result = SQLITE_ERROR;

    counts->events = counts->event_rows = counts->spans = 0;
    if (sqlite3_prepare_v2(database, "SELECT records, spans FROM events WHERE boot = ?1", -1,
                           &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, (int64_t)boot);
        while (whole && (result = sqlite3_step(statement)) == SQLITE_ROW) {
            counts->event_rows++;
            counts->spans += has_spans(statement);
            whole = count_records(statement, &counts->events);
        }
    }
    sqlite3_finalize(statement);
    if (!whole)
        return kvr_error_set(error, KVR_MALFORMED, "bench", "a row of events cannot be read");
    return result == SQLITE_DONE ? KVR_OK : failed(database, error);
}

kvr_status bench_rows_count(sqlite3 *database, uint64_t boot, struct bench_row_counts *ret_counts,
                            struct kvr_error *error)
{
    KVR_TRY(count_events(database, boot, ret_counts, error));
    KVR_TRY(number(database, "SELECT count(*) FROM transfers WHERE source_boot = ?1", boot,
                   &ret_counts->transfers, error));
    KVR_TRY(number(database,
                   "SELECT count(*) FROM transfers WHERE source_boot = ?1 AND target_boot = ?1 "
                   "AND source_ended_ns <> 0 AND target_ended_ns <> 0",
                   boot, &ret_counts->ended, error));
    return number(database, "SELECT count(DISTINCT arrived_ns) FROM events WHERE boot = ?1", boot,
                  &ret_counts->rounds, error);
}

kvr_status bench_rows_bytes(sqlite3 *database, uint64_t *ret_bytes, struct kvr_error *error)
{
    return number(database,
                  "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", 0,
                  ret_bytes, error);
}

/* ---- once more ---- */

/* A table on its way: its rows of the run in the order of their insertion, and the insert. */
struct table {
    sqlite3_stmt *read, *insert;
    int columns;
    bool ended;
    sqlite3_value **values; /* of the rows of one commit */
    size_t room, count;     /* of rows */
};

static const struct {
    const char *name, *rows;
} kinds[] = {
    {"events", "SELECT * FROM events WHERE boot = ?1 ORDER BY id"},
    {"transfers", "SELECT * FROM transfers WHERE source_boot = ?1 ORDER BY ordinal"},
    {"positions", "SELECT * FROM positions WHERE boot = ?1"},
    {"agents", "SELECT * FROM agents WHERE boot = ?1"},
    {"rails", "SELECT rails.* FROM agents CROSS JOIN rails ON agent = agents.name WHERE boot = ?1"},
    {"engines",
     "SELECT engines.* FROM agents CROSS JOIN engines ON agent = agents.name WHERE boot = ?1"},
};
enum { EVENTS, TRANSFERS, TABLES = sizeof(kinds) / sizeof(kinds[0]) };

static kvr_status table_open(struct table *table, sqlite3 *from, sqlite3 *to, int kind,
                             uint64_t boot, struct kvr_error *error)
{
    char sql[64 + 2 * COLUMNS_MAX];
    int used;

    if (sqlite3_prepare_v2(from, kinds[kind].rows, -1, &table->read, NULL) != SQLITE_OK)
        return failed(from, error);
    sqlite3_bind_int64(table->read, 1, (int64_t)boot);
    table->columns = sqlite3_column_count(table->read);
    used = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?", kinds[kind].name);
    for (int i = 1; i < table->columns && i < COLUMNS_MAX; i++)
        used += snprintf(sql + used, sizeof(sql) - (size_t)used, ",?");
    snprintf(sql + used, sizeof(sql) - (size_t)used, ")");
    if (sqlite3_prepare_v2(to, sql, -1, &table->insert, NULL) != SQLITE_OK)
        return failed(to, error);
    return KVR_OK;
}

static void table_forget(struct table *table)
{
    for (size_t i = 0; i < table->count * (size_t)table->columns; i++)
        sqlite3_value_free(table->values[i]);
    table->count = 0;
}

static void table_close(struct table *table)
{
    table_forget(table);
    free(table->values);
    sqlite3_finalize(table->read);
    sqlite3_finalize(table->insert);
}

/* Reads rows until there are `wanted`, or no more. */
static kvr_status table_read(struct table *table, size_t wanted, sqlite3 *from,
                             struct kvr_error *error)
{
    size_t columns = (size_t)table->columns;

    while (table->count < wanted && !table->ended) {
        int result = sqlite3_step(table->read);

        table->ended = result == SQLITE_DONE;
        if (table->ended)
            break;
        if (result != SQLITE_ROW)
            return failed(from, error);
        if (table->count == table->room) {
            size_t room = 2 * table->room + 256;
            sqlite3_value **larger =
                realloc(table->values, room * columns * sizeof(table->values[0]));

            if (larger == NULL)
                return kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for rows");
            table->values = larger;
            table->room = room;
        }
        for (size_t i = 0; i < columns; i++)
            table->values[table->count * columns + i] =
                sqlite3_value_dup(sqlite3_column_value(table->read, (int)i));
        table->count++;
    }
    return KVR_OK;
}

static void bind_value(sqlite3_stmt *statement, int column, sqlite3_value *value)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        sqlite3_bind_int64(statement, column, sqlite3_value_int64(value));
        return;
    case SQLITE_TEXT:
        sqlite3_bind_text(statement, column, (const char *)sqlite3_value_text(value),
                          sqlite3_value_bytes(value), SQLITE_STATIC);
        return;
    case SQLITE_BLOB:
        if (sqlite3_value_bytes(value) == 0) /* without a pointer it would be NULL */
            sqlite3_bind_zeroblob(statement, column, 0);
        else
            sqlite3_bind_blob(statement, column, sqlite3_value_blob(value),
                              sqlite3_value_bytes(value), SQLITE_STATIC);
        return;
    default:
        sqlite3_bind_null(statement, column);
    }
}

static kvr_status table_insert(struct table *table, sqlite3 *to, struct kvr_error *error)
{
    for (size_t row = 0; row < table->count; row++) {
        for (int i = 0; i < table->columns; i++)
            bind_value(table->insert, i + 1,
                       table->values[row * (size_t)table->columns + (size_t)i]);
        if (sqlite3_step(table->insert) != SQLITE_DONE)
            return failed(to, error);
        sqlite3_reset(table->insert);
    }
    return KVR_OK;
}

/* Parents come before their children: agents before rails. */
static kvr_status commit(struct table tables[TABLES], struct store *to,
                         struct bench_insert_time *time, struct kvr_error *error)
{
    kvr_ns begin = kvr_clock_now(), used = bench_cpu_time(getpid());

    if (!store_begin(to))
        return failed(to->database, error);
    for (int kind = 0; kind < TABLES; kind++)
        KVR_TRY(table_insert(&tables[kind], to->database, error));
    if (!store_commit(to))
        return failed(to->database, error);
    time->wall += kvr_clock_now() - begin;
    time->cpu += bench_cpu_time(getpid()) - used;
    for (int kind = 0; kind < TABLES; kind++)
        table_forget(&tables[kind]);
    return KVR_OK;
}

/* So many of all by the end of a round. */
static size_t share(uint64_t all, uint64_t round, uint64_t rounds)
{
    return (size_t)((double)all * (double)(round + 1) / (double)rounds + 0.5);
}

static kvr_status insert_rounds(struct table tables[TABLES], sqlite3 *from, struct store *to,
                                const struct bench_row_counts *counts,
                                struct bench_insert_time *ret_time, struct kvr_error *error)
{
    size_t events = 0, transfers = 0;

    for (uint64_t round = 0; round < counts->rounds; round++) {
        size_t events_by = share(counts->event_rows, round, counts->rounds);
        size_t transfers_by = share(counts->transfers, round, counts->rounds);

        for (int kind = 0; kind < TABLES; kind++) {
            size_t wanted = kind == EVENTS      ? events_by - events
                            : kind == TRANSFERS ? transfers_by - transfers
                                                : SIZE_MAX;

            KVR_TRY(table_read(&tables[kind], wanted, from, error));
        }
        KVR_TRY(commit(tables, to, ret_time, error));
        events = events_by;
        transfers = transfers_by;
    }
    return KVR_OK;
}

kvr_status bench_rows_insert(sqlite3 *from, uint64_t boot, const struct bench_row_counts *counts,
                             const char *folder, struct bench_insert_time *ret_time,
                             struct kvr_error *error)
{
    struct table tables[TABLES] = {0};
    struct store *to = NULL;
    kvr_status status = store_open_writer(folder, &to, error);

    *ret_time = (struct bench_insert_time){0};
    for (int kind = 0; status == KVR_OK && kind < TABLES; kind++)
        status = table_open(&tables[kind], from, to->database, kind, boot, error);
    if (status == KVR_OK)
        status = insert_rounds(tables, from, to, counts, ret_time, error);
    for (int kind = 0; kind < TABLES; kind++)
        table_close(&tables[kind]);
    store_close(to);
    return status;
}
