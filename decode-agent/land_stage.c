/* Staged landings: what arrived in a transfer's staging quota is copied into its pages, many pieces
 * with one copy. A chunk is in place when its copy has ended. While one copy is under way, writes
 * for the next one arrive. Bytes that will be hashed are copied back the same way. */
#include "decode-agent/land.h"

#include <assert.h>

#include "base/mutant.h"
#include "kv/chunk_digest.h"

void land_stage_open(struct land *land, struct landing *landing)
{
    struct kvr_stage *stage = landing->staging.stage;
    struct land_stage *state = stage->user;

    assert(stage->index < KVR_STAGES_MAX);
    state->stage = stage;
    land->stages[stage->index] = state;
    landing->staging.next = land->staged_first;
    land->staged_first = landing;
}

void land_stage_close(struct land *land, struct landing *landing)
{
    struct landing **link = &land->staged_first;

    while (*link != landing)
        link = &(*link)->staging.next;
    *link = landing->staging.next;
}

const uint8_t *land_staged_at(const struct landing *landing, const struct landing_segment *segment,
                              uint32_t chunk)
{
    return landing->staging.stage->base + landing->staging.offset +
           segment->positions[chunk - segment->chunk_first] % landing->staging.bytes;
}

/* ---- room ----------------------------------------------------------------------------------- */

/* End of the chunks of known segments. */
static uint32_t known_end(const struct landing *landing)
{
    const struct landing_segment *last = landing->last;

    return last != NULL ? last->chunk_first + last->plan->chunk_count : 0;
}

/* Chunks before it are in their pages. */
static uint32_t in_end(struct landing *landing, uint32_t known_end)
{
    const struct land_stage *stage = landing->staging.stage->user;
    uint32_t end;

    while (landing->staging.taken_end < known_end &&
           (landing->staging.taken[landing->staging.taken_end / 64] >>
                landing->staging.taken_end % 64 &
            1) != 0)
        landing->staging.taken_end++;
    end = landing->staging.taken_end;
    for (uint32_t i = 0; i < KVR_DEVICE_COPIES_MAX && !KVR_MUTANT(room_before_the_copy); i++)
        if (stage->copies[i].landing == landing && stage->copies[i].chunk_least < end)
            end = stage->copies[i].chunk_least;
    return end;
}

void land_stage_room(struct land *land, struct landing *landing)
{
    const struct landing_segment *segment;
    uint64_t position;
    uint32_t end;

    if (landing->staging.room_step == 0 || landing->staging.failed || landing->closing)
        return;
    end = in_end(landing, known_end(landing));
    segment = land_segment_of(landing, end);
    position = segment != NULL ? segment->positions[end - segment->chunk_first]
                               : landing->last->position_end;
    if (position - landing->staging.room_reported < landing->staging.room_step)
        return;
    landing->staging.room_reported = position;
    land_report(land, landing, LAND_MESSAGE(LAND_ROOM, .position = position));
}

/* ---- what waits ----------------------------------------------------------------------------- */

struct scatter {
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
    uint32_t piece_count;
    uint32_t chunks[LAND_SCATTER_CHUNKS], chunk_count;
    uint64_t bytes;
};

/* False: this copy has no room for it. */
static bool scatter_add(const struct landing *landing, uint32_t chunk, struct scatter *scatter)
{
    const struct landing_segment *segment = land_segment_of(landing, chunk);
    uint8_t *host = (uint8_t *)land_staged_at(landing, segment, chunk);
    uint64_t bytes_max = landing->staging.stage->device->copy_bytes;
    struct kvr_plan_cursor cursor;
    uint32_t left;

    kvr_plan_seek(segment->plan, chunk - segment->chunk_first, &cursor);
    left = kvr_plan_cursor_pieces(&cursor);
    if (scatter->chunk_count == LAND_SCATTER_CHUNKS ||
        (bytes_max != 0 && scatter->bytes >= bytes_max) ||
        scatter->piece_count + left > KVR_DEVICE_PIECES_MAX)
        return false;
    scatter->chunks[scatter->chunk_count++] = chunk;
    for (; left > 0; left--) {
        struct kvr_plan_piece piece;

        kvr_plan_next_piece(&cursor, &piece);
        scatter->pieces[scatter->piece_count++] = (struct kvr_device_piece){
            .memory = landing->set->locals[piece.target_layout]->pages,
            .offset = piece.target_offset,
            .host = host,
            .bytes = piece.bytes,
        };
        host += piece.bytes;
        scatter->bytes += piece.bytes;
    }
    return true;
}

