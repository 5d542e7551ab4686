/* Goal: each commit has its rollups; they survive a restart and a report that comes twice; seconds
 * become minutes, hours and days; old rows go. Method: reports applied as the writer does. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/rollups.h"
#include "scheduler/store_rollups.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

#define SECOND (WALL / (int64_t)KVR_S)

/* So many seconds after WALL. */
static void apply_after(struct fixture *fixture, const struct kvr_report *report, int64_t seconds)
{
    uint64_t acknowledged;

    assert_int_equal(apply_at(fixture, report, WALL + seconds * (int64_t)KVR_S, &acknowledged),
                     KVR_OK);
}

/* A transfer that is done, as the target saw it: opened at 1 ms, matched at 2 ms, ended at 11 ms.
 */
static void end_transfer(struct fixture *fixture, uint64_t id, int64_t seconds)
{
    struct kvr_event events[] = {
        event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, id, 2 * KVR_MS),
        event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, id, 12 * KVR_MS),
    };
    struct kvr_report report = report_of("decode-0", 2 * id - 1, events, 2);

    apply_after(fixture, &report, seconds);
}

/* A transaction may last. Rows of its first second are not lost when the next one begins. */
static void a_transaction_may_have_two_seconds(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    uint64_t acknowledged;

    report.facts = &facts;
    facts.rail_count = 1;
    apply_after(fixture, &report, 0); /* growth counts from there */
    assert_true(store_begin(fixture->store));
    for (int64_t second = 1; second <= 2; second++) {
        int64_t now_ns = WALL + second * (int64_t)KVR_S;

        facts.rails[0].bytes += 1000;
        assert_int_equal(apply_report(fixture->apply, &report, now_ns, &acknowledged, NULL),
                         KVR_OK);
    }
    assert_int_equal(apply_flush(fixture->apply, WALL + 2 * (int64_t)KVR_S, NULL), KVR_OK);
    assert_true(store_commit(fixture->store));
    apply_count(fixture->apply, fixture->metrics, NULL, WALL);
    apply_reset(fixture->apply);
    assert_int_equal(store_number(fixture, "SELECT count(DISTINCT \"begin\") FROM rollups"), 2);
}

static void restart(struct fixture *fixture)
{
    apply_close(fixture->apply);
    fixture->apply = apply_open(fixture->store, fixture->fleet);
}

static void sum_up(struct fixture *fixture, int64_t seconds)
{
    bool more = true;

    while (more) {
        assert_true(store_begin(fixture->store));
        assert_int_equal(apply_sum_up(fixture->apply, WALL + seconds * (int64_t)KVR_S, &more, NULL),
                         KVR_OK);
        assert_true(store_commit(fixture->store));
        apply_count(fixture->apply, fixture->metrics, NULL, WALL);
        apply_reset(fixture->apply);
    }
}

struct total {
    uint64_t ended, rows;
    int64_t last;
};

static void add(void *self, const struct store_rollup *rollup)
{
    struct rollup_unpack unpack = rollup->amounts;
    uint64_t amounts[ROLLUP_AMOUNT_END];
    struct total *total = self;

    assert_true(rollup->begin >= total->last);
    total->last = rollup->begin;
    total->rows++;
    while (rollup_next_amounts(&unpack, amounts) == KVR_OK)
        total->ended += amounts[ROLLUP_ENDED];
}

static struct total read_window(struct fixture *fixture, rollup_kind kind, int step, int64_t from,
                                int64_t until)
{
    int64_t seconds = rollup_steps[step].seconds;
    struct rollup_window window = {.kind = kind,
                                   .part = "",
                                   .step = step,
                                   .from = (SECOND + from) / seconds * seconds,
                                   .until = (SECOND + until) / seconds * seconds + seconds};
    struct total total = {0};

    assert_true(store_read_rollups(fixture->store, &window, add, &total));
    return total;
}

static void count_rollup(void *self, const struct store_rollup *rollup)
{
    (void)rollup;
    ++*(uint64_t *)self;
}

/* So many rows of that step, of all kinds. */
static uint64_t rows_of(struct fixture *fixture, int step)
{
    uint64_t rows = 0;

    assert_true(store_list_rollups(fixture->store, rollup_steps[step].seconds, INT64_MIN, INT64_MAX,
                                   count_rollup, &rows));
    return rows;
}

