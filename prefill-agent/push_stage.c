/* Gathering: pages that the cards cannot read, or only in fragments, are copied into the stage's
 * ring, many pieces with one copy, and posted from there. A part of the ring is free again when its
 * write has completed. While one copy runs, the cards send what earlier copies brought. */
#include <assert.h>

#include "prefill-agent/push_state.h"

#define GATHER_CHUNKS 64u /* of one copy */
#define AGAIN_MAX     32u /* after this many refused posts the rest waits for the next step */

static uint64_t token_of(const struct push_job *job, uint32_t part)
{
    return (uint64_t)(part + 1) << 32 | job->index;
}

struct push_stage *push_stage_of(struct push *push, struct kvr_stage *stage)
{
    struct push_stage *state;

    if (stage == NULL)
        return NULL;
    assert(stage->index < KVR_STAGES_MAX);
    state = stage->user;
    if (state->stage == NULL) {
        state->stage = stage;
        kvr_staging_init(&state->ring, stage->bytes);
        push->stages[stage->index] = state;
    }
    return state;
}

/* ---- gathering ------------------------------------------------------------------------------ */

static void part_free(struct push_stage *stage, uint32_t part)
{
    stage->parts[part].job = NULL;
    kvr_staging_give(&stage->ring, part);
}

struct gather {
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
    uint32_t piece_count, part_first, part_count;
    uint64_t bytes;
};

/* Adds the chunk at the cursor to the copy and moves the cursor on. False: the chunk does not fit
 * into this copy, or the ring has no room. */
static bool gather_add(struct push_stage *stage, struct push_job *job, struct push_segment *segment,
                       struct kvr_plan_cursor *cursor, struct gather *gather)
{
    uint32_t number = kvr_plan_cursor_chunk(cursor), left = kvr_plan_cursor_pieces(cursor), part;
    uint64_t bytes_max = stage->stage->device->copy_bytes;
    uint64_t offset;

    if (gather->piece_count + left > KVR_DEVICE_PIECES_MAX ||
        (bytes_max != 0 && gather->bytes >= bytes_max) ||
        !kvr_staging_take(&stage->ring, kvr_plan_chunk_bytes(segment->plan, number), &part,
                          &offset))
        return false;
    stage->parts[part] =
        (struct push_part){.job = job, .segment = segment, .chunk = number, .offset = offset};
    if (gather->part_count++ == 0)
        gather->part_first = part;
    for (; left > 0; left--) {
        struct kvr_plan_piece piece;

        kvr_plan_next_piece(cursor, &piece);
        gather->pieces[gather->piece_count++] = (struct kvr_device_piece){
            .memory = job->source->locals[piece.source_layout]->pages,
            .offset = piece.source_offset,
            .host = stage->stage->base + offset,
            .bytes = piece.bytes,
        };
        offset += piece.bytes;
        gather->bytes += piece.bytes;
    }
    return true;
}

static struct push_copy *copy_free(struct push_stage *stage)
{
    for (uint32_t i = 0; i < kvr_device_copies(stage->stage->device); i++)
        if (stage->copies[i].part_count == 0)
            return &stage->copies[i];
    return NULL;
}

static kvr_status gather_start(struct push *push, struct push_stage *stage, struct push_copy *copy,
                               const struct gather *gather)
{
    struct kvr_device *device = stage->stage->device;
    kvr_status status = device->ops->copy(device, push->now, KVR_DEVICE_GATHER, gather->pieces,
                                          gather->piece_count, (uint64_t)(copy - stage->copies));

    if (status == KVR_OK) {
        copy->part_first = gather->part_first;
        copy->part_count = gather->part_count;
        return KVR_OK;
    }
    for (uint32_t i = 0; i < gather->part_count; i++)
        part_free(stage, (gather->part_first + i) % KVR_STAGING_PARTS);
    return status;
}

/* The ring is given back in order: the write of its oldest part holds all that is behind it, of
 * whatever job. Where that write hangs, no job hears NO_RAIL: none of them is refused a rail. */
static void ring_awaited(struct push *push, const struct push_stage *stage)
{
    const struct push_part *oldest = &stage->parts[stage->ring.first];

    if (stage->ring.count > 0 && oldest->job != NULL && oldest->posted)
        kvr_group_awaits(push->group, oldest->job->peer, &oldest->pair);
}

kvr_status push_stage_gather(struct push *push, struct push_job *job, struct push_segment *segment,
                             struct kvr_plan_cursor *cursor, uint32_t count, bool again,
                             uint32_t *ret_count)
{
    struct push_stage *stage = job->stage;
    struct push_copy *copy = copy_free(stage);
    struct kvr_plan_cursor behind = *cursor;
    struct gather gather;
    uint32_t chunks = 0;
    kvr_status status;

    gather.piece_count = gather.part_count = 0;
    gather.bytes = 0;
    for (; copy != NULL && chunks < count && chunks < GATHER_CHUNKS; chunks++)
        if (!gather_add(stage, job, segment, &behind, &gather))
            break;
    if (chunks == 0 && copy != NULL)
        ring_awaited(push, stage);
    if (chunks == 0)
        return KVR_AGAIN; /* a write's completion or the end of a copy makes room */
    for (uint32_t i = 0; i < chunks; i++)
        stage->parts[(gather.part_first + i) % KVR_STAGING_PARTS].again = again;
    status = gather_start(push, stage, copy, &gather);
    if (status != KVR_OK && status != KVR_AGAIN)
        push_copy_failed(push, job);
    if (status != KVR_OK)
        return status;
    *cursor = behind;
    *ret_count = chunks;
    job->staged += chunks;
    return KVR_OK;
}

