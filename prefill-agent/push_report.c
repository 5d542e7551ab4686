/* Messages to the loop about a job. */
#include "prefill-agent/push_state.h"

void push_tell(struct push *push, const struct push_job *job, union push_message message)
{
    if (job != NULL) {
        message.job = job->index;
        message.transfer = job->transfer;
    }
    kvr_group_tell(push->group, &message.any);
}

/* One PUSH_COUNT for each (target rail, epoch), the sum over our rails. */
static void tell_counts(struct push *push, const struct push_job *job)
{
    for (uint32_t i = 0; i < job->posts.pair_count; i++) {
        const struct kvr_pair *pair = &job->posts.pairs[i].pair;
        uint64_t count = 0;
        bool told = false;

        for (uint32_t k = 0; k < job->posts.pair_count; k++) {
            if (job->posts.pairs[k].pair.target_rail != pair->target_rail ||
                job->posts.pairs[k].pair.epoch != pair->epoch)
                continue;
            told = told || k < i;
            count += job->posts.pairs[k].count;
        }
        if (told)
            continue;
        push_tell(push, job,
                  PUSH_MESSAGE(
                      PUSH_COUNT,
                      .count = {.rail = pair->target_rail, .epoch = pair->epoch, .count = count}));
    }
}

void push_tell_sum(struct push *push, const struct push_job *job, enum push_kind kind)
{
    const struct push_sum sum = {
        .round = job->round,
        .posted = (uint32_t)job->posts.accepted,
        .repeated = (uint32_t)job->posts.repeated,
        .rails = job->posts.rails,
        .first = job->first,
    };
    tell_counts(push, job);
    push_tell(push, job, PUSH_MESSAGE(kind, .sum = sum));
}

/* Nothing more will be posted, or not before the target says MISSING or ROOM. */
void push_check_posted(struct push *push, struct push_job *job)
{
    bool rests = push_lacks_room(job);

    if (!push_job_posts(job) || job->told.round || job->retransmit_first != NULL ||
        job->staged > 0 || (!rests && (!job->final || job->open != NULL)))
        return;
    job->told.round = true;
    if (!rests && !job->told.ready && job->ready_last != 0) {
        job->told.ready = true;
        push_tell(push, job, PUSH_MESSAGE(PUSH_ALL_READY, .ready_at = job->ready_last));
    }
    push_tell_sum(push, job, rests ? PUSH_STAGING_FULL : PUSH_POSTED);
}

void push_check_closed(struct push *push, struct push_job *job)
{
    if (job->state != PUSH_JOB_CLOSING || job->posts.outstanding > 0 || job->staged > 0)
        return;
    push->jobs[job->index] = NULL;
    push->open_count--;
    push_tell(push, job, PUSH_MESSAGE(PUSH_CLOSED, .closed = job));
}

void push_copy_failed(struct push *push, struct push_job *job)
{
    if (!push_job_posts(job))
        return;
    push_job_on(&job->state, PUSH_JOB_COPY_FAILED);
    push_dequeue(push, job);
    push_tell(push, job, PUSH_MESSAGE(PUSH_COPY_FAILED));
}

void push_tell_rail(struct push *push, struct push_job *job, kvr_status status, bool progress)
{
    if (status != KVR_OK && status != KVR_AGAIN && !job->told.no_rail) {
        job->told.no_rail = true;
        push_tell(push, job,
                  PUSH_MESSAGE(PUSH_NO_RAIL,
                               .silent_from = kvr_group_silent_from(push->group, job->peer)));
    }
    /* A rail without room is usable. With nothing to post, the status says nothing about rails. */
    if (job->told.no_rail && (status == KVR_AGAIN || (status == KVR_OK && progress))) {
        job->told.no_rail = false;
        push_tell(push, job, PUSH_MESSAGE(PUSH_RAIL_BACK));
    }
}

void push_check(struct push *push, struct push_job *job)
{
    push_check_posted(push, job);
    push_check_closed(push, job);
}
