/* Goal: each event of a transfer is listed in the order of its time. It may have come in one report
 * or many, before the transfer had its number, or with a database of an earlier version. Memory and
 * the database hold the same of a transfer.
 * Method: reports applied as the writer does; the list as text. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "scheduler/embedded.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

#define LIST_BYTES 2048

static void add_line(void *self, const struct stored_event *event)
{
    char *list = self;
    size_t used = strlen(list);

    snprintf(list + used, LIST_BYTES - used, "%s%s %s%s%s %llu+%lld", used > 0 ? ", " : "",
             event->agent, event->kind, event->detail[0] != '\0' ? ": " : "", event->detail,
             (unsigned long long)event->sequence, (long long)(event->at_ns - WALL));
}

/* "AGENT KIND SEQUENCE+TIME, …" */
static void lists(struct fixture *fixture, uint64_t id, uint32_t limit, const char *wanted)
{
    char list[LIST_BYTES] = "";

    assert_true(store_list_events(fixture->store, id, limit, add_line, list));
    assert_string_equal(list, wanted);
}

static void report_one(struct fixture *fixture, const char *agent, uint64_t sequence,
                       struct kvr_event event)
{
    struct kvr_report report = report_of(agent, sequence, &event, 1);
    uint64_t acknowledged;

    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_true(acknowledged == sequence);
}

static void both_agents_events_are_listed_by_time(void **state)
{
    struct kvr_event source[] = {event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10),
                                 event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 20)};
    struct kvr_report report = report_of("prefill-0", 1, source, 2);
    struct fixture *fixture = *state;
    uint64_t acknowledged;

    report_one(fixture, "decode-0", 1, event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 15));
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    report_one(fixture, "decode-0", 2, event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 30));
    lists(fixture, 5, 100,
          "prefill-0 matched 1+10, decode-0 matched 1+15, prefill-0 first_post 2+20, "
          "decode-0 ended 2+30");
    lists(fixture, 5, 3, /* of the newest rows */
          "prefill-0 matched 1+10, prefill-0 first_post 2+20, decode-0 ended 2+30");
    lists(fixture, 6, 100, "");
    assert_true(store_number(fixture, "SELECT count(*) FROM events") == 3);
}

/* The publish was opened under transfer 0, in an earlier report or in the same; the target was
 * first or not. */
static void an_opening_takes_its_events_along(void **state)
{
    static const char wanted[] = "prefill-0 opened 1+5, decode-0 matched 1+8, "
                                 "prefill-0 matched 2+10";
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 5),
                                 event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10)};
    struct kvr_event target = event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 8);
    struct kvr_report report = report_of("prefill-0", 1, events, 2);
    uint64_t acknowledged;

    report_one(fixture, "prefill-0", 1, events[0]);
    report_one(fixture, "decode-0", 1, target);
    report_one(fixture, "prefill-0", 2, events[1]);
    lists(fixture, 5, 100, wanted);
    assert_int_equal(store_count_transfers(fixture), 1);

    strcpy(events[0].request, "request-2"); /* once more, in one report */
    strcpy(events[1].request, "request-2");
    strcpy(target.request, "request-2");
    events[1].transfer = target.transfer = 6;
    report_one(fixture, "decode-0", 2, target);
    report = report_of("prefill-0", 3, events, 2);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    lists(fixture, 6, 100, "prefill-0 opened 3+5, decode-0 matched 2+8, prefill-0 matched 4+10");
    lists(fixture, 5, 100, wanted);
    assert_true(store_number(fixture, "SELECT count(*) FROM events") == 5);
}

