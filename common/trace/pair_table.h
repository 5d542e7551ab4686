/* How the rails of one agent, a source, reach those of its peers, by its last reports.
 *
 * In memory alone, and bounded. Rows of a peer are replaced as a whole. Rows that were not reported
 * for KVR_PAIR_TABLE_FRESH_NS are not shown any more. One thread at a time. */
#ifndef KVR_TRACE_PAIR_TABLE_H
#define KVR_TRACE_PAIR_TABLE_H

#include "base/clock.h"
#include "trace/report.h"

#define KVR_PAIR_TABLE_ROWS_MAX  4096 /* of one agent */
#define KVR_PAIR_TABLE_PEERS_MAX 512
#define KVR_PAIR_TABLE_FRESH_NS  (60 * KVR_S)

struct kvr_pair_table;

struct kvr_pair_table *kvr_pair_table_open(void); /* NULL: no memory */
struct kvr_pair_table *kvr_pair_table_close(struct kvr_pair_table *table);

void kvr_pair_table_take(struct kvr_pair_table *table, const struct kvr_report_pairs *rows,
                         kvr_ns now);

struct kvr_pair_row {
    const char *peer;
    uint32_t rail, target_rail;
    kvr_pair_state state;
    uint64_t bytes;
    const char *detail; /* "" where there is none */
    kvr_ns age;
    kvr_ns state_ns; /* so long it is in that state, up to now; 0: unknown */
    uint32_t breaks, renewals;
};

/* Each row; those of one peer in the order of the report. Returns how many more the agent has: they
 * went beyond the bounds. */
typedef void kvr_pair_visit(void *self, const struct kvr_pair_row *row);
uint64_t kvr_pair_table_each(const struct kvr_pair_table *table, const char *peer, kvr_ns now,
                             kvr_pair_visit *visit, void *self); /* peer NULL: of all */

#endif
