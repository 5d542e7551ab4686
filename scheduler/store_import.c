#include "scheduler/store_import.h"

#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/state_folder.h"
#include "scheduler/journal.h"
#include "scheduler/store_postgres.h"
#include "scheduler/store_sqlite.h"

#define ROWS_AT_ONCE      500  /* transfers in a transaction, or rows of another table */
#define EVENT_ROWS_MAX    2000 /* of one transfer; a damaged chain may have no end */
#define AHEAD_US          (60 * INT64_C(1000000)) /* clocks may differ so much */
#define COLUMN_ID         1
#define COLUMN_UPDATED    15
#define COLUMN_LAST_EVENT 68

/* Copied row by row. Transfers and events are apart: their ids change. The ids of engines are the
 * database's, too: a rank may be there already. */
static const struct import_table {
    const char *name, *columns; /* "*": all, with their ids */
} tables[] = {
    {"agents", "*"},  {"rails", "*"},
    {"engines", "*"}, {"positions", "*"},
    {"orders", "*"},  {"audit", "*"},
    {"rollups", "*"}, {"marks", "*"},
    {"faults", "*"},  {"engines_seen", "agent, " ENGINE_COLUMNS ", first_ns, last_ns"},
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

struct import {
    struct store *from, *to;
    sqlite3 *source;
    char path[PATH_MAX];           /* of the file; the place that was reached stands beside it */
    int64_t last_ordinal, last_id; /* of a transfer there; of a row here */
    uint64_t moved, there;         /* transfers; those that were there already */
    uint64_t ahead;                /* rows of a time that has not come yet */
    int stop_fd;                   /* the place's */
    struct kvr_error *error;
};

/* ---- failures ---- */

static kvr_status source_failed(const struct import *import)
{
    return kvr_error_set(import->error, KVR_SYSTEM, "import", "%s cannot be read: %s", import->path,
                         sqlite3_errmsg(import->source));
}

static kvr_status stopped(const struct import *import)
{
    return kvr_error_set(import->error, KVR_CANCELLED, "import",
                         "a signal ended it: %" PRIu64
                         " transfers were moved (run the same command again: it goes on)",
                         import->moved);
}

/* Between two transactions. */
static kvr_status must_stop(const struct import *import)
{
    struct pollfd stop = {.fd = import->stop_fd, .events = POLLIN};

    return import->stop_fd == 0 || poll(&stop, 1, 0) <= 0 ? KVR_OK : stopped(import);
}

static kvr_status target_failed(const struct import *import)
{
    if (store_postgres(import->to)->stopped)
        return stopped(import);
    return kvr_error_set(import->error, KVR_SYSTEM, "import",
                         "the database refused: %s (run the same command again: it goes on)",
                         store_problem(import->to));
}

/* ---- rows ---- */

static bool prepare(const struct import *import, const char *sql, sqlite3_stmt **ret_statement)
{
    return sqlite3_prepare_v2(import->source, sql, -1, ret_statement, NULL) == SQLITE_OK;
}

/* ---- tables that keep their ids ---- */

static void insert_text(const struct import_table *table, int columns, char *sql, size_t room)
{
    bool all = strcmp(table->columns, "*") == 0;
    size_t used = (size_t)snprintf(sql, room, "INSERT INTO %s %s%s%s VALUES ($1", table->name,
                                   all ? "" : "(", all ? "" : table->columns, all ? "" : ")");

    for (int i = 2; i <= columns; i++)
        used += (size_t)snprintf(sql + used, room - used, ", $%d", i);
    snprintf(sql + used, room - used, ") ON CONFLICT DO NOTHING");
}

/* So many rows; *ret_more: perhaps there are others. */
static bool copy_some(struct import *import, const struct import_table *table, sqlite3_stmt *rows,
                      bool *ret_more)
{
    struct store_parameter columns[STORE_PARAMETERS_MAX];
    char sql[1024];
    int result = SQLITE_DONE;
    bool sent = true;

    for (int i = 0; i < ROWS_AT_ONCE && sent; i++) {
        result = sqlite3_step(rows);
        if (result != SQLITE_ROW)
            break;
        insert_text(table, sqlite3_column_count(rows), sql, sizeof(sql));
        sent = store_postgres_send(store_postgres(import->to), sql, columns,
                                   store_sqlite_parameters(rows, columns));
    }
    *ret_more = result == SQLITE_ROW;
    return sent && (result == SQLITE_ROW || result == SQLITE_DONE);
}

static kvr_status copy_table(struct import *import, const struct import_table *table)
{
    sqlite3_stmt *rows = NULL;
    bool more = true, copied = true;
    char sql[256];

    snprintf(sql, sizeof(sql), "SELECT %s FROM %s", table->columns, table->name);
    if (!prepare(import, sql, &rows))
        return source_failed(import);
    while (more && copied && must_stop(import) == KVR_OK)
        copied = store_begin(import->to) && copy_some(import, table, rows, &more) &&
                 store_commit(import->to);
    sqlite3_finalize(rows);
    if (copied)
        return more ? must_stop(import) : KVR_OK;
    store_rollback(import->to);
    return target_failed(import);
}

/* ---- transfers and their events ---- */

/* An id of that time, or the next one that is free. Its partition is there afterwards. A time that
 * has not come yet counts as now: all later ids would lie behind it. */
static bool give_id(struct import *import, int64_t at_ns, int64_t *ret_id)
{
    int64_t at_us = at_ns / 1000, now_us = store_postgres(import->to)->began_us;

    import->ahead += at_us > now_us + AHEAD_US;
    if (at_us > now_us)
        at_us = now_us;
    import->last_id = at_us > import->last_id ? at_us : import->last_id + 1;
    *ret_id = import->last_id;
    return store_postgres_cover(store_postgres(import->to), import->last_id);
}

struct chain {
    int count;
    int64_t ids[EVENT_ROWS_MAX]; /* the newest first */
};

static bool read_chain(sqlite3_stmt *event, int64_t newest, struct chain *chain)
{
    int result = SQLITE_ROW;

    chain->count = 0;
    for (int64_t id = newest; id != 0 && chain->count < EVENT_ROWS_MAX && result == SQLITE_ROW;) {
        sqlite3_bind_int64(event, 1, id);
        result = sqlite3_step(event);
        if (result == SQLITE_ROW) {
            chain->ids[chain->count++] = id;
            id = sqlite3_column_int64(event, 1);
        }
        sqlite3_reset(event);
    }
    return result == SQLITE_ROW || result == SQLITE_DONE;
}

/* The columns of events are the parameters of SQL_ADD_END. */
static bool copy_event(struct import *import, sqlite3_stmt *event, int64_t id, int64_t *previous)
{
    struct store_parameter columns[STORE_PARAMETERS_MAX];
    bool copied;

    sqlite3_bind_int64(event, 1, id);
    copied = sqlite3_step(event) == SQLITE_ROW;
    if (copied) {
        int count = store_sqlite_parameters(event, columns);

        columns[1].number = *previous;
        copied = give_id(import, columns[2].number, &columns[0].number) &&
                 import->to->driver->run(import->to, SQL_ADD_END, columns, count, NULL, NULL);
        *previous = columns[0].number;
    }
    sqlite3_reset(event);
    return copied;
}

static bool copy_transfer(struct import *import, sqlite3_stmt *transfer, sqlite3_stmt *event)
{
    struct store_parameter columns[STORE_PARAMETERS_MAX];
    int count = store_sqlite_parameters(transfer, columns);
    int64_t newest = 0;
    struct chain chain;

    if (!read_chain(event, columns[COLUMN_LAST_EVENT].number, &chain))
        return false;
    for (int i = chain.count - 1; i >= 0; i--)
        if (!copy_event(import, event, chain.ids[i], &newest))
            return false;
    columns[COLUMN_LAST_EVENT].number = newest;
    import->moved++;
    return give_id(import, chain.count > 0 ? 0 : columns[COLUMN_UPDATED].number,
                   &columns[0].number) &&
           import->to->driver->run(import->to, SQL_ADD_TRANSFER, columns, count, NULL, NULL);
}

static bool is_there(struct import *import, int64_t id, bool *ret_there)
{
    struct transfer transfer;

    return store_get_transfer(import->to, (uint64_t)id, &transfer, ret_there);
}

static bool save_place(struct import *import)
{
    const struct store_parameter values[] = {
        {.type = STORE_IS_TEXT, .at = import->path},
        {.type = STORE_IS_NUMBER, .number = import->last_ordinal},
        {.type = STORE_IS_NUMBER, .number = import->last_id},
        {.type = STORE_IS_NUMBER, .number = (int64_t)import->moved},
        {.type = STORE_IS_NUMBER, .number = (int64_t)import->there}};
    struct store_postgres *to = store_postgres(import->to);

    if (import->last_id > to->last_id)
        to->last_id = import->last_id;
    return store_postgres_send(
        to,
        "INSERT INTO imports VALUES ($1, $2, $3, $4, $5) "
        "ON CONFLICT (source) DO UPDATE SET last_ordinal = $2, last_id = $3, "
        "moved = $4, there = $5",
        values, 5);
}

static bool load_place(struct import *import)
{
    struct store_postgres *to = store_postgres(import->to);
    const struct store_parameter source = {.type = STORE_IS_TEXT, .at = import->path};
    PGresult *result = NULL;

    if (store_postgres_send(to,
                            "SELECT last_ordinal, last_id, moved, there FROM imports "
                            "WHERE source = $1",
                            &source, 1))
        result = store_postgres_settle(to);
    if (result == NULL)
        return false;
    if (PQntuples(result) > 0) {
        import->last_ordinal = store_postgres_number(result, 0, 0);
        import->last_id = store_postgres_number(result, 0, 1);
        import->moved = (uint64_t)store_postgres_number(result, 0, 2);
        import->there = (uint64_t)store_postgres_number(result, 0, 3);
    }
    PQclear(result);
    return true;
}

/* Which of the next transfers are there already is asked for all of them at once. */
static bool expect_batch(struct import *import, sqlite3_stmt *transfers)
{
    uint64_t ids[ROWS_AT_ONCE];
    size_t count = 0;

    while (count < ROWS_AT_ONCE && sqlite3_step(transfers) == SQLITE_ROW)
        ids[count++] = (uint64_t)sqlite3_column_int64(transfers, COLUMN_ID);
    return sqlite3_reset(transfers) == SQLITE_OK &&
           store_expect(import->to, &(struct store_expected){.ids = ids, .id_count = count});
}

static bool copy_batch(struct import *import, sqlite3_stmt *transfers, sqlite3_stmt *event,
                       bool *ret_more)
{
    bool copied;
    int rows = 0;

    sqlite3_bind_int64(transfers, 1, import->last_ordinal);
    copied = expect_batch(import, transfers);
    for (; copied && sqlite3_step(transfers) == SQLITE_ROW; rows++) {
        bool there = false;

        copied = is_there(import, sqlite3_column_int64(transfers, COLUMN_ID), &there) &&
                 (there || copy_transfer(import, transfers, event));
        import->there += there;
        import->last_ordinal = sqlite3_column_int64(transfers, 0);
    }
    *ret_more = rows > 0;
    return sqlite3_reset(transfers) == SQLITE_OK && copied;
}

static kvr_status copy_transfers(struct import *import)
{
    char sql[96];
    sqlite3_stmt *transfers = NULL, *event = NULL;
    bool more = true, copied = true;
    kvr_status status = KVR_OK;

    snprintf(sql, sizeof(sql),
             "SELECT * FROM transfers WHERE ordinal > ?1 ORDER BY ordinal LIMIT %d", ROWS_AT_ONCE);
    if (!prepare(import, sql, &transfers) ||
        !prepare(import, "SELECT * FROM events WHERE id = ?1", &event))
        status = source_failed(import);
    while (status == KVR_OK && more) {
        status = must_stop(import);
        if (status != KVR_OK)
            break;
        copied = store_begin(import->to) && load_place(import) &&
                 copy_batch(import, transfers, event, &more) && save_place(import) &&
                 store_commit(import->to);
        if (!copied) {
            status = target_failed(import);
            store_rollback(import->to);
        }
    }
    sqlite3_finalize(transfers);
    sqlite3_finalize(event);
    return status;
}

/* ---- afterwards ---- */

static kvr_status count_source(const struct import *import, const char *table, uint64_t *ret_count)
{
    sqlite3_stmt *statement = NULL;
    bool counted;
    char sql[64];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
    counted = prepare(import, sql, &statement) && sqlite3_step(statement) == SQLITE_ROW;
    if (counted)
        *ret_count = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return counted ? KVR_OK : source_failed(import);
}

static kvr_status count_target(const struct import *import, const char *table, uint64_t *ret_count)
{
    PGresult *result;
    char sql[64];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
    store_postgres(import->to)->patience = KVR_NEVER;
    result = store_postgres_ask(store_postgres(import->to), sql);
    if (result == NULL)
        return target_failed(import);
    *ret_count = (uint64_t)store_postgres_number(result, 0, 0);
    PQclear(result);
    return KVR_OK;
}

static kvr_status compare(const struct import *import, const char *table, uint64_t here)
{
    uint64_t there = 0;

    KVR_TRY(count_source(import, table, &there));
    printf("%-12s %12" PRIu64 " %12" PRIu64 "\n", table, there, here);
    return here >= there ? KVR_OK
                         : kvr_error_set(import->error, KVR_INVALID, "import",
                                         "of %" PRIu64 " rows of %s, %" PRIu64
                                         " are in the database: run the same command again",
                                         there, table, here);
}

static kvr_status compare_all(const struct import *import)
{
    printf("%-12s %12s %12s\n", "table", "kvrail.db", "PostgreSQL");
    KVR_TRY(compare(import, "transfers", import->moved + import->there));
    for (size_t i = 0; i < TABLES; i++) {
        uint64_t here = 0;

        KVR_TRY(count_target(import, tables[i].name, &here));
        KVR_TRY(compare(import, tables[i].name, here));
    }
    printf("%" PRIu64 " transfers were moved, %" PRIu64 " were there already\n", import->moved,
           import->there);
    if (import->ahead > 0)
        printf("%" PRIu64 " of their rows, events among them, have a time that has not come yet: a "
               "clock was wrong when they were stored, and they lie among the rows of now\n",
               import->ahead);
    return KVR_OK;
}

/* Schedulers that use the database count anew, and ids of audit, faults and orders go on. */
static kvr_status settle(struct import *import)
{
    static const char *const sqls[] = {"DELETE FROM schedulers",
                                       "SELECT setval(pg_get_serial_sequence('orders', 'number'), "
                                       "(SELECT coalesce(max(number), 0) + 1 FROM orders), false)",
                                       "SELECT setval(pg_get_serial_sequence('audit', 'id'), "
                                       "(SELECT coalesce(max(id), 0) + 1 FROM audit), false)",
                                       "SELECT setval(pg_get_serial_sequence('faults', 'id'), "
                                       "(SELECT coalesce(max(id), 0) + 1 FROM faults), false)"};
    bool settled = store_begin(import->to);

    for (size_t i = 0; i < sizeof(sqls) / sizeof(sqls[0]) && settled; i++)
        settled = store_postgres_do(store_postgres(import->to), sqls[i]);
    if (settled && store_commit(import->to))
        return KVR_OK;
    store_rollback(import->to);
    return target_failed(import);
}

static kvr_status open_both(struct import *import, const char *file, const struct store_place *to)
{
    char folder[PATH_MAX];

    if (realpath(file, import->path) == NULL ||
        strcmp(basename(strcpy(folder, import->path)), "kvrail.db") != 0)
        return kvr_error_set(import->error, KVR_INVALID, "import",
                             "--import %s: there is no such file, or it is not called kvrail.db",
                             file);
    strcpy(folder, import->path);
    KVR_TRY(kvr_state_folder_take(dirname(folder), 0, import->error));
    if (journal_was_left(dirname(strcpy(folder, import->path))))
        return kvr_error_set(import->error, KVR_INVALID, "import",
                             "--import %s: its scheduler was killed, and the journal beside it has "
                             "reports that it has not: start and stop that scheduler once more",
                             file);
    KVR_TRY(
        store_open_writer(&(struct store_place){.folder = dirname(strcpy(folder, import->path))},
                          &import->from, import->error));
    import->source = store_sqlite_database(import->from);
    return store_open_writer(to, &import->to, import->error);
}

kvr_status import_run(const char *file, const struct store_place *to, struct kvr_error *error)
{
    struct import import = {.error = error, .stop_fd = to->stop_fd};
    kvr_status status;

    if (to->url == NULL)
        return kvr_error_set(error, KVR_INVALID, "import",
                             "--import moves a history into PostgreSQL: say where by --database");
    status = open_both(&import, file, to);
    if (status == KVR_OK)
        status = copy_transfers(&import);
    for (size_t i = 0; i < TABLES && status == KVR_OK; i++)
        status = copy_table(&import, &tables[i]);
    if (status == KVR_OK)
        status = settle(&import);
    if (status == KVR_OK)
        status = compare_all(&import);
    store_close(import.from);
    store_close(import.to);
    return status;
}
