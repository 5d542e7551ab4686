/* The wall time that stored rows get, and by which rows past their retention go.
 *
 * The system's clock may jump. A jump ahead is believed only when it has lasted for WALL_DOUBT_NS:
 * until then time goes on as the monotonic clock says. Else one wrong minute would remove the whole
 * history, and leave rows of the future. A jump back is believed at once: rows then only stay
 * longer. Pure; one thread. */
#ifndef KVR_SCHEDULER_WALL_H
#define KVR_SCHEDULER_WALL_H

#include <stdint.h>

#include "base/clock.h"

#define WALL_DOUBT_NS (3600 * KVR_S)
#define WALL_SLACK_NS (60 * KVR_S) /* a step of so much is no jump */

/* Zeroed: the first reading is believed. */
struct wall {
    kvr_ns now, time;   /* believed: that time at that moment of the monotonic clock */
    kvr_ns doubt_since; /* 0: the clock has not jumped ahead */
};

/* system: what the system's clock shows at `now`. */
int64_t wall_time(struct wall *wall, kvr_ns now, kvr_ns system);

#endif
