/* Goal: a layout that names a byte outside its region, or one byte twice, is refused naming the
 * field. Two sides that cannot be mapped are refused naming the field and both values. Method: a
 * good layout, one field broken at a time. */
#include "tests/support/check.h"

#include "kv/layout.h"

/* 4 layers of K and V, each 8 pages of 16 tokens × 2 heads × 128 B, one part after the other. */
static struct kvr_region_layout good(void)
{
    return (struct kvr_region_layout){
        .region = 7,
        .layer_first = 2,
        .layer_count = 4,
        .part_count = 2,
        .parts = {KVR_PART_K, KVR_PART_V},
        .head_count = 2,
        .page_tokens = 16,
        .page_count = 8,
        .bytes = 64 + 4 * 2 * 8 * 4096,
        .base = 64,
        .layer_stride = 2 * 8 * 4096,
        .part_stride = 8 * 4096,
        .page_stride = 4096,
        .token_stride = 256,
        .head_stride = 128,
        .head_bytes = 128,
    };
}

static void refused(const struct kvr_region_layout *layout, const char *sentence)
{
    struct kvr_error error = {0};

    assert_int_equal(kvr_layout_check(layout, &error), KVR_INVALID);
    assert_string_equal(error.detail, sentence);
}

static void layout_good_is_accepted(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_OK);
}

/* From the first byte of the first page in the first layer to the last byte of the last in the
 * last. */
static void layout_span_of_pages(void **state)
{
    struct kvr_region_layout layout = good();
    uint64_t first, end;

    (void)state;
    kvr_layout_span(&layout, 0, 7, &first, &end);
    assert_int_equal(first, layout.base);
    assert_int_equal(end, layout.bytes);
    kvr_layout_span(&layout, 2, 3, &first, &end);
    assert_int_equal(first, 64 + 2 * 4096);
    assert_int_equal(end, layout.bytes - 4 * 4096);
    layout.layer_count = layout.part_count = 1;
    kvr_layout_span(&layout, 5, 5, &first, &end);
    assert_int_equal(first, 64 + 5 * 4096);
    assert_int_equal(end - first, 4096);
    layout.page_tokens = 0; /* a state: 2 heads of 128 B */
    kvr_layout_span(&layout, 5, 5, &first, &end);
    assert_int_equal(end - first, 256);
}

static void layout_orders_of_a_page(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    layout.token_stride = 128; /* HND */
    layout.head_stride = 16 * 128;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_OK);
    layout = good(); /* one head: its stride is ignored */
    layout.head_count = 1;
    layout.head_stride = 0;
    layout.token_stride = 128;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_OK);
    layout.page_stride = 2048;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_OK);
}

static void layout_blocks_that_cross_layers(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    layout.part_stride = 4096; /* page after page, each with all layers and parts */
    layout.layer_stride = 2 * 4096;
    layout.page_stride = 4 * 2 * 4096;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_OK);
}

static void layout_counts_outside_limits(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    layout.group = 32;
    refused(&layout, "region 7: group is 32, allowed are 0 to 31");
    layout = good();
    layout.layer_count = 0;
    refused(&layout, "region 7: layer_count is 0, allowed are 1 to 256");
    layout.layer_count = 257;
    refused(&layout, "region 7: layer_count is 257, allowed are 1 to 256");
    layout = good();
    layout.layer_first = 253;
    refused(&layout, "region 7: layer_first is 253, so its 4 layers end beyond the limit of 256");
    layout.layer_first = UINT32_MAX;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_INVALID);
    layout = good();
    layout.part_count = 7;
    refused(&layout, "region 7: part_count is 7, allowed are 1 to 6");
    layout.part_count = 2;
    layout.parts[1] = 6;
    refused(&layout, "region 7: parts[1] is 6, which is no part");
    layout.parts[1] = 0;
    refused(&layout, "region 7: parts[1] is 0, which is no part");
    layout.parts[1] = KVR_PART_K;
    refused(&layout, "region 7: parts[1] is 1, which is named twice");
    layout = good();
    layout.head_first = UINT32_MAX - 1;
    refused(&layout, "region 7: head_first is 4294967294, so 2 heads overflow");
    layout = good();
    layout.page_tokens = 0;
    refused(&layout, "region 7: page_tokens is 0, which is one page a request: only a region of a "
                     "state alone may have that");
    layout.parts[0] = KVR_PART_STATE; /* and V */
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_INVALID);
    layout.page_tokens = UINT32_MAX;
    refused(&layout, "region 7: page_tokens is 4294967295, allowed are 1 to 4294967294");
    layout = good();
    layout.head_bytes = 0;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_INVALID);
    layout = good();
    layout.page_count = layout.head_count = 0;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_INVALID);
}

