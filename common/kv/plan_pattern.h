/* How a segment's pages become runs, batches and chunks, for one page size and one pair of strides.
 * Private to common/kv. Pure. */
#ifndef KVR_KV_PLAN_PATTERN_H
#define KVR_KV_PLAN_PATTERN_H

#include "kv/plan.h"

/* One logical page, at both ends. */
struct kvr_plan_pair {
    uint32_t source_page, target_page;
};

/* By target page; scratch is as large as pairs. */
void kvr_plan_pairs_sort(struct kvr_plan_pair *pairs, struct kvr_plan_pair *scratch,
                         uint32_t pair_count);

/* page_bytes and the strides of *pattern are given; the counts are computed. Where runs and batches
 * are not NULL they are written too: call once to count, once to fill. Pairs are sorted by target.
 * KVR_TOO_LARGE: more than 2^32 - 1 chunks. */
KVR_MUST_CHECK kvr_status kvr_plan_pattern_build(const struct kvr_plan_pair *pairs,
                                                 uint32_t pair_count,
                                                 const struct kvr_plan_limits *limits,
                                                 struct kvr_plan_pattern *pattern,
                                                 struct kvr_error *error);

#endif
