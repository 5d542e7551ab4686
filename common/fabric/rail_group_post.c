/* Posting: which pair a write leaves on, and what becomes of it.
 *
 * A write goes to the pair whose rail has the fewest bytes in flight, so that a slow rail takes
 * less. Writes that follow each other at once stay on one rail for a small batch, because only
 * there does the provider's doorbell ring once for all of them.
 *
 * Room is counted a rail and a link. Where several peers share a rail, one that does not answer
 * must not hold all of it: a link may hold at most three times what is still free. A single peer so
 * gets three quarters of the window, and there is always a rest for others. */
#include "fabric/rail_group_state.h"

#include <assert.h>
#include <string.h>

#include "base/mutant.h"

#define BATCH_WRITES   16
#define BATCH_BYTES    (256u << 10)
#define POLL_MAX       64
#define FREE_SHARE     3 /* of what is free, a link may hold this many times as much */
/* After AGAIN a link waits for a completion of its rail. A pair whose peer is dead answers AGAIN
 * for ever while others complete: after a few in a row only time counts. */
#define AGAIN_QUICK    4
#define AGAIN_FIRST_NS (50 * KVR_US)
#define AGAIN_MAX_NS   (2 * KVR_MS)
#define READ_EMPTY_MAX (1u << 20)

bool group_link_waits(const struct kvr_group *group, const struct group_link *link)
{
    const struct group_rail *rail = &group->rails[link->pair.rail];

    if (link->again_count == 0 || group->now >= link->again_until)
        return false;
    return link->again_count > AGAIN_QUICK || rail->settled == link->again_settled;
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

/* Room for one more write, if `writes` and `bytes` more were in flight than are now. */
static bool has_room(const struct kvr_group *group, const struct group_link *link, uint32_t writes,
                     uint64_t bytes)
{
    const struct group_rail *rail = &group->rails[link->pair.rail];
    uint64_t rail_writes = (uint64_t)rail->writes + writes, rail_bytes = rail->bytes + bytes;

    if (rail_writes >= rail->writes_max || rail_bytes >= group->window_bytes)
        return false;
    return link->writes + writes < FREE_SHARE * (rail->writes_max - rail_writes) &&
           link->bytes + bytes < FREE_SHARE * (group->window_bytes - rail_bytes);
}

/* Every piece has a local registration on our rail and a key on the peer's. */
static bool reaches(const struct group_link *link, const struct kvr_group_post *post)
{
    for (unsigned i = 0; i < post->piece_count; i++) {
        const struct kvr_group_piece *piece = &post->pieces[i];

        if (link->pair.rail >= piece->local->rail_count ||
            link->pair.target_rail >= piece->remote->rail_count)
            return false;
    }
    return true;
}

static kvr_status check_post(const struct kvr_group_post *post, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;

    if (post->piece_count == 0 || post->piece_count > KVR_CHUNK_PIECES_MAX)
        return KVR_INVALID;
    for (unsigned i = 0; i < post->piece_count; i++) {
        const struct kvr_group_piece *piece = &post->pieces[i];
        uint64_t local_bytes = piece->local->layout.bytes;
        uint64_t remote_bytes = piece->remote->layout.bytes;

        if (piece->bytes > local_bytes || piece->local_offset > local_bytes - piece->bytes ||
            piece->bytes > remote_bytes || piece->remote_offset > remote_bytes - piece->bytes)
            return KVR_INVALID;
        bytes += piece->bytes;
    }
    *ret_bytes = bytes;
    return KVR_OK;
}

/* The pair for the next write. KVR_AGAIN: those that are usable have no room. */
static kvr_status choose(struct kvr_group *group, struct group_peer *peer,
                         const struct kvr_group_post *post, uint64_t *ret_id)
{
    uint64_t least = UINT64_MAX;
    kvr_status status = KVR_NO_RAIL;
    const struct group_link *same = kvr_pool_get(&group->links, peer->batch_link);

    if (same != NULL && same->state == LINK_USABLE && !must_wait(group, same) &&
        has_room(group, same, 0, 0) && reaches(same, post)) {
        *ret_id = peer->batch_link;
        return KVR_OK;
    }
    peer->batch_link = 0;
    for (uint32_t i = 0; i < peer->link_count; i++) {
        uint32_t k = (peer->turn + i) % peer->link_count;
        const struct group_link *link = kvr_pool_get(&group->links, peer->links[k]);
        const struct group_rail *rail = &group->rails[link->pair.rail];

        if (link->state != LINK_USABLE || !reaches(link, post))
            continue;
        if (status == KVR_NO_RAIL)
            status = KVR_AGAIN;
        if (must_wait(group, link) || !has_room(group, link, 0, 0) || rail->bytes >= least)
            continue;
        least = rail->bytes;
        *ret_id = peer->links[k];
        status = KVR_OK;
    }
    peer->turn++;
    return status;
}

/* Whether the provider may be told that another write follows on this link at once. */
static bool batch_goes_on(struct kvr_group *group, struct group_peer *peer, uint64_t link_id,
                          const struct group_link *link, const struct kvr_group_post *post,
                          uint64_t bytes)
{
    if (peer->batch_link != link_id) {
        peer->batch_link = link_id;
        peer->batch_writes = 0;
        peer->batch_bytes = 0;
    }
    if (post->more && link->again_count == 0 && peer->batch_writes + 1 < BATCH_WRITES &&
        peer->batch_bytes + bytes < BATCH_BYTES && has_room(group, link, 1, bytes))
        return true;
    return false;
}

static void batch_count(struct group_peer *peer, bool more, uint64_t bytes)
{
    peer->batch_writes++;
    peer->batch_bytes += bytes;
    if (!more)
        peer->batch_link = 0;
}

/* From here on its silence counts. */
static void progress(struct kvr_group *group, struct group_link *link)
{
    kvr_ns silent_at = group->now + group->silence_ns;

    link->progress_at = group->now;
    if (group->silence_ns > 0 && silent_at < group->silence_at)
        group->silence_at = silent_at;
}

static void accepted(struct kvr_group *group, struct group_link *link, uint64_t bytes, bool more)
{
    struct group_rail *rail = &group->rails[link->pair.rail];

    if (link->writes++ == 0)
        progress(group, link);
    link->again_count = 0;
    link->bytes += bytes;
    rail->writes++;
    rail->bytes += bytes;
    rail->unrung = more;
    group->outstanding++;
    group_count(&rail->counters.writes, 1);
    group_count(&rail->counters.bytes, bytes);
    group_count(&rail->counters.in_flight, 1);
}

static void refused(struct kvr_group *group, struct group_link *link)
{
    struct group_rail *rail = &group->rails[link->pair.rail];
    unsigned shift = link->again_count < 16 ? link->again_count : 16;
    kvr_ns wait = AGAIN_FIRST_NS << shift;

    if (link->again_count++ == 0 && link->writes == 0)
        progress(group, link);
    link->again_settled = rail->settled;
    link->again_until = group->now + (wait < AGAIN_MAX_NS ? wait : AGAIN_MAX_NS);
    if (link->again_until < group->retry_at)
        group->retry_at = link->again_until;
    group_count(&rail->counters.again, 1);
}

/* Where the pieces lie for this pair. */
static void place_pieces(const struct group_link *link, const struct kvr_group_post *post,
                         struct kvr_fabric_piece *ret_pieces)
{
    for (unsigned i = 0; i < post->piece_count; i++) {
        const struct kvr_group_piece *piece = &post->pieces[i];
        const struct kvr_remote_key *key = &piece->remote->keys[link->pair.target_rail];

        ret_pieces[i] = (struct kvr_fabric_piece){
            .local = piece->local->base + piece->local_offset,
            .memory = piece->local->memory[link->pair.rail],
            .remote = key->base + piece->remote_offset,
            .key = key->key,
            .bytes = piece->bytes,
        };
    }
}

static kvr_status write_on(struct kvr_group *group, struct group_link *link,
                           const struct kvr_group_post *post,
                           const struct kvr_fabric_piece *pieces, uint64_t context, bool *more)
{
    struct group_rail *rail = &group->rails[link->pair.rail];
    struct kvr_fabric_write write = {
        .pieces = pieces,
        .piece_count = post->piece_count,
        .peer = link->handle,
        .immediate = post->immediate,
        .context = context,
        .more = *more,
    };
    kvr_status status = group->ops->write(rail->endpoint, &write);

    if (status == KVR_AGAIN && rail->unrung) {
        /* Writes before this one wait for a doorbell that only a write without `more` rings. */
        write.more = *more = false;
        status = group->ops->write(rail->endpoint, &write);
    }
    return status;
}

/* KVR_AGAIN and KVR_RAIL_FAILED: not on this link, which now waits or is broken. */
static kvr_status post_on(struct kvr_group *group, struct group_peer *peer, uint64_t link_id,
                          const struct kvr_group_post *post, uint64_t bytes)
{
    struct group_link *link = kvr_pool_get(&group->links, link_id);
    struct group_rail *rail = &group->rails[link->pair.rail];
    bool more = batch_goes_on(group, peer, link_id, link, post, bytes);
    struct kvr_fabric_piece pieces[KVR_CHUNK_PIECES_MAX];
    struct group_flight *flight;
    uint64_t context;
    kvr_status status;

    place_pieces(link, post, pieces);
    if (!kvr_fabric_takes(&rail->limits, pieces, post->piece_count))
        return KVR_INVALID;
    if (bytes > rail->limits.bytes_max)
        return KVR_TOO_LARGE;
    flight = kvr_pool_acquire(&group->flights, &context);
    assert(flight != NULL); /* the pool holds the windows of all rails */
    *flight = (struct group_flight){
        .token = post->token,
        .link = link_id,
        .pair = link->pair,
        .rail_epoch = rail->address.epoch,
        .bytes = bytes,
    };
    status = write_on(group, link, post, pieces, context, &more);
    if (status == KVR_OK) {
        accepted(group, link, bytes, more);
        batch_count(peer, more, bytes);
        return KVR_OK;
    }
    kvr_pool_release(&group->flights, context);
    peer->batch_link = 0;
    if (status == KVR_AGAIN) {
        refused(group, link);
        return KVR_AGAIN;
    }
    group_count(&rail->counters.failures, 1);
    group_link_break(group, link, status);
    return KVR_RAIL_FAILED;
}

kvr_status kvr_group_post(struct kvr_group *group, const struct kvr_group_post *post,
                          struct kvr_pair *ret_pair)
{
    struct group_peer *peer;
    uint64_t bytes = 0, link_id = 0;
    kvr_status status = check_post(post, &bytes);

    if (status != KVR_OK)
        return status;
    if (post->peer >= KVR_PEERS_MAX || !group->peers[post->peer].known)
        return KVR_NO_RAIL;
    peer = &group->peers[post->peer];
    if (peer->unproven != 0 && !KVR_MUTANT(post_after_waking))
        return KVR_AGAIN;
    /* A link that refuses is not chosen again now, so this ends. */
    for (uint32_t tries = 0; tries <= peer->link_count; tries++) {
        status = choose(group, peer, post, &link_id);
        if (status != KVR_OK)
            return status;
        status = post_on(group, peer, link_id, post, bytes);
        if (status == KVR_OK)
            *ret_pair = ((struct group_link *)kvr_pool_get(&group->links, link_id))->pair;
        if (status != KVR_AGAIN && status != KVR_RAIL_FAILED)
            return status;
    }
    return KVR_AGAIN;
}

/* Takes a flight out of every count and tells the user: its one `written`. */
static void settle(struct kvr_group *group, uint64_t id, kvr_status status)
{
    struct group_flight flight = *(struct group_flight *)kvr_pool_get(&group->flights, id);
    struct group_rail *rail = &group->rails[flight.pair.rail];
    struct group_link *link = kvr_pool_get(&group->links, flight.link);

    kvr_pool_release(&group->flights, id);
    assert(link != NULL && link->writes > 0 && rail->writes > 0);
    link->writes--;
    link->bytes -= flight.bytes;
    link->progress_at = group->now;
    link->again_count = 0;
    rail->writes--;
    rail->bytes -= flight.bytes;
    rail->settled++;
    group->outstanding--;
    atomic_fetch_sub_explicit(&rail->counters.in_flight, 1, memory_order_relaxed);
    group_link_settled(group, flight.link);
    group->user.written(group->user.self, group->now, flight.token, &flight.pair, status);
}

static void failed(struct kvr_group *group, uint32_t rail_index, uint64_t id,
                   const struct kvr_completion *completion)
{
    const struct group_flight *flight = kvr_pool_get(&group->flights, id);
    struct group_link *link = kvr_pool_get(&group->links, flight->link);

    group_count(&group->rails[rail_index].counters.failures, 1);
    if (link->state == LINK_RETIRED) {
        /* The peer had replaced its endpoint or is gone: no failure of a rail. */
        settle(group, id, KVR_EPOCH_ENDED);
        return;
    }
    group_link_break(group, link, completion->status);
    settle(group, id, KVR_RAIL_FAILED);
}

/* An error that belongs to no write of ours: something of a peer's may be lost here. */
static void rail_error(struct kvr_group *group, uint32_t rail_index, kvr_status status)
{
    struct group_rail *rail = &group->rails[rail_index];
    struct kvr_group_message message = {
        .kind = KVR_GROUP_RAIL_ERROR,
        .index = rail_index,
        .a = rail->address.epoch,
        .status = status,
    };

    group_count(&rail->counters.failures, 1);
    if (rail->error_told)
        return;
    rail->error_told = true;
    kvr_group_tell(group, &message);
}

static void complete(struct kvr_group *group, uint32_t rail_index,
                     const struct kvr_completion *completion)
{
    struct group_rail *rail = &group->rails[rail_index];
    const struct group_flight *flight;

    if (completion->kind == KVR_COMPLETION_ARRIVED) {
        group_count(&rail->counters.arrivals, 1);
        group->user.arrived(group->user.self, group->now, rail_index, rail->address.epoch,
                            completion->immediate);
        return;
    }
    if (!completion->has_context) {
        rail_error(group, rail_index, completion->status);
        return;
    }
    flight = kvr_pool_get(&group->flights, completion->context);
    if (flight == NULL || flight->pair.rail != rail_index ||
        flight->rail_epoch != rail->address.epoch) {
        group_count(&rail->counters.stale, 1);
        return;
    }
    if (completion->kind == KVR_COMPLETION_FAILED)
        failed(group, rail_index, completion->context, completion);
    else
        settle(group, completion->context, KVR_OK);
}

bool group_poll(struct kvr_group *group, uint32_t rail)
{
    struct kvr_completion completions[POLL_MAX];
    unsigned count;

    if (group->rails[rail].endpoint == NULL)
        return false;
    count = group->ops->poll(group->rails[rail].endpoint, completions, POLL_MAX);
    for (unsigned i = 0; i < count; i++)
        complete(group, rail, &completions[i]);
    return count > 0;
}

/* Of an endpoint that is stopped. Writes that completed before it stopped are told as such; what
 * failed because it stopped ended with its epoch. */
void group_read_empty(struct kvr_group *group, uint32_t rail, struct kvr_endpoint *stopped)
{
    struct kvr_completion completions[POLL_MAX];
    unsigned count = POLL_MAX;

    for (uint32_t total = 0; count > 0 && total < READ_EMPTY_MAX; total += count) {
        count = group->ops->poll(stopped, completions, POLL_MAX);
        for (unsigned i = 0; i < count; i++) {
            if (completions[i].kind != KVR_COMPLETION_FAILED)
                complete(group, rail, &completions[i]);
        }
    }
}

void group_settle_rail(struct kvr_group *group, uint32_t rail)
{
    for (uint32_t i = 0; i < group->flights.count; i++) {
        uint64_t id;
        const struct group_flight *flight = kvr_pool_at(&group->flights, i, &id);

        if (flight != NULL && flight->pair.rail == rail)
            settle(group, id, KVR_EPOCH_ENDED);
    }
}
