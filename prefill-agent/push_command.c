/* The loop's commands to jobs. */
#include <assert.h>

#include "base/list.h"
#include "prefill-agent/push_state.h"

static void segment_add(struct push *push, struct push_job *job, struct push_segment *segment)
{
    memset(segment->where, PUSH_NOWHERE, segment->plan->chunk_count);
    kvr_plan_seek(segment->plan, 0, &segment->cursor);
    push_move_room(job, segment);
    KVR_LIST_APPEND(job->first, job->last, segment, next);
    if (!push_job_posts(job))
        return;
    if (job->open == NULL)
        job->open = segment;
    push_enqueue(push, job);
}

static void retransmit_add(struct push *push, struct push_job *job,
                           struct push_retransmit *retransmit)
{
    if (!push_job_posts(job)) {
        push_tell(push, job, PUSH_MESSAGE(PUSH_RETRANSMIT_DONE, .retransmit = retransmit));
        return;
    }
    if (retransmit->round > job->round)
        job->round = retransmit->round;
    if (retransmit->room > job->quota.room)
        job->quota.room = retransmit->room;
    for (struct push_segment *at = job->open; at != NULL; at = at->next)
        push_move_room(job, at);
    job->told.round = false;
    push_enqueue(push, job); /* its turn reports the posts, or that there are none */
    if (retransmit->run_count == 0) {
        push_tell(push, job, PUSH_MESSAGE(PUSH_RETRANSMIT_DONE, .retransmit = retransmit));
        return;
    }
    KVR_LIST_APPEND(job->retransmit_first, job->retransmit_last, retransmit, next);
}

/* The successor has all that there was, and nothing of it in flight. */
static void inherit(struct push *push, struct push_job *job, struct push_job *successor)
{
    push_dequeue(push, job);
    *successor = *job;
    successor->posts.outstanding = 0;
    job->first = job->last = job->open = NULL;
    job->retransmit_first = job->retransmit_last = NULL;
    push_job_on(&job->state, PUSH_JOB_HAND_ON);
}

static void fail_over(struct push *push, struct push_job *job, struct push_failover *failover)
{
    struct push_job *next = failover->successor != NULL ? failover->successor : job;

    assert(job->stage == NULL ||
           failover->successor == NULL); /* what is gathered stays with its group */
    for (uint32_t i = 0; i < job->posts.pair_count; i++)
        job->posts.pairs[i].retired = true;
    if (next != job)
        inherit(push, job, next);
    next->target = failover->target;
    next->keys = failover->keys;
    next->target_rails = failover->target_rails;
    next->told.no_rail = false; /* whether these can be reached is news */
    push_tell(push, job, PUSH_MESSAGE(PUSH_FAILED_OVER, .failover = failover));
    push_check_closed(push, job);
}

static void stop(struct push *push, struct push_job *job)
{
    if (job->state != PUSH_JOB_STOPPED && job->state != PUSH_JOB_CLOSING) {
        push_job_on(&job->state, PUSH_JOB_STOP);
        push_dequeue(push, job);
        while (job->retransmit_first != NULL) {
            struct push_retransmit *retransmit = job->retransmit_first;

            job->retransmit_first = retransmit->next;
            push_tell(push, job, PUSH_MESSAGE(PUSH_RETRANSMIT_DONE, .retransmit = retransmit));
        }
        push_stage_stop(job);
    }
    push_tell_sum(push, job, PUSH_STOPPED);
}

static void job_open(struct push *push, struct push_job *job)
{
    assert(push->jobs[job->index] == NULL);
    push->jobs[job->index] = job;
    job->stage = push_stage_of(push, job->via);
    push->open_count++;
    /* A successor begins with the remaining chunks. */
    if (job->state == PUSH_JOB_POSTING && (job->open != NULL || job->retransmit_first != NULL))
        push_enqueue(push, job);
}

static void job_command(struct push *push, struct push_job *job, const union push_message *message)
{
    assert(job != NULL);
    switch (message->head.kind) {
    case PUSH_SEGMENT:
        segment_add(push, job, message->segment);
        break;
    case PUSH_FINAL:
        job->final = true;
        push_check_posted(push, job);
        break;
    case PUSH_RETRANSMIT:
        retransmit_add(push, job, message->retransmit);
        break;
    case PUSH_LIST:
        push_list_fill(job, message->list);
        push_tell(push, job, PUSH_MESSAGE(PUSH_LISTED, .list = message->list));
        break;
    case PUSH_FAILOVER:
        fail_over(push, job, message->failover);
        break;
    case PUSH_STOP:
        stop(push, job);
        break;
    case PUSH_CLOSE:
        push_job_on(&job->state, PUSH_JOB_CLOSE);
        push_dequeue(push, job);
        push_check_closed(push, job);
        break;
    default:
        assert(false); /* our own loop sends nothing else */
    }
}

void push_command(void *self, kvr_ns now, const struct kvr_group_message *any)
{
    struct push *push = self;
    const union push_message message = push_message_of(any);

    (void)now;
    switch (message.head.kind) {
    case PUSH_PAGE:
        push->pages[message.page.engine] = message.page.page;
        push_tell(push, NULL, PUSH_MESSAGE(PUSH_PAGE_SET, .page = message.page));
        break;
    case PUSH_PROBE:
        push_probe_add(push, message.probe);
        break;
    case PUSH_OPEN:
        job_open(push, message.opened);
        break;
    default:
        assert(message.job < KVR_TRANSFERS_MAX);
        job_command(push, push->jobs[message.job], &message);
    }
}

struct kvr_group_message push_page_command(uint32_t engine, struct kvr_shared_page *page)
{
    return PUSH_MESSAGE(PUSH_PAGE, .page = {engine, page}).any;
}

bool push_page_forgotten(const struct kvr_group_message *message, uint32_t *ret_engine)
{
    const union push_message set = push_message_of(message);

    if (set.head.kind != PUSH_PAGE_SET || set.page.page != NULL)
        return false;
    *ret_engine = set.page.engine;
    return true;
}
