/* Goal: a history in SQLite comes into PostgreSQL whole, once, and in its order, however often the
 * import is cut off.
 * Method: random transfers with events and spans in SQLite; the import in a child that is killed;
 * then both databases are read alike. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "scheduler/store_engines.h"
#include "scheduler/store_import.h"
#include "scheduler/store_postgres.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

#define TRANSFERS 3000
#define LINES     (1 << 20)

struct case_of {
    struct fixture *to, from;
    char file[FOLDER_BYTES + 16];
};

/* Some events of both sides for each transfer, over ten days. */
static void fill(struct fixture *from)
{
    struct kvr_rng rng;
    uint64_t sequence = 0;

    kvr_rng_init(&rng, 5);
    for (uint64_t id = 1; id <= TRANSFERS;) {
        int64_t now_ns = WALL + (int64_t)id * 300 * (int64_t)KVR_S;
        uint64_t acknowledged;

        assert_true(apply_begin(from->apply));
        for (int i = 0; i < 50 && id <= TRANSFERS; i++, id++)
            for (int role = 0; role < 2; role++) {
                struct kvr_event events[] = {event_of(KVR_EVENT_MATCHED, (kvr_role)role, id, id),
                                             event_of(KVR_EVENT_ENDED, (kvr_role)role, id, id + 1)};
                uint32_t count = kvr_rng_percent(&rng, 90) ? 2 : 1;
                struct kvr_report report = report_of("agent", sequence + 1, events, count);

                sequence += count;
                assert_int_equal(apply_report(from->apply, &report, now_ns, &acknowledged, NULL),
                                 KVR_OK);
            }
        assert_int_equal(apply_flush(from->apply, now_ns, NULL), KVR_OK);
        assert_true(store_commit(from->store));
        apply_count(from->apply, from->metrics, NULL, now_ns);
        apply_reset(from->apply);
    }
}

static int setup(void **state)
{
    struct case_of *c = calloc(1, sizeof(*c));
    void *to;

    store_setup(&to);
    c->to = to;
    folder_make(c->from.folder);
    c->from.place.folder = c->from.folder;
    snprintf(c->file, sizeof(c->file), "%s/kvrail.db", c->from.folder);
    assert_int_equal(store_open_writer(&c->from.place, &c->from.store, NULL), KVR_OK);
    c->from.fleet = fleet_open();
    c->from.metrics = metrics_open();
    c->from.apply = apply_open(c->from.store, c->from.fleet);
    fill(&c->from);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct case_of *c = *state;
    void *to = c->to;

    apply_close(c->from.apply);
    store_close(c->from.store);
    fleet_close(c->from.fleet);
    metrics_close(c->from.metrics);
    folder_remove(c->from.folder);
    store_teardown(&to);
    free(c);
    return 0;
}

/* ---- both, as text ---- */

struct text {
    struct store *store;
    char *lines;
    size_t used;
    uint64_t ids[TRANSFERS];
    int count;
};

static void keep_transfer(void *self, const struct transfer *transfer)
{
    struct text *text = self;

    text->used += (size_t)snprintf(
        text->lines + text->used, LINES - text->used, "%" PRIu64 " %s %" PRIu64 " %" PRId64 "\n",
        transfer->id, transfer_state_name(transfer->state), transfer->bytes, transfer->updated_ns);
    text->ids[text->count++] = transfer->id;
}

static void keep_event(void *self, const struct stored_event *event)
{
    struct text *text = self;

    text->used += (size_t)snprintf(text->lines + text->used, LINES - text->used,
                                   " %s %s %" PRIu64 " %" PRId64, event->role, event->kind,
                                   event->sequence, event->at_ns);
}

static char *read_all(struct store *store)
{
    const struct transfer_filter filter = {.limit = TRANSFERS};
    struct text text = {.store = store, .lines = calloc(1, LINES)};

    assert_true(store_list_transfers(store, &filter, keep_transfer, &text));
    for (int i = 0; i < text.count; i += 97)
        assert_true(store_list_events(store, text.ids[i], 100, keep_event, &text));
    return text.lines;
}

