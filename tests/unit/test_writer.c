/* Goal: what the writer has acknowledged is in the database in the end, once, whatever fails and
 * whenever the process ends; what it has not acknowledged may come again.
 * Method: rounds over SQLite in a fresh folder. A crash is a copy of the folder's files at that
 * moment, taken over by another writer. The database and the disk refuse by order. */
#include "tests/support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "scheduler/journal.h"
#include "scheduler/store_sqlite.h"
#include "scheduler/writer.h"
#include "tests/support/store_case.h"

static bool full;

ssize_t __real_pwritev(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t offset);

ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    errno = ENOSPC;
    return full ? -1 : __real_pwritev(fd, parts, count, offset);
}

struct writing {
    struct fixture fixture; /* without apply */
    struct health *health;
    struct writer *writer;
};

static void writing_begin(struct writing *w)
{
    const struct writer_options options = {.store = w->fixture.store,
                                           .fleet = w->fixture.fleet,
                                           .metrics = w->fixture.metrics,
                                           .health = w->health};

    assert_int_equal(writer_open(&options, &w->writer, NULL), KVR_OK);
}

/* In the folder of `fixture`, or in another one. */
static void writing_open(struct writing *w, const char *folder)
{
    memcpy(w->fixture.folder, folder, FOLDER_BYTES);
    w->fixture.place = (struct store_place){.folder = w->fixture.folder, .retention = KVR_NEVER};
    assert_int_equal(store_open_writer(&w->fixture.place, &w->fixture.store, NULL), KVR_OK);
    w->fixture.fleet = fleet_open();
    w->fixture.metrics = metrics_open();
    w->health = health_open("kvrail.db");
    assert_true(fleet_load(w->fixture.fleet, w->fixture.store));
}

static int writing_setup(void **state)
{
    struct writing *w = calloc(1, sizeof(*w));
    char folder[FOLDER_BYTES];

    folder_make(folder);
    writing_open(w, folder);
    writing_begin(w);
    *state = w;
    return 0;
}

static void writing_close(struct writing *w)
{
    writer_close(w->writer);
    store_close(w->fixture.store);
    fleet_close(w->fixture.fleet);
    metrics_close(w->fixture.metrics);
    health_close(w->health);
    folder_remove(w->fixture.folder);
}

static int writing_teardown(void **state)
{
    full = false;
    writing_close(*state);
    free(*state);
    return 0;
}

/* The files as kill -9 leaves them; what: of kvrail.*, "*" for all. */
static void copy_files(const char *from, const char *to, const char *what)
{
    char command[160];

    snprintf(command, sizeof(command), "cp %s/kvrail.%s %s/", from, what, to);
    assert_int_equal(system(command), 0);
}

/* What a crash leaves, before a writer has taken it over. */
static void crash(const struct writing *w, struct writing *ret_after)
{
    char folder[FOLDER_BYTES];

    *ret_after = (struct writing){0};
    folder_make(folder);
    copy_files(w->fixture.folder, folder, "*");
    writing_open(ret_after, folder);
}

/* ---- rounds ---- */

static kvr_status take(struct writing *w, const struct kvr_report *report)
{
    struct waiting waiting = {0};
    struct kvr_error error = {0};
    uint8_t *body;
    kvr_status status;

    assert_int_equal(kvr_report_encode(report, &body, &waiting.body.count), KVR_OK);
    waiting.body.bytes = body;
    assert_int_equal(kvr_report_decode(body, waiting.body.count, &waiting.report, NULL), KVR_OK);
    status = writer_take(w->writer, &waiting, 1, &error);
    if (status == KVR_OK)
        status = waiting.status;
    kvr_report_free(waiting.report);
    free(body);
    return status;
}

/* A transfer of its own for each report: both ends of `ends` events. */
static kvr_status try_event(struct writing *w, const char *agent, uint64_t number)
{
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, number, 5);
    struct kvr_report report = report_of(agent, number, &event, 1);

    return take(w, &report);
}

static void take_event(struct writing *w, const char *agent, uint64_t number)
{
    assert_int_equal(try_event(w, agent, number), KVR_OK);
}

