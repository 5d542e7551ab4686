#include "scheduler/store_sqlite.h"

#include <stdlib.h>

#define STEPS_BETWEEN_LOOKS 20000 /* of SQLite, at the clock: under a millisecond */

static const char *const statements[] = {STORE_STATEMENT_LIST(KVR_NAME)};

static struct store *close_store(struct store *base)
{
    struct store_sqlite *store = store_sqlite(base);

    for (int i = 0; i < SQL_END; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->database);
    free(store->folder);
    free(store);
    return NULL;
}

/* ---- transactions ---- */

static bool begin(struct store *base)
{
    struct store_sqlite *store = store_sqlite(base);

    store->moved = store_file_has_moved(base);
    store->changes = sqlite3_total_changes(store->database);
    store->inside = !store->moved &&
                    sqlite3_exec(store->database, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    return store->inside;
}

static bool commit(struct store *base)
{
    struct store_sqlite *store = store_sqlite(base);

    store->moved = store_file_has_moved(base);
    if (store->moved || sqlite3_exec(store->database, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return false;
    store->inside = false;
    return true;
}

static void rollback(struct store *base)
{
    struct store_sqlite *store = store_sqlite(base);

    store->inside = false;
    if (!sqlite3_get_autocommit(store->database))
        (void)sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL);
}

static bool has_written(struct store *base)
{
    struct store_sqlite *store = store_sqlite(base);

    return sqlite3_total_changes(store->database) != store->changes;
}

static const char *journal_folder(const struct store *base)
{
    return ((const struct store_sqlite *)base)->folder;
}

/* ---- statements ---- */

static sqlite3_stmt *statement_of(struct store_sqlite *store, store_sql sql)
{
    sqlite3_stmt **statement = &store->statements[sql];

    if (*statement == NULL &&
        sqlite3_prepare_v3(store->database, statements[sql], -1, SQLITE_PREPARE_PERSISTENT,
                           statement, NULL) != SQLITE_OK)
        return NULL;
    return *statement;
}

/* What is bound is borrowed until the statement has run. */
void store_sqlite_set(sqlite3_stmt *statement, int column, const struct store_parameter *parameter)
{
    if (parameter->null)
        sqlite3_bind_null(statement, column);
    else if (parameter->type == STORE_IS_NUMBER)
        sqlite3_bind_int64(statement, column, parameter->number);
    else if (parameter->type == STORE_IS_TEXT)
        sqlite3_bind_text(statement, column, parameter->at, -1, SQLITE_STATIC);
    else
        sqlite3_bind_blob(statement, column, parameter->at, (int)parameter->bytes, SQLITE_STATIC);
}

int store_sqlite_parameters(sqlite3_stmt *row, struct store_parameter columns[STORE_PARAMETERS_MAX])
{
    int count = sqlite3_column_count(row);

    for (int i = 0; i < count && i < STORE_PARAMETERS_MAX; i++) {
        struct store_parameter *column = &columns[i];

        *column = (struct store_parameter){.type = STORE_IS_NUMBER};
        switch (sqlite3_column_type(row, i)) {
        case SQLITE_INTEGER:
            column->number = sqlite3_column_int64(row, i);
            break;
        case SQLITE_TEXT:
            column->type = STORE_IS_TEXT;
            column->at = sqlite3_column_text(row, i);
            column->bytes = (size_t)sqlite3_column_bytes(row, i);
            break;
        case SQLITE_BLOB:
            column->type = STORE_IS_BYTES;
            column->bytes = (size_t)sqlite3_column_bytes(row, i);
            column->at = column->bytes > 0 ? sqlite3_column_blob(row, i) : "";
            break;
        default:
            column->null = true;
        }
    }
    return count;
}

static bool run(struct store *base, store_sql sql, const struct store_parameter *parameters,
                int count, store_row_visit *visit, void *self)
{
    sqlite3_stmt *statement = statement_of(store_sqlite(base), sql);
    struct store_row row = store_sqlite_row(statement);
    int result;

    /* SQLite ended the transaction by itself, after an error of a read. */
    if (statement == NULL ||
        (store_sqlite(base)->inside && sqlite3_get_autocommit(store_sqlite(base)->database)))
        return false;
    for (int i = 0; i < count; i++)
        store_sqlite_set(statement, i + 1, &parameters[i]);
    while ((result = sqlite3_step(statement)) == SQLITE_ROW)
        if (visit != NULL)
            visit(&row, self);
    sqlite3_reset(statement);
    return result == SQLITE_DONE;
}

static uint64_t changed(struct store *base)
{
    return (uint64_t)sqlite3_changes(store_sqlite(base)->database);
}

static int64_t next_id(struct store *base)
{
    (void)base;
    return 0;
}

static int64_t new_id(struct store *base, int64_t id)
{
    (void)id;
    return sqlite3_last_insert_rowid(store_sqlite(base)->database);
}

/* ---- rows ---- */

static int64_t number(const struct store_row *row, int column)
{
    return sqlite3_column_int64(row->rows, column);
}

static const char *text(const struct store_row *row, int column)
{
    const char *found = (const char *)sqlite3_column_text(row->rows, column);

    return found != NULL ? found : "";
}

static struct store_bytes bytes(const struct store_row *row, int column)
{
    const uint8_t *at = sqlite3_column_blob(row->rows, column);

    return (struct store_bytes){at, (size_t)sqlite3_column_bytes(row->rows, column)};
}

/* ---- problems ---- */

static const char *problem(struct store *base)
{
    const struct store_sqlite *store = store_sqlite(base);

    return store->moved ? "the file of the database is not at its place"
                        : sqlite3_errmsg(store->database);
}

static bool timed_out(struct store *base)
{
    return sqlite3_errcode(store_sqlite(base)->database) == SQLITE_INTERRUPT;
}

static int is_late(void *self)
{
    const struct store *store = self;

    return store->deadline != 0 && kvr_clock_now() > store->deadline;
}

void store_sqlite_watch_deadline(struct store_sqlite *store, bool watch)
{
    sqlite3_progress_handler(store->database, watch ? STEPS_BETWEEN_LOOKS : 0,
                             watch ? is_late : NULL, &store->base);
}

const struct store_driver store_sqlite_driver = {
    .close = close_store,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .has_written = has_written,
    .run = run,
    .changed = changed,
    .next_id = next_id,
    .new_id = new_id,
    .problem = problem,
    .trouble = store_file_trouble,
    .timed_out = timed_out,
    .has_moved = store_file_has_moved,
    .size = store_file_size,
    .used = store_file_used,
    .journal_folder = journal_folder,
    .number = number,
    .text = text,
    .bytes = bytes,
};
