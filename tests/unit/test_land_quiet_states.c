/* Goal: every cell of the table in the head of decode-agent/land_quiet.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/land.h"

STATE_TABLE_NEXT(landing_quiet_next_cell, landing_quiet_next, enum landing_quiet_state,
                 enum landing_quiet_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {
        [QUIET_VOID] = "VOID", [QUIET_CLAIMED] = "CLAIMED", [QUIET_PROVEN] = "PROVEN"};
    static const char *const events[] = {[QUIET_ON_CLAIMED] = "CLAIMED",
                                         [QUIET_ON_VOIDED] = "VOIDED",
                                         [QUIET_ON_EVEN] = "EVEN",
                                         [QUIET_ON_READ_BACK] = "READ_BACK"};
    const struct state_table table = {.file = "decode-agent/land_quiet.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = QUIET_STATES,
                                      .event_count = QUIET_EVENTS,
                                      .next = landing_quiet_next_cell};

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
