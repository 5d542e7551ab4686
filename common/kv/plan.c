#include "kv/plan.h"

#include <inttypes.h>

#include "kv/layout.h"
#include "kv/layout_planes.h"
#include "kv/plan_hash.h"
#include "kv/plan_pattern.h"

#define CHUNK_BYTES_MIN 4096

/* What is known of the plan before its memory is asked for. */
struct draft {
    const struct kvr_plan_input *input;
    struct kvr_buddy *memory;
    struct kvr_error *error;
    struct kvr_layout_planes sources, targets;
    const struct kvr_region_layout *source_smallest, *target_smallest; /* by page_count */
    struct kvr_plan_pattern patterns[KVR_PLAN_PATTERNS_MAX];
    uint32_t pattern_planes[KVR_PLAN_PATTERNS_MAX]; /* planes of each pattern */
    uint32_t pattern_count, plane_count, layer_count;
    struct kvr_plan_pair *pairs; /* scratch, sorted by target page */
    uint64_t chunk_count, bytes;
};

static kvr_status check_pieces(const char *field, uint32_t pieces, struct kvr_error *error)
{
    if (pieces >= 1 && pieces <= KVR_IOV_MAX)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "plan", "%s is %" PRIu32 ", allowed are 1 to %d",
                         field, pieces, KVR_IOV_MAX);
}

kvr_status kvr_plan_limits_check(const struct kvr_plan_limits *limits, struct kvr_error *error)
{
    kvr_status status = check_pieces("pieces_local", limits->pieces_local, error);

    if (status == KVR_OK)
        status = check_pieces("pieces_remote", limits->pieces_remote, error);
    if (status == KVR_OK && limits->chunk_bytes_max < CHUNK_BYTES_MIN)
        status = kvr_error_set(error, KVR_INVALID, "plan",
                               "chunk_bytes_max is %" PRIu64 ", at least %d are needed",
                               limits->chunk_bytes_max, CHUNK_BYTES_MIN);
    return status;
}

static kvr_status index_regions(struct draft *draft)
{
    const struct kvr_plan_input *input = draft->input;
    kvr_status status =
        kvr_layout_planes_make(input->source_layouts, input->source_layout_count, input->group,
                               "source", &draft->sources, draft->error);

    if (status == KVR_OK)
        status = kvr_layout_planes_make(input->target_layouts, input->target_layout_count,
                                        input->group, "target", &draft->targets, draft->error);
    if (status == KVR_OK)
        status =
            kvr_layout_planes_match(input->source_layouts, &draft->sources, input->target_layouts,
                                    &draft->targets, input->group, draft->error);
    return status;
}

static bool pattern_fits(const struct kvr_plan_pattern *pattern,
                         const struct kvr_region_layout *source,
                         const struct kvr_region_layout *target)
{
    return pattern->page_bytes == kvr_layout_page_bytes(target) &&
           pattern->source_page_stride == source->page_stride &&
           pattern->target_page_stride == target->page_stride;
}

/* The draft's pattern for such a pair of regions, or pattern_count when there is none. */
static uint32_t find_pattern(const struct draft *draft, const struct kvr_region_layout *source,
                             const struct kvr_region_layout *target)
{
    uint32_t index = 0;

    while (index < draft->pattern_count && !pattern_fits(&draft->patterns[index], source, target))
        index++;
    return index;
}

static kvr_status survey_plane(struct draft *draft, const struct kvr_region_layout *source,
                               const struct kvr_region_layout *target)
{
    uint32_t index = find_pattern(draft, source, target);

    if (index == KVR_PLAN_PATTERNS_MAX)
        return kvr_error_set(draft->error, KVR_TOO_LARGE, "plan",
                             "group %" PRIu32 " has more than %d different page sizes and strides",
                             draft->input->group, KVR_PLAN_PATTERNS_MAX);
    if (index == draft->pattern_count) {
        draft->patterns[index].page_bytes = kvr_layout_page_bytes(target);
        draft->patterns[index].source_page_stride = source->page_stride;
        draft->patterns[index].target_page_stride = target->page_stride;
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
    const struct kvr_plan_input *input = draft->input;

    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        uint32_t plane_first = draft->plane_count;

        for (uint32_t part = KVR_PART_K; part <= KVR_PART_STATE; part++) {
            uint16_t target = draft->targets.regions[layer][part];
            kvr_status status;

            if (target == 0)
                continue;
            status =
                survey_plane(draft, &input->source_layouts[draft->sources.regions[layer][part] - 1],
                             &input->target_layouts[target - 1]);
            if (status != KVR_OK)
                return status;
        }
        draft->layer_count += draft->plane_count > plane_first;
    }
    return KVR_OK;
}

