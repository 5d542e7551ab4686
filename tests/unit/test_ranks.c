/* Goal: every target rank gets each of its layers and heads once, from ranks that have them. Ranks
 * with identical data share the work evenly. Method: the pairs of parallel degrees that engines run
 * with, and random ones, counted head by head. */
#include "tests/support/check.h"

#include "base/rng.h"
#include "kv/ranks.h"

#define LAYERS 30
#define GIFTS  256

struct engine {
    uint32_t tp_size, pp_size, heads;
    uint32_t rank_count;
    struct kvr_shares ranks[KVR_SOURCES_MAX];
};

static struct engine engine_of(uint32_t tp_size, uint32_t pp_size, uint32_t heads)
{
    struct engine engine = {.tp_size = tp_size, .pp_size = pp_size, .heads = heads};

    for (uint32_t pp = 0; pp < pp_size; pp++) {
        for (uint32_t tp = 0; tp < tp_size; tp++) {
            struct kvr_rank rank = {.tp = tp, .tp_size = tp_size, .pp = pp, .pp_size = pp_size};
            struct kvr_shares *shares = &engine.ranks[engine.rank_count++];
            struct kvr_error error = {0};

            shares->count = 1;
            if (kvr_share_of_rank(&rank, 0, LAYERS, heads, &shares->shares[0], &error) != KVR_OK)
                fail_msg("%s", error.detail);
        }
    }
    return engine;
}

static bool inside(const struct kvr_share *share, uint32_t group, uint32_t layer, uint32_t head)
{
    return share->group == group && layer >= share->layer_first &&
           layer - share->layer_first < share->layer_count && head >= share->head_first &&
           head - share->head_first < share->head_count;
}

static uint32_t holds(const struct kvr_shares *shares, uint32_t group, uint32_t layer,
                      uint32_t head)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < shares->count; i++)
        count += inside(&shares->shares[i], group, layer, head);
    return count;
}

