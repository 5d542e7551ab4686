#include "decode-agent/land.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/mutant.h"

void land_report(struct land *land, const struct landing *landing, union land_message message)
{
    message.landing = landing->index;
    message.transfer = landing->transfer;
    kvr_group_tell(land->group, &message.any);
}

static bool bit_get(const struct landing *landing, uint32_t chunk)
{
    if (KVR_MUTANT(count_instead_of_bits))
        return false;
    return (landing->bits[chunk / 64] >> (chunk % 64) & 1) != 0;
}

/* ---- bits ----------------------------------------------------------------------------------- */

struct landing_segment *land_segment_of(const struct landing *landing, uint32_t chunk)
{
    struct landing_segment *segment = landing->first;

    while (segment != NULL && chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->next;
    return segment;
}

static void bytes_count(struct land *land, struct landing *landing,
                        const struct landing_segment *segment, uint32_t rail, uint32_t chunk)
{
    uint64_t bytes = kvr_plan_chunk_bytes(segment->plan, chunk - segment->chunk_first);

    if (landing->arrived.spans != NULL)
        landing->arrived.spans[rail].bytes += bytes;
    bytes += atomic_load_explicit(&land->bytes[rail], memory_order_relaxed);
    atomic_store_explicit(&land->bytes[rail], bytes, memory_order_relaxed);
}

void land_chunk_in(struct land *land, struct landing *landing, uint32_t chunk)
{
    struct landing_segment *segment = land_segment_of(landing, chunk);
    uint32_t layer = kvr_plan_layer_index(segment->plan, chunk - segment->chunk_first);

    landing->in_count++;
    if (--segment->left[layer] > 0)
        return;
    if (landing->flushed != NULL && landing->flushed->ops->flush(landing->flushed) != KVR_OK) {
        land_copy_failed(land, landing);
        return;
    }
    kvr_group_stamp(land->group, KVR_STATION_LANDED);
    land_report(land, landing,
                LAND_MESSAGE(LAND_LAYER, .layer = {segment->segment, layer, land->now}));
}

/* The segment of the chunk is known. */
static void chunk_arrived(struct land *land, struct landing *landing,
                          const struct landing_segment *segment, uint32_t rail, uint32_t chunk)
{
    bytes_count(land, landing, segment, rail, chunk);
    landing->staging.waiting += landing->staging.stage != NULL;
    if (landing->staging.stage == NULL || KVR_MUTANT(done_before_the_copy))
        land_chunk_in(land, landing, chunk);
}

static void check_all(struct land *land, struct landing *landing)
{
    uint32_t early = KVR_MUTANT(done_one_chunk_early) ? 1 : 0;
    uint32_t in = landing->staging.stage != NULL ? landing->in_count : landing->chunk_count;

    if (landing->all_reported || in + early < landing->chunk_total)
        return;
    landing->all_reported = true;
    land_keys_done(land, landing);
    land_report(land, landing, LAND_MESSAGE(LAND_ALL, .chunks = landing->chunk_count));
}

/* Once only: a peer that writes on cannot flood the ring. */
static void doom_report(struct land *land, struct landing *landing, enum land_kind kind)
{
    if (landing->doom_reported)
        return;
    landing->doom_reported = true;
    land_report(land, landing, LAND_MESSAGE(kind));
}

/* Rule 11. The source took its pages back: a repeated copy may have overwritten good bytes, so the
 * transfer fails. */
static bool revoked(const struct landing *landing)
{
    return landing->revocation_word != NULL &&
           !kvr_revocation_word_holds(landing->revocation_word, landing->transfer) &&
           !KVR_MUTANT(revoked_ignored);
}

/* UINT32_MAX: the slot names no such chunk. */
static inline uint32_t chunk_of(const struct land_slot *slot, uint64_t immediate)
{
    uint32_t chunk = immediate & 0xffff;

    if (chunk >> KVR_SLOT_CHUNK_BITS != 0)
        return UINT32_MAX;
    return KVR_MUTANT(one_slot_for_all) ? chunk
                                        : (uint32_t)slot->place << KVR_SLOT_CHUNK_BITS | chunk;
}

/* A landing of this group has the slot. */
static inline __attribute__((always_inline)) void
chunk_received(struct land *land, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    const struct land_slot *slot = &land->slots[land_slot_of(immediate)];
    struct landing *landing = land->landings[slot->landing - 1];
    const struct landing_segment *segment;
    uint32_t chunk = chunk_of(slot, immediate);
    bool gone = revoked(landing), known = chunk < landing->chunk_total && chunk != UINT32_MAX;
    bool first = known && !bit_get(landing, chunk);
    bool expected = known && land_is_second_posting(landing, rail, epoch, chunk, first);

    land->now = land->arrived_at[landing->peer][rail] = now;
    land_count_arrival(landing, rail, epoch, gone || (known && !first && !expected));
    if (gone) {
        doom_report(land, landing, LAND_REVOKED);
    } else if (!known) {
        land_unexpected(land, rail, epoch, UNEXPECTED_CHUNK);
        doom_report(land, landing, LAND_BAD);
    } else if (first) {
        landing->bits[chunk / 64] |= (uint64_t)1 << (chunk % 64);
        if (landing->chunk_count++ == 0)
            land_report(land, landing, LAND_MESSAGE(LAND_FIRST));
        segment = land_segment_of(landing, chunk);
        if (segment != NULL) /* else its PLAN is still on the way, and counts it */
            chunk_arrived(land, landing, segment, rail, chunk);
        check_all(land, landing);
    } else if (landing->arrived.spans != NULL) {
        landing->arrived.spans[rail].retries++;
    }
    land_quiet_check(land, landing);
}

static void land_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    struct land *land = self;

