/* state   | TAKEN | REFUSED | LATER | OVERDUE | FAILED
 * --------|-------|---------|-------|---------|--------
 * LOOKING | KEPT  | =       | =     | -       | =
 * KEPT    | =     | =       | LATER | -       | LOOKING
 * LATER   | KEPT  | =       | =     | LOOKING | LOOKING */
#include "agent/report/schedulers.h"

#define REST_FIRST_NS (100 * KVR_MS)
#define REST_LAST_NS  (2 * KVR_S)

KVR_STATE_TABLE(schedulers, SCHEDULERS) = {
    /* TAKEN, REFUSED, LATER, OVERDUE, FAILED */
    [SCHEDULERS_LOOKING] = {SCHEDULERS_KEPT, SCHEDULERS_LOOKING, SCHEDULERS_LOOKING, NEVER,
                            SCHEDULERS_LOOKING},
    [SCHEDULERS_KEPT] = {SCHEDULERS_KEPT, SCHEDULERS_KEPT, SCHEDULERS_LATER, NEVER,
                         SCHEDULERS_LOOKING},
    [SCHEDULERS_LATER] = {SCHEDULERS_KEPT, SCHEDULERS_LATER, SCHEDULERS_LATER, SCHEDULERS_LOOKING,
                          SCHEDULERS_LOOKING},
};

/* Each rest is twice the one before. */
static kvr_ns rest(struct schedulers *schedulers)
{
    schedulers->rest_ns = schedulers->rest_ns == 0 ? REST_FIRST_NS : schedulers->rest_ns * 2;
    if (schedulers->rest_ns > REST_LAST_NS)
        schedulers->rest_ns = REST_LAST_NS;
    return schedulers->rest_ns;
}

static kvr_ns try_next(struct schedulers *schedulers)
{
    schedulers->current = (schedulers->current + 1) % schedulers->count;
    if (++schedulers->failed < schedulers->count)
        return 0;
    schedulers->failed = 0;
    return rest(schedulers);
}

kvr_ns schedulers_take(struct schedulers *schedulers, enum schedulers_event event, kvr_ns now)
{
    enum schedulers_state before = schedulers->state;

    if (event == SCHEDULERS_ON_LATER && before == SCHEDULERS_LATER &&
        now - schedulers->later_since >= SCHEDULERS_LATER_NS)
        event = SCHEDULERS_ON_OVERDUE;
    schedulers_on(&schedulers->state, event);
    if (event == SCHEDULERS_ON_TAKEN) {
        schedulers->failed = 0;
        schedulers->rest_ns = 0;
        return 0;
    }
    if (schedulers->state == SCHEDULERS_LATER && before != SCHEDULERS_LATER)
        schedulers->later_since = now;
    if (event == SCHEDULERS_ON_REFUSED || schedulers->state == SCHEDULERS_LATER)
        return rest(schedulers);
    return try_next(schedulers);
}
