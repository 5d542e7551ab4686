/* Goal: the pace of a processor that was not measured, or that is fast, takes nothing from a time;
 * that of one which took four times as long takes three quarters. */
#include "tests/support/check.h"

#include "tools/bench/bench_pace.h"

static void pace_of_a_core(void **state)
{
    struct bench_pace pace = {0};
    struct kvr_error error;
    kvr_ns quick;

    (void)state;
    assert_int_equal(bench_pace_open(&pace, &error), KVR_OK);
    assert_true(bench_pace_slower(&pace) == 1);
    bench_pace_measure(&pace);
    quick = kvr_histogram_percentile(&pace.taken, 50);
    assert_true(quick > 100 * KVR_US); /* it did work */
    bench_pace_begin(&pace);
    kvr_histogram_record(&pace.taken, 1);
    assert_true(bench_pace_slower(&pace) == 1);
    bench_pace_begin(&pace);
    kvr_histogram_record(&pace.taken, 4 * BENCH_PACE_QUIET_NS);
    assert_true(bench_pace_slower(&pace) > 3.8 && bench_pace_slower(&pace) < 4.2);
    bench_pace_close(&pace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pace_of_a_core)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
