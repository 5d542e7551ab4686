/* Goal: old transfers go and live ones stay. A silent agent's transfers are lost, and come back
 * when the agent was only unreachable. Method: reports applied as the writer does, on databases in
 * a fresh folder. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/news.h"
#include "scheduler/prune.h"
#include "scheduler/store_sqlite.h"
#include "scheduler/wall.h"
#include "tests/support/store_case.h"

static void store_prunes_what_is_old(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 5);
    struct kvr_report report = report_of("decode-0", 1, &event, 1);
    uint64_t acknowledged, removed;

    SQLITE_ALONE();
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_true(store_prune(fixture->store, WALL, NULL, &removed));
    assert_int_equal(removed, 0);
    assert_true(store_prune(fixture->store, WALL + 1000, NULL, &removed));
    assert_int_equal(removed, 3); /* event, transfer, position */
    assert_int_equal(store_count_transfers(fixture), 0);
}

/* Reports wait while a transaction removes rows, so it removes few of them. */
static void store_prunes_few_rows_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct transfer transfer = {.state = STATE_DONE, .updated_ns = WALL};
    uint64_t removed, states[STATE_END] = {0};

    SQLITE_ALONE();
    assert_true(store_begin(fixture->store));
    for (transfer.id = 1; transfer.id <= 1500; transfer.id++) {
        transfer.ordinal = 0;
        assert_true(store_put_transfer(fixture->store, &transfer));
    }
    assert_true(store_commit(fixture->store));
    assert_true(store_prune(fixture->store, WALL + 1, states, &removed));
    assert_int_equal(removed, 1000);
    assert_true(store_prune(fixture->store, WALL + 1, states, &removed));
    assert_int_equal(removed, 500);
    assert_int_equal(states[STATE_DONE], 1500);
    assert_true(store_prune(fixture->store, WALL + 1, states, &removed));
    assert_int_equal(removed, 0);
}

static void count_agent(void *self, const struct agent_row *row,
                        const struct kvr_agent_facts *facts)
{
    (void)row, (void)facts;
    ++*(unsigned *)self;
}

/* A publish held for longer than the retention stays, with its agent: an operator must be able to
 * see and release it. */
static void store_prunes_nothing_that_lives(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_agent_facts facts = {.role = KVR_ROLE_SOURCE};
    struct kvr_event event = event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 5, 5);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1);
    uint64_t acknowledged, removed;
    unsigned agents = 0;
    struct kvr_error error;

    SQLITE_ALONE();
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_true(store_prune(fixture->store, WALL + 1000, NULL, &removed));
    fleet_prune(fixture->fleet, WALL + 1000);
    assert_true(transfer_state_live(get_transfer(fixture, 5).state));
    assert_true(store_list_agents(fixture->store, count_agent, &agents));
    assert_int_equal(agents, 1);

    /* until the agent's silence has ended it */
    assert_true(
        fleet_next_silent(fixture->fleet, kvr_clock_now() + 2 * KVR_S, KVR_S, report.agent));
    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_agent_gone(fixture->apply, report.agent, NULL, "silent", &error),
                     KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, WALL, &error), KVR_OK);
    assert_true(store_commit(fixture->store));
    apply_reset(fixture->apply);
    assert_true(store_prune(fixture->store, WALL + 1000, NULL, &removed));
    assert_int_equal(store_count_transfers(fixture), 0);
}

static void count_view(void *self, const struct agent_view *agent)
{
    (void)agent;
    ++*(unsigned *)self;
}

static unsigned agents_of(struct fleet *fleet)
{
    unsigned count = 0;

    fleet_each(fleet, kvr_clock_now(), count_view, &count);
    return count;
}

/* With several schedulers of one database one of them removes old rows, and the others see that the
 * rows are gone. */
