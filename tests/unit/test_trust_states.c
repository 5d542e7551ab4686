/* Goal: every cell of the table in the head of decode-agent/trust.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/trust.h"

STATE_TABLE_NEXT(trust_next_cell, trust_next, enum trust_state, enum trust_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[TRUST_CLEAN] = "CLEAN",
                                         [TRUST_QUIET] = "QUIET",
                                         [TRUST_TAINTED] = "TAINTED",
                                         [TRUST_PROVEN] = "PROVEN"};
    static const char *const events[] = {[TRUST_ON_MISSING_SENT] = "MISSING_SENT",
                                         [TRUST_ON_ROOM_SENT] = "ROOM_SENT",
                                         [TRUST_ON_QUIET] = "QUIET",
                                         [TRUST_ON_READ_BACK] = "READ_BACK"};
    const struct state_table table = {.file = "decode-agent/trust.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = TRUST_STATES,
                                      .event_count = TRUST_EVENTS,
                                      .next = trust_next_cell};

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
