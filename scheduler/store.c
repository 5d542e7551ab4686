#include "scheduler/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file_sync.h"
#include "base/log.h"
#include "base/removed.h"
#include "scheduler/embedded.h"
#include "scheduler/store_rows.h"

#define BUSY_MS             2000  /* no other program should write; agents wait for their answers */
#define STEPS_BETWEEN_LOOKS 20000 /* of SQLite, at the clock: under a millisecond */

static const char *const statements[] = {STORE_STATEMENT_LIST(KVR_NAME)};

sqlite3_stmt *store_statement(struct store *store, store_sql sql)
{
    sqlite3_stmt **statement = &store->statements[sql];

    if (*statement == NULL &&
        sqlite3_prepare_v3(store->database, statements[sql], -1, SQLITE_PREPARE_PERSISTENT,
                           statement, NULL) != SQLITE_OK)
        return NULL;
    return *statement;
}

const char *store_problem(struct store *store)
{
    return store->moved ? "the file of the database is not at its place"
                        : sqlite3_errmsg(store->database);
}

void store_set_deadline(struct store *store, kvr_ns deadline)
{
    store->deadline = deadline;
}

bool store_timed_out(struct store *store)
{
    return sqlite3_errcode(store->database) == SQLITE_INTERRUPT;
}

static int is_late(void *self)
{
    const struct store *store = self;

    return store->deadline != 0 && kvr_clock_now() > store->deadline;
}

void store_watch_deadline(struct store *store, bool watch)
{
    sqlite3_progress_handler(store->database, watch ? STEPS_BETWEEN_LOOKS : 0,
                             watch ? is_late : NULL, store);
}

bool store_begin(struct store *store)
{
    store->moved = store_has_moved(store);
    store->changes = sqlite3_total_changes(store->database);
    return !store->moved && store_do(store, SQL_BEGIN, NULL, 0);
}

bool store_commit(struct store *store)
{
    return store_do(store, SQL_COMMIT, NULL, 0);
}

bool store_has_written(struct store *store)
{
    return sqlite3_total_changes(store->database) != store->changes;
}

void store_rollback(struct store *store)
{
    if (!sqlite3_get_autocommit(store->database))
        (void)store_do(store, SQL_ROLLBACK, NULL, 0);
}

struct store *store_close(struct store *store)
{
    if (store == NULL)
        return NULL;
    for (int i = 0; i < SQL_END; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->database);
    free(store);
    return NULL;
}

static kvr_status cannot_use(struct store *store, const char *folder, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "store", "cannot use the database %s/kvrail.db: %s",
                         folder, store_problem(store));
}

static kvr_status open_database(const char *folder, int flags, struct store **ret_store,
                                struct kvr_error *error)
{
    struct store *store = calloc(1, sizeof(*store));
    char path[STORE_PATH_BYTES];
    kvr_status status;

    if (store == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
    if (!store_file_path(folder, "", path)) {
        store_close(store);
        return kvr_error_set(error, KVR_TOO_LARGE, "store", "the state folder's path is too long");
    }
    if (sqlite3_open_v2(path, &store->database, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        status = store->database != NULL
                     ? cannot_use(store, folder, error)
                     : kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
        store_close(store);
        return status;
    }
    sqlite3_busy_timeout(store->database, BUSY_MS);
    sqlite3_extended_result_codes(store->database, 1);
    *ret_store = store;
    return KVR_OK;
}

static kvr_status set_up(struct store *store, const char *folder, const char *pragmas,
                         struct kvr_error *error)
{
    return sqlite3_exec(store->database, pragmas, NULL, NULL, NULL) == SQLITE_OK
               ? KVR_OK
               : cannot_use(store, folder, error);
}

/* ---- migrations ---- */

static kvr_status read_version(struct store *store, int *ret_version, struct kvr_error *error)
{
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(store->database, "PRAGMA user_version", -1, &statement, NULL) !=
        SQLITE_OK)
        return kvr_error_set(error, KVR_SYSTEM, "store", "cannot read the database: %s",
                             store_problem(store));
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret_version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return KVR_OK;
}

/* VACUUM INTO writes a whole, consistent copy. It is made beside the place and moved there, so that
 * a copy cut off by a crash is never taken for a backup. */
static kvr_status back_up(struct store *store, const char *folder, int version,
                          struct kvr_error *error)
{
    char path[STORE_PATH_BYTES], partial[STORE_PATH_BYTES + 8], sql[] = "VACUUM INTO ?1";
    sqlite3_stmt *statement = NULL;
    int result, failure;

    snprintf(path, sizeof(path), "%s/kvrail.db.v%d.bak", folder, version);
    snprintf(partial, sizeof(partial), "%s.part", path);
    (void)unlink(partial);
    result = sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL);
    if (result == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, partial, -1, SQLITE_STATIC);
        result = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    if (result != SQLITE_DONE)
        return kvr_error_set(error, KVR_SYSTEM, "store", "cannot back up the database to %s: %s",
                             path, store_problem(store));
    failure = kvr_file_sync(partial); /* its name must not reach the disk before its bytes */
    if (failure == 0)
        failure = rename(partial, path) == 0 ? kvr_file_sync(folder) : errno;
    if (failure != 0)
        return kvr_error_system(error, "store", failure, "cannot write the backup %s", path);
    kvr_log_info("the database has version %d: copied to %s before it is brought to %d", version,
                 path, embedded_migration_count);
    return KVR_OK;
}