static void a_commit_has_its_rollups(void **state)
{
    struct fixture *fixture = *state;

    end_transfer(fixture, 1, 0);
    end_transfer(fixture, 2, 0);
    end_transfer(fixture, 3, 1);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 0, 0, 0).ended, 2);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 0, 0, 1).ended, 3);
    assert_int_equal(read_window(fixture, ROLLUP_TENANT, 0, 0, 1).ended, 3);
    assert_int_equal(read_window(fixture, ROLLUP_AGENT, 0, 0, 1).ended, 6); /* both sides */
}

static void a_report_that_comes_twice_counts_once(void **state)
{
    struct fixture *fixture = *state;

    end_transfer(fixture, 1, 0);
    end_transfer(fixture, 1, 0);
    restart(fixture);
    end_transfer(fixture, 1, 1);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 0, 0, 5).ended, 1);
}

/* The open second and the open minute go on where they were. */
static void a_restart_loses_nothing(void **state)
{
    struct fixture *fixture = *state;

    end_transfer(fixture, 1, 0);
    restart(fixture);
    end_transfer(fixture, 2, 0);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 0, 0, 0).ended, 2);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 0, 0, 0).rows, 1);
    end_transfer(fixture, 3, 1);
    restart(fixture);
    sum_up(fixture, 120);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 1).ended, 3);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 1).rows, 1);
}

static void what_is_rolled_back_is_not_counted(void **state)
{
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 9, 9);
    struct kvr_report report = report_of("decode-0", 1, &event, 1);
    struct fixture *fixture = *state;
    uint64_t acknowledged;

    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_report(fixture->apply, &report, WALL, &acknowledged, NULL), KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, WALL, NULL), KVR_OK);
    store_rollback(fixture->store);
    apply_reset(fixture->apply);
    end_transfer(fixture, 1, 0);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 0, 0, 0).ended, 1);
}

/* WALL is 20 s after a full minute. */
static void steps_are_summed_up_once_they_are_over(void **state)
{
    struct fixture *fixture = *state;
    uint64_t id = 1;

    for (int64_t minute = 0; minute < 3; minute++) {
        end_transfer(fixture, id++, minute * 60);
        end_transfer(fixture, id++, minute * 60 + 1);
    }
    sum_up(fixture, 41); /* the first minute ended a second ago */
    assert_int_equal(rows_of(fixture, 1), 0);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 130).ended, 6);
    sum_up(fixture, 103);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 130).ended, 6);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 130).rows, 2 + 2);
    sum_up(fixture, 103); /* again, changes nothing */
    sum_up(fixture, 86400 + 3600);
    assert_int_equal(rows_of(fixture, 0), 0); /* past their time */
    for (int step = 1; step < ROLLUP_STEPS; step++)
        assert_int_equal(read_window(fixture, ROLLUP_ALL, step, 0, 130).ended, 6);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 3, 0, 130).rows, 1);
}

/* A year on only days are left, and then nothing. */
static void rows_go_after_their_time(void **state)
{
    struct fixture *fixture = *state;

    end_transfer(fixture, 1, 0);
    sum_up(fixture, 40 * 86400);
    assert_int_equal(rows_of(fixture, 2), 0);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 3, 0, 0).ended, 1);
    sum_up(fixture, 400 * 86400);
    assert_int_equal(rows_of(fixture, 3), 0);
}

/* A minute that was summed up gets more when the clock is set back. */
static void a_clock_that_is_set_back_loses_nothing(void **state)
{
    struct fixture *fixture = *state;

    end_transfer(fixture, 1, 0);
    sum_up(fixture, 200);
    end_transfer(fixture, 2, 5);
    sum_up(fixture, 210);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 10).ended, 2);
    assert_int_equal(read_window(fixture, ROLLUP_ALL, 1, 0, 10).rows, 1);
}

static void add_bytes(void *self, const struct store_rollup *rollup)
{
    struct rollup_unpack unpack = rollup->amounts;
    uint64_t amounts[ROLLUP_AMOUNT_END];

    assert_string_equal(rollup->part, "prefill-0");
    while (rollup_next_amounts(&unpack, amounts) == KVR_OK)
        *(uint64_t *)self += amounts[ROLLUP_BYTES];
}

