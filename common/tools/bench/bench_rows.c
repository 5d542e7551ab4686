#include "tools/bench/bench_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/event_pack.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_rows_driver.h"

#define SQL_BYTES 256

struct bench_rows *bench_rows_open(const struct store_place *place, struct kvr_error *error)
{
    return (place->url != NULL ? bench_rows_postgres : bench_rows_sqlite).open(place, error);
}

struct bench_rows *bench_rows_close(struct bench_rows *rows)
{
    if (rows != NULL)
        rows->driver->close(rows);
    return NULL;
}

static kvr_status failed(struct bench_rows *rows, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "bench", "the database fails: %s",
                         rows->driver->problem(rows));
}

static kvr_status insert_failed(struct bench_rows *rows, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "bench", "the plain inserts fail: %s",
                         rows->driver->insert_problem(rows));
}

/* ---- counting ---- */

/* ?1 is the boot. */
static void write_sql(char sql[SQL_BYTES], const char *words, uint64_t boot)
{
    size_t used = 0;

    while (*words != '\0' && used + 24 < SQL_BYTES) {
        if (strncmp(words, "?1", 2) == 0) {
            used += (size_t)snprintf(sql + used, SQL_BYTES - used, "%" PRId64, (int64_t)boot);
            words += 2;
        } else {
            sql[used++] = *words++;
        }
    }
    sql[used] = '\0';
}

static kvr_status number(struct bench_rows *rows, const char *words, uint64_t boot,
                         uint64_t *ret_number, struct kvr_error *error)
{
    const struct bench_rows_driver *driver = rows->driver;
    struct bench_columns columns;
    char sql[SQL_BYTES];
    void *query;
    bool found;

    write_sql(sql, words, boot);
    query = driver->query(rows, sql);
    found = query != NULL && driver->next(rows, query, &columns) == BENCH_ROW;
    if (found)
        *ret_number = (uint64_t)columns.list[0].number;
    else
        (void)failed(rows, error);
    driver->finish(rows, query);
    return found ? KVR_OK : error->status;
}

/* Of one packed row. False: it cannot be read. */
static bool count_records(const struct store_parameter *records, uint64_t *count)
{
    struct event_unpack unpack = {.bytes = records->at, .count = records->bytes};
    struct event_record record;
    kvr_status status;

    while ((status = event_unpack_next(&unpack, &record)) == KVR_OK)
        ++*count;
    return status == KVR_NOT_FOUND;
}

static bool has_spans(const struct store_parameter *packed)
{
    struct kvr_spans spans;

    return kvr_spans_unpack(packed->at, packed->bytes, &spans) == KVR_OK;
}

static kvr_status count_events(struct bench_rows *rows, uint64_t boot,
                               struct bench_row_counts *counts, struct kvr_error *error)
{
    const struct bench_rows_driver *driver = rows->driver;
    bench_next next = BENCH_ROWS_FAIL;
    struct bench_columns columns;
    char sql[SQL_BYTES];
    bool whole = true;
    void *query;

    counts->events = counts->event_rows = counts->spans = 0;
    write_sql(sql, "SELECT records, spans FROM events WHERE boot = ?1", boot);
    query = driver->query(rows, sql);
    while (whole && query != NULL && (next = driver->next(rows, query, &columns)) == BENCH_ROW) {
        counts->event_rows++;
        counts->spans += has_spans(&columns.list[1]);
        whole = count_records(&columns.list[0], &counts->events);
    }
    if (next == BENCH_ROWS_FAIL)
        (void)failed(rows, error);
    driver->finish(rows, query);
    if (!whole)
        return kvr_error_set(error, KVR_MALFORMED, "bench", "a row of events cannot be read");
    return next == BENCH_ROWS_END ? KVR_OK : error->status;
}

kvr_status bench_rows_count(struct bench_rows *rows, uint64_t boot,
                            struct bench_row_counts *ret_counts, struct kvr_error *error)
{
    KVR_TRY(count_events(rows, boot, ret_counts, error));
    KVR_TRY(number(rows, "SELECT count(*) FROM transfers WHERE source_boot = ?1", boot,
                   &ret_counts->transfers, error));
    return number(rows,
                  "SELECT count(*) FROM transfers WHERE source_boot = ?1 AND target_boot = ?1 "
                  "AND source_ended_ns <> 0 AND target_ended_ns <> 0",
                  boot, &ret_counts->ended, error);
}

kvr_status bench_rows_bytes(struct bench_rows *rows, uint64_t *ret_bytes, struct kvr_error *error)
{
    return rows->driver->bytes(rows, ret_bytes) ? KVR_OK : failed(rows, error);
}

/* ---- once more ---- */

/* A table on its way: its rows of the run in the order of their insertion, and those of one
 * commit. */
struct table {
    void *query;
    bool prepared, ended;
    struct bench_columns **kept;
    size_t room, count;
};

/* Parents come before their children: agents before rails. */
static const struct {
    const char *name, *rows;
} kinds[] = {
    {"events", "SELECT * FROM events WHERE boot = ?1 ORDER BY id"},
    {"transfers", "SELECT * FROM transfers WHERE source_boot = ?1 ORDER BY ordinal"},
    {"positions", "SELECT * FROM positions WHERE boot = ?1"},
    {"agents", "SELECT * FROM agents WHERE boot = ?1"},
    {"rails", "SELECT rails.* FROM agents JOIN rails ON agent = agents.name WHERE boot = ?1"},
    {"engines", "SELECT engines.* FROM agents JOIN engines ON agent = agents.name WHERE boot = ?1"},
};
enum { EVENTS, TRANSFERS, TABLES = sizeof(kinds) / sizeof(kinds[0]) };
static_assert(TABLES <= BENCH_INSERTED_MAX, "a kind of database has room for them");

