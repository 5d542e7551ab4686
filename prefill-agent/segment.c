/* The memory of a segment, and its places in the target's staging memory. */
#include "prefill-agent/announce.h"

#include <inttypes.h>

#include "prefill-agent/outbound.h"
#include "prefill-agent/source_transfer.h"

struct push_segment *segment_new(struct outbound *outbound, const struct source_transfer *transfer,
                                 struct kvr_plan *plan)
{
    struct push_segment *segment = kvr_buddy_alloc(outbound->memory, sizeof(*segment));
    uint8_t *where = kvr_buddy_alloc(outbound->memory, plan->chunk_count);
    bool hashes = transfer->digest.mode != KVR_DIGEST_OFF;
    uint64_t *digests =
        hashes ? kvr_buddy_alloc(outbound->memory, plan->chunk_count * sizeof(*digests)) : NULL;

    if (segment == NULL || where == NULL || (hashes && digests == NULL)) {
        kvr_buddy_free(outbound->memory, segment);
        kvr_buddy_free(outbound->memory, where);
        kvr_buddy_free(outbound->memory, digests);
        return NULL;
    }
    memset(segment, 0, sizeof(*segment));
    segment->plan = plan;
    segment->where = where;
    segment->digests = digests;
    return segment;
}

static void segment_free(struct outbound *outbound, struct push_segment *segment)
{
    kvr_plan_free(segment->plan, outbound->memory);
    kvr_buddy_free(outbound->memory, segment->where);
    kvr_buddy_free(outbound->memory, segment->digests);
    kvr_buddy_free(outbound->memory, segment->positions);
    kvr_buddy_free(outbound->memory, segment);
}

void segments_free(struct outbound *outbound, struct push_segment *segment)
{
    while (segment != NULL) {
        struct push_segment *next = segment->next;

        segment_free(outbound, segment);
        segment = next;
    }
}

kvr_status segment_position(struct outbound *outbound, struct source_transfer *transfer,
                            struct push_segment *segment, uint64_t quota_bytes,
                            struct kvr_error *error)
{
    const struct kvr_plan *plan = segment->plan;

    if (plan->chunk_count == 0)
        return KVR_OK;
    segment->positions =
        kvr_buddy_alloc(outbound->memory, plan->chunk_count * sizeof(*segment->positions));
    if (segment->positions == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "plan",
                             "no memory for the places of a segment's writes");
    if (!kvr_plan_positions(plan, quota_bytes, &transfer->announce.position_end,
                            segment->positions))
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "%" PRIu64 " bytes of staging memory are less than one write",
                             quota_bytes);
    return KVR_OK;
}
