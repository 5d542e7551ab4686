/* Partitions of transfers and events by their ids, which are times: retention drops them whole. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/store_postgres.h"

#define HOUR_US   (3600 * INT64_C(1000000))
#define DAY_US    (24 * HOUR_US)
/* Of ids that one transaction may give. */
#define MARGIN_US (60 * INT64_C(1000000))

/* A short retention wants short partitions: what is past it stays for as long as one of them. */
static int64_t period_us(const struct store_postgres *store)
{
    return store->base.retention < 2 * 86400 * (kvr_ns)KVR_S ? HOUR_US : DAY_US;
}

static bool do_all(struct store_postgres *store, const char *const sqls[], size_t count)
{
    bool done = true;

    for (size_t i = 0; i < count && done; i++) {
        done = store_postgres_do(store, sqls[i]);
    }
    return done;
}

/* The first number of the answer, or `otherwise` where it has no row. */
static bool ask_number(struct store_postgres *store, const char *sql, int64_t otherwise,
                       int64_t *ret_number)
{
    PGresult *result = store_postgres_ask(store, sql);
    bool answered = result != NULL;

    *ret_number = otherwise;
    if (answered && PQntuples(result) > 0)
        *ret_number = store_postgres_number(result, 0, 0);
    PQclear(result);
    return answered;
}

/* A partition that is made alone and attached waits for no reader: a dump of the database reads its
 * tables for as long as it lasts. */
static bool add_partition(struct store_postgres *store, const char *table, int64_t lower,
                          int64_t upper)
{
    char create[128], attach[256];
    const char *const sqls[] = {create, attach};

    snprintf(create, sizeof(create), "CREATE TABLE %s_%" PRId64 " (LIKE %s INCLUDING DEFAULTS)",
             table, lower, table);
    snprintf(attach, sizeof(attach),
             "ALTER TABLE %s ATTACH PARTITION %s_%" PRId64 " FOR VALUES FROM (%" PRId64
             ") TO (%" PRId64 ")",
             table, table, lower, lower, upper);
    return do_all(store, sqls, 2);
}

static bool add_period(struct store_postgres *store, int64_t lower, int64_t upper)
{
    char row[128];

    snprintf(row, sizeof(row), "INSERT INTO periods VALUES (%" PRId64 ", %" PRId64 ")", lower,
             upper);
    store->written = true;
    return add_partition(store, "transfers", lower, upper) &&
           add_partition(store, "events", lower, upper) && store_postgres_do(store, row);
}

/* Ids only grow, so all from now on up to the end of the last period have their partition. */
bool store_postgres_make_period(struct store_postgres *store)
{
    int64_t id = store->last_id < store->began_us ? store->began_us : store->last_id;
    int64_t period = period_us(store), until = id + MARGIN_US, end, lower;

    if (until < store->period_end_us)
        return true;
    if (!ask_number(store, "SELECT max(upper) FROM periods", 0, &end))
        return false;
    if (until >= end) {
        lower = id - id % period;
        lower = lower > end ? lower : end;
        end = until - until % period + period;
        if (!add_period(store, lower, end))
            return false;
    }
    store->period_end_us = end;
    return true;
}

/* A period ends where the next one begins. */
bool store_postgres_cover(struct store_postgres *store, int64_t id)
{
    int64_t period = period_us(store), lower, upper, floor = id - id % period;
    char sql[256];

    if (id >= store->covered_from_us && id < store->covered_to_us)
        return true;
    snprintf(sql, sizeof(sql),
             "SELECT upper FROM periods WHERE lower <= %" PRId64 " ORDER BY lower DESC LIMIT 1",
             id);
    if (!ask_number(store, sql, 0, &lower))
        return false;
    if (lower > id) { /* it is there */
        store->covered_from_us = id;
        store->covered_to_us = lower;
        return true;
    }
    snprintf(sql, sizeof(sql),
             "SELECT lower FROM periods WHERE lower > %" PRId64 " ORDER BY lower LIMIT 1", id);
    if (!ask_number(store, sql, floor + period, &upper))
        return false;
    lower = lower > floor ? lower : floor;
    upper = upper < floor + period ? upper : floor + period;
    store->covered_from_us = lower;
    store->covered_to_us = upper;
    return add_period(store, lower, upper);
}

