/* Goal: the fields of an event are right for every way in which a fetch or publish can end. Method:
 * the library against a scripted agent. */
#include "tests/support/check.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "tests/support/client_case.h"
#include "tests/support/test_secret.h"

/* The library refuses what the agent would call malformed. */
static void a_digest_that_is_none_is_refused(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_source_address source = {.size = sizeof(struct kvrail_source_address),
                                           .agent = "127.0.0.1:1"};
    struct kvrail_target_options options = {.size = sizeof(struct kvrail_target_options),
                                            .request = "hold",
                                            .tokens = 16,
                                            .sources = &source,
                                            .source_count = 1,
                                            .digest = (kvrail_digest)3,
                                            .secret = TEST_SECRET};
    kvrail_handle handle;

    (void)state;
    assert_int_equal(kvrail_target_open(engine, &options, &handle), KVRAIL_INVALID);
    assert_string_equal(kvrail_last_error(engine)->detail, "digest 3 is no kvrail_digest");
    options.digest = KVRAIL_DIGEST_FULL;
    assert_int_equal(kvrail_target_open(engine, &options, &handle), KVRAIL_OK);
    kvrail_close(engine);
}

static kvrail_handle open_target(struct kvrail *engine, uint64_t tokens, uint64_t skip_tokens)
{
    struct kvrail_source_address source = {
        .size = sizeof(struct kvrail_source_address), .agent = "127.0.0.1:1", .generation = 1};
    struct kvrail_target_options options = {.size = sizeof(struct kvrail_target_options),
                                            .request = "hold",
                                            .tokens = tokens,
                                            .skip_tokens = skip_tokens,
                                            .sources = &source,
                                            .source_count = 1,
                                            .secret = TEST_SECRET};
    kvrail_handle handle = 0;

    assert_int_equal(kvrail_target_open(engine, &options, &handle), KVRAIL_OK);
    return handle;
}

/* What a dead agent had written is unknown: all requested tokens must be computed again. */
static void a_dead_agent_leaves_nothing_right(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle target = open_target(engine, 100, 32), source = scripted_source(engine, "s");
    unsigned failed = 0, freed = 0;
    struct kvrail_event event;

    (void)state;
    assert_int_equal(kill(agent.pid, SIGKILL), 0);
    while (failed + freed < 2) {
        assert_int_equal(scripted_event(engine, &event), 1);
        if (event.kind == KVRAIL_EVENT_FAILED) {
            assert_int_equal(event.handle, target);
            assert_int_equal(event.token_first, 32);
            assert_int_equal(event.token_end, 100);
            failed++;
        } else if (event.kind == KVRAIL_EVENT_SOURCE_FREE) {
            assert_int_equal(event.handle, source);
            assert_int_equal(event.token_end, 0);
            freed++;
        }
        assert_true(event.time_ns > 0); /* the library's own events too */
    }
    kvrail_close(engine);
}

/* News of other agents has a name but no handle, and every event has its time. */
static void news_of_others_is_told(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct timespec before, after;
    struct kvrail_event event;
    uint64_t last;

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &before);
    last = (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec;
    scripted_target(engine, "news");
    for (int kind = KVRAIL_EVENT_PEER_DOWN; kind <= KVRAIL_EVENT_RAIL_UP; kind++) {
        assert_int_equal(scripted_event(engine, &event), 1);
        assert_int_equal(event.kind, kind);
        assert_int_equal(event.handle, 0);
        assert_int_equal(event.terminal, 0);
        assert_string_equal(event.name, "p1");
        assert_true(event.time_ns >= last);
        last = event.time_ns;
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(last <= (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
    assert_string_equal(kvrail_event_name(KVRAIL_EVENT_LEASE_LOW), "lease_low");
    kvrail_close(engine);
}

/* Rule 11: a target may still be copying from these pages, and checks the revocation word
 * afterwards. */
static void agent_killed_revokes_every_word_first(void **state)
{
    _Atomic uint64_t *first, *last;
    struct kvrail_event event;
    struct kvrail *engine;

    (void)state;
    engine = scripted_engine(&agent, "e");
    (void)scripted_source(engine, "s");
    first = &agent.revocation_words->words[0];
    last = &agent.revocation_words->words[KVR_TRANSFERS_MAX - 1];
    kvr_revocation_word_lend(first, 42);
    kvr_revocation_word_lend(last, 43);
    kill(agent.pid, SIGKILL);
    do
        assert_int_equal(scripted_event(engine, &event), 1);
    while (!event.terminal);
    assert_int_equal(event.status, KVRAIL_AGENT_LOST);
    assert_false(kvr_revocation_word_holds(first, 42));
    assert_false(kvr_revocation_word_holds(last, 43));
    kvrail_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dead_agent_leaves_nothing_right, start_process, stop),
        cmocka_unit_test_setup_teardown(news_of_others_is_told, start_process, stop),
        cmocka_unit_test_setup_teardown(a_digest_that_is_none_is_refused, start_process, stop),
        cmocka_unit_test_setup_teardown(agent_killed_revokes_every_word_first, start_process, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
