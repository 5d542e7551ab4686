/* The memory of a segment, and its places in the target's staging memory. */
#ifndef PREFILL_AGENT_SEGMENT_H
#define PREFILL_AGENT_SEGMENT_H

#include "prefill-agent/push.h"

struct outbound;
struct source_transfer;

/* NULL: there is no memory, and the plan stays the caller's. */
struct push_segment *segment_new(struct outbound *outbound, const struct source_transfer *transfer,
                                 struct kvr_plan *plan);
/* The segment and all behind it, with their plans. */
void segments_free(struct outbound *outbound, struct push_segment *segment);
/* Sets where the chunks lie in the target's staging memory, behind those of earlier segments. */
KVR_MUST_CHECK kvr_status segment_position(struct outbound *outbound,
                                           struct source_transfer *transfer,
                                           struct push_segment *segment, uint64_t quota_bytes,
                                           struct kvr_error *error);

#endif
