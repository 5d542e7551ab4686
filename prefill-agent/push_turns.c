/* Turns: which transfer posts next when several have chunks ready.
 *
 * Tenants take turns first, by their shares (push_shares.h): a transfer of one tenant, however
 * urgent, takes nothing of another's share. A tenant that has no room does not hold the others.
 *
 * The transfers of a tenant are ranked by deadline, then by priority; an earlier rank posts first.
 * The time left until the deadline counts in steps of a factor of four, so that transfers with
 * similar deadlines share the rails. Within a rank each transfer posts one batch in turn, whatever
 * its size, so that a small transfer is not stuck behind a huge one. Transfers to one peer that
 * have posted a few batches get longer turns, one after the other. Otherwise equal transfers that
 * began together would all end together, and the rails would be idle while the next ones open.
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

static void lanes_count(struct push *push, uint32_t tenant)
{
    uint32_t bit = UINT32_C(1) << tenant;

    if (push->lanes[tenant].queued_count > 0)
        push->queued_lanes |= bit;
    else
        push->queued_lanes &= ~bit;
    push->sharing = (push->queued_lanes & (push->queued_lanes - 1)) != 0;
    if (push->lanes[tenant].queued_count == 0)
        push_shares_idle(&push->shares, tenant);
}

void push_enqueue(struct push *push, struct push_job *job)
{
    struct push_lane *lane = &push->lanes[job->turn.tenant];

    if (job->turn.queued)
        return;
    job->turn.queued = true;
    job->turn.rank = rank_of(job, 0);
    push->queued_count++;
    lane->queued_count++;
    lane->fresh_count += job->turn.batches < LONG_BATCHES;
    push->shares.tenants[job->turn.tenant].weight = job->turn.weight > 0 ? job->turn.weight : 1;
    lanes_count(push, job->turn.tenant);
    if (lane->turn == NULL) {
        job->turn.next = job->turn.prev = job;
        lane->turn = job;
        return;
    }
    job->turn.next = lane->turn;
    job->turn.prev = lane->turn->turn.prev;
    job->turn.prev->turn.next = job;
    lane->turn->turn.prev = job;
}

void push_dequeue(struct push *push, struct push_job *job)
{
    struct push_lane *lane = &push->lanes[job->turn.tenant];

    if (!job->turn.queued)
        return;
    job->turn.queued = false;
    push->queued_count--;
    lane->queued_count--;
    lane->fresh_count -= job->turn.batches < LONG_BATCHES;
    lanes_count(push, job->turn.tenant);
    if (lane->long_turn[job->peer] == job)
        lane->long_turn[job->peer] = NULL;
    if (lane->turn == job)
        lane->turn = job->turn.next != job ? job->turn.next : NULL;
    job->turn.next->turn.prev = job->turn.prev;
    job->turn.prev->turn.next = job->turn.next;
    job->turn.next = job->turn.prev = NULL;
}

/* Ranks the lane's jobs. Returns whether there are several ranks; *ret_first: the first. */
static bool ranks_read(const struct push_lane *lane, kvr_ns now, uint64_t *ret_first)
{
    struct push_job *job = lane->turn;
    uint64_t first = UINT64_MAX, last = 0;

    for (uint32_t i = lane->queued_count; i > 0; i--, job = job->turn.next) {
        if (job->turn.deadline != KVR_NEVER)
            job->turn.rank = rank_of(job, now);
        first = job->turn.rank < first ? job->turn.rank : first;
        last = job->turn.rank > last ? job->turn.rank : last;
    }
    *ret_first = first;
    return first < last;
}

/* The next rank after this one; UINT64_MAX: none. */
static uint64_t rank_after(const struct push_lane *lane, uint64_t rank)
{
    const struct push_job *job = lane->turn;
    uint64_t next = UINT64_MAX;

    for (uint32_t i = lane->queued_count; i > 0; i--, job = job->turn.next)
        if (job->turn.rank > rank && job->turn.rank < next)
            next = job->turn.rank;
    return next;
}

static bool is_full(const struct full_peers *full, const struct push_job *job)
{
    return (full->words[job->peer / 64] >> job->peer % 64 & 1) != 0;
}

/* Another job's long turn over the same rails goes on. */
static bool waits(const struct push_lane *lane, const struct push_job *job)
{
    const struct push_job *first = lane->long_turn[job->peer];

    return first != NULL && first != job && job->turn.batches >= LONG_BATCHES &&
           first->turn.rank == job->turn.rank && first->target_rails == job->target_rails;
}

/* The job may have left the queue. A job that had room and posted nothing ends its long turn. */
static void batch_count(struct push_lane *lane, struct push_job *job, bool posted, bool blocked)
{
    struct push_job **first = &lane->long_turn[job->peer];

    job->turn.batches += posted;
    lane->fresh_count -= posted && job->turn.queued && job->turn.batches == LONG_BATCHES;
    if (job->turn.batches >= LONG_BATCHES && job->turn.queued && *first == NULL)
        *first = job;
    if (*first == job && (posted ? job->turn.batches % TURN_BATCHES == 0 : !blocked))
        *first = NULL;
}

