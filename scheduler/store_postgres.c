#include "scheduler/store_postgres.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS KVR_S /* after a connection was not to be had */

static struct store *close_store(struct store *base)
{
    struct store_postgres *store = store_postgres(base);

    PQfinish(store->connection);
    store_batches_close(store->batches);
    store_expectations_close(store->expected);
    free(store->url);
    free(store->password_file);
    free(store);
    return NULL;
}

/* ---- the connection ---- */

/* The transaction is over. */
static void forget_rows(struct store_postgres *store)
{
    store_batches_forget(store->batches);
    store_expectations_forget(store->expected);
}

static void drop_connection(struct store_postgres *store)
{
    PQfinish(store->connection);
    store->connection = NULL;
    memset(store->prepared, 0, sizeof(store->prepared));
    store->sent = 0;
    store->in_transaction = false;
    forget_rows(store);
    store->period_end_us = 0;
    store->leads = store->silent = false;
    store->lost = true;
    store->others = true; /* perhaps the last commit has failed, or another one came */
}

bool store_postgres_is_there(struct store_postgres *store)
{
    kvr_ns now = kvr_clock_now();
    struct kvr_error error;

    if (store->connection != NULL && PQstatus(store->connection) == CONNECTION_OK)
        return true;
    if (store->connection != NULL)
        drop_connection(store);
    if (now < store->try_at)
        return false;
    store->trouble = HEALTH_GONE;
    if (store_postgres_connect(store, &error) == KVR_OK)
        return true;
    store->try_at = kvr_clock_now() + AGAIN_NS;
    return false;
}

/* ---- problems ---- */

static const char *problem(struct store *base)
{
    return store_postgres(base)->said;
}

static health_problem trouble(struct store *base)
{
    return store_postgres(base)->trouble;
}

static bool timed_out(struct store *base)
{
    return store_postgres(base)->timed_out;
}

static bool has_moved(struct store *base)
{
    (void)base;
    return false;
}

/* ---- statements ---- */

static void visit_rows(PGresult *result, store_row_visit *visit, void *self)
{
    struct store_row row = {&store_postgres_driver, result, 0};

    for (int rows = PQntuples(result); row.at < rows; row.at++)
        visit(&row, self);
}

static bool run(struct store *base, store_sql sql, const struct store_parameter *parameters,
                int count, store_row_visit *visit, void *self)
{
    struct store_postgres *store = store_postgres(base);
    PGresult *result;

    store->timed_out = false;
    store->patience = sql == SQL_COUNT_STATES ? STORE_SLOW_NS : STORE_ANSWER_NS;
    if (!store_postgres_is_there(store))
        return false;
    if (store_postgres_expected(store, sql, parameters, visit, self))
        return true;
    store_postgres_changes(store, sql, parameters);
    store->written |= store_postgres_writes(sql);
    if (visit == NULL && store->in_transaction && store_postgres_waits(sql))
        return store_postgres_keep_row(store, sql, parameters, count);
    if (!store_postgres_send_rows(store) ||
        !store_postgres_send_listed(store, sql, parameters, count))
        return false;
    if (visit == NULL && store->in_transaction)
        return store_postgres_flows(store);
    result = store_postgres_settle(store);
    if (result == NULL)
        return false;
    if (visit != NULL)
        visit_rows(result, visit, self);
    PQclear(result);
    return true;
}

static uint64_t changed(struct store *base)
{
    struct store_postgres *store = store_postgres(base);

    if (!store_postgres_send_rows(store) || (store->sent > 0 && !store_postgres_settled(store)))
        return 0;
    return store->changed;
}

/* ---- rows ---- */

int64_t store_postgres_number(const PGresult *result, int row, int column)
{
    const uint8_t *at = (const uint8_t *)PQgetvalue(result, row, column);
    uint64_t number = 0;
    int length = PQgetlength(result, row, column);

    for (int i = 0; i < length && i < 8; i++)
        number = number << 8 | at[i];
    return length == 4 ? (int32_t)(uint32_t)number : (int64_t)number;
}

static int64_t number(const struct store_row *row, int column)
{
    return store_postgres_number(row->rows, row->at, column);
}

static const char *text(const struct store_row *row, int column)
{
    return PQgetvalue(row->rows, row->at, column);
}

static struct store_bytes bytes(const struct store_row *row, int column)
{
    return (struct store_bytes){(const uint8_t *)PQgetvalue(row->rows, row->at, column),
                                (size_t)PQgetlength(row->rows, row->at, column)};
}

/* ---- transactions ---- */

/* The row of the table writer, with its lock; the server's clock; how many other schedulers live;
 * and when this one was seen. */
