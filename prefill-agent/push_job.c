/* States of a posting job.
 *
 * job state     | COPY_FAILED | STOP    | HAND_ON | CLOSE
 * --------------|-------------|---------|---------|--------
 * POSTING       | FAILED      | STOPPED | CLOSING | CLOSING
 * AWAITING_STOP | -           | STOPPED | -       | CLOSING
 * FAILED        | -           | STOPPED | -       | CLOSING
 * STOPPED       | -           | -       | CLOSING | CLOSING
 * CLOSING       | -           | -       | -       | =
 *
 * FAILED and STOPPED post nothing more; a job that failed still waits for PUSH_STOP. */
#include "prefill-agent/push_job.h"

KVR_STATE_TABLE(push_job, PUSH_JOB) = {
    /* COPY_FAILED, STOP, HAND_ON, CLOSE */
    [PUSH_JOB_POSTING] = {PUSH_JOB_FAILED, PUSH_JOB_STOPPED, PUSH_JOB_CLOSING, PUSH_JOB_CLOSING},
    [PUSH_JOB_AWAITING_STOP] = {NEVER, PUSH_JOB_STOPPED, NEVER, PUSH_JOB_CLOSING},
    [PUSH_JOB_FAILED] = {NEVER, PUSH_JOB_STOPPED, NEVER, PUSH_JOB_CLOSING},
    [PUSH_JOB_STOPPED] = {NEVER, NEVER, PUSH_JOB_CLOSING, PUSH_JOB_CLOSING},
    [PUSH_JOB_CLOSING] = {NEVER, NEVER, NEVER, PUSH_JOB_CLOSING},
};