    if (!land_expects(land, rail, immediate))
        land_unexpected_count(land, rail, epoch, immediate);
    else if (land->slots[land_slot_of(immediate)].landing == LAND_ELSEWHERE)
        land_hand_over(land, rail, epoch, immediate);
    else
        chunk_received(land, now, rail, epoch, immediate);
}

/* From another group, which compared the tag. */
static void handed(struct land *land, kvr_ns now, const struct land_arrival *arrival)
{
    uint32_t index = land->slots[land_slot_of(arrival->immediate)].landing;

    if (index == 0 || index == LAND_ELSEWHERE)
        land_unexpected(land, arrival->rail, arrival->epoch, UNEXPECTED_IDLE_SLOT);
    else
        chunk_received(land, now, arrival->rail, arrival->epoch, arrival->immediate);
}

/* ---- commands ------------------------------------------------------------------------------- */

static void landing_open(struct land *land, struct landing *landing)
{
    assert(land->landings[landing->index] == NULL);
    land->landings[landing->index] = landing;
    land->open_count++;
    landing->chunk_total = UINT32_MAX;
    if (landing->staging.stage != NULL)
        land_stage_open(land, landing);
    for (uint32_t i = 0; i < landing->slot_count; i++) {
        assert(land->slots[landing->slots[i]].landing == 0 || KVR_MUTANT(slot_reused_at_once));
        land->slots[landing->slots[i]] =
            (struct land_slot){(uint16_t)(landing->index + 1), (uint16_t)i, landing->tag};
    }
}

/* A rail over which something came. Counts name others too: those that RAIL_LOST named. */
static uint32_t some_rail(const struct landing *landing)
{
    return (uint32_t)__builtin_ctzll(landing->arrived.rails);
}

/* Chunks may arrive before their segment: the bits say which, and nothing says over which rail.
 * Their bytes count for one that the transfer uses. */
