/* Goal: every cell of the table in the head of decode-agent/land_verify.c is what the code does. */
#include "tests/support/state_table.h"

#include "decode-agent/land.h"

STATE_TABLE_NEXT(landing_verify_next_cell, landing_verify_next, enum landing_verify_state,
                 enum landing_verify_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {
        [HASH_IDLE] = "IDLE", [HASH_QUEUED] = "QUEUED", [HASH_READING] = "READING"};
    static const char *const events[] = {[HASH_ON_QUEUED] = "QUEUED",
                                         [HASH_ON_READ] = "READ",
                                         [HASH_ON_READ_ENDED] = "READ_ENDED",
                                         [HASH_ON_REMOVED] = "REMOVED"};
    const struct state_table table = {.file = "decode-agent/land_verify.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = HASH_STATES,
                                      .event_count = HASH_EVENTS,
                                      .next = landing_verify_next_cell};

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
