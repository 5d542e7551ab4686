/* Goal: an agent that stops, dies, hangs up or gives an engine up loses nothing and keeps nothing:
 * the pages come back exactly once, and only when nothing can touch them any more. Method: the
 * library against a scripted agent in a process of its own, where it must be killed. */
#include "tests/support/check.h"

#include <signal.h>

#include "tests/support/client_case.h"

static void agent_stopped_loses_nothing(void **state)
{
    static uint32_t ids[200000];
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    struct kvrail_event event;
    kvrail_status status = KVRAIL_OK;
    uint64_t given = 0;

    (void)state;
    for (size_t i = 0; i < 200000; i++)
        ids[i] = UINT32_MAX; /* the longest encoding */
    kill(agent.pid, SIGSTOP);
    while (status == KVRAIL_OK) {
        status = kvrail_source_pages(engine, source, 0, ids, 200000);
        given += status == KVRAIL_OK ? 200000 : 0;
    }
    assert_int_equal(status, KVRAIL_AGAIN);
    assert_int_equal(kvrail_source_pages(engine, source, 0, ids, 200000), KVRAIL_AGAIN);
    kill(agent.pid, SIGCONT);
    while ((status = kvrail_source_end(engine, source, KVRAIL_OK)) == KVRAIL_AGAIN)
        assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    assert_int_equal(status, KVRAIL_OK);
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.kind, KVRAIL_EVENT_SOURCE_FREE);
    assert_int_equal(event.bytes, given);
    assert_int_equal(agent.record->ids, given);
    assert_false(agent.record->out_of_order);
    kvrail_close(engine);
}

/* A request that waits for a dying agent is never sent, and its caller returns at once. */
static void agent_killed_ends_a_wait_for_room(void **state)
{
    static uint32_t ids[200000];
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    struct kvrail_region region = small_region("late");
    struct kvrail_memory memory;
    kvr_ns began;
    uint32_t id;

    (void)state;
    assert_int_equal(kvrail_memory_create(NULL, region.bytes, &memory, NULL), KVRAIL_OK);
    region.fd = memory.fd;
    kill(agent.pid, SIGSTOP);
    while (kvrail_source_pages(engine, source, 0, ids, 200000) == KVRAIL_OK)
        continue;
    kill(agent.pid, SIGKILL);
    began = kvr_clock_now();
    assert_int_equal(kvrail_region_add(engine, &region, 20000, &id), KVRAIL_AGENT_LOST);
    assert_true(kvr_clock_now() - began < 10 * KVR_S);
    assert_event(engine, KVRAIL_EVENT_AGENT_LOST, 0);
    kvrail_memory_destroy(&memory);
    kvrail_close(engine);
}

/* AGENT_LOST, then one terminal event for each handle, then nothing ever again. */
static void assert_settles(struct kvrail *engine, kvrail_handle source, kvrail_handle target,
                           kvrail_status status)
{
    struct kvrail_event event;
    int sources = 0, targets = 0;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(scripted_event(engine, &event), 1);
        assert_int_equal(event.terminal, 1);
        assert_int_equal(event.status, status);
        assert_true(event.detail[0] != '\0');
        sources += event.kind == KVRAIL_EVENT_SOURCE_FREE && event.handle == source;
        targets += event.kind == KVRAIL_EVENT_FAILED && event.handle == target;
    }
    assert_int_equal(sources, 1);
    assert_int_equal(targets, 1);
    assert_int_equal(kvrail_poll(engine, &event, 1), status);
    assert_int_equal(kvrail_poll(engine, &event, 1), status);
    assert_true(event_fd_is_quiet(engine));
    assert_int_equal(kvrail_cancel(engine, target, KVRAIL_CANCELLED), status);
    assert_int_equal(kvrail_ready(engine, 0, 9), status);
    assert_int_equal(kvrail_source_pages(engine, source, 0, NULL, 0), status);
}

static void agent_killed_hands_back_once(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    kvrail_handle target = scripted_target(engine, "hold");

    (void)state;
    assert_true(scripted_reached(&agent.record->targets, 1));
    assert_int_equal(kvrail_cancel(engine, target, KVRAIL_CANCELLED), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_CANCELLED, target);
    target = scripted_target(engine, "hold");
    kill(agent.pid, SIGKILL);
    assert_event(engine, KVRAIL_EVENT_AGENT_LOST, 0);
    assert_settles(engine, source, target, KVRAIL_AGENT_LOST);
    kvrail_close(engine);
}

/* A closed socket proves nothing about the cards: pages stay lent while the agent's process lives.
 */
static void socket_closed_keeps_pages_lent(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    kvrail_handle target = scripted_target(engine, "close");
    struct kvrail_event event;

    (void)state;
    assert_event(engine, KVRAIL_EVENT_AGENT_LOST, 0);
    assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    assert_true(event_fd_is_quiet(engine));
    assert_int_equal(kvrail_poll(engine, &event, 1), 0);
    assert_int_equal(kvrail_why(engine, source), KVRAIL_AGENT_LOST);
    kill(agent.pid, SIGKILL);
    assert_settles(engine, source, target, KVRAIL_AGENT_LOST);
    kvrail_close(engine);
}

/* A living agent gave the engine up: its RELEASED hands the pages back. */
static void refused_engine_gets_pages_back(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    kvrail_handle target = scripted_target(engine, "give up");
    struct kvrail_event event;

    (void)state;
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.kind, KVRAIL_EVENT_REFUSED);
    assert_string_equal(event.detail, "given up by script");
    assert_settles(engine, source, target, KVRAIL_DRAINING);
    /* The script counts only after its release lets the library notice. */
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_DRAINING);
    kvrail_close(engine);
}

/* The call reports that the agent is lost; the event of the loss is shown like every other. */
static void agent_lost_in_a_wait_is_shown(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = small_region("last");
    struct kvrail_memory memory;
    uint32_t id;

    (void)state;
    assert_int_equal(kvrail_memory_create(NULL, region.bytes, &memory, NULL), KVRAIL_OK);
    region.fd = memory.fd;
    assert_int_equal(kvrail_region_add(engine, &region, 10000, &id), KVRAIL_AGENT_LOST);
    assert_false(event_fd_is_quiet(engine));
    assert_event(engine, KVRAIL_EVENT_AGENT_LOST, 0);
    assert_true(event_fd_is_quiet(engine));
    kvrail_memory_destroy(&memory);
    kvrail_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Cases that fork come first: a fork from a process with threads is not safe. */
        cmocka_unit_test_setup_teardown(agent_lost_in_a_wait_is_shown, start_process, stop),
        cmocka_unit_test_setup_teardown(agent_stopped_loses_nothing, start_process, stop),
        cmocka_unit_test_setup_teardown(agent_killed_hands_back_once, start_process, stop),
        cmocka_unit_test_setup_teardown(agent_killed_ends_a_wait_for_room, start_process, stop),
        cmocka_unit_test_setup_teardown(socket_closed_keeps_pages_lent, start_process, stop),
        cmocka_unit_test_setup_teardown(refused_engine_gets_pages_back, start_thread, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