static void segment_add(struct land *land, struct landing *landing, struct landing_segment *segment)
{
    KVR_LIST_APPEND(landing->first, landing->last, segment, next);
    for (uint32_t i = 0; i < segment->plan->layer_count; i++) {
        struct kvr_chunk_run chunks;

        kvr_plan_layer(segment->plan, i, &chunks);
        segment->left[i] = chunks.chunk_count;
        for (uint32_t k = 0; landing->chunk_count > 0 && k < chunks.chunk_count; k++) {
            uint32_t chunk = segment->chunk_first + chunks.chunk_first + k;

            if (!bit_get(landing, chunk))
                continue;
            chunk_arrived(land, landing, segment, some_rail(landing), chunk);
        }
        if (chunks.chunk_count == 0)
            land_report(land, landing,
                        LAND_MESSAGE(LAND_LAYER, .layer = {segment->segment, i, land->now}));
    }
    land_stage_room(land, landing);
}

static void filter(struct land *land, struct landing *landing, struct landing_filter *filter)
{
    const struct kvr_chunk_run *asked = &filter->runs[filter->capacity];

    filter->run_count = 0;
    for (uint32_t i = 0; i < filter->asked_count; i++) {
        for (uint32_t k = 0; k < asked[i].chunk_count; k++) {
            uint32_t chunk = asked[i].chunk_first + k;
            struct kvr_chunk_run *last = &filter->runs[filter->run_count];

            if (bit_get(landing, chunk))
                continue;
            if (filter->again != NULL)
                filter->again[chunk / 64] |= (uint64_t)1 << (chunk % 64);
            if (filter->run_count > 0 && chunk == last[-1].chunk_first + last[-1].chunk_count) {
                last[-1].chunk_count++;
                continue;
            }
            assert(filter->run_count < filter->capacity);
            *last = (struct kvr_chunk_run){.chunk_first = chunk, .chunk_count = 1};
            filter->run_count++;
        }
    }
    landing->repeated = landing->repeated || filter->run_count > 0;
    landing->arrived.again = filter->again;
    land_pair_lost(landing, filter->rail, filter->epoch);
    land_report(land, landing, LAND_MESSAGE(LAND_FILTERED, .filter = filter));
}

/* A bit beyond the last chunk would make the transfer look complete too early. */
static void final(struct land *land, struct landing *landing, uint32_t chunk_total)
{
    uint64_t chunk_end = (uint64_t)landing->slot_count * KVR_SLOT_CHUNKS;

    landing->chunk_total = chunk_total;
    for (uint64_t chunk = chunk_total; chunk < chunk_end; chunk++) {
        if (chunk % 64 == 0 && landing->bits[chunk / 64] == 0) {
            chunk += 63;
            continue;
        }
        if (bit_get(landing, (uint32_t)chunk)) {
            doom_report(land, landing, LAND_BAD);
            return;
        }
    }
    check_all(land, landing);
}

static void landing_closed(struct land *land, struct landing *landing)
{
    if (landing->staging.stage != NULL)
        land_stage_close(land, landing);
    land->landings[landing->index] = NULL;
    land->open_count--;
    land_quiet_give(land, landing);
    land_report(land, landing,
                LAND_MESSAGE(LAND_CLOSED, .closed = {.landing = landing,
                                                     .arrivals = landing->arrived.total,
                                                     .rails = landing->arrived.rails}));
}

void land_check(struct land *land, struct landing *landing)
{
    check_all(land, landing);
    land_quiet_check(land, landing);
    if (landing->closing && landing->staging.copying == 0)
        landing_closed(land, landing);
}

static void landing_close(struct land *land, struct landing *landing)
{
    land_verify_remove(land, landing);
    for (uint32_t i = 0; i < landing->slot_count; i++)
        if (land->slots[landing->slots[i]].landing == landing->index + 1)
            land->slots[landing->slots[i]].landing = 0;
    landing->closing = true;
    if (landing->staging.copying == 0)
        landing_closed(land, landing);
}

/* Messages that are not for a landing of this group. */
static bool group_command(struct land *land, kvr_ns now, const union land_message *message)
{
    switch (message->head.kind) {
    case LAND_OPEN:
        landing_open(land, message->opened);
        return true;
    case LAND_HANDED:
        handed(land, now, &message->arrival);
        return true;
    case LAND_EPOCH_CLOSED:
        land_quiet_epoch_closed(land, message->epoch.rail, message->epoch.epoch);
        return true;
    default:
        return land_keys_command(land, message) || land_forward_command(land, message);
    }
}

