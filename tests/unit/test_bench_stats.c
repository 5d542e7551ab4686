/* Goal: medians and quartiles are those of a textbook, for any order and any count. */
#include "tests/support/check.h"

#include "tools/bench/bench_stats.h"

static void stats_of_nothing_and_of_one(void **state)
{
    double one[] = {7.5};
    struct bench_spread none = bench_spread_of(NULL, 0), spread = bench_spread_of(one, 1);

    (void)state;
    assert_true(none.median == 0 && none.min == 0 && none.max == 0);
    assert_true(bench_spread_relative(&none) == 0);
    assert_true(spread.min == 7.5 && spread.quarter == 7.5 && spread.median == 7.5);
    assert_true(spread.three_quarters == 7.5 && spread.max == 7.5);
    assert_true(bench_spread_relative(&spread) == 0);
}

static void stats_of_an_odd_count(void **state)
{
    double values[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    struct bench_spread spread = bench_spread_of(values, 9);

    (void)state;
    assert_true(spread.min == 1 && spread.max == 9);
    assert_true(spread.quarter == 3 && spread.median == 5 && spread.three_quarters == 7);
    assert_true(bench_spread_relative(&spread) == 0.8);
}

static void stats_between_neighbours(void **state)
{
    double values[] = {4, 2, 1, 3};
    struct bench_spread spread = bench_spread_of(values, 4);

    (void)state;
    assert_true(spread.quarter == 1.75 && spread.median == 2.5 && spread.three_quarters == 3.25);
}

static void stats_are_not_moved_by_one_outlier(void **state)
{
    double values[] = {5, 5, 5, 5, 5, 5, 5, 5, 500};
    struct bench_spread spread = bench_spread_of(values, 9);

    (void)state;
    assert_true(spread.median == 5 && spread.max == 500);
    assert_true(bench_spread_relative(&spread) == 0);
}

/* Three choices; the middle one is in use. */
static void a_choice_is_left_only_beyond_noise(void **state)
{
    static const double noise[] = {1.0, 1.0, 1.2, 1.3, 1.0, 0.8, 0.9, 1.0, 1.3, 1.1, 1.0, 0.7};
    static const double better[] = {1.0, 1.0, 1.2, 1.2, 1.0, 1.1, 3.0, 2.0, 2.2, 0.5, 0.5, 0.6};
    static const double outlier[] = {1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 1.0, 1.0, 0.9};
    static const double silent[] = {5.0, 0.0, 5.0, 5.0, 0.0, 5.0};

    (void)state;
    assert_int_equal(bench_choose(noise, 4, 3, 1), 1);
    assert_int_equal(bench_choose(better, 4, 3, 1), 2);
    assert_int_equal(bench_choose(outlier, 4, 3, 1), 1);
    assert_int_equal(bench_choose(silent, 2, 3, 1), 1);
    assert_int_equal(bench_choose(NULL, 0, 3, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stats_of_nothing_and_of_one),
        cmocka_unit_test(stats_of_an_odd_count),
        cmocka_unit_test(stats_between_neighbours),
        cmocka_unit_test(stats_are_not_moved_by_one_outlier),
        cmocka_unit_test(a_choice_is_left_only_beyond_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
