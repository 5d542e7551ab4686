/* Goal: an engine learns that its agent stands still, and of each deadline that passes meanwhile;
 * no page is handed back before the agent runs again or its process is gone; no call waits. Method:
 * the library against a scripted agent in a process of its own, which is stopped. The engine sleeps
 * in poll, as engines do. */
#include "tests/support/check.h"

#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/client.h"
#include "tests/support/client_case.h"
#include "tests/support/test_secret.h"

#define BOUND_NS (KVR_ENGINE_BEATS_MAX * KVR_ENGINE_BEAT_NS)
#define LATE_NS  (2 * KVR_S) /* a busy machine */

static kvrail_handle target_until(struct kvrail *engine, const char *request, uint32_t deadline_ms)
{
    struct kvrail_source_address source = {
        .size = sizeof(struct kvrail_source_address), .agent = "127.0.0.1:1", .generation = 1};
    struct kvrail_target_options options = {.size = sizeof(struct kvrail_target_options),
                                            .request = request,
                                            .tokens = 64,
                                            .sources = &source,
                                            .source_count = 1,
                                            .deadline_ms = deadline_ms,
                                            .secret = TEST_SECRET};
    kvrail_handle handle = 0;

    assert_int_equal(kvrail_target_open(engine, &options, &handle), KVRAIL_OK);
    return handle;
}

/* False: no event comes within that time. */
static bool event_within(struct kvrail *engine, kvr_ns within, struct kvrail_event *event)
{
    struct pollfd readable = {.fd = kvrail_event_fd(engine), .events = POLLIN};
    kvr_ns now, end = kvr_clock_now() + within;

    while (kvrail_poll(engine, event, 1) == 0) {
        now = kvr_clock_now();
        if (now >= end)
            return false;
        (void)poll(&readable, 1, (int)((end - now) / KVR_MS) + 1);
    }
    return true;
}

static void assert_nothing_within(struct kvrail *engine, kvr_ns within)
{
    struct kvrail_event event;

    if (event_within(engine, within, &event))
        fail_msg("%s of handle %llu: %s", kvrail_event_name(event.kind),
                 (unsigned long long)event.handle, event.detail);
}

/* The agent has stopped; poll wakes by itself when it is found silent. */
static void assert_silent(struct kvrail *engine, kvr_ns stopped_at)
{
    struct kvrail_event event;
    kvr_ns now;

    assert_true(event_within(engine, BOUND_NS + LATE_NS, &event));
    now = kvr_clock_now();
    assert_string_equal(kvrail_event_name(event.kind), "agent_silent");
    assert_int_equal(event.handle, 0);
    assert_int_equal(event.terminal, 0);
    assert_true(event.time_ns <= stopped_at && event.time_ns + 2 * KVR_S > stopped_at);
    assert_true(now >= event.time_ns + BOUND_NS && now < event.time_ns + BOUND_NS + LATE_NS);
    assert_non_null(strstr(event.detail, "no sign of life"));
}

static void assert_failing(struct kvrail *engine, kvr_ns within, kvrail_handle target)
{
    struct kvrail_event event;

    assert_true(event_within(engine, within, &event));
    assert_string_equal(kvrail_event_name(event.kind), "failing");
    assert_int_equal(event.handle, target);
    assert_int_equal(event.status, KVRAIL_EXPIRED);
    assert_int_equal(event.terminal, 0);
}

/* A deadline before the silence is seen, and one after it. */
static void a_silent_agent_is_told_and_keeps_the_pages(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    kvrail_handle soon = target_until(engine, "hold", 1000);
    kvrail_handle later = target_until(engine, "hold", 5000);
    kvr_ns opened_at = kvr_clock_now(), stopped_at;

    (void)state;
    assert_int_equal(kvrail_target_watch(engine, later, 3, 0), KVRAIL_OK);
    assert_true(scripted_reached(&agent.record->targets, 2));
    kill(agent.pid, SIGSTOP);
    stopped_at = kvr_clock_now();
    assert_silent(engine, stopped_at);
    assert_failing(engine, KVR_S, soon);
    assert_int_equal(kvrail_landed(engine, 3), 0);
    assert_failing(engine, 2 * KVR_S + LATE_NS, later);
    assert_true(kvr_clock_now() >= opened_at + 5 * KVR_S);
    assert_true(kvrail_landed(engine, 3) >= KVRAIL_LANDED_FAILED); /* a stream waits no longer */
    assert_nothing_within(engine, 1500 * KVR_MS);
    kill(agent.pid, SIGCONT);
    assert_event(engine, KVRAIL_EVENT_AGENT_BACK, 0);
    assert_event(engine, KVRAIL_EVENT_CANCELLED, soon); /* the script's answer to the library */
    assert_event(engine, KVRAIL_EVENT_CANCELLED, later);
    assert_int_equal(agent.record->cancels, 2);
    assert_int_equal(kvrail_source_end(engine, source, KVRAIL_OK), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_SOURCE_FREE, source);
    kvrail_close(engine);
}