static void land_command(void *self, kvr_ns now, const struct kvr_group_message *any)
{
    struct land *land = self;
    const union land_message message = land_message_of(any);
    struct landing *landing;

    land->now = now;
    if (group_command(land, now, &message))
        return;
    assert(message.landing < KVR_TRANSFERS_MAX && land->landings[message.landing] != NULL);
    landing = land->landings[message.landing];
    switch (message.head.kind) {
    case LAND_SEGMENT:
        segment_add(land, landing, message.segment);
        break;
    case LAND_FINAL:
        final(land, landing, message.chunks);
        break;
    case LAND_QUIET:
        land_quiet_replace(land, landing, message.quiet);
        break;
    case LAND_QUIET_VOID:
        land_quiet_replace(land, landing, NULL);
        break;
    case LAND_FILTER:
        filter(land, landing, message.filter);
        break;
    case LAND_SUSPECTS:
        land_quiet_suspects(land, landing, now, &message.suspects);
        break;
    case LAND_DIGEST:
        KVR_LIST_APPEND(landing->verify.digests, landing->verify.digests_last, message.digest,
                        next);
        break;
    case LAND_VERIFY:
        land_verify_add(land, landing);
        break;
    case LAND_CLOSE:
        landing_close(land, landing);
        break;
    default:
        assert(false); /* the loop sends nothing else */
    }
}

/* ---- calls from the group -------------------------------------------------------------------- */

static void land_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)self, (void)now, (void)token, (void)count, (void)status; /* a target writes nothing */
}

/* A device could not copy the chunk: an unknown part of its bytes is in place. Suspect: no bit was
 * set, so a repeat would go unnoticed. That epoch must end. Another group's landing does not count
 * it. */
static void land_unmoved(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    struct land *land = self;
    uint32_t landing_index = land->slots[land_slot_of(immediate)].landing;
    struct landing *landing;

    if (!land_expects(land, rail, immediate)) {
        land_unexpected_count(land, rail, epoch, immediate);
        return;
    }
    if (landing_index == LAND_ELSEWHERE)
        return;
    if (KVR_MUTANT(unmoved_counted)) {
        land_arrived(self, now, rail, epoch, immediate);
        return;
    }
    landing = land->landings[landing_index - 1];
    land->arrived_at[landing->peer][rail] = now;
    land_count_arrival(landing, rail, epoch, true);
    land_copy_failed(land, landing);
    land_quiet_check(land, landing);
}

static void land_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    struct land *land = self;

    (void)now;
    land->deaf &= ~(UINT64_C(1) << rail);
    land_quiet_epoch_closed(land, rail, epoch);
    land_epoch_mark(land, rail, epoch);
}

static bool land_work(void *self, kvr_ns now)
{
    struct land *land = self;
    bool progress;

    land->now = now;
    progress = land_stage_take(land);
    progress = land_verify_work(land) || progress; /* before arrivals take every free copy */
    return land_stage_begin(land) || progress;
}

static bool land_expecting(void *self)
{
    return ((const struct land *)self)->open_count > 0;
}

static void land_opened(void *self, struct kvr_group *group)
{
    struct land *land = self;

    land->group = group;
    land->tagged = kvr_group_tagged(group);
}

struct kvr_group_user land_user(struct land *land)
{
    return (struct kvr_group_user){
        .self = land,
        .opened = land_opened,
        .command = land_command,
        .written = land_written,
        .arrived = land_arrived,
        .unmoved = land_unmoved,
        .epoch_closed = land_epoch_closed,
        .work = land_work,
        .may_sleep = NULL,
        .posting = land_expecting, /* arrivals after an absence are held back too */
        .expecting = land_expecting,
        .copying = land_stage_busy,
    };
}
