#include "tests/support/plan_case.h"

#include <assert.h>

/* What both sides must have in common, and what of it each has. */
struct geometry {
    uint32_t group;
    uint64_t head_bytes;
};

struct planes {
    uint32_t layer_first, layer_count;
    uint32_t head_first, head_count;
    uint8_t parts[4];
    uint32_t part_count;
};

static uint32_t below(struct kvr_rng *rng, uint32_t bound)
{
    return (uint32_t)kvr_rng_below(rng, bound);
}

static uint32_t between(struct kvr_rng *rng, uint32_t first, uint32_t last)
{
    return (uint32_t)kvr_rng_between(rng, first, last);
}

static uint32_t either(struct kvr_rng *rng, uint32_t percent, uint32_t a, uint32_t b)
{
    return kvr_rng_percent(rng, percent) ? a : b;
}

/* ---- regions ------------------------------------------------------------------------------- */

enum dimension { TOKEN, HEAD, PAGE, PART, LAYER, DIMENSIONS };

/* What lies inside what, the innermost first: what engines do, or anything with a page's tokens and
 * heads inside of it. */
static void choose_order(struct kvr_rng *rng, uint8_t order[DIMENSIONS])
{
    static const uint8_t known[][DIMENSIONS] = {
        {HEAD, TOKEN, PAGE, PART, LAYER}, {TOKEN, HEAD, PAGE, PART, LAYER},
        {HEAD, TOKEN, PART, PAGE, LAYER}, {TOKEN, HEAD, PART, PAGE, LAYER},
        {HEAD, TOKEN, PART, LAYER, PAGE}, {TOKEN, PART, LAYER, HEAD, PAGE},
    };
    uint32_t page = 0, last = 0;

    memcpy(order, known[below(rng, 6)], DIMENSIONS);
    if (kvr_rng_percent(rng, 70))
        return;
    for (uint32_t i = DIMENSIONS - 1; i > 0; i--) {
        uint32_t other = below(rng, i + 1);
        uint8_t kept = order[i];

        order[i] = order[other];
        order[other] = kept;
    }
    for (uint32_t i = 0; i < DIMENSIONS; i++) {
        if (order[i] == PAGE)
            page = i;
        else if (order[i] == TOKEN || order[i] == HEAD)
            last = i;
    }
    if (page < last) {
        order[page] = order[last];
        order[last] = PAGE;
    }
}

/* The stride of a dimension around `extent` bytes, sometimes with a gap behind each place. A
 * dimension of size one has no stride, so anything may stand there. */
static uint64_t add_dimension(struct kvr_rng *rng, uint32_t count, uint64_t *extent)
{
    uint64_t stride = *extent;

    if (count == 1)
        return kvr_rng_percent(rng, 50) ? 0 : kvr_rng_next(rng);
    if (kvr_rng_percent(rng, 15))
        stride += below(rng, stride < 40 ? (uint32_t)stride + 1 : 40);
    *extent = stride * count;
    return stride;
}

static void add_region(struct kvr_rng *rng, const struct geometry *geometry,
                       const struct planes *planes, const uint8_t order[DIMENSIONS],
                       uint32_t page_count, struct plan_case_side *side)
{
    struct kvr_region_layout *region = &side->regions[side->region_count];
    uint64_t extent = geometry->head_bytes;

    *region = (struct kvr_region_layout){
        .region = 100 + side->region_count,
        .group = geometry->group,
        .layer_first = planes->layer_first,
        .layer_count = planes->layer_count,
        .part_count = planes->part_count,
        .head_first = planes->head_first,
        .head_count = planes->head_count,
        .page_tokens = side->page_tokens == PLAN_CASE_ALL ? 0 : side->page_tokens,
        .page_count = page_count,
        .base = either(rng, 50, 0, below(rng, 300)),
        .head_bytes = geometry->head_bytes,
    };
    memcpy(region->parts, planes->parts, sizeof(planes->parts));
    for (uint32_t i = 0; i < DIMENSIONS; i++) {
        if (order[i] == TOKEN)
            region->token_stride =
                add_dimension(rng, region->page_tokens > 0 ? region->page_tokens : 1, &extent);
        else if (order[i] == HEAD)
            region->head_stride = add_dimension(rng, region->head_count, &extent);
        else if (order[i] == PAGE)
            region->page_stride = add_dimension(rng, page_count, &extent);
        else if (order[i] == PART)
            region->part_stride = add_dimension(rng, region->part_count, &extent);
        else
            region->layer_stride = add_dimension(rng, region->layer_count, &extent);
    }
    region->bytes = region->base + extent + either(rng, 50, 0, below(rng, 100));
    side->starts[side->region_count++] = side->bytes;
    side->bytes += region->bytes;
}

/* Splits layers into ranges, and a range into one region, or one for each part. */
static void make_regions(struct kvr_rng *rng, const struct geometry *geometry,
                         const struct planes *planes, uint32_t page_count,
                         struct plan_case_side *side)
{
    uint32_t layer = planes->layer_first, end = layer + planes->layer_count;
    uint8_t order[DIMENSIONS];

