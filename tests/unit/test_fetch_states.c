/* Goal: every cell of the table in the head of decode-agent/fetch.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/fetch.h"

STATE_TABLE_NEXT(fetch_next_cell, fetch_next, enum fetch_state, enum fetch_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[F_OPENED] = "OPENED",
                                         [F_WANTED] = "WANTED",
                                         [F_ACCEPTED] = "ACCEPTED",
                                         [F_FAILING] = "FAILING",
                                         [F_ENDED] = "ENDED"};
    static const char *const events[] = {[F_ON_WANT_SENT] = "WANT_SENT",
                                         [F_ON_MATCHED] = "MATCHED",
                                         [F_ON_FAILED] = "FAILED",
                                         [F_ON_SETTLED] = "SETTLED"};
    const struct state_table table = {.file = "decode-agent/fetch.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = F_STATES,
                                      .event_count = F_EVENTS,
                                      .next = fetch_next_cell};

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
