/* What the files of posting share. Private to push*.c; everything is the rail thread's. */
#ifndef PREFILL_AGENT_PUSH_STATE_H
#define PREFILL_AGENT_PUSH_STATE_H

#include "prefill-agent/push.h"

/* Upper half of a probe's token; of a job's it is a part's number and one, or 0. */
#define PUSH_PART_PROBE UINT32_MAX

/* False from the first command or failure on that ends the job's posting. */
static inline bool push_job_posts(const struct push_job *job)
{
    return job->state == PUSH_JOB_POSTING || job->state == PUSH_JOB_AWAITING_STOP;
}

/* So many of the last posts were not the first of their chunks. */
static inline void push_count_repeated(struct push_job *job, uint32_t count)
{
    job->posts.repeated += count;
    job->posts.pairs[job->posts.pair_last].repeated += count;
}

/* push_probe.c */
void push_probe_add(struct push *push, struct visibility_probe *probe);
bool push_probe_work(struct push *push); /* true when one was posted or answered */
/* A probe's write has ended: answers the probe. */
void push_probe_ended(struct push *push, uint32_t place, kvr_status status);

/* push_list.c: answers PUSH_LIST. */
void push_list_fill(struct push_job *job, struct push_list *list);

/* push_stage.c */
/* What this thread keeps of the stage; NULL for NULL. */
struct push_stage *push_stage_of(struct push *push, struct kvr_stage *stage);
/* Gathers up to `count` chunks from the cursor on, as many as one copy takes; *ret_count with
 * KVR_OK. again: the chunks were posted before. */
kvr_status push_stage_gather(struct push *push, struct push_job *job, struct push_segment *segment,
                             struct kvr_plan_cursor *cursor, uint32_t count, bool again,
                             uint32_t *ret_count);
/* Takes what was gathered and posts it; true when there was progress. */
/* Of a job that was answered KVR_AGAIN: KVR_NO_RAIL where the ring is held by a part that no pair
 * takes. */
kvr_status push_stage_held(const struct push_job *job);
bool push_stage_work(struct push *push);
void push_stage_written(struct push_job *job, uint32_t part);
/* The job posts no more. */
void push_stage_stop(struct push_job *job);
bool push_stage_busy(const struct push *push); /* something is gathered or being gathered */

/* push_post.c */
/* Posts up to `count` chunks from the cursor on over one pair, or gathers them to post them a
 * little later; *ret_count with KVR_OK. again: the chunks were posted before. */
kvr_status push_send(struct push *push, struct push_job *job, struct push_segment *segment,
                     struct kvr_plan_cursor *cursor, uint32_t count, bool again,
                     uint32_t *ret_count);
/* One chunk as a write of its own; *ret_pair with KVR_OK. gathered: where its bytes lie in the
 * stage's memory, or NULL where the pages themselves are read. */
struct push_write {
    uint32_t chunk; /* of the segment */
    const struct push_part *gathered;
    uint64_t token;
    bool more;
};
kvr_status push_post_one(struct push *push, struct push_job *job, struct push_segment *segment,
                         const struct push_write *write, struct kvr_pair *ret_pair);
/* push_report.c */
/* To the loop, about the job; NULL: about none. */
void push_tell(struct push *push, const struct push_job *job, union push_message message);
/* One PUSH_COUNT for each (target rail, epoch), then the sum. */
void push_tell_sum(struct push *push, const struct push_job *job, enum push_kind kind);
/* Reports once that no rail is usable, and once that one is usable again. */
void push_tell_rail(struct push *push, struct push_job *job, kvr_status status, bool progress);
void push_copy_failed(struct push *push, struct push_job *job);
/* Reports once that nothing more will be posted, or nothing before the target's MISSING or ROOM. */
void push_check_posted(struct push *push, struct push_job *job);
/* Gives the job back if it is closing and this was its last completion. */
void push_check_closed(struct push *push, struct push_job *job);
/* Both. */
void push_check(struct push *push, struct push_job *job);

/* push_command.c */
void push_command(void *self, kvr_ns now, const struct kvr_group_message *message);

/* push_turns.c: which job is next. */
void push_enqueue(struct push *push, struct push_job *job);
void push_dequeue(struct push *push, struct push_job *job);
bool push_work(struct push *push, kvr_ns now);
/* push_ready.c */
/* One job's turn. True when it posted something; *ret_blocked when there is no room for more. */
bool push_post(struct push *push, struct push_job *job, bool *ret_blocked);
/* All that has room was posted for the first time, and there is more. */
bool push_lacks_room(const struct push_job *job);
/* Moves the segment's limit to the chunks that have room at the target. */
void push_move_room(const struct push_job *job, struct push_segment *segment);
/* Reads the segment's word. True: there is more to post than before. */
bool push_read_word(const struct push *push, struct push_job *job, struct push_segment *segment);

#endif
