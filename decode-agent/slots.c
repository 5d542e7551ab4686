/* Slots and bitmaps: reserved for all of a fetch at once, so that a fetch that began can end, and
 * for the oldest fetch first (rule 6).
 *
 * state    | COUNTED | QUEUED | RESERVED | WITHDRAWN
 * ---------|---------|--------|----------|----------
 * UNKNOWN  | COUNTED | -      | -        | =
 * COUNTED  | -       | QUEUED | -        | =
 * QUEUED   | -       | =      | RESERVED | COUNTED
 * RESERVED | -       | -      | -        | =
 *
 * A slot goes back when its transfer closes, not when its fetch ends (rule 5). */
#include "decode-agent/slots.h"

#include <inttypes.h>

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"

KVR_STATE_TABLE(slots, SLOTS) = {
    /* COUNTED, QUEUED, RESERVED, WITHDRAWN */
    [SLOTS_UNKNOWN] = {SLOTS_COUNTED, NEVER, NEVER, SLOTS_UNKNOWN},
    [SLOTS_COUNTED] = {NEVER, SLOTS_QUEUED, NEVER, SLOTS_COUNTED},
    [SLOTS_QUEUED] = {NEVER, SLOTS_QUEUED, SLOTS_RESERVED, SLOTS_COUNTED},
    [SLOTS_RESERVED] = {NEVER, NEVER, NEVER, SLOTS_RESERVED},
};

/* ---- how many -------------------------------------------------------------------------------- */

/* Chunks of one KV group. Before the source's regions are known, its pages count as being like the
 * target's. */
static uint64_t chunks_needed(const struct fetch *fetch, const struct transfer *transfer,
                              uint32_t group)
{
    const struct kvr_page_table *ours = &fetch->pages.groups[group];
    const struct kvr_region_set *remote = transfer->intake.remote;
    struct kvr_plan_input input = kvr_region_sets_input(remote, fetch->set, group);
    uint32_t page_tokens, page_limit, pages, segments;

    if (ours->page_tokens == 0 || fetch->skips[group] == fetch->tokens ||
        (remote != NULL && !kvr_region_set_group(remote, group, &page_tokens, &page_limit)))
        return 0;
    input.limits = (struct kvr_plan_limits){1, 1, transfer->link.limits.chunk_bytes_max};
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
    kvr_buddy_free(inbound->memory, transfer->slots.bits);
    transfer->slots.bits = NULL;
}

static bool bits_take(struct inbound *inbound, const struct fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer == NULL || transfer->slots.needed == 0)
            continue;
        transfer->slots.bits =
            kvr_buddy_alloc(inbound->memory, (size_t)transfer->slots.needed * KVR_SLOT_CHUNKS / 8);
        if (transfer->slots.bits != NULL)
            continue;
        while (i-- > 0)
            if ((transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i])) != NULL)
                bits_free(inbound, transfer);
        return false;
    }
    return true;
}

/* Of the half that has rested longest, any: a late write of a slot's last transfer meets an idle
 * slot, and a stranger cannot know which slots are in use (rule 5). */
static uint16_t slot_draw(struct inbound *inbound)
{
    uint32_t places = inbound->options.slot_last, first = inbound->free_first;
    uint32_t resting = places - inbound->options.slot_count + inbound->free_count;
    uint64_t random = inbound->ports->random(inbound->ports->self);
    uint16_t *drawn = &inbound->free_slots[(first + random % ((resting + 1) / 2)) % places], slot;

    if (KVR_MUTANT(slots_not_random) || KVR_MUTANT(slot_reused_at_once))
        drawn = &inbound->free_slots[first];
    slot = *drawn;
    *drawn = inbound->free_slots[first];
    inbound->free_first = (first + 1) % places;
    inbound->free_count--;
    return slot;
}

static void slots_take(struct inbound *inbound, struct transfer *transfer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        transfer->slots.numbers[transfer->slots.count++] = slot_draw(inbound);
}

/* A need beyond all slots is refused: the fetch, and all behind it in the queue, would wait for
 * ever. */
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

static uint64_t slots_total(const struct inbound *inbound, const struct fetch *fetch)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        const struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        total += transfer != NULL ? transfer->slots.needed : 0;
    }
    return total;
}

