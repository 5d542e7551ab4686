/* Numbers about transfers and about the scheduler itself, for /metrics and the page's summary.
 *
 * Counters begin at 0 with the process, as Prometheus expects; only what was committed is counted.
 * Any thread: a lock of its own. */
#ifndef KVR_SCHEDULER_METRICS_H
#define KVR_SCHEDULER_METRICS_H

#include "base/clock.h"
#include "http/exposition.h"
#include "http/http_counts.h"
#include "scheduler/fleet.h"
#include "scheduler/speeds.h"
#include "scheduler/transfer.h"

#define METRICS_SECONDS 60 /* of throughput and latency that the summary looks back on */

struct metrics;

struct metrics *metrics_open(void); /* NULL: no memory */
struct metrics *metrics_close(struct metrics *metrics);

/* One side of a transfer ended: counted once a side. wall_ns: now. */
void metrics_ended(struct metrics *metrics, const struct transfer *transfer, kvr_role role,
                   int64_t wall_ns);
/* What was measured of pairs of agents; lives as long as the metrics. */
struct speeds *metrics_speeds(struct metrics *metrics);
void metrics_events(struct metrics *metrics, uint64_t count, int64_t newest_wall_ns);
void metrics_committed(struct metrics *metrics, kvr_ns duration);
void metrics_refused(struct metrics *metrics); /* a report that was refused */
/* Reports of an agent that showed that another program had reported in its name. */
void metrics_contradicted(struct metrics *metrics, uint64_t count);
struct http_counts *metrics_http(struct metrics *metrics); /* the HTTP port counts there */
/* The scheduler itself did not run for a while. */
void metrics_absence(struct metrics *metrics);
/* When the scheduler's certificate ends, in seconds of 1970; 0: it has none. */
void metrics_set_expiry(struct metrics *metrics, int64_t expiry);
void metrics_set_insecure(struct metrics *metrics, bool insecure); /* it runs with --insecure */
/* How many transfers are in each state. */
void metrics_set_states(struct metrics *metrics, const uint64_t counts[STATE_END]);
/* So many transfers of each state are not there any more. */
void metrics_forgotten(struct metrics *metrics, const uint64_t counts[STATE_END]);
/* Rows that were removed, and why. */
#define METRICS_REMOVED_LIST(X) X(METRICS_BY_AGE, "age") X(METRICS_BY_SIZE, "size")
typedef enum metrics_why_removed {
    METRICS_REMOVED_LIST(KVR_SYMBOL) METRICS_REMOVED_END
} metrics_why_removed;
void metrics_removed(struct metrics *metrics, metrics_why_removed why, uint64_t rows);
/* Bytes in use, and the bound (0: none). */
void metrics_set_database(struct metrics *metrics, uint64_t used, uint64_t bound);
/* What the writer has changed of a transfer; STATE_END stands for not being there. */
struct metrics_move {
    transfer_state from, to;
    bool held_before, held;
    kvr_status reason; /* where it has ended */
};
void metrics_moved(struct metrics *metrics, const struct metrics_move *move);
void metrics_set_held(struct metrics *metrics, uint64_t count);
/* When the oldest transfer that has not ended was opened, wall; 0: there is none. */
void metrics_set_oldest(struct metrics *metrics, int64_t opened_ns);

struct metrics_latency {
    uint64_t count;
    double p50, p95, p99; /* seconds */
};

struct metrics_summary {
    uint64_t states[STATE_END];
    bool insecure;
    int64_t certificate_expiry; /* seconds of 1970; 0: there is none */
    uint64_t connections_refused;
    int64_t connection_refused_ns; /* wall, of the last one; 0: none yet */
    uint64_t events;
    int64_t newest_event_ns;                  /* wall, of arrival; 0: none yet */
    double bytes_per_second[METRICS_SECONDS]; /* oldest first; the last is the last whole second */
    struct metrics_latency total, wire;       /* of transfers that were done in that time */
};
void metrics_summarise(struct metrics *metrics, int64_t wall_ns,
                       struct metrics_summary *ret_summary);

void metrics_write(struct metrics *metrics, kvr_ns now, int64_t wall_ns, struct exposition *out);
void metrics_write_fleet(struct fleet *fleet, kvr_ns now, struct exposition *out);

#endif
