/* Goal: every cell of the table in the head of decode-agent/transfer.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/transfer.h"

STATE_TABLE_NEXT(transfer_next_cell, transfer_next, enum transfer_state, enum transfer_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {
        [T_WAITING] = "WAITING", [T_HELD] = "HELD",         [T_WANTED] = "WANTED",
        [T_LIVE] = "LIVE",       [T_DRAINING] = "DRAINING", [T_SEALING] = "SEALING",
        [T_CLOSING] = "CLOSING", [T_ENDED] = "ENDED"};
    static const char *const events[] = {
        [T_ON_HOLD_SENT] = "HOLD_SENT", [T_ON_WANT_SENT] = "WANT_SENT", [T_ON_GRANTED] = "GRANTED",
        [T_ON_DRAIN] = "DRAIN",         [T_ON_SEAL] = "SEAL",           [T_ON_SETTLED] = "SETTLED",
        [T_ON_CLOSED] = "CLOSED"};
    const struct state_table table = {.file = "decode-agent/transfer.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = T_STATES,
                                      .event_count = T_EVENTS,
                                      .next = transfer_next_cell};

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
