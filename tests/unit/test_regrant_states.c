/* Goal: every cell of the table in the head of decode-agent/regrant.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/grant.h"

STATE_TABLE_NEXT(regrant_next_cell, regrant_next, enum regrant_state, enum regrant_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[REGRANT_NONE] = "NONE",
                                         [REGRANT_REGISTERING] = "REGISTERING",
                                         [REGRANT_OPENING] = "OPENING",
                                         [REGRANT_ANNOUNCING] = "ANNOUNCING"};
    static const char *const events[] = {[REGRANT_ON_GROUP_LOST] = "GROUP_LOST",
                                         [REGRANT_ON_RAILS_LOST] = "RAILS_LOST",
                                         [REGRANT_ON_REGISTERED] = "REGISTERED",
                                         [REGRANT_ON_OPENED] = "OPENED",
                                         [REGRANT_ON_SENT] = "SENT"};
    const struct state_table table = {.file = "decode-agent/regrant.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = REGRANT_STATES,
                                      .event_count = REGRANT_EVENTS,
                                      .next = regrant_next_cell};

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
