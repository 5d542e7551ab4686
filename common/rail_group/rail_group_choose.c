/* Chooses the pair that the next writes leave on.
 *
 * It is the pair on which they would complete first. The estimate uses what is queued before them
 * and the measured pace of the rail and the pair. So all rails of a transfer end together, however
 * unequal they are; with equally long queues the slow rail would delay the end of every transfer.
 * For the same reason a write waits for room on a fast pair rather than in a long queue of a slow
 * one. Of pairs that are equal, such as those of one slow rail, one that rests comes first.
 *
 * Room is counted for each rail and each link. Where several peers share a rail, a peer that does
 * not answer must not hold all of it. A link may hold at most three times as many writes as are
 * still free, and as many bytes as are free. So a single peer gets three quarters of the writes and
 * half of the bytes, and other peers always find room. The next transfer to the same peer waits for
 * what the link holds. Half of the window fills a rail as well, and keeps that wait below one
 * window, including completions that are seen late (tests/bench/RESULTS.md). */
#include "base/mutant.h"
#include "rail_group/rail_group_state.h"

#define BATCH_BYTES  (2u << 20)
#define BATCH_NS     (2 * KVR_MS)   /* of a slow rail: posted writes cannot move to another rail */
#define QUEUE_NS     (250 * KVR_MS) /* a longer queue waits for a pair that became slow */
#define WRITES_SHARE 3              /* a link may hold this many times the free writes */
#define PATIENCE_NS  (5 * KVR_MS)   /* a pair with a shorter queue is taken at once */
/* After AGAIN a link waits for a completion of its rail. A pair with a dead peer answers AGAIN for
 * ever while others complete: after a few in a row only time counts. */
#define AGAIN_QUICK  4

bool group_link_waits(const struct kvr_group *group, const struct group_link *link)
{
    if (link->again.count == 0 || group->now >= link->again.until)
        return false;
    return link->again.count > AGAIN_QUICK ||
           group_settled(&link->rail->counters) == link->again.settled;
}

/* Arms the group's retry timer for a waiting link. The time that the timer held may have been
 * another link's, and may have passed. */
static bool must_wait(struct kvr_group *group, const struct group_link *link)
{
    if (!group_link_waits(group, link))
        return false;
    if (link->again.until < group->timers.retry_at)
        group->timers.retry_at = link->again.until;
    return true;
}

/* How many more writes a link may hold: before each of them there must be room. */
static bool room(const struct group_link *link, uint32_t *ret_writes, uint64_t *ret_bytes)
{
    const struct group_rail *rail = link->rail;
    uint64_t writes = (uint64_t)WRITES_SHARE * (rail->writes_max - rail->writes);
    uint64_t bytes = rail->bytes_max - rail->bytes;

    if (rail->writes >= rail->writes_max || rail->bytes >= rail->bytes_max ||
        link->writes >= writes || link->bytes >= bytes || (link->doubted && link->writes > 0) ||
        (link->writes > 1 && link->bytes >= kvr_pace_bytes(&link->pace, QUEUE_NS)))
        return false;
    *ret_writes = (uint32_t)((writes - link->writes + WRITES_SHARE) / (WRITES_SHARE + 1));
    if (link->doubted)
        *ret_writes = 1;
    *ret_bytes = (bytes - link->bytes + 1) / 2;
    return true;
}

/* How long until `bytes` more would complete on the link. A link without progress for longer than
 * its queue needs is expected to stay stuck for the same time again. */
static kvr_ns through_in(const struct kvr_group *group, const struct group_link *link,
                         uint64_t bytes)
{
    kvr_ns rail = kvr_pace_of(&link->rail->pace, link->rail->bytes + bytes);
    kvr_ns pair = kvr_pace_of(&link->pace, link->bytes + bytes);
    kvr_ns silent = link->writes > 0 ? group->now - link->progress_at : 0;
    kvr_ns queue = rail > pair ? rail : pair;

    return silent > queue ? silent : queue;
}

/* A batch was refused in its middle, so writes of the rail wait for a doorbell that only another
 * write rings. The next write goes to that rail, or waits for it while the rail seems alive: there
 * may be no later write. Without doorbells this would only make fast rails wait for slow ones. */
static bool owes_doorbell(const struct group_link *link)
{
    return link->rail->unrung && link->rail->limits.doorbells && link->again.count <= AGAIN_QUICK;
}

/* Begins a batch on the link: as much as it has room for, up to one doorbell's worth. */
static void batch_begin(struct kvr_group *group, struct group_peer *peer, struct group_link *link,
                        uint32_t writes, uint64_t bytes)
{
    uint64_t soon = kvr_pace_bytes(&link->pace, BATCH_NS);

    if (link->connection == LINK_UNCONNECTED)
        group_link_connect(group, link);
    peer->batch_link = link;
    peer->batch_writes = writes < group->batch_writes ? writes : group->batch_writes;
    peer->batch_bytes = bytes < BATCH_BYTES ? bytes : BATCH_BYTES;
    if (soon < peer->batch_bytes)
        peer->batch_bytes = soon;
    if (owes_doorbell(link))
        peer->batch_writes = 1;
}

static uint64_t post_bytes(const struct kvr_group_post *post)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < post->piece_count; i++)
        bytes += post->pieces[i].bytes;
    return bytes;
}

/* KVR_AGAIN: no usable link has room, or a link without room would still complete sooner. */
kvr_status group_choose(struct kvr_group *group, struct group_peer *peer,
                        const struct kvr_group_post *post)
{
    kvr_ns soonest = KVR_NEVER, full = KVR_NEVER; /* full: on those without room */
    struct group_link *best = NULL;
    uint32_t best_writes = 0;
    uint64_t best_bytes = 0, bytes = post_bytes(post);
    kvr_status status = KVR_NO_RAIL;

    peer->batch_link = NULL;
    for (uint32_t i = 0; i < peer->link_count; i++) {
        struct group_link *link = peer->links[(peer->turn + i) % peer->link_count];
        uint32_t room_writes;
        uint64_t room_bytes;
        kvr_ns through;
        bool owes, waits;

        if (link->state != LINK_USABLE || !group_link_reaches(link, post) ||
            !group_link_may(peer, link, post))
            continue;
        if (group_link_on_trial(link)) {
            group_link_want(group, link);
            continue;
        }
        if (status == KVR_NO_RAIL)
            status = KVR_AGAIN;
        if (link->unknown && !KVR_MUTANT(post_before_known))
            continue;
        owes = owes_doorbell(link);
        waits = must_wait(group, link);
        if (owes && waits)
            return KVR_AGAIN;
        if (waits || (link->connection == LINK_UNCONNECTED && !group_link_may_connect(group, link)))
            continue;
        through = owes ? 0 : through_in(group, link, bytes);
        if (!room(link, &room_writes, &room_bytes)) {
            full = through < full ? through : full;
        } else if (through < soonest ||
                   (through == soonest && best != NULL && best->writes > 0 && link->writes == 0)) {
            soonest = through;
            best = link;
            best_writes = room_writes;
            best_bytes = room_bytes;
        }
    }
    if (best != NULL && (full >= soonest || soonest <= PATIENCE_NS || best->writes == 0)) {
        batch_begin(group, peer, best, best_writes, best_bytes);
        status = KVR_OK;
    }
    peer->turn++;
    return status;
}
