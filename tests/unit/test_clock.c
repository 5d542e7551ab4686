/* Goal: time is monotonic, and wall time reads as RFC 3339 in UTC. */
#include "tests/support/check.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

static void clock_never_goes_back(void **state)
{
    kvr_ns last = kvr_clock_now();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        kvr_ns now = kvr_clock_now();

        assert_true(now >= last);
        last = now;
    }
    assert_true(kvr_clock_wall() > 1700000000 * KVR_S);
}

static void clock_prints_rfc3339(void **state)
{
    char text[KVR_RFC3339_BYTES];

    (void)state;
    assert_string_equal(kvr_clock_rfc3339(0, text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(kvr_clock_rfc3339(1769863996 * KVR_S + 789 * KVR_MS + 999999, text),
                        "2026-01-31T12:53:16.789Z");
}

/* Each day of the calendar that kvr_ns has, at another time of the day, as the C library has it. */
static void every_day_is_told(void **state)
{
    char text[KVR_RFC3339_BYTES], expected[KVR_RFC3339_BYTES];
    uint64_t last = UINT64_MAX / KVR_S;

    (void)state;
    for (uint64_t second = 0; second < last; second += 24 * 3600 + 61) {
        time_t at = (time_t)second;
        struct tm parts;

        gmtime_r(&at, &parts);
        strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000Z", &parts);
        assert_string_equal(kvr_clock_rfc3339(second * KVR_S, text), expected);
    }
    assert_string_equal(kvr_clock_rfc3339(UINT64_MAX, text), "2554-07-21T23:34:33.709Z");
}

/* A certificate without an end names the year 9999, which kvr_ns cannot hold. */
static void clock_prints_seconds_of_any_year(void **state)
{
    char text[KVR_RFC3339_BYTES];

    (void)state;
    assert_string_equal(kvr_clock_rfc3339_seconds(0, text), "1970-01-01T00:00:00Z");
    assert_string_equal(kvr_clock_rfc3339_seconds(253402300799, text), "9999-12-31T23:59:59Z");
    assert_string_equal(kvr_clock_rfc3339_seconds(-1, text), "1969-12-31T23:59:59Z");
    assert_string_equal(kvr_clock_rfc3339_seconds(INT64_MAX, text), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_never_goes_back),
        cmocka_unit_test(clock_prints_rfc3339),
        cmocka_unit_test(every_day_is_told),
        cmocka_unit_test(clock_prints_seconds_of_any_year),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
