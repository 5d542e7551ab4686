#include "tests/support/plan_case.h"

/* What both sides must have in common. */
struct geometry {
    uint32_t group, page_tokens, head_first, head_count;
    uint64_t head_bytes, page_bytes;
    bool token_major;
};

struct planes {
    uint32_t layer_first, layer_count;
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

static struct geometry make_geometry(struct kvr_rng *rng)
{
    static const uint32_t sizes[] = {64, 300, 2000, 12000};
    struct geometry geometry = {
        .group = below(rng, KVR_GROUPS_MAX),
        .page_tokens = between(rng, 1, 4),
        .head_first = below(rng, 8),
        .head_count = between(rng, 1, 4),
        .token_major = kvr_rng_percent(rng, 50),
    };
    uint32_t places = geometry.page_tokens * geometry.head_count;

    geometry.head_bytes = between(rng, 1, sizes[below(rng, 4)] / places);
    geometry.page_bytes = places * geometry.head_bytes;
    return geometry;
}

/* The stride of a dimension around `extent` bytes, sometimes with a gap; the extent grows by it. A
 * dimension of size one has no stride, so anything may stand there. */
static uint64_t add_dimension(struct kvr_rng *rng, uint32_t count, uint32_t gap_percent,
                              uint64_t *extent)
{
    uint64_t stride = *extent;

    if (count == 1)
        return kvr_rng_percent(rng, 50) ? 0 : kvr_rng_next(rng);
    if (kvr_rng_percent(rng, gap_percent))
        stride += below(rng, 80);
    *extent += stride * (count - 1);
    return stride;
}

/* Layers, parts and pages nest in any order; most engines have the pages inside. */
static void add_region(struct kvr_rng *rng, const struct geometry *geometry,
                       const struct planes *planes, uint32_t page_count,
                       struct plan_case_side *side)
{
    struct kvr_region_layout *region = &side->regions[side->region_count];
    uint64_t extent = geometry->page_bytes;
    uint32_t order = kvr_rng_percent(rng, 60) ? 0 : below(rng, 6);
    /* 0 page, 1 part, 2 layer; innermost first */
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    *region = (struct kvr_region_layout){
        .region = 100 + side->region_count,
        .group = geometry->group,
        .layer_first = planes->layer_first,
        .layer_count = planes->layer_count,
        .part_count = planes->part_count,
        .head_first = geometry->head_first,
        .head_count = geometry->head_count,
        .page_tokens = geometry->page_tokens,
        .page_count = page_count,
        .base = kvr_rng_percent(rng, 50) ? 0 : below(rng, 300),
        .head_bytes = geometry->head_bytes,
        .head_stride = geometry->head_bytes * (geometry->token_major ? 1 : geometry->page_tokens),
        .token_stride = geometry->head_bytes * (geometry->token_major ? geometry->head_count : 1),
    };
    memcpy(region->parts, planes->parts, sizeof(planes->parts));
    for (uint32_t i = 0; i < 3; i++) {
        if (orders[order][i] == 0)
            region->page_stride = add_dimension(rng, page_count, 25, &extent);
        else if (orders[order][i] == 1)
            region->part_stride = add_dimension(rng, planes->part_count, 40, &extent);
        else
            region->layer_stride = add_dimension(rng, planes->layer_count, 40, &extent);
    }
    region->bytes = region->base + extent + (kvr_rng_percent(rng, 50) ? 0 : below(rng, 100));
    side->starts[side->region_count++] = side->bytes;
    side->bytes += region->bytes;
}

/* Splits layers into ranges, and a range into one region, or one for each part. */
static void make_side(struct kvr_rng *rng, const struct geometry *geometry,
                      const struct planes *planes, uint32_t page_count, struct plan_case_side *side)
{
    uint32_t layer = planes->layer_first, end = layer + planes->layer_count;

    while (layer < end) {
        struct planes range = *planes;
        uint32_t spare = kvr_rng_percent(rng, 50) ? 0 : below(rng, 3);

        range.layer_first = layer;
        range.layer_count = kvr_rng_percent(rng, 40) ? end - layer : between(rng, 1, end - layer);
        layer += range.layer_count;
        if (kvr_rng_percent(rng, 50)) {
            add_region(rng, geometry, &range, page_count + spare, side);
            continue;
        }
        range.part_count = 1;
        for (uint32_t i = 0; i < planes->part_count; i++) {
            range.parts[0] = planes->parts[i];
            add_region(rng, geometry, &range, page_count + spare, side);
        }
    }
    if (kvr_rng_percent(rng, 20)) { /* what another group has is nobody's business here */
        struct geometry other = *geometry;

        other.group = (geometry->group + 1) % KVR_GROUPS_MAX;
        add_region(rng, &other, planes, 1, side);
    }
}

/* Distinct ids: in order, shuffled, backwards, or in order but for a few. */
static void make_pages(struct kvr_rng *rng, uint32_t page_count, uint32_t id_count,
                       uint32_t *ret_pages)
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
    memcpy(ret_pages, ids, page_count * sizeof(*ids));
}

