#include "kv/plan.h"

#include <inttypes.h>

#include "base/mutant.h"
#include "kv/plan_hash.h"
#include "kv/plan_pattern.h"
#include "kv/plan_share.h"

#define FIRST_BATCHES 8 /* of a pattern; a pattern with more is gathered twice */

/* A plan before its memory is allocated. */
struct draft {
    const struct kvr_plan_input *input;
    struct kvr_buddy *memory;
    struct kvr_error *error;
    struct kvr_plan_sides sides;
    const struct kvr_region_layout *source_smallest, *target_smallest; /* by page_count */
    struct kvr_plan_pages pages;
    struct kvr_plan_pattern patterns[KVR_PLAN_PATTERNS_MAX];
    uint32_t pattern_planes[KVR_PLAN_PATTERNS_MAX]; /* planes of each pattern */
    uint32_t pattern_count, plane_count, layer_count;
    void *scratch; /* the patterns' runs and blocks, before the plan's own memory */
    uint64_t chunk_count, bytes, piece_count;
    struct kvr_plan_batch batches[KVR_PLAN_PATTERNS_MAX][FIRST_BATCHES];
};

static kvr_status check_pieces(const char *field, uint32_t pieces, struct kvr_error *error)
{
    if ((pieces >= 1 && pieces <= KVR_IOV_MAX) || pieces == KVR_PLAN_ONE_RUN)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "plan", "%s is %" PRIu32 ", allowed are 1 to %d",
                         field, pieces, KVR_IOV_MAX);
}

kvr_status kvr_plan_limits_check(const struct kvr_plan_limits *limits, struct kvr_error *error)
{
    KVR_TRY(check_pieces("pieces_local", limits->pieces_local, error));
    KVR_TRY(check_pieces("pieces_remote", limits->pieces_remote, error));
    if (limits->chunk_bytes_max < KVR_CHUNK_BYTES_MIN)
        return kvr_error_set(error, KVR_INVALID, "plan",
                             "chunk_bytes_max is %" PRIu64 ", at least %d are needed",
                             limits->chunk_bytes_max, KVR_CHUNK_BYTES_MIN);
    return KVR_OK;
}

/* The draft's pattern for this shape, or pattern_count when there is none. */
static uint32_t find_pattern(const struct draft *draft, const struct kvr_plan_shape *shape)
{
    uint32_t index = 0;

    while (index < draft->pattern_count &&
           memcmp(&draft->patterns[index].shape, shape, sizeof(*shape)) != 0)
        index++;
    return index;
}

static kvr_status survey_share(struct draft *draft, const struct kvr_plan_share *share)
{
    const struct kvr_region_layout *source = share->source, *target = share->target;
    struct kvr_plan_shape shape = kvr_plan_shape_of(source, target, share->head_count);
    uint32_t index = find_pattern(draft, &shape);

    if (index == KVR_PLAN_PATTERNS_MAX)
        return kvr_error_set(draft->error, KVR_TOO_LARGE, "plan",
                             "group %" PRIu32 " has more than %d different page sizes and strides",
                             draft->input->group, KVR_PLAN_PATTERNS_MAX);
    if (index == draft->pattern_count) {
        draft->patterns[index].shape = shape;
        draft->pattern_count++;
    }
    draft->pattern_planes[index]++;
    draft->plane_count++;
    if (draft->source_smallest == NULL || source->page_count < draft->source_smallest->page_count)
        draft->source_smallest = source;
    if (draft->target_smallest == NULL || target->page_count < draft->target_smallest->page_count)
        draft->target_smallest = target;
    return KVR_OK;
}

/* Counts planes, layers and patterns, and finds the regions that bound the page ids. */
static kvr_status survey(struct draft *draft)
{
    struct kvr_plan_share share = {.part = KVR_PART_K};
    uint32_t layer_last = UINT32_MAX;

    for (; kvr_plan_share_next(&draft->sides, &share); share.part++) {
        KVR_TRY(survey_share(draft, &share));
        draft->layer_count += share.layer != layer_last;
        layer_last = share.layer;
    }
    return KVR_OK;
}

