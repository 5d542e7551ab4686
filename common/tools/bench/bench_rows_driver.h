/* Inside bench_rows: what a kind of database does. One thread. */
#ifndef KVR_TOOLS_BENCH_ROWS_DRIVER_H
#define KVR_TOOLS_BENCH_ROWS_DRIVER_H

#include "scheduler/store_rows.h"
#include "tools/bench/bench_rows.h"

#define BENCH_INSERTS "inserts" /* the folder of the plain inserts, or the end of their schema */

/* The columns of the row that a query stands on; what they point to stays until its next row. */
struct bench_columns {
    struct store_parameter list[STORE_PARAMETERS_MAX];
    int count;
};

typedef enum bench_next { BENCH_ROW, BENCH_ROWS_END, BENCH_ROWS_FAIL } bench_next;

struct bench_rows_driver {
    struct bench_rows *(*open)(const struct store_place *place, struct kvr_error *error);
    void (*close)(struct bench_rows *rows);
    /* Why the last call failed; of the scheduler's rows, and of the plain inserts. */
    const char *(*problem)(struct bench_rows *rows);
    const char *(*insert_problem)(struct bench_rows *rows);
    bool (*bytes)(struct bench_rows *rows, uint64_t *ret_bytes);

    void *(*query)(struct bench_rows *rows, const char *sql); /* NULL: it fails */
    bench_next (*next)(struct bench_rows *rows, void *query, struct bench_columns *ret_columns);
    void (*finish)(struct bench_rows *rows, void *query); /* query may be NULL */

    /* Fresh tables for the plain inserts, of the scheduler's schema; removed by close. */
    kvr_status (*make)(struct bench_rows *rows, struct kvr_error *error);
    /* Prepares the insert of rows into a table. number: what `insert` calls it, from 0 on. */
    bool (*prepare)(struct bench_rows *rows, int number, const char *table, int columns);
    bool (*begin)(struct bench_rows *rows);
    bool (*insert)(struct bench_rows *rows, int number, const struct store_parameter *columns,
                   int count);
    bool (*commit)(struct bench_rows *rows);
};

/* The first member of a kind's own. */
struct bench_rows {
    const struct bench_rows_driver *driver;
    const struct store_place *place; /* borrowed from open to close */
};

#define BENCH_INSERTED_MAX 8 /* tables */

extern const struct bench_rows_driver bench_rows_sqlite;
extern const struct bench_rows_driver bench_rows_postgres;

#endif
