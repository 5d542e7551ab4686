/* States of a posting job.
 *
 * job state     | COPY_FAILED | STOP    | HAND_ON | CLOSE
 * --------------|-------------|---------|---------|--------
 * POSTING       | FAILED      | STOPPED | CLOSING | CLOSING
 * AWAITING_STOP | -           | STOPPED | -       | CLOSING
 * FAILED        | =           | STOPPED | -       | CLOSING
 * STOPPED       | =           | =       | CLOSING | CLOSING
 * CLOSING       | =           | =       | -       | =
 * FAILED and STOPPED post nothing more; a job that failed still waits for PUSH_STOP. */
#include "prefill-agent/push_job.h"

#include "base/state.h"

enum push_job_state push_job_next(enum push_job_state state, enum push_job_event event)
{
    static const uint8_t cells[PUSH_JOB_STATES][PUSH_JOB_EVENTS] = {
        [PUSH_JOB_POSTING] = {[PUSH_JOB_COPY_FAILED] = KVR_STATE(PUSH_JOB_FAILED),
                              [PUSH_JOB_STOP] = KVR_STATE(PUSH_JOB_STOPPED),
                              [PUSH_JOB_HAND_ON] = KVR_STATE(PUSH_JOB_CLOSING),
                              [PUSH_JOB_CLOSE] = KVR_STATE(PUSH_JOB_CLOSING)},
        [PUSH_JOB_AWAITING_STOP] = {[PUSH_JOB_STOP] = KVR_STATE(PUSH_JOB_STOPPED),
                                    [PUSH_JOB_CLOSE] = KVR_STATE(PUSH_JOB_CLOSING)},
        [PUSH_JOB_FAILED] = {[PUSH_JOB_COPY_FAILED] = KVR_STATE(PUSH_JOB_FAILED),
                             [PUSH_JOB_STOP] = KVR_STATE(PUSH_JOB_STOPPED),
                             [PUSH_JOB_CLOSE] = KVR_STATE(PUSH_JOB_CLOSING)},
        [PUSH_JOB_STOPPED] = {[PUSH_JOB_COPY_FAILED] = KVR_STATE(PUSH_JOB_STOPPED),
                              [PUSH_JOB_STOP] = KVR_STATE(PUSH_JOB_STOPPED),
                              [PUSH_JOB_HAND_ON] = KVR_STATE(PUSH_JOB_CLOSING),
                              [PUSH_JOB_CLOSE] = KVR_STATE(PUSH_JOB_CLOSING)},
        [PUSH_JOB_CLOSING] = {[PUSH_JOB_COPY_FAILED] = KVR_STATE(PUSH_JOB_CLOSING),
                              [PUSH_JOB_STOP] = KVR_STATE(PUSH_JOB_CLOSING),
                              [PUSH_JOB_CLOSE] = KVR_STATE(PUSH_JOB_CLOSING)},
    };

    return kvr_state_next(cells[state][event]);
}