/* No other lane has jobs, or this one has credit left. */
static bool may_post(const struct push *push, const struct push_lane *lane)
{
    return !push->sharing || push->on_loan ||
           push_shares_has(&push->shares, (uint32_t)(lane - push->lanes));
}

/* One batch; or a whole long turn, while no fresh job waits. */
static bool turn_work(struct push *push, struct push_lane *lane, struct push_job *job,
                      bool *ret_blocked)
{
    bool progress = false, posted;

    do {
        posted = push_post(push, job, ret_blocked);
        batch_count(lane, job, posted, *ret_blocked);
        progress = progress || posted;
    } while (posted && !*ret_blocked && lane->fresh_count == 0 &&
             lane->long_turn[job->peer] == job && may_post(push, lane));
    return progress;
}

/* What a lane's turn has come to. */
struct lane_turn {
    struct full_peers full;
    struct push_job *starved; /* it had no room, and posted nothing; or NULL */
    bool posted, blocked;
};

/* Once round the ring: a turn for each job of the rank. later: an earlier rank had its turn. */
static void rank_work(struct push *push, struct push_lane *lane, uint64_t rank, bool later,
                      struct lane_turn *turn)
{
    struct full_peers now_full = turn->full;

    for (uint32_t i = lane->queued_count; i > 0 && lane->turn != NULL && may_post(push, lane);
         i--) {
        struct push_job *job = lane->turn;
        bool blocked = false, posted;

        lane->turn = job->turn.next;
        if (job->turn.rank != rank || (later && is_full(&turn->full, job)) || waits(lane, job))
            continue;
        posted = turn_work(push, lane, job, &blocked);
        turn->posted = turn->posted || posted;
        if (!blocked)
            continue;
        turn->blocked = push->blocked = true;
        now_full.words[job->peer / 64] |= (uint64_t)1 << job->peer % 64;
        if (turn->starved == NULL && !posted)
            turn->starved = job;
    }
    turn->full = now_full;
}

/* push->more: ready chunks are left. */
static struct lane_turn lane_work(struct push *push, struct push_lane *lane, kvr_ns now)
{
    struct lane_turn turn = {.starved = NULL};
    uint64_t rank;
    bool several = ranks_read(lane, now, &rank), later = false;

    push->more = false;
    do {
        rank_work(push, lane, rank, later, &turn);
        later = true;
        rank = several && lane->turn != NULL ? rank_after(lane, rank) : UINT64_MAX;
    } while (rank != UINT64_MAX && !push->more && may_post(push, lane));
    /* A job that found no room is tried first the next time; otherwise another job would always
     * take the room before it. */
    if (turn.starved != NULL && turn.starved->turn.queued)
        lane->turn = turn.starved;
    return turn;
}

/* The lane that is next among `may`, a part of `active`. KVR_TENANTS_MAX: none before a new round.
 */
static uint32_t lane_next(struct push *push, uint32_t active, uint32_t may)
{
    uint32_t tenant = push_shares_next(&push->shares, may);

    push->on_loan = false;
    if (tenant < KVR_TENANTS_MAX || push_shares_next(&push->shares, active) == KVR_TENANTS_MAX)
        return tenant;
    push->on_loan = true; /* those that have credit have no room */
    return push_shares_borrower(&push->shares, may);
}

/* The lanes have their turns, one after the other, until each has used its credit, lacks room or
 * has nothing ready. */
static bool lanes_work(struct push *push, kvr_ns now)
{
    uint32_t active = push->queued_lanes, may = active;
    bool progress = false, more = false;

    while (may != 0) {
        uint32_t tenant = lane_next(push, active, may), bit;
        struct lane_turn turn;

        if (tenant == KVR_TENANTS_MAX && progress) {
            more = true; /* the next step begins the round: completions are read before */
            break;
        }
        if (tenant == KVR_TENANTS_MAX) {
            push_shares_rounds(&push->shares, active);
            continue;
        }
        bit = UINT32_C(1) << tenant;
        turn = lane_work(push, &push->lanes[tenant], now);
        progress = progress || turn.posted;
        more = more || push->more;
        if (!turn.posted && !turn.blocked) {
            push_shares_idle(&push->shares, tenant);
            active &= ~bit;
        }
        active &= push->queued_lanes;
        if (!turn.posted || turn.blocked || push->on_loan)
            may &= ~bit;
        may &= active;
    }
    push->on_loan = false;
    push->more = more; /* when it is true at the end, the next step comes at once */
    return progress;
}

bool push_work(struct push *push, kvr_ns now)
{
    if (push->queued_lanes == 0)
        return false;
    if (push->sharing)
        return lanes_work(push, now);
    return lane_work(push, &push->lanes[__builtin_ctz(push->queued_lanes)], now).posted;
}