static kvr_status take_facts(struct writing *w, uint64_t boot, uint64_t bytes)
{
    static struct kvr_agent_facts facts;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);

    facts.rail_count = 1;
    facts.rails[0].bytes = bytes;
    strcpy(facts.rails[0].name, "mlx5_0");
    report.boot = boot;
    report.facts = &facts;
    return take(w, &report);
}

static int64_t number(struct writing *w, const char *sql)
{
    return store_number(&w->fixture, sql);
}

static void has_transfers(struct writing *w, int64_t wanted)
{
    assert_int_equal(number(w, "SELECT count(*) FROM transfers"), wanted);
    assert_int_equal(number(w, "SELECT count(*) FROM events"), wanted);
}

static struct writer_counts counts(const struct writing *w)
{
    return writer_counts(w->writer);
}

/* It refuses what needs more pages. */
static void fill_database(struct writing *w, bool filled)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %lld",
             filled ? (long long)number(w, "SELECT page_count FROM pragma_page_count") : 1000000ll);
    store_execute(&w->fixture, sql);
}

static bool has_problem(const struct writing *w, health_problem problem)
{
    struct health_view view;

    health_look(w->health, &view);
    for (int i = 0; i < view.count; i++)
        if (view.entries[i].problem == problem)
            return true;
    return false;
}

/* ---- crashes ---- */

static void a_crash_before_the_commit_loses_nothing(void **state)
{
    struct writing *w = *state, after;

    for (uint64_t i = 1; i <= 3; i++)
        take_event(w, "decode-0", i);
    assert_int_equal(counts(w).commits, 0);
    assert_int_equal(counts(w).journal_writes, 3);
    crash(w, &after);
    has_transfers(&after, 0);
    writing_begin(&after);
    has_transfers(&after, 3);
    assert_int_equal(counts(&after).journal_bytes, 0);
    take_event(&after, "decode-0", 3); /* sent again */
    take_event(&after, "decode-0", 4);
    assert_true(writer_commit(after.writer));
    has_transfers(&after, 4);
    writing_close(&after);
}

/* Also the bytes of a rail, which no position guards. */
static void a_crash_after_the_commit_counts_nothing_twice(void **state)
{
    struct writing *w = *state, after;
    char folder[FOLDER_BYTES];
    int64_t bytes;

    assert_int_equal(take_facts(w, 7, 1000), KVR_OK); /* the first one is committed */
    take_event(w, "decode-0", 1);
    assert_int_equal(take_facts(w, 7, 4000), KVR_OK);
    folder_make(folder);
    copy_files(w->fixture.folder, folder, "journal");
    assert_true(writer_commit(w->writer));
    copy_files(w->fixture.folder, folder, "db*"); /* and the journal is that of before */
    bytes = number(w, "SELECT sum(length(amounts)) FROM rollups");
    assert_true(bytes > 0);

    after = (struct writing){0};
    writing_open(&after, folder);
    writing_begin(&after);
    assert_int_equal(counts(&after).commits, 0); /* there was nothing to apply */
    has_transfers(&after, 1);
    assert_int_equal(number(&after, "SELECT sum(length(amounts)) FROM rollups"), bytes);
    take_event(&after, "decode-0", 2);
    assert_true(writer_commit(after.writer));
    has_transfers(&after, 2);
    writing_close(&after);
}

static void a_crash_while_it_recovers_loses_nothing(void **state)
{
    struct writing *w = *state, first, second;

    take_event(w, "decode-0", 1);
    crash(w, &first);
    writing_begin(&first);
    take_event(&first, "decode-0", 2); /* over the frame of the first */
    crash(&first, &second);
    has_transfers(&second, 1);
    writing_begin(&second);
    has_transfers(&second, 2);
    writing_close(&first);
    writing_close(&second);
}

static void a_torn_frame_was_not_acknowledged(void **state)
{
    struct writing *w = *state, after;
    char path[FOLDER_BYTES + 16];
    off_t size;

    take_event(w, "decode-0", 1);
    size = (off_t)counts(w).journal_bytes + JOURNAL_HEADER_BYTES;
    take_event(w, "decode-0", 2);
    crash(w, &after);
    snprintf(path, sizeof(path), "%s/kvrail.journal", after.fixture.folder);
    assert_int_equal(truncate(path, size + 60), 0);
    writing_begin(&after);
    has_transfers(&after, 1);
    take_event(&after, "decode-0", 2);
    assert_true(writer_commit(after.writer));
    has_transfers(&after, 2);
    writing_close(&after);
}