static kvr_status check_pages(const uint32_t *pages, uint32_t page_count, const char *side,
                              const struct kvr_region_layout *smallest, struct kvr_error *error)
{
    for (uint32_t i = 0; i < page_count; i++) {
        if (pages[i] >= smallest->page_count && !KVR_MUTANT(page_out_of_bounds))
            return kvr_error_set(error, KVR_INVALID, "plan",
                                 "%s page id %" PRIu32 " (page %" PRIu32
                                 " of the segment) is outside region %" PRIu32
                                 ", which has %" PRIu32 " pages",
                                 side, pages[i], i, smallest->region, smallest->page_count);
    }
    return KVR_OK;
}

/* The caller frees draft->pages.slots, also after a failure. */
static kvr_status order_pages(struct draft *draft)
{
    const struct kvr_plan_input *input = draft->input;
    struct kvr_plan_pages *pages = &draft->pages;

    KVR_TRY(kvr_plan_pages_find(input, draft->sides.sources.page_tokens,
                                draft->sides.targets.page_tokens, pages, draft->error));
    if (draft->plane_count > 0)
        KVR_TRY(check_pages(input->source_pages, pages->source_page_count, "source",
                            draft->source_smallest, draft->error));
    if (draft->plane_count > 0)
        KVR_TRY(check_pages(input->target_pages, pages->target_page_count, "target",
                            draft->target_smallest, draft->error));
    return kvr_plan_pages_sort(pages, input->target_pages, draft->memory, draft->error);
}

static kvr_status no_memory(struct draft *draft, uint64_t bytes)
{
    return kvr_error_set(draft->error, KVR_NO_MEMORY, "plan",
                         "no block of %" PRIu64 " B is left for a plan of %" PRIu32 " pages", bytes,
                         draft->pages.target_page_count);
}

static uint64_t runs_bytes(const struct kvr_plan_pattern *pattern)
{
    return pattern->run_count * sizeof(struct kvr_plan_run);
}

static uint64_t blocks_bytes(const struct kvr_plan_pattern *pattern)
{
    return (pattern->block_count + (uint64_t)1) * sizeof(struct kvr_plan_block);
}

/* Builds every pattern's runs and blocks in scratch memory, and counts the chunks. */
static kvr_status build_patterns(struct draft *draft)
{
    const struct kvr_plan_limits *limits = &draft->input->limits;
    uint64_t bytes = 0;
    unsigned char *place;

    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        KVR_TRY(kvr_plan_pattern_measure(&draft->pages, limits->chunk_bytes_max,
                                         &draft->patterns[i], draft->error));
        bytes += runs_bytes(&draft->patterns[i]) + blocks_bytes(&draft->patterns[i]);
    }
    place = draft->scratch = kvr_buddy_alloc(draft->memory, bytes);
    if (place == NULL)
        return no_memory(draft, bytes);
    for (uint32_t i = 0; i < draft->pattern_count; i++) { /* largest alignment first */
        draft->patterns[i].runs = (struct kvr_plan_run *)place;
        place += runs_bytes(&draft->patterns[i]);
    }
    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        struct kvr_plan_pattern *pattern = &draft->patterns[i];

        pattern->blocks = (struct kvr_plan_block *)place;
        place += blocks_bytes(pattern); /* a bound: build then sets its sizes */
        KVR_TRY(
            kvr_plan_pattern_build(&draft->pages, limits->chunk_bytes_max, pattern, draft->error));
        pattern->batches = draft->batches[i];
        kvr_plan_pattern_gather(limits, FIRST_BATCHES, pattern);
    }
    return KVR_OK;
}

