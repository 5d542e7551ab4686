/* Goal: the states of a publish and of its lease change as the tables in the heads of the files
 * say. */
#include "tests/support/state_table.h"

#include "prefill-agent/publish.h"

STATE_TABLE_NEXT(next, publish_next, enum publish_state, enum publish_event)
STATE_TABLE_NEXT(lease_next, publish_lease_next, enum publish_lease_state, enum publish_lease_event)

static void a_publish_follows_its_table(void **state)
{
    static const char *const states[] = {"OPEN", "ACCEPTED", "FAILING", "FREED"};
    static const char *const events[] = {"MATCHED", "FAILED", "SETTLED"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/publish.c",
                                            .states = states,
                                            .state_count = PUBLISH_STATES,
                                            .events = events,
                                            .event_count = PUBLISH_EVENTS,
                                            .next = next});
}

static void a_lease_follows_its_table(void **state)
{
    static const char *const states[] = {"RUNS", "LOW", "OFF"};
    static const char *const events[] = {"RENEW", "LOW", "OFF", "REOPEN"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/lease.c",
                                            .states = states,
                                            .state_count = LEASE_STATES,
                                            .events = events,
                                            .event_count = LEASE_EVENTS,
                                            .next = lease_next});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_publish_follows_its_table),
        cmocka_unit_test(a_lease_follows_its_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
