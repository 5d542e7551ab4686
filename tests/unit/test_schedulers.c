/* Goal: a reporter stays with a scheduler that answers, and tries the others one after the other
 * when it does not. Method: results of posts, at times of the test's own. */
#include "tests/support/state_table.h"

#include "agent/report/schedulers.h"

STATE_TABLE_NEXT(next_cell, schedulers_next, enum schedulers_state, enum schedulers_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {
        [SCHEDULERS_LOOKING] = "LOOKING", [SCHEDULERS_KEPT] = "KEPT", [SCHEDULERS_LATER] = "LATER"};
    static const char *const events[] = {[SCHEDULERS_ON_TAKEN] = "TAKEN",
                                         [SCHEDULERS_ON_REFUSED] = "REFUSED",
                                         [SCHEDULERS_ON_LATER] = "LATER",
                                         [SCHEDULERS_ON_OVERDUE] = "OVERDUE",
                                         [SCHEDULERS_ON_FAILED] = "FAILED"};
    const struct state_table table = {.file = "common/agent/report/schedulers.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = SCHEDULERS_STATES,
                                      .event_count = SCHEDULERS_EVENTS,
                                      .next = next_cell};

    (void)state;
    state_table_check(&table);
}

/* Takes the event, and checks which scheduler is next, and after how many ms. */
static void takes(struct schedulers *schedulers, enum schedulers_event event, uint64_t now_ms,
                  uint32_t next, uint64_t rest_ms)
{
    kvr_ns rest = schedulers_take(schedulers, event, now_ms * KVR_MS);

    assert_int_equal(schedulers->current, next);
    assert_int_equal(rest / KVR_MS, rest_ms);
}

static void one_alone_is_tried_again_after_longer_and_longer_rests(void **state)
{
    static const uint64_t rests[] = {100, 200, 400, 800, 1600, 2000, 2000};
    struct schedulers one = {.count = 1};

    (void)state;
    for (int i = 0; i < 7; i++)
        takes(&one, i % 2 == 0 ? SCHEDULERS_ON_FAILED : SCHEDULERS_ON_LATER, 0, 0, rests[i]);
    takes(&one, SCHEDULERS_ON_TAKEN, 0, 0, 0);
    takes(&one, SCHEDULERS_ON_FAILED, 0, 0, 100);
}

static void the_next_one_is_tried_at_once(void **state)
{
    struct schedulers three = {.count = 3};

    (void)state;
    takes(&three, SCHEDULERS_ON_TAKEN, 0, 0, 0);
    takes(&three, SCHEDULERS_ON_FAILED, 0, 1, 0);
    takes(&three, SCHEDULERS_ON_FAILED, 0, 2, 0);
    takes(&three, SCHEDULERS_ON_TAKEN, 0, 2, 0);
    for (uint64_t i = 0; i < 10; i++) /* nothing leads back */
        takes(&three, SCHEDULERS_ON_TAKEN, i * 60000, 2, 0);
    takes(&three, SCHEDULERS_ON_FAILED, 600000, 0, 0);
}

static void a_whole_round_of_failures_is_followed_by_a_rest(void **state)
{
    static const uint64_t rests[] = {100, 200, 400, 800, 1600, 2000, 2000};
    struct schedulers two = {.count = 2};

    (void)state;
    takes(&two, SCHEDULERS_ON_TAKEN, 0, 0, 0);
    for (int i = 0; i < 7; i++) {
        takes(&two, SCHEDULERS_ON_FAILED, 0, 1, 0);
        takes(&two, i % 2 == 0 ? SCHEDULERS_ON_LATER : SCHEDULERS_ON_FAILED, 0, 0, rests[i]);
    }
    takes(&two, SCHEDULERS_ON_FAILED, 0, 1, 0);
    takes(&two, SCHEDULERS_ON_TAKEN, 0, 1, 0);
    takes(&two, SCHEDULERS_ON_FAILED, 0, 0, 0);
    takes(&two, SCHEDULERS_ON_FAILED, 0, 1, 100); /* the rests begin anew */
}

static void one_that_asks_for_later_keeps_its_agents_for_a_while(void **state)
{
    struct schedulers two = {.count = 2};

    (void)state;
    takes(&two, SCHEDULERS_ON_TAKEN, 0, 0, 0);
    takes(&two, SCHEDULERS_ON_LATER, 1000, 0, 100);
    takes(&two, SCHEDULERS_ON_LATER, 1100, 0, 200);
    takes(&two, SCHEDULERS_ON_TAKEN, 1300, 0, 0);
    takes(&two, SCHEDULERS_ON_LATER, 5000, 0, 100); /* its time begins anew */
    takes(&two, SCHEDULERS_ON_LATER, 6999, 0, 200);
    takes(&two, SCHEDULERS_ON_LATER, 7000, 1, 0);
    takes(&two, SCHEDULERS_ON_LATER, 7000, 0, 400); /* the other one took none yet */
    takes(&two, SCHEDULERS_ON_LATER, 7400, 1, 0);
    takes(&two, SCHEDULERS_ON_TAKEN, 7400, 1, 0);
    takes(&two, SCHEDULERS_ON_LATER, 8000, 1, 100);
    takes(&two, SCHEDULERS_ON_FAILED, 8100, 0, 0); /* it has ended meanwhile */
}

/* The report is at fault, not the scheduler. */
static void one_that_refuses_a_report_is_kept(void **state)
{
    struct schedulers two = {.count = 2};

    (void)state;
    takes(&two, SCHEDULERS_ON_REFUSED, 0, 0, 100);
    takes(&two, SCHEDULERS_ON_TAKEN, 100, 0, 0);
    takes(&two, SCHEDULERS_ON_REFUSED, 200, 0, 100);
    takes(&two, SCHEDULERS_ON_REFUSED, 300, 0, 200);
    takes(&two, SCHEDULERS_ON_TAKEN, 500, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_matches_code),
        cmocka_unit_test(one_alone_is_tried_again_after_longer_and_longer_rests),
        cmocka_unit_test(the_next_one_is_tried_at_once),
        cmocka_unit_test(a_whole_round_of_failures_is_followed_by_a_rest),
        cmocka_unit_test(one_that_asks_for_later_keeps_its_agents_for_a_while),
        cmocka_unit_test(one_that_refuses_a_report_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
