/* Goal: every cell of the table in the head of decode-agent/staging_quota.c is what the code does.
 */
#include "tests/support/state_table.h"

#include "decode-agent/staging_quota.h"

STATE_TABLE_NEXT(staging_quota_next_cell, staging_quota_next, enum staging_quota_state,
                 enum staging_quota_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[QUOTA_NONE] = "NONE",
                                         [QUOTA_AWAITS_STAGE] = "AWAITS_STAGE",
                                         [QUOTA_QUEUED] = "QUEUED",
                                         [QUOTA_RING] = "RING",
                                         [QUOTA_WHOLE] = "WHOLE"};
    static const char *const events[] = {[QUOTA_ON_STAGE_CLOSED] = "STAGE_CLOSED",
                                         [QUOTA_ON_FULL] = "FULL",
                                         [QUOTA_ON_TAKEN_RING] = "TAKEN_RING",
                                         [QUOTA_ON_TAKEN_WHOLE] = "TAKEN_WHOLE",
                                         [QUOTA_ON_GIVEN_BACK] = "GIVEN_BACK"};
    const struct state_table table = {.file = "decode-agent/staging_quota.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = QUOTA_STATES,
                                      .event_count = QUOTA_EVENTS,
                                      .next = staging_quota_next_cell};

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