static bool read_writer(struct store_postgres *store, int64_t *ret_seen_us)
{
    char sql[512];
    PGresult *result;
    bool read;

    snprintf(sql, sizeof(sql),
             "SELECT last_id, last_writer, now_us, (SELECT count(*) FROM schedulers WHERE id <> "
             "%" PRId64 " AND seen_us > now_us - %" PRId64 "), "
             "coalesce((SELECT seen_us FROM schedulers WHERE id = %" PRId64 "), 0) "
             "FROM (SELECT *, (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT AS now_us "
             "FROM writer) AS w",
             store->me, (int64_t)(NEWS_ABSENT_NS / 1000), store->me);
    result = store_postgres_ask(store, sql);
    read = result != NULL && PQntuples(result) == 1;
    if (result != NULL && !read) {
        store->trouble = HEALTH_DAMAGED;
        store_postgres_say(store, "the table kvrail.writer has not one row");
    }
    if (read) {
        store->last_id = store->known_id = store_postgres_number(result, 0, 0);
        store->others |= store_postgres_number(result, 0, 1) != store->me;
        store->began_us = store_postgres_number(result, 0, 2);
        store->others_live = store_postgres_number(result, 0, 3) > 0;
        *ret_seen_us = store_postgres_number(result, 0, 4);
    }
    PQclear(result);
    return read;
}

/* The lock comes first: a statement sees what was committed before it began, and the rows of other
 * tables must not be older than the lock. */
static bool begin(struct store *base)
{
    struct store_postgres *store = store_postgres(base);
    int64_t seen_us;

    store->written = store->lost_asked = store->failed = false;
    store->patience = STORE_ANSWER_NS;
    forget_rows(store);
    if (!store_postgres_is_there(store) ||
        !store_postgres_send_text(store, "BEGIN ISOLATION LEVEL READ COMMITTED") ||
        !store_postgres_send_text(store, "SELECT 1 FROM writer FOR UPDATE"))
        return false;
    store->in_transaction = true;
    return read_writer(store, &seen_us) && store_postgres_arrive(store, seen_us) &&
           store_postgres_make_period(store);
}

static bool commit(struct store *base)
{
    struct store_postgres *store = store_postgres(base);
    char sql[128];
    PGresult *result;
    bool committed;

    if (!store->in_transaction || !store_postgres_send_rows(store))
        return false;
    store_expectations_forget(store->expected);
    snprintf(sql, sizeof(sql), "UPDATE writer SET last_id = %" PRId64 ", last_writer = %" PRId64,
             store->last_id, store->me);
    if (store->written && !store_postgres_send_text(store, sql))
        return false;
    snprintf(sql, sizeof(sql), "NOTIFY " STORE_POSTGRES_CHANNEL ", '%" PRId64 "'", store->me);
    if (store->written && store->others_live && !store_postgres_send_text(store, sql))
        return false;
    result = store_postgres_ask(store, "COMMIT");
    /* A transaction in which a statement has failed ends so, too, and says ROLLBACK. */
    committed = result != NULL && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    PQclear(result);
    store->in_transaction = !committed && store->connection != NULL;
    if (committed && store->lost_asked)
        store->lost = false;
    if (committed && !store->others_live)
        store->news_until_us = store->last_id;
    if (committed && store->written)
        store->others = false;
    return committed;
}

static void rollback(struct store *base)
{
    struct store_postgres *store = store_postgres(base);

    if (!store->in_transaction)
        return;
    store->in_transaction = false;
    forget_rows(store);
    store->covered_to_us = 0;
    store->period_end_us = 0; /* it may have been made in this one */
    if (PQstatus(store->connection) == CONNECTION_OK) {
        char said[KVR_DETAIL_BYTES];

        memcpy(said, store->said, sizeof(said));
        if (store->sent > 0)
            (void)store_postgres_settled(store);
        if (store_postgres_send_text(store, "ROLLBACK"))
            (void)store_postgres_settled(store);
        memcpy(store->said, said, sizeof(said));
    }
}

static bool has_written(struct store *base)
{
    return store_postgres(base)->written;
}

static bool others_wrote(struct store *base)
{
    return store_postgres(base)->others;
}

static int64_t next_id(struct store *base)
{
    struct store_postgres *store = store_postgres(base);

    store->last_id = store->last_id < store->began_us ? store->began_us : store->last_id + 1;
    return store->last_id;
}

static int64_t new_id(struct store *base, int64_t id)
{
    (void)base;
    return id;
}

static uint64_t size(struct store *base)
{
    struct store_postgres *store = store_postgres(base);
    char sql[256];
    PGresult *result;
    uint64_t found = 0;

    if (!store_postgres_is_there(store))
        return 0;
    snprintf(sql, sizeof(sql),
             "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::BIGINT FROM pg_class AS c "
             "WHERE c.relnamespace = '%s'::regnamespace AND c.relkind = 'r'",
             store->schema);
    result = store_postgres_ask(store, sql);
    if (result != NULL)
        found = (uint64_t)store_postgres_number(result, 0, 0);
    PQclear(result);
    return found;
}

const struct store_driver store_postgres_driver = {
    .close = close_store,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .has_written = has_written,
    .others_wrote = others_wrote,
    .expect = store_postgres_expect,
    .find_orders = store_postgres_find_orders,
    .news = &store_postgres_news,
    .run = run,
    .changed = changed,
    .next_id = next_id,
    .new_id = new_id,
    .problem = problem,
    .trouble = trouble,
    .timed_out = timed_out,
    .has_moved = has_moved,
    .size = size,
    .drop_period = store_postgres_drop_period,
    .number = number,
    .text = text,
    .bytes = bytes,
};
