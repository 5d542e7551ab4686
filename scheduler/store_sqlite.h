/* Inside the store: SQLite. */
#ifndef KVR_SCHEDULER_STORE_SQLITE_H
#define KVR_SCHEDULER_STORE_SQLITE_H

#include <limits.h>
#include <sqlite3.h>

#include "scheduler/store_rows.h"

struct store_sqlite {
    struct store base;
    sqlite3 *database;
    char *folder;
    int changes;                       /* that the writer had made when its transaction began */
    bool inside;                       /* a transaction was begun, and has not ended */
    bool moved;                        /* the writer's file is not at its place any more */
    sqlite3_stmt *statements[SQL_END]; /* each is prepared once, when it is first used */
};

extern const struct store_driver store_sqlite_driver;

static inline struct store_sqlite *store_sqlite(struct store *store)
{
    return (struct store_sqlite *)store;
}
/* For tests and tools that look into it. */
static inline sqlite3 *store_sqlite_database(struct store *store)
{
    return store_sqlite(store)->database;
}
/* Of a statement that stands on a row. */
static inline struct store_row store_sqlite_row(sqlite3_stmt *statement)
{
    return (struct store_row){&store_sqlite_driver, statement, 0};
}

/* A parameter of a statement; what it points to is borrowed until the statement has run. */
void store_sqlite_set(sqlite3_stmt *statement, int column, const struct store_parameter *parameter);
/* The row's columns as parameters of another statement, borrowed until the next row. Returns how
 * many it has. */
int store_sqlite_parameters(sqlite3_stmt *row,
                            struct store_parameter columns[STORE_PARAMETERS_MAX]);

KVR_MUST_CHECK kvr_status store_sqlite_open_writer(const char *folder, struct store **ret_store,
                                                   struct kvr_error *error);
KVR_MUST_CHECK kvr_status store_sqlite_open_reader(const char *folder, struct store **ret_store,
                                                   struct kvr_error *error);
/* Whether statements end at the store's deadline. */
void store_sqlite_watch_deadline(struct store_sqlite *store, bool watch);

/* ---- store_sqlite_convert.c ---- */

/* What migration 15 needs of SQLite: pack_events(ID), which packs the events of a transfer. */
bool store_convert_begin(struct store_sqlite *store);
void store_convert_end(struct store_sqlite *store);

/* ---- store_sqlite_file.c ---- */

#define STORE_PATH_BYTES (PATH_MAX + 64)

/* part: "", "-wal" …; false: the path is too long. */
bool store_file_path(const char *folder, const char *part, char path[STORE_PATH_BYTES]);
uint64_t store_file_size(struct store *store);
bool store_file_used(struct store *store, uint64_t *ret_bytes);
bool store_file_has_moved(struct store *store);
health_problem store_file_trouble(struct store *store);
/* True: problem says what is wrong. Looks for some seconds at most. */
bool store_file_damaged(struct store_sqlite *store, char problem[KVR_DETAIL_BYTES]);
/* Renames the files of a database that is closed, so that a new one can begin. */
KVR_MUST_CHECK kvr_status store_file_set_aside(const char *folder, const char *problem,
                                               struct kvr_error *error);

#endif
