/* Planted bugs: what proves that the simulator would find such a bug if it were there.
 *
 * `if (KVR_MUTANT(done_one_chunk_early))` is false at compile time, unless the build was made with
 * -DKVRAIL_MUTANTS=ON; then the one that `kvrail sim --mutant NAME` planted is true. */
#ifndef KVR_BASE_MUTANT_H
#define KVR_BASE_MUTANT_H

#include <stdbool.h>
#include <stdio.h>

#ifdef KVRAIL_MUTANTS

/* X(name, the rule of the design that it breaks) */
#define KVR_MUTANT_LIST(X)                                                                         \
    X(source_free_before_completion, "rule 2: SOURCE_FREE waits for every accepted post")          \
    X(second_posting_without_missing, "rule 3: only MISSING permits a second posting")             \
    X(done_while_tainted, "rule 3: tainted transfers wait until every epoch is quiet")             \
    X(free_before_quiet, "rule 4: failed transfers hold their pages until quiet")                  \
    X(slot_reused_at_once, "rule 5: slots are reused oldest first, after the fence")               \
    X(count_instead_of_bits, "rule 3: a bit a chunk")                                              \
    X(done_one_chunk_early, "rule 6: DONE needs all bits")                                         \
    X(digest_not_compared, "rule 6: DONE needs the digest, where asked")                           \
    X(post_after_waking, "rule 8: after an absence a round trip comes before a post")              \
    X(old_generation_accepted, "rule 9: what names an old generation is refused")

typedef enum kvr_mutant {
    KVR_MUTANT_none,
#define X(name, rule) KVR_MUTANT_##name,
    KVR_MUTANT_LIST(X)
#undef X
} kvr_mutant;

extern kvr_mutant kvr_mutant_planted;
#define KVR_MUTANT(name) (kvr_mutant_planted == KVR_MUTANT_##name)

#else
#define KVR_MUTANT(name) false
#endif

/* False: there is no such mutant in this build. */
bool kvr_mutant_plant(const char *name);
/* A line for each: its name and its rule. */
void kvr_mutants_list(FILE *file);

#endif
