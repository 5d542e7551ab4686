/* Turns: whose chunks go next when several transfers have some ready.
 *
 * Deadline first, then priority: a transfer goes before all of a later rank. A rank is what remains
 * until the deadline, in steps of four times as much, so that transfers which are due at about the
 * same time share the rails; within that the priority. Within a rank every transfer has a batch in
 * turn, however large it is, so that a small one beside a huge one is not stuck behind it. Those to
 * one peer that have had a few have longer turns, in which the others like them wait: equal ones
 * that began together would else all end together, and nothing would move while the next are
 * opened.
 *
 * Where a transfer found no room, none of a later rank that goes to the same peer may take the
 * next; other peers' may, because a peer that does not answer must not hold them. */
#include "prefill-agent/push.h"

#define URGENCY_SHIFT 26 /* of the nanoseconds left: the most urgent have less than 67 ms */
#define URGENCY_NONE  31u
#define LONG_BATCHES  4u /* who has posted so many has long turns */
#define TURN_BATCHES  8u /* of a long turn; some 8 to 16 MiB */

struct full_peers {
    uint64_t words[KVR_PEERS_MAX / 64];
};

/* Smaller goes first. */
static uint64_t rank_of(const struct push_job *job, kvr_ns now)
{
    uint64_t left = job->deadline > now ? (job->deadline - now) >> URGENCY_SHIFT : 0;
    unsigned urgency = left > 0 ? (65 - (unsigned)__builtin_clzll(left)) / 2 : 0;

    if (job->deadline == KVR_NEVER)
        urgency = URGENCY_NONE;
    return (uint64_t)urgency << 32 | (uint32_t)((int64_t)INT32_MAX - job->priority);
}

void push_enqueue(struct push *push, struct push_job *job)
{
    if (job->queued)
        return;
    job->queued = true;
    job->rank = rank_of(job, 0);
    push->queued_count++;
    push->fresh_count += job->batches < LONG_BATCHES;
    if (push->turn == NULL) {
        job->next = job->prev = job;
        push->turn = job;
        return;
    }
    job->next = push->turn;
    job->prev = push->turn->prev;
    job->prev->next = job;
    push->turn->prev = job;
}

void push_dequeue(struct push *push, struct push_job *job)
{
    if (!job->queued)
        return;
    job->queued = false;
    push->queued_count--;
    push->fresh_count -= job->batches < LONG_BATCHES;
    if (push->long_turn[job->peer] == job)
        push->long_turn[job->peer] = NULL;
    if (push->turn == job)
        push->turn = job->next != job ? job->next : NULL;
    job->next->prev = job->prev;
    job->prev->next = job->next;
    job->next = job->prev = NULL;
}

/* Of all that are queued; the first rank, and whether there are others. */
static bool ranks_read(struct push *push, kvr_ns now, uint64_t *ret_first)
{
    struct push_job *job = push->turn;
    uint64_t first = UINT64_MAX, last = 0;

    for (uint32_t i = push->queued_count; i > 0; i--, job = job->next) {
        if (job->deadline != KVR_NEVER)
            job->rank = rank_of(job, now);
        first = job->rank < first ? job->rank : first;
        last = job->rank > last ? job->rank : last;
    }
    *ret_first = first;
    return first < last;
}

/* The rank that follows; UINT64_MAX: none. */
static uint64_t rank_after(const struct push *push, uint64_t rank)
{
    const struct push_job *job = push->turn;
    uint64_t next = UINT64_MAX;

    for (uint32_t i = push->queued_count; i > 0; i--, job = job->next)
        if (job->rank > rank && job->rank < next)
            next = job->rank;
    return next;
}

static bool is_full(const struct full_peers *full, const struct push_job *job)
{
    return (full->words[job->peer / 64] >> job->peer % 64 & 1) != 0;
}

/* Another's long turn over the same rails is not over. */
static bool waits(const struct push *push, const struct push_job *job)
{
    const struct push_job *first = push->long_turn[job->peer];

    return first != NULL && first != job && job->batches >= LONG_BATCHES &&
           first->rank == job->rank && first->target_rails == job->target_rails;
}

/* Of a job that may not be queued any more. One that could have posted and did not gives way. */
static void batch_count(struct push *push, struct push_job *job, bool posted, bool blocked)
{
    struct push_job **first = &push->long_turn[job->peer];

    job->batches += posted;
    push->fresh_count -= posted && job->queued && job->batches == LONG_BATCHES;
    if (job->batches >= LONG_BATCHES && job->queued && *first == NULL)
        *first = job;
    if (*first == job && (posted ? job->batches % TURN_BATCHES == 0 : !blocked))
        *first = NULL;
}

/* A batch; of a long turn all of it where nobody is short. */
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

/* Once round the ring: a turn for each of the rank; `later`: there was one before it. */
static bool rank_work(struct push *push, uint64_t rank, bool later, struct full_peers *full,
                      struct push_job **starved)
{
    struct full_peers now_full = *full;
    bool progress = false;

    for (uint32_t i = push->queued_count; i > 0 && push->turn != NULL; i--) {
        struct push_job *job = push->turn;
        bool blocked = false, posted;

        push->turn = job->next;
        if (job->rank != rank || (later && is_full(full, job)) || waits(push, job))
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
    /* Whoever found no room is the first to find the next: else the same job takes it every time.
     */
    if (starved != NULL && starved->queued)
        push->turn = starved;
    return progress;
}
