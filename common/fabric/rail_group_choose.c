/* Choosing: the pair that the next writes leave on.
 *
 * It is the one on which they would be through first, from what is queued before them and from the
 * pace at which that rail and that pair were seen to go. So all rails of a transfer end together,
 * however unequal they are: a queue as long on a slow rail as on a fast one would hold the end of
 * every transfer. That is why a write rather waits for room on a fast pair than be queued for long
 * on a slow one that has something to do.
 *
 * Room is counted a rail and a link. Where several peers share a rail, one that does not answer
 * must not hold all of it: a link may hold at most three times as many writes as are still free,
 * and as many bytes. A single peer so gets three quarters of the writes and half of the bytes, and
 * there is always a rest for others. What it holds is also what the next transfer to the same peer
 * waits for: half of the window fills a rail as well, and keeps that wait below a window, what is
 * seen of completions late included (tests/bench/RESULTS.md). */
#include "fabric/rail_group_state.h"

#define BATCH_BYTES  (2u << 20)
#define BATCH_NS     (2 * KVR_MS) /* of a slow rail: what it was given cannot be given to another */
#define WRITES_SHARE 3 /* of the writes that are free, a link may hold this many times as many */
#define PATIENCE_NS  (5 * KVR_MS) /* a queue as short as that waits for no other pair */
/* After AGAIN a link waits for a completion of its rail. A pair whose peer is dead answers AGAIN
 * for ever while others complete: after a few in a row only time counts. */
#define AGAIN_QUICK  4

bool group_link_waits(const struct kvr_group *group, const struct group_link *link)
{
    if (link->again_count == 0 || group->now >= link->again_until || group->eager)
        return false;
    return link->again_count > AGAIN_QUICK ||
           group_settled(&link->rail->counters) == link->again_settled;
}

/* Whoever wants a link that waits is woken when its time is up: the time kept in the group may have
 * been another link's, and gone by. */
static bool must_wait(struct kvr_group *group, const struct group_link *link)
{
    if (!group_link_waits(group, link))
        return false;
    if (link->again_until < group->retry_at)
        group->retry_at = link->again_until;
    return true;
}

/* How much more a link may hold: of n more writes each but the last leaves room. */
static bool room(const struct group_link *link, uint32_t *ret_writes, uint64_t *ret_bytes)
{
    const struct group_rail *rail = link->rail;
    uint64_t writes = (uint64_t)WRITES_SHARE * (rail->writes_max - rail->writes);
    uint64_t bytes = rail->bytes_max - rail->bytes;

    if (rail->writes >= rail->writes_max || rail->bytes >= rail->bytes_max ||
        link->writes >= writes || link->bytes >= bytes || (link->doubted && link->writes > 0))
        return false;
    *ret_writes = (uint32_t)((writes - link->writes + WRITES_SHARE) / (WRITES_SHARE + 1));
    if (link->doubted)
        *ret_writes = 1;
    *ret_bytes = (bytes - link->bytes + 1) / 2;
    return true;
}

/* When `bytes` more would be through on the link, from now. A link that has not moved for longer
 * than its queue needs is stuck for as long again. */
static kvr_ns through_in(const struct kvr_group *group, const struct group_link *link,
                         uint64_t bytes)
{
    kvr_ns rail = pace_of(&link->rail->pace, link->rail->bytes + bytes);
    kvr_ns pair = pace_of(&link->pace, link->bytes + bytes);
    kvr_ns silent = link->writes > 0 ? group->now - link->progress_at : 0;
    kvr_ns queue = rail > pair ? rail : pair;

    return silent > queue ? silent : queue;
}

/* Writes of its rail wait for a doorbell that only another write rings: it was refused in the
 * middle of a batch. The next one goes there, or waits for it as long as the rail seems to be
 * alive: nobody knows whether there will be one after it. Where a provider has no doorbells this
 * would only make fast rails wait for slow ones. */
static bool owes_doorbell(const struct group_link *link)
{
    return link->rail->unrung && link->rail->limits.doorbells && link->again_count <= AGAIN_QUICK;
}

/* A batch on the link: what it has room for, up to what is worth one doorbell. */
static void batch_begin(const struct kvr_group *group, struct group_peer *peer,
                        struct group_link *link, uint32_t writes, uint64_t bytes)
{
    uint64_t soon = pace_bytes(&link->pace, BATCH_NS);

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

/* In turns, whatever the rails do: what choosing gains is measured against that. */
static bool out_of_turn(const struct kvr_group *group, uint32_t room_writes, uint64_t room_bytes)
{
    return group->in_turn && (room_writes < group->batch_writes || room_bytes < BATCH_BYTES);
}

/* KVR_AGAIN: those that are usable have no room, or it is worth waiting for one that has none. */
kvr_status group_choose(struct kvr_group *group, struct group_peer *peer,
                        const struct kvr_group_post *post)
{
    uint32_t count = group->in_turn && peer->link_count > 0 ? 1 : peer->link_count;
    kvr_ns soonest = KVR_NEVER, full = KVR_NEVER; /* full: on those without room */
    struct group_link *best = NULL;
    uint32_t best_writes = 0;
    uint64_t best_bytes = 0, bytes = post_bytes(post);
    kvr_status status = KVR_NO_RAIL;

    peer->batch_link = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct group_link *link = peer->links[(peer->turn + i) % peer->link_count];
        uint32_t room_writes;
        uint64_t room_bytes;
        kvr_ns through;
        bool owes, waits;

        if (link->state != LINK_USABLE || !group_link_reaches(link, post))
            continue;
        if (status == KVR_NO_RAIL)
            status = KVR_AGAIN;
        owes = owes_doorbell(link);
        waits = must_wait(group, link);
        if (owes && waits)
            return KVR_AGAIN;
        if (waits)
            continue;
        through = owes ? 0 : through_in(group, link, bytes);
        if (!room(link, &room_writes, &room_bytes) || out_of_turn(group, room_writes, room_bytes)) {
            full = through < full ? through : full;
        } else if (through < soonest) {
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
    peer->turn += !group->in_turn || status != KVR_AGAIN;
    return status;
}