static kvr_status check_pages(const uint32_t *pages, uint32_t page_count, const char *side,
                              const struct kvr_region_layout *smallest, struct kvr_error *error)
{
    for (uint32_t i = 0; i < page_count; i++) {
        if (pages[i] >= smallest->page_count)
            return kvr_error_set(error, KVR_INVALID, "plan",
                                 "%s page id %" PRIu32 " (page %" PRIu32
                                 " of the segment) is outside region %" PRIu32
                                 ", which has %" PRIu32 " pages",
                                 side, pages[i], i, smallest->region, smallest->page_count);
    }
    return KVR_OK;
}

static kvr_status no_memory(struct draft *draft, uint64_t bytes)
{
    return kvr_error_set(draft->error, KVR_NO_MEMORY, "plan",
                         "no block of %" PRIu64 " B is left for a plan of %" PRIu32 " pages", bytes,
                         draft->input->page_count);
}

/* An allocator hands most pages out in order, and then there is nothing to sort. */
static kvr_status sort_pairs(struct draft *draft)
{
    uint32_t count = draft->input->page_count, ascending = 1;
    size_t bytes = count * sizeof(*draft->pairs);
    struct kvr_plan_pair *scratch;

    while (ascending < count &&
           draft->pairs[ascending].target_page > draft->pairs[ascending - 1].target_page)
        ascending++;
    if (ascending >= count)
        return KVR_OK;
    scratch = kvr_buddy_alloc(draft->memory, bytes);
    if (scratch == NULL)
        return no_memory(draft, bytes);
    kvr_plan_pairs_sort(draft->pairs, scratch, count);
    kvr_buddy_free(draft->memory, scratch);
    for (uint32_t i = 1; i < count; i++) {
        if (draft->pairs[i].target_page == draft->pairs[i - 1].target_page)
            return kvr_error_set(draft->error, KVR_INVALID, "plan",
                                 "target page id %" PRIu32 " is listed twice in one segment",
                                 draft->pairs[i].target_page);
    }
    return KVR_OK;
}

/* draft->pairs is the caller's to free, also after a failure. */
static kvr_status pair_pages(struct draft *draft)
{
    const struct kvr_plan_input *input = draft->input;
    size_t bytes = input->page_count * sizeof(*draft->pairs);
    kvr_status status = check_pages(input->source_pages, input->page_count, "source",
                                    draft->source_smallest, draft->error);

    if (status == KVR_OK)
        status = check_pages(input->target_pages, input->page_count, "target",
                             draft->target_smallest, draft->error);
    if (status != KVR_OK)
        return status;
    draft->pairs = kvr_buddy_alloc(draft->memory, bytes);
    if (draft->pairs == NULL)
        return no_memory(draft, bytes);
    for (uint32_t i = 0; i < input->page_count; i++)
        draft->pairs[i] = (struct kvr_plan_pair){input->source_pages[i], input->target_pages[i]};
    return sort_pairs(draft);
}

/* The counts of every pattern, and from them the plan's. */
static kvr_status count_chunks(struct draft *draft)
{
    for (uint32_t i = 0; i < draft->pattern_count; i++) {
        struct kvr_plan_pattern *pattern = &draft->patterns[i];
        kvr_status status = kvr_plan_pattern_build(draft->pairs, draft->input->page_count,
                                                   &draft->input->limits, pattern, draft->error);
        uint64_t bytes;

        if (status != KVR_OK)
            return status;
        draft->chunk_count += (uint64_t)pattern->chunk_count * draft->pattern_planes[i];
        if (__builtin_mul_overflow(pattern->page_bytes, draft->input->page_count, &bytes) ||
            __builtin_mul_overflow(bytes, draft->pattern_planes[i], &bytes) ||
            __builtin_add_overflow(draft->bytes, bytes, &draft->bytes))
            return kvr_error_set(draft->error, KVR_TOO_LARGE, "plan",
                                 "%" PRIu32 " pages in %" PRIu32
                                 " layers and parts are more than 2^64 bytes",
                                 draft->input->page_count, draft->plane_count);
    }
    if (draft->chunk_count > UINT32_MAX)
        return kvr_error_set(draft->error, KVR_TOO_LARGE, "plan",
                             "%" PRIu32 " pages in %" PRIu32 " layers and parts need %" PRIu64
                             " writes, more than 2^32",
                             draft->input->page_count, draft->plane_count, draft->chunk_count);
    return KVR_OK;
}

/* One block holds all of a plan: the arrays with 64-bit members first, so that all are aligned. */
static struct kvr_plan *allocate(struct draft *draft, uint64_t *ret_bytes)
{
    uint64_t planes_at =
        sizeof(struct kvr_plan) + draft->pattern_count * sizeof(struct kvr_plan_pattern);
    uint64_t layers_at = planes_at + draft->plane_count * sizeof(struct kvr_plan_plane);
    uint64_t bytes = layers_at + (draft->layer_count + 1) * sizeof(uint32_t);
    struct kvr_plan *plan;
    unsigned char *block;