static void table_forget(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->kept[i]);
    table->count = 0;
}

static void table_close(struct table *table, struct bench_rows *rows)
{
    table_forget(table);
    free(table->kept);
    rows->driver->finish(rows, table->query);
}

/* With what the columns point to, behind it. NULL: no memory. */
static struct bench_columns *copy(const struct bench_columns *columns)
{
    struct bench_columns *copied;
    size_t bytes = 0;
    char *at;

    for (int i = 0; i < columns->count; i++)
        if (columns->list[i].type != STORE_IS_NUMBER && !columns->list[i].null)
            bytes += columns->list[i].bytes + 1;
    copied = malloc(sizeof(*copied) + bytes);
    if (copied == NULL)
        return NULL;
    *copied = *columns;
    at = (char *)(copied + 1);
    for (int i = 0; i < columns->count; i++) {
        struct store_parameter *column = &copied->list[i];

        if (column->type == STORE_IS_NUMBER || column->null)
            continue;
        memcpy(at, column->at, column->bytes);
        at[column->bytes] = '\0';
        column->at = at;
        at += column->bytes + 1;
    }
    return copied;
}

static kvr_status table_keep(struct table *table, const struct bench_columns *columns,
                             struct kvr_error *error)
{
    if (table->count == table->room) {
        size_t room = 2 * table->room + 256;
        struct bench_columns **larger = realloc(table->kept, room * sizeof(larger[0]));

        if (larger == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for rows");
        table->kept = larger;
        table->room = room;
    }
    table->kept[table->count] = copy(columns);
    if (table->kept[table->count] == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for a row");
    table->count++;
    return KVR_OK;
}

/* Reads rows until there are `wanted`, or no more. */
static kvr_status table_read(struct table *table, int kind, size_t wanted, struct bench_rows *rows,
                             struct kvr_error *error)
{
    const struct bench_rows_driver *driver = rows->driver;
    struct bench_columns columns;

    while (table->count < wanted && !table->ended) {
        bench_next next = driver->next(rows, table->query, &columns);

        table->ended = next == BENCH_ROWS_END;
        if (next == BENCH_ROWS_FAIL)
            return failed(rows, error);
        if (table->ended)
            break;
        if (!table->prepared && !driver->prepare(rows, kind, kinds[kind].name, columns.count))
            return insert_failed(rows, error);
        table->prepared = true;
        KVR_TRY(table_keep(table, &columns, error));
    }
    return KVR_OK;
}

static kvr_status commit(struct table tables[TABLES], struct bench_rows *rows,
                         struct bench_insert_time *time, struct kvr_error *error)
{
    kvr_ns begin = kvr_clock_now(), used = bench_cpu_time(getpid());
    bool inserted = rows->driver->begin(rows);

    for (int kind = 0; kind < TABLES; kind++)
        for (size_t i = 0; i < tables[kind].count && inserted; i++)
            inserted = rows->driver->insert(rows, kind, tables[kind].kept[i]->list,
                                            tables[kind].kept[i]->count);
    if (!inserted || !rows->driver->commit(rows))
        return insert_failed(rows, error);
    time->wall += kvr_clock_now() - begin;
    time->cpu += bench_cpu_time(getpid()) - used;
    for (int kind = 0; kind < TABLES; kind++)
        table_forget(&tables[kind]);
    return KVR_OK;
}

/* So many of all by the end of a round. */
static size_t share(uint64_t all, uint64_t round, uint64_t rounds)
{
    return (size_t)((double)all * (double)(round + 1) / (double)rounds + 0.5);
}

static kvr_status insert_rounds(struct table tables[TABLES], struct bench_rows *rows,
                                const struct bench_row_counts *counts,
                                struct bench_insert_time *ret_time, struct kvr_error *error)
{
    size_t events = 0, transfers = 0;

    for (uint64_t round = 0; round < counts->rounds; round++) {
        size_t events_by = share(counts->event_rows, round, counts->rounds);
        size_t transfers_by = share(counts->transfers, round, counts->rounds);

        for (int kind = 0; kind < TABLES; kind++) {
            size_t wanted = kind == EVENTS      ? events_by - events
                            : kind == TRANSFERS ? transfers_by - transfers
                                                : SIZE_MAX;

            KVR_TRY(table_read(&tables[kind], kind, wanted, rows, error));
        }
        KVR_TRY(commit(tables, rows, ret_time, error));
        events = events_by;
        transfers = transfers_by;
    }
    return KVR_OK;
}

kvr_status bench_rows_insert(struct bench_rows *rows, uint64_t boot,
                             const struct bench_row_counts *counts,
                             struct bench_insert_time *ret_time, struct kvr_error *error)
{
    struct table tables[TABLES] = {0};
    kvr_status status = rows->driver->make(rows, error);
    char sql[SQL_BYTES];

    *ret_time = (struct bench_insert_time){0};
    for (int kind = 0; status == KVR_OK && kind < TABLES; kind++) {
        write_sql(sql, kinds[kind].rows, boot);
        tables[kind].query = rows->driver->query(rows, sql);
        if (tables[kind].query == NULL)
            status = failed(rows, error);
    }
    if (status == KVR_OK)
        status = insert_rounds(tables, rows, counts, ret_time, error);
    for (int kind = 0; kind < TABLES; kind++)
        table_close(&tables[kind], rows);
    return status;
}
