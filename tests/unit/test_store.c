/* Goal: acknowledged events are in the database once, also events that come twice or late. A
 * database of another version is never damaged.
 * Method: reports applied as the writer does, on databases in a fresh folder; the ingest thread
 * with its queue once. */
#include "tests/support/check.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/store_case.h"

static void count_event(void *self, const struct stored_event *event)
{
    (void)event;
    ++*(int *)self;
}

static int count_events(struct fixture *fixture, uint64_t id)
{
    int count = 0;

    assert_true(store_list_events(fixture->store, id, 1000, count_event, &count));
    return count;
}

static void store_merges_both_sides_into_one_row(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event source[] = {event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10),
                                 event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 20),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 50)};
    struct kvr_event target[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_TARGET, 5, 5),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 45)};
    struct kvr_report report = report_of("prefill-0", 1, source, 3);
    struct metrics_summary summary;
    struct transfer transfer;
    uint64_t acknowledged;

    source[1].path = KVR_PATH_HOST;
    source[1].limits = (struct kvr_event_limits){4, UINT32_MAX, 65536, true};
    target[1].limits = (struct kvr_event_limits){1, 1, 4096, false}; /* the source plans */
    target[1].path = KVR_PATH_STAGED;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(acknowledged, 3);
    report = report_of("decode-0", 1, target, 2);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    transfer = get_transfer(fixture, 5);
    assert_int_equal(transfer.state, STATE_DONE);
    assert_int_equal(transfer.bytes, 4096);
    assert_string_equal(transfer.sides[KVR_ROLE_SOURCE].agent, "prefill-0");
    assert_string_equal(transfer.sides[KVR_ROLE_TARGET].agent, "decode-0");
    assert_int_equal(transfer.sides[KVR_ROLE_SOURCE].path, KVR_PATH_HOST);
    assert_int_equal(transfer.sides[KVR_ROLE_TARGET].path, KVR_PATH_STAGED);
    assert_int_equal(transfer_path(&transfer), KVR_PATH_STAGED);
    assert_int_equal(transfer.limits.pieces_local, 4);
    assert_int_equal(transfer.limits.pieces_remote, UINT32_MAX);
    assert_int_equal(transfer.limits.bytes, 65536);
    assert_true(transfer.limits.calibrated);
    assert_true(transfer_duration_ns(&transfer) == 40);
    assert_true(transfer.sides[KVR_ROLE_SOURCE].at_ns[STAGE_FIRST_POST] == WALL + 20);
    assert_int_equal(store_count_transfers(fixture), 1);
    metrics_summarise(fixture->metrics, WALL, &summary);
    assert_int_equal(summary.states[STATE_DONE], 1);
    assert_int_equal(summary.events, 5);
}

/* Agents that know no tenants name none. */
static void store_keeps_the_tenant_that_one_side_names(void **state)
{
    struct fixture *fixture = *state;
    uint64_t acknowledged;

    for (uint64_t id = 5; id <= 7; id++) { /* the first to report; the second; neither */
        for (int i = 0; i < 2; i++) {
            kvr_role role = i == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
            struct kvr_event event = event_of(KVR_EVENT_MATCHED, role, id, 10);
            struct kvr_report report =
                report_of(i == 0 ? "prefill-0" : "decode-0", id - 4, &event, 1);

            if (id == 5 + (uint64_t)i)
                strcpy(event.tenant, "red");
            assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
        }
    }
    assert_string_equal(get_transfer(fixture, 5).tenant, "red");
    assert_string_equal(get_transfer(fixture, 6).tenant, "red");
    assert_string_equal(get_transfer(fixture, 7).tenant, "default");
}

static void store_ignores_what_came_before(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10),
                                 event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 20),
                                 event_of(KVR_EVENT_LAST_POST, KVR_ROLE_SOURCE, 5, 30)};
    struct kvr_report report = report_of("prefill-0", 1, events, 2);
    uint64_t acknowledged;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
        assert_int_equal(acknowledged, 2);
    }
    assert_int_equal(count_events(fixture, 5), 2);
    report = report_of("prefill-0", 2, events + 1, 2); /* 2 again, 3 new */
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(acknowledged, 3);
    assert_int_equal(count_events(fixture, 5), 3);
    report.boot = 8; /* another start counts from 1 again */
    report.sequence_first = report.sequence_held = 1;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(count_events(fixture, 5), 5);
}

