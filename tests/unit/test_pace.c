/* Goal: a pace is how long bytes take, also where they come in bursts or hardly at all.
 * Method: looks at times that the test sets. */
#include "tests/support/check.h"

#include "base/pace.h"

/* A few bytes took a second: a larger write takes at least as long. */
static void a_crawl_is_never_taken_for_fast(void **state)
{
    struct kvr_pace pace = {0};

    (void)state;
    kvr_pace_begin(&pace, KVR_S);
    kvr_pace_settled(&pace, 1, 2 * KVR_S);
    for (unsigned shift = 0; shift < 40; shift++)
        assert_true(kvr_pace_of(&pace, UINT64_C(2) << shift) >=
                    kvr_pace_of(&pace, UINT64_C(1) << shift));
    assert_true(kvr_pace_of(&pace, UINT64_C(1) << 20) > 3600 * KVR_S);
}

/* Completions come in bursts: 64 KiB after 10 ms, then 960 KiB within one more. That is 1 MiB in 11
 * ms, however often it repeats and wherever the last look ended. */
static void bursts_do_not_move_a_pace(void **state)
{
    struct kvr_pace pace = {0};
    kvr_ns now = KVR_S;

    (void)state;
    kvr_pace_begin(&pace, now);
    for (unsigned i = 0; i < 100; i++) {
        kvr_pace_settled(&pace, 64 << 10, now += 10 * KVR_MS);
        kvr_pace_settled(&pace, 960 << 10, now += KVR_MS);
        if (i >= 10)
            assert_in_range(kvr_pace_of(&pace, UINT64_C(1) << 20), 8 * KVR_MS, 14 * KVR_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crawl_is_never_taken_for_fast),
        cmocka_unit_test(bursts_do_not_move_a_pace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