/* Of a transaction that fails nothing stays, neither in the database nor in memory. */
static void a_failed_transaction_is_forgotten(void **state)
{
    struct kvr_event events[] = {event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 10),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 20)};
    struct fixture *fixture = *state;
    struct kvr_report report;
    struct kvr_error error;
    uint64_t acknowledged;

    report_one(fixture, "decode-0", 1, events[0]);
    report = report_of("decode-0", 2, &events[1], 1);
    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_report(fixture->apply, &report, WALL, &acknowledged, &error), KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, WALL, &error), KVR_OK);
    store_rollback(fixture->store);
    apply_reset(fixture->apply);
    lists(fixture, 5, 100, "decode-0 matched 1+10");
    assert_int_equal(get_transfer(fixture, 5).state, STATE_MATCHED);
    report_one(fixture, "decode-0", 2, events[1]);
    lists(fixture, 5, 100, "decode-0 matched 1+10, decode-0 ended 2+20");
    assert_int_equal(get_transfer(fixture, 5).state, STATE_DONE);
}

/* Memory holds a transfer while an agent may still speak of it; the retention removes only rows of
 * ended ones, and its end comes again as a new row. */
static void memory_holds_no_row_that_is_gone(void **state)
{
    struct fixture *fixture = *state;
    uint64_t removed;

    SQLITE_ALONE();
    report_one(fixture, "prefill-0", 1, event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10));
    report_one(fixture, "decode-0", 1, event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 20));
    assert_true(store_prune(fixture->store, WALL + 1000, NULL, &removed));
    apply_forget_ended(fixture->apply);
    assert_true(store_number(fixture, "SELECT count(*) FROM events") == 0);
    report_one(fixture, "prefill-0", 2, event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 30));
    assert_int_equal(get_transfer(fixture, 5).state, STATE_DONE);
    lists(fixture, 5, 100, "prefill-0 ended 2+30");
}

/* The opening's own rows are lost, and the writer goes on. */
static void a_damaged_opening_holds_nothing_up(void **state)
{
    struct fixture *fixture = *state;

    SQLITE_ALONE();
    report_one(fixture, "prefill-0", 1, event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 5));
    report_one(fixture, "decode-0", 1, event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 8));
    store_execute(fixture, "UPDATE events SET previous = 1 WHERE id = 1");
    report_one(fixture, "prefill-0", 2, event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10));
    lists(fixture, 5, 100, "decode-0 matched 1+8, prefill-0 matched 2+10");
}

/* Rows before the damage are shown, and nothing runs in a circle. */
static void a_damaged_chain_has_an_end(void **state)
{
    struct fixture *fixture = *state;

    SQLITE_ALONE();
    report_one(fixture, "decode-0", 1, event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 10));
    report_one(fixture, "decode-0", 2, event_of(KVR_EVENT_GRANTED, KVR_ROLE_TARGET, 5, 20));
    store_execute(fixture, "UPDATE events SET previous = 2 WHERE id = 1");
    lists(fixture, 5, 5,
          "decode-0 matched 1+10, decode-0 matched 1+10, decode-0 granted 2+20, "
          "decode-0 granted 2+20, decode-0 granted 2+20");
    store_execute(fixture, "UPDATE events SET records = x'' WHERE id = 1");
    lists(fixture, 5, 5, "decode-0 granted 2+20");
    store_execute(fixture, "UPDATE events SET records = x'0f0000' WHERE id = 2");
    lists(fixture, 5, 5, "");
}

/* ---- a database of before ---- */

/* A fresh one as that version made it. */
static void begin_with_version(struct fixture *fixture, int version)
{
    char path[128], pragma[64];
    struct store_sqlite *before;

    apply_close(fixture->apply);
    fixture->apply = NULL;
    store_close(fixture->store);
    snprintf(path, sizeof(path), "%s/kvrail.db", fixture->folder);
    assert_int_equal(unlink(path), 0);
    before = calloc(1, sizeof(*before));
    before->base.driver = &store_sqlite_driver;
    assert_int_equal(sqlite3_open(path, &before->database), SQLITE_OK);
    fixture->store = &before->base;
    for (int i = 0; i < version; i++)
        store_execute(fixture, embedded_migrations[i].begin);
    snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", version);
    store_execute(fixture, pragma);
}

static void open_again(struct fixture *fixture)
{
    store_close(fixture->store);
    assert_int_equal(
        store_open_writer(&(struct store_place){.folder = fixture->folder}, &fixture->store, NULL),
        KVR_OK);
    fixture->apply = apply_open(fixture->store, fixture->fleet);
}

