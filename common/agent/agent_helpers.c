#include "agent/agent_helpers.h"

#include "base/list.h"

static void on_done(uv_work_t *work, int cancelled);

static void begin(struct agent_helpers *helpers)
{
    while (helpers->first != NULL && helpers->busy < AGENT_HELPERS) {
        struct agent_job *job = helpers->first;

        helpers->first = job->next;
        helpers->busy++;
        uv_queue_work(helpers->loop, &job->work, job->run, on_done);
    }
}

static void on_done(uv_work_t *work, int cancelled)
{
    struct agent_job *job = (struct agent_job *)work;

    job->helpers->busy--;
    begin(job->helpers);
    job->done(work, cancelled);
}

void agent_help(struct agent_helpers *helpers, struct agent_job *job, uv_work_cb run,
                uv_after_work_cb done)
{
    job->helpers = helpers;
    job->run = run;
    job->done = done;
    KVR_LIST_APPEND(helpers->first, helpers->last, job, next);
    begin(helpers);
}
