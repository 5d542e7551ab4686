/* Turns chunks of a plan into writes: from the pages or from gathered copies of them, into the
 * target's pages or its staging memory. */
#include <assert.h>

#include "kv/chunk_digest.h"
#include "prefill-agent/push_state.h"

static bool is_pair(const struct push_pair *known, const struct kvr_pair *pair)
{
    return !known->retired && known->pair.rail == pair->rail &&
           known->pair.target_rail == pair->target_rail && known->pair.epoch == pair->epoch;
}

/* Index of the pair in the job's table, which has room for one more. Writes of a batch leave over
 * the same pair, so the last one is tried first. */
static uint32_t pair_index(struct push_job *job, const struct kvr_pair *pair)
{
    if (job->posts.pair_last < job->posts.pair_count &&
        is_pair(&job->posts.pairs[job->posts.pair_last], pair))
        return job->posts.pair_last;
    for (job->posts.pair_last = 0; job->posts.pair_last < job->posts.pair_count;
         job->posts.pair_last++)
        if (is_pair(&job->posts.pairs[job->posts.pair_last], pair))
            return job->posts.pair_last;
    assert(job->posts.pair_count < KVR_EPOCHS_PER_TRANSFER);
    job->posts.pairs[job->posts.pair_count++] = (struct push_pair){.pair = *pair};
    return job->posts.pair_last;
}

static bool pair_known(const void *self, const struct kvr_pair *pair)
{
    const struct push_job *job = self;

    for (uint32_t i = 0; i < job->posts.pair_count; i++)
        if (is_pair(&job->posts.pairs[i], pair))
            return true;
    return false;
}

/* Each replaced endpoint makes new pairs, and a transfer's table of pairs is bounded. When it is
 * full the job goes on over the pairs that it knows. */
static struct kvr_pair_filter pairs_of(const struct push_job *job)
{
    bool full = job->posts.pair_count == KVR_EPOCHS_PER_TRANSFER;

    return (struct kvr_pair_filter){.may = full ? pair_known : NULL, .self = job};
}

/* Hashes chunks when they are posted first: a retransmit must carry the same bytes. gathered: NULL,
 * or the gathered bytes of the one chunk. */
static void digest_chunks(const struct push_job *job, struct push_segment *segment, uint32_t chunk,
                          uint32_t count, const uint8_t *gathered)
{
    for (uint32_t end = chunk + count; job->digest != KVR_DIGEST_OFF && chunk < end; chunk++) {
        struct kvr_plan_cursor cursor;
        uint64_t digest = 0;

        if (segment->where[chunk] != PUSH_NOWHERE ||
            !kvr_digest_covers(job->digest, job->transfer, segment->chunk_first + chunk))
            continue;
        kvr_plan_seek(segment->plan, chunk, &cursor);
        for (uint32_t left = kvr_plan_cursor_pieces(&cursor); left > 0; left--) {
            const uint8_t *bytes = gathered;
            struct kvr_plan_piece piece;

            kvr_plan_next_piece(&cursor, &piece);
            if (gathered == NULL)
                bytes = job->source->locals[piece.source_layout]->base + piece.source_offset;
            else
                gathered += piece.bytes;
            digest = kvr_chunk_digest(bytes, piece.bytes, digest);
        }
        segment->digests[chunk] = digest;
    }
}

/* The chunks before chunk_end have been posted. A chunk that is posted again ends no layer. */
static void layers_posted(const struct push *push, const struct push_job *job,
                          struct push_segment *segment, uint32_t chunk_end)
{
    const struct kvr_plan *plan = segment->plan;

    while (chunk_end >= segment->layer_end && segment->layers_posted < plan->layer_count) {
        struct kvr_chunk_run chunks;
        uint32_t layer = kvr_plan_layer(plan, segment->layers_posted, &chunks);

        segment->layer_end = chunks.chunk_first + chunks.chunk_count;
        if (chunk_end < segment->layer_end)
            return;
        kvr_span_ends(job->posts.spans, layer, push->now);
        segment->layers_posted++;
    }
}

