/* Goal: rows that go to PostgreSQL together, and questions that are asked together, have the same
 * effects as one after the other; and what failed first is what is said.
 * Method: a real server (tests/support/postgres.sh); transactions that mix rows and questions. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "scheduler/store_postgres.h"
#include "tests/support/store_case.h"

static void begin(const struct fixture *fixture)
{
    assert_true(store_begin(fixture->store));
}

static void commit(const struct fixture *fixture)
{
    assert_true(store_commit(fixture->store));
}

static struct transfer transfer_of(uint64_t id)
{
    struct transfer transfer = {.id = id, .state = STATE_OPENED, .updated_ns = WALL};

    snprintf(transfer.request, sizeof(transfer.request), "request-%" PRIu64, id);
    return transfer;
}

static void put(const struct fixture *fixture, struct transfer *transfer)
{
    assert_true(store_put_transfer(fixture->store, transfer));
}

static void expect(const struct fixture *fixture, const uint64_t *ids, size_t id_count,
                   const struct store_start *starts, size_t start_count)
{
    assert_true(
        store_expect(fixture->store, &(struct store_expected){ids, id_count, starts, start_count}));
}

static uint64_t bytes_of(const struct fixture *fixture, uint64_t id)
{
    struct transfer transfer;
    bool found;

    assert_true(store_get_transfer(fixture->store, id, &transfer, &found));
    return found ? transfer.bytes : UINT64_MAX;
}

static uint64_t position_of(const struct fixture *fixture, const char *agent, uint64_t boot)
{
    uint64_t sequence;

    assert_true(store_position(fixture->store, agent, boot, &sequence));
    return sequence;
}

/* ---- rows ---- */

static void the_last_change_of_a_row_counts(void **state)
{
    struct fixture *fixture = *state;
    struct transfer transfer = transfer_of(5);

    begin(fixture);
    for (uint64_t i = 0; i < 4; i++) { /* new, then changed three times */
        transfer.bytes = i;
        put(fixture, &transfer);
        assert_true(store_set_position(fixture->store, "prefill-0", 7, 10 + i, WALL));
        assert_true(store_set_position(fixture->store, "prefill-0", 8, 20 + i, WALL));
        assert_true(store_set_position(fixture->store, "decode-0", 7, 30 + i, WALL));
    }
    commit(fixture);
    assert_int_equal(bytes_of(fixture, 5), 3);
    assert_int_equal(position_of(fixture, "prefill-0", 7), 13);
    assert_int_equal(position_of(fixture, "prefill-0", 8), 23);
    assert_int_equal(position_of(fixture, "decode-0", 7), 33);
    assert_int_equal(store_count_transfers(fixture), 1);
}

static void a_row_that_is_removed_does_not_come_back(void **state)
{
    struct fixture *fixture = *state;
    struct transfer kept = transfer_of(1), removed = transfer_of(2);

    begin(fixture);
    put(fixture, &kept);
    put(fixture, &removed);
    removed.bytes = 9;
    put(fixture, &removed);
    assert_true(store_delete_transfer(fixture->store, 2));
    commit(fixture);
    assert_int_equal(store_count_transfers(fixture), 1);
    assert_int_equal(bytes_of(fixture, 2), UINT64_MAX);
}

/* More rows than go together, so some go before the commit. */
static void every_row_of_a_large_commit_is_there(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t records[3000] = {1};

    begin(fixture);
    for (uint64_t id = 1; id <= 1500; id++) {
        struct transfer transfer = transfer_of(id);

        assert_true(store_add_events(fixture->store, &transfer,
                                     &(struct event_row){.agent = "decode-0",
                                                         .boot = id,
                                                         .arrived_ns = WALL,
                                                         .records = records,
                                                         .bytes = sizeof(records),
                                                         .spans = records,
                                                         .spans_bytes = id % 2,
                                                         .pages = records,
                                                         .pages_bytes = id % 3}));
        put(fixture, &transfer);
        transfer.bytes = id;
        put(fixture, &transfer);
    }
    commit(fixture);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM transfers WHERE bytes = id"),
                     1500);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM events WHERE length(records) = "
                                           "3000 AND length(spans) = boot % 2 AND "
                                           "length(pages) = boot % 3"),
                     1500);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM transfers JOIN events ON "
                                           "last_event = events.id AND boot = transfers.id"),
                     1500);
}

