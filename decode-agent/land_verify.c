/* Hashing what landed, a slice at a time: the rail thread reads its rails in between. The bytes of
 * a staged landing are copied back from the pages first.
 *
 * state   | QUEUED | READ    | READ_ENDED | REMOVED
 * --------|--------|---------|------------|--------
 * IDLE    | QUEUED | -       | =          | -
 * QUEUED  | -      | READING | -          | IDLE
 * READING | -      | -       | QUEUED     | IDLE
 *
 * A landing that closes leaves the queue while its copy is still under way. */
#include "decode-agent/land.h"

#include "base/list.h"
#include "base/mutant.h"
#include "kv/chunk_digest.h"

#define SLICE_BYTES (512u << 10)

KVR_STATE_TABLE(landing_verify, HASH) = {
    /* QUEUED, READ, READ_ENDED, REMOVED */
    [HASH_IDLE] = {HASH_QUEUED, NEVER, HASH_IDLE, NEVER},
    [HASH_QUEUED] = {NEVER, HASH_READING, NEVER, HASH_IDLE},
    [HASH_READING] = {NEVER, NEVER, HASH_QUEUED, HASH_IDLE},
};

void land_verify_add(struct land *land, struct landing *landing)
{
    landing_verify_on(&landing->verify.state, HASH_ON_QUEUED);
    landing->verify.read_end = landing->staging.stage != NULL ? 0 : UINT32_MAX;
    if (landing->staging.stage != NULL)
        landing_quiet_on(&landing->arrived.state, QUIET_ON_READ_BACK);
    landing->verify.segment = landing->first;
    landing->verify.digest = landing->verify.digests;
    KVR_LIST_APPEND(land->verify_first, land->verify_last, landing, verify.next);
}

void land_verify_remove(struct land *land, struct landing *landing)
{
    struct landing **link = &land->verify_first, *before = NULL;

    if (landing->verify.state == HASH_IDLE)
        return;
    for (; *link != landing; link = &before->verify.next)
        before = *link;
    landing_verify_on(&landing->verify.state, HASH_ON_REMOVED);
    *link = landing->verify.next;
    if (land->verify_last == landing)
        land->verify_last = before;
}

static uint64_t chunk_digest(const struct landing *landing, uint32_t chunk, uint64_t *bytes)
{
    const struct landing_segment *segment = landing->verify.segment;
    struct kvr_plan_cursor cursor;
    uint64_t digest = 0, at = 0;

    kvr_plan_seek(segment->plan, chunk - segment->chunk_first, &cursor);
    for (uint32_t left = kvr_plan_cursor_pieces(&cursor); left > 0; left--) {
        struct kvr_plan_piece piece;
        const uint8_t *landed;

        kvr_plan_next_piece(&cursor, &piece);
        landed = landing->set->locals[piece.target_layout]->base + piece.target_offset;
        if (landing->staging.stage != NULL)
            landed = land_staged_at(landing, segment, chunk) + at;
        digest = kvr_chunk_digest(landed, piece.bytes, digest);
        at += piece.bytes;
    }
    *bytes += at;
    return digest;
}

/* Hashes the next chunk. True: it was the last one, or its bytes are wrong. */
static bool verify_chunk(struct land *land, struct landing *landing, uint64_t *bytes)
{
    uint32_t chunk = landing->verify.chunk;
    const struct landing_digest **digest = &landing->verify.digest;

    if (chunk == landing->chunk_total) {
        land_report(land, landing, LAND_MESSAGE(LAND_VERIFIED));
        return true;
    }
    while (chunk - landing->verify.segment->chunk_first >=
           landing->verify.segment->plan->chunk_count)
        landing->verify.segment = landing->verify.segment->next;
    for (; chunk - (*digest)->chunk_first >= (*digest)->chunk_count; *digest = (*digest)->next)
        landing->verify.value = 0;
    landing->verify.chunk++;
    if (!kvr_digest_covers(landing->digest, landing->transfer, chunk) ||
        chunk_digest(landing, chunk, bytes) == (*digest)->values[landing->verify.value++])
        return false;
    if (KVR_MUTANT(digest_not_compared))
        return false;
    land_report(land, landing, LAND_MESSAGE(LAND_CORRUPT, .chunk = chunk));
    return true;
}

/* The next chunk's bytes were not copied back yet. */
static bool unread(const struct landing *landing)
{
    return landing->verify.chunk == landing->verify.read_end &&
           landing->verify.chunk < landing->chunk_total;
}

bool land_verify_work(struct land *land)
{
    struct landing *landing = land->verify_first;
    uint64_t bytes = 0;
    bool ended = false;

    if (landing == NULL || landing->verify.state == HASH_READING)
        return false;
    if (unread(landing))
        return land_stage_read(land, landing);
    /* A chunk without a digest costs a little too. */
    for (uint32_t i = 0; !ended && i < 4096 && bytes < SLICE_BYTES && !unread(landing); i++)
        ended = verify_chunk(land, landing, &bytes);
    if (ended) {
        land_verify_remove(land, landing);
        land_check(land, landing);
    }
    return true;
}