static void store_refuses_out_of_order_but_not_a_gap(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 10);
    struct kvr_report report = report_of("prefill-0", 11, &event, 1);
    uint64_t acknowledged;

    report.sequence_held = 1; /* 1 to 10 are still to come */
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_STALE);
    assert_int_equal(store_count_transfers(fixture), 0);
    report.sequence_held = 11; /* 1 to 10 are lost */
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(acknowledged, 11);
}

static void store_moves_an_opening_to_its_transfer(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_TARGET, 0, 5),
                                 event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 77, 9)};
    struct kvr_report report = report_of("decode-0", 1, events, 1);
    uint64_t acknowledged;
    struct transfer transfer;

    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(store_count_transfers(fixture), 1);
    transfer = get_transfer(fixture, transfer_opening_id("decode-0", 7, &events[0]));
    assert_int_equal(transfer.state, STATE_OPENED);
    report = report_of("decode-0", 2, events + 1, 1);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(store_count_transfers(fixture), 1);
    transfer = get_transfer(fixture, 77);
    assert_true(transfer.sides[KVR_ROLE_TARGET].at_ns[STAGE_OPENED] == WALL + 5);
    assert_int_equal(transfer.state, STATE_MATCHED);
}

/* Rows may be written in the middle of a transaction, because another agent is gone: what follows
 * changes these rows. */
static void store_moves_an_opening_that_was_written(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_TARGET, 0, 5),
                                 event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 77, 9),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 77, 20)};
    struct kvr_error error = {0};
    uint64_t acknowledged;

    assert_true(apply_begin(fixture->apply));
    for (uint64_t i = 0; i < 3; i++) {
        struct kvr_report report = report_of("decode-0", i + 1, &events[i], 1);

        assert_int_equal(apply_report(fixture->apply, &report, WALL, &acknowledged, &error),
                         KVR_OK);
        assert_int_equal(apply_agent_gone(fixture->apply, "decode-9", NULL, "", &error), KVR_OK);
    }
    assert_int_equal(apply_flush(fixture->apply, WALL, &error), KVR_OK);
    assert_true(store_commit(fixture->store));
    apply_count(fixture->apply, fixture->metrics, NULL, WALL);
    apply_reset(fixture->apply);
    assert_int_equal(store_count_transfers(fixture), 1);
    assert_int_equal(get_transfer(fixture, 77).state, STATE_DONE);
    assert_true(get_transfer(fixture, 77).sides[KVR_ROLE_TARGET].at_ns[STAGE_OPENED] == WALL + 5);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM events"), 3);
}

/* Its publish is not what another tenant's fetch waited for. */
static void store_gives_an_opening_to_its_own_tenant(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 5),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 20),
                                 event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 6, 30)};
    struct kvr_report report = report_of("prefill-0", 1, events, 3);
    uint64_t acknowledged;

    for (int i = 0; i < 3; i++)
        strcpy(events[i].tenant, i == 1 ? "blue" : "red");
    events[1].outcome = KVR_NO_SOURCE;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_true(get_transfer(fixture, 5).sides[KVR_ROLE_SOURCE].at_ns[STAGE_OPENED] == 0);
    assert_true(get_transfer(fixture, 6).sides[KVR_ROLE_SOURCE].at_ns[STAGE_OPENED] == WALL + 5);
    assert_int_equal(store_count_transfers(fixture), 2);
}

static void store_keeps_an_opening_that_nobody_wanted(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 5),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 0, 9)};
    struct kvr_report report = report_of("prefill-0", 1, events, 2);
    uint64_t acknowledged;
    struct transfer transfer;

    events[1].outcome = KVR_EXPIRED;
    strcpy(events[1].detail, "no answer within 30 s");
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    transfer = get_transfer(fixture, transfer_opening_id("prefill-0", 7, &events[0]));
    assert_int_equal(transfer.state, STATE_EXPIRED);
    assert_string_equal(transfer_detail(&transfer), "no answer within 30 s");
}

