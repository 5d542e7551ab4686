/* The calls of the rail group. */
#include "prefill-agent/push.h"

#include <assert.h>
#include <string.h>

#include "prefill-agent/push_state.h"
#include "wire/revocation_words.h"

static bool push_turns(void *self, kvr_ns now)
{
    struct push *push = self;
    bool progress;

    push->now = now;
    push->blocked = false;
    progress = push_stage_work(push);
    progress = push_probe_work(push) || progress;
    return push_work(push, now) || progress;
}

/* A completion that frees a gathered part, or is the last that a closing job waits for. Apart from
 * push_written(), because nearly every completion is neither. */
static __attribute__((noinline)) void written_more(struct push *push, struct push_job *job,
                                                   uint32_t part, kvr_status status)
{
    /* A target that copies by itself may still read the part: its copy must not count. */
    if (part != 0 && status != KVR_OK && job->revocation_word != NULL)
        kvr_revocation_word_revoke(job->revocation_word);
    if (part != 0)
        push_stage_written(job, part - 1);
    push_check_closed(push, job);
}

static void push_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    struct push *push = self;
    uint32_t part = (uint32_t)(token >> 32);
    struct push_job *job;

    (void)now; /* a lost write is found through PAIR_BROKEN and RECYCLED */
    if (part == PUSH_PART_PROBE) {
        push_probe_ended(push, (uint32_t)token, status);
        return;
    }
    job = push->jobs[(uint32_t)token];
    assert(job != NULL && job->posts.outstanding >= count);
    job->posts.outstanding -= count;
    if (part != 0 || (job->state == PUSH_JOB_CLOSING && job->posts.outstanding == 0))
        written_more(push, job, part, status);
}

static void push_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    (void)self, (void)now, (void)rail, (void)epoch,
        (void)immediate; /* no peer writes to a source */
}

/* Our endpoint of that epoch is closed: later posts over this rail make another pair. */
static void push_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    struct push *push = self;

    (void)now, (void)epoch;
    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX && push->open_count > 0; i++) {
        struct push_job *job = push->jobs[i];

        for (uint32_t k = 0; job != NULL && k < job->posts.pair_count; k++)
            if (job->posts.pairs[k].pair.rail == rail)
                job->posts.pairs[k].retired = true;
    }
}

static bool push_posting(void *self)
{
    return ((const struct push *)self)->open_count > 0;
}

/* A job ends with the target's word that it has all; or it failed, and its counts are compared. */
static bool push_unread(void *self, uint32_t peer, const struct kvr_pair *pair)
{
    const struct push *push = self;

    for (uint32_t i = 0, left = push->open_count; i < KVR_TRANSFERS_MAX && left > 0; i++) {
        const struct push_job *job = push->jobs[i];

        left -= job != NULL;
        for (uint32_t k = 0; job != NULL && job->peer == peer && k < job->posts.pair_count; k++)
            if (memcmp(&job->posts.pairs[k].pair, pair, sizeof(*pair)) == 0)
                return true;
    }
    return false;
}

static bool push_expecting(void *self)
{
    const struct push *push = self;

    return push->blocked || kvr_group_outstanding(push->group) > 0;
}

/* A job waits for a word that a GPU may store, which rings nothing. */
static bool gpu_awaited(const struct push *push)
{
    bool streamed = false;

    for (uint32_t i = 0; i < KVR_ENGINES_MAX && push->queued_count > 0; i++)
        streamed |= push->pages[i] != NULL &&
                    atomic_load_explicit(&push->pages[i]->streamed, memory_order_relaxed) != 0;
    return streamed;
}

static bool push_copying(void *self)
{
    return push_stage_busy(self) || gpu_awaited(self);
}

/* A word of the lane's has risen. */
static bool lane_has_news(const struct push *push, const struct push_lane *lane)
{
    struct push_job *job = lane->turn;

    for (uint32_t i = lane->queued_count; i > 0; i--, job = job->turn.next) {
        for (struct push_segment *segment = job->open; segment != NULL; segment = segment->next)
            if (push_read_word(push, job, segment))
                return true;
    }
    return false;
}

/* Sets the group's bit in `asleep`, so that engines ring, then reads every word once more. An
 * engine that stored before it saw the bit is found here; a later store rings. */
static bool push_may_sleep(void *self, bool asleep)
{
    struct push *push = self;
    uint32_t bit = UINT32_C(1) << kvr_group_number(push->group);

    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++) {
        if (push->pages[i] == NULL)
            continue;
        if (asleep && push->queued_count > 0)
            atomic_fetch_or_explicit(&push->pages[i]->asleep, bit, memory_order_relaxed);
        else
            atomic_fetch_and_explicit(&push->pages[i]->asleep, ~bit, memory_order_relaxed);
    }
    if (!asleep)
        return true;
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t lanes = push->queued_lanes; lanes != 0; lanes &= lanes - 1)
        if (lane_has_news(push, &push->lanes[__builtin_ctz(lanes)]))
            return false;
    return true;
}

static void push_opened(void *self, struct kvr_group *group)
{
    ((struct push *)self)->group = group;
}

struct kvr_group_user push_user(struct push *push)
{
    return (struct kvr_group_user){
        .self = push,
        .opened = push_opened,
        .command = push_command,
        .written = push_written,
        .arrived = push_arrived,
        .epoch_closed = push_epoch_closed,
        .work = push_turns,
        .may_sleep = push_may_sleep,
        .unread = push_unread,
        .posting = push_posting,
        .expecting = push_expecting,
        .copying = push_copying,
    };
}
