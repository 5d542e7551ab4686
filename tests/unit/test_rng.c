/* Goal: a seed gives the same numbers for ever, with the promised distribution. Method: published
 * values of splitmix64, our own recorded first values, and loose statistics. */
#include "tests/support/check.h"

#include "base/entropy.h"
#include "base/rng.h"

static void rng_repeats_its_seed(void **state)
{
    struct kvr_rng a, b, c;

    (void)state;
    kvr_rng_init(&a, 42);
    kvr_rng_init(&b, 42);
    kvr_rng_init(&c, 43);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = kvr_rng_next(&a);

        assert_true(value == kvr_rng_next(&b));
        assert_true(value != kvr_rng_next(&c));
    }
}

/* The reference of splitmix64 gives this first value for seed 1234567. */
static void rng_seeds_as_published(void **state)
{
    struct kvr_rng rng;

    (void)state;
    assert_true(kvr_mix64(1234567) == UINT64_C(6457827717110365317));
    kvr_rng_init(&rng, 1234567);
    assert_true(rng.state[0] == UINT64_C(6457827717110365317));
    assert_true(rng.state[1] == UINT64_C(3203168211198807973));
}

static void rng_stays_inside_its_bounds(void **state)
{
    uint64_t cases = check_cases(100000, 10000000);
    uint64_t counts[7] = {0};
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 1);
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t value = kvr_rng_between(&rng, 10, 16);
        double unit = kvr_rng_unit(&rng);

        assert_in_range(value, 10, 16);
        counts[value - 10]++;
        assert_true(unit >= 0 && unit < 1);
        assert_false(kvr_rng_percent(&rng, 0));
        assert_true(kvr_rng_percent(&rng, 100));
        assert_true(kvr_rng_below(&rng, 1) == 0);
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], cases / 8, cases / 6);
    (void)kvr_rng_between(&rng, 0, UINT64_MAX);
}

static void rng_kernel_gives_different_numbers(void **state)
{
    unsigned char bytes[1000] = {0};
    unsigned zeros = 0;

    (void)state;
    assert_true(kvr_random_u64() != kvr_random_u64());
    kvr_random_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        zeros += bytes[i] == 0;
    assert_true(zeros < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng_repeats_its_seed),
        cmocka_unit_test(rng_seeds_as_published),
        cmocka_unit_test(rng_stays_inside_its_bounds),
        cmocka_unit_test(rng_kernel_gives_different_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
