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

#include "base/rng.h"
#include "scheduler/journal.h"
#include "scheduler/store_sqlite.h"
#include "scheduler/writer.h"
#include "tests/support/store_case.h"

static bool full, unsynced; /* the disk refuses writes of the journal, or to sync them */
static struct kvr_rng rng;

static uint64_t chance(uint64_t count)
{
    return kvr_rng_below(&rng, count);
}

ssize_t __real_pwritev(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t offset);

ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    errno = ENOSPC;
    return full ? (chance(2) ? -1 : __real_pwritev(fd, parts, (int)chance((uint64_t)count), offset))
                : __real_pwritev(fd, parts, count, offset);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
    (void)fd;
    errno = EIO;
    return unsynced ? -1 : 0; /* fast */
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

    struct kvr_error error = {0};

    assert_int_equal(writer_open(&options, &w->writer, &error), KVR_OK);
}

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

static void writing_close(struct writing *w)
{
    writer_close(w->writer);
    store_close(w->fixture.store);
    fleet_close(w->fixture.fleet);
    metrics_close(w->fixture.metrics);
    health_close(w->health);
    folder_remove(w->fixture.folder);
}

/* The files as kill -9 leaves them; what: of kvrail.*, "*" for all. */
static void copy_files(const char *from, const char *to, const char *what)
{
    char command[160];

    snprintf(command, sizeof(command), "cp -p %s/kvrail.%s %s/", from, what, to);
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

/* It refuses what needs more pages. */
static void fill_database(struct writing *w, bool filled)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %lld",
             filled ? (long long)number(w, "SELECT page_count FROM pragma_page_count") : 1000000ll);
    store_execute(&w->fixture, sql);
}

#define AGENTS 4
/* What must be there in the end. */
struct run {
    struct writing w;
    uint64_t acked[AGENTS]; /* events of each agent */
    uint64_t boot, bytes;   /* of the agent with a rail */
    uint64_t acked_bytes, boots;
    int64_t audits;
    bool filled; /* the database refuses */
};

static void report_event(struct run *run, int a)
{
    char agent[16];
    struct kvr_event event =
        event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, (uint64_t)(a + 1) * 1000 + run->acked[a] + 1, 5);
    struct kvr_report report;

    snprintf(agent, sizeof(agent), "decode-%d", a);
    report = report_of(agent, run->acked[a] + 1, &event, 1);
    if (take(&run->w, &report) == KVR_OK)
        run->acked[a]++;
}

/* Of a new start, or of the one before. */
static void report_facts(struct run *run, bool starts)
{
    uint64_t bytes = starts ? 0 : run->bytes + 1000;

    run->boot += starts;
    run->bytes = bytes;
    if (take_facts(&run->w, run->boot, bytes) == KVR_OK) {
        run->acked_bytes = bytes;
        run->boots++;
    } else if (starts) {
        run->boot--;
        run->bytes = run->acked_bytes;
    }
}

static void die(struct run *run)
{
    struct writing after;

    crash(&run->w, &after);
    writing_close(&run->w);
    run->w = after;
    run->filled = chance(4) == 0; /* it refuses at the start */
    if (run->filled)
        fill_database(&run->w, true);
    writing_begin(&run->w);
}

static void step(struct run *run)
{
    struct waiting audit = {.audit = {.action = "sign-in", .actor = "ann", .from = "here"}};
    struct kvr_error error = {0};
    uint64_t what = chance(100);

    if (what < 60) {
        report_event(run, (int)chance(AGENTS));
    } else if (what < 72) {
        report_facts(run, what >= 70);
    } else if (what < 80) {
        (void)writer_commit(run->w.writer);
    } else if (what < 83) {
        full = !full;
    } else if (what < 86) {
        unsynced = !unsynced;
    } else if (what < 89) {
        run->filled = !run->filled;
        fill_database(&run->w, run->filled);
    } else if (what < 92) {
        run->audits += writer_take(run->w.writer, &audit, 1, &error) == KVR_OK;
    } else if (what < 94) {
        writer_rest(run->w.writer);
    } else if (what < 98) {
        die(run);
    }
}

static void check_all(struct run *run, unsigned seed)
{
    for (int a = 0; a < AGENTS; a++) {
        char sql[160];

        snprintf(sql, sizeof(sql), "SELECT count(*) FROM transfers WHERE id > %d AND id <= %d",
                 (a + 1) * 1000, (a + 1) * 1000 + (int)run->acked[a]);
        if (number(&run->w, sql) != (int64_t)run->acked[a])
            fail_msg("seed %u agent %d: %d of %d", seed, a, (int)number(&run->w, sql),
                     (int)run->acked[a]);
    }
    if (number(&run->w, "SELECT count(*) FROM transfers") !=
        number(&run->w, "SELECT count(*) FROM events"))
        fail_msg("seed %u: events twice", seed);
    if (number(&run->w, "SELECT count(*) FROM audit") != run->audits)
        fail_msg("seed %u: audits", seed);
    if (run->boots > 0 && number(&run->w, "SELECT bytes FROM rails") < (int64_t)run->acked_bytes)
        fail_msg("seed %u: bytes %d of %d", seed, (int)number(&run->w, "SELECT bytes FROM rails"),
                 (int)run->acked_bytes);
}

static void random_run(unsigned seed)
{
    struct run run = {.boot = 7};
    char folder[FOLDER_BYTES];

    kvr_rng_init(&rng, seed);
    folder_make(folder);
    writing_open(&run.w, folder);
    writing_begin(&run.w);
    for (int i = 0; i < 300; i++)
        step(&run);
    full = unsynced = false;
    fill_database(&run.w, false);
    (void)writer_commit(run.w.writer);
    assert_true(writer_commit(run.w.writer));
    check_all(&run, seed);
    writing_close(&run.w);
}

static void random_runs(void **state)
{
    unsigned runs = (unsigned)check_cases(10, 400);

    (void)state;
    for (unsigned seed = 1; seed <= runs; seed++)
        random_run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_runs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
