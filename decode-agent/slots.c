/* Slots and bitmaps: reserved for all of a fetch at once, so that what was begun can end, and to
 * the oldest fetch first (rule 6). */
#include <assert.h>
#include <inttypes.h>

#include "base/mutant.h"
#include "decode-agent/inbound.h"

/* Of one group. Until the source has told its regions, its pages are taken to be like the target's.
 */
static uint64_t chunks_needed(const struct fetch *fetch, const struct transfer *transfer,
                              uint32_t group)
{
    const struct kvr_page_table *ours = &fetch->pages.groups[group];
    const struct kvr_region_set *remote = transfer->remote;
    const struct kvr_plan_input input = {
        .source_layouts = remote != NULL ? remote->layouts : NULL,
        .source_layout_count = remote != NULL ? remote->count : 0,
        .target_layouts = fetch->set->layouts,
        .target_layout_count = fetch->set->count,
        .group = group,
        .limits = {1, 1, transfer->limits.chunk_bytes_max},
    };
    uint32_t page_tokens, page_limit, pages, segments;

    if (ours->page_tokens == 0 || fetch->skips[group] == fetch->tokens ||
        (remote != NULL && !kvr_region_set_group(remote, group, &page_tokens, &page_limit)))
        return 0;
    pages = ours->capacity - (uint32_t)(fetch->skips[group] / ours->page_tokens);
    segments = pages < KVR_SEGMENTS_MAX ? pages : KVR_SEGMENTS_MAX;
    return kvr_plan_chunks_max(&input, (uint64_t)pages * ours->page_tokens, segments);
}

static uint64_t slots_needed(const struct fetch *fetch, const struct transfer *transfer)
{
    uint64_t chunks = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        if (__builtin_add_overflow(chunks, chunks_needed(fetch, transfer, group), &chunks))
            chunks = UINT64_MAX;
    return chunks / KVR_SLOT_CHUNKS + (chunks % KVR_SLOT_CHUNKS != 0);
}

static void bits_free(struct inbound *inbound, struct transfer *transfer)
{
    kvr_buddy_free(inbound->memory, transfer->bits);
    transfer->bits = NULL;
}

static bool bits_take(struct inbound *inbound, const struct fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer == NULL || transfer->slots_needed == 0)
            continue;
        transfer->bits =
            kvr_buddy_alloc(inbound->memory, (size_t)transfer->slots_needed * KVR_SLOT_CHUNKS / 8);
        if (transfer->bits != NULL)
            continue;
        for (uint32_t k = 0; k < i; k++) {
            transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[k]);
            if (transfer != NULL)
                bits_free(inbound, transfer);
        }
        return false;
    }
    return true;
}

static void slots_take(struct inbound *inbound, struct transfer *transfer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        transfer->slots[transfer->slot_count + i] = inbound->free_slots[inbound->free_first];
        inbound->free_first = (inbound->free_first + 1) % inbound->options.slot_count;
    }
    inbound->free_count -= count;
    transfer->slot_count += count;
}

/* Of one transfer, and of the whole fetch: else it would wait for what never comes, and everybody
 * behind it. */
static kvr_status slots_check(const struct inbound *inbound, uint64_t needed, uint64_t total,
                              struct kvr_error *error)
{
    if (needed <= KVR_TRANSFER_SLOTS_MAX && total <= inbound->options.slot_count)
        return KVR_OK;
    return kvr_error_set(error, KVR_TOO_LARGE, "plan",
                         "it may need %" PRIu64
                         " slots of 65,536 writes; the agent has %u and gives one transfer at most "
                         "%u: fetch fewer tokens at once, or raise --slots",
                         total, inbound->options.slot_count, KVR_TRANSFER_SLOTS_MAX);
}

/* What its transfers are known to need. */
static uint64_t slots_total(const struct inbound *inbound, const struct fetch *fetch)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        const struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        total += transfer != NULL ? transfer->slots_needed : 0;
    }
    return total;
}