    choose_order(rng, order);
    while (layer < end) {
        struct planes range = *planes;
        uint32_t spare = either(rng, 50, 0, below(rng, 3));

        range.layer_first = layer;
        range.layer_count = either(rng, 40, end - layer, between(rng, 1, end - layer));
        layer += range.layer_count;
        if (kvr_rng_percent(rng, 5))
            choose_order(rng, order);
        if (kvr_rng_percent(rng, 50)) {
            add_region(rng, geometry, &range, order, page_count + spare, side);
            continue;
        }
        range.part_count = 1;
        for (uint32_t i = 0; i < planes->part_count; i++) {
            range.parts[0] = planes->parts[i];
            add_region(rng, geometry, &range, order, page_count + spare, side);
        }
    }
    if (kvr_rng_percent(rng, 20)) { /* what another group has is nobody's business here */
        struct geometry other = *geometry;

        other.group = (geometry->group + 1) % KVR_GROUPS_MAX;
        add_region(rng, &other, planes, order, 1, side);
    }
    assert(side->bytes <= PLAN_CASE_BYTES);
}

/* ---- pages --------------------------------------------------------------------------------- */

/* Distinct ids: in order, shuffled, backwards, or in order but for a few. */
static void make_pages(struct kvr_rng *rng, uint32_t id_count, struct plan_case_side *side)
{
    uint32_t ids[PLAN_CASE_PAGES * 2], first = below(rng, id_count);
    uint32_t kind = below(rng, 4);
    uint32_t swaps = kind == 0 ? 0 : kind == 1 ? id_count * 2 : between(rng, 1, 4);

    for (uint32_t i = 0; i < id_count; i++)
        ids[i] = (kind == 3 ? id_count - 1 - i + first : i + first) % id_count;
    for (uint32_t i = 0; i < swaps; i++) {
        uint32_t a = below(rng, id_count), b = below(rng, id_count), id = ids[a];

        ids[a] = ids[b];
        ids[b] = id;
    }
    memcpy(side->pages, ids, side->page_count * sizeof(*ids));
}

static uint32_t page_count_of(const struct kvr_plan_input *input, uint32_t page_tokens)
{
    return (uint32_t)((input->token_end + page_tokens - 1) / page_tokens -
                      input->token_first / page_tokens);
}

/* ---- the case ------------------------------------------------------------------------------ */

static void choose_page_tokens(struct kvr_rng *rng, struct plan_case *now)
{
    uint32_t *source = &now->source.page_tokens, *target = &now->target.page_tokens;
    uint32_t kind = below(rng, 10);

    if (kind < 4) {
        *source = *target = between(rng, 1, 6);
    } else if (kind < 8) { /* one a multiple of the other */
        *source = 1u << below(rng, 4);
        *target = 1u << below(rng, 4);
    } else {
        *source = between(rng, 1, 9);
        *target = between(rng, 1, 9);
    }
}

static struct planes choose_planes(struct kvr_rng *rng, uint32_t heads)
{
    struct planes planes = {
        .layer_first = kvr_rng_percent(rng, 5) ? KVR_LAYERS_MAX - 8 : between(rng, 2, 40),
        .layer_count = between(rng, 1, 3),
        .part_count = between(rng, 1, 2),
        .head_first = below(rng, 4),
        .head_count = heads,
    };

    if (planes.part_count == 2) {
        planes.parts[0] = kvr_rng_percent(rng, 80) ? KVR_PART_K : KVR_PART_V;
        planes.parts[1] = KVR_PART_K + KVR_PART_V - planes.parts[0];
    } else {
        planes.parts[0] = (uint8_t)between(rng, KVR_PART_K, KVR_PART_STATE);
    }
    return planes;
}

/* One rank of several: a part of the heads. */
static void choose_heads(struct kvr_rng *rng, struct planes *planes)
{
    uint32_t first, end;

    if (kvr_rng_percent(rng, 50))
        return;
    first = below(rng, planes->head_count);
    end = between(rng, first + 1, planes->head_count);
    planes->head_first += first;
    planes->head_count = end - first;
}

/* Either side may have layers that the other has not, and the source another part. */
static struct planes choose_other(struct kvr_rng *rng, struct planes planes, bool state)
{
    uint32_t before = either(rng, 60, 0, below(rng, 3));

    planes.layer_first -= before;
    planes.layer_count += before + either(rng, 60, 0, below(rng, 3));
    if (planes.layer_count > 1 && kvr_rng_percent(rng, 20))
        planes.layer_count = between(rng, 1, planes.layer_count - 1);
    if (planes.parts[0] != KVR_PART_MLA && !state && kvr_rng_percent(rng, 20))
        planes.parts[planes.part_count++] = KVR_PART_MLA;
    return planes;
}

