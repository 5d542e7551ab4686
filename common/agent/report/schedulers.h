/* Which of several schedulers gets the next report, and when. Pure.
 *
 * A reporter stays with the scheduler that took its last report. When a post to it fails, the next
 * one in the list is tried at once, round and round; the reporter rests only after a whole round of
 * failures. Nothing leads back to an earlier scheduler but a failure of the later one.
 *
 * A scheduler that asks for another try later has too much to write, or cannot reach its database.
 * The one that took the last report keeps SCHEDULERS_LATER_NS for that, so that a short jam does
 * not move the whole fleet. */
#ifndef KVR_AGENT_SCHEDULERS_H
#define KVR_AGENT_SCHEDULERS_H

#include "base/clock.h"
#include "base/state.h"

#define KVR_SCHEDULERS_MAX  8
#define SCHEDULERS_LATER_NS (2 * KVR_S)

enum schedulers_state {
    SCHEDULERS_LOOKING, /* none has taken a report since a failure */
    SCHEDULERS_KEPT,    /* the current one took the last report */
    SCHEDULERS_LATER,   /* it took one, and asks for another try later since then */
    SCHEDULERS_STATES
};

enum schedulers_event {
    SCHEDULERS_ON_TAKEN,
    SCHEDULERS_ON_REFUSED, /* this report alone, for good */
    SCHEDULERS_ON_LATER,
    SCHEDULERS_ON_OVERDUE, /* asked for later for SCHEDULERS_LATER_NS */
    SCHEDULERS_ON_FAILED,  /* no answer, or none of a scheduler that works */
    SCHEDULERS_EVENTS
};

KVR_STATE_MACHINE(schedulers);

/* Zeroed at first, but for the count. */
struct schedulers {
    uint32_t count, current;
    enum schedulers_state state;
    uint32_t failed; /* in this round */
    kvr_ns later_since, rest_ns;
};

/* Takes what became of a post to the current one; never OVERDUE. Returns how long to rest before
 * the next post, which goes to the current one, too: it may be another by then. */
kvr_ns schedulers_take(struct schedulers *schedulers, enum schedulers_event event, kvr_ns now);

#endif