static void damage_costs_the_reports_of_its_frame(void **state)
{
    struct writing *w = *state, after;
    char path[FOLDER_BYTES + 16];
    FILE *file;
    long at;

    take_event(w, "decode-0", 1);
    at = (long)counts(w).journal_bytes + JOURNAL_HEADER_BYTES + 60;
    take_event(w, "decode-1", 2);
    take_event(w, "decode-2", 3);
    crash(w, &after);
    snprintf(path, sizeof(path), "%s/kvrail.journal", after.fixture.folder);
    file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    fputc(0xff, file);
    fclose(file);
    writing_begin(&after);
    has_transfers(&after, 2);
    assert_int_equal(number(&after, "SELECT count(*) FROM transfers WHERE id = 2"), 0);
    writing_close(&after);
}

/* It was restored, or set aside: what is in the journal may be what it has, or what it had. */
static void a_journal_of_another_database_is_not_applied(void **state)
{
    struct writing *w = *state, after = {0}, again;
    char folder[FOLDER_BYTES];

    take_event(w, "decode-0", 1);
    assert_true(writer_commit(w->writer));
    take_event(w, "decode-1", 1);
    folder_make(folder);
    copy_files(w->fixture.folder, folder, "journal");
    writing_open(&after, folder);
    writing_begin(&after);
    has_transfers(&after, 0);
    take_event(&after, "decode-0", 2); /* and from now on it is of this one */
    crash(&after, &again);
    writing_begin(&again);
    has_transfers(&again, 1);
    writing_close(&after);
    writing_close(&again);
}

/* However long nothing was stored. */
static void the_position_of_the_journal_is_not_pruned(void **state)
{
    struct writing *w = *state, after;
    uint64_t removed;

    assert_true(store_begin(w->fixture.store));
    assert_true(store_prune(w->fixture.store, INT64_MAX, NULL, &removed));
    assert_true(store_commit(w->fixture.store));
    take_event(w, "decode-0", 1);
    crash(w, &after);
    writing_begin(&after);
    has_transfers(&after, 1);
    writing_close(&after);
}

/* ---- refusals ---- */

static void a_refused_commit_comes_again(void **state)
{
    struct writing *w = *state, after;

    assert_int_equal(take_facts(w, 7, 1000), KVR_OK);
    fill_database(w, true);
    for (uint64_t i = 1; i <= 200; i++)
        if (try_event(w, "decode-0", i) != KVR_OK)
            fail_msg("report %d", (int)i);
    assert_int_equal(take_facts(w, 7, 2000), KVR_OK); /* acknowledged: by the journal alone */
    assert_false(writer_commit(w->writer));
    assert_true(has_problem(w, HEALTH_DISK_FULL));
    assert_int_equal(try_event(w, "decode-0", 201), KVR_SYSTEM); /* nothing new before these */
    crash(w, &after);
    writing_begin(&after);
    has_transfers(&after, 200);
    writing_close(&after);

    fill_database(w, false);
    take_event(w, "decode-0", 201);
    assert_int_equal(number(w, "SELECT count(*) FROM transfers"), 200);
    assert_true(writer_commit(w->writer));
    has_transfers(w, 201);
    assert_false(has_problem(w, HEALTH_DISK_FULL));
    assert_int_equal(number(w, "SELECT bytes FROM rails"), 2000);
    assert_int_equal(number(w, "SELECT count(*) FROM marks"), 1); /* its start, once */
}

static void without_a_journal_each_round_is_committed(void **state)
{
    struct writing *w = *state, after;

    take_event(w, "decode-0", 1);
    full = true;
    take_event(w, "decode-0", 2);
    assert_int_equal(counts(w).commits, 1);
    assert_int_equal(counts(w).journal_bytes, 0);
    has_transfers(w, 2);
    take_event(w, "decode-0", 3);
    assert_int_equal(counts(w).commits, 2);
    full = false;
    take_event(w, "decode-0", 4);
    assert_int_equal(counts(w).commits, 2);
    crash(w, &after);
    has_transfers(&after, 3);
    writing_begin(&after);
    has_transfers(&after, 4);
    writing_close(&after);
}

