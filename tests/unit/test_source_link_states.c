/* Goal: every cell of the table in the head of decode-agent/source_link.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/source_link.h"

STATE_TABLE_NEXT(source_link_next_cell, source_link_next, enum source_link_state,
                 enum source_link_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[LINK_AWAITED] = "AWAITED",
                                         [LINK_UP] = "UP",
                                         [LINK_LOST] = "LOST",
                                         [LINK_UNREACHED] = "UNREACHED"};
    static const char *const events[] = {[LINK_ON_UP] = "UP", [LINK_ON_LOST] = "LOST"};
    const struct state_table table = {.file = "decode-agent/source_link.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = LINK_STATES,
                                      .event_count = LINK_EVENTS,
                                      .next = source_link_next_cell};

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
