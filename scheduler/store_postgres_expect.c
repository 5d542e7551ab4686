/* PostgreSQL: rows that a transaction will ask for one by one, read at once. A question then takes
 * no round trip, until this transaction changes what was read. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/store_postgres.h"
#include "scheduler/store_postgres_array.h"

#define COLUMN_ID 1 /* of transfers */

/* In place of a row: there is none, or it has changed since. */
enum { ROW_NONE = -1, ROW_CHANGED = -2 };

struct store_expectations {
    /* Transfers: their ids in order, each once, with their rows in `transfers`. */
    uint64_t *ids;
    int *rows;
    size_t id_count, id_room;
    PGresult *transfers; /* NULL: none were read */

    const struct store_start *starts; /* borrowed; with their rows in `positions` */
    int *start_rows;
    size_t start_count, start_room;
    PGresult *positions;
    struct store_array numbers, texts;
};

struct store_expectations *store_expectations_open(void)
{
    return calloc(1, sizeof(struct store_expectations));
}

static void forget_transfers(struct store_expectations *expected)
{
    PQclear(expected->transfers);
    expected->transfers = NULL;
    expected->id_count = 0;
}

void store_expectations_forget(struct store_expectations *expected)
{
    if (expected == NULL)
        return;
    forget_transfers(expected);
    PQclear(expected->positions);
    expected->positions = NULL;
    expected->start_count = 0;
}

void store_expectations_close(struct store_expectations *expected)
{
    if (expected == NULL)
        return;
    store_expectations_forget(expected);
    free(expected->ids);
    free(expected->rows);
    free(expected->start_rows);
    store_array_free(&expected->numbers);
    store_array_free(&expected->texts);
    free(expected);
}

static int compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* The place of the id among those that were asked for; id_count: it was not. */
static size_t place_of(const struct store_expectations *expected, uint64_t id)
{
    const uint64_t *found = NULL;

    if (expected->id_count > 0)
        found = bsearch(&id, expected->ids, expected->id_count, sizeof(id), compare_ids);
    return found != NULL ? (size_t)(found - expected->ids) : expected->id_count;
}

static bool keep_ids(struct store_expectations *expected, const uint64_t *ids, size_t count)
{
    size_t kept = 0;

    if (count > expected->id_room) {
        free(expected->ids);
        free(expected->rows);
        expected->ids = malloc(count * sizeof(expected->ids[0]));
        expected->rows = malloc(count * sizeof(expected->rows[0]));
        expected->id_room = expected->ids != NULL && expected->rows != NULL ? count : 0;
        if (expected->id_room == 0)
            return false;
    }
    memcpy(expected->ids, ids, count * sizeof(ids[0]));
    qsort(expected->ids, count, sizeof(ids[0]), compare_ids);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || expected->ids[kept - 1] != expected->ids[i])
            expected->ids[kept++] = expected->ids[i];
    for (size_t i = 0; i < kept; i++)
        expected->rows[i] = ROW_NONE;
    expected->id_count = kept;
    return true;
}

static bool no_memory(struct store_postgres *store)
{
    store->trouble = HEALTH_COMMITS;
    store_postgres_say(store, "no memory for rows");
    return false;
}

/* NULL: it failed. */
static PGresult *ask(struct store_postgres *store, int sql,
                     const struct store_parameter *parameters, int count)
{
    store->patience = STORE_ANSWER_NS;
    return store_postgres_send_listed(store, (store_sql)sql, parameters, count)
               ? store_postgres_settle(store)
               : NULL;
}

static bool add_number(struct store_array *array, uint64_t number)
{
    return store_array_add(
        array, &(struct store_parameter){.type = STORE_IS_NUMBER, .number = (int64_t)number});
}

static bool read_transfers(struct store_postgres *store, const uint64_t *ids, size_t count)
{
    struct store_expectations *expected = store->expected;
    struct store_parameter parameter;

    store_array_clear(&expected->numbers);
    if (!keep_ids(expected, ids, count))
        return no_memory(store);
    for (size_t i = 0; i < expected->id_count; i++)
        if (!add_number(&expected->numbers, expected->ids[i]))
            return no_memory(store);
    parameter = store_array_parameter(&expected->numbers);
    expected->transfers = ask(store, SQL_EXPECT_TRANSFERS, &parameter, 1);
    if (expected->transfers == NULL)
        return false;
    for (int row = 0; row < PQntuples(expected->transfers); row++) {
        size_t place = place_of(
            expected, (uint64_t)store_postgres_number(expected->transfers, row, COLUMN_ID));

        if (place < expected->id_count)
            expected->rows[place] = row;
    }
    return true;
}

/* The arrays of agents and boots. */
static bool fill_starts(struct store_expectations *expected, const struct store_start *starts,
                        size_t count, struct store_parameter parameters[2])
{
    store_array_clear(&expected->numbers);
    store_array_clear(&expected->texts);
    for (size_t i = 0; i < count; i++)
        if (!store_array_add(&expected->texts, &(struct store_parameter){.type = STORE_IS_TEXT,
                                                                         .at = starts[i].agent}) ||
            !add_number(&expected->numbers, starts[i].boot))
            return false;
    parameters[0] = store_array_parameter(&expected->texts);
    parameters[1] = store_array_parameter(&expected->numbers);
    return true;
}

