/* Goal: an agent says that its loop or a thread of its rails stands still, that no rail works, and
 * that it ends. It says none of that of a thread that sleeps, of an endpoint that is replaced, or
 * once the whole process did not run. Method: the pure judgement with given looks and times. */
#include "tests/support/check.h"

#include "agent/agent_health.h"

#define START (1000 * KVR_S)

static struct agent_health health;
static struct agent_health_look seen;

static int begin(void **state)
{
    (void)state;
    health = (struct agent_health){0};
    seen = (struct agent_health_look){.rails_up = 1, .thread_count = 2};
    return 0;
}

/* The loop looks once a second from `from` up to `to`; the threads take `steps` between. */
static void run(kvr_ns from, kvr_ns to, uint64_t steps)
{
    for (kvr_ns now = from; now <= to; now += KVR_S) {
        seen.threads[0].steps += steps;
        seen.threads[1].steps++;
        agent_health_look(&health, &seen, now);
    }
}

/* AGENT_PROBLEM_END: none. */
static void expect(kvr_ns ran_at, kvr_ns now, agent_problem problem, kvr_ns since)
{
    struct agent_health_view view;

    agent_health_judge(&health, ran_at, now, &view);
    assert_int_equal(view.count, problem != AGENT_PROBLEM_END);
    if (problem == AGENT_PROBLEM_END)
        return;
    assert_int_equal(view.problems[0].problem, problem);
    assert_true(view.problems[0].since == since);
}

static void an_agent_that_works_has_no_problem(void **state)
{
    (void)state;
    run(START, START + 10 * KVR_S, 1);
    expect(START + 10 * KVR_S, START + 10 * KVR_S, AGENT_PROBLEM_END, 0);
}

static void a_loop_that_stands_still_shows(void **state)
{
    kvr_ns end = START + 10 * KVR_S;

    (void)state;
    run(START, end, 1);
    expect(end, end + AGENT_STILL_NS - 1, AGENT_PROBLEM_END, 0);
    expect(end, end + AGENT_STILL_NS, AGENT_LOOP_STILL, end);
    expect(end + KVR_S, end + AGENT_STILL_NS, AGENT_PROBLEM_END,
           0); /* it ran, and showed nothing */
}

static void a_thread_that_stands_still_shows(void **state)
{
    kvr_ns last = START + KVR_S, end = last + AGENT_STILL_NS;

    (void)state;
    run(START, last, 1);
    run(last + KVR_S, end - KVR_S, 0);
    expect(end - KVR_S, end - KVR_S, AGENT_PROBLEM_END, 0);
    run(end, end + KVR_S, 0);
    expect(end + KVR_S, end + KVR_S, AGENT_THREAD_STILL, last);
    run(end + 2 * KVR_S, end + 2 * KVR_S, 1);
    expect(end + 2 * KVR_S, end + 2 * KVR_S, AGENT_PROBLEM_END, 0);
}

static void a_thread_that_sleeps_does_not(void **state)
{
    kvr_ns end = START + 60 * KVR_S;

    (void)state;
    seen.threads[0].asleep = true;
    run(START, end, 0);
    expect(end, end, AGENT_PROBLEM_END, 0);
}

static void a_process_that_was_stopped_blames_no_thread(void **state)
{
    kvr_ns end = START + 10 * KVR_S, again = end + 60 * KVR_S;

    (void)state;
    run(START, end, 1);
    seen.threads[1].steps--; /* as little as the other: stopped while it spun */
    run(again, again, 0);
    expect(again, again, AGENT_PROBLEM_END, 0);
    run(again + KVR_S, again + AGENT_STILL_NS, 0);
    expect(again + AGENT_STILL_NS, again + AGENT_STILL_NS, AGENT_THREAD_STILL, again);
}

static void rails_that_are_away_for_long_show(void **state)
{
    kvr_ns end = START + AGENT_NO_RAIL_NS;

    (void)state;
    seen.rails_up = 0;
    run(START, end, 1);
    expect(end, end - 1, AGENT_PROBLEM_END, 0); /* endpoints are replaced within that time */
    expect(end, end, AGENT_NO_RAIL, START);
    seen.rails_up = 1;
    run(end + KVR_S, end + KVR_S, 1);
    expect(end + KVR_S, end + KVR_S, AGENT_PROBLEM_END, 0);
}

static void an_agent_that_ends_says_so(void **state)
{
    (void)state;
    run(START, START + KVR_S, 1);
    seen.stopping = true;
    run(START + 2 * KVR_S, START + 3 * KVR_S, 1);
    expect(START + 3 * KVR_S, START + 3 * KVR_S, AGENT_STOPPING, START + 2 * KVR_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_agent_that_works_has_no_problem, begin),
        cmocka_unit_test_setup(a_loop_that_stands_still_shows, begin),
        cmocka_unit_test_setup(a_thread_that_stands_still_shows, begin),
        cmocka_unit_test_setup(a_thread_that_sleeps_does_not, begin),
        cmocka_unit_test_setup(a_process_that_was_stopped_blames_no_thread, begin),
        cmocka_unit_test_setup(rails_that_are_away_for_long_show, begin),
        cmocka_unit_test_setup(an_agent_that_ends_says_so, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
