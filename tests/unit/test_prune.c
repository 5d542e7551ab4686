/* Goal: the database stays below its bound, whatever comes. The oldest ended transfers go and all
 * else stays; where nothing is left to remove, one problem says so.
 * Method: rounds of rows as the writer stores them, in a fresh folder, with a bound of a few
 * megabytes. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "scheduler/api.h"
#include "scheduler/prune.h"
#include "scheduler/store_marks.h"
#include "scheduler/store_rollups.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

#define MB UINT64_C(1000000)

struct bounded {
    struct fixture *fixture;
    struct health *health;
    struct prune prune;
};

static struct bounded bounded_begin(struct fixture *fixture, kvr_ns retention, uint64_t bound)
{
    struct bounded bounded = {.fixture = fixture, .health = health_open("kvrail.db")};

    bounded.prune = prune_begin(&(struct prune_options){.apply = fixture->apply,
                                                        .store = fixture->store,
                                                        .fleet = fixture->fleet,
                                                        .metrics = fixture->metrics,
                                                        .health = bounded.health,
                                                        .retention = retention,
                                                        .bound = bound});
    return bounded;
}

static void put(struct store *store, uint64_t id, transfer_state state)
{
    struct transfer transfer = {.id = id, .state = state, .updated_ns = WALL + (int64_t)id};
    uint8_t records[900] = {0};
    struct event_row row = {.agent = "decode-0",
                            .boot = 7,
                            .arrived_ns = WALL,
                            .records = records,
                            .bytes = sizeof(records)};

    snprintf(transfer.request, sizeof(transfer.request), "%016llx", id * 0x9e3779b97f4a7c15ull);
    assert_true(store_add_events(store, &transfer, &row));
    assert_true(store_put_transfer(store, &transfer));
}

/* A round: ended transfers with these ids. */
static void put_ended(struct bounded *bounded, uint64_t from, uint64_t until)
{
    assert_true(store_begin(bounded->fixture->store));
    for (uint64_t id = from; id < until; id++)
        put(bounded->fixture->store, id, STATE_DONE);
    assert_true(store_commit(bounded->fixture->store));
    prune_after_round(&bounded->prune);
}

static void prune_all(struct bounded *bounded)
{
    while (prune_wanted(&bounded->prune))
        prune_some(&bounded->prune, WALL);
}

static bool has(struct bounded *bounded, uint64_t id)
{
    struct transfer transfer;
    bool found;

    assert_true(store_get_transfer(bounded->fixture->store, id, &transfer, &found));
    return found;
}

static bool has_metric(struct bounded *bounded, const char *line)
{
    char *text = NULL;
    size_t size = 0;
    struct exposition out = {.out = open_memstream(&text, &size)};
    bool found;

    metrics_write(bounded->fixture->metrics, KVR_S, WALL, &out);
    assert_int_equal(fclose(out.out), 0);
    found = strstr(text, line) != NULL;
    free(text);
    return found;
}

static void expect_health(struct bounded *bounded, bool ready, const char *text)
{
    struct api_answer answer;

    api_get_health(bounded->health, ready, &answer);
    assert_int_equal(answer.status, 200);
    if (strstr(answer.body, text) == NULL)
        fail_msg("no %s in %s", text, answer.body);
    free(answer.body);
}

static void the_oldest_ended_transfers_go(void **state)
{
    struct bounded bounded = bounded_begin(*state, KVR_NEVER, 4 * MB);
    struct store *store = bounded.fixture->store;
    struct audit_entry entry = {.action = "abandon"};
    struct mark mark = {.kind = MARK_STARTED};
    struct store_rollup rollup = {.step = 1, .begin = 1, .part = ""};
    struct agent_row row = {.name = "prefill-0", .boot = 7};
    static struct kvr_agent_facts facts;

    assert_true(store_begin(store));
    for (uint64_t id = 1; id <= 10; id++)
        put(store, id, STATE_MATCHED);
    assert_true(store_add_audit(store, &entry, 1) &&
                store_add_mark(store, "prefill-0", 7, &mark, 1));
    assert_true(store_put_rollup(store, &rollup) && store_put_agent(store, &row, &facts) &&
                store_set_position(store, "prefill-0", 7, 1, 1));
    assert_true(store_commit(store));
    put_ended(&bounded, 11, 1011);
    assert_false(prune_wanted(&bounded.prune));
    put_ended(&bounded, 1011, 6011);
    assert_true(bounded.prune.used > 4 * MB && prune_wanted(&bounded.prune));
    prune_all(&bounded);

    assert_true(bounded.prune.used <= 4 * MB / 100 * 95 && bounded.prune.used > 2 * MB);
    assert_false(has(&bounded, 11));
    assert_true(has(&bounded, 1) && has(&bounded, 10) && has(&bounded, 6010));
    /* none is older than one that went, and none has left its events behind */
    assert_int_equal(store_number(bounded.fixture,
                                  "SELECT count(*) = max(id) - min(id) + 1 FROM transfers "
                                  "WHERE live = 0"),
                     1);
    assert_true(store_number(bounded.fixture, "SELECT count(*) FROM events") ==
                store_number(bounded.fixture, "SELECT count(*) FROM transfers"));
    assert_int_equal(store_number(bounded.fixture,
                                  "SELECT count(*) FROM audit, marks, rollups, agents, "
                                  "positions"),
                     1);
    assert_true(has_metric(&bounded, "kvrail_database_bound_bytes 4000000\n"));
    assert_true(has_metric(&bounded, "kvrail_rows_removed_total{reason=\"age\"} 0\n"));
    assert_false(has_metric(&bounded, "kvrail_rows_removed_total{reason=\"size\"} 0\n"));
    expect_health(&bounded, true, "\"problems\":[]");
    health_close(bounded.health);
}