static void a_full_disk_acknowledges_nothing(void **state)
{
    struct writing *w = *state;
    uint64_t taken = 1;

    take_event(w, "decode-0", 1);
    fill_database(w, true);
    full = true;
    while (taken < 1000 && try_event(w, "decode-0", taken + 1) == KVR_OK)
        taken++;
    assert_true(taken < 1000);
    assert_true(has_problem(w, HEALTH_DISK_FULL));
    assert_int_equal(try_event(w, "decode-0", taken + 1), KVR_SYSTEM);
    fill_database(w, false);
    full = false;
    take_event(w, "decode-0", taken + 1);
    assert_true(writer_commit(w->writer));
    has_transfers(w, (int64_t)taken + 1);
}

/* ---- what is committed at once ---- */

static void orders_and_audits_are_committed_at_once(void **state)
{
    struct writing *w = *state;
    struct waiting waiting = {.audit = {.action = "sign-in", .actor = "ann", .from = "here"}};
    struct kvr_error error;

    take_event(w, "decode-0", 1);
    has_transfers(w, 0);
    assert_int_equal(writer_take(w->writer, &waiting, 1, &error), KVR_OK);
    assert_int_equal(counts(w).commits, 1);
    assert_true(writer_due(w->writer, true) == KVR_NEVER);
    has_transfers(w, 1);
    assert_int_equal(number(w, "SELECT count(*) FROM audit"), 1);
}

/* Else the fleet would know a start that a rollback takes from the database. */
static void a_new_start_is_committed_at_once(void **state)
{
    struct writing *w = *state, after;

    assert_int_equal(take_facts(w, 7, 1), KVR_OK);
    assert_int_equal(counts(w).commits, 1);
    assert_int_equal(take_facts(w, 7, 2), KVR_OK);
    assert_int_equal(counts(w).commits, 1);
    assert_int_equal(take_facts(w, 8, 3), KVR_OK);
    assert_int_equal(counts(w).commits, 2);
    crash(w, &after);
    assert_int_equal(number(&after, "SELECT count(*) FROM marks"), 2);
    assert_int_equal(number(&after, "SELECT boot FROM agents"), 8);
    writing_close(&after);
}

static void what_changes_nothing_writes_nothing(void **state)
{
    struct kvr_report report = report_of("decode-0", 0, NULL, 0);
    struct writing *w = *state;

    assert_int_equal(take(w, &report), KVR_OK);
    assert_int_equal(counts(w).journal_writes, 0);
    assert_int_equal(counts(w).journal_bytes, 0);
    assert_true(writer_due(w->writer, false) == KVR_NEVER);
}

static void it_is_due_soon(void **state)
{
    struct writing *w = *state;
    kvr_ns begin = kvr_clock_now();

    take_event(w, "decode-0", 1);
    assert_true(writer_due(w->writer, false) <= kvr_clock_now() + 250 * KVR_MS);
    assert_true(writer_due(w->writer, false) > begin);
    assert_true(writer_due(w->writer, true) <= begin); /* nothing was committed for long */
    assert_true(writer_commit(w->writer));
    take_event(w, "decode-0", 2);
    assert_true(writer_due(w->writer, true) > begin); /* one reader after the other */
}

int main(void)
{
#define WRITING(test) cmocka_unit_test_setup_teardown(test, writing_setup, writing_teardown)
    const struct CMUnitTest tests[] = {
        WRITING(a_crash_before_the_commit_loses_nothing),
        WRITING(a_crash_after_the_commit_counts_nothing_twice),
        WRITING(a_crash_while_it_recovers_loses_nothing),
        WRITING(a_torn_frame_was_not_acknowledged),
        WRITING(damage_costs_the_reports_of_its_frame),
        WRITING(a_journal_of_another_database_is_not_applied),
        WRITING(the_position_of_the_journal_is_not_pruned),
        WRITING(a_refused_commit_comes_again),
        WRITING(without_a_journal_each_round_is_committed),
        WRITING(a_full_disk_acknowledges_nothing),
        WRITING(orders_and_audits_are_committed_at_once),
        WRITING(a_new_start_is_committed_at_once),
        WRITING(what_changes_nothing_writes_nothing),
        WRITING(it_is_due_soon),
    };

    return cmocka_run_group_tests_name("writer", tests, NULL, NULL);
}
