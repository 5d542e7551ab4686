/* The rows of a scheduler in PostgreSQL. A cursor reads each query, so that no table has to fit
 * into memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/store_postgres.h"
#include "tools/bench/bench_rows_driver.h"

#define SCHEMA     STORE_POSTGRES_SCHEMA "_bench_" BENCH_INSERTS
#define PAGE       "1000" /* rows that are fetched at a time */
#define NAME_BYTES 16

enum { OID_BYTEA = 17, OID_TEXT = 25 };

struct rows {
    struct bench_rows base;
    struct store *from, *inserts;
    struct store_place to; /* of the inserts */
    bool made;             /* the schema is there */
    int cursors;
};

struct cursor {
    int number;
    PGresult *page; /* NULL: not fetched yet */
    int at;
};

static struct store_postgres *from_of(struct bench_rows *base)
{
    return store_postgres(((struct rows *)base)->from);
}

static struct store_postgres *inserts_of(struct bench_rows *base)
{
    return store_postgres(((struct rows *)base)->inserts);
}

static void close_rows(struct bench_rows *base)
{
    struct rows *rows = (struct rows *)base;

    rows->from = store_close(rows->from); /* its transaction holds locks */
    if (rows->made && rows->inserts != NULL) {
        struct store_postgres *inserts = inserts_of(base);

        inserts->patience = STORE_SLOW_NS;
        if (PQtransactionStatus(inserts->connection) != PQTRANS_IDLE) /* an insert has failed */
            (void)store_postgres_do(inserts, "ROLLBACK");
        if (!store_postgres_do(inserts, "DROP SCHEMA " SCHEMA " CASCADE"))
            fprintf(stderr, "kvrail bench: the schema " SCHEMA " is left behind: %s\n",
                    store_problem(rows->inserts));
    }
    store_close(rows->inserts);
    free(rows);
}

static struct bench_rows *open_rows(const struct store_place *place, struct kvr_error *error)
{
    struct rows *rows = calloc(1, sizeof(*rows));
    struct store_postgres *from;

    if (rows == NULL) {
        kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for the database");
        return NULL;
    }
    rows->base = (struct bench_rows){&bench_rows_postgres, place};
    if (store_open_reader(place, &rows->from, error) != KVR_OK) {
        rows->from = NULL;
        close_rows(&rows->base);
        return NULL;
    }
    from = from_of(&rows->base);
    from->patience = KVR_NEVER;
    if (store_postgres_do(from, "SET idle_in_transaction_session_timeout = 0") &&
        store_postgres_do(from, "BEGIN"))
        return &rows->base;
    kvr_error_set(error, KVR_SYSTEM, "bench", "the database cannot be read: %s",
                  store_problem(rows->from));
    close_rows(&rows->base);
    return NULL;
}

static const char *problem(struct bench_rows *base)
{
    return store_problem(((struct rows *)base)->from);
}

static const char *insert_problem(struct bench_rows *base)
{
    return store_problem(((struct rows *)base)->inserts);
}

static bool bytes(struct bench_rows *base, uint64_t *ret_bytes)
{
    *ret_bytes = store_size(((struct rows *)base)->from);
    return *ret_bytes > 0;
}

/* ---- reading ---- */

static void *query(struct bench_rows *base, const char *sql)
{
    struct rows *rows = (struct rows *)base;
    struct cursor *cursor = calloc(1, sizeof(*cursor));
    char declare[512];

    if (cursor == NULL)
        return NULL;
    cursor->number = ++rows->cursors;
    snprintf(declare, sizeof(declare), "DECLARE c%d NO SCROLL CURSOR FOR %s", cursor->number, sql);
    if (store_postgres_do(from_of(base), declare))
        return cursor;
    free(cursor);
    return NULL;
}

static void finish(struct bench_rows *base, void *self)
{
    struct cursor *cursor = self;
    char close[32];

    if (cursor == NULL)
        return;
    snprintf(close, sizeof(close), "CLOSE c%d", cursor->number);
    (void)store_postgres_do(from_of(base), close);
    PQclear(cursor->page);
    free(cursor);
}

/* False: it fails. */
static bool fetch(struct bench_rows *base, struct cursor *cursor)
{
    char sql[48];

    snprintf(sql, sizeof(sql), "FETCH " PAGE " FROM c%d", cursor->number);
    PQclear(cursor->page);
    cursor->page = store_postgres_ask(from_of(base), sql);
    cursor->at = 0;
    return cursor->page != NULL;
}