/* The second and third columns of the answer are agent and boot. */
static bool is_row_of(const PGresult *result, int row, const struct store_start *start)
{
    return (uint64_t)store_postgres_number(result, row, 2) == start->boot &&
           strcmp(PQgetvalue(result, row, 1), start->agent) == 0;
}

static int row_of(const PGresult *result, const struct store_start *start)
{
    for (int row = 0; row < PQntuples(result); row++)
        if (is_row_of(result, row, start))
            return row;
    return ROW_NONE;
}

static bool read_positions(struct store_postgres *store, const struct store_start *starts,
                           size_t count)
{
    struct store_expectations *expected = store->expected;
    struct store_parameter parameters[2];

    if (count > expected->start_room) {
        free(expected->start_rows);
        expected->start_rows = malloc(count * sizeof(expected->start_rows[0]));
        expected->start_room = expected->start_rows != NULL ? count : 0;
    }
    if (count > expected->start_room || !fill_starts(expected, starts, count, parameters))
        return no_memory(store);
    expected->positions = ask(store, SQL_EXPECT_POSITIONS, parameters, 2);
    if (expected->positions == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        expected->start_rows[i] = row_of(expected->positions, &starts[i]);
    expected->starts = starts;
    expected->start_count = count;
    return true;
}

bool store_postgres_expect(struct store *base, const struct store_expected *rows)
{
    struct store_postgres *store = store_postgres(base);

    store_expectations_forget(store->expected);
    return store_postgres_is_there(store) && store_postgres_send_rows(store) &&
           (rows->id_count == 0 || read_transfers(store, rows->ids, rows->id_count)) &&
           (rows->start_count == 0 || read_positions(store, rows->starts, rows->start_count));
}

/* ---- what was read ---- */

static int *start_of(struct store_expectations *expected, const struct store_parameter *parameters)
{
    for (size_t i = 0; i < expected->start_count; i++)
        if (expected->starts[i].boot == (uint64_t)parameters[1].number &&
            strcmp(expected->starts[i].agent, parameters[0].at) == 0)
            return &expected->start_rows[i];
    return NULL;
}

static void show(PGresult *result, int at, store_row_visit *visit, void *self)
{
    struct store_row row = {&store_postgres_driver, result, at};

    if (at >= 0)
        visit(&row, self);
}

bool store_postgres_expected(struct store_postgres *store, store_sql sql,
                             const struct store_parameter *parameters, store_row_visit *visit,
                             void *self)
{
    struct store_expectations *expected = store->expected;
    const int *row;
    size_t place;

    if (expected == NULL || visit == NULL)
        return false;
    if (sql == SQL_GET_TRANSFER && expected->transfers != NULL) {
        place = place_of(expected, (uint64_t)parameters[0].number);
        if (place == expected->id_count || expected->rows[place] == ROW_CHANGED)
            return false;
        show(expected->transfers, expected->rows[place], visit, self);
        return true;
    }
    if (sql == SQL_GET_POSITION) {
        row = start_of(expected, parameters);
        if (row == NULL || *row == ROW_CHANGED)
            return false;
        show(expected->positions, *row, visit, self);
        return true;
    }
    return false;
}

static void change_transfer(struct store_expectations *expected, uint64_t id)
{
    size_t place = place_of(expected, id);

    if (place < expected->id_count)
        expected->rows[place] = ROW_CHANGED;
}

void store_postgres_changes(struct store_postgres *store, store_sql sql,
                            const struct store_parameter *parameters)
{
    struct store_expectations *expected = store->expected;
    int *row;

    if (expected == NULL)
        return;
    switch (sql) {
    case SQL_ADD_TRANSFER:
    case SQL_UPDATE_TRANSFER:
        change_transfer(expected, (uint64_t)parameters[COLUMN_ID].number);
        return;
    case SQL_DELETE_TRANSFER:
        change_transfer(expected, (uint64_t)parameters[0].number);
        return;
    case SQL_RENAME_TRANSFER:
    case SQL_PRUNE_TRANSFERS:
        forget_transfers(expected);
        return;
    case SQL_SET_POSITION:
        row = start_of(expected, parameters);
        if (row != NULL)
            *row = ROW_CHANGED;
        return;
    case SQL_PRUNE_POSITIONS:
        store_expectations_forget(expected);
        return;
    default:
        return;
    }
}

/* ---- orders ---- */

bool store_postgres_find_orders(struct store *base, const struct store_start *starts, size_t count,
                                bool ret_has[])
{
    struct store_postgres *store = store_postgres(base);
    struct store_parameter parameters[2];
    PGresult *found;

    if (!store_postgres_is_there(store) || !store_postgres_send_rows(store))
        return false;
    if (!fill_starts(store->expected, starts, count, parameters))
        return no_memory(store);
    found = ask(store, SQL_FIND_ORDERS, parameters, 2);
    if (found == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        ret_has[i] = row_of(found, &starts[i]) >= 0;
    PQclear(found);
    return true;
}
