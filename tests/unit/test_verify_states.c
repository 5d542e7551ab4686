/* Goal: every cell of the table in the head of decode-agent/verify.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/verify.h"

STATE_TABLE_NEXT(verify_next_cell, verify_next, enum verify_state, enum verify_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[VERIFY_AWAITING] = "AWAITING",
                                         [VERIFY_HASHING] = "HASHING",
                                         [VERIFY_READING] = "READING",
                                         [VERIFY_VERIFIED] = "VERIFIED"};
    static const char *const events[] = {[VERIFY_ON_BEGUN] = "BEGUN",
                                         [VERIFY_ON_BEGUN_STAGED] = "BEGUN_STAGED",
                                         [VERIFY_ON_READ_ENDED] = "READ_ENDED",
                                         [VERIFY_ON_VERIFIED] = "VERIFIED"};
    const struct state_table table = {.file = "decode-agent/verify.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = VERIFY_STATES,
                                      .event_count = VERIFY_EVENTS,
                                      .next = verify_next_cell};

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
