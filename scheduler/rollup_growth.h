/* By how much the counters of an agent's rails, and of pairs of them, grew since its report before.
 *
 * The first report of a start of an agent, and one after a silence, is only what later ones count
 * from: the second in which its bytes moved is not known. A report that comes twice, or late, grows
 * nothing. Pure but for memory. */
#ifndef KVR_SCHEDULER_ROLLUP_GROWTH_H
#define KVR_SCHEDULER_ROLLUP_GROWTH_H

#include "scheduler/rollup.h"

#define ROLLUP_RAILS_SILENT_NS (10 * (int64_t)KVR_S) /* agents report every second */
#define ROLLUP_PAIRS_SILENT_NS (60 * (int64_t)KVR_S) /* some pairs with each report */

struct rollup_growth {
    struct rollup_grown *agents; /* by name; NULL: nothing is known */
};

/* False: the visit says so, or no memory. */
typedef bool rollup_grew(void *self, rollup_kind kind, const struct rollup_key *key,
                         const uint64_t amounts[ROLLUP_AMOUNT_END]);
bool rollup_growth_take(struct rollup_growth *growth, const struct kvr_report *report,
                        int64_t now_ns, rollup_grew *visit, void *self);
/* Agents that were not heard since that time. */
void rollup_growth_forget(struct rollup_growth *growth, int64_t before_ns);

#endif
