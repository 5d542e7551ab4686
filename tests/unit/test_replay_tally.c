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

/* A request with sides that ended so, after a recorded cancel or a fault, or neither. */
static void ended(int source, int target, bool cancelled, bool struck, uint64_t bytes_wrong,
                  replay_end expected)
{
    static struct replay_setup plain;
    uint32_t before = figures.ends[expected];

    live = (struct replay_live){.reason = target != KVR_OK ? target : source,
                                .status = {source, target},
                                .cancelled = cancelled,
                                .struck = struck,
                                .bytes_wrong = bytes_wrong,
                                .engines = {0, 1}};
    plain.trace.requests = &(struct kvr_trace_request){.input_tokens = 5};
    replay_tally_request(&plain, &live, &figures);
    assert_int_equal(figures.ends[expected], before + 1);
    assert_int_equal(figures.of_agents[0].ends[expected], before + 1);
    assert_int_equal(figures.of_agents[1].ends[expected], before + 1);
}

static void only_what_is_recorded_excuses_an_end(void **state)
{
    (void)state;
    ended(KVR_OK, KVR_OK, false, false, 0, REPLAY_END_COMPLETED);
    ended(KVR_OK, KVR_OK, true, true, 0, REPLAY_END_COMPLETED);
    ended(KVR_CANCELLED, KVR_CANCELLED, true, false, 0, REPLAY_END_CANCELLED);
    ended(KVR_OK, KVR_CANCELLED, true, true, 0, REPLAY_END_CANCELLED);
    ended(KVR_CANCELLED, KVR_CANCELLED, false, false, 0, REPLAY_END_FAILED);
    ended(KVR_PEER_LOST, KVR_PEER_LOST, true, false, 0, REPLAY_END_FAILED);
    ended(KVR_ENGINE_LOST, KVR_OK, false, true, 0, REPLAY_END_STRUCK);
    ended(KVR_ENGINE_LOST, KVR_OK, false, false, 0, REPLAY_END_FAILED);
    ended(KVR_CANCELLED, KVR_CANCELLED, true, true, 8, REPLAY_END_FAILED);
    assert_int_equal(figures.failures.count, 3); /* names */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_was_moved_counts, setup),
        cmocka_unit_test_setup(wrong_bytes_count_though_the_fetch_failed, setup),
        cmocka_unit_test_setup(only_what_is_recorded_excuses_an_end, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