static void rails_are_read_by_their_agent(void **state)
{
    struct kvr_agent_facts *facts = calloc(1, sizeof(*facts));
    struct fixture *fixture = *state;
    struct rollup_window window = {
        .kind = ROLLUP_RAIL, .part = "prefill-0", .from = SECOND, .until = SECOND + 5};
    uint64_t bytes = 0;

    facts->rail_count = 2;
    for (int64_t second = 0; second < 4; second++) {
        for (int agent = 0; agent < 2; agent++) {
            struct kvr_report report =
                report_of(agent == 0 ? "prefill-0" : "prefill-1", 0, NULL, 0);

            report.facts = facts;
            facts->rails[0].bytes = facts->rails[1].bytes = 100 * (uint64_t)second;
            apply_after(fixture, &report, second);
        }
    }
    assert_true(store_read_rollups(fixture->store, &window, add_bytes, &bytes));
    assert_int_equal(bytes, 2 * 300); /* the first report is only what later ones count from */
    free(facts);
}

/* ---- size ---- */

#define FULL_AGENTS    256
#define FULL_RAILS     32
#define FULL_PEERS     8 /* that each source writes to in one second, a rail of each to one rail */
#define FULL_SECONDS   60
#define FULL_TRANSFERS 1000 /* a second */

/* Each rail has moved about 12 GB a second in writes of 256 KiB, and half of a pair's bytes. */
static void full_report(struct rollups *rollups, struct kvr_agent_facts *facts,
                        struct kvr_report_pairs *pairs, uint32_t agent, int64_t second)
{
    bool source = agent < FULL_AGENTS / 2;
    struct kvr_report report = report_of("", 0, NULL, 0);
    uint64_t moved = (uint64_t)(second + 30) * UINT64_C(12345678901) + agent;

    snprintf(report.agent, sizeof(report.agent), "%s-%04u", source ? "prefill" : "decode", agent);
    report.facts = facts;
    facts->rail_count = FULL_RAILS;
    for (uint32_t rail = 0; rail < FULL_RAILS; rail++) {
        facts->rails[rail].bytes = moved + rail * (uint64_t)(second + 30) * 1000003;
        facts->rails[rail].writes = facts->rails[rail].bytes >> 18;
        facts->rails[rail].counters[KVR_RAIL_COMPLETION_TIME] = source ? moved / 3 : 0;
    }
    pairs->peer_count = FULL_PEERS;
    pairs->pair_count = FULL_PEERS * FULL_RAILS;
    for (uint32_t i = 0; i < pairs->pair_count; i++)
        pairs->pairs[i] = (struct kvr_pair_facts){
            .rail = i % FULL_RAILS, .target_rail = i % FULL_RAILS, .bytes = moved / FULL_PEERS};
    for (uint32_t i = 0; i < FULL_PEERS; i++) {
        snprintf(pairs->peers[i].peer, KVR_NAME_BYTES, "decode-%04u",
                 FULL_AGENTS / 2 + (agent + i) % (FULL_AGENTS / 2));
        pairs->peers[i].pair_first = i * FULL_RAILS;
        pairs->peers[i].pair_count = FULL_RAILS;
    }
    report.pairs = source ? pairs : NULL;
    assert_true(rollups_take_report(rollups, &report, WALL + second * (int64_t)KVR_S));
}

static void full_transfer(struct rollups *rollups, uint32_t number, int64_t second)
{
    const struct rollup_news news = {.ended = true, .side_ended = {true, true}};
    struct transfer transfer = {.state = STATE_DONE, .bytes = 250000000, .layers = 80};
    uint32_t mix = (number + 1) * 2654435761u;
    int64_t at_ns = WALL;

    snprintf(transfer.tenant, sizeof(transfer.tenant), "tenant-%u", number % 8);
    for (int role = 0; role < 2; role++) {
        struct transfer_side *side = &transfer.sides[role];
        uint32_t agent = (number * 7 + (uint32_t)role * number) % (FULL_AGENTS / 2);

        snprintf(side->agent, sizeof(side->agent), "%s-%04u", role == 0 ? "prefill" : "decode",
                 agent + (uint32_t)role * FULL_AGENTS / 2);
        (role == 0 ? &transfer.source_engine : &transfer.target_engine)->bytes[0] = (uint8_t)agent;
        (role == 0 ? &transfer.source_engine : &transfer.target_engine)->bytes[15] =
            (uint8_t)(role + 1);
        side->ended = true;
        for (int stage = 0; stage < STAGE_END; stage++) {
            at_ns += (int64_t)(mix >> (stage % 16)) % (20 * (int64_t)KVR_MS);
            side->at_ns[stage] = at_ns;
        }
    }
    assert_true(rollups_take_transfer(rollups, &transfer, &news, WALL + second * (int64_t)KVR_S));
}

