/* Goal: every cell of the table in the head of decode-agent/landing_path.c is what the code does.
 */
#include "tests/support/state_table.h"

#include "decode-agent/landing_path.h"

STATE_TABLE_NEXT(landing_path_next_cell, landing_path_next, enum landing_path_state,
                 enum landing_path_event)

static void table_matches_code(void **state)
{
    static const char *const states[] = {[PATH_PAGES] = "PAGES",
                                         [PATH_OPENING] = "OPENING",
                                         [PATH_STAGED] = "STAGED",
                                         [PATH_DIRECT_COPY] = "DIRECT_COPY"};
    static const char *const events[] = {[PATH_ON_STAGE] = "STAGE",
                                         [PATH_ON_CLOSED_STAGE] = "CLOSED_STAGE",
                                         [PATH_ON_STAGE_ANSWERS] = "STAGE_ANSWERS",
                                         [PATH_ON_COPY] = "COPY"};
    const struct state_table table = {.file = "decode-agent/landing_path.c",
                                      .states = states,
                                      .events = events,
                                      .state_count = PATH_STATES,
                                      .event_count = PATH_EVENTS,
                                      .next = landing_path_next_cell};

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