kvr_status slots_refine(struct inbound *inbound, struct transfer *transfer, struct kvr_error *error)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint64_t needed = slots_needed(fetch, transfer), more = 0;
    kvr_status status;

    if (needed <= transfer->slots.needed)
        return KVR_OK;
    more = needed - transfer->slots.needed;
    status = slots_check(inbound, needed, slots_total(inbound, fetch) + more, error);
    if (status != KVR_OK)
        return status;
    if (fetch->slots.state == SLOTS_RESERVED) {
        uint64_t *bits = kvr_buddy_alloc(inbound->memory, (size_t)needed * KVR_SLOT_CHUNKS / 8);

        if (bits == NULL || more > inbound->free_count) {
            kvr_buddy_free(inbound->memory, bits);
            return kvr_error_set(error, KVR_FULL, "plan",
                                 "with the source's pages it may need %" PRIu64
                                 " slots more than were reserved, and %u are free",
                                 more, inbound->free_count);
        }
        bits_free(inbound, transfer);
        transfer->slots.bits = bits;
        slots_take(inbound, transfer, (uint32_t)more);
    }
    transfer->slots.needed = (uint32_t)needed;
    return KVR_OK;
}

void slots_release(struct inbound *inbound, struct transfer *transfer)
{
    uint32_t places = inbound->options.slot_last;

    for (uint32_t i = 0; i < transfer->slots.count; i++) {
        uint32_t at =
            (inbound->free_first + places - inbound->options.slot_count + inbound->free_count) %
            places;

        if (KVR_MUTANT(slot_reused_at_once))
            at = inbound->free_first = (inbound->free_first + places - 1) % places;
        inbound->free_slots[at] = transfer->slots.numbers[i];
        inbound->free_count++;
    }
    if (transfer->slots.count > 0) {
        transfer->slots.count = 0;
        slots_advance(inbound);
    }
}

bool slots_count(struct inbound *inbound, struct fetch *fetch)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);
        uint64_t needed = slots_needed(fetch, transfer);
        struct kvr_error error;

        total += needed;
        if (slots_check(inbound, needed, total, &error) != KVR_OK) {
            fetch_fail(inbound, fetch, error.status, error.detail);
            return false;
        }
        transfer->slots.needed = (uint32_t)needed;
    }
    slots_on(&fetch->slots.state, SLOTS_ON_COUNTED);
    return true;
}

/* For the whole fetch at once, so that no two fetches wait for each other. False: not yet. */
static bool slots_reserve(struct inbound *inbound, struct fetch *fetch)
{
    if (slots_total(inbound, fetch) > inbound->free_count || !bits_take(inbound, fetch))
        return false;
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL)
            slots_take(inbound, transfer, transfer->slots.needed);
    }
    return true;
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* Behind older fetches. */
static void queue_add(struct inbound *inbound, struct fetch *fetch)
{
    uint64_t *link = &inbound->waiting_first;
    struct fetch *at;

    if (fetch->slots.state == SLOTS_QUEUED)
        return;
    while ((at = kvr_pool_get(&inbound->fetches, *link)) != NULL && at->serial < fetch->serial)
        link = &at->slots.next;
    slots_on(&fetch->slots.state, SLOTS_ON_QUEUED);
    fetch->slots.next = *link;
    *link = fetch->id;
}

static void queue_remove(struct inbound *inbound, const struct fetch *fetch)
{
    uint64_t *link = &inbound->waiting_first;

    while (*link != fetch->id)
        link = &((struct fetch *)kvr_pool_get(&inbound->fetches, *link))->slots.next;
    *link = fetch->slots.next;
}

void slots_withdraw(struct inbound *inbound, struct fetch *fetch)
{
    if (fetch->slots.state == SLOTS_QUEUED)
        queue_remove(inbound, fetch);
    slots_on(&fetch->slots.state, SLOTS_ON_WITHDRAWN);
}

static void grant_all(struct inbound *inbound, const struct fetch *fetch)
{
    uint64_t id = fetch->id;

    for (uint32_t i = 0; kvr_pool_get(&inbound->fetches, id) != NULL && i < fetch->transfer_count;
         i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL && transfer->state == T_WANTED && transfer->intake.segments != NULL)
            transfer_grant(inbound, transfer);
    }
}

/* No fetch passes the oldest: small ones do not starve a large one. */
void slots_advance(struct inbound *inbound)
{
    struct fetch *fetch;

    while ((fetch = kvr_pool_get(&inbound->fetches, inbound->waiting_first)) != NULL &&
           slots_reserve(inbound, fetch)) {
        queue_remove(inbound, fetch);
        slots_on(&fetch->slots.state, SLOTS_ON_RESERVED);
        grant_all(inbound, fetch);
    }
}

void slots_want(struct inbound *inbound, struct fetch *fetch)
{
    if (fetch->slots.state == SLOTS_RESERVED) {
        grant_all(inbound, fetch);
        return;
    }
    queue_add(inbound, fetch);
    slots_advance(inbound);
}
