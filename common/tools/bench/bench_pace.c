#include "tools/bench/bench_pace.h"

#include <sqlite3.h>
#include <time.h>

#include "base/clock.h"

/* Rows that are made, sorted and read again: the kind of work that answers are. */
#define WORK                                                                                       \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000), "             \
    "mixed(k, t) AS (SELECT i * 7919 % 4001, printf('%08x', i) FROM n) "                           \
    "SELECT t FROM mixed ORDER BY k"

kvr_status bench_pace_open(struct bench_pace *pace, struct kvr_error *error)
{
    sqlite3 *memory = NULL;

    bench_pace_begin(pace);
    if (sqlite3_open(":memory:", &memory) == SQLITE_OK &&
        sqlite3_prepare_v2(memory, WORK, -1, &pace->work, NULL) == SQLITE_OK)
        return KVR_OK;
    (void)kvr_error_set(error, KVR_SYSTEM, "bench", "SQLite has no database in memory: %s",
                        sqlite3_errmsg(memory));
    sqlite3_close(memory);
    return error->status;
}

void bench_pace_close(struct bench_pace *pace)
{
    sqlite3 *memory = pace->work != NULL ? sqlite3_db_handle(pace->work) : NULL;

    sqlite3_finalize(pace->work);
    sqlite3_close(memory);
    *pace = (struct bench_pace){0};
}

void bench_pace_begin(struct bench_pace *pace)
{
    kvr_histogram_init(&pace->taken);
}

kvr_ns bench_pace_worked(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (kvr_ns)used.tv_sec * KVR_S + (kvr_ns)used.tv_nsec;
}

void bench_pace_measure(struct bench_pace *pace)
{
    kvr_ns begin = bench_pace_worked();

    while (sqlite3_step(pace->work) == SQLITE_ROW)
        ;
    sqlite3_reset(pace->work);
    kvr_histogram_record(&pace->taken, bench_pace_worked() - begin);
}

double bench_pace_slower(const struct bench_pace *pace)
{
    double ratio = (double)kvr_histogram_percentile(&pace->taken, 50) / BENCH_PACE_QUIET_NS;

    return ratio > 1 ? ratio : 1;
}
