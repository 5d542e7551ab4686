/* Goal: /healthz and /readyz show a problem for as long as it lasts. A failed commit is counted. No
 * agent is called lost for the scheduler's own troubles.
 * Method: the health, the fleet and the writer alone; a database with a file that is moved. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scheduler/api.h"
#include "tests/support/store_case.h"

static void expect_answer(struct health *health, bool ready, unsigned status, const char *text)
{
    struct api_answer answer;

    api_get_health(health, ready, &answer);
    assert_int_equal(answer.status, status);
    if (strstr(answer.body, text) == NULL)
        fail_msg("no %s in %s", text, answer.body);
    free(answer.body);
}

static void a_problem_is_told_until_it_is_over(void **state)
{
    struct health *health = health_open("/var/kvrail/kvrail.db");
    struct health_view view;

    (void)state;
    expect_answer(health, false, 200, "\"status\":\"ok\"");
    expect_answer(health, true, 200, "\"problems\":[]");
    health_failed(health, HEALTH_DISK_FULL, "database or disk is full");
    health_failed(health, HEALTH_DISK_FULL, "database or disk is full");
    expect_answer(health, false, 503, "\"problem\":\"disk_full\"");
    expect_answer(health, true, 503, "free space on the disk of /var/kvrail/kvrail.db");
    health_look(health, &view);
    assert_int_equal(view.failed, 2);
    assert_int_equal(view.count, 1);
    health_stored(health);
    expect_answer(health, false, 200, "\"status\":\"ok\"");
    expect_answer(health, true, 200, "\"status\":\"ok\"");
    health_close(health);
}

/* A program that restarts the scheduler for it would make it worse. */
static void a_lag_is_no_failure(void **state)
{
    struct health *health = health_open("kvrail.db");

    (void)state;
    health_set(health, HEALTH_LAGGING, "7 wait, the oldest for 3.2 s");
    expect_answer(health, false, 200, "\"status\":\"degraded\"");
    expect_answer(health, true, 503, "7 wait, the oldest for 3.2 s");
    health_stored(health); /* the disk takes what there is, and the rest still waits */
    expect_answer(health, true, 503, "ingest_lagging");
    health_clear(health, HEALTH_LAGGING);
    expect_answer(health, true, 200, "ok");
    health_close(health);
}

static void a_transaction_needs_the_file_at_its_place(void **state)
{
    struct fixture *fixture = *state;
    char from[128], to[128];

    snprintf(from, sizeof(from), "%s/kvrail.db", fixture->folder);
    snprintf(to, sizeof(to), "%s/elsewhere", fixture->folder);
    assert_true(store_begin(fixture->store));
    assert_true(store_commit(fixture->store));
    assert_false(store_has_written(fixture->store));
    assert_int_equal(rename(from, to), 0);
    assert_false(store_begin(fixture->store));
    assert_int_equal(store_trouble(fixture->store), HEALTH_MISSING);
    assert_int_equal(rename(to, from), 0);
    assert_true(store_begin(fixture->store));
    assert_true(store_set_position(fixture->store, "prefill-0", 1, 1, 1));
    assert_true(store_commit(fixture->store));
    assert_true(store_has_written(fixture->store));
}

static void take_state(void *self, const struct agent_view *view)
{
    *(agent_state *)self = view->state;
}

static agent_state state_at(struct fleet *fleet, kvr_ns now)
{
    agent_state state = AGENT_STOPPED;

    fleet_each(fleet, now, take_state, &state);
    return state;
}

static void an_agent_of_before_is_awaited_until_it_could_have_reported(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct agent_row row = {.name = "prefill-0", .boot = 7};
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    kvr_ns now;

    assert_true(store_begin(fixture->store));
    assert_true(store_put_agent(fixture->store, &row, &facts));
    assert_true(store_commit(fixture->store));
    assert_true(fleet_load(fixture->fleet, fixture->store));
    now = kvr_clock_now();
    fleet_tick(fixture->fleet, now);
    assert_int_equal(state_at(fixture->fleet, now), AGENT_AWAITED);
    report.facts = &facts; /* it came, and waits for the database */
    fleet_hear(fixture->fleet, &report, now);
    assert_int_equal(state_at(fixture->fleet, now), AGENT_UP);
    for (int second = 1; second <= 6; second++)
        fleet_tick(fixture->fleet, now + (kvr_ns)second * KVR_S);
    assert_int_equal(state_at(fixture->fleet, now + FLEET_SILENT_NS + KVR_S / 2), AGENT_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_is_told_until_it_is_over),
        cmocka_unit_test(a_lag_is_no_failure),
        cmocka_unit_test_setup_teardown(a_transaction_needs_the_file_at_its_place, store_setup,
                                        store_teardown),
        cmocka_unit_test_setup_teardown(an_agent_of_before_is_awaited_until_it_could_have_reported,
                                        store_setup, store_teardown),
    };

    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