/* Each statement of a commit has its own time, so that a slow server takes a large one, too. */
static void a_large_commit_may_take_long(void **state)
{
    struct fixture *fixture = *state;
    struct transfer transfer = {.state = STATE_DONE, .updated_ns = WALL};

    store_execute(fixture, "CREATE FUNCTION kvrail.pause() RETURNS trigger LANGUAGE plpgsql AS "
                           "'BEGIN PERFORM pg_sleep(3.5); RETURN NULL; END'");
    store_execute(fixture, "CREATE TRIGGER slow AFTER INSERT ON kvrail.transfers "
                           "FOR EACH STATEMENT EXECUTE FUNCTION kvrail.pause()");
    begin(fixture);
    for (uint64_t id = 1; id <= 1500; id++) { /* three statements */
        transfer.id = id;
        transfer.ordinal = 0;
        put(fixture, &transfer);
    }
    commit(fixture);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM kvrail.transfers"), 1500);
}

static void rows_of_a_rollback_are_gone(void **state)
{
    struct fixture *fixture = *state;
    struct transfer one = transfer_of(1), two = transfer_of(2);

    begin(fixture);
    put(fixture, &one);
    store_rollback(fixture->store);
    begin(fixture);
    put(fixture, &two);
    commit(fixture);
    assert_int_equal(store_count_transfers(fixture), 1);
    assert_int_equal(bytes_of(fixture, 1), UINT64_MAX);
}

static void a_text_that_is_no_utf_8_fails_no_other_row(void **state)
{
    struct fixture *fixture = *state;
    struct transfer bad = transfer_of(1), good = transfer_of(2);

    memcpy(bad.request, "\xff\xfe bad", 7);
    begin(fixture);
    put(fixture, &bad);
    put(fixture, &good);
    commit(fixture);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM transfers WHERE request = "
                                           "'request-2' OR (id = 1 AND request LIKE '%bad')"),
                     2);
}

/* ---- questions ---- */

static void answers_follow_the_transaction(void **state)
{
    struct fixture *fixture = *state;
    struct transfer there = transfer_of(UINT64_MAX - 1), fresh = transfer_of(3);
    const uint64_t ids[] = {3, UINT64_MAX - 1, 3, 1};
    const struct store_start starts[] = {{"prefill-0", 7}, {"decode-0", 7}, {"prefill-0", 7}};

    begin(fixture);
    there.bytes = 11;
    put(fixture, &there);
    assert_true(store_set_position(fixture->store, "prefill-0", 7, 100, WALL));
    commit(fixture);
    begin(fixture);
    expect(fixture, ids, 4, starts, 3);
    assert_int_equal(bytes_of(fixture, UINT64_MAX - 1), 11);
    assert_int_equal(bytes_of(fixture, 3), UINT64_MAX);
    assert_int_equal(position_of(fixture, "prefill-0", 7), 100);
    assert_int_equal(position_of(fixture, "decode-0", 7), 0);
    there.bytes = 12;
    put(fixture, &there);
    put(fixture, &fresh);
    assert_true(store_set_position(fixture->store, "prefill-0", 7, 101, WALL));
    assert_int_equal(bytes_of(fixture, UINT64_MAX - 1), 12);
    assert_int_equal(bytes_of(fixture, 3), 0);
    assert_int_equal(position_of(fixture, "prefill-0", 7), 101);
    assert_int_equal(position_of(fixture, "decode-0", 7), 0);
    commit(fixture);
}

/* What another scheduler commits between two transactions is seen. */
static void answers_do_not_outlive_their_transaction(void **state)
{
    struct fixture *fixture = *state;
    struct transfer one = transfer_of(1);
    const uint64_t ids[] = {1};
    const struct store_start starts[] = {{"prefill-0", 7}};

    begin(fixture);
    expect(fixture, ids, 1, starts, 1);
    commit(fixture);
    begin(fixture);
    put(fixture, &one);
    commit(fixture);
    store_execute(fixture, "UPDATE kvrail.transfers SET bytes = 77 WHERE id = 1");
    store_execute(fixture, "INSERT INTO kvrail.positions VALUES ('prefill-0', 7, 55, 0)");
    begin(fixture);
    assert_int_equal(bytes_of(fixture, 1), 77);
    assert_int_equal(position_of(fixture, "prefill-0", 7), 55);
    commit(fixture);
}