static kvr_status migrate(struct store *store, int version, struct kvr_error *error)
{
    char pragma[64];

    for (; version < embedded_migration_count; version++) {
        snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", version + 1);
        if (sqlite3_exec(store->database, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_exec(store->database, embedded_migrations[version].begin, NULL, NULL, NULL) !=
                SQLITE_OK ||
            sqlite3_exec(store->database, pragma, NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_exec(store->database, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
            kvr_error_set(error, KVR_SYSTEM, "store", "migration %s failed: %s",
                          embedded_migrations[version].name, store_problem(store));
            store_rollback(store);
            return KVR_SYSTEM;
        }
    }
    return KVR_OK;
}

static bool is_empty(struct store *store)
{
    sqlite3_stmt *statement;
    bool empty = false;

    if (sqlite3_prepare_v2(store->database, "SELECT count(*) FROM sqlite_schema", -1, &statement,
                           NULL) != SQLITE_OK)
        return false;
    if (sqlite3_step(statement) == SQLITE_ROW)
        empty = sqlite3_column_int(statement, 0) == 0;
    sqlite3_finalize(statement);
    return empty;
}

static kvr_status bring_up_to_date(struct store *store, const char *folder, struct kvr_error *error)
{
    kvr_status status;
    int version = 0;

    KVR_TRY(read_version(store, &version, error));
    if (version > embedded_migration_count)
        return kvr_error_set(error, KVR_VERSION, "store",
                             "%s/kvrail.db has version %d, and this program knows only up to %d: "
                             "use a newer kvrail-scheduler or another --state-dir",
                             folder, version, embedded_migration_count);
    if (version == embedded_migration_count)
        return KVR_OK;
    if (!is_empty(store))
        KVR_TRY(back_up(store, folder, version, error));
    if (!store_convert_begin(store))
        return kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
    status = migrate(store, version, error);
    store_convert_end(store);
    return status;
}

/* An agent of an earlier version may have reported a provider that this version does not have. */
static kvr_status check_providers(struct store *store, const char *folder, struct kvr_error *error)
{
    static const char sql[] = "SELECT name, provider FROM agents UNION "
                              "SELECT agent, provider FROM rails";
    kvr_status status = KVR_OK;
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) != SQLITE_OK)
        return kvr_error_set(error, KVR_SYSTEM, "store", "cannot read the database: %s",
                             store_problem(store));
    while (status == KVR_OK && sqlite3_step(statement) == SQLITE_ROW) {
        const char *agent = (const char *)sqlite3_column_text(statement, 0);
        const char *removed = kvr_removed_provider((const char *)sqlite3_column_text(statement, 1));

        if (removed != NULL)
            status = kvr_error_set(error, KVR_INVALID, "store",
                                   "%s/kvrail.db: agent '%s' reported a provider that is no "
                                   "longer known: %s (let the agent report to the earlier "
                                   "scheduler with it first, or take another --state-dir)",
                                   folder, agent, removed);
    }
    sqlite3_finalize(statement);
    return status;
}

/* A damaged one is set aside. */
static kvr_status open_whole(const char *folder, struct store **ret_store, struct kvr_error *error)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    char problem[KVR_DETAIL_BYTES];

    KVR_TRY(open_database(folder, flags, ret_store, error));
    if (!store_file_damaged(*ret_store, problem))
        return KVR_OK;
    *ret_store = store_close(*ret_store);
    KVR_TRY(store_file_set_aside(folder, problem, error));
    return open_database(folder, flags, ret_store, error);
}

kvr_status store_open_writer(const char *folder, struct store **ret_store, struct kvr_error *error)
{
    struct store *store = NULL;
    kvr_status status;

    /* Without a count of its memory, which takes a lock each time. Refused once SQLite runs. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    KVR_TRY(open_whole(folder, &store, error));
    status = set_up(store, folder,
                    "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                    "PRAGMA cache_size = -65536;"
                    "PRAGMA wal_autocheckpoint = 4000", /* 16 MB: pages change in many commits */
                    error);
    /* The version is looked at before journal_mode changes anything in a newer database. */
    if (status == KVR_OK)
        status = bring_up_to_date(store, folder, error);
    if (status == KVR_OK)
        status = check_providers(store, folder, error);
    if (status == KVR_OK)
        status = set_up(store, folder, "PRAGMA journal_mode = WAL", error);
    if (status != KVR_OK) {
        store_close(store);
        return status;
    }
    *ret_store = store;
    return KVR_OK;
}

kvr_status store_open_reader(const char *folder, struct store **ret_store, struct kvr_error *error)
{
    struct store *store = NULL;
    kvr_status status;

    KVR_TRY(open_database(folder, SQLITE_OPEN_READONLY, &store, error));
    status = set_up(store, folder, "PRAGMA query_only = ON", error);
    if (status != KVR_OK) {
        store_close(store);
        return status;
    }
    store_watch_deadline(store, true);
    *ret_store = store;
    return KVR_OK;
}