static void must_equal(struct case_of *c)
{
    char *wanted = read_all(c->from.store), *found = read_all(c->to->store);

    assert_true(strcmp(found, wanted) == 0);
    assert_true(strlen(wanted) > (size_t)TRANSFERS * 20);
    free(wanted);
    free(found);
}

/* ---- the import ---- */

/* In a child, because it takes the lock of the folder. after_ms: it is killed; -1: it is not. */
static int import(const struct case_of *c, int after_ms)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct kvr_error error;

        if (freopen("/dev/null", "w", stdout) == NULL)
            _exit(3);
        status = import_run(c->file, &c->to->place, &error);
        _exit(status == KVR_OK ? 0 : status == KVR_CANCELLED ? 4 : 1);
    }
    if (after_ms >= 0) {
        usleep((useconds_t)after_ms * 1000);
        kill(child, SIGKILL);
    }
    assert_true(waitpid(child, &status, 0) == child);
    return status;
}

static void a_history_comes_whole(void **state)
{
    struct case_of *c = *state;

    assert_int_equal(import(c, -1), 0);
    must_equal(c);
    assert_true(store_number(c->to, "SELECT count(*) FROM periods") >= 10);
    assert_int_equal(store_number(c->to, "SELECT count(*) FROM positions"), 1);
    assert_int_equal(store_number(c->to, "SELECT moved FROM imports"), TRANSFERS);
    assert_int_equal(import(c, -1), 0); /* once more, nothing is new */
    assert_int_equal(store_number(c->to, "SELECT count(*) FROM transfers"), TRANSFERS);
}

static void a_cut_import_goes_on(void **state)
{
    struct case_of *c = *state;

    for (int i = 0; i < 5; i++)
        (void)import(c, 40 + 60 * i);
    assert_int_equal(import(c, -1), 0);
    must_equal(c);
    assert_int_equal(store_number(c->to, "SELECT count(*) FROM transfers"), TRANSFERS);
}

static void see(struct fixture *fixture, const char *name, uint8_t number)
{
    struct kvr_engine_facts engine = {.region_count = number};

    strcpy(engine.name, name);
    engine.rank.engine.bytes[0] = number;
    assert_true(store_begin(fixture->store));
    assert_true(store_see_engine(fixture->store, "decode-0", &engine, WALL));
    assert_true(store_commit(fixture->store));
}

/* A scheduler saw one of them there, and another one, under the same ids. */
static void engines_that_are_there_stay(void **state)
{
    struct case_of *c = *state;

    see(&c->from, "one", 1);
    see(&c->from, "two", 2);
    see(c->to, "other", 3);
    see(c->to, "two there", 2);
    assert_int_equal(import(c, -1), 0);
    assert_int_equal(store_number(c->to, "SELECT count(*) FROM engines_seen"), 3);
    assert_int_equal(
        store_number(c->to, "SELECT count(*) FROM engines_seen WHERE name IN ('one', 'two')"), 1);
    see(c->to, "next", 4);
}

/* A scheduler has used the database since; its rows stay, and the numbers go on. */
static void a_used_database_keeps_its_own(void **state)
{
    struct case_of *c = *state;
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, TRANSFERS, 7);
    struct kvr_report report = report_of("decode-7", 1, &event, 1);
    uint64_t acknowledged;

    strcpy(event.request, "of now");
    assert_int_equal(apply_one(c->to, &report, &acknowledged), KVR_OK);
    assert_int_equal(import(c, -1), 0);
    assert_int_equal(store_number(c->to, "SELECT count(*) FROM transfers"), TRANSFERS);
    assert_int_equal(store_number(c->to, "SELECT there FROM imports"), 1);
    assert_string_equal(get_transfer(c->to, TRANSFERS).request, "of now");
    event.transfer = TRANSFERS + 1;
    report = report_of("decode-7", 2, &event, 1);
    assert_int_equal(apply_one(c->to, &report, &acknowledged), KVR_OK);
    assert_int_equal(store_number(c->to, "SELECT count(*) FROM transfers"), TRANSFERS + 1);
}