/* Records accepted posts: `count` chunks with `bytes` from `chunk` on went over the pair. */
static void posted(struct push *push, struct push_job *job, struct push_segment *segment,
                   uint32_t chunk, uint32_t count, uint64_t bytes, const uint8_t *gathered,
                   const struct kvr_pair *pair)
{
    uint32_t where = pair_index(job, pair);

    digest_chunks(job, segment, chunk, count, gathered);
    job->posts.pairs[where].count += count;
    job->posts.pairs[where].bytes += bytes;
    job->posts.rails |= (uint64_t)1 << pair->rail;
    memset(&segment->where[chunk], (int)where, count);
    job->posts.outstanding += count;
    if (job->posts.accepted == 0)
        push_tell(push, job, PUSH_MESSAGE(PUSH_FIRST_POST, .ready_at = job->ready_first));
    job->posts.accepted += count;
    if (job->posts.spans != NULL)
        layers_posted(push, job, segment, chunk + count);
}

static uint64_t immediate_of(const struct push_job *job, uint32_t number)
{
    return (uint64_t)job->tag << 32 | (uint32_t)job->slots[number >> KVR_SLOT_CHUNK_BITS] << 16 |
           number % KVR_SLOT_CHUNKS;
}

static uint64_t bytes_of(const struct kvr_group_post *post)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < post->piece_count; i++)
        bytes += post->pieces[i].bytes;
    return bytes;
}

static bool follows(const struct kvr_group_piece *piece, const struct kvr_group_piece *before)
{
    return piece->local == before->local && piece->remote == before->remote &&
           piece->local_offset == before->local_offset + before->bytes &&
           piece->remote_offset == before->remote_offset + before->bytes;
}

/* The pieces of a chunk where one end is staging memory: there they are contiguous, and pieces that
 * are contiguous at both ends become one. The plan's limits bound the number of the rest. */
static uint32_t pieces_place(const struct push_job *job, const struct push_segment *segment,
                             const struct push_write *write, struct kvr_group_piece *ret_pieces)
{
    struct kvr_plan_cursor cursor;
    uint32_t count = 0;
    uint64_t at = 0;

    kvr_plan_seek(segment->plan, write->chunk, &cursor);
    for (uint32_t left = kvr_plan_cursor_pieces(&cursor); left > 0; left--) {
        struct kvr_group_piece placed;
        struct kvr_plan_piece piece;

        kvr_plan_next_piece(&cursor, &piece);
        placed = (struct kvr_group_piece){
            .local = job->source->locals[piece.source_layout],
            .remote = &job->target->remotes[piece.target_layout],
            .key = job->keys != NULL ? &job->keys[piece.target_layout] : NULL,
            .local_offset = piece.source_offset,
            .remote_offset = piece.target_offset,
            .bytes = piece.bytes,
        };
        if (write->gathered != NULL) {
            placed.local = job->stage->stage->pinned;
            placed.local_offset = write->gathered->offset + at;
        }
        if (segment->positions != NULL) {
            placed.remote = &job->quota.memory;
            placed.key = job->keys;
            placed.remote_offset =
                job->quota.offset + segment->positions[write->chunk] % job->quota.bytes + at;
        }
        at += piece.bytes;
        if (count > 0 && follows(&placed, &ret_pieces[count - 1])) {
            ret_pieces[count - 1].bytes += piece.bytes;
            continue;
        }
        assert(count < KVR_CHUNK_PIECES_MAX);
        ret_pieces[count++] = placed;
    }
    return count;
}

kvr_status push_post_one(struct push *push, struct push_job *job, struct push_segment *segment,
                         const struct push_write *write, struct kvr_pair *ret_pair)
{
    struct kvr_group_piece pieces[KVR_CHUNK_PIECES_MAX];
    struct kvr_group_post post = {
        .peer = job->peer,
        .immediate = immediate_of(job, segment->chunk_first + write->chunk),
        .pieces = pieces,
        .token = write->token,
        .rails = job->target_rails,
        .filter = pairs_of(job),
        .more = write->more,
    };
    kvr_status status;

    if (job->target_rails == 0)
        return KVR_NO_RAIL;
    post.piece_count = pieces_place(job, segment, write, pieces);
    status = kvr_group_post(push->group, &post, ret_pair);
    if (status == KVR_OK)
        posted(push, job, segment, write->chunk, 1, bytes_of(&post),
               write->gathered != NULL ? job->stage->stage->base + write->gathered->offset : NULL,
               ret_pair);
    return status;
}