static void choose_tokens(struct kvr_rng *rng, uint64_t token_bytes, struct plan_case *now)
{
    uint32_t source = now->source.page_tokens, target = now->target.page_tokens;
    uint32_t small = source < target ? source : target;
    uint32_t room = (uint32_t)(49152 / token_bytes) + 1; /* 64 KiB with what pages add */
    uint32_t most = small * (PLAN_CASE_PAGES - 2);
    struct kvr_plan_input *input = &now->input;

    input->token_first = below(rng, 4) * small;
    if (kvr_rng_percent(rng, 15))
        input->token_first += below(rng, 20);
    input->token_end = input->token_first + below(rng, (room < most ? room : most) + 1);
    now->source.page_count = now->target.page_count = 0;
    if (input->token_end > input->token_first) {
        now->source.page_count = page_count_of(input, source);
        now->target.page_count = page_count_of(input, target);
    }
}

/* Of any tokens the page moves once. */
static void choose_state_tokens(struct kvr_rng *rng, struct plan_case *now)
{
    struct kvr_plan_input *input = &now->input;

    input->token_first = either(rng, 70, 0, below(rng, 100));
    input->token_end = input->token_first + either(rng, 10, 0, below(rng, 1000));
    now->source.page_count = now->target.page_count = input->token_end > input->token_first;
}

static void choose_limits(struct kvr_rng *rng, struct kvr_plan_limits *limits)
{
    limits->pieces_local = between(rng, 1, KVR_IOV_MAX);
    limits->pieces_remote = kvr_rng_percent(rng, 35) ? 1 : between(rng, 1, KVR_IOV_MAX);
    if (kvr_rng_percent(rng, 20))
        limits->pieces_local = 1;
    if (kvr_rng_percent(rng, 10))
        limits->pieces_local = KVR_PLAN_ONE_RUN;
    if (kvr_rng_percent(rng, 10))
        limits->pieces_remote = KVR_PLAN_ONE_RUN;
    if (kvr_rng_percent(rng, 30))
        limits->chunk_bytes_max = 4096;
    else
        limits->chunk_bytes_max =
            kvr_rng_percent(rng, 50) ? between(rng, 4096, 12000) : 1u << between(rng, 12, 24);
}

static void choose_scope(struct kvr_rng *rng, const struct planes *planes,
                         struct kvr_plan_scope *scope)
{
    if (kvr_rng_percent(rng, 20)) {
        scope->layer_first = planes->layer_first + below(rng, planes->layer_count);
        scope->layer_count = between(rng, 1, 3);
    }
    if (kvr_rng_percent(rng, 20)) {
        scope->head_first = planes->head_first + below(rng, planes->head_count);
        scope->head_count = between(rng, 1, 3);
    }
}

void plan_case_make(uint64_t seed, struct plan_case *ret_case)
{
    static const uint32_t sizes[] = {64, 300, 2000, 12000}; /* of the larger page, about */
    struct kvr_rng *rng = &ret_case->rng;
    struct plan_case_side *source = &ret_case->source, *target = &ret_case->target;
    struct geometry geometry;
    struct planes planes, other;
    uint32_t heads, larger;

    kvr_rng_init(rng, seed);
    memset(&ret_case->input, 0, sizeof(ret_case->input));
    source->region_count = target->region_count = 0;
    source->bytes = target->bytes = 0;

    heads = either(rng, 40, 1, between(rng, 2, 6));
    geometry.group = below(rng, KVR_GROUPS_MAX);
    planes = choose_planes(rng, heads);
    choose_page_tokens(rng, ret_case);
    ret_case->state = planes.parts[0] == KVR_PART_STATE && kvr_rng_percent(rng, 50);
    if (planes.parts[0] == KVR_PART_STATE)
        target->page_tokens = source->page_tokens;
    larger = source->page_tokens > target->page_tokens ? source->page_tokens : target->page_tokens;
    if (ret_case->state) {
        source->page_tokens = target->page_tokens = PLAN_CASE_ALL;
        larger = 1;
    }
    geometry.head_bytes = between(rng, 1, sizes[below(rng, 4)] / (heads * larger));
    if (ret_case->state)
        choose_state_tokens(rng, ret_case);
    else
        choose_tokens(rng, geometry.head_bytes * heads * planes.layer_count * planes.part_count,
                      ret_case);
    choose_scope(rng, &planes, &ret_case->input.scope);
    other = choose_other(rng, planes, ret_case->state);
    choose_heads(rng, &planes);
    choose_heads(rng, &other);
    make_regions(rng, &geometry, &planes, target->page_count + between(rng, 1, 5), target);
    make_regions(rng, &geometry, &other, source->page_count + between(rng, 1, 5), source);
    make_pages(rng, target->page_count + 1, target);
    make_pages(rng, source->page_count + 1, source);
    /* Between unequal pages, pieces of one source page may then touch by chance, and stay two. */
    if (source->page_count > 1 && source->page_tokens == target->page_tokens &&
        kvr_rng_percent(rng, 10))
        source->pages[source->page_count - 1] = source->pages[0];

    ret_case->input.source_layouts = source->regions;
    ret_case->input.target_layouts = target->regions;
    ret_case->input.source_layout_count = source->region_count;
    ret_case->input.target_layout_count = target->region_count;
    ret_case->input.group = geometry.group;
    ret_case->input.source_pages = source->pages;
    ret_case->input.target_pages = target->pages;
    ret_case->input.source_page_count = source->page_count;
    ret_case->input.target_page_count = target->page_count;
    choose_limits(rng, &ret_case->input.limits);
}