static void what_is_no_history_is_refused(void **state)
{
    struct case_of *c = *state;
    const struct store_place here = {.folder = c->from.folder};
    struct kvr_error error;
    char journal[64];
    FILE *file;

    assert_int_equal(import_run("/nonexistent/kvrail.db", &c->to->place, &error), KVR_INVALID);
    assert_int_equal(import_run("/etc/passwd", &c->to->place, &error), KVR_INVALID);
    assert_int_equal(import_run(c->file, &here, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "--database"));
    snprintf(journal, sizeof(journal), "%s/kvrail.journal", c->from.folder);
    file = fopen(journal, "w");
    assert_non_null(file);
    fputs("a header, and a frame of some reports", file);
    fclose(file);
    assert_int_equal(import_run(c->file, &c->to->place, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "the journal"));
}

/* A host's clock was wrong for a while. */
static void a_wrong_clock_moves_no_later_id(void **state)
{
    struct case_of *c = *state;
    int64_t now_us = (int64_t)(kvr_clock_wall() / 1000);

    assert_int_equal(sqlite3_exec(store_sqlite_database(c->from.store),
                                  "UPDATE transfers SET updated_ns = 4102444800000000000 "
                                  "WHERE id = 2; UPDATE events SET arrived_ns = "
                                  "4102444800000000000 WHERE id < 10",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(import(c, -1), 0);
    must_equal(c);
    assert_true(store_number(c->to, "SELECT last_id FROM writer") < now_us + 300 * 1000000);
    assert_true(store_number(c->to, "SELECT max(upper) FROM periods") <
                now_us + 2 * 86400 * INT64_C(1000000));
}

static void an_import_that_a_signal_ended_goes_on_later(void **state)
{
    struct case_of *c = *state;
    int stop_fd = c->to->place.stop_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    for (int tenths = 0; tenths < 4; tenths++) { /* while it opens, and while it copies */
        const struct itimerspec at = {.it_value = {.tv_nsec = 1 + tenths * 100000000}};
        int status;

        assert_int_equal(timerfd_settime(stop_fd, 0, &at, NULL), 0);
        status = WEXITSTATUS(import(c, -1));
        assert_true(status == 4 || (tenths > 0 && status == 0));
    }
    c->to->place.stop_fd = 0;
    close(stop_fd);
    assert_int_equal(import(c, -1), 0);
    must_equal(c);
}

/* Nothing is copied into the table that is locked: the import waits where it counts the rows. */
static void a_signal_while_rows_are_counted_is_no_failure(void **state)
{
    const struct itimerspec soon = {.it_value = {.tv_sec = 1}};
    struct case_of *c = *state;
    PGconn *other = PQconnectdb(c->to->place.url);
    int stop_fd = c->to->place.stop_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    assert_int_equal(import(c, -1), 0);
    PQclear(PQexec(other, "BEGIN"));
    PQclear(PQexec(other, "LOCK TABLE kvrail.rails IN ACCESS EXCLUSIVE MODE"));
    assert_int_equal(PQtransactionStatus(other), PQTRANS_INTRANS);
    assert_int_equal(timerfd_settime(stop_fd, 0, &soon, NULL), 0);
    assert_int_equal(WEXITSTATUS(import(c, -1)), 4);
    PQfinish(other);
    c->to->place.stop_fd = 0;
    close(stop_fd);
}

#define WITH_BOTH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOTH(a_history_comes_whole),
        WITH_BOTH(a_cut_import_goes_on),
        WITH_BOTH(engines_that_are_there_stay),
        WITH_BOTH(a_used_database_keeps_its_own),
        WITH_BOTH(a_wrong_clock_moves_no_later_id),
        WITH_BOTH(an_import_that_a_signal_ended_goes_on_later),
        WITH_BOTH(a_signal_while_rows_are_counted_is_no_failure),
        WITH_BOTH(what_is_no_history_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
