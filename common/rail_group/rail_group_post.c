/* Posting: what becomes of a write. rail_group_choose says which pair it leaves on; writes that
 * follow each other at once stay there for a small batch, because only then does the provider's
 * doorbell ring once for all of them. */
#include "rail_group/rail_group_state.h"

#include <assert.h>
#include <string.h>

#include "base/mutant.h"

/* So often a write asks whether it came: tcp completes it as soon as the kernel has its bytes, and
 * a rail is judged by what the target gets. */
#define ASK_NS         (5 * KVR_MS)
#define AGAIN_FIRST_NS (50 * KVR_US)
#define AGAIN_MAX_NS   (2 * KVR_MS)

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

/* Of the write that ends a batch. */
static inline bool asks(const struct kvr_group *group, const struct group_link *link)
{
    return group->now - link->look.asked_at >= ASK_NS;
}

/* `writes` with `bytes` in all. */
static inline void taken(struct kvr_group *group, struct group_link *link, uint32_t writes,
                         uint64_t bytes)
{
    struct group_rail *rail = link->rail;

    if (link->writes == 0) {
        group_silence_begins(group, link);
        kvr_pace_begin(&link->pace, group->now);
    }
    if (rail->writes == 0)
        kvr_pace_begin(&rail->pace, group->now);
    link->writes += writes;
    link->look.posted += writes;
    link->again.count = 0;
    link->bytes += bytes;
    rail->writes += writes;
    rail->bytes += bytes;
    group->outstanding += writes;
    group_count(&rail->counters.writes, writes);
    group_count(&rail->counters.bytes, bytes);
}

/* The same; more: the batch goes on. */
static void accepted(struct kvr_group *group, struct group_peer *peer, struct group_link *link,
                     uint32_t writes, uint64_t bytes, bool more)
{
    taken(group, link, writes, bytes);
    peer->batch_writes -= writes;
    peer->batch_bytes -= more ? bytes : 0;
    if (!more) {
        peer->batch_link = NULL;
        group_count(&link->rail->counters.batches, 1);
    }
}

static void refused(struct kvr_group *group, struct group_link *link)
{
    struct group_rail *rail = link->rail;
    unsigned shift = link->again.count < 16 ? link->again.count : 16;
    kvr_ns wait = AGAIN_FIRST_NS << shift;

    if (link->again.count++ == 0 && link->writes == 0)
        group_silence_begins(group, link);
    link->again.settled = group_settled(&rail->counters);
    link->again.until = group->now + (wait < AGAIN_MAX_NS ? wait : AGAIN_MAX_NS);
    if (link->again.until < group->timers.retry_at)
        group->timers.retry_at = link->again.until;
    group_count(&rail->counters.again, 1);
}

static inline kvr_status write_on(struct kvr_group *group, const struct group_rail *rail,
                                  struct kvr_fabric_write *write)
{
    kvr_status status = group->ops->write(rail->endpoint, write);

    if (status == KVR_AGAIN && rail->unrung) {
        /* Writes before this one wait for a doorbell that only a write without `more` rings. */
        write->more = false;
        status = group->ops->write(rail->endpoint, write);
    }
    return status;
}

/* Whether the provider takes it at all. */
static inline kvr_status check_write(const struct group_rail *rail,
                                     const struct kvr_fabric_write *write, uint64_t bytes)
{
    if (write->piece_count != 1 &&
        !kvr_fabric_takes(&rail->limits, write->pieces, write->piece_count))
        return KVR_INVALID;
    return bytes <= rail->limits.bytes_max ? KVR_OK : KVR_TOO_LARGE;
}

static inline kvr_status post_flight(struct kvr_group *group, struct group_link *link,
                                     uint64_t token, uint64_t bytes, struct kvr_fabric_write *write)
{
    struct group_flight *flight = flight_take(&group->flights, &write->context);
    struct group_rail *rail = link->rail;
    kvr_status status;

    flight->token = token;
    flight->link = link;
    flight->bytes = bytes;
    flight->posted_at = group->now;
    flight->asks = write->acknowledged;
    status = write_on(group, rail, write);
    if (status == KVR_OK)
        rail->unrung = write->more;
    else
        flight_free(&group->flights, flight);
    return status;
}

/* The last write that was accepted asks, or does not. */
static inline void look_asked(const struct kvr_group *group, struct group_link *link, bool asks)
{
    link->look.unasked = !asks;
    if (asks)
        link->look.asked_at = group->now;
}

