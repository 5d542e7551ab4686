/* Goal: figures are those of a sorted list; equal lists and equal distributions are not called
 * different, and a real change is; the same seed gives the same report. Method: random lists
 * against qsort, and many pairs of lists of one distribution. */
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "tools/compare/compare_stats.h"

#define PAIRS       300
#define COMPARISONS 28

static double a[PAIRS], b[PAIRS];

static int by_value(const void *left, const void *right)
{
    double one = *(const double *)left, other = *(const double *)right;

    return (one > other) - (one < other);
}

/* A long tail, as times have. */
static double draw(struct kvr_rng *rng)
{
    double uniform = ((double)(kvr_rng_next(rng) >> 11) + 1) / 9007199254740993.0;

    return 10 - 5 * log(uniform);
}

static kvr_status compare(size_t count, uint64_t seed, struct compare_changes *ret_changes)
{
    return compare_stats(&(const struct compare_pairs){a, b, count, NULL, count}, COMPARISONS, seed,
                         ret_changes, NULL);
}

static void figures_are_those_of_a_sorted_list(void **state)
{
    static const double percents[] = {50, 95, 99};
    struct compare_changes changes;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 1);
    for (int round = 0; round < 40; round++) {
        size_t count = round < 5 ? (size_t)round + 1 : 1 + kvr_rng_next(&rng) % PAIRS;
        double sum = 0;

        for (size_t i = 0; i < count; i++) {
            a[i] = (double)(kvr_rng_next(&rng) % 20); /* many equal ones */
            b[i] = a[i];
            sum += a[i];
        }
        assert_int_equal(compare(count, 1, &changes), KVR_OK);
        assert_int_equal(changes.count, count);
        qsort(a, count, sizeof(a[0]), by_value);
        for (int figure = 0; figure < 3; figure++) {
            size_t place = (size_t)ceil(percents[figure] / 100 * (double)count);

            assert_true(changes.figures[figure].a == a[place - 1]);
            assert_true(changes.figures[figure].b == a[place - 1]);
        }
        assert_true(fabs(changes.figures[COMPARE_MEAN].a - sum / (double)count) < 1e-9);
    }
}

static void equal_lists_do_not_differ(void **state)
{
    struct compare_changes changes;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 2);
    for (int i = 0; i < PAIRS; i++)
        a[i] = b[i] = draw(&rng);
    assert_int_equal(compare(PAIRS, 7, &changes), KVR_OK);
    for (int figure = 0; figure < COMPARE_FIGURE_END; figure++) {
        assert_false(changes.figures[figure].differs);
        assert_true(changes.figures[figure].low == 0 && changes.figures[figure].high == 0);
    }
}

/* Of all reports without a difference few may call one: COMPARE_DOUBT of the reports if each made
 * 28 comparisons, so here a seventh of that. */
static void chance_is_rarely_called_a_difference(void **state)
{
    uint64_t rounds = check_cases(100, 4000), wrong = 0;
    struct compare_changes changes;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 3);
    for (uint64_t round = 0; round < rounds; round++) {
        bool differs = false;

        for (int i = 0; i < PAIRS; i++) {
            a[i] = draw(&rng);
            b[i] = draw(&rng);
        }
        assert_int_equal(compare(PAIRS, round, &changes), KVR_OK);
        for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
            differs |= changes.figures[figure].differs;
        wrong += differs;
    }
    assert_true(wrong <= 2 + rounds / 40);
}

static void a_change_is_found(void **state)
{
    struct compare_changes changes, again;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 4);
    for (int i = 0; i < PAIRS; i++) {
        a[i] = draw(&rng);
        b[i] = draw(&rng) * 1.2; /* a fifth slower */
    }
    assert_int_equal(compare(PAIRS, 7, &changes), KVR_OK);
    assert_true(changes.figures[COMPARE_P50].differs && changes.figures[COMPARE_MEAN].differs);
    assert_true(changes.figures[COMPARE_MEAN].low > 0);
    assert_true(changes.figures[COMPARE_MEAN].low < changes.figures[COMPARE_MEAN].high);
    assert_int_equal(compare(PAIRS, 7, &again), KVR_OK);
    assert_memory_equal(&changes.figures, &again.figures, sizeof(changes.figures));
}

/* The same requests are drawn in both, so that a small change of each is found under a wide spread.
 */
static void pairs_are_kept_together(void **state)
{
    struct compare_changes changes;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 5);
    for (int i = 0; i < PAIRS; i++) {
        a[i] = draw(&rng);
        b[i] = a[i] + 0.1;
    }
    assert_int_equal(compare(PAIRS, 7, &changes), KVR_OK);
    assert_true(changes.figures[COMPARE_MEAN].differs && changes.figures[COMPARE_P50].differs);
}

/* Thirty requests of ten ranks, each request's ranks alike: as sure as thirty pairs, and no surer.
 */
static void ranks_are_drawn_with_their_request(void **state)
{
    uint64_t rounds = check_cases(50, 1000), wrong = 0;
    struct compare_changes changes;
    struct kvr_rng rng;
    size_t firsts[PAIRS / 10];

    (void)state;
    kvr_rng_init(&rng, 6);
    for (uint64_t round = 0; round < rounds; round++) {
        bool differs = false;

        for (size_t request = 0; request < PAIRS / 10; request++) {
            double one = draw(&rng), other = draw(&rng);

            firsts[request] = request * 10;
            for (size_t rank = 0; rank < 10; rank++) {
                a[request * 10 + rank] = one;
                b[request * 10 + rank] = other;
            }
        }
        assert_int_equal(
            compare_stats(&(const struct compare_pairs){a, b, PAIRS, firsts, PAIRS / 10},
                          COMPARISONS, round, &changes, NULL),
            KVR_OK);
        for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
            differs |= changes.figures[figure].differs;
        wrong += differs;
    }
    assert_true(wrong <= 2 + rounds / 20);
}

static void nothing_has_no_figures(void **state)
{
    struct compare_changes changes;

    (void)state;
    assert_int_equal(compare(0, 7, &changes), KVR_OK);
    assert_int_equal(changes.count, 0);
    assert_false(changes.figures[COMPARE_P50].differs);
}

/* A handful of pairs of equal chance: 3 of them all rise, or all fall, once in four times. */
static void few_pairs_are_rarely_called_a_difference(void **state)
{
    struct compare_changes changes;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 11);
    for (size_t count = 1; count <= 5; count++) {
        int wrong = 0;

        for (int round = 0; round < 100; round++) {
            for (size_t i = 0; i < count; i++) {
                a[i] = draw(&rng);
                b[i] = draw(&rng);
            }
            assert_int_equal(compare(count, 7, &changes), KVR_OK);
            for (int figure = 0; figure < COMPARE_FIGURE_END; figure++)
                wrong += changes.figures[figure].differs;
        }
        if (wrong > 100 * COMPARE_FIGURE_END * COMPARE_DOUBT)
            fail_msg("%zu pairs: %d of %d figures differ by chance", count, wrong,
                     100 * COMPARE_FIGURE_END);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_a_sorted_list),
        cmocka_unit_test(equal_lists_do_not_differ),
        cmocka_unit_test(chance_is_rarely_called_a_difference),
        cmocka_unit_test(a_change_is_found),
        cmocka_unit_test(pairs_are_kept_together),
        cmocka_unit_test(ranks_are_drawn_with_their_request),
        cmocka_unit_test(nothing_has_no_figures),
        cmocka_unit_test(few_pairs_are_rarely_called_a_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
