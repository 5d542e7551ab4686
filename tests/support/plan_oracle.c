#include "tests/support/plan_oracle.h"

struct plan_oracle oracle;

static uint64_t address(const struct kvr_region_layout *region, uint32_t layer, uint32_t part_index,
                        uint32_t page, uint64_t token, uint32_t head)
{
    return region->base + (layer - region->layer_first) * region->layer_stride +
           part_index * region->part_stride + page * region->page_stride +
           token * region->token_stride + (head - region->head_first) * region->head_stride;
}

/* In which region, and where among its parts, a side has this (layer, part). */
static bool find(const struct plan_case_side *side, uint32_t group, uint32_t layer, uint32_t part,
                 uint32_t *ret_region, uint32_t *ret_part_index)
{
    for (uint32_t i = 0; i < side->region_count; i++) {
        const struct kvr_region_layout *region = &side->regions[i];

        if (region->group != group || layer < region->layer_first ||
            layer - region->layer_first >= region->layer_count)
            continue;
        for (uint32_t j = 0; j < region->part_count; j++) {
            if (region->parts[j] != part)
                continue;
            *ret_region = i;
            *ret_part_index = j;
            return true;
        }
    }
    return false;
}

static bool inside(uint32_t number, uint32_t first, uint32_t count)
{
    return number >= first && number - first < count;
}

/* The place of a head of a token at one side; a state has one token. */
static uint64_t place(const struct plan_case_side *side, uint32_t region, uint32_t part_index,
                      uint32_t layer, uint64_t token, uint32_t head)
{
    uint64_t first = oracle.of->input.token_first / side->page_tokens;
    uint32_t page = side->pages[oracle.of->state ? 0 : token / side->page_tokens - first];

    if (oracle.of->state)
        token = 0;

    return side->starts[region] + address(&side->regions[region], layer, part_index, page,
                                          token % side->page_tokens, head);
}

/* Appends what moves of a (layer, part), head by head and token by token. */
static void expect_plane(uint32_t layer, uint32_t part, uint64_t token_first)
{
    const struct kvr_plan_scope *scope = &oracle.of->input.scope;
    const struct kvr_region_layout *source, *target;
    uint32_t from = 0, from_part = 0, to = 0, to_part = 0;
    uint64_t token_end = oracle.token_end;

    if (oracle.of->state && token_end > token_first)
        token_end = token_first + 1;
    oracle.run_count = 0;
    if (!find(&oracle.of->target, oracle.of->input.group, layer, part, &to, &to_part) ||
        !find(&oracle.of->source, oracle.of->input.group, layer, part, &from, &from_part) ||
        (scope->layer_count > 0 && !inside(layer, scope->layer_first, scope->layer_count)))
        return;
    source = &oracle.of->source.regions[from];
    target = &oracle.of->target.regions[to];
    for (uint32_t head = target->head_first; head < target->head_first + target->head_count;
         head++) {
        if (!inside(head, source->head_first, source->head_count) ||
            (scope->head_count > 0 && !inside(head, scope->head_first, scope->head_count)))
            continue;
        for (uint64_t token = token_first; token < token_end; token++) {
            require(oracle.run_count < ORACLE_PIECES);
            oracle.runs[oracle.run_count++] = (struct oracle_run){
                place(&oracle.of->source, from, from_part, layer, token, head),
                place(&oracle.of->target, to, to_part, layer, token, head), target->head_bytes};
        }
    }
}

static int by_target(const void *a, const void *b)
{
    const struct oracle_run *x = a, *y = b;

    return x->target < y->target ? -1 : x->target > y->target;
}

/* The fewest pieces: joined while both ends go on, cut at multiples of the largest chunk. */
static void join_runs(void)
{
    static struct oracle_run joined[ORACLE_PIECES];
    uint64_t bytes_max = oracle.of->input.limits.chunk_bytes_max;
    uint32_t count = 0;

    qsort(oracle.runs, oracle.run_count, sizeof(*oracle.runs), by_target);
    for (uint32_t i = 0; i < oracle.run_count; i++) {
        struct oracle_run *last = count > 0 ? &joined[count - 1] : NULL;

        if (last != NULL && last->source + last->bytes == oracle.runs[i].source &&
            last->target + last->bytes == oracle.runs[i].target)
            last->bytes += oracle.runs[i].bytes;
        else
            joined[count++] = oracle.runs[i];
    }
    oracle.run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (joined[i].bytes > 0) {
            struct oracle_run *run = &joined[i], cut = *run;

            require(oracle.run_count < ORACLE_PIECES);
            cut.bytes = run->bytes < bytes_max ? run->bytes : bytes_max;
            oracle.runs[oracle.run_count++] = cut;
            run->source += cut.bytes;
            run->target += cut.bytes;
            run->bytes -= cut.bytes;
        }
    }
}

bool oracle_fits(const struct oracle_run *first, uint32_t count)
{
    const struct kvr_plan_limits *limits = &oracle.of->input.limits;
    uint64_t bytes = first->bytes;
    uint32_t locals = 1, remotes = 1;

    for (uint32_t i = 1; i < count; i++) {
        locals += first[i - 1].source + first[i - 1].bytes != first[i].source;
        remotes += first[i - 1].target + first[i - 1].bytes != first[i].target;
        bytes += first[i].bytes;
    }
    return count <= kvr_plan_pieces_max(limits) && locals <= limits->pieces_local &&
           remotes <= limits->pieces_remote && bytes <= limits->chunk_bytes_max;
}

/* How many of the pieces before `end` one write can carry. */
static uint32_t fit_before(uint32_t end)
{
    const struct kvr_plan_limits *limits = &oracle.of->input.limits;
    uint32_t most = kvr_plan_pieces_max(limits), locals = 0, remotes = 0, count = 0;
    uint64_t bytes = 0;

    for (; count < most && count < end; count++) {
        const struct oracle_run *run = &oracle.runs[end - count - 1];

        locals += count == 0 || run->source + run->bytes != run[1].source;
        remotes += count == 0 || run->target + run->bytes != run[1].target;
        bytes += run->bytes;
        if (locals > limits->pieces_local || remotes > limits->pieces_remote ||
            bytes > limits->chunk_bytes_max)
            break;
    }
    return count;
}

uint32_t oracle_fewest_chunks(void)
{
    static uint32_t fewest[ORACLE_PIECES + 1]; /* for the first i pieces */

    fewest[0] = 0;
    for (uint32_t i = 1; i <= oracle.run_count; i++) {
        fewest[i] = UINT32_MAX;
        for (uint32_t count = fit_before(i); count > 0; count--)
            if (fewest[i - count] + 1 < fewest[i])
                fewest[i] = fewest[i - count] + 1;
    }
    return fewest[oracle.run_count];
}

static void mark_bytes(void)
{
    for (uint32_t i = 0; i < oracle.run_count; i++) {
        for (uint64_t byte = 0; byte < oracle.runs[i].bytes; byte++) {
            require(oracle.expected[oracle.runs[i].target + byte] == 0);
            oracle.expected[oracle.runs[i].target + byte] =
                (uint32_t)(oracle.runs[i].source + byte + 1);
        }
        oracle.expected_bytes += oracle.runs[i].bytes;
    }
}

void oracle_expect(uint32_t layer, uint32_t part, uint64_t token_first)
{
    expect_plane(layer, part, token_first);
    join_runs();
    mark_bytes();
}
