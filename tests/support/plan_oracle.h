/* The bytes that a plan has to move, found one by one through the formula of a layout: sorted runs
 * of bytes, joined to the fewest pieces. Trying every division of them gives the fewest chunks. */
#ifndef KVR_TESTS_PLAN_ORACLE_H
#define KVR_TESTS_PLAN_ORACLE_H

#include "tests/support/check.h"

#include "tests/support/plan_case.h"

#define ORACLE_PIECES 70000

/* The moved bytes of one (layer, part), in the order of target addresses. Offsets in the flat
 * memories.
 */
struct oracle_run {
    uint64_t source, target, bytes;
};

struct plan_oracle {
    const struct plan_case *of;
    uint64_t seed;      /* of the case, for a failure's sentence */
    uint64_t token_end; /* of the moved tokens */
    /* For each byte of the target's memory, 1 + the source's byte that must come there; 0:
     * untouched. */
    uint32_t expected[PLAN_CASE_BYTES];
    uint64_t expected_bytes;
    struct oracle_run runs[ORACLE_PIECES]; /* the fewest pieces */
    uint32_t run_count;
};
extern struct plan_oracle oracle;

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("KVRAIL_SEED=%llu: not so: %s", (unsigned long long)oracle.seed, #condition); \
    } while (0)

/* The runs of a (layer, part), and their bytes added to those expected. */
void oracle_expect(uint32_t layer, uint32_t part, uint64_t token_first);
/* Of pieces that follow each other: one write can carry them. */
bool oracle_fits(const struct oracle_run *first, uint32_t count);
/* Over all ways to divide the pieces into writes that keep their order. */
uint32_t oracle_fewest_chunks(void);

#endif