/* The agent ends while it is silent: one terminal event each, and FAILING is not said again. */
static void a_silent_agent_that_dies_hands_the_pages_back(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    kvrail_handle target = target_until(engine, "hold", 100);

    (void)state;
    assert_true(scripted_reached(&agent.record->targets, 1));
    kill(agent.pid, SIGSTOP);
    assert_silent(engine, kvr_clock_now());
    assert_failing(engine, KVR_S, target);
    kill(agent.pid, SIGKILL);
    assert_event(engine, KVRAIL_EVENT_AGENT_LOST, 0);
    assert_event(engine, KVRAIL_EVENT_SOURCE_FREE, source);
    assert_event(engine, KVRAIL_EVENT_FAILED, target);
    assert_int_equal(kvrail_poll(engine, &(struct kvrail_event){0}, 1), KVRAIL_AGENT_LOST);
    assert_true(event_fd_is_quiet(engine));
    kvrail_close(engine);
}

/* Neither the socket nor the library's queue has room: no call waits, and what the library has to
 * say is said when there is room. */
static void a_silent_agent_with_full_queues_blocks_nobody(void **state)
{
    static uint32_t ids[200000];
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle source = scripted_source(engine, "req");
    kvrail_handle target = target_until(engine, "hold", 100);
    struct kvrail_event event;

    (void)state;
    for (size_t i = 0; i < 200000; i++)
        ids[i] = UINT32_MAX;
    assert_true(scripted_reached(&agent.record->targets, 1));
    kill(agent.pid, SIGSTOP);
    while (kvrail_source_pages(engine, source, 0, ids, 200000) == KVRAIL_OK)
        continue;
    while (kvrail_source_pages(engine, source, 0, ids, 8192) == KVRAIL_OK)
        continue;
    assert_silent(engine, kvr_clock_now());
    assert_failing(engine, KVR_S, target);
    assert_nothing_within(engine, KVR_S);
    kill(agent.pid, SIGCONT);
    assert_event(engine, KVRAIL_EVENT_AGENT_BACK, 0);
    assert_int_equal(scripted_event(engine, &event), 1);
    assert_int_equal(event.handle, target);
    assert_int_equal(event.terminal, 1);
    assert_false(agent.record->out_of_order);
    kvrail_close(engine);
}

/* It calls silent neither an agent that ran, nor one that stood still with it. */
static void an_engine_that_was_away_blames_nobody(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle target = target_until(engine, "hold", 500);

    (void)state;
    assert_true(scripted_reached(&agent.record->targets, 1));
    usleep((unsigned)((BOUND_NS + KVR_S) / KVR_US));
    assert_nothing_within(engine, KVR_S / 2);
    kill(agent.pid, SIGSTOP);
    usleep((unsigned)((BOUND_NS + KVR_S) / KVR_US));
    assert_int_equal(kvrail_poll(engine, &(struct kvrail_event){0}, 1), 0);
    kill(agent.pid, SIGCONT);
    assert_nothing_within(engine, BOUND_NS);
    assert_int_equal(kvrail_cancel(engine, target, KVRAIL_CANCELLED), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_CANCELLED, target);
    kvrail_close(engine);
}

/* It gives no sign, stopped or not: it is as silent as a library of its time found it. */
static void an_older_agent_is_never_silent(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct itimerspec timer;

    (void)state;
    kill(agent.pid, SIGSTOP);
    usleep(50000);
    atomic_store(&engine->page->alive_at, 0);
    (void)target_until(engine, "hold", 100);
    assert_int_equal(timerfd_gettime(engine->watch.timer, &timer), 0);
    assert_int_equal(timer.it_value.tv_sec + timer.it_value.tv_nsec, 0); /* no look is due, ever */
    kvrail_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_silent_agent_is_told_and_keeps_the_pages, start_process,
                                        stop),
        cmocka_unit_test_setup_teardown(a_silent_agent_that_dies_hands_the_pages_back,
                                        start_process, stop),
        cmocka_unit_test_setup_teardown(a_silent_agent_with_full_queues_blocks_nobody,
                                        start_process, stop),
        cmocka_unit_test_setup_teardown(an_engine_that_was_away_blames_nobody, start_process, stop),
        cmocka_unit_test_setup_teardown(an_older_agent_is_never_silent, start_process, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
