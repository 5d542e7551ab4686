/* Scattering: what arrived in a transfer's share of the stage's memory is copied into its pages,
 * many pieces by one copy; a chunk counts as in place when the copy that has it ended. While one
 * copy is under way, the wire brings what the next one takes. What is to be hashed is copied back
 * the same way. */
#include <assert.h>

#include "base/mutant.h"
#include "decode-agent/land.h"
#include "kv/chunk_digest.h"

void land_stage_open(struct land *land, struct landing *landing)
{
    struct kvr_stage *stage = landing->stage;
    struct land_stage *state = stage->user;

    assert(stage->index < KVR_STAGES_MAX);
    state->stage = stage;
    land->stages[stage->index] = state;
    landing->next_staged = land->staged_first;
    land->staged_first = landing;
}

void land_stage_close(struct land *land, struct landing *landing)
{
    struct landing **link = &land->staged_first;

    while (*link != landing)
        link = &(*link)->next_staged;
    *link = landing->next_staged;
}

const uint8_t *land_staged_at(const struct landing *landing, const struct landing_segment *segment,
                              uint32_t chunk)
{
    return landing->stage->base + landing->share_offset +
           segment->positions[chunk - segment->chunk_first] % landing->share_bytes;
}

/* ---- room ----------------------------------------------------------------------------------- */

/* Behind the last chunk whose segment is known. */
static uint32_t known_end(const struct landing *landing)
{
    const struct landing_segment *last = landing->last;

    return last != NULL ? last->chunk_first + last->plan->chunk_count : 0;
}

/* Chunks before it are in their pages. */
static uint32_t in_end(struct landing *landing, uint32_t known_end)
{
    const struct land_stage *stage = landing->stage->user;
    uint32_t end;

    while (landing->taken_end < known_end &&
           (landing->taken[landing->taken_end / 64] >> landing->taken_end % 64 & 1) != 0)
        landing->taken_end++;
    end = landing->taken_end;
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

    if (landing->room_step == 0 || landing->copy_failed || landing->closing)
        return;
    end = in_end(landing, known_end(landing));
    segment = land_segment_of(landing, end);
    position = segment != NULL ? segment->positions[end - segment->chunk_first]
                               : landing->last->position_end;
    if (position - landing->room_told < landing->room_step)
        return;
    landing->room_told = position;
    land_tell(land, landing, LAND_ROOM, position, 0, NULL);
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
    uint64_t bytes_max = landing->stage->device->copy_bytes;
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
    uint64_t waiting = landing->bits[word] & ~landing->taken[word];

    if ((word + 1) * 64 > chunk_end)
        waiting &= (UINT64_C(1) << (chunk_end - word * 64)) - 1;
    return waiting;
}

/* As many as one copy takes, from where the last one ended. */
static void scatter_fill(struct landing *landing, struct scatter *scatter)
{
    uint32_t chunk_end = known_end(landing), words = (chunk_end + 63) / 64;

    scatter->piece_count = scatter->chunk_count = 0;
    scatter->bytes = 0;
    for (uint32_t i = 0; i < words && scatter->chunk_count < landing->waiting; i++) {
        uint64_t waiting;

        landing->scan = landing->scan < words ? landing->scan : 0;
        waiting = waiting_in(landing, landing->scan, chunk_end);
        for (; waiting != 0; waiting &= waiting - 1)
            if (!scatter_add(landing, landing->scan * 64 + (uint32_t)__builtin_ctzll(waiting),
                             scatter))
                return;
        landing->scan++;
    }
}

/* ---- copies --------------------------------------------------------------------------------- */

void land_copy_failed(struct land *land, struct landing *landing)
{
    if (landing->copy_failed)
        return;
    landing->copy_failed = true;
    land_tell(land, landing, LAND_COPY_FAILED, 0, 0, NULL);
}

static struct land_copy *copy_free(struct land_stage *stage)
{
    for (uint32_t i = 0; i < kvr_device_copies(stage->stage->device); i++)
        if (stage->copies[i].landing == NULL)
            return &stage->copies[i];
    return NULL;
}

/* KVR_AGAIN: the device takes no more now. Any other failure is told. */
static kvr_status copy_start(struct land *land, struct landing *landing, kvr_device_way way,
                             const struct scatter *scatter, struct land_copy **ret_copy)
{
    struct land_stage *stage = landing->stage->user;
    struct kvr_device *device = landing->stage->device;
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
    landing->copying++;
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
        landing->taken[scatter->chunks[i] / 64] |= UINT64_C(1) << (scatter->chunks[i] % 64);
        if (scatter->chunks[i] < copy->chunk_least)
            copy->chunk_least = scatter->chunks[i];
    }
    landing->waiting -= scatter->chunk_count;
    return true;
}

/* What is read back before this chunk does not lie where it does. */
static bool beside(const struct landing *landing, const struct scatter *scatter, uint32_t chunk)
{
    const struct landing_segment *segment = land_segment_of(landing, chunk), *first;
    uint32_t index = chunk - segment->chunk_first;

    if (scatter->chunk_count == 0)
        return true;
    first = land_segment_of(landing, scatter->chunks[0]);
    return segment->positions[index] + kvr_plan_chunk_bytes(segment->plan, index) -
               first->positions[scatter->chunks[0] - first->chunk_first] <=
           landing->share_bytes;
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
    landing->verify.reading = true;
    return true;
}

/* It was closed meanwhile, or is hashed from here on. */
static void read_back(struct land *land, struct landing *landing, uint32_t end)
{
    landing->verify.reading = false;
    landing->verify.read_end = end;
    if (landing->copy_failed)
        land_verify_remove(land, landing);
}

/* False: nothing of it waits, or the device takes no more now. */
static bool copy_begin(struct land *land, struct landing *landing)
{
    struct scatter scatter;

    if (landing->waiting == 0 || landing->copy_failed || landing->closing ||
        copy_free(landing->stage->user) == NULL)
        return false;
    scatter_fill(landing, &scatter);
    assert(scatter.chunk_count > 0);
    return scatter_start(land, landing, &scatter);
}

/* One copy of each landing. Whoever had one goes behind the others: where the wire brings more than
 * the device copies, none waits for the end of another. */
static bool copies_begin(struct land *land)
{
    struct landing **link = &land->staged_first, *served = NULL, **served_end = &served;

    while (*link != NULL) {
        struct landing *at = *link;

        if (!copy_begin(land, at)) {
            link = &at->next_staged;
            continue;
        }
        *link = at->next_staged;
        at->next_staged = NULL;
        *served_end = at;
        served_end = &at->next_staged;
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
        landing->copying--;
        stage->copying--;
        if (copied[i].status != KVR_OK)
            land_copy_failed(land, landing);
        if (copy->read_end > 0)
            read_back(land, landing, copy->read_end);
        for (uint32_t k = 0; k < copy->chunk_count && !landing->copy_failed; k++)
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

bool land_stage_busy(const struct land *land)
{
    for (uint32_t i = 0; i < KVR_STAGES_MAX; i++)
        if (land->stages[i] != NULL && land->stages[i]->copying > 0)
            return true;
    return false;
}
