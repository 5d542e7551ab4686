/* Goal: a process that did not run says for how long, and one that was a little late says nothing.
 * Method: ticks at chosen times. */
#include "tests/support/check.h"

#include "base/absence.h"

static void what_is_late_by_more_than_the_bound_counts(void **state)
{
    struct kvr_absence absence = {0};
    kvr_ns now = 1000 * KVR_S;

    (void)state;
    assert_int_equal(kvr_absence_tick(&absence, now, KVR_S), 0); /* it begins */
    assert_int_equal(kvr_absence_tick(&absence, now += KVR_S, KVR_S), 0);
    assert_int_equal(kvr_absence_tick(&absence, now += KVR_S + KVR_ABSENCE_NS, KVR_S), 0);
    assert_int_equal(absence.count, 0);
    assert_int_equal(kvr_absence_tick(&absence, now += 5 * KVR_S, KVR_S), 4 * KVR_S);
    assert_int_equal(absence.count, 1);
    assert_int_equal(kvr_absence_tick(&absence, now += KVR_S, KVR_S), 0);
    assert_int_equal(kvr_absence_tick(&absence, now += 1, KVR_S), 0); /* early */
    assert_int_equal(kvr_absence_tick(&absence, now += 3 * KVR_S, 10 * KVR_S), 2 * KVR_S);
    assert_int_equal(kvr_absence_tick(&absence, now += 10 * KVR_S, KVR_S), 0);
    assert_int_equal(absence.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_late_by_more_than_the_bound_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