    for (uint32_t i = 0; i < draft->pattern_count; i++)
        bytes += draft->patterns[i].run_count * sizeof(struct kvr_plan_run) +
                 draft->patterns[i].batch_count * sizeof(struct kvr_plan_batch);
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

static kvr_status fill_patterns(const struct draft *draft, struct kvr_plan *plan)
{
    uint32_t *place = plan->layer_planes + draft->layer_count + 1;

    for (uint32_t i = 0; i < plan->pattern_count; i++) {
        struct kvr_plan_pattern *pattern = &plan->patterns[i];
        kvr_status status;

        *pattern = draft->patterns[i];
        pattern->runs = (struct kvr_plan_run *)place;
        place += pattern->run_count * (sizeof(struct kvr_plan_run) / sizeof(*place));
        pattern->batches = (struct kvr_plan_batch *)place;
        place += pattern->batch_count * (sizeof(struct kvr_plan_batch) / sizeof(*place));
        status = kvr_plan_pattern_build(draft->pairs, draft->input->page_count,
                                        &draft->input->limits, pattern, draft->error);
        if (status != KVR_OK)
            return status;
    }
    return KVR_OK;
}

/* Of page 0 of this (layer, part). */
static uint64_t base_of(const struct kvr_region_layout *layout,
                        const struct kvr_layout_planes *planes, uint32_t layer, uint32_t part)
{
    return layout->base + (layer - layout->layer_first) * layout->layer_stride +
           planes->part_indexes[layer][part] * layout->part_stride;
}

static void fill_plane(const struct draft *draft, uint32_t layer, uint32_t part,
                       struct kvr_plan *plan)
{
    struct kvr_plan_plane *plane = &plan->planes[plan->plane_count];
    uint32_t source_layout = draft->sources.regions[layer][part] - 1u;
    uint32_t target_layout = draft->targets.regions[layer][part] - 1u;
    const struct kvr_region_layout *source = &draft->input->source_layouts[source_layout];
    const struct kvr_region_layout *target = &draft->input->target_layouts[target_layout];

    *plane = (struct kvr_plan_plane){
        .layer = layer,
        .part = (uint8_t)part,
        .source_layout = source_layout,
        .target_layout = target_layout,
        .pattern = find_pattern(draft, source, target),
        .source_base = base_of(source, &draft->sources, layer, part),
        .target_base = base_of(target, &draft->targets, layer, part),
        .chunk_first = plan->chunk_count,
    };
    plan->chunk_count += plan->patterns[plane->pattern].chunk_count;
    plan->plane_count++;
}

static void fill_planes(const struct draft *draft, struct kvr_plan *plan)
{
    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        uint32_t plane_first = plan->plane_count;

        for (uint32_t part = KVR_PART_K; part <= KVR_PART_STATE; part++) {
            if (draft->targets.regions[layer][part] != 0)
                fill_plane(draft, layer, part, plan);
        }
        if (plan->plane_count > plane_first)
            plan->layer_planes[plan->layer_count++] = plane_first;
    }
    plan->layer_planes[plan->layer_count] = plan->plane_count;
}

static kvr_status write_plan(struct draft *draft, struct kvr_plan **ret_plan)
{
    uint64_t bytes;
    struct kvr_plan *plan = allocate(draft, &bytes);
    kvr_status status;

    if (plan == NULL)
        return no_memory(draft, bytes);
    status = fill_patterns(draft, plan);
    if (status != KVR_OK) {
        kvr_buddy_free(draft->memory, plan);
        return status;
    }
    fill_planes(draft, plan);
    plan->bytes = draft->bytes;
    plan->token_first = draft->input->token_first;
    plan->token_end = draft->input->token_end;
    plan->limits = draft->input->limits;
    plan->hash = kvr_plan_hash(plan, draft->input);
    *ret_plan = plan;
    return KVR_OK;
}

kvr_status kvr_plan_make(const struct kvr_plan_input *input, struct kvr_buddy *memory,
                         struct kvr_plan **ret_plan, struct kvr_error *error)
{
    struct draft draft = {.input = input, .memory = memory, .error = error};
    kvr_status status = kvr_plan_limits_check(&input->limits, error);

    if (status == KVR_OK)
        status = index_regions(&draft);
    if (status == KVR_OK)
        status = survey(&draft);
    if (status == KVR_OK)
        status = pair_pages(&draft);
    if (status == KVR_OK)
        status = count_chunks(&draft);
    if (status == KVR_OK)
        status = write_plan(&draft, ret_plan);
    kvr_buddy_free(memory, draft.pairs);
    return status;
}

void kvr_plan_free(struct kvr_plan *plan, struct kvr_buddy *memory)
{
    kvr_buddy_free(memory, plan);
}
