/* Applies one report to the database, and counts it for the metrics after the commit.
 *
 * Within one transaction; the caller commits and rolls back. The transfers touched are kept
 * in memory (known.h) until apply_flush, so that ten events of one transfer are one row written. */
#ifndef KVR_SCHEDULER_APPLY_H
#define KVR_SCHEDULER_APPLY_H

#include "scheduler/changes.h"
#include "scheduler/fleet.h"
#include "scheduler/metrics.h"
#include "scheduler/store.h"

#define APPLY_RESTARTED "its agent was started again before it said how this ended"

struct apply;

struct apply *apply_open(struct store *store, struct fleet *fleet); /* NULL: no memory */
struct apply *apply_close(struct apply *apply);

/* Begins the transaction. What another scheduler may have changed is read again. */
bool apply_begin(struct apply *apply);
/* Before apply_report of all these: what they need is read at once, where that gains something.
 * False: the database or memory fails. */
bool apply_expect(struct apply *apply, const struct kvr_report *const reports[], size_t count);
/* Another scheduler of the database took this report; NULL: perhaps some that are not known here.
 */
void apply_hear(struct apply *apply, const struct kvr_report *report, int64_t now_ns);
/* KVR_OK sets *ret_acknowledged. KVR_STALE: came out of order; KVR_REFUSED: no agent can have made
 * it; KVR_AGAIN: too many programs have its name. Nothing was changed then. Anything else: roll
 * back. */
KVR_MUST_CHECK kvr_status apply_report(struct apply *apply, const struct kvr_report *report,
                                       int64_t now_ns, uint64_t *ret_acknowledged,
                                       struct kvr_error *error);
/* The agent's live transfers will not hear from it again; alive: except those of these starts;
 * NULL: none. */
KVR_MUST_CHECK kvr_status apply_agent_gone(struct apply *apply, const char *agent,
                                           const struct fleet_boots *alive, const char *detail,
                                           struct kvr_error *error);

/* Where what broke is kept; in a transaction. */
struct fault_watch *apply_faults(struct apply *apply);

/* Something of this transaction is to be stored. */
bool apply_has_changes(const struct apply *apply);
/* Writes the rows; before the commit. */
KVR_MUST_CHECK kvr_status apply_flush(struct apply *apply, int64_t now_ns, struct kvr_error *error);
/* In a transaction of its own: rollups_sum_up, and old marks and faults go. */
KVR_MUST_CHECK kvr_status apply_sum_up(struct apply *apply, int64_t now_ns, bool *ret_more,
                                       struct kvr_error *error);
/* After it: counts what happened, and puts it into `changes` (NULL: into none). */
void apply_count(struct apply *apply, struct metrics *metrics, struct changes *changes,
                 int64_t now_ns);
/* Ends the transaction. After a commit that was counted, transfers with news to come stay in
 * memory; of any other one nothing does. */
void apply_reset(struct apply *apply);
/* Between transactions: some ended transfers were removed, so each is read again. */
void apply_forget_ended(struct apply *apply);

#endif