/* Not on this link, which now waits or is broken. */
static kvr_status not_taken(struct kvr_group *group, struct group_link *link, kvr_status status)
{
    if (status == KVR_AGAIN) {
        refused(group, link);
        return KVR_AGAIN;
    }
    group_count(&link->rail->counters.failures, 1);
    group_link_break(group, link, status);
    return KVR_RAIL_FAILED;
}

static kvr_status not_accepted(struct kvr_group *group, struct group_peer *peer,
                               struct group_link *link, kvr_status status)
{
    peer->batch_link = NULL;
    return not_taken(group, link, status);
}

/* How long it takes says nothing of how fast the pair is: its bytes are not counted. */
kvr_status group_post_alone(struct kvr_group *group, struct group_link *link,
                            struct kvr_fabric_write *write)
{
    kvr_status status;

    if (link->connection == LINK_UNCONNECTED)
        group_link_connect(group, link);
    status = post_flight(group, link, 0, 0, write);
    if (status != KVR_OK)
        return not_taken(group, link, status);
    look_asked(group, link, write->acknowledged);
    taken(group, link, 1, 0);
    group_count(&link->rail->counters.batches, 1);
    return KVR_OK;
}

/* KVR_AGAIN and KVR_RAIL_FAILED: not on this link. */
static kvr_status post_on(struct kvr_group *group, struct group_peer *peer,
                          const struct kvr_group_post *post, uint64_t bytes)
{
    struct group_link *link = peer->batch_link;
    struct kvr_fabric_piece pieces[KVR_CHUNK_PIECES_MAX];
    struct kvr_fabric_write write = {
        .pieces = pieces,
        .piece_count = post->piece_count,
        .peer = link->handle,
        .immediate = post->immediate,
        .more = post->more && peer->batch_writes > 1 && peer->batch_bytes > bytes &&
                link->again.count == 0,
    };
    kvr_status status;

    for (unsigned i = 0; i < post->piece_count; i++) {
        const struct kvr_group_piece *piece = &post->pieces[i];
        const struct kvr_remote_key *key =
            piece->key != NULL ? piece->key : &piece->remote->keys[link->pair.target_rail];

        pieces[i] = (struct kvr_fabric_piece){
            .local = piece->local->base + piece->local_offset,
            .memory = piece->local->memory[link->pair.rail],
            .remote = key->base + piece->remote_offset,
            .key = key->key,
            .bytes = piece->bytes,
        };
    }
    write.acknowledged = !write.more && asks(group, link);
    KVR_TRY(check_write(link->rail, &write, bytes));
    status = post_flight(group, link, post->token, bytes, &write);
    if (status != KVR_OK)
        return not_accepted(group, peer, link, status);
    look_asked(group, link, write.acknowledged);
    accepted(group, peer, link, 1, bytes, write.more);
    return KVR_OK;
}

/* The batch that the write before this one promised to go on with. Others may have filled the rail
 * meanwhile. */
static bool in_batch(const struct group_peer *peer, const struct kvr_group_post *post)
{
    const struct group_link *link = peer->batch_link;

    return link != NULL && link->state == LINK_USABLE && !link->unknown &&
           !group_link_on_trial(link) && link->rail->writes < link->rail->writes_max &&
           link->rail->bytes < link->rail->bytes_max && group_link_reaches(link, post) &&
           group_link_may(peer, link, post);
}

/* NULL: the peer is unknown. */
static struct group_peer *postable_peer(struct kvr_group *group, uint32_t peer)
{
    return peer < KVR_PEERS_MAX && group->peers[peer].known ? &group->peers[peer] : NULL;
}

/* We were away, and nothing has come from there since. */
static bool must_be_proven(const struct group_peer *peer)
{
    return peer->unconfirmed != 0 && !KVR_MUTANT(post_after_waking);
}

kvr_status kvr_group_post(struct kvr_group *group, const struct kvr_group_post *post,
                          struct kvr_pair *ret_pair)
{
    struct group_peer *peer;
    uint64_t bytes = 0;
    kvr_status status;

