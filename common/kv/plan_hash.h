/* The number by which two agents see that they made the same plan. Private to common/kv. Pure. */
#ifndef KVR_KV_PLAN_HASH_H
#define KVR_KV_PLAN_HASH_H

#include "kv/plan_pages.h"

/* Of what was asked and of what came out, so that two versions that number chunks differently are
 * found out too. Regions enter by their ids, not by their places in the input's arrays. Both agents
 * are little-endian. */
uint64_t kvr_plan_hash(const struct kvr_plan *plan, const struct kvr_plan_input *input,
                       const struct kvr_plan_pages *pages);

#endif
