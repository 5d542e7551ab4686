/* The hash by which two agents check that they made the same plan. Private to common/kv. Pure. */
#ifndef KVR_KV_PLAN_HASH_H
#define KVR_KV_PLAN_HASH_H

#include "kv/plan_pages.h"

/* Hashes the input and the plan, so a version that numbers chunks differently is found too. Regions
 * enter by their ids, not by their places in the input's arrays. Both agents are little-endian. */
uint64_t kvr_plan_hash(const struct kvr_plan *plan, const struct kvr_plan_input *input,
                       const struct kvr_plan_pages *pages);

#endif