static void layout_places_overlap(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    layout.page_stride = 4095;
    refused(&layout, "region 7: page_stride is 4095, but 4096 B lie inside each step, so places "
                     "overlap");
    layout = good();
    layout.token_stride = 0;
    refused(&layout,
            "region 7: token_stride is 0, but 128 B lie inside each step, so places overlap");
    layout = good();
    layout.part_stride = 7 * 4096;
    refused(&layout, "region 7: part_stride is 28672, but 32768 B lie inside each step, so places "
                     "overlap");
}

static void layout_outside_its_region(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    layout.bytes--;
    refused(&layout, "region 7: bytes is 262207, but its pages end at 262208");
    layout = good();
    layout.base++;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_INVALID);
    layout.base = UINT64_MAX;
    refused(&layout, "region 7: base is 18446744073709551615, so the last page's end overflows");
    layout = good();
    layout.layer_stride = UINT64_MAX / 3 + 1;
    refused(&layout, "region 7: layer_stride is 6148914691236517206, so 4 steps overflow");
    layout = good();
    layout.head_bytes = UINT64_MAX;
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_INVALID);
}

static void layout_page_inside_out(void **state)
{
    struct kvr_region_layout layout = good();

    (void)state;
    layout.page_stride = 256; /* token 0 of every page, then token 1 of every page */
    layout.token_stride = 8 * 256;
    refused(&layout, "region 7: page_stride is 256, less than token_stride of 2048, so a page does "
                     "not lie in one piece of its region");
    layout.page_count = 1; /* then there is no next page */
    assert_int_equal(kvr_layout_check(&layout, NULL), KVR_OK);
}

