/* Goal: every cell of the table in the head of decode-agent/plan_intake.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/plan_intake.h"

STATE_TABLE_NEXT(plan_intake_next_cell, plan_intake_next, enum plan_intake_state,
                 enum plan_intake_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {
        [INTAKE_IDLE] = "IDLE", [INTAKE_COLLECTING] = "COLLECTING", [INTAKE_FINAL] = "FINAL"};
    static const char *const events[] = {[INTAKE_ON_BEGUN] = "BEGUN",
                                         [INTAKE_ON_COMPLETE] = "COMPLETE",
                                         [INTAKE_ON_FINAL] = "FINAL"};
    const struct state_table table = {.file = "decode-agent/plan_intake.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = INTAKE_STATES,
                                      .event_count = INTAKE_EVENTS,
                                      .next = plan_intake_next_cell};

    (void)state;
    state_table_check(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_matches_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
