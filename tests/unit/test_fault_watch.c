/* Goal: what breaks is kept once, with its begin and its end, through restarts of the scheduler
 * and reports that come again. Method: reports with facts, applied as the writer does; the test
 * reads the table of faults. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/text.h"
#include "scheduler/fault_watch.h"
#include "tests/support/store_case.h"

#define S ((int64_t)KVR_S)

static struct fault_watch *watch;
static struct store *store;
static struct kvr_agent_facts facts;
static struct kvr_report_pairs pairs;
static struct kvr_report report;

static int begin(void **state)
{
    int made = store_setup(state);

    if (made != 0)
        return made;
    store = ((struct fixture *)*state)->store;
    watch = fault_watch_open(store);
    memset(&facts, 0, sizeof(facts));
    memset(&pairs, 0, sizeof(pairs));
    facts.rail_count = 2;
    snprintf(facts.rails[0].name, sizeof(facts.rails[0].name), "card0");
    report = report_of("prefill-0", 1, NULL, 0);
    report.facts = &facts;
    return watch != NULL ? 0 : -1;
}

static int end(void **state)
{
    watch = fault_watch_close(watch);
    return store_teardown(state);
}

static void reported_beside(const struct fleet_boots *alive, int64_t now_ns)
{
    assert_true(store_begin(store));
    assert_true(fault_watch_report(watch, &report, alive, now_ns));
    assert_true(store_commit(store));
}

/* No other start of the agent is alive. */
static void reported(int64_t now_ns)
{
    const struct fleet_boots alive = {.count = 1, .boots = {report.boot}};

    reported_beside(&alive, now_ns);
}

/* A pair of rail 1 with rail 0 of decode-0, in that state for so long. */
static void pair_is(kvr_pair_state pair_state, kvr_ns since)
{
    report.pairs = &pairs;
    pairs.peer_count = pairs.pair_count = 1;
    snprintf(pairs.peers[0].peer, sizeof(pairs.peers[0].peer), "decode-0");
    pairs.peers[0].pair_count = 1;
    pairs.pairs[0] =
        (struct kvr_pair_facts){.rail = 1, .state = pair_state, .state_ns = since, .detail = "why"};
}

static struct kept {
    int count;
    struct fault faults[100];
    char kinds[100][32];
} kept;

static void keep(void *self, const struct stored_fault *fault)
{
    struct fault *to = &kept.faults[kept.count];

    (void)self;
    assert_true(kept.count < 100);
    snprintf(kept.kinds[kept.count++], sizeof(kept.kinds[0]), "%s", fault->kind);
    to->rail = fault->rail;
    to->from_ns = fault->from_ns;
    to->until_ns = fault->until_ns;
    to->amount = fault->amount;
    snprintf(to->agent, sizeof(to->agent), "%s", fault->agent);
    snprintf(to->peer, sizeof(to->peer), "%s", fault->peer);
    snprintf(to->text, sizeof(to->text), "%s", fault->text);
}

/* All of them, the newest first. */
static int list(void)
{
    kept.count = 0;
    assert_true(store_list_faults(store, 0, INT64_MAX, 100, keep, NULL));
    return kept.count;
}

static void fault_is(int index, const char *kind, int64_t rail, int64_t from_ns, int64_t until_ns)
{
    assert_string_equal(kept.kinds[index], kind);
    assert_int_equal(kept.faults[index].rail, rail);
    assert_int_equal(kept.faults[index].from_ns, from_ns);
    assert_int_equal(kept.faults[index].until_ns, until_ns);
}

static void a_rail_goes_down_and_comes_back(void **state)
{
    (void)state;
    reported(WALL);
    assert_int_equal(list(), 0);
    facts.rails[0].state = KVR_RAIL_DOWN;
    reported(WALL + S);
    reported(WALL + 2 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "rail_down", 0, WALL + S, 0);
    assert_string_equal(kept.faults[0].agent, "prefill-0");
    assert_string_equal(kept.faults[0].text, "card0");
    facts.rails[0].state = KVR_RAIL_UP;
    facts.rails[0].epoch = 2;
    reported(WALL + 3 * S);
    assert_int_equal(list(), 2);
    fault_is(0, "rail_renewed", 0, WALL + 3 * S, WALL + 3 * S);
    assert_int_equal(kept.faults[0].amount, 2);
    fault_is(1, "rail_down", 0, WALL + S, WALL + 3 * S);
}

