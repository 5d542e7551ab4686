/* Goal: layouts that have little in a row at both ends are known for it, and what is done about it
 * follows the option and the measured costs. Method: vLLM's layouts against each other, counted by
 * hand; costs that make either way the faster. */
#include "tests/support/check.h"

#include "kv/fragment.h"
#include "kv/layout_named.h"

/* 2 layers of 8 or fewer heads of 256 B. */
static struct kvr_region_layout layout_of(kvr_layout_name name, uint32_t page_tokens,
                                          uint32_t head_first, uint32_t head_count)
{
    struct kvr_layout_shape shape = {
        .layer_count = 2,
        .head_first = head_first,
        .head_count = head_count,
        .page_tokens = page_tokens,
        .page_count = 4,
        .head_dim = 128,
        .element_bytes = 2,
    };
    struct kvr_region_layout layout;

    assert_int_equal(kvr_layout_make(name, &shape, &layout, NULL), KVR_OK);
    return layout;
}

static void expect(const struct kvr_region_layout *source, const struct kvr_region_layout *target,
                   uint64_t bytes_min, uint64_t pieces, uint64_t bytes)
{
    struct kvr_plan_input input = {.source_layouts = source,
                                   .target_layouts = target,
                                   .source_layout_count = 1,
                                   .target_layout_count = 1};
    struct kvr_fragments fragments;

    assert_int_equal(kvr_fragments_count(&input, 64, &fragments, NULL), KVR_OK);
    assert_int_equal(fragments.bytes_min, bytes_min);
    assert_int_equal(fragments.pieces, pieces);
    assert_int_equal(fragments.bytes, bytes);
}

static void fragments_of_known_layouts(void **state)
{
    const uint64_t token = 8 * 256, planes = 4, all = planes * 64 * token;
    struct kvr_region_layout nhd = layout_of(KVR_LAYOUT_VLLM_NHD, 16, 0, 8);
    struct kvr_region_layout hnd = layout_of(KVR_LAYOUT_VLLM_HND, 16, 0, 8);
    struct kvr_region_layout nhd64 = layout_of(KVR_LAYOUT_VLLM_NHD, 64, 0, 8);
    struct kvr_region_layout hnd64 = layout_of(KVR_LAYOUT_VLLM_HND, 64, 0, 8);
    struct kvr_region_layout nhd4 = layout_of(KVR_LAYOUT_VLLM_NHD, 16, 4, 4);
    struct kvr_region_layout hnd4 = layout_of(KVR_LAYOUT_VLLM_HND, 16, 4, 4);
    struct kvr_region_layout hnd1 = layout_of(KVR_LAYOUT_VLLM_HND, 16, 3, 1);
    struct kvr_region_layout other = layout_of(KVR_LAYOUT_VLLM_HND, 16, 8, 1);

    (void)state;
    expect(&nhd, &nhd, 16 * token, planes * 4, all);
    expect(&hnd, &hnd, 16 * token, planes * 4, all);
    expect(&nhd, &nhd64, 16 * token, planes * 4, all);
    expect(&hnd, &hnd64, 16 * 256, planes * 4 * 8, all);
    expect(&hnd64, &hnd, 16 * 256, planes * 4 * 8, all);
    expect(&nhd, &hnd, 256, planes * 64 * 8, all);
    expect(&nhd, &nhd4, 4 * 256, planes * 64, all / 2); /* unequal TP in token order */
    expect(&hnd, &hnd4, 4 * 16 * 256, planes * 4, all / 2);
    expect(&hnd1, &nhd, 256, planes * 64, all / 8);
    expect(&hnd, &other, UINT64_MAX, 0, 0);
}

static struct kvr_fragment_verdict judge(const struct kvr_fragments *fragments,
                                         const struct kvr_fragment_policy *policy)
{
    struct kvr_fragment_verdict verdict;

    assert_int_equal(kvr_fragments_judge(fragments, policy, &verdict, NULL), KVR_OK);
    return verdict;
}

static void fragments_are_judged_by_option_and_cost(void **state)
{
    const struct kvr_fragments small = {.bytes_min = 256, .pieces = 4000, .bytes = 1024000};
    struct kvr_fragment_policy policy = {.option = KVR_FRAGMENT_AUTO,
                                         .fragment_bytes_min = 1024,
                                         .chunk_bytes_max = 1 << 20,
                                         .pieces_a_write = 4};
    struct kvr_fragment_verdict verdict = judge(&small, &policy);
    struct kvr_error error;

    (void)state;
    assert_int_equal(verdict.choice, KVR_FRAGMENT_WRITE); /* nothing was measured */
    policy.write_ns = 1000;
    policy.piece_ns = 50;
    policy.wire_ns_per_byte = 0.1;
    policy.copy_ns = 20;
    policy.copy_ns_per_byte = 0.1;
    verdict = judge(&small, &policy);
    assert_int_equal(verdict.choice, KVR_FRAGMENT_STAGE);
    assert_int_equal((int)verdict.write_ns, 1000 * 1000 + 4000 * 50);
    assert_int_equal((int)verdict.stage_ns, 4000 * 20 + 102400);
    policy.copy_ns = 400;
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_WRITE);
    policy.option = KVR_FRAGMENT_STAGE;
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_STAGE);
    policy.option = KVR_FRAGMENT_REFUSE;
    assert_int_equal(kvr_fragments_judge(&small, &policy, &verdict, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail,
                        "these layouts have only 256 B in a row at both ends, and "
                        "fragment_bytes_min is 1024 (4000 pieces of 1024000 B in all)");
    policy.staged = true; /* that has no small writes to refuse */
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_STAGE);
    policy.fragment_bytes_min = 256;
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_WRITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_of_known_layouts),
        cmocka_unit_test(fragments_are_judged_by_option_and_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