/* Sums the patterns' counts. */
static kvr_status sum_up(struct draft *draft)
{
    uint64_t tokens = draft->pages.token_end - draft->pages.token_first;

    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        const struct kvr_plan_pattern *pattern = &draft->patterns[i];
        uint64_t planes = draft->pattern_planes[i], bytes;

        draft->chunk_count += pattern->chunk_count * planes;
        draft->piece_count += pattern->piece_count * planes;
        if (__builtin_mul_overflow(pattern->shape.head_bytes, pattern->shape.head_count, &bytes) ||
            __builtin_mul_overflow(bytes, tokens, &bytes) ||
            __builtin_mul_overflow(bytes, planes, &bytes) ||
            __builtin_add_overflow(draft->bytes, bytes, &draft->bytes))
            return kvr_error_set(draft->error, KVR_TOO_LARGE, "plan",
                                 "%" PRIu64 " tokens in %" PRIu32
                                 " layers and parts are more than 2^64 bytes",
                                 tokens, draft->plane_count);
    }
    if (draft->chunk_count > UINT32_MAX)
        return kvr_error_set(draft->error, KVR_TOO_LARGE, "plan",
                             "%" PRIu64 " tokens in %" PRIu32 " layers and parts need %" PRIu64
                             " writes, more than 2^32",
                             tokens, draft->plane_count, draft->chunk_count);
    return KVR_OK;
}

/* One block of memory holds the whole plan. Arrays with 64-bit members come first, so all are
 * aligned. */
static struct kvr_plan *allocate(struct draft *draft, uint64_t *ret_bytes)
{
    uint64_t planes_at =
        sizeof(struct kvr_plan) + draft->pattern_count * sizeof(struct kvr_plan_pattern);
    uint64_t layers_at = planes_at + draft->plane_count * sizeof(struct kvr_plan_plane);
    uint64_t bytes = layers_at + (draft->layer_count + 1) * sizeof(uint32_t);
    struct kvr_plan *plan;
    unsigned char *block;

    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        const struct kvr_plan_pattern *pattern = &draft->patterns[i];

        layers_at += runs_bytes(pattern);
        bytes += runs_bytes(pattern) + blocks_bytes(pattern) +
                 pattern->batch_count * sizeof(struct kvr_plan_batch);
    }
    *ret_bytes = bytes;
    block = kvr_buddy_alloc(draft->memory, bytes);
    if (block == NULL)
        return NULL;
    plan = (struct kvr_plan *)block;
    *plan = (struct kvr_plan){
        .patterns = (struct kvr_plan_pattern *)(block + sizeof(*plan)),
        .planes = (struct kvr_plan_plane *)(block + planes_at),
        .layer_planes = (uint32_t *)(block + layers_at),
        .pattern_count = draft->pattern_count,
        .memory_bytes = bytes,
    };
    return plan;
}

/* Copies the patterns from scratch memory into the plan, and gathers the batches there. */
static void fill_patterns(const struct draft *draft, struct kvr_plan *plan)
{
    unsigned char *run_place = (unsigned char *)(plan->planes + draft->plane_count);
    unsigned char *place = (unsigned char *)(plan->layer_planes + draft->layer_count + 1);

    for (uint32_t i = 0; i < plan->pattern_count; i++) {
        const struct kvr_plan_pattern *made = &draft->patterns[i];
        struct kvr_plan_pattern *pattern = &plan->patterns[i];

        *pattern = *made;
        pattern->runs = (struct kvr_plan_run *)run_place;
        memcpy(pattern->runs, made->runs, runs_bytes(made));
        run_place += runs_bytes(made);
        pattern->blocks = (struct kvr_plan_block *)place;
        memcpy(pattern->blocks, made->blocks, blocks_bytes(made));
        place += blocks_bytes(made);
        pattern->batches = (struct kvr_plan_batch *)place;
        place += made->batch_count * sizeof(struct kvr_plan_batch);
        if (made->batch_count <= FIRST_BATCHES)
            memcpy(pattern->batches, made->batches, made->batch_count * sizeof(*made->batches));
        else
            kvr_plan_pattern_gather(&draft->input->limits, made->batch_count, pattern);
    }
}

