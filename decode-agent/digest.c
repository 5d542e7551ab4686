/* DIGEST: whether the bytes that landed are the source's (rule 6). */
#include <stdio.h>

#include "decode-agent/inbound.h"
#include "kv/chunk_digest.h"

/* How many of these chunks have a digest. */
static uint32_t covered(const struct transfer *transfer, const struct kvr_msg_digest *digest)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < digest->chunk_count; i++)
        count += kvr_digest_covers(transfer->digest, transfer->nonce, digest->chunk_first + i);
    return count;
}

void digest_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                     const struct kvr_msg_digest *digest)
{
    size_t bytes = digest->value_count * sizeof(digest->values[0]);
    struct landing_digest *kept;

    if (transfer->state != T_LIVE || transfer->digest == KVR_DIGEST_OFF)
        return;
    if (!transfer->final_seen || digest->chunk_first != transfer->digest_end ||
        digest->chunk_count == 0 ||
        digest->chunk_count > transfer->chunk_count - transfer->digest_end ||
        covered(transfer, digest) != digest->value_count) {
        transfer_fail(inbound, now, transfer, KVR_MALFORMED,
                      "the source told digests of other chunks than were asked for");
        return;
    }
    kept = kvr_buddy_alloc(inbound->memory, sizeof(*kept) + bytes);
    if (kept == NULL) {
        transfer_fail(inbound, now, transfer, KVR_NO_MEMORY, "no memory for a transfer's digests");
        return;
    }
    *kept = (struct landing_digest){.chunk_first = digest->chunk_first,
                                    .chunk_count = digest->chunk_count,
                                    .value_count = digest->value_count};
    if (bytes > 0)
        memcpy(kept->values, digest->values, bytes);
    transfer->digest_end += digest->chunk_count;
    inbound_group_command(inbound, transfer, LAND_DIGEST, 0, kept);
    transfer_check_done(inbound, now, transfer);
}

bool transfer_verified(struct inbound *inbound, struct transfer *transfer)
{
    if (transfer->digest == KVR_DIGEST_OFF || transfer->landing == NULL || transfer->verified ||
        transfer->chunk_count == 0)
        return true;
    if (transfer->digest_end < transfer->chunk_count || transfer->verifying)
        return false;
    transfer->verifying = true;
    if (transfer->landing->stage != NULL) {
        transfer->reading = true; /* its pages, until it is quiet once more */
        transfer->quiet = false;
    }
    inbound_group_command(inbound, transfer, LAND_VERIFY, 0, NULL);
    return false;
}

static const struct landing_segment *segment_of(const struct transfer *transfer, uint32_t chunk)
{
    const struct landing_segment *segment = transfer->segments;

    while (chunk - segment->chunk_first >= segment->plan->chunk_count)
        segment = segment->loop_next;
    return segment;
}

void transfer_corrupt(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                      uint32_t chunk)
{
    const struct landing_segment *segment = segment_of(transfer, chunk);
    struct kvr_chunk_run chunks;
    uint32_t index = kvr_plan_layer_index(segment->plan, chunk - segment->chunk_first);
    char detail[KVR_DETAIL_BYTES];

    inbound->digest_mismatches++;
    snprintf(detail, sizeof(detail),
             "chunk %u of %u (layer %u) is not what the source posted: the source's pages changed "
             "after they were announced, or a rail altered bytes",
             chunk, transfer->chunk_count, kvr_plan_layer(segment->plan, index, &chunks));
    transfer_fail(inbound, now, transfer, KVR_DIGEST_MISMATCH, detail);
}
