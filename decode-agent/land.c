#include "decode-agent/land.h"

#include <assert.h>

#include "base/list.h"
#include "base/mutant.h"

void land_tell(struct land *land, const struct landing *landing, uint32_t kind, uint64_t a,
               uint64_t b, void *pointer)
{
    struct kvr_group_message message = {.kind = kind,
                                        .index = landing->index,
                                        .id = landing->transfer,
                                        .a = a,
                                        .b = b,
                                        .pointer = pointer};

    kvr_group_tell(land->group, &message);
}

static bool bit_get(const struct landing *landing, uint32_t chunk)
{
    if (KVR_MUTANT(count_instead_of_bits))
        return false;
    return (landing->bits[chunk / 64] >> (chunk % 64) & 1) != 0;
}

/* ---- quiet (rule 4) ------------------------------------------------------------------------- */

static bool epoch_closed(const struct land *land, uint32_t rail, uint32_t epoch)
{
    return rail < KVR_RAILS_MAX && epoch <= land->epoch_closed[rail];
}

/* Index of its count, or count_count. */
static uint32_t count_of(const struct landing *landing, uint32_t rail, uint32_t epoch)
{
    uint32_t i = 0;

    while (i < landing->count_count &&
           (landing->counts[i].rail != rail || landing->counts[i].epoch != epoch))
        i++;
    return i;
}

/* Everything that was posted there has arrived. A chunk that arrives again was posted again, or its
 * entry came twice: then another may still be on its way although the counts are equal. One that
 * was revoked left no bit, by which its coming again would show. */
static bool even(const struct landing *landing, const struct kvr_epoch_count *posted)
{
    uint32_t i = count_of(landing, posted->rail, posted->epoch);

    if (i == landing->count_count)
        return posted->count == 0;
    return landing->counts[i].count == posted->count &&
           ((landing->doubted >> i & 1) == 0 || KVR_MUTANT(doubted_counts_trusted));
}

/* Even or closed: nothing that the source posted there can still arrive. */
static bool settled(const struct land *land, const struct landing *landing,
                    const struct kvr_epoch_count *posted)
{
    if (epoch_closed(land, posted->rail, posted->epoch))
        return true;
    return !landing->quiet->closed_only && even(landing, posted);
}

static bool named(const struct landing_quiet *quiet, const struct kvr_epoch_count *count)
{
    for (uint32_t i = 0; i < quiet->count; i++)
        if (quiet->counts[i].rail == count->rail && quiet->counts[i].epoch == count->epoch)
            return true;
    return false;
}

static void check_quiet(struct land *land, struct landing *landing)
{
    if (landing->quiet == NULL || landing->quiet_told)
        return;
    /* What arrived is not at rest before it is in its pages, or will never be copied there. */
    if ((landing->copying > 0 || (landing->waiting > 0 && !landing->copy_failed) ||
         (landing->stage != NULL && landing->verify.under_way)) &&
        !KVR_MUTANT(free_before_the_copy))
        return;
    for (uint32_t i = 0; i < landing->quiet->count; i++)
        if (!settled(land, landing, &landing->quiet->counts[i]))
            return;
    /* What came in on an epoch that the source did not name: its count is wrong, trust only
     * closing. */
    for (uint32_t i = 0; i < landing->count_count; i++)
        if (!named(landing->quiet, &landing->counts[i]) &&
            !epoch_closed(land, landing->counts[i].rail, landing->counts[i].epoch))
            return;
    landing->quiet_told = true;
    land_tell(land, landing, LAND_IS_QUIET, landing->quiet->round, 0, NULL);
}

static void quiet_replace(struct land *land, struct landing *landing, struct landing_quiet *quiet)
{
    if (landing->quiet != NULL)
        land_tell(land, landing, LAND_QUIET_TAKEN, 0, 0, landing->quiet);
    landing->quiet = quiet;
    landing->quiet_told = false;
    check_quiet(land, landing);
}

/* A write that is late stands behind others of the same peer on the same rail: while those come in,
 * it is awaited rather than suspected. */
static bool still_coming(const struct land *land, const struct landing *landing, uint32_t rail,
                         kvr_ns now, kvr_ns quiet_ns)
{
    kvr_ns last = rail < KVR_RAILS_MAX ? land->arrived_at[landing->peer][rail] : 0;

    return last != 0 && now - last < quiet_ns;
}

