#include "prefill-agent/push.h"

#include <assert.h>

#include "base/list.h"
#include "base/mutant.h"
#include "wire/loans.h"

#define PUSH_BATCH 32 /* posts of one job before the next job's turn, at most */

void push_tell(struct push *push, const struct push_job *job, uint32_t kind, uint64_t a, uint64_t b,
               uint64_t c, void *pointer)
{
    struct kvr_group_message message = {.kind = kind,
                                        .index = job->index,
                                        .id = job->transfer,
                                        .a = a,
                                        .b = b,
                                        .c = c,
                                        .pointer = pointer};

    kvr_group_tell(push->group, &message);
}

/* ---- counts ------------------------------------------------------------------------------- */

/* One PUSH_COUNT for each (target rail, epoch), the sum over our rails. */
static void tell_counts(struct push *push, const struct push_job *job)
{
    for (uint32_t i = 0; i < job->pair_count; i++) {
        const struct kvr_pair *pair = &job->pairs[i].pair;
        uint64_t count = 0;
        bool told = false;

        for (uint32_t k = 0; k < job->pair_count; k++) {
            if (job->pairs[k].pair.target_rail != pair->target_rail ||
                job->pairs[k].pair.epoch != pair->epoch)
                continue;
            told = told || k < i;
            count += job->pairs[k].count;
        }
        if (!told)
            push_tell(push, job, PUSH_COUNT, pair->target_rail, pair->epoch, count, NULL);
    }
}

static void tell_sum(struct push *push, const struct push_job *job, uint32_t kind)
{
    struct kvr_group_message message = {.kind = kind,
                                        .index = job->index,
                                        .id = job->rails,
                                        .a = job->round,
                                        .b = job->posted,
                                        .c = job->repeated,
                                        .pointer = job->first};

    tell_counts(push, job);
    kvr_group_tell(push->group, &message);
}

/* All that has room was posted for the first time, and there is more. */
static bool lacks_room(const struct push_job *job)
{
    const struct push_segment *segment = job->open;

    while (segment != NULL && segment->chunk_next == segment->plan->chunk_count)
        segment = segment->next;
    return segment != NULL && segment->chunk_next == segment->chunk_room;
}

/* Nothing more will be posted, or not before the target says MISSING or ROOM. */
static void check_posted(struct push *push, struct push_job *job)
{
    bool rests = lacks_room(job);

    if (job->stopped || job->posted_told || job->again_first != NULL || job->staged > 0 ||
        job->copy_failed || (!rests && (!job->final || job->open != NULL)))
        return;
    job->posted_told = true;
    if (!rests && !job->ready_told && job->ready_last != 0) {
        job->ready_told = true;
        push_tell(push, job, PUSH_ALL_READY, job->ready_last, 0, 0, NULL);
    }
    tell_sum(push, job, rests ? PUSH_RESTS : PUSH_POSTED);
}

static void check_closed(struct push *push, struct push_job *job)
{
    if (!job->closing || job->outstanding > 0 || job->staged > 0)
        return;
    push->jobs[job->index] = NULL;
    push->open_count--;
    push_tell(push, job, PUSH_CLOSED, 0, 0, 0, job);
}

void push_check(struct push *push, struct push_job *job)
{
    check_posted(push, job);
    check_closed(push, job);
}

void push_copy_failed(struct push *push, struct push_job *job)
{
    if (job->copy_failed || job->stopped)
        return;
    job->copy_failed = true;
    push_dequeue(push, job);
    push_tell(push, job, PUSH_COPY_FAILED, 0, 0, 0, NULL);
}

/* ---- posting ------------------------------------------------------------------------------- */

static struct push_segment *segment_of(const struct push_job *job, uint32_t chunk)
{
    struct push_segment *segment = job->first;

    while (segment != NULL && chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->next;
    return segment;
}

/* Moves the segment's limit to the layers that are final now. */
static void move_limit(struct push_segment *segment)
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
        segment->chunk_ready = chunks.chunk_first + chunks.chunk_count;
    }
    segment->chunk_ready = plan->chunk_count;
}

/* Moves the segment's other limit to the chunks that have room. */
static void move_room(const struct push_job *job, struct push_segment *segment)
{
    const struct kvr_plan *plan = segment->plan;

    if (segment->positions == NULL)
        segment->chunk_room = plan->chunk_count;
    while (segment->chunk_room < plan->chunk_count &&
           segment->positions[segment->chunk_room] +
                   kvr_plan_chunk_bytes(plan, segment->chunk_room) <=
               job->room)
        segment->chunk_room++;
}

/* Whether there is more to post than before. */
static bool read_word(const struct push *push, struct push_job *job, struct push_segment *segment)
{
    uint32_t ready = segment->chunk_ready;

    if (ready == segment->plan->chunk_count)
        return false;
    move_limit(segment);
    if (segment->chunk_ready == ready)
        return false;
    kvr_group_stamp(push->group, KVR_STATION_SEEN);
    job->ready_last = push->now;
    if (job->ready_first == 0)
        job->ready_first = push->now;
    return true;
}