/* The agent says since when; the worse state is a fault of its own. */
static void pairs_of_rails_are_in_trouble(void **state)
{
    (void)state;
    pair_is(KVR_PAIR_WARM, 9 * KVR_S);
    reported(WALL);
    pair_is(KVR_PAIR_SLOW, 2 * KVR_S);
    reported(WALL + 5 * S);
    reported(WALL + 6 * S); /* the same rows */
    pair_is(KVR_PAIR_UNREACHABLE, KVR_S);
    reported(WALL + 10 * S);
    report.pairs = NULL; /* no news of pairs is no end */
    reported(WALL + 11 * S);
    assert_int_equal(list(), 2);
    fault_is(0, "rail_unreachable", 1, WALL + 9 * S, 0);
    fault_is(1, "rail_slow", 1, WALL + 3 * S, WALL + 10 * S);
    assert_string_equal(kept.faults[0].peer, "decode-0");
    assert_string_equal(kept.faults[0].text, "to decode-0's rail 0: why");
    pair_is(KVR_PAIR_WARM, 0);
    pairs.peers[0].pair_count = pairs.pair_count = 0; /* the session has ended */
    reported(WALL + 12 * S);
    assert_int_equal(list(), 2);
    fault_is(0, "rail_unreachable", 1, WALL + 9 * S, WALL + 12 * S);
}

/* A scheduler that starts anew, or rolled back, knows nothing: one fault stays one. */
static void a_fault_outlives_the_scheduler(void **state)
{
    (void)state;
    facts.rails[1].state = KVR_RAIL_DOWN;
    pair_is(KVR_PAIR_SLOW, 0);
    reported(WALL);
    fault_watch_forget(watch, NULL);
    pair_is(KVR_PAIR_SLOW, 4 * KVR_S);
    reported(WALL + 4 * S);
    assert_int_equal(list(), 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kept.faults[i].until_ns, 0);
    fault_watch_forget(watch, "prefill-0");
    report.pairs = NULL; /* they come with a later report */
    reported(WALL + 8 * S);
    pair_is(KVR_PAIR_SLOW, 9 * KVR_S);
    reported(WALL + 9 * S);
    assert_int_equal(list(), 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kept.faults[i].until_ns, 0);
    fault_watch_forget(watch, NULL);
    facts.rails[1].state = KVR_RAIL_UP; /* meanwhile it came back */
    pair_is(KVR_PAIR_WARM, 0);
    reported(WALL + 20 * S);
    assert_int_equal(list(), 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kept.faults[i].until_ns, WALL + 20 * S);
}

static void totals_rise(void **state)
{
    (void)state;
    facts.counters[KVR_COUNTER_PEERS_LOST] = 5;
    facts.engine_count = 2;
    snprintf(facts.engines[0].name, KVR_NAME_BYTES, "engine-0");
    snprintf(facts.engines[1].name, KVR_NAME_BYTES, "engine-1");
    reported(WALL);
    assert_int_equal(list(), 0);
    facts.counters[KVR_COUNTER_PEERS_LOST] = 7;
    facts.counters[KVR_COUNTER_ENGINES_LOST] = 1;
    facts.engine_count = 1;
    reported(WALL + S);
    assert_int_equal(list(), 2);
    fault_is(0, "engine_ended", -1, WALL + S, WALL + S);
    assert_string_equal(kept.faults[0].text, "engine-1");
    fault_is(1, "peer_lost", -1, WALL + S, WALL + S);
    assert_int_equal(kept.faults[1].amount, 2);
}

/* What does not fit is cut between two characters. */
static void a_long_text_is_cut(void **state)
{
    (void)state;
    facts.engine_count = 10;
    for (int i = 0; i < 10; i++) { /* a digit, and 30 characters of two bytes */
        char *name = facts.engines[i].name;

        memset(name, 0, KVR_NAME_BYTES);
        name[0] = (char)('0' + i);
        for (int k = 1; k <= 60; k++)
            name[k] = (char)(k % 2 == 1 ? 0xc3 : 0xa9);
    }
    reported(WALL);
    facts.counters[KVR_COUNTER_ENGINES_LOST] = 10;
    facts.engine_count = 0;
    pair_is(KVR_PAIR_SLOW, 0);
    memset(pairs.pairs[0].detail, 0xa9, sizeof(pairs.pairs[0].detail) - 1);
    for (size_t i = 0; i + 2 < sizeof(pairs.pairs[0].detail); i += 2)
        pairs.pairs[0].detail[i] = (char)0xc3;
    reported(WALL + S);
    assert_int_equal(list(), 2);
    assert_string_equal(kept.kinds[1], "engine_ended");
    assert_true(strlen(kept.faults[1].text) >= KVR_DETAIL_BYTES - 3);
    for (int i = 0; i < 2; i++)
        assert_true(kvr_text_valid(kept.faults[i].text, KVR_DETAIL_BYTES));
}