static void suspects(struct land *land, const struct landing *landing, kvr_ns now, kvr_ns quiet_ns,
                     bool at_once)
{
    const struct landing_quiet *quiet = landing->quiet;
    bool coming = false;

    if (quiet == NULL)
        return; /* the source is posting again: what it will have posted is not known */
    for (uint32_t i = 0; i < quiet->count; i++) {
        const struct kvr_epoch_count *count = &quiet->counts[i];

        if (settled(land, landing, count))
            continue;
        if (!at_once && still_coming(land, landing, count->rail, now, quiet_ns))
            coming = true;
        else
            land_tell(land, landing, LAND_SUSPECT, count->rail, count->epoch, NULL);
    }
    for (uint32_t i = 0; i < landing->count_count; i++)
        if (!named(quiet, &landing->counts[i]) &&
            !epoch_closed(land, landing->counts[i].rail, landing->counts[i].epoch))
            land_tell(land, landing, LAND_SUSPECT, landing->counts[i].rail,
                      landing->counts[i].epoch, NULL);
    if (coming)
        land_tell(land, landing, LAND_COMING, 0, 0, NULL);
}

/* ---- bits ----------------------------------------------------------------------------------- */

struct landing_segment *land_segment_of(const struct landing *landing, uint32_t chunk)
{
    struct landing_segment *segment = landing->first;

    while (segment != NULL && chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->next;
    return segment;
}

static void bytes_count(struct land *land, const struct landing_segment *segment, uint32_t rail,
                        uint32_t chunk)
{
    uint64_t bytes = kvr_plan_chunk_bytes(segment->plan, chunk - segment->chunk_first);

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
    kvr_group_stamp(land->group, KVR_STATION_LANDED);
    land_tell(land, landing, LAND_LAYER, segment->segment, layer, NULL);
}

/* Of a segment that is known. */
static void chunk_arrived(struct land *land, struct landing *landing,
                          const struct landing_segment *segment, uint32_t rail, uint32_t chunk)
{
    bytes_count(land, segment, rail, chunk);
    landing->waiting += landing->stage != NULL;
    if (landing->stage == NULL || KVR_MUTANT(done_before_the_copy))
        land_chunk_in(land, landing, chunk);
}

static void check_all(struct land *land, struct landing *landing)
{
    uint32_t early = KVR_MUTANT(done_one_chunk_early) ? 1 : 0;
    uint32_t in = landing->stage != NULL ? landing->in_count : landing->chunk_count;

    if (landing->all_told || in + early < landing->chunk_total)
        return;
    landing->all_told = true;
    land_tell(land, landing, LAND_ALL, landing->chunk_count, 0, NULL);
}

static void count_arrival(struct landing *landing, uint32_t rail, uint32_t epoch, bool doubt)
{
    uint32_t i = count_of(landing, rail, epoch);

    landing->arrivals++;
    landing->rails |= (uint64_t)1 << rail;
    if (i < landing->count_count) {
        landing->counts[i].count++;
        landing->doubted |= (uint64_t)doubt << i;
        return;
    }
    landing->doubted |= i < KVR_EPOCHS_PER_TRANSFER ? (uint64_t)doubt << i : 0;
    /* Beyond the table the count is lost: then quiet is proven only by closing every epoch, since
     * the source's own table ends at the same size and it gives up first. */
    if (landing->count_count < KVR_EPOCHS_PER_TRANSFER)
        landing->counts[landing->count_count++] =
            (struct kvr_epoch_count){.rail = rail, .epoch = epoch, .count = 1};
}

/* Once, however many a peer goes on to write: what it makes us tell has a bound. */
static void doom_tell(struct land *land, struct landing *landing, uint32_t kind)
{
    if (landing->doom_told)
        return;
    landing->doom_told = true;
    land_tell(land, landing, kind, 0, 0, NULL);
}

/* Rule 11. A chunk that comes again may have overwritten what its first copy was counted for. */
static bool revoked(const struct landing *landing)
{
    return landing->loan != NULL && !kvr_loan_holds(landing->loan, landing->transfer) &&
           !KVR_MUTANT(revoked_ignored);
}

/* This and every older epoch of the rail; it may be another group's. */
static void epoch_close(struct land *land, uint32_t rail, uint32_t epoch)
{
    land->epoch_closed[rail] = epoch;
    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX; i++)
        if (land->landings[i] != NULL)
            check_quiet(land, land->landings[i]);
}