/* A job that finds no room waits for the oldest part. Where no pair takes that part, none takes the
 * job's. */
kvr_status push_stage_held(const struct push_job *job)
{
    const struct push_part *oldest = &job->stage->parts[job->stage->ring.first];

    return job->stage->ring.count > 0 && oldest->job != NULL && oldest->job->told.no_rail &&
                   oldest->job->peer == job->peer && oldest->job->target_rails == job->target_rails
               ? KVR_NO_RAIL
               : KVR_AGAIN;
}

/* ---- posting -------------------------------------------------------------------------------- */

static void part_gathered(struct push *push, struct push_stage *stage, uint32_t number,
                          kvr_status status)
{
    struct push_part *part = &stage->parts[number];
    struct push_job *job = part->job;

    if (status != KVR_OK)
        push_copy_failed(push, job);
    if (status == KVR_OK && push_job_posts(job)) {
        part->gathered = true;
        stage->unposted++;
        return;
    }
    part_free(stage, number);
    job->staged--;
    push_check(push, job);
}

static bool copies_take(struct push *push, struct push_stage *stage)
{
    struct kvr_device *device = stage->stage->device;
    struct kvr_device_copied copied[8];
    unsigned count = device->ops->poll(device, push->now, copied, 8);

    for (unsigned i = 0; i < count; i++) {
        struct push_copy *copy = &stage->copies[copied[i].token];
        struct push_copy ended = *copy;

        copy->part_count = 0;
        for (uint32_t k = 0; k < ended.part_count; k++)
            part_gathered(push, stage, (ended.part_first + k) % KVR_STAGING_PARTS,
                          copied[i].status);
    }
    return count > 0;
}

static bool part_waits(const struct push_part *part)
{
    return part->job != NULL && part->gathered && !part->posted;
}

/* Another write for the same peer follows at once. */
static bool more_behind(const struct push_stage *stage, uint32_t number)
{
    const struct push_part *part = &stage->parts[number];
    const struct push_part *next = &stage->parts[(number + 1) % KVR_STAGING_PARTS];

    return stage->unposted > 1 && part_waits(next) && next->job->peer == part->job->peer;
}

static kvr_status part_post(struct push *push, struct push_stage *stage, uint32_t number)
{
    struct push_part *part = &stage->parts[number];
    struct push_job *job = part->job;
    struct push_write write = {.chunk = part->chunk,
                               .gathered = part,
                               .token = token_of(job, number),
                               .more = more_behind(stage, number)};
    kvr_status status = push_post_one(push, job, part->segment, &write, &part->pair);

    push_tell_rail(push, job, status, true);
    if (status != KVR_OK)
        return status;
    part->posted = true;
    stage->unposted--;
    job->staged--;
    push_count_repeated(job, part->again);
    push_check(push, job);
    return KVR_OK;
}

/* Posts in the order of the ring; a part without room does not delay parts for other peers. */
static bool parts_post(struct push *push, struct push_stage *stage)
{
    uint32_t first = stage->ring.first, again = 0;
    bool progress = false;

    for (uint32_t i = 0; i < stage->ring.count && stage->unposted > 0 && again < AGAIN_MAX; i++) {
        uint32_t number = (first + i) % KVR_STAGING_PARTS;

        if (!part_waits(&stage->parts[number]))
            continue;
        if (part_post(push, stage, number) == KVR_OK)
            progress = true;
        else
            again++;
    }
    push->blocked = push->blocked || again > 0;
    return progress;
}

bool push_stage_work(struct push *push)
{
    bool progress = false;

    for (uint32_t i = 0; i < KVR_STAGES_MAX; i++) {
        struct push_stage *stage = push->stages[i];

        if (stage == NULL || stage->ring.count == 0)
            continue;
        progress = copies_take(push, stage) || progress;
        progress = parts_post(push, stage) || progress;
    }
    return progress;
}

void push_stage_written(struct push_job *job, uint32_t part)
{
    assert(job->stage != NULL && job->stage->parts[part].job == job);
    part_free(job->stage, part);
}

void push_stage_stop(struct push_job *job)
{
    struct push_stage *stage = job->stage;

    if (stage == NULL)
        return;
    for (uint32_t i = 0; i < KVR_STAGING_PARTS; i++) {
        struct push_part *part = &stage->parts[i];

        if (part->job != job || !part_waits(part))
            continue;
        part_free(stage, i);
        stage->unposted--;
        job->staged--;
    }
}

bool push_stage_busy(const struct push *push)
{
    for (uint32_t i = 0; i < KVR_STAGES_MAX; i++)
        if (push->stages[i] != NULL && push->stages[i]->ring.count > 0)
            return true;
    return false;
}