static uint64_t waiting_in(const struct landing *landing, uint32_t word, uint32_t chunk_end)
{
    uint64_t waiting = landing->bits[word] & ~landing->staging.taken[word];

    if ((word + 1) * 64 > chunk_end)
        waiting &= (UINT64_C(1) << (chunk_end - word * 64)) - 1;
    return waiting;
}

/* As many chunks as one copy takes, from the end of the last one. */
static void scatter_fill(struct landing *landing, struct scatter *scatter)
{
    uint32_t chunk_end = known_end(landing), words = (chunk_end + 63) / 64;

    scatter->piece_count = scatter->chunk_count = 0;
    scatter->bytes = 0;
    for (uint32_t i = 0; i < words && scatter->chunk_count < landing->staging.waiting; i++) {
        uint64_t waiting;

        landing->staging.scan = landing->staging.scan < words ? landing->staging.scan : 0;
        waiting = waiting_in(landing, landing->staging.scan, chunk_end);
        for (; waiting != 0; waiting &= waiting - 1)
            if (!scatter_add(landing,
                             landing->staging.scan * 64 + (uint32_t)__builtin_ctzll(waiting),
                             scatter))
                return;
        landing->staging.scan++;
    }
}

/* ---- copies --------------------------------------------------------------------------------- */

void land_copy_failed(struct land *land, struct landing *landing)
{
    if (landing->staging.failed)
        return;
    landing->staging.failed = true;
    land_report(land, landing, LAND_MESSAGE(LAND_COPY_FAILED));
}

static struct land_copy *copy_free(struct land_stage *stage)
{
    for (uint32_t i = 0; i < kvr_device_copies(stage->stage->device); i++)
        if (stage->copies[i].landing == NULL)
            return &stage->copies[i];
    return NULL;
}

/* KVR_AGAIN: the device takes no more now. Any other failure is reported. */
static kvr_status copy_start(struct land *land, struct landing *landing, kvr_device_way way,
                             const struct scatter *scatter, struct land_copy **ret_copy)
{
    struct land_stage *stage = landing->staging.stage->user;
    struct kvr_device *device = landing->staging.stage->device;
    struct land_copy *copy = copy_free(stage);
    kvr_status status = KVR_AGAIN;

    if (copy != NULL)
        status = device->ops->copy(device, land->now, way, scatter->pieces, scatter->piece_count,
                                   (uint64_t)(copy - stage->copies));
    if (status != KVR_OK) {
        if (status != KVR_AGAIN)
            land_copy_failed(land, landing);
        return status;
    }
    copy->landing = landing;
    copy->chunk_count = copy->read_end = 0;
    copy->chunk_least = UINT32_MAX;
    landing->staging.copying++;
    stage->copying++;
    *ret_copy = copy;
    return KVR_OK;
}

/* False: the device takes no more now. */
static bool scatter_start(struct land *land, struct landing *landing, const struct scatter *scatter)
{
    struct land_copy *copy;
    kvr_status status = copy_start(land, landing, KVR_DEVICE_SCATTER, scatter, &copy);

    if (status == KVR_AGAIN)
        return false;
    if (status != KVR_OK) {
        land_check(land, landing);
        return true;
    }
    copy->chunk_count = scatter->chunk_count;
    memcpy(copy->chunks, scatter->chunks, scatter->chunk_count * sizeof(copy->chunks[0]));
    for (uint32_t i = 0; i < scatter->chunk_count; i++) {
        landing->staging.taken[scatter->chunks[i] / 64] |= UINT64_C(1) << (scatter->chunks[i] % 64);
        if (scatter->chunks[i] < copy->chunk_least)
            copy->chunk_least = scatter->chunks[i];
    }
    landing->staging.waiting -= scatter->chunk_count;
    return true;
}

