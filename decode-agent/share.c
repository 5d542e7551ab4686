/* Shares of staging memory, where the cards cannot reach an engine's pages, or where a source finds
 * it better to write many fragments at once. Oldest fetch first; a share is given back when nothing
 * can land in it any more.
 *
 * A share has room for all that the transfer may bring, or is a part of the memory through which
 * more goes (room.c): a long request leaves the others' parts to them. A transfer ends with the
 * share that it has and needs no other, so none waits for one that waits for it. */
#include <inttypes.h>
#include <stdio.h>

#include "decode-agent/inbound.h"
#include "kv/fragment.h"

struct kvr_stage *transfer_stage(const struct inbound *inbound, const struct transfer *transfer)
{
    return transfer->scatters ? kvr_region_set_stage(fetch_of(inbound, transfer)->set) : NULL;
}

uint64_t transfer_stage_bytes(const struct inbound *inbound, kvr_ns now,
                              const struct transfer *transfer)
{
    bool may = kvr_region_set_can_stage(fetch_of(inbound, transfer)->set) &&
               now >= inbound->stage_retry_at && inbound->ports->region_stage != NULL;

    return may ? inbound->options.stage_bytes : 0;
}

kvr_status transfer_scatter(struct inbound *inbound, struct transfer *transfer,
                            const struct kvr_msg_plan *plan, struct kvr_error *error)
{
    struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    bool scatter = plan->limits.pieces_remote == KVR_PLAN_ONE_RUN;

    if (scatter == transfer->scatters || (!scatter && transfer_move(transfer)))
        return KVR_OK;
    if (transfer->segments != NULL || !scatter || transfer->stage_bytes == 0)
        return kvr_error_set(error, KVR_MALFORMED, "plan",
                             "the source's writes are %s staging memory, which was not agreed",
                             scatter ? "for" : "not for");
    transfer->scatters = true;
    transfer->stage_waits = kvr_region_set_stage(set) == NULL;
    if (transfer->stage_waits)
        inbound->ports->region_stage(inbound->ports->self, set, transfer->id);
    return KVR_OK;
}

void transfer_stage_opened(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                           kvr_status status)
{
    transfer->stage_waits = false;
    if (transfer_stage(inbound, transfer) != NULL) {
        if (transfer->share_waits && transfer->state == T_WANTED)
            transfer_grant(inbound, now, transfer);
        return;
    }
    inbound->stage_retry_at = now + KVR_STAGE_RETRY_NS;
    if (transfer->state == T_WANTED)
        transfer_fail(inbound, now, transfer, status != KVR_OK ? status : KVR_NO_MEMORY,
                      "the staging memory for its fragments could not be had: see the agent's log");
}

static struct inbound_pool *pool_find(struct inbound *inbound, const struct kvr_stage *stage)
{
    struct inbound_pool *pool = inbound->pools;

    while (pool != NULL && pool->stage != stage)
        pool = pool->next;
    return pool;
}

static struct inbound_pool *pool_make(struct inbound *inbound, const struct kvr_stage *stage)
{
    struct inbound_pool *pool = pool_find(inbound, stage);

    if (pool != NULL)
        return pool;
    pool = kvr_buddy_alloc(inbound->memory, sizeof(*pool));
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof(*pool));
    pool->stage = stage;
    pool->shares.bytes = stage->bytes;
    pool->next = inbound->pools;
    inbound->pools = pool;
    return pool;
}

/* One that nobody has a share of, or waits for, is not kept. */
static void pool_check(struct inbound *inbound, struct inbound_pool *pool)
{
    struct inbound_pool **link = &inbound->pools;

    if (pool->shares.count > 0 || pool->first != NULL)
        return;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    kvr_buddy_free(inbound->memory, pool);
}