/* Bytes of the rows of that kind, in one step. */
static double bytes_of(struct fixture *fixture, int kind, int step)
{
    static const char sql[] =
        "SELECT sum(length(amounts) + length(times) + length(part) + 20), count(DISTINCT begin) "
        "FROM rollups WHERE kind = ?1 AND step = ?2";
    sqlite3_stmt *statement;
    double bytes;

    assert_int_equal(
        sqlite3_prepare_v2(store_sqlite_database(fixture->store), sql, -1, &statement, NULL),
        SQLITE_OK);
    sqlite3_bind_int(statement, 1, kind);
    sqlite3_bind_int64(statement, 2, rollup_steps[step].seconds);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    bytes = sqlite3_column_double(statement, 0) / sqlite3_column_double(statement, 1);
    sqlite3_finalize(statement);
    return bytes;
}

/* 256 agents with 32 rails each, all of which move something in each second. */
static void a_full_fleet_has_a_bounded_size(void **state)
{
    static const double bounds[ROLLUP_KIND_END][2] = {
        [ROLLUP_ALL] = {1000, 2500},       [ROLLUP_REASON] = {1000, 2500},
        [ROLLUP_TENANT] = {8000, 20000},   [ROLLUP_AGENT] = {60000, 350000},
        [ROLLUP_ENGINE] = {60000, 350000}, [ROLLUP_RAIL] = {180000, 180000},
        [ROLLUP_PAIR] = {400000, 400000},
    };
    struct kvr_agent_facts *facts;
    struct kvr_report_pairs *pairs;
    struct fixture *fixture = *state;
    struct rollups *rollups;
    bool more = true;

    SQLITE_ALONE();
    facts = calloc(1, sizeof(*facts));
    pairs = calloc(1, sizeof(*pairs));
    rollups = rollups_open(fixture->store);
    assert_true(store_begin(fixture->store));
    for (int64_t second = -21; second < FULL_SECONDS; second++) {
        for (uint32_t agent = 0; agent < FULL_AGENTS; agent++)
            full_report(rollups, facts, pairs, agent, second);
        for (uint32_t i = 0; i < FULL_TRANSFERS && second >= -20; i++)
            full_transfer(rollups, (uint32_t)(second + 30) * FULL_TRANSFERS + i, second);
        assert_true(rollups_flush(rollups));
    }
    while (more)
        assert_true(rollups_sum_up(rollups, WALL + FULL_SECONDS * (int64_t)KVR_S, &more));
    assert_true(store_commit(fixture->store));
    for (int kind = 0; kind < ROLLUP_KIND_END; kind++) {
        for (int step = 0; step < 2; step++) {
            double bytes = bytes_of(fixture, kind, step);

            print_message("%s: %.0f bytes in a step of %lld s\n",
                          rollup_kind_name((rollup_kind)kind), bytes,
                          (long long)rollup_steps[step].seconds);
            assert_true(bytes > 0 && bytes < bounds[kind][step]);
        }
    }
    rollups_close(rollups);
    free(facts);
    free(pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_transaction_may_have_two_seconds),
        WITH_STORE(a_commit_has_its_rollups),
        WITH_STORE(a_report_that_comes_twice_counts_once),
        WITH_STORE(a_restart_loses_nothing),
        WITH_STORE(what_is_rolled_back_is_not_counted),
        WITH_STORE(steps_are_summed_up_once_they_are_over),
        WITH_STORE(rows_go_after_their_time),
        WITH_STORE(a_clock_that_is_set_back_loses_nothing),
        WITH_STORE(rails_are_read_by_their_agent),
        WITH_STORE(a_full_fleet_has_a_bounded_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
