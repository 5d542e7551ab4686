/* Goal: layouts with only short runs at both ends are detected, and the choice that follows obeys
 * the option and the measured costs. Method: vLLM's layouts against each other, counted by hand;
 * costs that make either path the faster. */
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
    struct kvr_region_layout whole = layout_of(KVR_LAYOUT_STATE, 0, 0, 1);

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
    expect(&whole, &whole, 256, 2, 2 * 256); /* of 64 tokens: one page of each layer */
}

/* Pieces that touch at one end are one run there: ranks that share heads in token order do so at
 * one end. */
static void fragments_make_runs(void **state)
{
    const uint64_t planes = 4;
    struct kvr_region_layout nhd = layout_of(KVR_LAYOUT_VLLM_NHD, 16, 0, 8);
    struct kvr_region_layout hnd = layout_of(KVR_LAYOUT_VLLM_HND, 16, 0, 8);
    struct kvr_region_layout nhd4 = layout_of(KVR_LAYOUT_VLLM_NHD, 16, 4, 4);
    const struct {
        const struct kvr_region_layout *source, *target;
        uint64_t source_runs, target_runs; /* of 64 tokens and a plane */
    } rows[] = {{&nhd, &nhd, 4, 4},
                {&nhd, &nhd4, 64, 4},
                {&nhd4, &nhd, 4, 64},
                {&nhd, &hnd, 64 * 8, 4},
                {&hnd, &nhd, 64 * 8, 4}};
    struct kvr_fragments sum = KVR_FRAGMENTS_NONE;

    (void)state;
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvr_plan_input input = {.source_layouts = rows[i].source,
                                       .target_layouts = rows[i].target,
                                       .source_layout_count = 1,
                                       .target_layout_count = 1};
        struct kvr_fragments fragments;

        assert_int_equal(kvr_fragments_count(&input, 64, &fragments, NULL), KVR_OK);
        assert_int_equal(fragments.source_runs, planes * rows[i].source_runs);
        assert_int_equal(fragments.target_runs, planes * rows[i].target_runs);
        kvr_fragments_add(&sum, &fragments);
    }
    assert_int_equal(sum.bytes_min, 256);
    assert_int_equal(sum.source_runs, planes * (4 + 64 + 4 + 64 * 8 + 64 * 8));
}

static struct kvr_fragment_verdict judge(const struct kvr_fragments *fragments,
                                         const struct kvr_fragment_policy *policy)
{
    struct kvr_fragment_verdict verdict;

    assert_int_equal(kvr_fragments_judge(fragments, policy, &verdict, NULL), KVR_OK);
    return verdict;
}

/* The target's pages are in fragments; they lie together at the source. */
static const struct kvr_fragments small = {
    .bytes_min = 256, .pieces = 4000, .bytes = 1024000, .source_runs = 250, .target_runs = 4000};

static struct kvr_fragment_policy policy_of(kvr_fragment_choice option)
{
    return (struct kvr_fragment_policy){
        .option = option,
        .fragment_bytes_min = 1024,
        .chunk_bytes_max = 1 << 20,
        .pieces_local = 4,
        .pieces_remote = 4,
        .may_gather = true,
        .may_scatter = true,
        .costs = {.write = 1000, .piece = 50, .wire_byte = 0.1, .copy = 20, .copy_byte = 0.1},
    };
}

