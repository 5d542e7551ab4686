/* Agents' reports on their way into the database.
 *
 * One writer thread takes every report that waits, applies them in one transaction and answers them
 * after its commit: acknowledged events are on disk. A report that came before, wholly or in part,
 * changes nothing. A report that begins after an event that its agent still holds is refused
 * (KVR_STALE). The same thread does the housekeeping: it ends transfers of agents that are gone,
 * and removes rows past their retention.
 *
 * ingest_submit: any thread. `answered` is called from the writer thread. */
#ifndef KVR_SCHEDULER_INGEST_H
#define KVR_SCHEDULER_INGEST_H

#include "scheduler/fleet.h"
#include "scheduler/health.h"
#include "scheduler/metrics.h"
#include "scheduler/order.h"
#include "scheduler/store.h"

#define INGEST_WAITING_MAX 256 /* reports; more are answered KVR_AGAIN */

struct ingest;

/* status KVR_OK: everything up to answer->acknowledged is committed, and the orders are to be
 * handed over; answer is empty for an order. Else detail says why; KVR_STALE, KVR_INVALID,
 * KVR_NOT_FOUND and KVR_REFUSED are for good, others may be tried again. */
typedef void ingest_answered(void *self, kvr_status status, const struct kvr_report_answer *answer,
                             const char *detail);

struct ingest_options {
    struct store *store; /* the writer's; used by the thread only, from start to stop */
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct changes *changes; /* of transfers, after each commit; NULL: not kept */
    kvr_ns retention;        /* KVR_NEVER: keep everything */
    kvr_ns agent_lost;       /* silence after which an agent's transfers are lost; 0: 60 s */
};

/* Rows without news since this wall time are past their retention. A retention longer than the time
 * since 1970 keeps everything. */
static inline int64_t ingest_kept_since(kvr_ns wall, kvr_ns retention)
{
    return retention < wall ? (int64_t)(wall - retention) : 0;
}

KVR_MUST_CHECK kvr_status ingest_start(const struct ingest_options *options,
                                       struct ingest **ret_ingest, struct kvr_error *error);
/* Answers the waiting reports, then ends the thread; later reports are refused. */
void ingest_stop(struct ingest *ingest);
/* After ingest_stop, when no thread submits any more. Returns NULL. */
struct ingest *ingest_close(struct ingest *ingest);

struct ingest_load {
    int waiting;  /* reports, orders and entries of the audit log that are not answered yet */
    kvr_ns since; /* the one that waits longest came then; 0: none waits */
};
struct ingest_load ingest_load(struct ingest *ingest); /* any thread */

/* Owns the report in any case. KVR_AGAIN: too many wait, or it is stopping; then `answered` is not
 * called. */
KVR_MUST_CHECK kvr_status ingest_submit(struct ingest *ingest, struct kvr_report *report,
                                        ingest_answered *answered, void *self);
/* An entry of the audit log that belongs to no order: copied; logged even where it cannot be
 * stored.
 */
void ingest_audit(struct ingest *ingest, const struct audit_entry *entry);
/* The order is borrowed until `answered`, and changed: its publishes are counted. */
KVR_MUST_CHECK kvr_status ingest_order(struct ingest *ingest, struct order *order,
                                       ingest_answered *answered, void *self);

#endif
