/* Goal: the states of a source transfer, and of each of its parts and of a publish, change as the
 * tables in the heads of the files say. */
#include "tests/support/state_table.h"

#include "prefill-agent/source_transfer.h"

STATE_TABLE_NEXT(transfer_next, source_transfer_next, enum source_transfer_state,
                 enum source_transfer_event)

static void a_transfer_follows_its_table(void **state)
{
    static const char *const states[] = {"PARKED",   "OFFERED", "LIVE",
                                         "STOPPING", "CLOSING", "ENDED"};
    static const char *const events[] = {"MATCHED", "GRANTED", "STOP", "STOPPED", "CLOSED"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/source_transfer.c",
                                            .states = states,
                                            .state_count = ST_STATES,
                                            .events = events,
                                            .event_count = ST_EVENTS,
                                            .next = transfer_next});
}

STATE_TABLE_NEXT(path_next, source_path_next, enum source_path_state, enum source_path_event)

static void a_path_follows_its_table(void **state)
{
    static const char *const states[] = {"UNDECIDED", "PROBING", "OPENING", "READY"};
    static const char *const events[] = {"PROBE", "STAGE", "DECIDED"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/path.c",
                                            .states = states,
                                            .state_count = SOURCE_PATH_STATES,
                                            .events = events,
                                            .event_count = SOURCE_PATH_EVENTS,
                                            .next = path_next});
}

STATE_TABLE_NEXT(announce_next, source_announce_next, enum source_announce_state,
                 enum source_announce_event)

static void an_announcement_follows_its_table(void **state)
{
    static const char *const states[] = {"PLANNING",    "HELD",       "SEGMENT_WAITS",
                                         "FINAL_WAITS", "TAIL_WAITS", "ALL_SENT"};
    static const char *const events[] = {"HELD",        "SKIP",       "SEGMENT",  "SEGMENT_SENT",
                                         "ALL_PLANNED", "FINAL_SENT", "TAIL_SENT"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/announce.c",
                                            .states = states,
                                            .state_count = ANNOUNCE_STATES,
                                            .events = events,
                                            .event_count = ANNOUNCE_EVENTS,
                                            .next = announce_next});
}

STATE_TABLE_NEXT(failover_next, source_failover_next, enum source_failover_state,
                 enum source_failover_event)

static void a_failover_follows_its_table(void **state)
{
    static const char *const states[] = {"SETTLED", "ASKED", "REGISTERING", "MOVING"};
    static const char *const events[] = {"ASK", "KEEP", "REGISTER", "MOVE", "MOVED"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/failover.c",
                                            .states = states,
                                            .state_count = FAILOVER_STATES,
                                            .events = events,
                                            .event_count = FAILOVER_EVENTS,
                                            .next = failover_next});
}

STATE_TABLE_NEXT(settle_next, source_settle_next, enum source_settle_state,
                 enum source_settle_event)

static void counts_follow_their_table(void **state)
{
    static const char *const states[] = {"COUNTED", "COUNTING", "CLOSED"};
    static const char *const events[] = {"COUNT", "SUM", "CLOSED"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/settle.c",
                                            .states = states,
                                            .state_count = SETTLE_STATES,
                                            .events = events,
                                            .event_count = SETTLE_EVENTS,
                                            .next = settle_next});
}

STATE_TABLE_NEXT(pending_next, source_pending_next, enum source_pending_state,
                 enum source_pending_event)

static void what_is_pending_follows_its_table(void **state)
{
    static const char *const states[] = {"NONE", "FAIL", "QUIET", "FAIL_QUIET"};
    static const char *const events[] = {"FAIL_DUE",   "QUIET_DUE", "FAIL_SENT",
                                         "QUIET_SENT", "ROUND",     "LANDED"};

    (void)state;
    state_table_check(&(struct state_table){.file = "prefill-agent/pending.c",
                                            .states = states,
                                            .state_count = PENDING_STATES,
                                            .events = events,
                                            .event_count = PENDING_EVENTS,
                                            .next = pending_next});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_follows_its_table),
        cmocka_unit_test(a_path_follows_its_table),
        cmocka_unit_test(an_announcement_follows_its_table),
        cmocka_unit_test(a_failover_follows_its_table),
        cmocka_unit_test(counts_follow_their_table),
        cmocka_unit_test(what_is_pending_follows_its_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