static void fragments_are_judged_by_option_and_cost(void **state)
{
    struct kvr_fragment_policy policy = policy_of(KVR_FRAGMENT_AUTO);
    struct kvr_fragment_verdict verdict = judge(&small, &policy);
    struct kvr_error error;

    (void)state;
    assert_int_equal(verdict.choice, KVR_FRAGMENT_STAGE);
    assert_int_equal(verdict.direct.writes, 1000); /* the target's runs, by four */
    assert_int_equal(verdict.direct.ns, 1000 * 1000 + 4250 * 50 + 1);
    policy.costs.copy = 400;
    verdict = judge(&small, &policy);
    assert_int_equal(verdict.choice, KVR_FRAGMENT_WRITE);
    assert_false(verdict.gathers || verdict.scatters);
    assert_true(verdict.staged.ns > verdict.direct.ns); /* the verdict has both costs */
    policy.option = KVR_FRAGMENT_STAGE;
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_STAGE);
    policy.option = KVR_FRAGMENT_WRITE;
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_WRITE);
    policy.option = KVR_FRAGMENT_REFUSE;
    assert_int_equal(kvr_fragments_judge(&small, &policy, &verdict, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail,
                        "these layouts have only 256 B in a row at both ends, and "
                        "fragment_bytes_min is 1024 (4000 pieces of 1024000 B in all)");
    policy.fragment_bytes_min = 256; /* runs of this length are no fragments */
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_WRITE);
}

/* A contiguous end is copied only where the copy saves more than it costs. */
static void the_end_that_has_fragments_is_copied(void **state)
{
    struct kvr_fragment_policy policy = policy_of(KVR_FRAGMENT_STAGE);
    struct kvr_fragment_verdict verdict;

    (void)state;
    policy.costs.copy = 100;
    verdict = judge(&small, &policy);
    assert_true(verdict.scatters && !verdict.gathers);
    assert_int_equal(verdict.staged.writes, 63); /* 250 runs of the source, by four */
    assert_int_equal(verdict.staged.ns, 63000 + 4000 * 100 + 102400 + 1);
    policy.pieces_local = 1;
    policy.costs.write = 10000;
    verdict = judge(&small, &policy);
    assert_true(verdict.scatters && verdict.gathers);
    assert_int_equal(verdict.staged.writes, 8); /* as many pieces as one copy takes */
    policy.costs.processors = true;             /* then both ends work for the bytes on the wire */
    assert_int_equal(judge(&small, &policy).staged.ns, verdict.staged.ns + 102400);
}

static void what_cannot_be_copied_is_not(void **state)
{
    struct kvr_fragment_policy policy = policy_of(KVR_FRAGMENT_STAGE);
    struct kvr_fragment_verdict verdict;

    (void)state;
    policy.may_scatter = false;
    assert_false(judge(&small, &policy).scatters);
    policy.may_gather = false;
    verdict = judge(&small, &policy);
    assert_int_equal(verdict.choice, KVR_FRAGMENT_WRITE);
    assert_int_equal(verdict.staged.ns, 0);
    policy = policy_of(KVR_FRAGMENT_AUTO);
    policy.costs.write = 0; /* the costs are unknown */
    assert_int_equal(judge(&small, &policy).choice, KVR_FRAGMENT_WRITE);
}

/* Pages that no card reaches are copied, whatever the option says: their short pieces then make no
 * short writes. */
static void what_no_card_reaches_is_copied_anyway(void **state)
{
    struct kvr_fragment_policy policy = policy_of(KVR_FRAGMENT_REFUSE);
    struct kvr_fragment_verdict verdict;
    struct kvr_error error;

    (void)state;
    policy.gathers = policy.scatters = true;
    policy.may_gather = policy.may_scatter = false;
    verdict = judge(&small, &policy);
    assert_true(verdict.gathers && verdict.scatters);
    assert_int_equal(verdict.choice, KVR_FRAGMENT_STAGE);
    assert_int_equal(verdict.direct.ns, 0);
    policy.scatters = false; /* scattered fragments of the other end remain */
    assert_int_equal(kvr_fragments_judge(&small, &policy, &verdict, &error), KVR_INCOMPATIBLE);
    policy.option = KVR_FRAGMENT_STAGE;
    policy.may_scatter = true;
    verdict = judge(&small, &policy);
    assert_true(verdict.gathers && verdict.scatters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_of_known_layouts),
        cmocka_unit_test(fragments_make_runs),
        cmocka_unit_test(fragments_are_judged_by_option_and_cost),
        cmocka_unit_test(the_end_that_has_fragments_is_copied),
        cmocka_unit_test(what_cannot_be_copied_is_not),
        cmocka_unit_test(what_no_card_reaches_is_copied_anyway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
