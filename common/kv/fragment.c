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
    bool state = source == 0; /* at both sides: one page, which moves once */
    uint64_t span = state ? 1 : source < target ? source : target;
    uint64_t spans = state ? tokens > 0 : tokens / span, pieces, bytes;
    struct kvr_plan_grid grid = kvr_plan_grid_of(&shape, span);

    if (__builtin_mul_overflow(grid.row_count, grid.fragment_count, &pieces) ||
        __builtin_mul_overflow(pieces, spans, &pieces) ||
        __builtin_mul_overflow(pieces, grid.fragment_bytes, &bytes) ||
        __builtin_add_overflow(fragments->pieces, pieces, &fragments->pieces) ||
        __builtin_add_overflow(fragments->bytes, bytes, &fragments->bytes))
        return kvr_error_set(error, KVR_TOO_LARGE, "fragment",
                             "%" PRIu64 " tokens are more than 2^64 bytes", tokens);
    fragments->source_runs += spans * kvr_plan_grid_runs(&shape, &grid, &shape.source);
    fragments->target_runs += spans * kvr_plan_grid_runs(&shape, &grid, &shape.target);
    if (grid.fragment_bytes < fragments->bytes_min)
        fragments->bytes_min = grid.fragment_bytes;
    return KVR_OK;
}

kvr_status kvr_fragments_count(const struct kvr_plan_input *input, uint64_t tokens,
                               struct kvr_fragments *ret_fragments, struct kvr_error *error)
{
    struct kvr_plan_share share = {.part = KVR_PART_K};
    struct kvr_fragments fragments = KVR_FRAGMENTS_NONE;
    struct kvr_plan_sides sides;
    kvr_status status = kvr_plan_sides_index(input, &sides, error);

    for (; status == KVR_OK && kvr_plan_share_next(&sides, &share); share.part++)
        status = add_share(&share, tokens, &fragments, error);
    if (status == KVR_OK)
        *ret_fragments = fragments;
    return status;
}

void kvr_fragments_add(struct kvr_fragments *sum, const struct kvr_fragments *fragments)
{
    if (fragments->bytes_min < sum->bytes_min)
        sum->bytes_min = fragments->bytes_min;
    sum->pieces += fragments->pieces;
    sum->bytes += fragments->bytes;
    sum->source_runs += fragments->source_runs;
    sum->target_runs += fragments->target_runs;
}

/* ---- ways ------------------------------------------------------------------------------------ */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t in_parts_of(uint64_t whole, uint64_t part)
{
    return whole / part + (whole % part != 0);
}

static uint64_t writes_of(const struct kvr_fragments *fragments,
                          const struct kvr_fragment_policy *policy, bool gathers, bool scatters)
{
    uint32_t pieces_max = gathers || scatters ? KVR_STAGED_PIECES_MAX : KVR_CHUNK_PIECES_MAX;
    uint64_t writes = larger(in_parts_of(fragments->bytes, policy->chunk_bytes_max),
                             in_parts_of(fragments->pieces, pieces_max));

    if (!gathers)
        writes = larger(writes, in_parts_of(fragments->source_runs, policy->pieces_local));
    if (!scatters)
        writes = larger(writes, in_parts_of(fragments->target_runs, policy->pieces_remote));
    return writes;
}

static struct kvr_fragment_way way_of(const struct kvr_fragments *fragments,
                                      const struct kvr_fragment_policy *policy, bool gathers,
                                      bool scatters)
{
    const struct kvr_fragment_costs *costs = &policy->costs;
    struct kvr_fragment_way way = {.writes = writes_of(fragments, policy, gathers, scatters)};
    double posting = (double)way.writes * costs->write, wire, copying, source, target, most;

    if (costs->write <= 0)
        return way;
    wire = (double)fragments->bytes * costs->wire_byte;
    copying = (double)fragments->pieces * costs->copy + (double)fragments->bytes * costs->copy_byte;
    source = target = posting + (costs->processors ? wire : 0);
    if (gathers)
        source += copying;
    else
        source += (double)fragments->source_runs * costs->piece;
    if (scatters)
        target += copying;
    else
        source += (double)fragments->target_runs * costs->piece;
    most = source > target ? source : target;
    way.ns = (uint64_t)(most > wire ? most : wire) + 1;
    return way;
}

/* The best way that copies more than it must; staged.ns 0: there is none. Copying at both ends has
 * to be an eighth faster than copying at one, because copies take time from other work on the host.
 */
static struct kvr_fragment_verdict stage_best(const struct kvr_fragments *fragments,
                                              const struct kvr_fragment_policy *policy)
{
    struct kvr_fragment_verdict best = {.choice = KVR_FRAGMENT_STAGE};

    for (uint32_t ends = 1; ends <= 3; ends++) {
        bool gather = (ends & 1) != 0, scatter = (ends & 2) != 0;
        struct kvr_fragment_way way;

        if ((gather && !policy->may_gather) || (scatter && !policy->may_scatter))
            continue;
        gather = gather || policy->gathers;
        scatter = scatter || policy->scatters;
        way = way_of(fragments, policy, gather, scatter);
        if (best.staged.ns != 0 && best.staged.ns - (ends == 3 ? best.staged.ns / 8 : 0) <= way.ns)
            continue;
        best.staged = way;
        best.gathers = gather;
        best.scatters = scatter;
    }
    return best;
}

static kvr_status refuse(const struct kvr_fragments *fragments,
                         const struct kvr_fragment_policy *policy, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INCOMPATIBLE, "fragment",
                         "these layouts have only %" PRIu64
                         " B in a row at both ends, and fragment_bytes_min is %" PRIu64 " (%" PRIu64
                         " pieces of %" PRIu64 " B in all)",
                         fragments->bytes_min, policy->fragment_bytes_min, fragments->pieces,
                         fragments->bytes);
}

kvr_status kvr_fragments_judge(const struct kvr_fragments *fragments,
                               const struct kvr_fragment_policy *policy,
                               struct kvr_fragment_verdict *ret_verdict, struct kvr_error *error)
{
    struct kvr_fragment_way as_is = way_of(fragments, policy, policy->gathers, policy->scatters);
    struct kvr_fragment_verdict best, verdict = {.choice = KVR_FRAGMENT_WRITE,
                                                 .gathers = policy->gathers,
                                                 .scatters = policy->scatters,
                                                 .direct = as_is};

    *ret_verdict = verdict;
    if (fragments->bytes_min >= policy->fragment_bytes_min)
        return KVR_OK;
    if (policy->gathers && policy->scatters) {
        ret_verdict->choice = KVR_FRAGMENT_STAGE;
        ret_verdict->direct = (struct kvr_fragment_way){.ns = 0};
        ret_verdict->staged = as_is;
        return KVR_OK;
    }
    if (policy->option == KVR_FRAGMENT_REFUSE)
        return refuse(fragments, policy, error);
    best = stage_best(fragments, policy);
    best.direct = as_is;
    verdict.staged = best.staged;
    if (best.staged.ns != 0 &&
        (policy->option == KVR_FRAGMENT_STAGE ||
         (policy->option == KVR_FRAGMENT_AUTO && best.staged.ns < as_is.ns - as_is.ns / 4)))
        verdict = best;
    *ret_verdict = verdict;
    return KVR_OK;
}