static void an_agent_ends(void **state)
{
    (void)state;
    facts.rails[0].state = KVR_RAIL_DOWN;
    reported(WALL);
    report.boot++; /* it was killed, and started again */
    facts.rails[0].state = KVR_RAIL_UP;
    reported(WALL + 3 * S);
    assert_int_equal(list(), 2);
    fault_is(0, "agent_ended", -1, WALL, WALL + 3 * S);
    fault_is(1, "rail_down", 0, WALL, WALL + 3 * S);
    report.leaving = true; /* in good order */
    reported(WALL + 4 * S);
    report.leaving = false;
    report.boot++;
    reported(WALL + 5 * S);
    assert_int_equal(list(), 2);
}

/* Neither ends while both report by turns. One that is heard no more has ended when a later start
 * was heard first. */
static void two_programs_have_one_name(void **state)
{
    const struct fleet_boots both = {.count = 2, .boots = {7, 8}};

    (void)state;
    for (int i = 0; i < 10; i++) {
        report.boot = 7 + (uint64_t)i % 2;
        reported_beside(&both, WALL + i * S);
    }
    assert_int_equal(list(), 0);
    reported_beside(&both, WALL + 12 * S);
    assert_int_equal(list(), 0);
    reported(WALL + 15 * S);
    reported(WALL + 16 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "agent_ended", -1, WALL + 8 * S, WALL + 9 * S);
}

/* Only so many faults begin with one report; all end with it. */
static void many_at_once_are_counted(void **state)
{
    (void)state;
    facts.rail_count = KVR_RAILS_MAX;
    reported(WALL);
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++) {
        facts.rails[i].state = KVR_RAIL_DOWN;
        facts.rails[i].epoch = 1;
    }
    reported(WALL + S);
    assert_int_equal(list(), FAULTS_OF_REPORT_MAX + 1);
    fault_is(0, "more", -1, WALL + S, WALL + S);
    assert_int_equal(kept.faults[0].amount, 2 * KVR_RAILS_MAX - FAULTS_OF_REPORT_MAX);
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        facts.rails[i].state = KVR_RAIL_UP;
    reported(WALL + 2 * S);
    (void)list();
    for (int i = 0; i < kept.count; i++)
        assert_true(kept.faults[i].until_ns != 0);
}

/* More than one report can begin: after a restart of the scheduler all of them go on. */
static void many_outlive_the_scheduler(void **state)
{
    (void)state;
    facts.rail_count = KVR_RAILS_MAX;
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        facts.rails[i].state = KVR_RAIL_DOWN;
    reported(WALL);
    pair_is(KVR_PAIR_SLOW, 0);
    for (uint32_t i = 0; i < 10; i++) {
        pairs.pairs[i] = pairs.pairs[0];
        pairs.pairs[i].rail = i;
    }
    pairs.peers[0].pair_count = pairs.pair_count = 10;
    reported(WALL + S);
    assert_int_equal(list(), KVR_RAILS_MAX + 10);
    fault_watch_forget(watch, NULL);
    reported(WALL + 2 * S);
    assert_int_equal(list(), KVR_RAILS_MAX + 10);
    for (int i = 0; i < kept.count; i++)
        assert_int_equal(kept.faults[i].until_ns, 0);
}

static void silent(struct fleet *fleet, kvr_ns now, int64_t now_ns)
{
    assert_true(store_begin(store));
    assert_true(fault_watch_fleet(watch, fleet, now, now_ns));
    assert_true(store_commit(store));
}

static void an_agent_falls_silent_and_comes_back(void **state)
{
    struct fixture *fixture = *state;
    kvr_ns now = 100 * KVR_S;

    reported(WALL);
    assert_true(fleet_update(fixture->fleet, &report, now, WALL));
    silent(fixture->fleet, now + FLEET_SILENT_NS, WALL + 6 * S);
    assert_int_equal(list(), 0);
    silent(fixture->fleet, now + FLEET_SILENT_NS + 1, WALL + 7 * S);
    silent(fixture->fleet, now + 2 * FLEET_SILENT_NS, WALL + 12 * S);
    fault_watch_forget(watch, NULL); /* another scheduler sees it, too */
    silent(fixture->fleet, now + 2 * FLEET_SILENT_NS, WALL + 13 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "agent_silent", -1, WALL, 0);
    reported(WALL + 20 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "agent_silent", -1, WALL, WALL + 20 * S);
}

