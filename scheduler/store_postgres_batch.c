/* PostgreSQL: rows of one transaction that go to the server together, as arrays. What a statement
 * costs besides its row is paid once for some hundred of them.
 *
 * Rows wait until another statement comes that could see them, until they are many, or until the
 * commit; then all go, in the order of the list below. So a transfer's row is there before it
 * changes. */
#include <stdlib.h>

#include "scheduler/store_postgres.h"
#include "scheduler/store_postgres_array.h"

#define ROWS_MAX  512
#define BYTES_MAX (1u << 20)

/* In the order in which they go. key: so many first columns, numbers at the last of them, that two
 * rows must not share, because one statement cannot change a row twice; 0: none. */
static const struct {
    store_sql row;
    int together; /* the statement with arrays */
    int columns;
    int key; /* the column of the key's number; -1: none */
} kinds[] = {
    {SQL_ADD_END, SQL_ADD_MANY_EVENTS, 8, -1},
    {SQL_ADD_TRANSFER, SQL_ADD_TRANSFERS, STORE_TRANSFER_COLUMNS, -1},
    {SQL_UPDATE_TRANSFER, SQL_UPDATE_TRANSFERS, STORE_TRANSFER_COLUMNS, 0},
    {SQL_SET_POSITION, SQL_SET_POSITIONS, 4, 1},
    {SQL_DROP_ORDERS, SQL_DROP_ORDERS_OF, 1, -1},
    {(store_sql)SQL_ADD_NEWS, SQL_ADD_MANY_NEWS, 9, -1},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct batch {
    struct store_array columns[STORE_PARAMETERS_MAX];
    uint32_t rows;
};

struct store_batches {
    struct batch list[KINDS];
    size_t bytes;
    bool any;
};

struct store_batches *store_batches_open(void)
{
    return calloc(1, sizeof(struct store_batches));
}

void store_batches_close(struct store_batches *batches)
{
    for (int kind = 0; batches != NULL && kind < KINDS; kind++)
        for (int i = 0; i < kinds[kind].columns; i++)
            store_array_free(&batches->list[kind].columns[i]);
    free(batches);
}

static void clear(struct batch *batch, int kind)
{
    for (int i = 0; i < kinds[kind].columns; i++)
        store_array_clear(&batch->columns[i]);
    batch->rows = 0;
}

void store_batches_forget(struct store_batches *batches)
{
    if (batches == NULL || !batches->any)
        return;
    for (int kind = 0; kind < KINDS; kind++)
        clear(&batches->list[kind], kind);
    batches->bytes = 0;
    batches->any = false;
}

static bool send_batch(struct store_postgres *store, struct batch *batch, int kind)
{
    struct store_parameter columns[STORE_PARAMETERS_MAX];

    if (batch->rows == 0)
        return true;
    for (int i = 0; i < kinds[kind].columns; i++)
        columns[i] = store_array_parameter(&batch->columns[i]);
    return store_postgres_send_listed(store, (store_sql)kinds[kind].together, columns,
                                      kinds[kind].columns) &&
           store_postgres_hurry(store) && store_postgres_flows(store);
}

bool store_postgres_send_rows(struct store_postgres *store)
{
    struct store_batches *batches = store->batches;
    bool sent = true;

    if (batches == NULL || !batches->any)
        return true;
    for (int kind = 0; kind < KINDS && sent; kind++)
        sent = send_batch(store, &batches->list[kind], kind);
    store_batches_forget(batches);
    return sent;
}

static int kind_of(store_sql sql)
{
    if (sql == SQL_ADD_EVENTS)
        sql = SQL_ADD_END;
    for (int kind = 0; kind < KINDS; kind++)
        if (kinds[kind].row == sql)
            return kind;
    return KINDS;
}

static bool has_key(const struct batch *batch, int kind, const struct store_parameter *parameters)
{
    int key = kinds[kind].key;

    if (key < 0)
        return false;
    for (uint32_t row = 0; row < batch->rows; row++)
        if (store_array_has_number(&batch->columns[key], row, parameters[key].number))
            return true;
    return false;
}

static bool add_row(struct store_batches *batches, int kind,
                    const struct store_parameter *parameters, int count)
{
    static const struct store_parameter nothing = {.type = STORE_IS_BYTES, .at = ""};
    struct batch *batch = &batches->list[kind];

    for (int i = 0; i < kinds[kind].columns; i++) {
        const struct store_parameter *value = i < count ? &parameters[i] : &nothing;

        if (!store_array_add(&batch->columns[i], value))
            return false;
        batches->bytes += value->bytes + 8;
    }
    batch->rows++;
    batches->any = true;
    return true;
}

bool store_postgres_waits(store_sql sql)
{
    return kind_of(sql) < KINDS;
}

bool store_postgres_keep_row(struct store_postgres *store, store_sql sql,
                             const struct store_parameter *parameters, int count)
{
    int kind = kind_of(sql);
    struct store_batches *batches = store->batches;

    if (has_key(&batches->list[kind], kind, parameters) && !store_postgres_send_rows(store))
        return false;
    if (!add_row(batches, kind, parameters, count)) {
        store->trouble = HEALTH_COMMITS;
        store_postgres_say(store, "no memory for rows");
        return false;
    }
    return (batches->list[kind].rows < ROWS_MAX && batches->bytes < BYTES_MAX) ||
           store_postgres_send_rows(store);
}
