/* The database as a file: whether it is whole, whether it is still there, and how large it is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file_sync.h"
#include "base/log.h"
#include "scheduler/store_sqlite.h"

#define CHECK_WITHIN (5 * KVR_S) /* a large database is looked at only so long: agents wait */

static const char *const parts[] = {"", "-wal", "-shm"};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

bool store_file_path(const char *folder, const char *part, char path[STORE_PATH_BYTES])
{
    return snprintf(path, STORE_PATH_BYTES, "%s/kvrail.db%s", folder, part) < PATH_MAX;
}

uint64_t store_file_size(struct store *store)
{
    char path[STORE_PATH_BYTES];
    uint64_t bytes = 0;
    struct stat file;

    for (size_t i = 0; i < PARTS; i++)
        if (store_file_path(store_sqlite(store)->folder, parts[i], path) && stat(path, &file) == 0)
            bytes += (uint64_t)file.st_size;
    return bytes;
}

bool store_file_used(struct store *store, uint64_t *ret_bytes)
{
    sqlite3_stmt *statement = NULL;
    bool read = sqlite3_prepare_v2(store_sqlite(store)->database,
                                   "SELECT (page_count - freelist_count) * page_size FROM "
                                   "pragma_page_count, pragma_freelist_count, pragma_page_size",
                                   -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;

    if (read)
        *ret_bytes = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return read;
}

bool store_file_has_moved(struct store *store)
{
    int moved = 0;

    return sqlite3_file_control(store_sqlite(store)->database, "main", SQLITE_FCNTL_HAS_MOVED,
                                &moved) == SQLITE_OK &&
           moved != 0;
}

static bool says_damaged(int result)
{
    return (result & 0xff) == SQLITE_CORRUPT || (result & 0xff) == SQLITE_NOTADB;
}

health_problem store_file_trouble(struct store *store)
{
    int result = sqlite3_extended_errcode(store_sqlite(store)->database);

    if (store_sqlite(store)->moved)
        return HEALTH_MISSING;
    if (says_damaged(result))
        return HEALTH_DAMAGED;
    switch (result & 0xff) {
    case SQLITE_FULL:
        return HEALTH_DISK_FULL;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return HEALTH_LOCKED;
    default:
        return HEALTH_COMMITS;
    }
}

/* ---- at the start ---- */

/* What is wrong with it, or "". */
static int quick_check(struct store_sqlite *store, char problem[KVR_DETAIL_BYTES])
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(store->database, "PRAGMA quick_check(1)", -1, &statement, NULL);

    problem[0] = '\0';
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW) {
        const char *said = (const char *)sqlite3_column_text(statement, 0);

        if (said != NULL && strcmp(said, "ok") != 0)
            snprintf(problem, KVR_DETAIL_BYTES, "%s", said);
    } else if (says_damaged(result)) {
        snprintf(problem, KVR_DETAIL_BYTES, "%s", store_problem(&store->base));
    }
    for (char *at = problem; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    sqlite3_finalize(statement);
    return result;
}

bool store_file_damaged(struct store_sqlite *store, char problem[KVR_DETAIL_BYTES])
{
    store_set_deadline(&store->base, kvr_clock_now() + CHECK_WITHIN);
    store_sqlite_watch_deadline(store, true);
    if (quick_check(store, problem) == SQLITE_INTERRUPT)
        kvr_log_info("the database is too large to check all of it within %d s: what was looked at "
                     "is whole",
                     (int)(CHECK_WITHIN / KVR_S));
    store_sqlite_watch_deadline(store, false);
    store_set_deadline(&store->base, 0);
    return problem[0] != '\0';
}

kvr_status store_file_set_aside(const char *folder, const char *problem, struct kvr_error *error)
{
    char from[STORE_PATH_BYTES], to[STORE_PATH_BYTES], day[64];
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    for (size_t i = 0; i < PARTS; i++) {
        strftime(day, sizeof(day), ".damaged-%Y%m%dT%H%M%SZ", &utc);
        strcat(day, parts[i]);
        if (!store_file_path(folder, parts[i], from) || !store_file_path(folder, day, to))
            return kvr_error_set(error, KVR_TOO_LARGE, "store",
                                 "the state folder's path is too "
                                 "long");
        if (rename(from, to) != 0 && errno != ENOENT)
            return kvr_error_system(error, "store", errno, "cannot set the damaged %s aside", from);
        if (i == 0)
            kvr_log_error(
                "the database %s is damaged (%s): it is kept as %s, and a new one begins; "
                "agents send again what was not acknowledged",
                from, problem, to);
    }
    if (kvr_file_sync(folder) != 0)
        return kvr_error_system(error, "store", errno, "cannot write the folder %s", folder);
    return KVR_OK;
}
