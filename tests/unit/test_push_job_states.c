/* Goal: a posting job changes its state as the table in push_job.c says. Method: every cell of the
 * table is compared with push_job_next(). */
#include "prefill-agent/push_job.h"

#include <assert.h>

#include "tests/support/check.h"
#include "tests/support/state_table.h"

STATE_TABLE_NEXT(next, push_job_next, enum push_job_state, enum push_job_event)

static const char *const states[] = {"POSTING", "AWAITING_STOP", "FAILED", "STOPPED", "CLOSING"};
static const char *const events[] = {"COPY_FAILED", "STOP", "HAND_ON", "CLOSE"};

static_assert(sizeof(states) / sizeof(states[0]) == PUSH_JOB_STATES, "a name for each state");
static_assert(sizeof(events) / sizeof(events[0]) == PUSH_JOB_EVENTS, "a name for each event");

static void every_cell_is_the_codes(void **state)
{
    const struct state_table table = {.file = "prefill-agent/push_job.c",
                                      .name = "job state",
                                      .states = states,
                                      .events = events,
                                      .state_count = PUSH_JOB_STATES,
                                      .event_count = PUSH_JOB_EVENTS,
                                      .next = next};

    (void)state;
    state_table_check(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cell_is_the_codes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
