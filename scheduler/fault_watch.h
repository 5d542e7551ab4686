/* What changes from report to report of an agent, and means that something broke or works again.
 *
 * An agent's report has the states of its rails and of pairs of them, and totals of its
 * failures. The watch compares them with the report before, and keeps the difference in the table
 * of faults. The first report of an agent that it hears compares with nothing: open faults of the
 * table end, and are open again where the report says so.
 *
 * Writer thread, within its transaction. */
#ifndef KVR_SCHEDULER_FAULT_WATCH_H
#define KVR_SCHEDULER_FAULT_WATCH_H

#include "scheduler/fleet.h"
#include "scheduler/store_faults.h"

#define FAULTS_OF_REPORT_MAX 64 /* that begin; of more the number alone is kept */

struct fault_watch;

struct fault_watch *fault_watch_open(struct store *store); /* NULL: no memory */
struct fault_watch *fault_watch_close(struct fault_watch *watch);

/* A report with facts. alive: starts of the agent that may live; others have ended. All bools:
 * false where the database or memory fails. */
bool fault_watch_report(struct fault_watch *watch, const struct kvr_report *report,
                        const struct fleet_boots *alive, int64_t now_ns);
/* Another scheduler of the database took a report of this agent; NULL: perhaps of any. Also after
 * a transaction that was rolled back. */
void fault_watch_forget(struct fault_watch *watch, const char *agent);
/* Once in a while: agents that have fallen silent. */
bool fault_watch_fleet(struct fault_watch *watch, struct fleet *fleet, kvr_ns now, int64_t now_ns);
/* No report was taken in the last `away`. */
bool fault_watch_absence(struct fault_watch *watch, kvr_ns away, int64_t now_ns);

/* At the scheduler's start and end. */
bool fault_watch_start(struct fault_watch *watch, int64_t now_ns);
bool fault_watch_stop(struct fault_watch *watch, int64_t now_ns);

#endif