/* Two tensor ranks of one agent published the request; one engine dies, and the other's pages are
 * held. */
static void store_keeps_the_ranks_of_a_request_apart(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 5),
                                 event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 6),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 0, 9)};
    struct kvr_report report = report_of("prefill-0", 1, events, 3);
    uint64_t acknowledged, id;
    uint32_t held;

    events[1].source_rank.tp = 1;
    events[2].outcome = KVR_ENGINE_LOST;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    id = transfer_opening_id("prefill-0", 7, &events[0]);
    assert_int_equal(get_transfer(fixture, id).state, STATE_FAILED);
    id = transfer_opening_id("prefill-0", 7, &events[1]);
    assert_int_equal(get_transfer(fixture, id).state, STATE_OPENED);
    assert_true(store_begin(fixture->store));
    assert_true(
        store_add_orders(fixture->store, "request-1", -1, KVR_ORDER_ABANDON, 0, WALL, &held));
    assert_true(store_commit(fixture->store));
    assert_int_equal(held, 1);
}

/* What the housekeeping does `later` from now. False: there is nothing to do. */
static bool end_boots(struct fixture *fixture, kvr_ns later)
{
    kvr_ns now = kvr_clock_now() + later;
    char name[KVR_NAME_BYTES];
    struct fleet_boots alive;
    struct kvr_error error;

    if (!fleet_next_ended_boot(fixture->fleet, now, name, &alive))
        return false;
    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_agent_gone(fixture->apply, name, &alive, "gone", &error), KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, WALL, &error), KVR_OK);
    assert_true(store_commit(fixture->store));
    apply_reset(fixture->apply);
    fleet_settle_boots(fixture->fleet, name, now);
    return true;
}

static void store_lets_a_restarted_agent_end_its_transfers(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 5);
    struct kvr_event late = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 60);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1);
    struct transfer transfer;
    uint64_t acknowledged;

    memset(&facts, 0, sizeof(facts));
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    report = report_of("prefill-0", 0, NULL, 0);
    report.boot = 8;
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_false(end_boots(fixture, 0));
    assert_int_equal(get_transfer(fixture, 5).state, STATE_FIRST_POST);
    assert_true(end_boots(fixture, FLEET_SILENT_NS + KVR_S)); /* boot 7 is silent by then */
    assert_false(end_boots(fixture, FLEET_SILENT_NS + KVR_S));
    transfer = get_transfer(fixture, 5);
    assert_int_equal(transfer.state, STATE_LOST);
    report = report_of("decode-0", 1, &late, 1); /* the other side knows the outcome */
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    transfer = get_transfer(fixture, 5);
    assert_int_equal(transfer.state, STATE_DONE);
}

/* Programs that only know an agent's name report other boots of it. */
static void a_forged_boot_loses_no_transfer(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 5);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1), forged;
    uint64_t acknowledged;

    memset(&facts, 0, sizeof(facts));
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    forged = report_of("prefill-0", 0, NULL, 0);
    forged.facts = &facts;
    for (uint64_t boot = 100; boot < 200; boot++) {
        forged.boot = boot;
        assert_int_equal(apply_one(fixture, &forged, &acknowledged),
                         boot < 100 + FLEET_BOOTS_MAX - 1 ? KVR_OK : KVR_AGAIN);
        assert_int_equal(get_transfer(fixture, 5).state, STATE_FIRST_POST);
    }
    report = report_of("prefill-0", 0, NULL, 0); /* the agent itself is heard all the time */
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    (void)end_boots(fixture, FLEET_SILENT_NS + KVR_S);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_FIRST_POST);
}

/* A report in the agent's name, with events that it never made. */
static void a_forged_sequence_silences_no_agent(void **state)
{
    static const uint64_t numbers[] = {UINT64_C(1) << 62, UINT64_C(1) << 40};
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 5);
    struct kvr_event ended = event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 60);
    struct kvr_event noise = event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 99, 5);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1), forged;
    uint64_t acknowledged;

    report.sequence_made = 1;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    for (unsigned i = 0; i < 2; i++) {
        forged = report_of("prefill-0", numbers[i], &noise, 1);
        assert_int_equal(apply_one(fixture, &forged, &acknowledged), i == 0 ? KVR_REFUSED : KVR_OK);
    }
    assert_true(acknowledged == numbers[1]);
    report = report_of("prefill-0", 2, &ended, 1);
    report.sequence_made = 2;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(acknowledged, 2);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_DONE);
    report.sequence_first = report.sequence_held = 3;
    report.sequence_made = 2; /* it contradicts itself */
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_REFUSED);
}