/* Posts from the pages into the target's staging memory, a write for each chunk. */
static kvr_status post_to_quota(struct push *push, struct push_job *job,
                                struct push_segment *segment, struct kvr_plan_cursor *cursor,
                                uint32_t count, uint32_t *ret_count)
{
    uint32_t chunk = kvr_plan_cursor_chunk(cursor), posted_count = 0;
    kvr_status status = KVR_OK;

    for (; status == KVR_OK && posted_count < count; posted_count += status == KVR_OK) {
        struct push_write write = {
            .chunk = chunk + posted_count, .token = job->index, .more = posted_count + 1 < count};
        struct kvr_pair pair;

        status = push_post_one(push, job, segment, &write, &pair);
    }
    kvr_plan_seek(segment->plan, chunk + posted_count, cursor);
    *ret_count = posted_count;
    return posted_count > 0 ? KVR_OK : status;
}

/* Posts up to `count` chunks from the cursor on over one pair; *ret_count with KVR_OK. */
static kvr_status post_chunks(struct push *push, struct push_job *job, struct push_segment *segment,
                              struct kvr_plan_cursor *cursor, uint32_t count, uint32_t *ret_count)
{
    uint32_t chunk = kvr_plan_cursor_chunk(cursor), number = segment->chunk_first + chunk;
    uint64_t bytes = 0;
    struct kvr_group_run run = {
        .peer = job->peer,
        .immediate = immediate_of(job, number),
        .count = count,
        .token = job->index,
        .rails = job->target_rails,
        .filter = pairs_of(job),
        .locals = job->source->locals,
        .direct_copy = job->direct_copy,
        .remotes = job->target->remotes,
        .keys = job->keys,
        .ret_bytes = &bytes,
    };
    struct kvr_pair pair;
    kvr_status status;

    if (job->target_rails == 0)
        return KVR_NO_RAIL;
    if (run.count > KVR_SLOT_CHUNKS - number % KVR_SLOT_CHUNKS)
        run.count = KVR_SLOT_CHUNKS - number % KVR_SLOT_CHUNKS; /* the rest is another slot's */
    status = kvr_group_post_run(push->group, &run, cursor, ret_count, &pair);
    if (status == KVR_OK)
        posted(push, job, segment, chunk, *ret_count, bytes, NULL, &pair);
    return status;
}

/* Of the tenant's share. Each chunk counts as the mean of its segment. */
static void share_take(struct push *push, const struct push_job *job,
                       const struct push_segment *segment, uint32_t count)
{
    uint64_t bytes = segment->plan->bytes * count / segment->plan->chunk_count;
    _Atomic uint64_t *all = &push->posted[job->turn.tenant];

    atomic_store_explicit(all, atomic_load_explicit(all, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
    if (push->sharing || push->on_loan)
        push_shares_spend(&push->shares, job->turn.tenant, bytes);
}

/* Posts them, or has them gathered: then they are posted a little later. */
kvr_status push_send(struct push *push, struct push_job *job, struct push_segment *segment,
                     struct kvr_plan_cursor *cursor, uint32_t count, bool again,
                     uint32_t *ret_count)
{
    kvr_status status;

    if (job->stage != NULL)
        status = push_stage_gather(push, job, segment, cursor, count, again, ret_count);
    else if (segment->positions != NULL)
        status = post_to_quota(push, job, segment, cursor, count, ret_count);
    else
        status = post_chunks(push, job, segment, cursor, count, ret_count);
    if (status != KVR_OK)
        return status;
    share_take(push, job, segment, *ret_count);
    if (again && job->stage == NULL)
        push_count_repeated(job, *ret_count);
    return KVR_OK;
}
