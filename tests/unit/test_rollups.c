/* Goal: each commit has its rollups; they survive a restart and a report that comes twice; seconds
 * become minutes, hours and days; old rows go. Method: reports applied as the writer does. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/rollups.h"
#include "scheduler/store_rollups.h"
#include "scheduler/store_rows.h"
#include "tests/support/store_case.h"

#define SECOND (WALL / (int64_t)KVR_S)

/* One transaction at so many seconds after WALL. */
static void apply_at(struct fixture *fixture, const struct kvr_report *report, int64_t seconds)
{
    int64_t now_ns = WALL + seconds * (int64_t)KVR_S;
    uint64_t acknowledged;

    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_report(fixture->apply, report, now_ns, &acknowledged, NULL), KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, now_ns, NULL), KVR_OK);
    assert_true(store_commit(fixture->store));
    apply_count(fixture->apply, fixture->metrics, NULL, now_ns);
    apply_reset(fixture->apply);
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

    apply_at(fixture, &report, seconds);
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

/* So many rows of that step, of all kinds. */
static uint64_t rows_of(struct fixture *fixture, int step)
{
    struct total total = {.last = INT64_MIN};
    uint64_t rows = 0;

    for (int kind = 0; kind < ROLLUP_KIND_END; kind++) {
        sqlite3_stmt *statement =
            store_bind(fixture->store, SQL_LIST_ROLLUPS,
                       STORE_VALUES(INT(kind), INT(rollup_steps[step].seconds), INT(total.last),
                                    INT((int64_t){INT64_MAX})));

        for (; sqlite3_step(statement) == SQLITE_ROW; rows++)
            continue;
        sqlite3_reset(statement);
    }
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
            apply_at(fixture, &report, second);
        }
    }
    assert_true(store_read_rollups(fixture->store, &window, add_bytes, &bytes));
    assert_int_equal(bytes, 2 * 300); /* the first report is only what later ones count from */
    free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_commit_has_its_rollups),
        WITH_STORE(a_report_that_comes_twice_counts_once),
        WITH_STORE(a_restart_loses_nothing),
        WITH_STORE(what_is_rolled_back_is_not_counted),
        WITH_STORE(steps_are_summed_up_once_they_are_over),
        WITH_STORE(rows_go_after_their_time),
        WITH_STORE(a_clock_that_is_set_back_loses_nothing),
        WITH_STORE(rails_are_read_by_their_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
