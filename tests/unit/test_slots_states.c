/* Goal: every cell of the table in the head of decode-agent/slots.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/slots.h"

STATE_TABLE_NEXT(slots_next_cell, slots_next, enum slots_state, enum slots_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[SLOTS_UNKNOWN] = "UNKNOWN",
                                         [SLOTS_COUNTED] = "COUNTED",
                                         [SLOTS_QUEUED] = "QUEUED",
                                         [SLOTS_RESERVED] = "RESERVED"};
    static const char *const events[] = {[SLOTS_ON_COUNTED] = "COUNTED",
                                         [SLOTS_ON_QUEUED] = "QUEUED",
                                         [SLOTS_ON_RESERVED] = "RESERVED",
                                         [SLOTS_ON_WITHDRAWN] = "WITHDRAWN"};
    const struct state_table table = {.file = "decode-agent/slots.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = SLOTS_STATES,
                                      .event_count = SLOTS_EVENTS,
                                      .next = slots_next_cell};

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