    KVR_TRY(check_post(post, &bytes));
    peer = postable_peer(group, post->peer);
    if (peer == NULL)
        return KVR_NO_RAIL;
    if (must_be_proven(peer))
        return KVR_AGAIN;
    /* A link that refuses is not chosen again now, so this ends. */
    for (uint32_t tries = 0; tries <= peer->link_count; tries++) {
        const struct group_link *link;

        KVR_TRY(in_batch(peer, post) ? KVR_OK : group_choose(group, peer, post));
        link = peer->batch_link;
        status = post_on(group, peer, post, bytes);
        if (status == KVR_OK)
            *ret_pair = link->pair;
        if (status != KVR_AGAIN && status != KVR_RAIL_FAILED)
            return status;
    }
    return KVR_AGAIN;
}

/* ---- chunk after chunk of a plan ------------------------------------------------------------- */

/* Two regions as one link sees them: the pieces of a plan mostly lie in the same two. */
struct lane {
    struct group_link *link;
    uint32_t source_layout, target_layout;
    uint8_t *base;
    struct kvr_memory *memory;
    uint64_t remote_base, key;
    uint64_t local_bytes, remote_bytes; /* of the regions */
    uint64_t bytes_max;                 /* of a piece: the smaller one */
};

static inline const struct kvr_region *local_of(const struct kvr_group_run *run, uint32_t layout)
{
    return run->direct_copy ? run->locals[layout]->moved : run->locals[layout];
}

/* False: a region is not registered for this pair. */
static bool lane_enter(struct lane *lane, const struct kvr_group_run *run,
                       const struct kvr_plan_piece *piece)
{
    const struct kvr_region *local = local_of(run, piece->source_layout);
    const struct kvr_remote_region *remote = &run->remotes[piece->target_layout];
    const struct kvr_pair *pair = &lane->link->pair;
    const struct kvr_remote_key *key;

    if (pair->rail >= local->rail_count || pair->target_rail >= remote->rail_count)
        return false;
    lane->source_layout = piece->source_layout;
    lane->target_layout = piece->target_layout;
    lane->base = local->base;
    lane->memory = local->memory[pair->rail];
    key = run->keys != NULL ? &run->keys[piece->target_layout] : &remote->keys[pair->target_rail];
    lane->remote_base = key->base;
    lane->key = key->key;
    lane->local_bytes = local->layout.bytes;
    lane->remote_bytes = remote->layout.bytes;
    lane->bytes_max =
        lane->local_bytes < lane->remote_bytes ? lane->local_bytes : lane->remote_bytes;
    return true;
}

/* False: it lies outside its regions, or they cannot be reached. */
static inline bool lane_place(struct lane *lane, const struct kvr_group_run *run,
                              const struct kvr_plan_piece *piece,
                              struct kvr_fabric_piece *ret_piece)
{
    if ((piece->source_layout != lane->source_layout ||
         piece->target_layout != lane->target_layout) &&
        !lane_enter(lane, run, piece))
        return false;
    if (piece->bytes > lane->bytes_max || piece->source_offset > lane->local_bytes - piece->bytes ||
        piece->target_offset > lane->remote_bytes - piece->bytes)
        return false;
    *ret_piece = (struct kvr_fabric_piece){
        .local = lane->base + piece->source_offset,
        .memory = lane->memory,
        .remote = lane->remote_base + piece->target_offset,
        .key = lane->key,
        .bytes = piece->bytes,
    };
    return true;
}

/* The chunk at the cursor. False: it cannot be posted here. */
static inline bool lane_chunk(struct lane *lane, const struct kvr_group_run *run,
                              struct kvr_plan_cursor *cursor, struct kvr_fabric_piece *pieces,
                              struct kvr_fabric_write *write, uint64_t *ret_bytes)
{
    struct kvr_plan_piece single;
    struct kvr_plan_chunk chunk;

    if (kvr_plan_next_single(cursor, &single)) {
        write->piece_count = 1;
        *ret_bytes = single.bytes;
        return lane_place(lane, run, &single, &pieces[0]);
    }
    kvr_plan_next(cursor, &chunk);
    write->piece_count = chunk.piece_count;
    *ret_bytes = 0;
    for (uint32_t i = 0; i < chunk.piece_count; i++) {
        if (!lane_place(lane, run, &chunk.pieces[i], &pieces[i]))
            return false;
        *ret_bytes += pieces[i].bytes;
    }
    return true;
}

