/* Staging memory of transfers, where cards cannot reach an engine's pages, or where a source
 * prefers to write many fragments at once. The oldest fetch comes first. A quota is given back when
 * nothing can land in it any more.
 *
 * state        | STAGE_CLOSED | FULL   | TAKEN_RING | TAKEN_WHOLE | GIVEN_BACK
 * -------------|--------------|--------|------------|-------------|-----------
 * NONE         | AWAITS_STAGE | QUEUED | RING       | WHOLE       | =
 * AWAITS_STAGE | =            | QUEUED | RING       | WHOLE       | NONE
 * QUEUED       | -            | =      | RING       | WHOLE       | NONE
 * RING         | -            | -      | -          | -           | NONE
 * WHOLE        | -            | -      | -          | -           | NONE
 *
 * A ring is a part of the memory through which more bytes go, so that a long request leaves parts
 * to others. A transfer ends with the quota that it has and needs no other: no transfer waits for
 * one that waits for it. */
#include "decode-agent/staging_quota.h"

#include <inttypes.h>
#include <stdio.h>

#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"
#include "kv/fragment.h"

KVR_STATE_TABLE(staging_quota, QUOTA) = {
    /* STAGE_CLOSED, FULL, TAKEN_RING, TAKEN_WHOLE, GIVEN_BACK */
    [QUOTA_NONE] = {QUOTA_AWAITS_STAGE, QUOTA_QUEUED, QUOTA_RING, QUOTA_WHOLE, QUOTA_NONE},
    [QUOTA_AWAITS_STAGE] = {QUOTA_AWAITS_STAGE, QUOTA_QUEUED, QUOTA_RING, QUOTA_WHOLE, QUOTA_NONE},
    [QUOTA_QUEUED] = {NEVER, QUOTA_QUEUED, QUOTA_RING, QUOTA_WHOLE, QUOTA_NONE},
    [QUOTA_RING] = {NEVER, NEVER, NEVER, NEVER, QUOTA_NONE},
    [QUOTA_WHOLE] = {NEVER, NEVER, NEVER, NEVER, QUOTA_NONE},
};

/* ---- the memory of a stage ------------------------------------------------------------------- */

static struct staging_pool *pool_find(struct inbound *inbound, const struct kvr_stage *stage)
{
    struct staging_pool *pool = inbound->pools;

    while (pool != NULL && pool->stage != stage)
        pool = pool->next;
    return pool;
}

static struct staging_pool *pool_make(struct inbound *inbound, const struct kvr_stage *stage)
{
    struct staging_pool *pool = pool_find(inbound, stage);

    if (pool != NULL)
        return pool;
    pool = kvr_buddy_alloc(inbound->memory, sizeof(*pool));
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof(*pool));
    pool->stage = stage;
    pool->quotas.bytes = stage->bytes;
    pool->next = inbound->pools;
    inbound->pools = pool;
    return pool;
}

/* A pool without quotas and without a queue is not kept. */
static void pool_check(struct inbound *inbound, struct staging_pool *pool)
{
    struct staging_pool **link = &inbound->pools;

    if (pool->quotas.count > 0 || pool->first != NULL)
        return;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    kvr_buddy_free(inbound->memory, pool);
}

/* Bytes that may come: the overlap of both sides' regions, over the tokens fetched of each group.
 */
