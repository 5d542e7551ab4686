/* Goal: a link changes its state as the table in rail_group_link.c says. Method: every cell of the
 * table is compared with group_link_next(). */
#include "rail_group/rail_group_link.h"

#include <assert.h>

#include "tests/support/check.h"
#include "tests/support/state_table.h"

STATE_TABLE_NEXT(next, group_link_next, enum group_link_state, enum group_link_event)

static const char *const states[] = {"USABLE", "BROKEN", "RETIRED"};
static const char *const events[] = {"RENEWED", "NO_ADDRESS", "FAILED", "REPLACED"};

static_assert(sizeof(states) / sizeof(states[0]) == LINK_STATES, "a name for each state");
static_assert(sizeof(events) / sizeof(events[0]) == LINK_EVENTS, "a name for each event");

static void every_cell_is_the_codes(void **state)
{
    const struct state_table table = {.file = "common/rail_group/rail_group_link.c",
                                      .name = "link state",
                                      .states = states,
                                      .events = events,
                                      .state_count = LINK_STATES,
                                      .event_count = LINK_EVENTS,
                                      .next = next};

    (void)state;
    state_table_check(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cell_is_the_codes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
