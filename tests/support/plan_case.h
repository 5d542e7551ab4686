/* Random pairs of layouts with page tables, that a plan can be made for: what the property test of
 * plans runs on. The same seed gives the same case. */
#ifndef KVR_TESTS_PLAN_CASE_H
#define KVR_TESTS_PLAN_CASE_H

#include "base/rng.h"
#include "kv/plan.h"

#define PLAN_CASE_PAGES   64
#define PLAN_CASE_REGIONS 24
#define PLAN_CASE_ALL     (1u << 30) /* tokens of a state's page */
#define PLAN_CASE_BYTES   (4u << 20) /* of one side at most, gaps and unused pages included */

/* The regions of one side, which lie one after the other in a flat memory. */
struct plan_case_side {
    struct kvr_region_layout regions[PLAN_CASE_REGIONS];
    uint64_t starts[PLAN_CASE_REGIONS];
    uint32_t region_count;
    uint64_t bytes;
    uint32_t pages[PLAN_CASE_PAGES]; /* from the one that holds the case's first token */
    uint32_t page_count;
    uint32_t page_tokens; /* of a state's one page: more than any case has */
};

struct plan_case {
    struct kvr_rng rng; /* for what the test wants to choose itself */
    struct plan_case_side source, target;
    bool state;                  /* one page a request */
    struct kvr_plan_input input; /* points into the sides */
};

void plan_case_make(uint64_t seed, struct plan_case *ret_case);

#endif