#define TRANSFER_OF(id)                                                                            \
    "INSERT INTO transfers SELECT NULL, " id ", 'done', 0, 'ok', 'request-1', 1, zeroblob(16), "   \
    "zeroblob(16), 0, 0, 0, 0, 0, 0, 1, 'prefill-0', 7, 0, 'ok', 0, '', 0, 0, 0, 0, 0, 0, 0, 0, "  \
    "0, 0, 0, 'decode-0', 8, 0, 'ok', 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0"

/* Of a transfer, from an agent, at a time after WALL; behind its peer its amounts and its end. */
#define EVENT(first, last)                                                                         \
    "INSERT INTO events (arrived_ns, transfer, agent, boot, sequence, role, kind, at_ns, peer, "   \
    "bytes, retries, outcome, detail) VALUES (2, " first " + 1700000000000000000, 'peer-0', " last \
    ")"

/* Rows of events as version 14 wrote them, of two transfers, an opening without one, and a transfer
 * that has none. */
static void older_events_are_packed(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    SQLITE_ALONE();
    begin_with_version(fixture, 1);
    store_execute(fixture, TRANSFER_OF("5") ";" TRANSFER_OF("-6") ";" TRANSFER_OF("7"));
    store_execute(fixture,
                  EVENT("5, 'prefill-0', 7, 1, 'source', 'matched', 10", "0, 0, 'ok', ''"));
    store_execute(fixture, EVENT("5, 'decode-0', 8, 1, 'target', 'matched', 5", "0, 0, 'ok', ''"));
    store_execute(fixture, EVENT("5, 'prefill-0', 7, 4, 'source', 'ended', 30",
                                 "4096, 2, 'timed_out', 'slow'"));
    store_execute(fixture, EVENT("5, 'prefill-0', 9, 1, 'source', 'retry', 20", "0, 0, 'ok', ''"));
    store_execute(fixture, EVENT("-6, 'decode-0', 8, 2, 'target', 'ended', 40", "0, 0, 'ok', ''"));
    store_execute(fixture, EVENT("99, 'decode-0', 8, 3, 'target', 'opened', 1", "0, 0, 'ok', ''"));
    open_again(fixture);
    lists(fixture, 5, 100,
          "decode-0 matched 1+5, prefill-0 matched 1+10, prefill-0 retry 1+20, "
          "prefill-0 ended: slow 4+30");
    lists(fixture, (uint64_t)-6, 100, "decode-0 ended 2+40");
    lists(fixture, 7, 100, "");
    assert_true(store_number(fixture, "SELECT count(*) FROM events") == 4);
    assert_true(store_number(fixture, "SELECT count(*) FROM sqlite_schema "
                                      "WHERE name LIKE '%single%' OR name LIKE 'events_by%'") == 0);
    snprintf(path, sizeof(path), "%s/kvrail.db.v1.bak", fixture->folder);
    assert_int_equal(access(path, R_OK), 0);
    report_one(fixture, "decode-0", 4, event_of(KVR_EVENT_RETRY, KVR_ROLE_TARGET, 7, 50));
    lists(fixture, 7, 100, "decode-0 retry 4+50");
}

/* What a scheduler of before tenants has stored is of the tenant that all had. */
static void older_transfers_get_the_default_tenant(void **state)
{
    struct fixture *fixture = *state;

    SQLITE_ALONE();
    begin_with_version(fixture, 1);
    store_execute(fixture, TRANSFER_OF("5"));
    open_again(fixture);
    assert_string_equal(get_transfer(fixture, 5).tenant, "default");
    assert_string_equal(get_transfer(fixture, 5).request, "request-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(both_agents_events_are_listed_by_time),
        WITH_STORE(an_opening_takes_its_events_along),
        WITH_STORE(a_failed_transaction_is_forgotten),
        WITH_STORE(memory_holds_no_row_that_is_gone),
        WITH_STORE(a_damaged_chain_has_an_end),
        WITH_STORE(a_damaged_opening_holds_nothing_up),
        WITH_STORE(older_events_are_packed),
        WITH_STORE(older_transfers_get_the_default_tenant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