/* Chooses for target rank `target` and counts; returns how many sources give something. */
static uint32_t check(const struct engine *from, const struct engine *to, uint32_t target,
                      uint64_t request, uint32_t used[KVR_SOURCES_MAX])
{
    struct kvr_gift gifts[GIFTS], again[GIFTS];
    struct kvr_ranks_input input = {&to->ranks[target], target, from->ranks, from->rank_count,
                                    request};
    uint32_t count, count_again;
    struct kvr_error error = {0};
    uint64_t sources = 0;

    if (kvr_ranks_choose(&input, gifts, GIFTS, &count, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    assert_int_equal(kvr_ranks_choose(&input, again, GIFTS, &count_again, &error), KVR_OK);
    assert_int_equal(count, count_again);
    assert_memory_equal(gifts, again, count * sizeof(*gifts));
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (uint32_t head = 0; head < to->heads; head++) {
            uint32_t given = 0;

            for (uint32_t i = 0; i < count; i++) {
                if (!inside(&gifts[i].share, 0, layer, head))
                    continue;
                given++;
                assert_int_equal(holds(&from->ranks[gifts[i].source], 0, layer, head), 1);
            }
            assert_int_equal(given, holds(&to->ranks[target], 0, layer, head));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(kvr_shares_meet(&from->ranks[gifts[i].source], &to->ranks[target]));
        used[gifts[i].source]++;
        sources |= UINT64_C(1) << gifts[i].source;
    }
    assert_int_equal(__builtin_popcountll(sources), count); /* a rectangle each */
    return count;
}

/* Every target rank takes from the given number of sources; each source gives to the given number
 * of targets. */
static void expect(uint32_t from_tp, uint32_t from_pp, uint32_t to_tp, uint32_t to_pp,
                   uint32_t heads, uint32_t sources, uint32_t least, uint32_t most)
{
    struct engine from = engine_of(from_tp, from_pp, heads), to = engine_of(to_tp, to_pp, heads);

    for (uint64_t request = 0; request < 40; request++) {
        uint32_t used[KVR_SOURCES_MAX] = {0};

        for (uint32_t target = 0; target < to.rank_count; target++)
            assert_int_equal(check(&from, &to, target, kvr_mix64(request), used), sources);
        for (uint32_t i = 0; i < from.rank_count; i++)
            assert_in_range(used[i], least, most);
    }
}

static void ranks_of_unequal_tensor_parallelism(void **state)
{
    (void)state;
    expect(8, 1, 8, 1, 8, 1, 1, 1);
    expect(8, 1, 4, 1, 8, 2, 1, 1);
    expect(4, 1, 8, 1, 8, 1, 2, 2);
    expect(8, 1, 1, 1, 8, 8, 1, 1);
    expect(1, 1, 8, 1, 8, 1, 8, 8);
    expect(6, 1, 4, 1, 12, 2, 1, 2); /* two heads each, three each */
}

static void ranks_that_hold_the_same_are_used_alike(void **state)
{
    (void)state;
    expect(8, 1, 8, 1, 1, 1, 1, 1); /* MLA: each source serves one target */
    expect(8, 1, 4, 1, 1, 1, 0, 1);
    expect(4, 1, 8, 1, 1, 1, 2, 2);
    expect(8, 1, 4, 1, 4, 1, 0, 1); /* each head at two sources */
    expect(8, 1, 8, 1, 4, 1, 1, 1);
    expect(8, 1, 2, 1, 4, 2, 0, 1);
}

/* Over many requests each of two holders is chosen first. */
static void ranks_spread_requests(void **state)
{
    struct engine from = engine_of(8, 1, 1), to = engine_of(1, 1, 1);
    uint32_t used[KVR_SOURCES_MAX] = {0};

    (void)state;
    for (uint64_t request = 0; request < 8000; request++)
        (void)check(&from, &to, 0, kvr_mix64(request), used);
    for (uint32_t i = 0; i < 8; i++)
        assert_in_range(used[i], 850, 1150);
}

static void ranks_of_pipeline_stages(void **state)
{
    (void)state;
    expect(2, 2, 4, 1, 8, 2, 2, 2);
    expect(4, 1, 2, 2, 8, 2, 2, 2);
    expect(1, 4, 1, 3, 8, 2, 1, 2); /* 7 8 8 7 layers, and 10 10 10 */
    expect(2, 3, 1, 1, 8, 6, 1, 1);
}

static void share_of_a_stage_is_vllms(void **state)
{
    static const uint32_t first[4] = {0, 7, 15, 23}, count[4] = {7, 8, 8, 7};
    struct kvr_share share;
    struct kvr_error error;

    (void)state;
    for (uint32_t pp = 0; pp < 4; pp++) {
        struct kvr_rank rank = {.tp_size = 1, .pp = pp, .pp_size = 4};

        assert_int_equal(kvr_share_of_rank(&rank, 3, 30, 8, &share, &error), KVR_OK);
        assert_int_equal(share.group, 3);
        assert_int_equal(share.layer_first, first[pp]);
        assert_int_equal(share.layer_count, count[pp]);
    }
}

static void share_refuses_heads_that_do_not_divide(void **state)
{
    struct kvr_rank rank = {.tp_size = 8, .pp_size = 1};
    struct kvr_share share;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_share_of_rank(&rank, 0, 30, 12, &share, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, "num kv heads: 12 heads cannot be cut for 8 ranks");
    rank.tp = 8;
    assert_int_equal(kvr_share_of_rank(&rank, 0, 30, 8, &share, &error), KVR_INVALID);
}

static void ranks_name_what_nobody_has(void **state)
{
    struct engine from = engine_of(4, 2, 8), to = engine_of(1, 1, 8);
    struct kvr_ranks_input input = {&to.ranks[0], 0, from.ranks, 7, 1};
    struct kvr_gift gifts[GIFTS];
    struct kvr_error error;
    uint32_t count = 77;

    (void)state;
    assert_int_equal(kvr_ranks_choose(&input, gifts, GIFTS, &count, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail,
                        "layer 15 of group 0: no source rank has head 6, which the target has");
    assert_int_equal(count, 77);
    input.source_count = 8;
    assert_int_equal(kvr_ranks_choose(&input, gifts, 7, &count, &error), KVR_TOO_LARGE);
    assert_int_equal(kvr_ranks_choose(&input, gifts, 8, &count, &error), KVR_OK);
    input.source_count = KVR_SOURCES_MAX + 1;
    assert_int_equal(kvr_ranks_choose(&input, gifts, GIFTS, &count, &error), KVR_TOO_LARGE);
}

static void shares_are_read_from_regions(void **state)
{
    struct kvr_region_layout layouts[5] = {
        {.region = 1, .layer_first = 4, .layer_count = 2, .head_first = 2, .head_count = 2},
        {.region = 2, .layer_first = 6, .layer_count = 1, .head_first = 2, .head_count = 2},
        {.region = 3, .layer_first = 6, .layer_count = 1, .head_first = 2, .head_count = 2},
        {.region = 4, .group = 1, .layer_first = 4, .layer_count = 9, .head_count = 1},
        {.region = 5, .layer_first = 9, .layer_count = 1, .head_first = 2, .head_count = 2},
    };
    struct kvr_shares shares;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_shares_of_layouts(layouts, 5, &shares, &error), KVR_OK);
    assert_int_equal(shares.count, 3);
    assert_memory_equal(&shares.shares[0], &((struct kvr_share){0, 4, 3, 2, 2}),
                        sizeof(struct kvr_share));
    assert_memory_equal(&shares.shares[1], &((struct kvr_share){0, 9, 1, 2, 2}),
                        sizeof(struct kvr_share));
    assert_memory_equal(&shares.shares[2], &((struct kvr_share){1, 4, 9, 0, 1}),
                        sizeof(struct kvr_share));
    layouts[2].head_first = 0;
    assert_int_equal(kvr_shares_of_layouts(layouts, 5, &shares, &error), KVR_INVALID);
    assert_string_equal(error.detail,
                        "layer 6 of group 0: one part has 2 heads from 2, another 2 from 0");
    for (uint32_t i = 0; i < 5; i++)
        layouts[i].layer_first = UINT32_MAX;
    assert_int_equal(kvr_shares_of_layouts(layouts, 5, &shares, &error), KVR_INVALID);
}

/* Several groups, each with its own heads; sources that overlap in any way. */
static void ranks_cover_whatever_is_held(void **state)
{
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 7);
    for (uint64_t i = check_cases(2000, 100000); i > 0; i--) {
        static struct engine from, to;
        uint32_t used[KVR_SOURCES_MAX];
        struct kvr_gift gifts[GIFTS];
        struct kvr_ranks_input input = {&to.ranks[0], (uint32_t)kvr_rng_below(&rng, 9), from.ranks,
                                        (uint32_t)kvr_rng_between(&rng, 1, 9), kvr_rng_next(&rng)};
        uint32_t count = 0;
        bool covered = true;
        kvr_status status;

        (void)used;
        to.ranks[0].count = 1;
        to.ranks[0].shares[0] = (struct kvr_share){
            1, (uint32_t)kvr_rng_below(&rng, 6), (uint32_t)kvr_rng_between(&rng, 1, 6),
            (uint32_t)kvr_rng_below(&rng, 4), (uint32_t)kvr_rng_between(&rng, 1, 4)};
        for (uint32_t s = 0; s < input.source_count; s++) {
            from.ranks[s].count = (uint32_t)kvr_rng_between(&rng, 1, 2);
            for (uint32_t j = 0; j < from.ranks[s].count; j++)
                from.ranks[s].shares[j] = (struct kvr_share){
                    (uint32_t)kvr_rng_between(&rng, j, 1), (uint32_t)kvr_rng_below(&rng, 6),
                    (uint32_t)kvr_rng_between(&rng, 1, 12), (uint32_t)kvr_rng_below(&rng, 4),
                    (uint32_t)kvr_rng_between(&rng, 1, 8)};
        }
        status = kvr_ranks_choose(&input, gifts, GIFTS, &count, NULL);
        for (uint32_t layer = 0; layer < 12; layer++) {
            for (uint32_t head = 0; head < 8; head++) {
                uint32_t given = 0;
                bool held = false;

                if (holds(&to.ranks[0], 1, layer, head) == 0)
                    continue;
                for (uint32_t s = 0; s < input.source_count; s++)
                    held = held || holds(&from.ranks[s], 1, layer, head) > 0;
                covered = covered && held;
                for (uint32_t g = 0; status == KVR_OK && g < count; g++) {
                    if (!inside(&gifts[g].share, 1, layer, head))
                        continue;
                    given++;
                    assert_true(holds(&from.ranks[gifts[g].source], 1, layer, head) > 0);
                }
                assert_int_equal(given, status == KVR_OK);
            }
        }
        assert_int_equal(status, covered ? KVR_OK : KVR_INCOMPATIBLE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_unequal_tensor_parallelism),
        cmocka_unit_test(ranks_that_hold_the_same_are_used_alike),
        cmocka_unit_test(ranks_spread_requests),
        cmocka_unit_test(ranks_of_pipeline_stages),
        cmocka_unit_test(share_of_a_stage_is_vllms),
        cmocka_unit_test(share_refuses_heads_that_do_not_divide),
        cmocka_unit_test(ranks_name_what_nobody_has),
        cmocka_unit_test(shares_are_read_from_regions),
        cmocka_unit_test(ranks_cover_whatever_is_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
