/* Goal: no simulated engine leaves its fetch less time than the verdict counts on. Method: the
 * deadlines of engines that wait for a while, or do not, before they say what they have. */
#include "tests/support/check.h"

#include "tools/sim/sim_world.h"

static kvr_ns left(uint32_t chosen_ms, kvr_ns hold_ns)
{
    uint32_t named_ms = sim_deadline_ms(chosen_ms, hold_ns);

    return (named_ms > 0 ? named_ms * KVR_MS : SIM_DEADLINE_NS) - hold_ns;
}

static void held_fetch_has_as_long_as_any(void **state)
{
    const kvr_ns holds[] = {1, KVR_MS, SIM_DEADLINE_NS - SIM_HURRY_NS + 1, SIM_LEASE_NS + KVR_S};
    const uint32_t chosen_ms[] = {0, SIM_HURRY_NS / KVR_MS, 18000};

    (void)state;
    for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++)
        for (size_t k = 0; k < sizeof(chosen_ms) / sizeof(chosen_ms[0]); k++)
            assert_true(left(chosen_ms[k], holds[i]) >= SIM_HURRY_NS);
}

static void other_deadlines_stay(void **state)
{
    (void)state;
    assert_int_equal(sim_deadline_ms(0, 0), 0);
    assert_int_equal(sim_deadline_ms(SIM_HURRY_NS / KVR_MS, 0), SIM_HURRY_NS / KVR_MS);
    assert_int_equal(sim_deadline_ms(0, 5 * KVR_MS), 0);
    assert_int_equal(sim_deadline_ms(18000, 6 * KVR_S), 18000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_fetch_has_as_long_as_any),
        cmocka_unit_test(other_deadlines_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