static struct store_parameter column_of(const PGresult *page, int row, int column)
{
    Oid type = PQftype(page, column);

    return (struct store_parameter){
        .type = type == OID_TEXT    ? STORE_IS_TEXT
                : type == OID_BYTEA ? STORE_IS_BYTES
                                    : STORE_IS_NUMBER,
        .null = PQgetisnull(page, row, column) != 0,
        .number = store_postgres_number(page, row, column),
        .at = PQgetvalue(page, row, column),
        .bytes = (size_t)PQgetlength(page, row, column),
    };
}

static bench_next next(struct bench_rows *base, void *self, struct bench_columns *ret_columns)
{
    struct cursor *cursor = self;

    if ((cursor->page == NULL || cursor->at == PQntuples(cursor->page)) && !fetch(base, cursor))
        return BENCH_ROWS_FAIL;
    if (PQntuples(cursor->page) == 0)
        return BENCH_ROWS_END;
    ret_columns->count = PQnfields(cursor->page);
    for (int i = 0; i < ret_columns->count && i < STORE_PARAMETERS_MAX; i++)
        ret_columns->list[i] = column_of(cursor->page, cursor->at, i);
    cursor->at++;
    return BENCH_ROW;
}

/* ---- plain inserts ---- */

/* The partitions that the scheduler made for these ids. */
static bool make_partitions(struct bench_rows *base)
{
    struct rows *rows = (struct rows *)base;
    struct store_postgres *inserts = inserts_of(base);
    PGresult *periods =
        store_postgres_ask(from_of(base), "SELECT lower, upper FROM periods ORDER BY lower");
    bool made = periods != NULL && store_begin(rows->inserts);

    for (int i = 0; made && i < PQntuples(periods); i++) {
        int64_t upper = store_postgres_number(periods, i, 1);

        for (int64_t id = store_postgres_number(periods, i, 0); made && id < upper;
             id = inserts->covered_to_us)
            made = store_postgres_cover(inserts, id);
    }
    PQclear(periods);
    return made && store_commit(rows->inserts);
}

static kvr_status make(struct bench_rows *base, struct kvr_error *error)
{
    struct rows *rows = (struct rows *)base;
    PGresult *found = store_postgres_ask(
        from_of(base), "SELECT count(*) FROM pg_namespace WHERE nspname = '" SCHEMA "'");
    bool there = found == NULL || store_postgres_number(found, 0, 0) != 0;

    PQclear(found);
    if (there)
        return kvr_error_set(error, KVR_SYSTEM, "bench",
                             "the database has a schema " SCHEMA ": another benchmark runs, or was "
                             "killed (DROP SCHEMA " SCHEMA " CASCADE removes it)");
    rows->to = *base->place;
    rows->to.schema = SCHEMA;
    KVR_TRY(store_open_writer(&rows->to, &rows->inserts, error));
    rows->made = true;
    if (!make_partitions(base))
        return kvr_error_set(error, KVR_SYSTEM, "bench", "no tables for the plain inserts: %s",
                             insert_problem(base));
    inserts_of(base)->patience = KVR_NEVER;
    return KVR_OK;
}

static const char *name_of(int number, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "insert%d", number);
    return name;
}

static bool prepare(struct bench_rows *base, int number, const char *table, int columns)
{
    char sql[64 + 6 * STORE_PARAMETERS_MAX], name[NAME_BYTES];
    int used = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES ($1", table);

    for (int i = 2; i <= columns; i++)
        used += snprintf(sql + used, sizeof(sql) - (size_t)used, ",$%d", i);
    snprintf(sql + used, sizeof(sql) - (size_t)used, ")");
    return store_postgres_name(inserts_of(base), name_of(number, name), sql) &&
           store_postgres_settled(inserts_of(base));
}

static bool begin(struct bench_rows *base)
{
    return store_postgres_send_text(inserts_of(base), "BEGIN");
}

static bool insert(struct bench_rows *base, int number, const struct store_parameter *columns,
                   int count)
{
    char name[NAME_BYTES];

    return store_postgres_send_named(inserts_of(base), name_of(number, name), columns, count);
}

static bool commit(struct bench_rows *base)
{
    return store_postgres_do(inserts_of(base), "COMMIT");
}

const struct bench_rows_driver bench_rows_postgres = {
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
