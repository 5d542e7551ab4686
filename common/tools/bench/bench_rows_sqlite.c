/* The rows of a scheduler in SQLite. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "scheduler/store_sqlite.h"
#include "tools/bench/bench_program.h"
#include "tools/bench/bench_rows_driver.h"

#define PATH_BYTES 4200

struct rows {
    struct bench_rows base;
    sqlite3 *database;
    char folder[PATH_BYTES]; /* of the plain inserts; "": it was not made */
    struct store *inserts;
    sqlite3_stmt *insert[BENCH_INSERTED_MAX];
};

static sqlite3 *inserts_of(struct rows *rows)
{
    return rows->inserts != NULL ? store_sqlite_database(rows->inserts) : NULL;
}

static void close_rows(struct bench_rows *base)
{
    struct rows *rows = (struct rows *)base;

    for (int i = 0; i < BENCH_INSERTED_MAX; i++)
        sqlite3_finalize(rows->insert[i]);
    store_close(rows->inserts);
    if (rows->folder[0] != '\0')
        bench_folder_remove(rows->folder);
    sqlite3_close(rows->database);
    free(rows);
}

static struct bench_rows *open_rows(const struct store_place *place, struct kvr_error *error)
{
    struct rows *rows = calloc(1, sizeof(*rows));
    char path[PATH_BYTES];

    if (rows == NULL) {
        kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for the database");
        return NULL;
    }
    rows->base = (struct bench_rows){&bench_rows_sqlite, place};
    snprintf(path, sizeof(path), "%s/kvrail.db", place->folder);
    if (sqlite3_open_v2(path, &rows->database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
        SQLITE_OK) {
        sqlite3_busy_timeout(rows->database, 5000);
        return &rows->base;
    }
    kvr_error_set(error, KVR_SYSTEM, "bench", "%s cannot be read: %s", path,
                  sqlite3_errmsg(rows->database));
    close_rows(&rows->base);
    return NULL;
}

static const char *problem(struct bench_rows *base)
{
    return sqlite3_errmsg(((struct rows *)base)->database);
}

static const char *insert_problem(struct bench_rows *base)
{
    return sqlite3_errmsg(inserts_of((struct rows *)base));
}

/* ---- reading ---- */

static void *query(struct bench_rows *base, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    return sqlite3_prepare_v2(((struct rows *)base)->database, sql, -1, &statement, NULL) ==
                   SQLITE_OK
               ? statement
               : NULL;
}

static void finish(struct bench_rows *base, void *statement)
{
    (void)base;
    sqlite3_finalize(statement);
}

static bench_next next(struct bench_rows *base, void *statement, struct bench_columns *ret_columns)
{
    int result = sqlite3_step(statement);

    (void)base;
    if (result != SQLITE_ROW)
        return result == SQLITE_DONE ? BENCH_ROWS_END : BENCH_ROWS_FAIL;
    ret_columns->count = store_sqlite_parameters(statement, ret_columns->list);
    return BENCH_ROW;
}

static bool bytes(struct bench_rows *base, uint64_t *ret_bytes)
{
    sqlite3_stmt *statement =
        query(base, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
    bool read = statement != NULL && sqlite3_step(statement) == SQLITE_ROW;

    if (read)
        *ret_bytes = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return read;
}

/* ---- plain inserts ---- */

static kvr_status make(struct bench_rows *base, struct kvr_error *error)
{
    struct rows *rows = (struct rows *)base;
    char folder[PATH_BYTES];

    snprintf(folder, sizeof(folder), "%s/" BENCH_INSERTS, base->place->folder);
    if (mkdir(folder, 0700) != 0)
        return kvr_error_set(error, KVR_SYSTEM, "bench", "%s cannot be made, or is there", folder);
    snprintf(rows->folder, sizeof(rows->folder), "%s", folder);
    return store_open_writer(&(struct store_place){.folder = rows->folder}, &rows->inserts, error);
}

static bool prepare(struct bench_rows *base, int number, const char *table, int columns)
{
    struct rows *rows = (struct rows *)base;
    char sql[64 + 2 * STORE_PARAMETERS_MAX];
    int used = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?", table);

    for (int i = 1; i < columns; i++)
        used += snprintf(sql + used, sizeof(sql) - (size_t)used, ",?");
    snprintf(sql + used, sizeof(sql) - (size_t)used, ")");
    return sqlite3_prepare_v2(inserts_of(rows), sql, -1, &rows->insert[number], NULL) == SQLITE_OK;
}

static bool begin(struct bench_rows *base)
{
    return store_begin(((struct rows *)base)->inserts);
}

static bool insert(struct bench_rows *base, int number, const struct store_parameter *columns,
                   int count)
{
    sqlite3_stmt *statement = ((struct rows *)base)->insert[number];
    bool inserted;

    for (int i = 0; i < count; i++)
        store_sqlite_set(statement, i + 1, &columns[i]);
    inserted = sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_reset(statement);
    return inserted;
}

static bool commit(struct bench_rows *base)
{
    return store_commit(((struct rows *)base)->inserts);
}

const struct bench_rows_driver bench_rows_sqlite = {
    .open = open_rows,
    .close = close_rows,
    .problem = problem,
    .insert_problem = insert_problem,
    .bytes = bytes,
    .query = query,
    .next = next,
    .finish = finish,
    .make = make,
    .prepare = prepare,
    .begin = begin,
    .insert = insert,
    .commit = commit,
};
