/* DIGEST: whether the bytes that landed are the source's (rule 6).
 *
 * state    | BEGUN   | BEGUN_STAGED | READ_ENDED | VERIFIED
 * ---------|---------|--------------|------------|---------
 * AWAITING | HASHING | READING      | =          | -
 * HASHING  | -       | -            | =          | VERIFIED
 * READING  | -       | -            | HASHING    | VERIFIED
 * VERIFIED | -       | -            | =          | -
 *
 * The rail thread hashes (land_verify.c). A failure ends the reading; the transfer fails with it.
 */
#include "decode-agent/verify.h"

#include <stdio.h>

#include "decode-agent/sending.h"
#include "kv/chunk_digest.h"

KVR_STATE_TABLE(verify, VERIFY) = {
    /* BEGUN, BEGUN_STAGED, READ_ENDED, VERIFIED */
    [VERIFY_AWAITING] = {VERIFY_HASHING, VERIFY_READING, VERIFY_AWAITING, NEVER},
    [VERIFY_HASHING] = {NEVER, NEVER, VERIFY_HASHING, VERIFY_VERIFIED},
    [VERIFY_READING] = {NEVER, NEVER, VERIFY_HASHING, VERIFY_VERIFIED},
    [VERIFY_VERIFIED] = {NEVER, NEVER, VERIFY_VERIFIED, NEVER},
};

/* How many of these chunks have a digest. */
static uint32_t covered(const struct transfer *transfer, const struct kvr_msg_digest *digest)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < digest->chunk_count; i++)
        count += kvr_digest_covers(transfer->verification.mode, transfer->nonce,
                                   digest->chunk_first + i);
    return count;
}

void digest_received(struct inbound *inbound, struct transfer *transfer,
                     const struct kvr_msg_digest *digest)
{
    size_t bytes = digest->value_count * sizeof(digest->values[0]);
    struct landing_digest *kept;

    if (transfer->state != T_LIVE || transfer->verification.mode == KVR_DIGEST_OFF)
        return;
    if (transfer->intake.state != INTAKE_FINAL ||
        digest->chunk_first != transfer->verification.chunk_end || digest->chunk_count == 0 ||
        digest->chunk_count > transfer->intake.chunk_count - transfer->verification.chunk_end ||
        covered(transfer, digest) != digest->value_count) {
        transfer_fail(inbound, transfer, KVR_MALFORMED,
                      "the source sent digests of other chunks than were asked for");
        return;
    }
    kept = kvr_buddy_alloc(inbound->memory, sizeof(*kept) + bytes);
    if (kept == NULL) {
        transfer_fail(inbound, transfer, KVR_NO_MEMORY, "no memory for a transfer's digests");
        return;
    }
    *kept = (struct landing_digest){.chunk_first = digest->chunk_first,
                                    .chunk_count = digest->chunk_count,
                                    .value_count = digest->value_count};
    if (bytes > 0)
        memcpy(kept->values, digest->values, bytes);
    transfer->verification.chunk_end += digest->chunk_count;
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_DIGEST, .digest = kept));
    transfer_check_done(inbound, transfer);
}

bool transfer_verified(struct inbound *inbound, struct transfer *transfer)
{
    if (transfer->verification.mode == KVR_DIGEST_OFF || transfer->grant.landing == NULL ||
        transfer->verification.state == VERIFY_VERIFIED || transfer->intake.chunk_count == 0)
        return true;
    if (transfer->verification.chunk_end < transfer->intake.chunk_count ||
        transfer->verification.state != VERIFY_AWAITING)
        return false;
    if (transfer->grant.landing->staging.stage != NULL) {
        verify_on(&transfer->verification.state, VERIFY_ON_BEGUN_STAGED);
        trust_on(&transfer->trust.state, TRUST_ON_READ_BACK);
    } else {
        verify_on(&transfer->verification.state, VERIFY_ON_BEGUN);
    }
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_VERIFY));
    return false;
}

static const struct landing_segment *segment_of(const struct transfer *transfer, uint32_t chunk)
{
    const struct landing_segment *segment = transfer->intake.segments;

    while (chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->loop_next;
    return segment;
}

void transfer_corrupt(struct inbound *inbound, struct transfer *transfer, uint32_t chunk)
{
    const struct landing_segment *segment = segment_of(transfer, chunk);
    struct kvr_chunk_run chunks;
    uint32_t index = kvr_plan_layer_index(segment->plan, chunk - segment->chunk_first);
    char detail[KVR_DETAIL_BYTES];

    inbound->digest_mismatches++;
    snprintf(detail, sizeof(detail),
             "chunk %u of %u (layer %u) is not what the source posted: the source's pages changed "
             "after they were announced, or a rail altered bytes",
             chunk, transfer->intake.chunk_count, kvr_plan_layer(segment->plan, index, &chunks));
    transfer_fail(inbound, transfer, KVR_DIGEST_MISMATCH, detail);
}