static void an_agent_that_another_scheduler_removed_is_forgotten(void **state)
{
    struct fixture *fixture = *state;
    const struct news_parts parts = {
        .store = fixture->store, .fleet = fixture->fleet, .metrics = fixture->metrics};
    struct kvr_agent_facts facts = {.role = KVR_ROLE_SOURCE};
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    kvr_ns now = kvr_clock_now(), silent = now - FLEET_SILENT_NS - KVR_S;
    uint64_t acknowledged;

    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_true(fleet_update(fixture->fleet, &report, silent, WALL)); /* its row is there */
    strcpy(report.agent, "prefill-1");
    assert_true(fleet_update(fixture->fleet, &report, silent, WALL));
    strcpy(report.agent, "prefill-2");
    assert_true(fleet_update(fixture->fleet, &report, now, WALL)); /* it lives */
    assert_int_equal(agents_of(fixture->fleet), 3);
    assert_true(news_hear(&parts));
    assert_int_equal(agents_of(fixture->fleet), 2);
    store_execute(fixture, "DELETE FROM agents");
    assert_true(news_hear(&parts)); /* it asks once a minute */
    assert_int_equal(agents_of(fixture->fleet), 2);
    assert_true(fleet_forget_gone(fixture->fleet, fixture->store, now + FLEET_GONE_NS + KVR_S));
    assert_int_equal(agents_of(fixture->fleet), 0); /* by then the last one is silent, too */
}

/* 5000000h, by a mistyped zero, is longer than the time since 1970, and must not become a time in
 * the future. */
static void a_very_long_retention_keeps_everything(void **state)
{
    (void)state;
    assert_true(prune_kept_since((kvr_ns)WALL, 60 * KVR_S) == WALL - (int64_t)(60 * KVR_S));
    assert_true(prune_kept_since((kvr_ns)WALL, UINT64_C(5000000) * 3600 * KVR_S) == 0);
    assert_true(prune_kept_since((kvr_ns)WALL, KVR_NEVER - 1) == 0);
}

/* An agent's clock decides nothing: clocks are years ahead, or at 1970. */
static void store_prunes_by_its_own_clock(void **state)
{
    static const int64_t offsets[] = {0, (int64_t)(10 * 365 * 86400 * KVR_S), -WALL, -2 * WALL};
    struct fixture *fixture = *state;
    uint64_t acknowledged, removed;

    SQLITE_ALONE();
    for (uint64_t i = 0; i < 4; i++) {
        struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, i + 1, 10);
        struct kvr_report report = report_of("decode-0", i + 1, &event, 1);

        report.anchor_at = 10;
        report.anchor_wall = (kvr_ns)(WALL + offsets[i]);
        assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
        assert_true(get_transfer(fixture, i + 1).sides[KVR_ROLE_TARGET].at_ns[STAGE_ENDED] > 0);
    }
    assert_int_equal(store_count_transfers(fixture), 4);
    assert_true(store_prune(fixture->store, WALL, NULL, &removed));
    assert_int_equal(store_count_transfers(fixture), 4);
    assert_true(store_prune(fixture->store, WALL + 1, NULL, &removed));
    assert_int_equal(store_count_transfers(fixture), 0);
}

/* The clock was a year ahead and came back: rows of that time lie before older ones. */
static void store_prunes_past_rows_of_the_future(void **state)
{
    static const char another[] =
        "UPDATE event SET id = id + 1; INSERT INTO events SELECT * FROM event;"
        "UPDATE transfer SET ordinal = ordinal + 1, id = id + 1, last_event = last_event + 1;"
        "INSERT INTO transfers SELECT * FROM transfer;";
    struct fixture *fixture = *state;
    uint64_t removed, acknowledged, states[STATE_END] = {0}, counts[STATE_END];
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 5);
    struct kvr_report report = report_of("decode-0", 1, &event, 1);

    SQLITE_ALONE();
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_true(store_begin(fixture->store));
    store_execute(fixture, "CREATE TEMP TABLE event AS SELECT * FROM events; DELETE FROM events;"
                           "CREATE TEMP TABLE transfer AS SELECT * FROM transfers;"
                           "DELETE FROM transfers;"
                           "UPDATE transfer SET updated_ns = updated_ns + 31536000000000000;");
    for (int i = 0; i < 6000; i++)
        store_execute(fixture, another);
    store_execute(fixture, "UPDATE transfer SET updated_ns = updated_ns - 31536000000000000;");
    store_execute(fixture, another);
    assert_true(store_commit(fixture->store));
    assert_true(store_prune(fixture->store, WALL + 1000, states, &removed));
    assert_int_equal(removed, 3); /* event, transfer, position */
    assert_int_equal(states[STATE_DONE], 1);
    assert_true(store_count_states(fixture->store, counts));
    assert_int_equal(counts[STATE_DONE], 6000);
}

/* One wrong minute of the system's clock decides nothing, and a clock that stays ahead is believed
 * after an hour. */
