/* SQLite: how its database is opened and brought to this version. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_sync.h"
#include "base/log.h"
#include "base/removed.h"
#include "scheduler/embedded.h"
#include "scheduler/store_sqlite.h"

#define BUSY_MS        2000  /* no other program should write; agents wait for their answers */
#define LOG_PAGES      4000  /* 16 MB: pages change in many commits */
#define LOG_PAGES_MOST 16000 /* 64 MB: then the writer waits for the readers, for so long: */
#define READERS_MS     200

static void close_it(struct store_sqlite *store)
{
    store_sqlite_driver.close(&store->base);
}

static kvr_status cannot_use(struct store_sqlite *store, const char *folder,
                             struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "store", "cannot use the database %s/kvrail.db: %s",
                         folder, store_problem(&store->base));
}

static kvr_status open_database(const char *folder, int flags, struct store_sqlite **ret_store,
                                struct kvr_error *error)
{
    struct store_sqlite *store = calloc(1, sizeof(*store));
    char path[STORE_PATH_BYTES];
    kvr_status status;

    if (store == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
    store->base.driver = &store_sqlite_driver;
    store->folder = strdup(folder);
    if (store->folder == NULL) {
        close_it(store);
        return kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
    }
    if (!store_file_path(folder, "", path)) {
        close_it(store);
        return kvr_error_set(error, KVR_TOO_LARGE, "store", "the state folder's path is too long");
    }
    if (sqlite3_open_v2(path, &store->database, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        status = store->database != NULL
                     ? cannot_use(store, folder, error)
                     : kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
        close_it(store);
        return status;
    }
    sqlite3_busy_timeout(store->database, BUSY_MS);
    sqlite3_extended_result_codes(store->database, 1);
    *ret_store = store;
    return KVR_OK;
}

static kvr_status set_up(struct store_sqlite *store, const char *folder, const char *pragmas,
                         struct kvr_error *error)
{
    return sqlite3_exec(store->database, pragmas, NULL, NULL, NULL) == SQLITE_OK
               ? KVR_OK
               : cannot_use(store, folder, error);
}

/* ---- migrations ---- */

static kvr_status read_version(struct store_sqlite *store, int *ret_version,
                               struct kvr_error *error)
{
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(store->database, "PRAGMA user_version", -1, &statement, NULL) !=
        SQLITE_OK)
        return kvr_error_set(error, KVR_SYSTEM, "store", "cannot read the database: %s",
                             store_problem(&store->base));
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret_version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return KVR_OK;
}

/* VACUUM INTO writes a whole, consistent copy. It is made beside the place and moved there, so that
 * a copy cut off by a crash is never taken for a backup. */
static kvr_status back_up(struct store_sqlite *store, const char *folder, int version,
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
                             path, store_problem(&store->base));
    failure = kvr_file_sync(partial); /* its name must not reach the disk before its bytes */
    if (failure == 0)
        failure = rename(partial, path) == 0 ? kvr_file_sync(folder) : errno;
    if (failure != 0)
        return kvr_error_system(error, "store", failure, "cannot write the backup %s", path);
    kvr_log_info("the database has version %d: copied to %s before it is brought to %d", version,
                 path, embedded_migration_count);
    return KVR_OK;
}

static kvr_status migrate(struct store_sqlite *store, int version, struct kvr_error *error)
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
                          embedded_migrations[version].name, store_problem(&store->base));
            store_rollback(&store->base);
            return KVR_SYSTEM;
        }
    }
    return KVR_OK;
}

static bool is_empty(struct store_sqlite *store)
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

static kvr_status bring_up_to_date(struct store_sqlite *store, const char *folder,
                                   struct kvr_error *error)
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
static kvr_status check_providers(struct store_sqlite *store, const char *folder,
                                  struct kvr_error *error)
{
    static const char sql[] = "SELECT name, provider FROM agents UNION "
                              "SELECT agent, provider FROM rails";
    kvr_status status = KVR_OK;
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) != SQLITE_OK)
        return kvr_error_set(error, KVR_SYSTEM, "store", "cannot read the database: %s",
                             store_problem(&store->base));
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

/* The log begins anew only at a moment without a reader of it. Where one question follows another,
 * that moment never comes by itself. */
static int after_commit(void *self, sqlite3 *database, const char *name, int pages)
{
    bool waits = pages >= LOG_PAGES_MOST;

    (void)self;
    if (pages < LOG_PAGES)
        return SQLITE_OK;
    sqlite3_busy_timeout(database, waits ? READERS_MS : BUSY_MS);
    (void)sqlite3_wal_checkpoint_v2(
        database, name, waits ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    sqlite3_busy_timeout(database, BUSY_MS);
    return SQLITE_OK;
}

/* A damaged one is set aside. */
static kvr_status open_whole(const char *folder, struct store_sqlite **ret_store,
                             struct kvr_error *error)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    char problem[KVR_DETAIL_BYTES];

    KVR_TRY(open_database(folder, flags, ret_store, error));
    if (!store_file_damaged(*ret_store, problem))
        return KVR_OK;
    close_it(*ret_store);
    KVR_TRY(store_file_set_aside(folder, problem, error));
    return open_database(folder, flags, ret_store, error);
}

kvr_status store_sqlite_open_writer(const char *folder, struct store **ret_store,
                                    struct kvr_error *error)
{
    struct store_sqlite *store = NULL;
    kvr_status status;

    /* Without a count of its memory, which takes a lock each time. Refused once SQLite runs. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    KVR_TRY(open_whole(folder, &store, error));
    status = set_up(store, folder,
                    "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                    "PRAGMA cache_size = -65536",
                    error);
    /* The version is looked at before journal_mode changes anything in a newer database. */
    if (status == KVR_OK)
        status = bring_up_to_date(store, folder, error);
    if (status == KVR_OK)
        status = check_providers(store, folder, error);
    if (status == KVR_OK)
        status = set_up(store, folder, "PRAGMA journal_mode = WAL", error);
    sqlite3_wal_hook(store->database, after_commit, NULL);
    if (status != KVR_OK) {
        close_it(store);
        return status;
    }
    *ret_store = &store->base;
    return KVR_OK;
}

kvr_status store_sqlite_open_reader(const char *folder, struct store **ret_store,
                                    struct kvr_error *error)
{
    struct store_sqlite *store = NULL;
    kvr_status status;

    KVR_TRY(open_database(folder, SQLITE_OPEN_READONLY, &store, error));
    status = set_up(store, folder, "PRAGMA query_only = ON", error);
    if (status != KVR_OK) {
        close_it(store);
        return status;
    }
    store_sqlite_watch_deadline(store, true);
    *ret_store = &store->base;
    return KVR_OK;
}
