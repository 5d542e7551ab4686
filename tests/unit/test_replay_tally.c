/* Goal: the figures count all that an engine of a replay found, however its request ended.
 * Method: the end messages, one by one. */
#include "tests/support/check.h"

#include "tools/replay/replay_tally.h"

static struct replay_figures figures;
static struct replay_live live;

static int setup(void **state)
{
    (void)state;
    figures = (struct replay_figures){0};
    live = (struct replay_live){0};
    return 0;
}

static void end(kvr_status status)
{
    const struct replay_message message = {
        .kind = REPLAY_ENDED,
        .status = status,
        .ended = {.bytes = 4096, .bytes_reported = 4096, .bytes_verified = 2048, .bytes_wrong = 8}};

    replay_tally_fetch(&live, &message, &figures);
}

static void what_was_moved_counts(void **state)
{
    (void)state;
    end(KVR_OK);
    assert_int_equal(figures.delivered, 1);
    assert_int_equal(figures.bytes, 4096);
    assert_int_equal(figures.bytes_verified, 2048);
    assert_int_equal(figures.bytes_wrong, 8);
    assert_int_equal(live.bytes_wrong, 8);
}

/* A layer was in and wrong, and then the fetch failed: no planted fault excuses the wrong layer. */
static void wrong_bytes_count_though_the_fetch_failed(void **state)
{
    (void)state;
    end(KVR_PEER_LOST);
    assert_int_equal(figures.delivered, 0);
    assert_int_equal(figures.bytes, 0);
    assert_int_equal(figures.bytes_wrong, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_was_moved_counts, setup),
        cmocka_unit_test_setup(wrong_bytes_count_though_the_fetch_failed, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