static void land_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint32_t immediate)
{
    struct land *land = self;
    uint32_t slot = immediate >> 16, landing_index = land->slots[slot].landing, chunk;
    const struct landing_segment *segment;
    struct landing *landing;
    bool gone;

    if (slot == 0)
        return; /* warm-up */
    if (landing_index == 0) {
        atomic_fetch_add_explicit(&land->stale, 1, memory_order_relaxed);
        return;
    }
    if (landing_index == LAND_ELSEWHERE) {
        land_hand_over(land, rail, epoch, immediate);
        return;
    }
    landing = land->landings[landing_index - 1];
    land->arrived_at[landing->peer][rail] = now;
    chunk = (uint32_t)land->slots[slot].place << KVR_SLOT_CHUNK_BITS | (immediate & 0xffff);
    if (KVR_MUTANT(one_slot_for_all))
        chunk = immediate & 0xffff;
    gone = revoked(landing);
    count_arrival(landing, rail, epoch,
                  gone || (chunk < landing->chunk_total && bit_get(landing, chunk)));
    if (gone) {
        doom_tell(land, landing, LAND_REVOKED);
    } else if (chunk >= landing->chunk_total) {
        doom_tell(land, landing, LAND_BAD);
    } else if (!bit_get(landing, chunk)) {
        landing->bits[chunk / 64] |= (uint64_t)1 << (chunk % 64);
        if (landing->chunk_count++ == 0)
            land_tell(land, landing, LAND_FIRST, 0, 0, NULL);
        segment = land_segment_of(landing, chunk);
        if (segment != NULL) /* else its PLAN is still on the way: counted when it comes */
            chunk_arrived(land, landing, segment, rail, chunk);
        check_all(land, landing);
    }
    check_quiet(land, landing);
}

/* ---- commands ------------------------------------------------------------------------------- */

static void landing_open(struct land *land, struct landing *landing)
{
    assert(land->landings[landing->index] == NULL);
    land->landings[landing->index] = landing;
    land->open_count++;
    landing->chunk_total = UINT32_MAX;
    if (landing->stage != NULL)
        land_stage_open(land, landing);
    for (uint32_t i = 0; i < landing->slot_count; i++) {
        assert(land->slots[landing->slots[i]].landing == 0 || KVR_MUTANT(slot_reused_at_once));
        land->slots[landing->slots[i]].landing = (uint16_t)(landing->index + 1);
        land->slots[landing->slots[i]].place = (uint16_t)i;
    }
}

/* Chunks may have come before their segment: layers are counted from the bits. */
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
            /* Which rail it came over was not kept: one that this transfer uses. */
            chunk_arrived(land, landing, segment, landing->counts[0].rail, chunk);
        }
        if (chunks.chunk_count == 0)
            land_tell(land, landing, LAND_LAYER, segment->segment, i, NULL);
    }
    land_stage_room(land, landing);
}

static void filter(struct land *land, const struct landing *landing, struct landing_filter *filter)
{
    const struct kvr_chunk_run *asked = &filter->runs[filter->capacity];

    filter->run_count = 0;
    for (uint32_t i = 0; i < filter->asked_count; i++) {
        for (uint32_t k = 0; k < asked[i].chunk_count; k++) {
            uint32_t chunk = asked[i].chunk_first + k;
            struct kvr_chunk_run *last = &filter->runs[filter->run_count];

            if (bit_get(landing, chunk))
                continue;
            if (filter->run_count > 0 && chunk == last[-1].chunk_first + last[-1].chunk_count) {
                last[-1].chunk_count++;
                continue;
            }
            assert(filter->run_count < filter->capacity);
            *last = (struct kvr_chunk_run){.chunk_first = chunk, .chunk_count = 1};
            filter->run_count++;
        }
    }
    land_tell(land, landing, LAND_FILTERED, 0, 0, filter);
}

/* Bits that no chunk of the transfer has would make it look complete too early. */
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
            doom_tell(land, landing, LAND_BAD);
            return;
        }
    }
    check_all(land, landing);
}

static void digest_add(struct landing *landing, struct landing_digest *digest)
{
    KVR_LIST_APPEND(landing->digest_first, landing->digest_last, digest, next);
}