static uint64_t quota_bound(const struct inbound *inbound, const struct transfer *transfer)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint64_t bytes = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *pages = &fetch->pages.groups[group];
        const struct kvr_plan_input input =
            kvr_region_sets_input(transfer->intake.remote, fetch->set, group);
        uint32_t page_tokens, page_limit;
        struct kvr_fragments overlap;

        if (pages->page_tokens == 0 || fetch->skips[group] == fetch->tokens ||
            !kvr_region_set_group(transfer->intake.remote, group, &page_tokens, &page_limit) ||
            kvr_fragments_count(&input,
                                (uint64_t)pages->capacity * pages->page_tokens -
                                    fetch->skips[group] + page_tokens,
                                &overlap, NULL) != KVR_OK)
            continue; /* no plan can be made of such a group */
        if (__builtin_add_overflow(bytes, overlap.bytes, &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

#define PARTS  8u /* of the memory; a ring has one part */
#define WRITES 4u /* that a part holds at least, where the memory does */
#define STEPS  4u /* a ring is written again by such parts of it */

/* A ring. */
static uint64_t part_bytes(const struct transfer *transfer, const struct kvr_stage *stage)
{
    uint64_t part = stage->bytes / PARTS, writes = WRITES * transfer->link.limits.chunk_bytes_max;

    part = part > writes ? part : writes;
    return part < stage->bytes ? part : stage->bytes;
}

uint64_t staging_quota_step(const struct transfer *transfer)
{
    uint64_t step = transfer->quota.bytes / STEPS;
    /* A source that waits has less room than one write. By then the rest is in the pages, and must
     * have been reported. */
    uint64_t step_max = transfer->quota.bytes - transfer->link.limits.chunk_bytes_max;

    if (transfer->quota.state != QUOTA_RING)
        return 0;
    step = step < step_max ? step : step_max;
    return step > 0 ? step : 1;
}

/* ---- a queue for each stage --------------------------------------------------------------- */

/* Behind transfers of older fetches. */
static void queue_add(const struct inbound *inbound, struct staging_pool *pool,
                      struct transfer *transfer)
{
    struct transfer *before = pool->last;

    if (transfer->quota.pool != NULL)
        return;
    while (before != NULL &&
           fetch_of(inbound, before)->serial > fetch_of(inbound, transfer)->serial)
        before = before->quota.before;
    transfer->quota.pool = pool;
    transfer->quota.before = before;
    transfer->quota.behind = before != NULL ? before->quota.behind : pool->first;
    *(before != NULL ? &before->quota.behind : &pool->first) = transfer;
    *(transfer->quota.behind != NULL ? &transfer->quota.behind->quota.before : &pool->last) =
        transfer;
}

static void queue_remove(struct transfer *transfer)
{
    struct transfer *before = transfer->quota.before, *behind = transfer->quota.behind;
    struct staging_pool *pool = transfer->quota.pool;

    if (pool == NULL)
        return;
    *(before != NULL ? &before->quota.behind : &pool->first) = behind;
    *(behind != NULL ? &behind->quota.before : &pool->last) = before;
    transfer->quota.pool = NULL;
}

/* A transfer of an older fetch waits for the same memory. */
static bool must_queue(const struct inbound *inbound, const struct staging_pool *pool,
                       const struct transfer *transfer)
{
    return pool->first != NULL &&
           fetch_of(inbound, pool->first)->serial < fetch_of(inbound, transfer)->serial;
}

bool staging_quota_take(struct inbound *inbound, struct transfer *transfer)
{
    const struct kvr_stage *stage = landing_path_stage(inbound, transfer);
    uint64_t bound = landing_path_staged(&transfer->path) ? quota_bound(inbound, transfer) : 0,
             bytes;
    char detail[KVR_DETAIL_BYTES];
    struct staging_pool *pool;

    if (bound == 0 || transfer->quota.bytes > 0)
        return true;
    if (transfer->path.state == PATH_OPENING) {
        staging_quota_on(&transfer->quota.state, QUOTA_ON_STAGE_CLOSED);
        return false;
    }
    bytes = part_bytes(transfer, stage);
    bytes = bytes < bound ? bytes : bound;
    if (bytes < bound && bytes < transfer->link.limits.chunk_bytes_max) {
        snprintf(detail, sizeof(detail),
                 "one write may need %" PRIu64 " bytes of staging memory, and there are %" PRIu64
                 ": raise --staging-memory, or lower --chunk-bytes-max",
                 transfer->link.limits.chunk_bytes_max, stage->bytes);
        transfer_fail(inbound, transfer, KVR_TOO_LARGE, detail);
        return false;
    }
    pool = pool_make(inbound, stage);
    if (pool == NULL) {
        transfer_fail(inbound, transfer, KVR_NO_MEMORY, "the agent's memory for tables is used up");
        return false;
    }
    if (must_queue(inbound, pool, transfer) ||
        !kvr_staging_pool_take(&pool->quotas, bytes, &transfer->quota.offset)) {
        staging_quota_on(&transfer->quota.state, QUOTA_ON_FULL);
        queue_add(inbound, pool, transfer);
        return false;
    }
    queue_remove(transfer);
    transfer->quota.bytes = transfer->quota.room = bytes;
    staging_quota_on(&transfer->quota.state,
                     bytes == bound ? QUOTA_ON_TAKEN_WHOLE : QUOTA_ON_TAKEN_RING);
    return true;
}

void staging_quota_give(struct inbound *inbound, struct transfer *transfer)
{
    struct staging_pool *pool = transfer->quota.pool;

    if (transfer->quota.bytes > 0) {
        pool = pool_find(inbound, landing_path_stage(inbound, transfer));
        kvr_staging_pool_give(&pool->quotas, transfer->quota.offset);
        transfer->quota.bytes = 0;
    }
    staging_quota_on(&transfer->quota.state, QUOTA_ON_GIVEN_BACK);
    queue_remove(transfer);
    if (pool != NULL)
        pool_check(inbound, pool);
}

/* Oldest first, until one finds no memory. A grant may fail, and free the pool. */
static void pool_advance(struct inbound *inbound, const struct kvr_stage *stage)
{
    struct staging_pool *pool;
    uint64_t last = 0;

    while ((pool = pool_find(inbound, stage)) != NULL && pool->first != NULL &&
           pool->first->id != last) {
        last = pool->first->id;
        transfer_grant(inbound, pool->first);
    }
}

static struct staging_pool *pool_not_visited(const struct inbound *inbound)
{
    struct staging_pool *pool = inbound->pools;

    while (pool != NULL && pool->visited == inbound->quota_rounds)
        pool = pool->next;
    return pool;
}

void staging_quotas_advance(struct inbound *inbound)
{
    struct staging_pool *pool;

    inbound->quota_rounds++;
    while ((pool = pool_not_visited(inbound)) != NULL) {
        pool->visited = inbound->quota_rounds;
        pool_advance(inbound, pool->stage);
    }
}

kvr_status staging_quota_positions(struct inbound *inbound, struct transfer *transfer,
                                   struct landing_segment *segment, struct kvr_error *error)
{
    const struct kvr_plan *plan = segment->plan;
    uint64_t *positions = NULL;

    if (transfer->quota.bytes > 0 && plan->chunk_count > 0) {
        positions = kvr_buddy_alloc(inbound->memory, plan->chunk_count * sizeof(*positions));
        if (positions == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "plan",
                                 "the agent's memory for tables is used up");
        if (!kvr_plan_positions(plan, transfer->quota.bytes, &transfer->quota.position_end,
                                positions) ||
            (transfer->quota.state == QUOTA_WHOLE &&
             transfer->quota.position_end > transfer->quota.bytes)) {
            kvr_buddy_free(inbound->memory, positions);
            return kvr_error_set(error, KVR_MALFORMED, "plan",
                                 "a write longer than the source's limits, or more bytes than its "
                                 "regions share");
        }
    }
    segment->positions = positions;
    segment->position_end = transfer->quota.position_end;
    return KVR_OK;
}