static struct planes make_planes(struct kvr_rng *rng)
{
    struct planes planes = {
        .layer_first = kvr_rng_percent(rng, 5) ? KVR_LAYERS_MAX - 8 : between(rng, 2, 40),
        .layer_count = between(rng, 1, 4),
        .part_count = between(rng, 1, 2),
    };

    if (planes.part_count == 2) {
        planes.parts[0] = kvr_rng_percent(rng, 80) ? KVR_PART_K : KVR_PART_V;
        planes.parts[1] = KVR_PART_K + KVR_PART_V - planes.parts[0];
    } else {
        planes.parts[0] = (uint8_t)between(rng, KVR_PART_K, KVR_PART_STATE);
    }
    return planes;
}

/* The source may have more layers and another part. */
static struct planes widen(struct kvr_rng *rng, struct planes planes)
{
    uint32_t before = kvr_rng_percent(rng, 60) ? 0 : below(rng, 3);

    planes.layer_first -= before;
    planes.layer_count += before + (kvr_rng_percent(rng, 60) ? 0 : below(rng, 3));
    if (planes.parts[0] != KVR_PART_MLA && kvr_rng_percent(rng, 20))
        planes.parts[planes.part_count++] = KVR_PART_MLA;
    return planes;
}

static uint64_t chunk_bytes(struct kvr_rng *rng)
{
    if (kvr_rng_percent(rng, 30))
        return 4096;
    return kvr_rng_percent(rng, 50) ? between(rng, 4096, 12000) : 1u << between(rng, 12, 24);
}

void plan_case_make(uint64_t seed, struct plan_case *ret_case)
{
    struct kvr_rng *rng = &ret_case->rng;
    struct geometry geometry;
    struct planes planes;
    uint32_t page_count, page_max, source_ids, target_ids;

    kvr_rng_init(rng, seed);
    geometry = make_geometry(rng);
    planes = make_planes(rng);
    page_max = (uint32_t)(65536 / (geometry.page_bytes * planes.layer_count * planes.part_count));
    page_count = below(rng, (page_max < PLAN_CASE_PAGES ? page_max : PLAN_CASE_PAGES) + 1);
    source_ids = page_count + between(rng, 1, 5);
    target_ids = page_count + between(rng, 1, 5);

    ret_case->source.region_count = ret_case->target.region_count = 0;
    ret_case->source.bytes = ret_case->target.bytes = 0;
    make_side(rng, &geometry, &planes, target_ids, &ret_case->target);
    planes = widen(rng, planes);
    make_side(rng, &geometry, &planes, source_ids, &ret_case->source);
    make_pages(rng, page_count, target_ids, ret_case->target.pages);
    make_pages(rng, page_count, source_ids, ret_case->source.pages);
    if (page_count > 1 && kvr_rng_percent(rng, 10))
        ret_case->source.pages[page_count - 1] = ret_case->source.pages[0];

    ret_case->input = (struct kvr_plan_input){
        .source_layouts = ret_case->source.regions,
        .target_layouts = ret_case->target.regions,
        .source_layout_count = ret_case->source.region_count,
        .target_layout_count = ret_case->target.region_count,
        .group = geometry.group,
        .source_pages = ret_case->source.pages,
        .target_pages = ret_case->target.pages,
        .page_count = page_count,
        .token_first = 32,
        .token_end = 32 + page_count * geometry.page_tokens,
        .limits = {between(rng, 1, KVR_IOV_MAX), between(rng, 1, KVR_IOV_MAX), chunk_bytes(rng)},
    };
    if (kvr_rng_percent(rng, 20))
        ret_case->input.limits.pieces_remote = 1;
    if (kvr_rng_percent(rng, 20))
        ret_case->input.limits.pieces_local = 1;
}