/* The chunk and those that are read back before it lie at different places of the ring. */
static bool beside(const struct landing *landing, const struct scatter *scatter, uint32_t chunk)
{
    const struct landing_segment *segment = land_segment_of(landing, chunk), *first;
    uint32_t index = chunk - segment->chunk_first;

    if (scatter->chunk_count == 0)
        return true;
    first = land_segment_of(landing, scatter->chunks[0]);
    return segment->positions[index] + kvr_plan_chunk_bytes(segment->plan, index) -
               first->positions[scatter->chunks[0] - first->chunk_first] <=
           landing->staging.bytes;
}

bool land_stage_read(struct land *land, struct landing *landing)
{
    struct scatter scatter;
    struct land_copy *copy;
    uint32_t end = landing->verify.chunk;
    kvr_status status;

    scatter.piece_count = scatter.chunk_count = 0;
    scatter.bytes = 0;
    while (end < landing->chunk_total &&
           (!kvr_digest_covers(landing->digest, landing->transfer, end) ||
            (beside(landing, &scatter, end) && scatter_add(landing, end, &scatter))))
        end++;
    if (scatter.chunk_count == 0) {
        landing->verify.read_end = end;
        return true;
    }
    status = copy_start(land, landing, KVR_DEVICE_GATHER, &scatter, &copy);
    if (status != KVR_OK) {
        if (status == KVR_AGAIN)
            return false;
        land_verify_remove(land, landing);
        land_check(land, landing);
        return true;
    }
    copy->read_end = end;
    landing_verify_on(&landing->verify.state, HASH_ON_READ);
    return true;
}

/* The copy that reads back has ended. */
static void read_back(struct land *land, struct landing *landing, uint32_t end)
{
    landing_verify_on(&landing->verify.state, HASH_ON_READ_ENDED);
    landing->verify.read_end = end;
    if (landing->staging.failed)
        land_verify_remove(land, landing);
}

/* False: no chunk waits, or the device takes no more now. */
static bool copy_begin(struct land *land, struct landing *landing)
{
    struct scatter scatter;

    if (landing->staging.waiting == 0 || landing->staging.failed || landing->closing ||
        copy_free(landing->staging.stage->user) == NULL)
        return false;
    scatter_fill(landing, &scatter);
    assert(scatter.chunk_count > 0);
    return scatter_start(land, landing, &scatter);
}

/* One copy for each landing. A landing that had one goes behind the others, so that none waits for
 * the end of another while the device is the bottleneck. */
static bool copies_begin(struct land *land)
{
    struct landing **link = &land->staged_first, *served = NULL, **served_end = &served;

    while (*link != NULL) {
        struct landing *at = *link;

        if (!copy_begin(land, at)) {
            link = &at->staging.next;
            continue;
        }
        *link = at->staging.next;
        at->staging.next = NULL;
        *served_end = at;
        served_end = &at->staging.next;
    }
    *link = served;
    return served != NULL;
}

static bool copies_take(struct land *land, struct land_stage *stage)
{
    struct kvr_device *device = stage->stage->device;
    struct kvr_device_copied copied[8];
    unsigned count = device->ops->poll(device, land->now, copied, 8);

    for (unsigned i = 0; i < count; i++) {
        struct land_copy *copy = &stage->copies[copied[i].token];
        struct landing *landing = copy->landing;

        copy->landing = NULL;
        landing->staging.copying--;
        stage->copying--;
        if (copied[i].status != KVR_OK)
            land_copy_failed(land, landing);
        if (copy->read_end > 0)
            read_back(land, landing, copy->read_end);
        for (uint32_t k = 0; k < copy->chunk_count && !landing->staging.failed; k++)
            if (!KVR_MUTANT(done_before_the_copy))
                land_chunk_in(land, landing, copy->chunks[k]);
        land_stage_room(land, landing);
        land_check(land, landing);
    }
    return count > 0;
}

bool land_stage_take(struct land *land)
{
    bool progress = false;

    for (uint32_t i = 0; i < KVR_STAGES_MAX; i++)
        if (land->stages[i] != NULL && land->stages[i]->copying > 0)
            progress = copies_take(land, land->stages[i]) || progress;
    return progress;
}

bool land_stage_begin(struct land *land)
{
    bool progress = false;

    while (copies_begin(land))
        progress = true;
    return progress;
}

bool land_stage_busy(void *self)
{
    const struct land *land = self;

    for (uint32_t i = 0; i < KVR_STAGES_MAX; i++)
        if (land->stages[i] != NULL && land->stages[i]->copying > 0)
            return true;
    return false;
}
