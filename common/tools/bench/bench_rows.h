/* The rows that a run left in a scheduler's database, counted and inserted once more. */
#ifndef KVR_TOOLS_BENCH_ROWS_H
#define KVR_TOOLS_BENCH_ROWS_H

#include <sqlite3.h>

#include "base/clock.h"
#include "base/status.h"

/* Read only; NULL on failure. */
sqlite3 *bench_rows_open(const char *folder, struct kvr_error *error);

/* Of agents with this boot. */
struct bench_row_counts {
    uint64_t events;
    uint64_t event_rows; /* they are packed into so many */
    uint64_t spans;      /* of these rows, those with spans that can be read */
    uint64_t transfers;
    uint64_t ended;  /* of these transfers, with the end of both agents */
    uint64_t rounds; /* commits that had events */
};
KVR_MUST_CHECK kvr_status bench_rows_count(sqlite3 *database, uint64_t boot,
                                           struct bench_row_counts *ret_counts,
                                           struct kvr_error *error);
/* Bytes of the database's pages. */
KVR_MUST_CHECK kvr_status bench_rows_bytes(sqlite3 *database, uint64_t *ret_bytes,
                                           struct kvr_error *error);

struct bench_insert_time {
    kvr_ns wall, cpu;
};
/* Inserts those rows into a fresh database in `folder`, with the scheduler's own schema and
 * pragmas. It takes as many commits as the scheduler made, and a plain prepared INSERT for each
 * row. Of a transfer there is only the last row. Reading is not timed. */
KVR_MUST_CHECK kvr_status bench_rows_insert(sqlite3 *from, uint64_t boot,
                                            const struct bench_row_counts *counts,
                                            const char *folder, struct bench_insert_time *ret_time,
                                            struct kvr_error *error);

#endif