/* Between rounds only so much goes as must, and the file is no larger than the bound and a round.
 */
static void the_file_grows_by_no_more_than_a_round(void **state)
{
    struct bounded bounded = bounded_begin(*state, KVR_NEVER, 3 * MB);
    uint64_t one_round, file = 0;

    put_ended(&bounded, 1, 501);
    one_round = bounded.prune.used;
    for (uint64_t from = 501; from < 20001; from += 500) {
        put_ended(&bounded, from, from + 500);
        while (prune_holds(&bounded.prune))
            prune_some(&bounded.prune, WALL);
        file =
            store_number(bounded.fixture, "SELECT page_count * page_size FROM pragma_page_count, "
                                          "pragma_page_size");
        assert_true(file <= 3 * MB + one_round);
        assert_true(has(&bounded, from + 499));
    }
    assert_true(file > 3 * MB); /* the bound was reached */
    health_close(bounded.health);
}

/* A bound that is set on a database that is larger: the next round does not wait for all of it. */
static void a_large_database_shrinks_beside_the_reports(void **state)
{
    struct bounded bounded = bounded_begin(*state, KVR_NEVER, 0);

    put_ended(&bounded, 1, 6001);
    assert_false(prune_wanted(&bounded.prune));
    health_close(bounded.health);

    bounded = bounded_begin(*state, KVR_NEVER, 2 * MB);
    assert_true(prune_wanted(&bounded.prune) && !prune_holds(&bounded.prune));
    put_ended(&bounded, 6001, 6101);
    assert_true(prune_holds(&bounded.prune));
    while (prune_holds(&bounded.prune))
        prune_some(&bounded.prune, WALL);
    assert_true(bounded.prune.used > 4 * MB && prune_wanted(&bounded.prune));
    prune_all(&bounded);
    assert_true(bounded.prune.used < 2 * MB);
    health_close(bounded.health);
}

static void a_bound_below_the_rest_is_a_problem(void **state)
{
    struct bounded bounded = bounded_begin(*state, KVR_NEVER, 1000);

    put_ended(&bounded, 1, 2501);
    prune_all(&bounded); /* comes to an end */
    assert_false(has(&bounded, 2500));
    expect_health(&bounded, false, "\"problem\":\"database_bound\"");
    expect_health(&bounded, true, "the bound is 1000");
    prune_after_pause(&bounded.prune);
    assert_true(prune_wanted(&bounded.prune));
    prune_all(&bounded);
    bounded.prune.options.bound = 100 * MB;
    prune_after_pause(&bounded.prune);
    expect_health(&bounded, false, "\"problems\":[]");
    health_close(bounded.health);
}

/* What is old goes first, and is counted as that. */
static void age_goes_before_size(void **state)
{
    struct bounded bounded = bounded_begin(*state, KVR_S, 1);

    put_ended(&bounded, 1, 3);
    prune_after_pause(&bounded.prune);
    prune_some(&bounded.prune, WALL + 2 * (int64_t)KVR_S);
    assert_true(has_metric(&bounded, "kvrail_rows_removed_total{reason=\"age\"} 4\n"));
    assert_true(has_metric(&bounded, "kvrail_rows_removed_total{reason=\"size\"} 0\n"));
    assert_false(has(&bounded, 1));
    prune_all(&bounded);
    health_close(bounded.health);
}

/* Its target has ended it, and its row has gone: what the source says about its own end is not lost
 * because the writer remembers the row. */
static void a_removed_transfer_is_not_remembered(void **state)
{
    struct bounded bounded = bounded_begin(*state, KVR_NEVER, 1);
    struct kvr_event source[] = {event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 5),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 30)};
    struct kvr_event target = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 20);
    struct kvr_report report = report_of("prefill-0", 1, source, 1);
    uint64_t acknowledged;

    assert_int_equal(apply_one(bounded.fixture, &report, &acknowledged), KVR_OK);
    report = report_of("decode-0", 1, &target, 1);
    assert_int_equal(apply_one(bounded.fixture, &report, &acknowledged), KVR_OK);
    prune_after_round(&bounded.prune);
    prune_all(&bounded);
    assert_false(has(&bounded, 5));
    report = report_of("prefill-0", 2, source + 1, 1);
    assert_int_equal(apply_one(bounded.fixture, &report, &acknowledged), KVR_OK);
    assert_true(has(&bounded, 5));
    health_close(bounded.health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(the_oldest_ended_transfers_go),
        WITH_STORE(the_file_grows_by_no_more_than_a_round),
        WITH_STORE(a_large_database_shrinks_beside_the_reports),
        WITH_STORE(a_bound_below_the_rest_is_a_problem),
        WITH_STORE(age_goes_before_size),
        WITH_STORE(a_removed_transfer_is_not_remembered),
    };

    return cmocka_run_group_tests_name("prune", tests, NULL, NULL);
}
