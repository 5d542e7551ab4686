/* Goal: percentiles are within 1.6 % of the exact ones, whatever the values, and merging equals
 * recording together. Method: compare with a sorted array. */
#include "tests/support/check.h"

#include "base/histogram.h"
#include "base/rng.h"

#define VALUES 5000

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void check_against(uint64_t values[VALUES], const struct kvr_histogram *histogram)
{
    static const size_t permille[] = {1, 10, 250, 500, 900, 950, 990, 999, 1000};

    qsort(values, VALUES, sizeof(values[0]), compare);
    assert_true(histogram->min == values[0] && histogram->max == values[VALUES - 1]);
    assert_true(kvr_histogram_percentile(histogram, 0) == values[0]);
    for (size_t i = 0; i < sizeof(permille) / sizeof(permille[0]); i++) {
        uint64_t exact = values[VALUES * permille[i] / 1000 - 1];
        uint64_t found = kvr_histogram_percentile(histogram, (double)permille[i] / 10);

        assert_true(found >= exact);
        assert_true(found - exact <= exact / 64);
    }
}

static void histogram_percentiles_are_near(void **state)
{
    static struct kvr_histogram histogram;
    static uint64_t values[VALUES];
    uint64_t cases = check_cases(64, 640);
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 3);
    for (uint64_t c = 0; c < cases; c++) {
        kvr_histogram_init(&histogram);
        for (int i = 0; i < VALUES; i++) {
            values[i] = kvr_rng_next(&rng) >> kvr_rng_below(&rng, c % 64 + 1);
            kvr_histogram_record(&histogram, values[i]);
        }
        check_against(values, &histogram);
    }
}

static void histogram_small_values_are_exact(void **state)
{
    static struct kvr_histogram histogram;

    (void)state;
    kvr_histogram_init(&histogram);
    for (uint64_t i = 1; i <= 100; i++)
        kvr_histogram_record(&histogram, i);
    for (uint64_t i = 1; i <= 100; i++)
        assert_true(kvr_histogram_percentile(&histogram, (double)i) == i);
    assert_true(kvr_histogram_mean(&histogram) == 50.5);
}

static void histogram_merges(void **state)
{
    static struct kvr_histogram parts[2], whole;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 4);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = kvr_rng_below(&rng, 1000000);

        kvr_histogram_record(&parts[i % 2], value);
        kvr_histogram_record(&whole, value);
    }
    kvr_histogram_merge(&parts[0], &parts[1]);
    kvr_histogram_init(&parts[1]);
    kvr_histogram_merge(&parts[0], &parts[1]);
    assert_memory_equal(&parts[0], &whole, sizeof(whole));
    kvr_histogram_merge(&parts[1], &whole);
    assert_memory_equal(&parts[1], &whole, sizeof(whole));
}

static void histogram_empty_answers_zero(void **state)
{
    static struct kvr_histogram histogram;

    (void)state;
    assert_true(kvr_histogram_percentile(&histogram, 50) == 0);
    assert_true(kvr_histogram_mean(&histogram) == 0);
    kvr_histogram_record(&histogram, 0);
    kvr_histogram_record(&histogram, UINT64_MAX);
    assert_true(kvr_histogram_percentile(&histogram, 50) == 0);
    assert_true(kvr_histogram_percentile(&histogram, 100) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histogram_percentiles_are_near),
        cmocka_unit_test(histogram_small_values_are_exact),
        cmocka_unit_test(histogram_merges),
        cmocka_unit_test(histogram_empty_answers_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
