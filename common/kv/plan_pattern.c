#include "kv/plan_pattern.h"

#include <inttypes.h>

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

/* One pass of a radix sort: stable, by the digit at `shift`. */
static void sort_digit(const struct kvr_plan_pair *from, struct kvr_plan_pair *to, uint32_t count,
                       uint32_t shift)
{
    uint32_t places[DIGITS] = {0}, place = 0;

    for (uint32_t i = 0; i < count; i++)
        places[from[i].target_page >> shift & (DIGITS - 1)]++;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t digit_count = places[digit];

        places[digit] = place;
        place += digit_count;
    }
    for (uint32_t i = 0; i < count; i++)
        to[places[from[i].target_page >> shift & (DIGITS - 1)]++] = from[i];
}

void kvr_plan_pairs_sort(struct kvr_plan_pair *pairs, struct kvr_plan_pair *scratch,
                         uint32_t pair_count)
{
    struct kvr_plan_pair *from = pairs, *to = scratch, *swap;
    uint32_t bits = 0;

    for (uint32_t i = 0; i < pair_count; i++)
        bits |= pairs[i].target_page;
    for (uint32_t shift = 0; shift < 32 && bits >> shift != 0; shift += DIGIT_BITS) {
        sort_digit(from, to, pair_count, shift);
        swap = from;
        from = to;
        to = swap;
    }
    if (from != pairs)
        memcpy(pairs, from, (size_t)pair_count * sizeof(*pairs));
}

struct builder {
    struct kvr_plan_pattern *pattern;
    uint64_t bytes_max;
    uint32_t pieces_max;
    struct kvr_plan_batch open; /* what is being gathered; empty when run_count is 0 */
    uint64_t open_bytes, chunk_count;
};

static void close_batch(struct builder *builder, uint64_t chunk_count)
{
    struct kvr_plan_pattern *pattern = builder->pattern;

    if (pattern->batches != NULL)
        pattern->batches[pattern->batch_count] = builder->open;
    pattern->batch_count++;
    builder->chunk_count += chunk_count;
    builder->open.run_count = 0;
}

/* Runs come in the target's order; each joins the open batch, or closes it and opens the next.
 * Greedy is fewest, because whatever fits in one write still does with runs taken off either end.
 */
static void add_run(struct builder *builder, const struct kvr_plan_run *run)
{
    struct kvr_plan_pattern *pattern = builder->pattern;
    uint64_t bytes = run->page_count * pattern->page_bytes, bytes_max = builder->bytes_max;

    if (builder->open.run_count > 0 && builder->open.run_count < builder->pieces_max &&
        bytes <= bytes_max - builder->open_bytes) {
        builder->open.run_count++;
        builder->open_bytes += bytes;
    } else {
        if (builder->open.run_count > 0)
            close_batch(builder, 1);
        builder->open = (struct kvr_plan_batch){.run_first = pattern->run_count,
                                                .run_count = 1,
                                                .chunk_first = (uint32_t)builder->chunk_count};
        builder->open_bytes = bytes;
    }
    if (pattern->runs != NULL)
        pattern->runs[pattern->run_count] = *run;
    pattern->run_count++;
    if (bytes > bytes_max)
        close_batch(builder, bytes / bytes_max + (bytes % bytes_max != 0));
}

kvr_status kvr_plan_pattern_build(const struct kvr_plan_pair *pairs, uint32_t pair_count,
                                  const struct kvr_plan_limits *limits,
                                  struct kvr_plan_pattern *pattern, struct kvr_error *error)
{
    struct builder builder = {
        .pattern = pattern,
        .bytes_max = limits->chunk_bytes_max,
        .pieces_max = limits->pieces_local < limits->pieces_remote ? limits->pieces_local
                                                                   : limits->pieces_remote,
    };
    bool dense = pattern->source_page_stride == pattern->page_bytes &&
                 pattern->target_page_stride == pattern->page_bytes;

    pattern->run_count = pattern->batch_count = pattern->chunk_count = 0;
    for (uint32_t i = 0; i < pair_count;) {
        struct kvr_plan_run run = {pairs[i].source_page, pairs[i].target_page, 1};

        for (i++; dense && i < pair_count; i++) {
            if (pairs[i].source_page != run.source_page + run.page_count ||
                pairs[i].target_page != run.target_page + run.page_count)
                break;
            run.page_count++;
        }
        add_run(&builder, &run);
        if (builder.chunk_count >= UINT32_MAX)
            return kvr_error_set(error, KVR_TOO_LARGE, "plan",
                                 "%" PRIu32 " pages of %" PRIu64
                                 " B need more than 2^32 writes of at most %" PRIu64 " B",
                                 pair_count, pattern->page_bytes, limits->chunk_bytes_max);
    }
    if (builder.open.run_count > 0)
        close_batch(&builder, 1);
    pattern->chunk_count = (uint32_t)builder.chunk_count;
    return KVR_OK;
}
