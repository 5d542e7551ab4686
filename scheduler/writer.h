/* The writer's transactions: what its rounds bring is durable before it is answered, and reaches
 * the database in steps.
 *
 * Where the store has a journal, a round of reports is applied to a transaction that stays open,
 * and is written to the journal (journal.h): then it is acknowledged. The transaction is committed
 * a little later, with the reports of many rounds: so a transfer that lives no longer is one row
 * that is written once.
 * Where there is no journal, or it cannot be written, each round is committed before it is
 * answered. So is a round with an order, an entry of the audit log, or the first report of an
 * agent's start.
 *
 * After a crash, and after a transaction that was rolled back, the reports of the journal are
 * applied and committed before anything else is taken.
 *
 * One thread at a time. */
#ifndef KVR_SCHEDULER_WRITER_H
#define KVR_SCHEDULER_WRITER_H

#include "scheduler/health.h"
#include "scheduler/ingest.h"

/* One report, one order or one entry of the audit log. */
struct waiting {
    struct kvr_report *report; /* or NULL */
    struct ingest_body body;   /* of the report */
    struct order *order;       /* or NULL */
    struct audit_entry audit;  /* where neither is there */
    kvr_ns since;              /* it waits */
    ingest_answered *answered;
    void *self;
    kvr_status status;
    uint64_t acknowledged;
    struct kvr_error error;
};

struct writer_options {
    struct store *store;
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct changes *changes; /* or NULL */
};

struct writer;

/* Opens the journal, and stores what an earlier process left in it: if the database refuses that,
 * with the next round. */
KVR_MUST_CHECK kvr_status writer_open(const struct writer_options *options,
                                      struct writer **ret_writer, struct kvr_error *error);
struct writer *writer_close(struct writer *writer); /* NULL is fine; returns NULL */

struct apply *writer_apply(struct writer *writer);
int64_t writer_wall(struct writer *writer); /* now */
/* News of other schedulers, where there are any. */
void writer_hear(struct writer *writer);

/* Takes a round; sets status, acknowledged and error of each. KVR_OK: it is durable, the fleet
 * knows of it, and each may be answered by its status. Else nothing of it was taken; error says
 * why. */
KVR_MUST_CHECK kvr_status writer_take(struct writer *writer, struct waiting *round, int count,
                                      struct kvr_error *error);
/* Commits what is open. False: the database refuses; it comes again from the journal. */
bool writer_commit(struct writer *writer);
/* When it wants to be committed; KVR_NEVER: nothing is open. asked: a reader waits for it. */
kvr_ns writer_due(const struct writer *writer, bool asked);

/* In a transaction of its own, which is committed. False: the database refuses. */
typedef kvr_status writer_work(void *self, int64_t now_ns, struct kvr_error *error);
bool writer_run(struct writer *writer, writer_work *work, void *self);

struct writer_counts {
    uint64_t commits;        /* so far */
    uint64_t journal_writes; /* so far */
    uint64_t journal_bytes;  /* of reports that are not committed */
    kvr_ns open_since;       /* a transaction is open since then; 0: none is */
    kvr_ns oldest_since;     /* the oldest of these was taken then; 0: there is none */
};
struct writer_counts writer_counts(const struct writer *writer);

/* Nothing comes for a while: the journal's file shrinks. */
void writer_rest(struct writer *writer);

#endif
