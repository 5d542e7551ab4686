/* Goal: a time is read with every unit and with a fraction, and is printed in its largest unit. All
 * else is refused by one sentence, and the field stays. Method: tables of texts. */
#include "tests/support/check.h"

#include "base/option_value.h"

struct times {
    kvr_ns time;
    uint64_t bytes;
};

static const struct kvr_option any_time = {.name = "time", KVR_OPTION_DURATION(struct times, time)};
static const struct kvr_option seconds = {.name = "seconds",
                                          .min = 20 * KVR_MS,
                                          .max = 3600 * KVR_S,
                                          .seconds = true,
                                          KVR_OPTION_DURATION(struct times, time)};
static const struct kvr_option bytes = {.name = "bytes", KVR_OPTION_SIZE(struct times, bytes)};

static kvr_ns read_time(const struct kvr_option *option, const char *text)
{
    struct times times = {0};
    struct kvr_error error;

    assert_int_equal(kvr_option_value_set(option, text, &times, &error), KVR_OK);
    return times.time;
}

static void refuses(const struct kvr_option *option, const char *text, const char *sentence)
{
    struct times times = {.time = 7, .bytes = 7};
    struct kvr_error error;

    assert_int_equal(kvr_option_value_set(option, text, &times, &error), KVR_INVALID);
    assert_string_equal(error.detail, sentence);
    assert_true(times.time == 7 && times.bytes == 7);
}

static void option_value_reads_every_unit_of_time(void **state)
{
    static const struct {
        const char *text;
        kvr_ns time;
    } good[] = {
        {"20us", 20 * KVR_US},
        {"500ms", 500 * KVR_MS},
        {"30s", 30 * KVR_S},
        {"15m", 900 * KVR_S},
        {"15min", 900 * KVR_S},
        {"2h", 7200 * KVR_S},
        {"7d", 604800 * KVR_S},
        {"168h", 604800 * KVR_S},
        {"1D", 86400 * KVR_S},
        {"1.5h", 5400 * KVR_S},
        {"0.25s", 250 * KVR_MS},
        {"7.000000001s", 7 * KVR_S + 1},
        {"213503d", UINT64_C(213503) * 86400 * KVR_S},
        {"0", 0},
        {"never", KVR_NEVER},
    };
    static const char *const bad[] = {"7",   "d",   "7 d",  "7days",   "-1s",    "1.s",
                                      ".5s", "1.5", "1e3s", "213504d", "1.5.5s", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(read_time(&any_time, good[i].text) == good[i].time);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&any_time, bad[i], "must be a number with us, ms, s, min, h or d, as in 250ms");
}

static void option_value_takes_seconds_without_a_unit(void **state)
{
    (void)state;
    assert_true(read_time(&seconds, "0.5") == 500 * KVR_MS);
    assert_true(read_time(&seconds, "3") == 3 * KVR_S);
    assert_true(read_time(&seconds, "50ms") == 50 * KVR_MS);
    assert_true(read_time(&seconds, "3m") == 180 * KVR_S);
    refuses(&seconds, "0.01", "must be from 20ms to 1h");
    refuses(&seconds, "2h", "must be from 20ms to 1h");
    refuses(&bytes, "4.5k", "must be a number of bytes, or one with k, M or G, as in 64M");
}

static void option_value_prints_the_largest_unit(void **state)
{
    static const struct {
        kvr_ns time;
        const char *text;
    } printed[] = {
        {604800 * KVR_S, "7d"},     {90 * KVR_S, "90s"},  {900 * KVR_S, "15min"},
        {36 * 3600 * KVR_S, "36h"}, {KVR_NEVER, "never"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(printed) / sizeof(printed[0]); i++) {
        struct times times = {.time = printed[i].time};
        char text[32];

        assert_string_equal(kvr_option_value_print(&any_time, &times, text, sizeof(text)),
                            printed[i].text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(option_value_reads_every_unit_of_time),
        cmocka_unit_test(option_value_takes_seconds_without_a_unit),
        cmocka_unit_test(option_value_prints_the_largest_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
