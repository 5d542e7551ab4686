/* The rows that a run left in a scheduler's database, counted and inserted once more. */
#ifndef KVR_TOOLS_BENCH_ROWS_H
#define KVR_TOOLS_BENCH_ROWS_H

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/store.h"

struct bench_rows;

/* The place is borrowed until the end. NULL on failure. */
struct bench_rows *bench_rows_open(const struct store_place *place, struct kvr_error *error);
struct bench_rows *bench_rows_close(struct bench_rows *rows); /* returns NULL */

/* Of agents with this boot. */
struct bench_row_counts {
    uint64_t events;
    uint64_t event_rows; /* they are packed into so many */
    uint64_t spans;      /* of these rows, those with spans that can be read */
    uint64_t transfers;
    uint64_t ended;  /* of these transfers, with the end of both agents */
    uint64_t rounds; /* commits of bench_rows_insert: the caller's */
};
KVR_MUST_CHECK kvr_status bench_rows_count(struct bench_rows *rows, uint64_t boot,
                                           struct bench_row_counts *ret_counts,
                                           struct kvr_error *error);
/* Bytes of the database. */
KVR_MUST_CHECK kvr_status bench_rows_bytes(struct bench_rows *rows, uint64_t *ret_bytes,
                                           struct kvr_error *error);

struct bench_insert_time {
    kvr_ns wall, cpu; /* cpu: of this process */
};
/* Inserts those rows into fresh tables beside the scheduler's, with its own schema and settings: a
 * database in the folder "inserts" of SQLite's, a schema of PostgreSQL's database. It takes as many
 * commits as counts->rounds, and a plain prepared INSERT for each row; over PostgreSQL they are
 * sent one behind the other. Of a transfer there is only the last row. Reading is not timed. */
KVR_MUST_CHECK kvr_status bench_rows_insert(struct bench_rows *rows, uint64_t boot,
                                            const struct bench_row_counts *counts,
                                            struct bench_insert_time *ret_time,
                                            struct kvr_error *error);

#endif