/* The agent gave a report up, and sent its events again with later ones. Then the network delivers
 * the first report. */
static void a_late_report_is_no_contradiction(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event events[] = {event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 5),
                                 event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 10),
                                 event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 60)};
    struct kvr_report report = report_of("prefill-0", 1, events, 3), late;
    uint64_t acknowledged;

    report.sequence_made = 3;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    for (uint32_t count = 1; count <= 2; count++) {
        late = report_of("prefill-0", 1, events, count);
        late.sequence_made = count;
        late.anchor_wall += 3 * KVR_MS; /* the clocks were read at another moment */
        assert_int_equal(apply_one(fixture, &late, &acknowledged), KVR_OK);
        assert_int_equal(acknowledged, 3);
    }
    assert_int_equal(count_events(fixture, 5), 3);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_DONE);
}

/* While the scheduler was away, a new agent came, died and started again. Its spool arrives before
 * any other report of it. */
static void store_ends_what_an_earlier_start_left_in_its_spool(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 5, 5);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1);
    uint64_t acknowledged;

    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_OPENED);
    report = report_of("prefill-0", 0, NULL, 0);
    report.boot = 8;
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_LOST);
}

static void store_pages_from_new_to_old(void **state)
{
    struct fixture *fixture = *state;
    struct transfer_filter filter = {.kind = FILTER_STATE, .state = STATE_DONE, .limit = 3};
    struct kvr_report report;
    uint64_t acknowledged;

    for (uint64_t id = 1; id <= 10; id++) {
        struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, id, id);

        event.outcome = id % 2 == 0 ? KVR_OK : KVR_CANCELLED;
        report = report_of("decode-0", id, &event, 1);
        assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    }
    store_lists(fixture, &filter, 3);
    filter.before = get_transfer(fixture, 4).ordinal; /* behind it are 1 to 3: one was done */
    store_lists(fixture, &filter, 1);
}

/* ---- versions ---- */

static void execute(const struct fixture *fixture, const char *sql)
{
    sqlite3 *database;
    char path[128];

    snprintf(path, sizeof(path), "%s/kvrail.db", fixture->folder);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(database);
}

static void store_refuses_a_newer_database(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_error error;

    SQLITE_ALONE();
    apply_close(fixture->apply);
    fixture->apply = NULL;
    fixture->store = store_close(fixture->store);
    execute(fixture, "PRAGMA user_version = 99");
    assert_int_equal(store_open_writer(&(struct store_place){.folder = fixture->folder},
                                       &fixture->store, &error),
                     KVR_VERSION);
    assert_non_null(strstr(error.detail, "version 99"));
    assert_null(fixture->store);
}

static void store_refuses_a_removed_provider(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_error error;

    SQLITE_ALONE();
    apply_close(fixture->apply);
    fixture->apply = NULL;
    fixture->store = store_close(fixture->store);
    execute(fixture, "INSERT INTO agents (name, boot, role, version, host, pid, listen, provider,"
                     " transfers_live, peers_up, dropped, counters, stopped, seen_ns) VALUES"
                     " ('decode-7', 1, 'target', '0', 'h', 1, '', 'tcp', 0, 0, 0, '{}', 1, 0)");
    assert_int_equal(store_open_writer(&(struct store_place){.folder = fixture->folder},
                                       &fixture->store, &error),
                     KVR_OK);
    fixture->store = store_close(fixture->store);
    execute(fixture, "INSERT INTO rails (agent, position, name, provider, address, epoch, state,"
                     " speed_bps, bytes, writes) VALUES"
                     " ('decode-7', 0, 'shm', 'shm', '', 1, 'up', 0, 0, 0)");
    assert_int_equal(store_open_writer(&(struct store_place){.folder = fixture->folder},
                                       &fixture->store, &error),
                     KVR_INVALID);
    assert_non_null(strstr(error.detail, "'decode-7'"));
    assert_non_null(strstr(error.detail, "use local"));
    assert_null(fixture->store);
}