static void landing_closed(struct land *land, struct landing *landing)
{
    if (landing->stage != NULL)
        land_stage_close(land, landing);
    land->landings[landing->index] = NULL;
    land->open_count--;
    if (landing->quiet != NULL)
        land_tell(land, landing, LAND_QUIET_TAKEN, 0, 0, landing->quiet);
    land_tell(land, landing, LAND_CLOSED, landing->arrivals, landing->rails, landing);
}

void land_check(struct land *land, struct landing *landing)
{
    check_all(land, landing);
    check_quiet(land, landing);
    if (landing->closing && landing->copying == 0)
        landing_closed(land, landing);
}

static void landing_close(struct land *land, struct landing *landing)
{
    land_verify_remove(land, landing);
    for (uint32_t i = 0; i < landing->slot_count; i++)
        if (land->slots[landing->slots[i]].landing == landing->index + 1)
            land->slots[landing->slots[i]].landing = 0;
    landing->closing = true;
    if (landing->copying == 0)
        landing_closed(land, landing);
}

/* Those that are not for a landing of ours. */
static bool group_command(struct land *land, kvr_ns now, const struct kvr_group_message *message)
{
    switch (message->kind) {
    case LAND_OPEN:
        landing_open(land, message->pointer);
        return true;
    case LAND_HANDED:
        land_arrived(land, now, (uint32_t)message->a, (uint32_t)message->b, (uint32_t)message->c);
        return true;
    case LAND_EPOCH_CLOSED:
        epoch_close(land, (uint32_t)message->a, (uint32_t)message->b);
        return true;
    default:
        return land_guest_command(land, message);
    }
}

static void land_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    struct land *land = self;
    struct landing *landing =
        message->index < KVR_TRANSFERS_MAX ? land->landings[message->index] : NULL;

    if (group_command(land, now, message))
        return;
    assert(landing != NULL);
    switch (message->kind) {
    case LAND_SEGMENT:
        segment_add(land, landing, message->pointer);
        break;
    case LAND_FINAL:
        final(land, landing, (uint32_t)message->a);
        break;
    case LAND_QUIET:
        quiet_replace(land, landing, message->pointer);
        break;
    case LAND_LOUD:
        quiet_replace(land, landing, NULL);
        break;
    case LAND_FILTER:
        filter(land, landing, message->pointer);
        break;
    case LAND_SUSPECTS:
        suspects(land, landing, now, message->a, message->b != 0);
        break;
    case LAND_DIGEST:
        digest_add(landing, message->pointer);
        break;
    case LAND_VERIFY:
        land_verify_add(land, landing);
        break;
    case LAND_CLOSE:
        landing_close(land, landing);
        break;
    default:
        assert(false); /* our own loop sends nothing else */
    }
}

/* ---- what the group tells -------------------------------------------------------------------- */

static void land_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)self, (void)now, (void)token, (void)count, (void)status; /* a target writes nothing */
}

/* Of its bytes any part is in place. It is counted in doubt, as it left no bit, by which its coming
 * again would show; for another group's landing not at all. Either way that epoch has to end. */
static void land_unmoved(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint32_t immediate)
{
    struct land *land = self;
    uint32_t slot = immediate >> 16, landing_index = land->slots[slot].landing;
    struct landing *landing;

    if (slot == 0 || landing_index == 0 || landing_index == LAND_ELSEWHERE)
        return;
    if (KVR_MUTANT(unmoved_counted)) {
        land_arrived(self, now, rail, epoch, immediate);
        return;
    }
    landing = land->landings[landing_index - 1];
    land->arrived_at[landing->peer][rail] = now;
    count_arrival(landing, rail, epoch, true);
    land_copy_failed(land, landing);
    check_quiet(land, landing);
}

static void land_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    struct land *land = self;

    (void)now;
    epoch_close(land, rail, epoch);
    land_epoch_mark(land, rail, epoch);
}

static bool land_work(void *self, kvr_ns now)
{
    struct land *land = self;
    bool progress;

    land->now = now;
    progress = land_stage_take(land);
    progress = land_verify_work(land) || progress; /* before what arrives has taken every copy */
    return land_stage_begin(land) || progress;
}

static bool land_expecting(void *self)
{
    return ((const struct land *)self)->open_count > 0;
}

static void land_opened(void *self, struct kvr_group *group)
{
    ((struct land *)self)->group = group;
}

static bool land_copying(void *self)
{
    return land_stage_busy(self);
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
        .posting = land_expecting, /* what arrives after an absence is doubted too */
        .expecting = land_expecting,
        .copying = land_copying,
    };
}