/* All that the source's regions share with the target's, of what is fetched of each group. */
static uint64_t share_bound(const struct inbound *inbound, const struct transfer *transfer)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint64_t bytes = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *pages = &fetch->pages.groups[group];
        const struct kvr_plan_input input = {
            .source_layouts = transfer->remote->layouts,
            .source_layout_count = transfer->remote->count,
            .target_layouts = fetch->set->layouts,
            .target_layout_count = fetch->set->count,
            .group = group,
        };
        uint32_t page_tokens, page_limit;
        struct kvr_fragments shared;

        if (pages->page_tokens == 0 || fetch->skips[group] == fetch->tokens ||
            !kvr_region_set_group(transfer->remote, group, &page_tokens, &page_limit) ||
            kvr_fragments_count(&input,
                                (uint64_t)pages->capacity * pages->page_tokens -
                                    fetch->skips[group] + page_tokens,
                                &shared, NULL) != KVR_OK)
            continue; /* of such a group no plan can be made */
        if (__builtin_add_overflow(bytes, shared.bytes, &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

#define PARTS  8u /* a transfer has one of so many at most */
#define WRITES 4u /* but a part has room for so many writes, where the memory has */
#define STEPS  4u /* a ring is written again by such parts of it */

/* Of a transfer that may bring more. */
static uint64_t part_bytes(const struct transfer *transfer, const struct kvr_stage *stage)
{
    uint64_t part = stage->bytes / PARTS, writes = WRITES * transfer->limits.chunk_bytes_max;

    part = part > writes ? part : writes;
    return part < stage->bytes ? part : stage->bytes;
}

uint64_t share_step(const struct transfer *transfer)
{
    uint64_t step = transfer->share_bytes / STEPS;
    /* A source that waits has less room than one write: by then as much more was in the pages. */
    uint64_t step_max = transfer->share_bytes - transfer->limits.chunk_bytes_max;

    if (transfer->share_whole || transfer->share_bytes == 0)
        return 0;
    step = step < step_max ? step : step_max;
    return step > 0 ? step : 1;
}

/* ---- who waits: a queue for each stage ------------------------------------------------------- */

/* Behind those whose fetches were opened earlier. */
static void queue_add(const struct inbound *inbound, struct inbound_pool *pool,
                      struct transfer *transfer)
{
    struct transfer *before = pool->last;

    if (transfer->share_queue != NULL)
        return;
    while (before != NULL &&
           fetch_of(inbound, before)->serial > fetch_of(inbound, transfer)->serial)
        before = before->share_before;
    transfer->share_queue = pool;
    transfer->share_before = before;
    transfer->share_behind = before != NULL ? before->share_behind : pool->first;
    *(before != NULL ? &before->share_behind : &pool->first) = transfer;
    *(transfer->share_behind != NULL ? &transfer->share_behind->share_before : &pool->last) =
        transfer;
}

static void queue_remove(struct transfer *transfer)
{
    struct transfer *before = transfer->share_before, *behind = transfer->share_behind;
    struct inbound_pool *pool = transfer->share_queue;

    if (pool == NULL)
        return;
    *(before != NULL ? &before->share_behind : &pool->first) = behind;
    *(behind != NULL ? &behind->share_before : &pool->last) = before;
    transfer->share_queue = NULL;
}

/* Somebody whose fetch was opened earlier waits for the same memory. */
static bool passes(const struct inbound *inbound, const struct inbound_pool *pool,
                   const struct transfer *transfer)
{
    return pool->first != NULL &&
           fetch_of(inbound, pool->first)->serial < fetch_of(inbound, transfer)->serial;
}

bool share_take(struct inbound *inbound, kvr_ns now, struct transfer *transfer)
{
    const struct kvr_stage *stage = transfer_stage(inbound, transfer);
    uint64_t bound = transfer->scatters ? share_bound(inbound, transfer) : 0, bytes;
    char detail[KVR_DETAIL_BYTES];
    struct inbound_pool *pool;

    if (bound == 0 || transfer->share_bytes > 0)
        return true;
    if (transfer->stage_waits) {
        transfer->share_waits = true;
        return false;
    }
    bytes = part_bytes(transfer, stage);
    bytes = bytes < bound ? bytes : bound;
    if (bytes < bound && bytes < transfer->limits.chunk_bytes_max) {
        snprintf(detail, sizeof(detail),
                 "one write may need %" PRIu64 " bytes of staging memory, and there are %" PRIu64
                 ": raise --staging-memory, or lower --chunk-bytes-max",
                 transfer->limits.chunk_bytes_max, stage->bytes);
        transfer_fail(inbound, now, transfer, KVR_TOO_LARGE, detail);
        return false;
    }
    pool = pool_make(inbound, stage);
    if (pool == NULL) {
        transfer_fail(inbound, now, transfer, KVR_NO_MEMORY,
                      "the agent's memory for tables is used up");
        return false;
    }
    transfer->share_waits = passes(inbound, pool, transfer) ||
                            !kvr_staging_pool_take(&pool->shares, bytes, &transfer->share_offset);
    if (transfer->share_waits) {
        queue_add(inbound, pool, transfer);
        return false;
    }
    queue_remove(transfer);
    transfer->share_bytes = transfer->room = bytes;
    transfer->share_whole = bytes == bound;
    return true;
}

void share_give(struct inbound *inbound, struct transfer *transfer)
{
    struct inbound_pool *pool = transfer->share_queue;

    if (transfer->share_bytes > 0) {
        pool = pool_find(inbound, transfer_stage(inbound, transfer));
        kvr_staging_pool_give(&pool->shares, transfer->share_offset);
        transfer->share_bytes = 0;
    }
    queue_remove(transfer);
    if (pool != NULL)
        pool_check(inbound, pool);
}

/* Oldest first, until one finds no room. A grant may fail, and take the pool with it. */
static void pool_advance(struct inbound *inbound, kvr_ns now, const struct kvr_stage *stage)
{
    struct inbound_pool *pool;
    uint64_t last = 0;

    while ((pool = pool_find(inbound, stage)) != NULL && pool->first != NULL &&
           pool->first->id != last) {
        last = pool->first->id;
        transfer_grant(inbound, now, pool->first);
    }
}

static struct inbound_pool *pool_not_looked(const struct inbound *inbound)
{
    struct inbound_pool *pool = inbound->pools;

    while (pool != NULL && pool->looked == inbound->share_looks)
        pool = pool->next;
    return pool;
}

void shares_advance(struct inbound *inbound, kvr_ns now)
{
    struct inbound_pool *pool;

    inbound->share_looks++;
    while ((pool = pool_not_looked(inbound)) != NULL) {
        pool->looked = inbound->share_looks;
        pool_advance(inbound, now, pool->stage);
    }
}

kvr_status segment_positions(struct inbound *inbound, struct transfer *transfer,
                             struct landing_segment *segment, struct kvr_error *error)
{
    const struct kvr_plan *plan = segment->plan;
    uint64_t *positions = NULL;

    if (transfer->share_bytes > 0 && plan->chunk_count > 0) {
        positions = kvr_buddy_alloc(inbound->memory, plan->chunk_count * sizeof(*positions));
        if (positions == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "plan",
                                 "the agent's memory for tables is used up");
        if (!kvr_plan_positions(plan, transfer->share_bytes, &transfer->position_end, positions) ||
            (transfer->share_whole && transfer->position_end > transfer->share_bytes)) {
            kvr_buddy_free(inbound->memory, positions);
            return kvr_error_set(error, KVR_MALFORMED, "plan",
                                 "a write longer than the source's limits, or more bytes than its "
                                 "regions share");
        }
    }
    segment->positions = positions;
    segment->position_end = transfer->position_end;
    return KVR_OK;
}