static void store_backs_up_an_older_database(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_error error;
    char path[128];

    SQLITE_ALONE();
    apply_close(fixture->apply);
    fixture->apply = NULL;
    fixture->store = store_close(fixture->store);
    snprintf(path, sizeof(path), "%s/kvrail.db", fixture->folder);
    assert_int_equal(unlink(path), 0);
    execute(fixture, "CREATE TABLE remembered (a)");
    assert_int_equal(store_open_writer(&(struct store_place){.folder = fixture->folder},
                                       &fixture->store, &error),
                     KVR_OK);
    snprintf(path, sizeof(path), "%s/kvrail.db.v0.bak", fixture->folder);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(store_count_transfers(fixture), 0); /* and the schema is there */
}

/* ---- the writer thread ---- */

struct answers {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int count, failed;
};

static void count_answer(void *self, kvr_status status, const struct kvr_report_answer *answer,
                         const char *detail)
{
    struct answers *answers = self;

    (void)answer;
    (void)detail;
    pthread_mutex_lock(&answers->lock);
    answers->count++;
    answers->failed += status != KVR_OK;
    pthread_cond_signal(&answers->change);
    pthread_mutex_unlock(&answers->lock);
}

static void ingest_answers_every_report(void **state)
{
    struct answers answers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    struct fixture *fixture = *state;
    struct ingest_options options = {.store = fixture->store,
                                     .fleet = fixture->fleet,
                                     .metrics = fixture->metrics,
                                     .health = health_open("kvrail.db"),
                                     .retention = KVR_NEVER};
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 5, 5);
    uint8_t *bodies[101];
    struct ingest *ingest;

    assert_int_equal(ingest_start(&options, &ingest, NULL), KVR_OK);
    for (uint64_t i = 1; i <= 100; i++) {
        struct kvr_report report = report_of("decode-0", i, &event, 1), *copy;
        size_t size;

        event.transfer = i;
        assert_int_equal(kvr_report_encode(&report, &bodies[i], &size), KVR_OK);
        assert_int_equal(kvr_report_decode(bodies[i], size, &copy, NULL), KVR_OK);
        assert_int_equal(ingest_submit(ingest, copy, (struct ingest_body){bodies[i], size},
                                       count_answer, &answers),
                         KVR_OK);
    }
    ingest_stop(ingest); /* answers the requests that wait */
    ingest_close(ingest);
    for (uint64_t i = 1; i <= 100; i++)
        free(bodies[i]);
    health_close(options.health);
    assert_int_equal(answers.count, 100);
    assert_int_equal(answers.failed, 0);
    assert_int_equal(store_count_transfers(fixture), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(store_merges_both_sides_into_one_row),
        WITH_STORE(store_keeps_the_tenant_that_one_side_names),
        WITH_STORE(store_ignores_what_came_before),
        WITH_STORE(store_refuses_out_of_order_but_not_a_gap),
        WITH_STORE(store_moves_an_opening_to_its_transfer),
        WITH_STORE(store_moves_an_opening_that_was_written),
        WITH_STORE(store_gives_an_opening_to_its_own_tenant),
        WITH_STORE(store_keeps_an_opening_that_nobody_wanted),
        WITH_STORE(store_keeps_the_ranks_of_a_request_apart),
        WITH_STORE(store_lets_a_restarted_agent_end_its_transfers),
        WITH_STORE(a_forged_boot_loses_no_transfer),
        WITH_STORE(a_forged_sequence_silences_no_agent),
        WITH_STORE(a_late_report_is_no_contradiction),
        WITH_STORE(store_ends_what_an_earlier_start_left_in_its_spool),
        WITH_STORE(store_pages_from_new_to_old),
        WITH_STORE(store_refuses_a_newer_database),
        WITH_STORE(store_refuses_a_removed_provider),
        WITH_STORE(store_backs_up_an_older_database),
        WITH_STORE(ingest_answers_every_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
