/* Turns: which transfer posts next when several have chunks ready.
 *
 * Transfers are ranked by deadline, then by priority; an earlier rank posts first. The time left
 * until the deadline counts in steps of a factor of four, so that transfers with similar deadlines
 * share the rails. Within a rank each transfer posts one batch in turn, whatever its size, so that
 * a small transfer is not stuck behind a huge one. Transfers to one peer that have posted a few
 * batches get longer turns, one after the other. Otherwise equal transfers that began together
 * would all end together, and the rails would be idle while the next ones open.
 *
 * When a transfer finds no room, transfers of a later rank to the same peer wait too. Transfers to
 * other peers go on, because a peer that does not answer must not hold them. */
#include "prefill-agent/push_state.h"

#define URGENCY_SHIFT 26 /* of the time left: the most urgent step ends at 67 ms */
#define URGENCY_NONE  31u
#define LONG_BATCHES  4u /* after so many batches a job has long turns */
#define TURN_BATCHES  8u /* of a long turn; some 8 to 16 MiB */

struct full_peers {
    uint64_t words[KVR_PEERS_MAX / 64];
};

/* Smaller goes first. */
static uint64_t rank_of(const struct push_job *job, kvr_ns now)
{
    uint64_t left = job->turn.deadline > now ? (job->turn.deadline - now) >> URGENCY_SHIFT : 0;
    unsigned urgency = left > 0 ? (65 - (unsigned)__builtin_clzll(left)) / 2 : 0;

    if (job->turn.deadline == KVR_NEVER)
        urgency = URGENCY_NONE;
    return (uint64_t)urgency << 32 | (uint32_t)((int64_t)INT32_MAX - job->turn.priority);
}

void push_enqueue(struct push *push, struct push_job *job)
{
    if (job->turn.queued)
        return;
    job->turn.queued = true;
    job->turn.rank = rank_of(job, 0);
    push->queued_count++;
    push->fresh_count += job->turn.batches < LONG_BATCHES;
    if (push->turn == NULL) {
        job->turn.next = job->turn.prev = job;
        push->turn = job;
        return;
    }
    job->turn.next = push->turn;
    job->turn.prev = push->turn->turn.prev;
    job->turn.prev->turn.next = job;
    push->turn->turn.prev = job;
}

void push_dequeue(struct push *push, struct push_job *job)
{
    if (!job->turn.queued)
        return;
    job->turn.queued = false;
    push->queued_count--;
    push->fresh_count -= job->turn.batches < LONG_BATCHES;
    if (push->long_turn[job->peer] == job)
        push->long_turn[job->peer] = NULL;
    if (push->turn == job)
        push->turn = job->turn.next != job ? job->turn.next : NULL;
    job->turn.next->turn.prev = job->turn.prev;
    job->turn.prev->turn.next = job->turn.next;
    job->turn.next = job->turn.prev = NULL;
}

/* Ranks all queued jobs. Returns whether there are several ranks; *ret_first: the first. */
static bool ranks_read(struct push *push, kvr_ns now, uint64_t *ret_first)
{
    struct push_job *job = push->turn;
    uint64_t first = UINT64_MAX, last = 0;

    for (uint32_t i = push->queued_count; i > 0; i--, job = job->turn.next) {
        if (job->turn.deadline != KVR_NEVER)
            job->turn.rank = rank_of(job, now);
        first = job->turn.rank < first ? job->turn.rank : first;
        last = job->turn.rank > last ? job->turn.rank : last;
    }
    *ret_first = first;
    return first < last;
}

/* The next rank after this one; UINT64_MAX: none. */
static uint64_t rank_after(const struct push *push, uint64_t rank)
{
    const struct push_job *job = push->turn;
    uint64_t next = UINT64_MAX;

    for (uint32_t i = push->queued_count; i > 0; i--, job = job->turn.next)
        if (job->turn.rank > rank && job->turn.rank < next)
            next = job->turn.rank;
    return next;
}

static bool is_full(const struct full_peers *full, const struct push_job *job)
{
    return (full->words[job->peer / 64] >> job->peer % 64 & 1) != 0;
}

/* Another job's long turn over the same rails goes on. */
static bool waits(const struct push *push, const struct push_job *job)
{
    const struct push_job *first = push->long_turn[job->peer];

    return first != NULL && first != job && job->turn.batches >= LONG_BATCHES &&
           first->turn.rank == job->turn.rank && first->target_rails == job->target_rails;
}

/* The job may have left the queue. A job that had room and posted nothing ends its long turn. */
static void batch_count(struct push *push, struct push_job *job, bool posted, bool blocked)
{
    struct push_job **first = &push->long_turn[job->peer];

    job->turn.batches += posted;
    push->fresh_count -= posted && job->turn.queued && job->turn.batches == LONG_BATCHES;
    if (job->turn.batches >= LONG_BATCHES && job->turn.queued && *first == NULL)
        *first = job;
    if (*first == job && (posted ? job->turn.batches % TURN_BATCHES == 0 : !blocked))
        *first = NULL;
}

/* One batch; or a whole long turn, while no fresh job waits. */
static bool turn_work(struct push *push, struct push_job *job, bool *ret_blocked)
{
    bool progress = false, posted;

    do {
        posted = push_post(push, job, ret_blocked);
        batch_count(push, job, posted, *ret_blocked);
        progress = progress || posted;
    } while (posted && !*ret_blocked && push->fresh_count == 0 &&
             push->long_turn[job->peer] == job);
    return progress;
}

/* Once round the ring: a turn for each job of the rank. later: an earlier rank had its turn. */
static bool rank_work(struct push *push, uint64_t rank, bool later, struct full_peers *full,
                      struct push_job **starved)
{
    struct full_peers now_full = *full;
    bool progress = false;

    for (uint32_t i = push->queued_count; i > 0 && push->turn != NULL; i--) {
        struct push_job *job = push->turn;
        bool blocked = false, posted;

        push->turn = job->turn.next;
        if (job->turn.rank != rank || (later && is_full(full, job)) || waits(push, job))
            continue;
        posted = turn_work(push, job, &blocked);
        progress = progress || posted;
        if (!blocked)
            continue;
        push->blocked = true;
        now_full.words[job->peer / 64] |= (uint64_t)1 << job->peer % 64;
        if (*starved == NULL && !posted)
            *starved = job;
    }
    *full = now_full;
    return progress;
}

bool push_work(struct push *push, kvr_ns now)
{
    struct push_job *starved = NULL;
    struct full_peers full = {{0}};
    uint64_t rank;
    bool several, later = false, progress = false;

    if (push->turn == NULL)
        return false;
    several = ranks_read(push, now, &rank);
    push->more = false; /* when it is true at the end, the next step comes at once */
    do {
        progress = rank_work(push, rank, later, &full, &starved) || progress;
        later = true;
        rank = several && push->turn != NULL ? rank_after(push, rank) : UINT64_MAX;
    } while (rank != UINT64_MAX && !push->more);
    /* A job that found no room is tried first the next time; otherwise another job would always
     * take the room before it. */
    if (starved != NULL && starved->turn.queued)
        push->turn = starved;
    return progress;
}
