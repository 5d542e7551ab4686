/* How the rails of one agent, a source, reach those of its peers, by its last reports.
 *
 * In memory alone, and bounded. Rows of a peer are replaced as a whole. Rows that were not reported
 * for PAIRS_FRESH_NS are not shown any more. One thread at a time. */
#ifndef KVR_SCHEDULER_PAIRS_H
#define KVR_SCHEDULER_PAIRS_H

#include "base/clock.h"
#include "trace/report.h"

#define PAIRS_ROWS_MAX  4096 /* of one agent */
#define PAIRS_PEERS_MAX 512
#define PAIRS_FRESH_NS  (60 * KVR_S)

struct pairs;

struct pairs *pairs_open(void); /* NULL: no memory */
struct pairs *pairs_close(struct pairs *pairs);

void pairs_take(struct pairs *pairs, const struct kvr_report_pairs *rows, kvr_ns now);

struct pairs_row {
    const char *peer;
    uint32_t rail, target_rail;
    kvr_pair_state state;
    uint64_t bytes;
    const char *detail; /* "" where there is none */
    kvr_ns age;
};

/* Each row; those of one peer in the order of the report. Returns how many more the agent has: they
 * went beyond the bounds. */
typedef void pairs_visit(void *self, const struct pairs_row *row);
uint64_t pairs_each(const struct pairs *pairs, const char *peer, kvr_ns now, pairs_visit *visit,
                    void *self); /* peer NULL: of all */

#endif
