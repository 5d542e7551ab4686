/* Jobs of helper threads: a few at once, in the order in which they came.
 *
 * libuv's threads also look up the names of peers. A peer with a broken connection must be dialed
 * again within the heartbeat bound, so it cannot wait until an engine's regions are registered.
 * Loop thread. */
#ifndef KVR_AGENT_AGENT_HELPERS_H
#define KVR_AGENT_AGENT_HELPERS_H

#include <uv.h>

#define AGENT_HELPERS 3u /* of libuv's threads, which are four */

/* What a job is about holds it, and hears of its end by `work`; data is theirs. */
struct agent_job {
    uv_work_t work; /* first */
    struct agent_job *next;
    struct agent_helpers *helpers;
    uv_work_cb run;
    uv_after_work_cb done;
};

struct agent_helpers {
    uv_loop_t *loop;
    uint32_t busy;
    struct agent_job *first, *last; /* that wait */
};

/* run: by a helper; done: by the loop, which the job may be freed or given again in. */
void agent_help(struct agent_helpers *helpers, struct agent_job *job, uv_work_cb run,
                uv_after_work_cb done);

#endif
