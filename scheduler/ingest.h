/* Agents' reports on their way into the database.
 *
 * One writer thread takes every report that waits as one round, and answers them once they are
 * durable (writer.h): acknowledged events are on disk. A report that came before, wholly or in
 * part, changes nothing. A report that begins after an event that its agent still holds is refused
 * (KVR_STALE). The same thread does the housekeeping: it ends transfers of agents that are gone,
 * and removes rows (prune.h).
 *
 * ingest_submit: any thread. `answered` is called from the writer thread. */
#ifndef KVR_SCHEDULER_INGEST_H
#define KVR_SCHEDULER_INGEST_H

#include "scheduler/fleet.h"
#include "scheduler/health.h"
#include "scheduler/metrics.h"
#include "scheduler/order.h"
#include "scheduler/round.h"
#include "scheduler/store.h"

#define INGEST_WAITING_MAX ROUND_MAX /* reports; more are answered KVR_AGAIN */

struct ingest;

/* A report as it was received. count 0: not known; it is committed at once. */
struct ingest_body {
    const uint8_t *bytes;
    size_t count;
};

/* status KVR_OK: everything up to answer->acknowledged is on disk, and the orders are to be
 * handed over; answer is empty for an order. Else detail says why; KVR_STALE, KVR_INVALID,
 * KVR_NOT_FOUND and KVR_REFUSED are for good, others may be tried again. */
typedef void ingest_answered(void *self, kvr_status status, const struct kvr_report_answer *answer,
                             const char *detail);

struct ingest_options {
    struct store *store;             /* the writer's; used by the thread only, from start to stop */
    const struct store_place *place; /* of that store, for the listener; NULL: none */
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct changes *changes; /* of transfers, after each commit; NULL: not kept */
    kvr_ns retention;        /* KVR_NEVER: rows of any age stay */
    uint64_t bound;          /* bytes of the database that may be in use; 0: any number */
    kvr_ns agent_lost;       /* silence after which an agent's transfers are lost; 0: 60 s */
};

KVR_MUST_CHECK kvr_status ingest_start(const struct ingest_options *options,
                                       struct ingest **ret_ingest, struct kvr_error *error);
/* Answers the waiting reports, then ends the thread; later reports are refused. */
void ingest_stop(struct ingest *ingest);
/* After ingest_stop, when no thread submits any more. Returns NULL. */
struct ingest *ingest_close(struct ingest *ingest);

struct ingest_load {
    int waiting;  /* reports, orders and entries of the audit log that are not answered yet */
    kvr_ns since; /* the one that waits longest came then; 0: none waits */
    uint64_t database_bytes; /* some seconds ago */
    uint64_t journal_bytes;  /* of acknowledged reports that are not committed yet */
    uint64_t journal_writes; /* rounds that were written to the journal, so far */
    kvr_ns open_since;       /* a transaction of such reports is open since then; 0: none is */
    kvr_ns oldest_since;     /* the oldest of these reports was taken then; 0: there is none */
};
struct ingest_load ingest_load(struct ingest *ingest); /* any thread */

/* Until the database has all that was acknowledged before this call, or for so long. Any thread: a
 * reader that must see it. */
void ingest_settle(struct ingest *ingest, kvr_ns within);

/* Owns the report in any case; the body is borrowed until `answered`. KVR_AGAIN: too many wait, or
 * it is stopping; then `answered` is not called. */
KVR_MUST_CHECK kvr_status ingest_submit(struct ingest *ingest, struct kvr_report *report,
                                        struct ingest_body body, ingest_answered *answered,
                                        void *self);
/* An entry of the audit log that belongs to no order: copied; logged even where it cannot be
 * stored.
 */
void ingest_audit(struct ingest *ingest, const struct audit_entry *entry);
/* The order is borrowed until `answered`, and changed: its publishes are counted. */
KVR_MUST_CHECK kvr_status ingest_order(struct ingest *ingest, struct order *order,
                                       ingest_answered *answered, void *self);

#endif