/* The target's MISSING first: it waits for nothing else. */
static kvr_status post_again(struct push *push, struct push_job *job, bool *progress)
{
    for (unsigned n = 0; n < PUSH_BATCH && job->again_first != NULL; n++) {
        struct push_again *again = job->again_first;
        const struct kvr_chunk_run *run = &again->runs[again->run_next];
        uint32_t chunk = run->chunk_first + again->chunk_next;
        struct push_segment *segment = segment_of(job, chunk);

        /* A chunk that was never posted needs no second posting: the first is still to come. */
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
        if (++again->chunk_next < run->chunk_count)
            continue;
        again->chunk_next = 0;
        if (++again->run_next < again->run_count)
            continue;
        job->again_first = again->next;
        if (job->again_first == NULL)
            job->again_last = NULL;
        push_tell(push, job, PUSH_AGAIN_DONE, 0, 0, 0, again);
    }
    return KVR_OK;
}

/* What of a segment is ready and has room, up to the end of the job's turn: where others wait, one
 * batch of the group's. Chunks may be so large that PUSH_BATCH of them are the whole window. */
static kvr_status post_segment(struct push *push, struct push_job *job,
                               struct push_segment *segment, unsigned *turn)
{
    uint32_t chunk_end;

    (void)read_word(push, job, segment);
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

void push_tell_rail(struct push *push, struct push_job *job, kvr_status status, bool progress)
{
    if (status != KVR_OK && status != KVR_AGAIN && !job->no_rail_told) {
        job->no_rail_told = true;
        push_tell(push, job, PUSH_NO_RAIL, 0, 0, 0, NULL);
    }
    /* No room is a rail too; nothing to post says nothing. */
    if (job->no_rail_told && (status == KVR_AGAIN || (status == KVR_OK && progress))) {
        job->no_rail_told = false;
        push_tell(push, job, PUSH_RAIL_BACK, 0, 0, 0, NULL);
    }
}

bool push_post(struct push *push, struct push_job *job, bool *ret_blocked)
{
    bool progress = false;
    kvr_status status = post_again(push, job, &progress);

    if (status == KVR_OK)
        status = post_segments(push, job, &progress);
    *ret_blocked = status == KVR_AGAIN;
    if (job->stage == NULL) /* else gathering says nothing about rails */
        push_tell_rail(push, job, status, progress);
    if (status == KVR_OK && job->again_first == NULL && (job->open == NULL || lacks_room(job)))
        push_dequeue(push, job);
    check_posted(push, job);
    return progress;
}

static bool push_turns(void *self, kvr_ns now)
{
    struct push *push = self;
    bool progress;

    push->now = now;
    push->blocked = false;
    progress = push_stage_work(push);
    progress = push_look_work(push) || progress;
    return push_work(push, now) || progress;
}

/* ---- commands ------------------------------------------------------------------------------ */

static void segment_add(struct push *push, struct push_job *job, struct push_segment *segment)
{
    memset(segment->where, PUSH_NOWHERE, segment->plan->chunk_count);
    kvr_plan_seek(segment->plan, 0, &segment->cursor);
    move_room(job, segment);
    KVR_LIST_APPEND(job->first, job->last, segment, next);
    if (job->stopped || job->copy_failed)
        return;
    if (job->open == NULL)
        job->open = segment;
    push_enqueue(push, job);
}

static void again_add(struct push *push, struct push_job *job, struct push_again *again)
{
    if (job->stopped || job->copy_failed) {
        push_tell(push, job, PUSH_AGAIN_DONE, 0, 0, 0, again);
        return;
    }
    if (again->round > job->round)
        job->round = again->round;
    if (again->room > job->room)
        job->room = again->room;
    for (struct push_segment *at = job->open; at != NULL; at = at->next)
        move_room(job, at);
    job->posted_told = false;
    push_enqueue(push, job); /* what it posts, or that it posts nothing, is told by its turn */
    if (again->run_count == 0) {
        push_tell(push, job, PUSH_AGAIN_DONE, 0, 0, 0, again);
        return;
    }
    KVR_LIST_APPEND(job->again_first, job->again_last, again, next);
}

/* The heir has all that there was, and nothing of it in flight. */
static void inherit(struct push *push, struct push_job *job, struct push_job *heir)
{
    push_dequeue(push, job);
    *heir = *job;
    heir->outstanding = 0;
    job->first = job->last = job->open = NULL;
    job->again_first = job->again_last = NULL;
    job->stopped = job->closing = true;
}

static void move(struct push *push, struct push_job *job, struct push_move *move)
{
    struct push_job *next = move->heir != NULL ? move->heir : job;

    assert(job->stage == NULL || move->heir == NULL); /* what is gathered stays with its group */
    for (uint32_t i = 0; i < job->pair_count; i++)
        job->pairs[i].retired = true;
    if (next != job)
        inherit(push, job, next);
    next->target = move->target;
    next->target_rails = move->target_rails;
    next->no_rail_told = false; /* whether these can be reached is news */
    push_tell(push, job, PUSH_MOVED, 0, 0, 0, move);
    check_closed(push, job);
}

static void stop(struct push *push, struct push_job *job)
{
    if (!job->stopped) {
        job->stopped = true;
        push_dequeue(push, job);
        while (job->again_first != NULL) {
            struct push_again *again = job->again_first;

            job->again_first = again->next;
            push_tell(push, job, PUSH_AGAIN_DONE, 0, 0, 0, again);
        }
        job->again_last = NULL;
        push_stage_stop(job);
    }
    tell_sum(push, job, PUSH_STOPPED);
}

static void push_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    struct push *push = self;
    struct push_job *job = message->index < KVR_TRANSFERS_MAX ? push->jobs[message->index] : NULL;

