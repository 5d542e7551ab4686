/* Goal: with an agent that is older than the library, a fetch never fails for what that agent does
 * not know: it goes its old way, or the call says what is missing.
 * Method: the library against a scripted agent in a thread; what the agent said that it knows is
 * taken back. */
#include "tests/support/check.h"

#include "client/client.h"
#include "tests/support/client_case.h"

#define TOKENS 64 /* as scripted_target names them */

/* An engine with two KV groups. */
static struct kvrail *engine_of_two_groups(struct kvrail_memory *ret_memory)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = small_region("kv");
    uint32_t id;

    assert_int_equal(kvrail_memory_create("kv", region.bytes, ret_memory, NULL), KVRAIL_OK);
    region.fd = ret_memory->fd;
    for (region.group = 0; region.group < 2; region.group++)
        assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_OK);
    return engine;
}

/* The requests that the agent has had: `why` comes after all of them, and counts. */
static uint32_t requests_of(struct kvrail *engine, kvrail_handle target)
{
    assert_int_equal(kvrail_why(engine, target), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_WHY, target);
    return atomic_load(&agent.record->requests);
}

static void a_hold_is_kept_from_an_older_agent(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle target = scripted_target(engine, "hold");
    uint32_t before = requests_of(engine, target), id = 3;

    (void)state;
    engine->abilities &= ~KVR_ABILITY_SKIP_LATER;
    assert_int_equal(kvrail_target_hold(engine, target), KVRAIL_OK);
    assert_int_equal(kvrail_target_hold(engine, 12345), KVRAIL_NOT_FOUND);
    assert_int_equal(requests_of(engine, target), before + 1);
    assert_int_equal(kvrail_target_skip(engine, target, 0, 16), KVRAIL_OK);
    assert_int_equal(kvrail_target_pages(engine, target, 0, &id, 1), KVRAIL_OK);
    assert_int_equal(requests_of(engine, target), before + 4);

    engine->abilities |= KVR_ABILITY_SKIP_LATER;
    target = scripted_target(engine, "hold");
    assert_int_equal(kvrail_target_hold(engine, target), KVRAIL_OK);
    assert_int_equal(requests_of(engine, target), before + 7);
    kvrail_close(engine);
}

/* An older agent would wait for pages of such a fetch until its deadline. */
static void an_older_agent_cannot_skip_every_group(void **state)
{
    struct kvrail_memory memory;
    struct kvrail *engine = engine_of_two_groups(&memory);
    kvrail_handle target = scripted_target(engine, "hold");

    (void)state;
    assert_int_equal(kvrail_target_skip(engine, target, 0, TOKENS), KVRAIL_OK);
    assert_int_equal(kvrail_target_skip(engine, target, 1, TOKENS), KVRAIL_OK);
    engine->abilities &= ~KVR_ABILITY_SKIP_LATER;
    target = scripted_target(engine, "hold");
    assert_int_equal(kvrail_target_skip(engine, target, 0, TOKENS), KVRAIL_OK);
    assert_int_equal(kvrail_target_skip(engine, target, 1, TOKENS), KVRAIL_UNSUPPORTED);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "cancel the fetch"));
    assert_int_equal(kvrail_target_skip(engine, target, 0, 16), KVRAIL_OK);
    assert_int_equal(kvrail_target_skip(engine, target, 1, TOKENS), KVRAIL_OK);
    assert_int_equal(kvrail_cancel(engine, target, KVRAIL_CANCELLED), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_CANCELLED, target);
    kvrail_close(engine);
    kvrail_memory_destroy(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_hold_is_kept_from_an_older_agent, start_thread, stop),
        cmocka_unit_test_setup_teardown(an_older_agent_cannot_skip_every_group, start_thread, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