/* Until the batch is full. On any other status than KVR_OK the cursor is one too far. */
static kvr_status run_on(struct kvr_group *group, struct group_peer *peer,
                         const struct kvr_group_run *run, struct kvr_plan_cursor *cursor,
                         uint32_t *ret_posted)
{
    struct lane lane = {
        .link = peer->batch_link, .source_layout = UINT32_MAX, .target_layout = UINT32_MAX};
    struct kvr_fabric_piece pieces[KVR_CHUNK_PIECES_MAX];
    struct kvr_fabric_write write = {.pieces = pieces, .peer = lane.link->handle, .more = true};
    uint32_t left = lane.link->again.count > 0 ? 1 : peer->batch_writes, posted;
    uint64_t posted_bytes = 0, bytes, bytes_most = peer->batch_bytes;
    kvr_status status = KVR_OK, tried = KVR_OK; /* tried: what the provider said */
    kvr_ns began = group->clock != NULL ? group->clock() : 0;

    if (left > run->count)
        left = run->count;
    for (write.immediate = run->immediate; write.more; write.immediate++) {
        status = lane_chunk(&lane, run, cursor, pieces, &write, &bytes)
                     ? check_write(lane.link->rail, &write, bytes)
                     : KVR_INVALID;
        if (status != KVR_OK)
            break;
        posted_bytes += bytes;
        write.more = (--left > 0) & (posted_bytes < bytes_most);
        write.acknowledged = !write.more && asks(group, lane.link);
        tried = post_flight(group, lane.link, run->token, bytes, &write);
        if (tried != KVR_OK) {
            posted_bytes -= bytes;
            break;
        }
    }
    posted = (uint32_t)(write.immediate - run->immediate);
    *ret_posted = posted;
    if (group->clock != NULL)
        group_count(&lane.link->rail->counters.post_ns, group->clock() - began);
    if (posted > 0) {
        /* A write that ended the batch was the last, unless the provider refused it. */
        look_asked(group, lane.link, tried == KVR_OK && write.acknowledged);
        accepted(group, peer, lane.link, posted, posted_bytes, false);
        if (run->ret_bytes != NULL)
            *run->ret_bytes = posted_bytes;
    }
    return tried == KVR_OK ? status : not_accepted(group, peer, lane.link, tried);
}

/* The first chunk as a post, for the choice of a pair. */
static void first_of(const struct kvr_group_run *run, const struct kvr_plan_cursor *cursor,
                     struct kvr_group_piece *pieces, struct kvr_group_post *ret_post)
{
    struct kvr_plan_cursor first = *cursor;
    struct kvr_plan_chunk chunk;

    kvr_plan_next(&first, &chunk);
    for (uint32_t i = 0; i < chunk.piece_count; i++)
        pieces[i] = (struct kvr_group_piece){
            .local = local_of(run, chunk.pieces[i].source_layout),
            .remote = &run->remotes[chunk.pieces[i].target_layout],
            .bytes = chunk.pieces[i].bytes,
        };
    *ret_post = (struct kvr_group_post){.peer = run->peer,
                                        .pieces = pieces,
                                        .piece_count = chunk.piece_count,
                                        .rails = run->rails,
                                        .filter = run->filter};
}

kvr_status kvr_group_post_run(struct kvr_group *group, const struct kvr_group_run *run,
                              struct kvr_plan_cursor *cursor, uint32_t *ret_posted,
                              struct kvr_pair *ret_pair)
{
    struct kvr_group_piece pieces[KVR_CHUNK_PIECES_MAX];
    struct kvr_group_post first;
    struct group_peer *peer = postable_peer(group, run->peer);
    uint32_t at = kvr_plan_cursor_chunk(cursor);
    kvr_status status = KVR_AGAIN;

    *ret_posted = 0;
    if (peer == NULL)
        return KVR_NO_RAIL;
    if (must_be_proven(peer))
        return KVR_AGAIN;
    first_of(run, cursor, pieces, &first);
    for (uint32_t tries = 0; tries <= peer->link_count && *ret_posted == 0; tries++) {
        const struct group_link *link;

        KVR_TRY(group_choose(group, peer, &first));
        link = peer->batch_link;
        status = run_on(group, peer, run, cursor, ret_posted);
        *ret_pair = link->pair;
        if (status != KVR_OK)
            kvr_plan_seek(cursor->plan, at + *ret_posted, cursor);
        if (status != KVR_OK && status != KVR_AGAIN && status != KVR_RAIL_FAILED)
            break;
    }
    return *ret_posted > 0 ? KVR_OK : status;
}