    (void)now;
    if (message->kind == PUSH_PAGE) {
        struct kvr_group_message answer = *message;

        answer.kind = PUSH_PAGE_SET;
        push->pages[message->index] = message->pointer;
        kvr_group_tell(push->group, &answer);
        return;
    }
    if (message->kind == PUSH_LOOK) {
        push_look_add(push, message->pointer);
        return;
    }
    if (message->kind == PUSH_OPEN) {
        assert(job == NULL);
        job = push->jobs[message->index] = message->pointer;
        job->stage = push_stage_of(push, job->via);
        push->open_count++;
        if (!job->late && (job->open != NULL || job->again_first != NULL)) /* an heir */
            push_enqueue(push, job);
        return;
    }
    assert(job != NULL);
    switch (message->kind) {
    case PUSH_SEGMENT:
        segment_add(push, job, message->pointer);
        break;
    case PUSH_FINAL:
        job->final = true;
        check_posted(push, job);
        break;
    case PUSH_AGAIN:
        again_add(push, job, message->pointer);
        break;
    case PUSH_LIST:
        push_list_fill(job, message->pointer);
        push_tell(push, job, PUSH_LISTED, 0, 0, 0, message->pointer);
        break;
    case PUSH_MOVE:
        move(push, job, message->pointer);
        break;
    case PUSH_STOP:
        stop(push, job);
        break;
    case PUSH_CLOSE:
        job->closing = true;
        push_dequeue(push, job);
        check_closed(push, job);
        break;
    default:
        assert(false); /* our own loop sends nothing else */
    }
}

/* ---- what the group tells ------------------------------------------------------------------- */

/* What its completion means beyond itself: its bytes had been gathered, or the job waits for its
 * last. Apart, because nearly every completion means nothing more. */
static __attribute__((noinline)) void written_more(struct push *push, struct push_job *job,
                                                   uint32_t part, kvr_status status)
{
    /* A target that copies itself may still come for it: then what it copies must not count. */
    if (part != 0 && status != KVR_OK && job->loan != NULL)
        kvr_loan_end(job->loan);
    if (part != 0)
        push_stage_written(job, part - 1);
    check_closed(push, job);
}

static void push_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    struct push *push = self;
    uint32_t part = (uint32_t)(token >> 32);
    struct push_job *job;

    (void)now; /* a lost write is found through PAIR_BROKEN and RECYCLED */
    if (part == PUSH_PART_LOOK) {
        push_looked(push, (uint32_t)token, status);
        return;
    }
    job = push->jobs[(uint32_t)token];
    assert(job != NULL && job->outstanding >= count);
    job->outstanding -= count;
    if (part != 0 || (job->closing && job->outstanding == 0))
        written_more(push, job, part, status);
}

static void push_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint32_t immediate)
{
    (void)self, (void)now, (void)rail, (void)epoch, (void)immediate; /* nobody writes to a source */
}

/* Our endpoint of that epoch is closed: what comes next over this rail is another pair. */
static void push_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    struct push *push = self;

    (void)now, (void)epoch;
    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX && push->open_count > 0; i++) {
        struct push_job *job = push->jobs[i];

        for (uint32_t k = 0; job != NULL && k < job->pair_count; k++)
            if (job->pairs[k].pair.rail == rail)
                job->pairs[k].retired = true;
    }
}

static bool push_posting(void *self)
{
    return ((const struct push *)self)->open_count > 0;
}

static bool push_expecting(void *self)
{
    const struct push *push = self;

    return push->blocked || kvr_group_outstanding(push->group) > 0;
}

/* A word is awaited, and an engine has lent its words to a GPU, which rings nothing. */
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

/* Tells the engines to ring, then looks at every word once more: a store before `asleep` was seen
 * is found here, a later one rings. Each group that waits for a word has a bit there. */
static bool push_may_sleep(void *self, bool asleep)
{
    struct push *push = self;
    struct push_job *job = push->turn;
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
    for (uint32_t i = push->queued_count; i > 0; i--, job = job->next) {
        for (struct push_segment *segment = job->open; segment != NULL; segment = segment->next)
            if (read_word(push, job, segment))
                return false;
    }
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
        .posting = push_posting,
        .expecting = push_expecting,
        .copying = push_copying,
    };
}
