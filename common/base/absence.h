/* Whether this process ran when it was due. A loop that comes much too late was stopped, swapped
 * out, or had no core; with it were all timers, and what its peers sent lies unread. Pure. */
#ifndef KVR_BASE_ABSENCE_H
#define KVR_BASE_ABSENCE_H

#include <inttypes.h>

#include "base/clock.h"

#define KVR_ABSENCE_NS KVR_S /* so late is an absence */

struct kvr_absence { /* zeroed: it has not ticked yet */
    kvr_ns due_at;
    uint64_t count;
};

/* At every tick; the next one is due after `period`. Returns for how long the process did not run,
 * 0 where that is no absence. */
kvr_ns kvr_absence_tick(struct kvr_absence *absence, kvr_ns now, kvr_ns period);

#define KVR_ABSENCE_SENTENCE                                                                       \
    "this process did not run for %" PRIu64                                                        \
    " ms (stopped, or the host gave it no core): peers are given that time"

#endif