/* The leading scheduler notes the silence of an agent that reports to another one. */
static void a_silence_ends_at_another_scheduler(void **state)
{
    struct fault_watch *follower = watch, *leader = fault_watch_open(store);
    struct fixture *fixture = *state;
    kvr_ns now = 100 * KVR_S;

    assert_non_null(leader);
    reported(WALL);
    assert_true(fleet_update(fixture->fleet, &report, now, WALL));
    watch = leader;
    silent(fixture->fleet, now + FLEET_SILENT_NS + 1, WALL + 6 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "agent_silent", -1, WALL, 0);
    watch = follower;
    reported(WALL + 7 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "agent_silent", -1, WALL, WALL + 7 * S);
    fault_watch_close(leader);
}

/* Once the retention has removed the agent, nothing of it goes on. */
static void faults_of_a_removed_agent_end(void **state)
{
    struct fixture *fixture = *state;
    struct agent_row row = {.name = "prefill-0", .boot = 7, .seen_ns = WALL};
    uint64_t states[STATE_END] = {0}, removed;
    kvr_ns now = 100 * KVR_S;
    bool more;

    reported(WALL);
    assert_true(store_begin(store));
    assert_true(store_put_agent(store, &row, &facts));
    assert_true(store_commit(store));
    assert_true(fleet_update(fixture->fleet, &report, now, WALL));
    silent(fixture->fleet, now + 2 * FLEET_SILENT_NS, WALL + 12 * S);
    assert_true(store_begin(store));
    assert_int_equal(apply_sum_up(fixture->apply, WALL + 20 * S, &more, NULL), KVR_OK);
    assert_true(store_commit(store));
    assert_int_equal(list(), 1);
    fault_is(0, "agent_silent", -1, WALL, 0);
    assert_true(store_begin(store));
    assert_true(store_prune(store, WALL + S, states, &removed));
    assert_int_equal(apply_sum_up(fixture->apply, WALL + 30 * S, &more, NULL), KVR_OK);
    assert_true(store_commit(store));
    assert_int_equal(list(), 1);
    fault_is(0, "agent_silent", -1, WALL, WALL + 30 * S);
}

struct asked {
    struct fleet *fleet;
    int visits;
};

static void ask_fleet(void *self, const struct agent_row *row)
{
    struct asked *asked = self;

    assert_string_equal(row->name, "prefill-0");
    (void)fleet_changes(asked->fleet); /* by the fleet's lock */
    asked->visits++;
}

/* While a slow database writes the faults, the fleet answers. */
static void lost_agents_are_visited_without_the_lock(void **state)
{
    struct fixture *fixture = *state;
    struct asked asked = {fixture->fleet, 0};

    assert_true(fleet_update(fixture->fleet, &report, KVR_S, WALL));
    assert_true(fleet_each_lost(fixture->fleet, KVR_S, ask_fleet, &asked));
    assert_int_equal(asked.visits, 0);
    assert_true(fleet_each_lost(fixture->fleet, 60 * KVR_S, ask_fleet, &asked));
    assert_int_equal(asked.visits, 1);
}

/* One more than there can be: the agent heard last is still known. */
static void the_agent_heard_longest_ago_is_forgotten(void **state)
{
    (void)state;
    reported(WALL + S);
    assert_true(store_begin(store));
    for (int i = 1; i <= FLEET_AGENTS_MAX; i++) {
        snprintf(report.agent, sizeof(report.agent), "other-%d", i);
        assert_true(fault_watch_report(watch, &report, NULL, WALL));
    }
    assert_true(store_commit(store));
    snprintf(report.agent, sizeof(report.agent), "prefill-0");
    facts.counters[KVR_COUNTER_PEERS_LOST]++;
    reported(WALL + 2 * S);
    assert_int_equal(list(), 1);
    fault_is(0, "peer_lost", -1, WALL + 2 * S, WALL + 2 * S);
}

/* An agent that makes names of peers up: of the most that it can have, faults are open. */
static void peers_beyond_the_bound_end(void **state)
{
    int open = 0;

    (void)state;
    assert_true(store_begin(store));
    for (int i = 0; i < KVR_PEERS_MAX + 5; i++) {
        pair_is(KVR_PAIR_SLOW, 0);
        snprintf(pairs.peers[0].peer, sizeof(pairs.peers[0].peer), "peer-%d", i);
        assert_true(fault_watch_report(watch, &report, NULL, WALL + i * S));
        if (i % 100 == 99) { /* this one is heard of again */
            snprintf(pairs.peers[0].peer, sizeof(pairs.peers[0].peer), "peer-0");
            assert_true(fault_watch_report(watch, &report, NULL, WALL + i * S));
        }
    }
    assert_true(store_commit(store));
    kept.count = 0;
    assert_true(store_list_faults(store, 0, WALL + 9 * S, 100, keep, NULL));
    for (int i = 0; i < kept.count; i++)
        open += kept.faults[i].until_ns == 0;
    assert_int_equal(kept.count, 10);
    assert_int_equal(open, 5);
    assert_string_equal(kept.faults[9].peer, "peer-0");
    assert_int_equal(kept.faults[9].until_ns, 0);
    fault_is(8, "rail_slow", 1, WALL + S, WALL + (int64_t)KVR_PEERS_MAX * S);
}