/* ---- what is past its time ---- */

static bool count_states(struct store_postgres *store, const char *sql, uint64_t states[STATE_END],
                         uint64_t *ret_removed)
{
    PGresult *result = store_postgres_ask(store, sql);
    bool counted = result != NULL;
    transfer_state state;

    for (int i = 0; counted && i < PQntuples(result); i++) {
        uint64_t count = (uint64_t)store_postgres_number(result, i, 1);

        *ret_removed += count;
        if (states != NULL && transfer_state_from_name(PQgetvalue(result, i, 0), &state))
            states[state] += count;
    }
    PQclear(result);
    return counted;
}

/* Takes the locks that the drop needs, or none: a program that reads for long, as a dump does,
 * delays the drop and not the reports. */
static bool lock_partitions(struct store_postgres *store, int64_t lower, bool *ret_locked)
{
    static const char begin[] = "SAVEPOINT locking", soon[] = "SET LOCAL lock_timeout = '100ms'";
    static const char as_before[] = "SET LOCAL lock_timeout = '5s'";
    static const char undo[] = "ROLLBACK TO SAVEPOINT locking";
    char lock[256];

    snprintf(lock, sizeof(lock),
             "LOCK TABLE ONLY transfers, ONLY events, transfers_%" PRId64 ", events_%" PRId64
             " IN ACCESS EXCLUSIVE MODE",
             lower, lower);
    if (!do_all(store, (const char *const[]){begin, soon}, 2))
        return false;
    *ret_locked = store_postgres_do(store, lock);
    if (*ret_locked)
        return store_postgres_do(store, as_before);
    return store->trouble == HEALTH_LOCKED && store_postgres_do(store, undo);
}

/* The other schedulers count again: a scheduler without its row reads all it knows anew. */
static bool drop_partitions(struct store_postgres *store, int64_t lower)
{
    char transfers[64], events[64], row[64], absent[64];
    const char *const sqls[] = {transfers, events, row, absent};

    snprintf(transfers, sizeof(transfers), "DROP TABLE transfers_%" PRId64, lower);
    snprintf(events, sizeof(events), "DROP TABLE events_%" PRId64, lower);
    snprintf(row, sizeof(row), "DELETE FROM periods WHERE lower = %" PRId64, lower);
    snprintf(absent, sizeof(absent), "DELETE FROM schedulers WHERE id <> %" PRId64, store->me);
    store->written = true;
    store->period_end_us = 0; /* a clock that was ahead may have ended the last one */
    return do_all(store, sqls, 4);
}

/* The oldest period, if all its transfers have ended and are old. A younger transfer may have had
 * its first events there, and loses them. */
bool store_postgres_drop_period(struct store *base, int64_t before_ns, uint64_t states[STATE_END],
                                uint64_t *ret_removed)
{
    struct store_postgres *store = store_postgres(base);
    int64_t lower;
    bool locked;
    char sql[512];

    *ret_removed = 0;
    store->patience = STORE_SLOW_NS;
    snprintf(sql, sizeof(sql),
             "SELECT lower FROM periods WHERE upper <= %" PRId64
             " AND NOT EXISTS (SELECT 1 FROM transfers WHERE ordinal >= lower AND ordinal < upper "
             "AND (live = 1 OR updated_ns >= %" PRId64 ")) ORDER BY lower LIMIT 1",
             before_ns / 1000, before_ns);
    if (!ask_number(store, sql, -1, &lower))
        return false;
    if (lower < 0)
        return true;
    if (!lock_partitions(store, lower, &locked))
        return false;
    if (!locked)
        return true;
    snprintf(sql, sizeof(sql), "SELECT state, count(*) FROM transfers_%" PRId64 " GROUP BY state",
             lower);
    if (!count_states(store, sql, states, ret_removed) || !drop_partitions(store, lower))
        return false;
    ++*ret_removed; /* the period, which may have been empty */
    return true;
}