/* A round of reports takes few round trips, however many transfers it is about. */
static void a_round_asks_for_all_transfers_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct store_postgres *store = store_postgres(fixture->store);
    enum { EVENTS = 400 };
    static struct kvr_event events[EVENTS];
    struct kvr_report report;
    uint64_t acknowledged, before;

    for (uint32_t i = 0; i < EVENTS; i++)
        events[i] = event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 1000 + i, 1 + i);
    report = report_of("prefill-0", 1, events, EVENTS);
    before = store->round_trips;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(store_count_transfers(fixture), EVENTS);
    assert_true(store->round_trips - before < 40);
}

static void agents_with_orders_are_found(void **state)
{
    struct fixture *fixture = *state;
    const struct store_start starts[] = {{"prefill-0", 7}, {"decode-0", 7}, {"decode-0", 8}};
    bool has[3] = {true, false, true};

    assert_true(store_find_orders(fixture->store, starts, 3, has));
    assert_false(has[0] || has[1] || has[2]);
    store_execute(fixture, "INSERT INTO kvrail.orders (agent, boot, transfer, kind, request, "
                           "attempt, lease_ns, made_ns) VALUES ('decode-0', 7, 0, 'drain', '', 0, "
                           "0, 0), ('decode-0', 7, 1, 'cancel', '', 0, 0, 0)");
    assert_true(store_find_orders(fixture->store, starts, 3, has));
    assert_false(has[0] || has[2]);
    assert_true(has[1]);
}

/* ---- what is said ---- */

static void the_first_failure_is_said(void **state)
{
    struct fixture *fixture = *state;
    struct store_postgres *store = store_postgres(fixture->store);
    struct transfer transfer;
    bool found;

    begin(fixture);
    assert_true(store_postgres_send(store, "SELECT 1 / 0", NULL, 0));
    assert_int_equal(store->base.driver->changed(fixture->store), 0);
    assert_false(store_get_transfer(fixture->store, 1, &transfer, &found));
    assert_non_null(strstr(store_problem(fixture->store), "division by zero"));
    assert_false(store_commit(fixture->store));
    assert_non_null(strstr(store_problem(fixture->store), "division by zero"));
    store_rollback(fixture->store);
    begin(fixture);
    commit(fixture);
}

/* Of a row that waited: its failure comes with the commit. */
static void a_row_that_is_refused_fails_the_commit(void **state)
{
    struct fixture *fixture = *state;
    struct transfer transfer = transfer_of(1);

    begin(fixture); /* it makes the partition */
    commit(fixture);
    store_execute(fixture, "ALTER TABLE kvrail.transfers ADD CONSTRAINT small CHECK (bytes < 5)");
    begin(fixture);
    transfer.bytes = 6;
    put(fixture, &transfer);
    assert_false(store_commit(fixture->store));
    assert_non_null(strstr(store_problem(fixture->store), "small"));
    store_rollback(fixture->store);
    assert_int_equal(store_count_transfers(fixture), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(the_last_change_of_a_row_counts),
        WITH_STORE(a_row_that_is_removed_does_not_come_back),
        WITH_STORE(every_row_of_a_large_commit_is_there),
        WITH_STORE(a_large_commit_may_take_long),
        WITH_STORE(rows_of_a_rollback_are_gone),
        WITH_STORE(a_text_that_is_no_utf_8_fails_no_other_row),
        WITH_STORE(answers_follow_the_transaction),
        WITH_STORE(answers_do_not_outlive_their_transaction),
        WITH_STORE(a_round_asks_for_all_transfers_at_once),
        WITH_STORE(agents_with_orders_are_found),
        WITH_STORE(the_first_failure_is_said),
        WITH_STORE(a_row_that_is_refused_fails_the_commit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