static void the_scheduler_is_absent(void **state)
{
    struct fixture *fixture = *state;
    struct agent_row row = {.name = "prefill-0", .boot = 7, .seen_ns = WALL};

    (void)fixture;
    assert_true(store_begin(store));
    assert_true(fault_watch_start(watch, WALL)); /* it never ran before */
    assert_true(store_put_agent(store, &row, &facts));
    assert_true(fault_watch_absence(watch, 3 * KVR_S, WALL + 4 * S));
    assert_true(fault_watch_stop(watch, WALL + 10 * S));
    assert_true(fault_watch_start(watch, WALL + 12 * S));
    assert_true(store_commit(store));
    assert_int_equal(list(), 2);
    fault_is(0, "scheduler_absent", -1, WALL + 10 * S, WALL + 12 * S);
    fault_is(1, "scheduler_absent", -1, WALL + S, WALL + 4 * S);
    assert_true(store_begin(store)); /* it crashed: the time of the last report counts */
    row.seen_ns = WALL + 20 * S;
    assert_true(store_put_agent(store, &row, &facts));
    assert_true(fault_watch_start(watch, WALL + 80 * S)); /* the row of an idle agent is as old */
    assert_true(fault_watch_start(watch, WALL + 90 * S));
    assert_true(store_commit(store));
    assert_int_equal(list(), 3);
    fault_is(0, "scheduler_absent", -1, WALL + 20 * S, WALL + 90 * S);
}

static void old_ones_go(void **state)
{
    bool more;

    (void)state;
    facts.rails[0].state = KVR_RAIL_DOWN;
    reported(WALL);
    facts.rails[1].state = KVR_RAIL_DOWN;
    reported(WALL + 10 * S);
    assert_true(store_begin(store));
    assert_true(store_prune_faults(store, WALL, 2, &more));
    assert_false(more);
    assert_true(store_prune_faults(store, WALL + S, 2, &more));
    assert_true(more);
    assert_true(store_prune_faults(store, WALL + S, 2, &more));
    assert_false(more);
    assert_true(store_commit(store));
    assert_int_equal(list(), 1);
    fault_is(0, "rail_down", 1, WALL + 10 * S, 0);
    kept.count = 0;
    assert_true(store_list_faults(store, WALL, WALL + 9 * S, 100, keep, NULL));
    assert_int_equal(kept.count, 0);
}

/* More rows than one step removes. */
static void the_newest_stay(void **state)
{
    struct fault fault = {.kind = KVR_FAULT_MORE, .agent = "prefill-0", .rail = -1};
    bool more = true;
    int steps = 0;

    (void)state;
    assert_true(store_begin(store));
    for (int64_t i = 1; i <= 2050; i++) {
        fault.from_ns = fault.until_ns = WALL + i * S;
        assert_true(store_begin_fault(store, &fault, fault.until_ns));
    }
    for (; more; steps++)
        assert_true(store_prune_faults(store, WALL, 40, &more));
    assert_true(store_commit(store));
    assert_int_equal(steps, 4);
    assert_int_equal(list(), 40);
    fault_is(39, "more", -1, WALL + 2011 * S, WALL + 2011 * S);
}

#define WATCHED(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WATCHED(a_rail_goes_down_and_comes_back),
        WATCHED(pairs_of_rails_are_in_trouble),
        WATCHED(a_fault_outlives_the_scheduler),
        WATCHED(totals_rise),
        WATCHED(a_long_text_is_cut),
        WATCHED(an_agent_ends),
        WATCHED(two_programs_have_one_name),
        WATCHED(many_at_once_are_counted),
        WATCHED(many_outlive_the_scheduler),
        WATCHED(an_agent_falls_silent_and_comes_back),
        WATCHED(faults_of_a_removed_agent_end),
        WATCHED(a_silence_ends_at_another_scheduler),
        WATCHED(lost_agents_are_visited_without_the_lock),
        WATCHED(the_agent_heard_longest_ago_is_forgotten),
        WATCHED(peers_beyond_the_bound_end),
        WATCHED(the_scheduler_is_absent),
        WATCHED(old_ones_go),
        WATCHED(the_newest_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
