/* A job's turn: what is ready and has room is posted. */
#include <assert.h>

#include "prefill-agent/push_state.h"

#define PUSH_BATCH 32 /* posts of one job before the next job's turn, at most */

/* All that has room was posted for the first time, and there is more. */
bool push_lacks_room(const struct push_job *job)
{
    const struct push_segment *segment = job->open;

    while (segment != NULL && segment->chunk_next == segment->plan->chunk_count)
        segment = segment->next;
    return segment != NULL && segment->chunk_next == segment->chunk_room;
}

static struct push_segment *segment_of(const struct push_job *job, uint32_t chunk)
{
    struct push_segment *segment = job->first;

    while (segment != NULL && chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->next;
    return segment;
}

/* Moves the segment's limit to the layers that are final now. */
static void move_limit(const struct push *push, const struct push_job *job,
                       struct push_segment *segment)
{
    const struct kvr_plan *plan = segment->plan;
    uint64_t final = UINT64_MAX;

    if (segment->word != NULL) {
        uint64_t word = atomic_load_explicit(segment->word, memory_order_acquire);

        final = word > segment->word_base ? word - segment->word_base : 0;
    }
    while (segment->layers_ready < plan->layer_count) {
        struct kvr_chunk_run chunks;
        uint32_t layer = kvr_plan_layer(plan, segment->layers_ready, &chunks);

        if ((uint64_t)(layer - segment->layer_base) >= final)
            return;
        segment->layers_ready++;
        kvr_span_begins(job->posts.spans, layer, push->now);
        segment->chunk_ready = chunks.chunk_first + chunks.chunk_count;
    }
    segment->chunk_ready = plan->chunk_count;
}

/* Moves the segment's other limit to the chunks that have room. */
void push_move_room(const struct push_job *job, struct push_segment *segment)
{
    const struct kvr_plan *plan = segment->plan;

    if (segment->positions == NULL)
        segment->chunk_room = plan->chunk_count;
    while (segment->chunk_room < plan->chunk_count &&
           segment->positions[segment->chunk_room] +
                   kvr_plan_chunk_bytes(plan, segment->chunk_room) <=
               job->quota.room)
        segment->chunk_room++;
}

bool push_read_word(const struct push *push, struct push_job *job, struct push_segment *segment)
{
    uint32_t ready = segment->chunk_ready;

    if (ready == segment->plan->chunk_count)
        return false;
    move_limit(push, job, segment);
    if (segment->chunk_ready == ready)
        return false;
    kvr_group_stamp(push->group, KVR_STATION_SEEN);
    job->ready_last = push->now;
    if (job->ready_first == 0)
        job->ready_first = push->now;
    return true;
}

/* Retransmits go first: the target waits for nothing else. */
static kvr_status post_retransmits(struct push *push, struct push_job *job, bool *progress)
{
    for (unsigned n = 0; n < PUSH_BATCH && job->retransmit_first != NULL; n++) {
        struct push_retransmit *retransmit = job->retransmit_first;
        const struct kvr_chunk_run *run = &retransmit->runs[retransmit->run_next];
        uint32_t chunk = run->chunk_first + retransmit->chunk_next;
        struct push_segment *segment = segment_of(job, chunk);

        /* A chunk that was never posted needs no retransmit: its first post will come. */
        if (segment != NULL && segment->where[chunk - segment->chunk_first] != PUSH_NOWHERE) {
            struct kvr_plan_cursor cursor;
            kvr_status status;
            uint32_t count;

            kvr_plan_seek(segment->plan, chunk - segment->chunk_first, &cursor);
            status = push_send(push, job, segment, &cursor, 1, true, &count);
            if (status != KVR_OK)
                return status;
        }
        *progress = true;
        if (++retransmit->chunk_next < run->chunk_count)
            continue;
        retransmit->chunk_next = 0;
        if (++retransmit->run_next < retransmit->run_count)
            continue;
        job->retransmit_first = retransmit->next;
        push_tell(push, job, PUSH_MESSAGE(PUSH_RETRANSMIT_DONE, .retransmit = retransmit));
    }
    return KVR_OK;
}

/* Posts what is ready and has room, until the job's turn ends. While other jobs wait, a turn is one
 * batch of the group: PUSH_BATCH large chunks may be the whole window. */
static kvr_status post_segment(struct push *push, struct push_job *job,
                               struct push_segment *segment, unsigned *turn)
{
    uint32_t chunk_end;

    (void)push_read_word(push, job, segment);
    chunk_end =
        segment->chunk_ready < segment->chunk_room ? segment->chunk_ready : segment->chunk_room;
    while (segment->chunk_next < chunk_end && *turn < PUSH_BATCH) {
        uint32_t count = chunk_end - segment->chunk_next;
        kvr_status status;

        if (count > PUSH_BATCH - *turn)
            count = PUSH_BATCH - *turn;
        status = push_send(push, job, segment, &segment->cursor, count, false, &count);
        if (status != KVR_OK)
            return status;
        segment->chunk_next += count;
        *turn += push->queued_count > 1 ? PUSH_BATCH : count;
        if (segment->chunk_next == segment->chunk_ready)
            kvr_group_stamp(push->group, KVR_STATION_POSTED);
    }
    push->more = push->more || segment->chunk_next < chunk_end;
    return KVR_OK;
}

static kvr_status post_segments(struct push *push, struct push_job *job, bool *progress)
{
    kvr_status status = KVR_OK;
    unsigned turn = 0;

    for (struct push_segment *segment = job->open; segment != NULL && status == KVR_OK;
         segment = segment->next)
        status = post_segment(push, job, segment, &turn);
    *progress = *progress || turn > 0;
    if (status != KVR_OK)
        return status;
    while (job->open != NULL && job->open->chunk_next == job->open->plan->chunk_count)
        job->open = job->open->next;
    return KVR_OK;
}

bool push_post(struct push *push, struct push_job *job, bool *ret_blocked)
{
    bool progress = false, held;
    kvr_status status = post_retransmits(push, job, &progress);

    if (status == KVR_OK)
        status = post_segments(push, job, &progress);
    held = job->stage != NULL && status == KVR_AGAIN;
    if (held)
        status = push_stage_held(job);
    if (job->stage == NULL || (held && job->staged == 0)) /* else gathering says nothing of rails */
        push_tell_rail(push, job, status, progress);
    *ret_blocked = status == KVR_AGAIN;
    if (status == KVR_OK && job->retransmit_first == NULL &&
        (job->open == NULL || push_lacks_room(job)))
        push_dequeue(push, job);
    push_check_posted(push, job);
    return progress;
}