static void mismatch(const struct kvr_region_layout *source, const struct kvr_region_layout *target,
                     const char *sentence)
{
    struct kvr_error error = {0};

    assert_int_equal(kvr_layout_match(source, 1, target, 1, 0, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, sentence);
}

static kvr_status covers(const struct kvr_region_layout *source,
                         const struct kvr_region_layout *targets, uint32_t target_count,
                         struct kvr_error *error)
{
    const struct kvr_layout_list sources = {source, 1}, target = {targets, target_count};

    return kvr_layout_covers(&sources, 1, &target, 0, error);
}

static void uncovered(const struct kvr_region_layout *source,
                      const struct kvr_region_layout *target, const char *sentence)
{
    struct kvr_error error = {0};

    assert_int_equal(kvr_layout_match(source, 1, target, 1, 0, &error), KVR_OK);
    assert_int_equal(covers(source, target, 1, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, sentence);
}

static void layout_match_names_both_values(void **state)
{
    struct kvr_region_layout source = good(), target = good();

    (void)state;
    target.head_bytes = 64;
    mismatch(&source, &target, "head_bytes: the source has 128, the target has 64 (layer 2 K)");
    target = good();
    target.group = 1;
    mismatch(&source, &target, "regions of group 0: the source has 1, the target has 0");
    source.part_count = target.part_count = 1;
    source.parts[0] = target.parts[0] = KVR_PART_STATE;
    target.group = 0;
    target.page_tokens = 8;
    mismatch(&source, &target, "page_tokens: the source has 16, the target has 8 (layer 2 STATE)");
}

/* Its token dimension has size one: a stride of 0 overlaps nothing. */
static void layout_takes_a_state_of_one_page(void **state)
{
    struct kvr_region_layout source = good(), target;

    (void)state;
    source.part_count = 1;
    source.parts[0] = KVR_PART_STATE;
    source.page_tokens = 0;
    source.token_stride = 0;
    source.head_stride = 128;
    source.page_stride = 256;
    source.layer_stride = 256 * source.page_count;
    source.bytes = source.base + 4 * source.layer_stride;
    assert_int_equal(kvr_layout_check(&source, NULL), KVR_OK);
    assert_int_equal(kvr_page_tokens(&source), KVR_PAGE_ENDLESS);
    target = source;
    assert_int_equal(covers(&source, &target, 1, NULL), KVR_OK);
    target.page_tokens = 1;
    mismatch(&source, &target, "page_tokens: the source has 0, the target has 1 (layer 2 STATE)");
    mismatch(&target, &source, "page_tokens: the source has 1, the target has 0 (layer 2 STATE)");
    source.bytes--;
    assert_int_equal(kvr_layout_check(&source, NULL), KVR_INVALID);
}

static void layout_match_takes_other_pages(void **state)
{
    struct kvr_region_layout source = good(), target = good();

    (void)state;
    target.page_tokens = 8; /* half as long, HND, with gaps */
    target.token_stride = 128;
    target.head_stride = 1100;
    assert_int_equal(covers(&source, &target, 1, NULL), KVR_OK);
    assert_int_equal(covers(&target, &source, 1, NULL), KVR_OK);
}

static void layout_covers_names_what_is_missing(void **state)
{
    struct kvr_region_layout source = good(), target = good();

    (void)state;
    source.head_count = 1;
    uncovered(&source, &target,
              "layer 2 K of group 0, head 1: no source has it, the target has it in region 7");
    source = good();
    target.head_first = 2;
    uncovered(&source, &target,
              "layer 2 K of group 0, head 2: no source has it, the target has it in region 7");
    target = good();
    target.parts[1] = KVR_PART_MLA;
    uncovered(&source, &target,
              "layer 2 MLA of group 0, head 0: no source has it, the target has it in region 7");
    target = good();
    target.layer_first = 3;
    uncovered(&source, &target,
              "layer 6 K of group 0, head 0: no source has it, the target has it in region 7");
}

/* Heads 0, 1 and layers 2, 3; heads 1 to 3 and all layers; head 0 and layers 4, 5. */
static void layout_covers_with_several_sources(void **state)
{
    struct kvr_region_layout regions[3] = {good(), good(), good()}, region = good();
    const struct kvr_layout_list sources[3] = {
        {&regions[0], 1}, {&regions[1], 1}, {&regions[2], 1}};
    const struct kvr_layout_list target = {&region, 1};
    struct kvr_error error = {0};

    (void)state;
    region.head_count = 4;
    regions[0].layer_count = regions[2].layer_count = 2;
    regions[2].layer_first = 4;
    regions[2].head_count = 1;
    regions[1].head_first = 1;
    regions[1].head_count = 3;
    assert_int_equal(kvr_layout_covers(sources, 3, &target, 0, &error), KVR_OK);
    assert_int_equal(kvr_layout_covers(sources, 2, &target, 0, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, "layer 4 K of group 0, head 0: no source has it, the target "
                                      "has it in region 7");
    assert_int_equal(kvr_layout_covers(sources, 0, &target, 1, &error), KVR_OK);
}

static void layout_match_takes_a_subset(void **state)
{
    struct kvr_region_layout source = good(), targets[2] = {good(), good()};
    struct kvr_error error = {0};

    (void)state;
    targets[0].layer_first = 3; /* K of layers 3 and 4, padded, elsewhere in its region */
    targets[0].layer_count = 2;
    targets[0].part_count = 1;
    targets[0].base = 0;
    targets[0].page_stride = 5000;
    targets[0].layer_stride = 100000;
    targets[1].region = 8;
    targets[1].layer_count = 1;
    assert_int_equal(covers(&source, targets, 2, &error), KVR_OK);
    assert_int_equal(covers(&source, targets, 1, &error), KVR_OK);
    targets[1].page_tokens = 8;
    assert_int_equal(kvr_layout_match(&source, 1, targets, 2, 0, &error), KVR_INVALID);
    assert_string_equal(error.detail, "region 8 of the target has page_tokens 8, others of "
                                      "group 0 have 16");
    targets[1].page_tokens = 16;

    targets[1].layer_first = 4;
    assert_int_equal(kvr_layout_match(&source, 1, targets, 2, 0, &error), KVR_INVALID);
    assert_string_equal(error.detail, "layer 4 K of the target is in region 7 and in region 8");
    targets[1].layer_first = 300;
    assert_int_equal(kvr_layout_match(&source, 1, targets, 2, 0, &error), KVR_INVALID);
    assert_int_equal(kvr_layout_match(&source, KVR_REGIONS_MAX + 1, targets, 2, 0, &error),
                     KVR_INVALID);
    assert_string_equal(error.detail, "the source has 513 regions, allowed are 512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_good_is_accepted),
        cmocka_unit_test(layout_span_of_pages),
        cmocka_unit_test(layout_orders_of_a_page),
        cmocka_unit_test(layout_blocks_that_cross_layers),
        cmocka_unit_test(layout_counts_outside_limits),
        cmocka_unit_test(layout_places_overlap),
        cmocka_unit_test(layout_outside_its_region),
        cmocka_unit_test(layout_page_inside_out),
        cmocka_unit_test(layout_match_names_both_values),
        cmocka_unit_test(layout_takes_a_state_of_one_page),
        cmocka_unit_test(layout_match_takes_other_pages),
        cmocka_unit_test(layout_covers_names_what_is_missing),
        cmocka_unit_test(layout_covers_with_several_sources),
        cmocka_unit_test(layout_match_takes_a_subset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