kvr_status slots_refine(struct inbound *inbound, struct transfer *transfer, struct kvr_error *error)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint64_t needed = slots_needed(fetch, transfer), more = 0;
    kvr_status status;

    if (needed <= transfer->slots_needed)
        return KVR_OK;
    more = needed - transfer->slots_needed;
    status = slots_check(inbound, needed, slots_total(inbound, fetch) + more, error);
    if (status != KVR_OK)
        return status;
    if (fetch->slots_reserved) {
        uint64_t *bits = kvr_buddy_alloc(inbound->memory, (size_t)needed * KVR_SLOT_CHUNKS / 8);

        if (bits == NULL || more > inbound->free_count) {
            kvr_buddy_free(inbound->memory, bits);
            return kvr_error_set(error, KVR_FULL, "plan",
                                 "with the source's pages it may need %" PRIu64
                                 " slots more than were reserved, and %u are free",
                                 more, inbound->free_count);
        }
        bits_free(inbound, transfer);
        transfer->bits = bits;
        slots_take(inbound, transfer, (uint32_t)more);
    }
    transfer->slots_needed = (uint32_t)needed;
    return KVR_OK;
}

void slots_release(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    for (uint32_t i = 0; i < transfer->slot_count; i++) {
        uint32_t at = (inbound->free_first + inbound->free_count) % inbound->options.slot_count;

        if (KVR_MUTANT(slot_reused_at_once))
            at = inbound->free_first = (inbound->free_first + inbound->options.slot_count - 1) %
                                       inbound->options.slot_count;
        inbound->free_slots[at] = transfer->slots[i];
        inbound->free_count++;
    }
    if (transfer->slot_count > 0) {
        transfer->slot_count = 0;
        waiting_advance(inbound, now);
    }
}

bool slots_count(struct inbound *inbound, kvr_ns now, struct fetch *fetch)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);
        uint64_t needed = slots_needed(fetch, transfer);
        struct kvr_error error;

        total += needed;
        if (slots_check(inbound, needed, total, &error) != KVR_OK) {
            fetch_fail(inbound, now, fetch, error.status, error.detail);
            return false;
        }
        transfer->slots_needed = (uint32_t)needed;
    }
    fetch->slots_known = true;
    return true;
}

/* Slots and bitmaps for the whole fetch at once, so that no two fetches wait for each other's.
 * False: not yet. */
static bool slots_reserve(struct inbound *inbound, struct fetch *fetch)
{
    if (slots_total(inbound, fetch) > inbound->free_count || !bits_take(inbound, fetch))
        return false;
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL)
            slots_take(inbound, transfer, transfer->slots_needed);
    }
    fetch->slots_reserved = true;
    return true;
}

/* Behind those that were opened before it. */
static void waiting_add(struct inbound *inbound, struct fetch *fetch)
{
    struct fetch *before = NULL, *at = kvr_pool_get(&inbound->fetches, inbound->waiting_first);

    if (fetch->waiting)
        return;
    for (; at != NULL && at->serial < fetch->serial;
         at = kvr_pool_get(&inbound->fetches, at->next_waiting))
        before = at;
    fetch->waiting = true;
    fetch->next_waiting = at != NULL ? at->id : 0;
    if (before != NULL)
        before->next_waiting = fetch->id;
    else
        inbound->waiting_first = fetch->id;
}

void waiting_remove(struct inbound *inbound, struct fetch *fetch)
{
    struct fetch *before = NULL, *at = kvr_pool_get(&inbound->fetches, inbound->waiting_first);

    if (!fetch->waiting)
        return;
    while (at != fetch) {
        before = at;
        at = kvr_pool_get(&inbound->fetches, at->next_waiting);
    }
    if (before != NULL)
        before->next_waiting = fetch->next_waiting;
    else
        inbound->waiting_first = fetch->next_waiting;
    fetch->waiting = false;
}

static void grant_all(struct inbound *inbound, kvr_ns now, const struct fetch *fetch)
{
    uint64_t id = fetch->id;

    for (uint32_t i = 0; kvr_pool_get(&inbound->fetches, id) != NULL && i < fetch->transfer_count;
         i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL && transfer->state == T_WANTED && transfer->segments != NULL)
            transfer_grant(inbound, now, transfer);
    }
}

/* Oldest first, and nobody passes the oldest: a large fetch is not starved by small ones. */
void waiting_advance(struct inbound *inbound, kvr_ns now)
{
    struct fetch *fetch;

    while ((fetch = kvr_pool_get(&inbound->fetches, inbound->waiting_first)) != NULL &&
           slots_reserve(inbound, fetch)) {
        waiting_remove(inbound, fetch);
        grant_all(inbound, now, fetch);
    }
}

void slots_want(struct inbound *inbound, kvr_ns now, struct fetch *fetch)
{
    if (fetch->slots_reserved) {
        grant_all(inbound, now, fetch);
        return;
    }
    waiting_add(inbound, fetch);
    waiting_advance(inbound, now);
}
