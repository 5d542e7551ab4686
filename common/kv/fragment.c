#include "kv/fragment.h"

#include <inttypes.h>

#include "kv/plan_pattern.h"
#include "kv/plan_share.h"

static kvr_status add_share(const struct kvr_plan_share *share, uint64_t tokens,
                            struct kvr_fragments *fragments, struct kvr_error *error)
{
    struct kvr_plan_shape shape =
        kvr_plan_shape_of(share->source, share->target, share->head_count);
    uint64_t source = share->source->page_tokens, target = share->target->page_tokens;
    uint64_t span = source < target ? source : target, spans = tokens / span, pieces, bytes;
    struct kvr_plan_grid grid = kvr_plan_grid_of(&shape, span);

    if (__builtin_mul_overflow(grid.row_count, grid.fragment_count, &pieces) ||
        __builtin_mul_overflow(pieces, spans, &pieces) ||
        __builtin_mul_overflow(pieces, grid.fragment_bytes, &bytes) ||
        __builtin_add_overflow(fragments->pieces, pieces, &fragments->pieces) ||
        __builtin_add_overflow(fragments->bytes, bytes, &fragments->bytes))
        return kvr_error_set(error, KVR_TOO_LARGE, "fragment",
                             "%" PRIu64 " tokens are more than 2^64 bytes", tokens);
    if (grid.fragment_bytes < fragments->bytes_min)
        fragments->bytes_min = grid.fragment_bytes;
    return KVR_OK;
}

kvr_status kvr_fragments_count(const struct kvr_plan_input *input, uint64_t tokens,
                               struct kvr_fragments *ret_fragments, struct kvr_error *error)
{
    struct kvr_plan_share share = {.part = KVR_PART_K};
    struct kvr_fragments fragments = {.bytes_min = UINT64_MAX};
    struct kvr_plan_sides sides;
    kvr_status status = kvr_plan_sides_index(input, &sides, error);

    for (; status == KVR_OK && kvr_plan_share_next(&sides, &share); share.part++)
        status = add_share(&share, tokens, &fragments, error);
    if (status == KVR_OK)
        *ret_fragments = fragments;
    return status;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Posting and the wire go on at the same time; the slower one is what it takes. */
static double write_ns(const struct kvr_fragments *fragments,
                       const struct kvr_fragment_policy *policy)
{
    double writes = (double)fragments->pieces / policy->pieces_a_write;

    return larger(writes * policy->write_ns + (double)fragments->pieces * policy->piece_ns,
                  (double)fragments->bytes * policy->wire_ns_per_byte);
}

/* Both ends copy while the wire moves what was gathered before. */
static double stage_ns(const struct kvr_fragments *fragments,
                       const struct kvr_fragment_policy *policy)
{
    double writes = (double)fragments->bytes / (double)policy->chunk_bytes_max;
    double copies = (double)fragments->pieces * policy->copy_ns +
                    (double)fragments->bytes * policy->copy_ns_per_byte;
    double wire = (double)fragments->bytes * policy->wire_ns_per_byte;

    return larger(copies, larger(writes * policy->write_ns, wire));
}

static bool costs_known(const struct kvr_fragment_policy *policy)
{
    return policy->write_ns > 0 && policy->wire_ns_per_byte > 0 && policy->copy_ns > 0 &&
           policy->copy_ns_per_byte > 0;
}

kvr_status kvr_fragments_judge(const struct kvr_fragments *fragments,
                               const struct kvr_fragment_policy *policy,
                               struct kvr_fragment_verdict *ret_verdict, struct kvr_error *error)
{
    struct kvr_fragment_verdict verdict = {.choice = policy->option};

    if (costs_known(policy)) {
        verdict.write_ns = write_ns(fragments, policy);
        verdict.stage_ns = stage_ns(fragments, policy);
    }
    if (fragments->bytes_min >= policy->fragment_bytes_min) {
        verdict.choice = KVR_FRAGMENT_WRITE;
    } else if (policy->staged) {
        verdict.choice = KVR_FRAGMENT_STAGE;
    } else if (policy->option == KVR_FRAGMENT_REFUSE) {
        return kvr_error_set(error, KVR_INCOMPATIBLE, "fragment",
                             "these layouts have only %" PRIu64
                             " B in a row at both ends, and fragment_bytes_min is %" PRIu64
                             " (%" PRIu64 " pieces of %" PRIu64 " B in all)",
                             fragments->bytes_min, policy->fragment_bytes_min, fragments->pieces,
                             fragments->bytes);
    } else if (policy->option == KVR_FRAGMENT_AUTO) {
        verdict.choice =
            verdict.stage_ns < verdict.write_ns ? KVR_FRAGMENT_STAGE : KVR_FRAGMENT_WRITE;
    }
    *ret_verdict = verdict;
    return KVR_OK;
}
