/* Hashing what landed, a slice at a time: the group thread goes on reading its rails in between.
 * Where it was staged, what lies in the pages is copied back first. */
#include "base/mutant.h"
#include "decode-agent/land.h"
#include "kv/chunk_digest.h"

#define SLICE_BYTES (512u << 10)

void land_verify_add(struct land *land, struct landing *landing)
{
    landing->verify.next = NULL;
    landing->verify.under_way = true;
    landing->verify.read_end = landing->stage != NULL ? 0 : UINT32_MAX;
    if (landing->stage != NULL)
        landing->quiet_told = false; /* copies read its pages until it is told again */
    landing->verify.segment = landing->first;
    landing->verify.digest = landing->digest_first;
    if (land->verify_last != NULL)
        land->verify_last->verify.next = landing;
    else
        land->verify_first = landing;
    land->verify_last = landing;
}

void land_verify_remove(struct land *land, const struct landing *landing)
{
    struct landing *before = NULL, *at = land->verify_first;

    if (!landing->verify.under_way)
        return;
    while (at != landing) {
        before = at;
        at = at->verify.next;
    }
    at->verify.under_way = false;
    if (before != NULL)
        before->verify.next = at->verify.next;
    else
        land->verify_first = at->verify.next;
    if (land->verify_last == at)
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
        if (landing->stage != NULL)
            landed = land_staged_at(landing, segment, chunk) + at;
        digest = kvr_chunk_digest(landed, piece.bytes, digest);
        at += piece.bytes;
    }
    *bytes += at;
    return digest;
}

/* The next chunk; true when it was the last, or the first whose bytes are wrong. */
static bool verify_chunk(struct land *land, struct landing *landing, uint64_t *bytes)
{
    uint32_t chunk = landing->verify.chunk;
    const struct landing_digest **told = &landing->verify.digest;

    if (chunk == landing->chunk_total) {
        land_tell(land, landing, LAND_VERIFIED, 0, 0, NULL);
        return true;
    }
    while (chunk - landing->verify.segment->chunk_first >=
           landing->verify.segment->plan->chunk_count)
        landing->verify.segment = landing->verify.segment->next;
    for (; chunk - (*told)->chunk_first >= (*told)->chunk_count; *told = (*told)->next)
        landing->verify.value = 0;
    landing->verify.chunk++;
    if (!kvr_digest_covers(landing->digest, landing->transfer, chunk) ||
        chunk_digest(landing, chunk, bytes) == (*told)->values[landing->verify.value++])
        return false;
    if (KVR_MUTANT(digest_not_compared))
        return false;
    land_tell(land, landing, LAND_CORRUPT, chunk, 0, NULL);
    return true;
}

/* The next chunk's bytes are not known: they lie in memory that only copies reach. */
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

    if (landing == NULL || landing->verify.reading)
        return false;
    if (unread(landing))
        return land_stage_read(land, landing);
    /* A chunk that is not hashed costs a little too. */
    for (uint32_t i = 0; !ended && i < 4096 && bytes < SLICE_BYTES && !unread(landing); i++)
        ended = verify_chunk(land, landing, &bytes);
    if (ended) {
        land_verify_remove(land, landing);
        land_check(land, landing);
    }
    return true;
}