static void a_jump_of_the_clock_removes_nothing(void **state)
{
    const kvr_ns begin = (kvr_ns)WALL, year = 365 * 86400 * KVR_S, minute = 60 * KVR_S;
    struct wall wall = {0};

    (void)state;
    assert_true(wall_time(&wall, KVR_S, begin) == WALL);
    assert_true(wall_time(&wall, 11 * KVR_S, begin + 10 * KVR_S) == WALL + (int64_t)(10 * KVR_S));
    assert_true(wall_time(&wall, 21 * KVR_S, begin + year) == WALL + (int64_t)(20 * KVR_S));
    assert_true(wall_time(&wall, 31 * KVR_S, begin + 30 * KVR_S) == WALL + (int64_t)(30 * KVR_S));
    assert_true(wall_time(&wall, minute, begin + year) < (int64_t)(begin + year));
    assert_true(wall_time(&wall, 30 * minute, begin + year) < (int64_t)(begin + year));
    assert_true(wall_time(&wall, 62 * minute, begin + year) == (int64_t)(begin + year));
    assert_true(wall_time(&wall, 63 * minute, begin) == WALL); /* back: at once */
}

/* ---- the fleet ---- */

/* A write that the database refused at one housekeeping is tried again at the next. */
static void silence_is_told_until_it_is_settled(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_agent_facts facts = {.role = KVR_ROLE_TARGET};
    struct kvr_report report = report_of("decode-0", 1, NULL, 0);
    char name[KVR_NAME_BYTES] = "";

    report.facts = &facts;
    assert_true(fleet_update(fixture->fleet, &report, KVR_S, WALL));
    assert_false(fleet_next_silent(fixture->fleet, 2 * KVR_S, KVR_S, name));
    for (int i = 0; i < 3; i++) {
        assert_true(fleet_next_silent(fixture->fleet, 3 * KVR_S, KVR_S, name));
        assert_string_equal(name, "decode-0");
    }
    fleet_settle_silent(fixture->fleet, "decode-0");
    fleet_settle_silent(fixture->fleet, "nobody");
    assert_false(fleet_next_silent(fixture->fleet, 3 * KVR_S, KVR_S, name));
    assert_true(fleet_update(fixture->fleet, &report, 3 * KVR_S, WALL));
    assert_true(fleet_next_silent(fixture->fleet, 9 * KVR_S, KVR_S, name));
}

static void lose(struct fixture *fixture, const char *agent)
{
    struct kvr_error error;

    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_agent_gone(fixture->apply, agent, NULL, "it fell silent", &error),
                     KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, WALL, &error), KVR_OK);
    assert_true(store_commit(fixture->store));
    apply_reset(fixture->apply);
}

/* The same start of an agent reports again: it was only unreachable, and its reports count. */
static void lost_agent_that_speaks_is_not_lost(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event source = event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10);
    struct kvr_event target[] = {event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 10),
                                 event_of(KVR_EVENT_FIRST_LAND, KVR_ROLE_TARGET, 5, 30),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 40)};
    struct kvr_report report = report_of("prefill-0", 1, &source, 1);
    struct transfer transfer;
    uint64_t acknowledged;

    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    report = report_of("decode-0", 1, target, 1);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    lose(fixture, "prefill-0");
    lose(fixture, "decode-0");
    transfer = get_transfer(fixture, 5);
    assert_int_equal(transfer.state, STATE_LOST);
    assert_string_equal(transfer_detail(&transfer), "it fell silent");

    report = report_of("decode-0", 2, target + 1, 1);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    transfer = get_transfer(fixture, 5);
    assert_int_equal(transfer.state, STATE_FIRST_LAND);
    report = report_of("decode-0", 3, target + 2, 1);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    transfer = get_transfer(fixture, 5);
    assert_int_equal(transfer.state, STATE_DONE);
    assert_string_equal(transfer.sides[KVR_ROLE_TARGET].detail, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(store_prunes_what_is_old),
        WITH_STORE(store_prunes_few_rows_at_once),
        WITH_STORE(store_prunes_nothing_that_lives),
        WITH_STORE(store_prunes_by_its_own_clock),
        WITH_STORE(store_prunes_past_rows_of_the_future),
        cmocka_unit_test(a_jump_of_the_clock_removes_nothing),
        WITH_STORE(an_agent_that_another_scheduler_removed_is_forgotten),
        cmocka_unit_test(a_very_long_retention_keeps_everything),
        WITH_STORE(lost_agent_that_speaks_is_not_lost),
        WITH_STORE(silence_is_told_until_it_is_settled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