/* The offset of page 0, first shared head. */
static uint64_t base_of(const struct kvr_region_layout *layout,
                        const struct kvr_layout_planes *planes, const struct kvr_plan_share *share)
{
    return layout->base + (share->layer - layout->layer_first) * layout->layer_stride +
           planes->part_indexes[share->layer][share->part] * layout->part_stride +
           (share->head_first - layout->head_first) * layout->head_stride;
}

static void fill_plane(const struct draft *draft, const struct kvr_plan_share *share,
                       struct kvr_plan *plan)
{
    const struct kvr_plan_shape shape =
        kvr_plan_shape_of(share->source, share->target, share->head_count);
    struct kvr_plan_plane *plane = &plan->planes[plan->plane_count++];

    *plane = (struct kvr_plan_plane){
        .layer = share->layer,
        .part = (uint8_t)share->part,
        .source_layout = (uint32_t)(share->source - draft->input->source_layouts),
        .target_layout = (uint32_t)(share->target - draft->input->target_layouts),
        .pattern = find_pattern(draft, &shape),
        .source_base = base_of(share->source, &draft->sides.sources, share),
        .target_base = base_of(share->target, &draft->sides.targets, share),
        .chunk_first = plan->chunk_count,
    };
    plan->chunk_count += plan->patterns[plane->pattern].chunk_count;
}

static void fill_planes(const struct draft *draft, struct kvr_plan *plan)
{
    struct kvr_plan_share share = {.part = KVR_PART_K};
    uint32_t layer_last = UINT32_MAX;

    for (; kvr_plan_share_next(&draft->sides, &share); share.part++) {
        if (share.layer != layer_last)
            plan->layer_planes[plan->layer_count++] = plan->plane_count;
        layer_last = share.layer;
        fill_plane(draft, &share, plan);
    }
    plan->layer_planes[plan->layer_count] = plan->plane_count;
}

static kvr_status write_plan(struct draft *draft, struct kvr_plan **ret_plan)
{
    uint64_t bytes;
    struct kvr_plan *plan = allocate(draft, &bytes);

    if (plan == NULL)
        return no_memory(draft, bytes);
    fill_patterns(draft, plan);
    fill_planes(draft, plan);
    plan->bytes = draft->bytes;
    plan->piece_count = draft->piece_count;
    plan->token_first = draft->input->token_first;
    plan->token_end = draft->input->token_end;
    plan->moved_end = draft->pages.moved_end;
    plan->limits = draft->input->limits;
    plan->hash = kvr_plan_hash(plan, draft->input, &draft->pages);
    *ret_plan = plan;
    return KVR_OK;
}

kvr_status kvr_plan_make(const struct kvr_plan_input *input, struct kvr_buddy *memory,
                         struct kvr_plan **ret_plan, struct kvr_error *error)
{
    struct draft draft;
    kvr_status status = kvr_plan_limits_check(&input->limits, error);

    memset(&draft, 0, offsetof(struct draft, batches));
    draft.input = input;
    draft.memory = memory;
    draft.error = error;
    if (status == KVR_OK)
        status = kvr_plan_sides_index(input, &draft.sides, error);
    if (status == KVR_OK)
        status = survey(&draft);
    if (status == KVR_OK)
        status = order_pages(&draft);
    if (status == KVR_OK)
        status = build_patterns(&draft);
    if (status == KVR_OK)
        status = sum_up(&draft);
    if (status == KVR_OK)
        status = write_plan(&draft, ret_plan);
    kvr_buddy_free(memory, draft.scratch);
    kvr_buddy_free(memory, draft.pages.slots);
    return status;
}

void kvr_plan_free(struct kvr_plan *plan, struct kvr_buddy *memory)
{
    kvr_buddy_free(memory, plan);
}
