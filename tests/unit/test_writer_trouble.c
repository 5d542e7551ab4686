/* Goal: where the database refuses reports that were acknowledged, old rows make room for them, the
 * writer does not spin, readers wait once, and an error of a read loses nothing.
 * Method: a full database, a renamed one, a writer that is held, and reads that fail. */
#include "tests/support/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "scheduler/journal.h"
#include "scheduler/store_sqlite.h"
#include "scheduler/writer.h"
#include "tests/support/store_case.h"

static void put(struct store *store, uint64_t id)
{
    struct transfer transfer = {.id = id, .state = STATE_DONE, .updated_ns = WALL + (int64_t)id};
    uint8_t records[900] = {0};
    struct event_row row = {.agent = "decode-9",
                            .boot = 7,
                            .arrived_ns = WALL,
                            .records = records,
                            .bytes = sizeof(records)};

    snprintf(transfer.request, sizeof(transfer.request), "%016llx",
             (unsigned long long)(id * 0x9e3779b97f4a7c15ull));
    assert_true(store_add_events(store, &transfer, &row));
    assert_true(store_put_transfer(store, &transfer));
}

static void fill(struct fixture *f, uint64_t count)
{
    assert_true(store_begin(f->store));
    for (uint64_t id = 1; id <= count; id++)
        put(f->store, 1000000 + id);
    assert_true(store_commit(f->store));
}

struct answers {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int count;
    kvr_status last;
    char from[FOLDER_BYTES + 16], to[FOLDER_BYTES + 16]; /* renamed when the next is answered */
    bool move;
    unsigned stall_us; /* of the writer's thread, as a disk that hangs */
};

static void take_answer(void *self, kvr_status status, const struct kvr_report_answer *answer,
                        const char *detail)
{
    struct answers *a = self;

    (void)answer;
    (void)detail;
    pthread_mutex_lock(&a->lock);
    if (a->move && status == KVR_OK) {
        a->move = false;
        (void)rename(a->from, a->to);
    }
    a->count++;
    a->last = status;
    pthread_cond_signal(&a->change);
    pthread_mutex_unlock(&a->lock);
    usleep(a->stall_us);
}

static kvr_status send_one(struct ingest *ingest, struct answers *a, uint64_t i)
{
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, i, 5);
    struct kvr_report report = report_of("decode-0", i, &event, 1), *copy;
    uint8_t *body;
    size_t size;
    int before = a->count;

    assert_int_equal(kvr_report_encode(&report, &body, &size), KVR_OK);
    assert_int_equal(kvr_report_decode(body, size, &copy, NULL), KVR_OK);
    assert_int_equal(ingest_submit(ingest, copy, (struct ingest_body){body, size}, take_answer, a),
                     KVR_OK);
    pthread_mutex_lock(&a->lock);
    while (a->count == before)
        pthread_cond_wait(&a->change, &a->lock);
    pthread_mutex_unlock(&a->lock);
    free(body);
    return a->last;
}

/* The database goes while a removal of rows is under way and a report is acknowledged. */
static void a_writer_that_owes_does_not_spin(void **state)
{
    struct fixture *f = *state;
    struct answers a = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct ingest_options options = {.store = f->store,
                                     .fleet = f->fleet,
                                     .metrics = f->metrics,
                                     .health = health_open("kvrail.db"),
                                     .retention = KVR_NEVER,
                                     .bound = 1000000};
    struct ingest *ingest;
    struct health_view view;
    struct ingest_load load;
    uint64_t failed;

    fill(f, 100000);
    snprintf(a.from, sizeof(a.from), "%s/kvrail.db", f->folder);
    snprintf(a.to, sizeof(a.to), "%s/elsewhere", f->folder);
    assert_int_equal(ingest_start(&options, &ingest, NULL), KVR_OK);
    a.move = true;
    assert_int_equal(send_one(ingest, &a, 1), KVR_OK);
    usleep(200000);
    health_look(options.health, &view);
    failed = view.failed;
    sleep(1);
    health_look(options.health, &view);
    failed = view.failed - failed;
    load = ingest_load(ingest);
    assert_true(load.journal_bytes > 0);
    assert_true(load.open_since == 0);
    assert_true(load.oldest_since != 0 && kvr_clock_now() - load.oldest_since > KVR_S);
    assert_int_equal(rename(a.to, a.from), 0);
    ingest_stop(ingest);
    ingest_close(ingest);
    health_close(options.health);
    assert_true(failed < 20);
}

/* Rows past their retention would make room. */
static void old_rows_make_room_for_what_is_owed(void **state)
{
    struct fixture *f = *state;
    struct answers a = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct ingest_options options = {.store = f->store,
                                     .fleet = f->fleet,
                                     .metrics = f->metrics,
                                     .health = health_open("kvrail.db"),
                                     .retention = 3600 * KVR_S};
    struct ingest *ingest;
    kvr_status status = KVR_OK;
    uint64_t i = 0;
    char sql[64];

    fill(f, 2000);
    snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %lld",
             (long long)store_number(f, "SELECT page_count FROM pragma_page_count"));
    store_execute(f, sql);
    assert_int_equal(ingest_start(&options, &ingest, NULL), KVR_OK);
    while (status == KVR_OK && i < 3000)
        status = send_one(ingest, &a, ++i);
    for (int second = 0; second < 13 && status != KVR_OK; second++) {
        sleep(1);
        status = send_one(ingest, &a, i);
    }
    ingest_stop(ingest);
    ingest_close(ingest);
    health_close(options.health);
    assert_int_equal(status, KVR_OK);
}

/* One reader waits in vain; those behind it, in the same thread, need not. */
static void a_stalled_writer_delays_readers_once(void **state)
{
    struct fixture *f = *state;
    struct answers a = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct ingest_options options = {.store = f->store,
                                     .fleet = f->fleet,
                                     .metrics = f->metrics,
                                     .health = health_open("kvrail.db"),
                                     .retention = KVR_NEVER};
    struct ingest *ingest;
    kvr_ns took;

    assert_int_equal(ingest_start(&options, &ingest, NULL), KVR_OK);
    a.stall_us = 3000000;
    assert_int_equal(send_one(ingest, &a, 1), KVR_OK);
    took = kvr_clock_now();
    for (int i = 0; i < 8; i++)
        ingest_settle(ingest, 200 * KVR_MS);
    took = kvr_clock_now() - took;
    ingest_stop(ingest);
    ingest_close(ingest);
    health_close(options.health);
    assert_true(took < 600 * KVR_MS);
}

/* ---- a read that fails amid an open transaction ---- */

static bool broken;
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pread64)(int, void *, size_t, off_t);

static ssize_t broken_pread(int fd, void *to, size_t count, off_t offset)
{
    if (broken) {
        errno = ENOMEM; /* EIO would be SQLITE_CORRUPT, which leaves the transaction */
        return -1;
    }
    return real_pread(fd, to, count, offset);
}

static ssize_t broken_pread64(int fd, void *to, size_t count, off_t offset)
{
    if (broken) {
        errno = ENOMEM; /* EIO would be SQLITE_CORRUPT, which leaves the transaction */
        return -1;
    }
    return real_pread64(fd, to, count, offset);
}

static kvr_status take_one(struct writer *writer, const struct kvr_report *report)
{
    struct waiting waiting = {0};
    struct kvr_error error = {0};
    uint8_t *body;
    kvr_status status;

    assert_int_equal(kvr_report_encode(report, &body, &waiting.body.count), KVR_OK);
    waiting.body.bytes = body;
    assert_int_equal(kvr_report_decode(body, waiting.body.count, &waiting.report, NULL), KVR_OK);
    status = writer_take(writer, &waiting, 1, &error);
    if (status == KVR_OK)
        status = waiting.status;
    kvr_report_free(waiting.report);
    free(body);
    return status;
}

static kvr_status try_event(struct writer *writer, const char *agent, uint64_t i)
{
    struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, i, 5);
    struct kvr_report report = report_of(agent, i, &event, 1);

    return take_one(writer, &report);
}

static void one_event(struct writer *writer, const char *agent, uint64_t i)
{
    assert_int_equal(try_event(writer, agent, i), KVR_OK);
}

static void a_read_that_fails_loses_nothing(void **state)
{
    struct fixture *f = *state;
    const struct writer_options options = {.store = f->store,
                                           .fleet = f->fleet,
                                           .metrics = f->metrics,
                                           .health = health_open("kvrail.db")};
    sqlite3 *database = store_sqlite_database(f->store);
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    static struct kvr_agent_facts facts;
    struct kvr_report with_facts = report_of("prefill-0", 0, NULL, 0);
    struct kvr_order orders[KVR_ORDERS_MAX];
    struct writer *writer;
    uint32_t count = 0;

    real_pread = (ssize_t(*)(int, void *, size_t, off_t))vfs->xGetSystemCall(vfs, "pread");
    real_pread64 = (ssize_t(*)(int, void *, size_t, off_t))vfs->xGetSystemCall(vfs, "pread64");
    fill(f, 2000);
    assert_int_equal(writer_open(&options, &writer, NULL), KVR_OK);
    facts.rail_count = 1;
    strcpy(facts.rails[0].name, "mlx5_0");
    with_facts.facts = &facts;
    assert_int_equal(take_one(writer, &with_facts), KVR_OK);
    facts.rails[0].bytes = 4000;
    assert_int_equal(take_one(writer, &with_facts), KVR_OK); /* acknowledged, not committed */
    one_event(writer, "decode-1", 1);

    vfs->xSetSystemCall(vfs, "pread", (sqlite3_syscall_ptr)broken_pread);
    vfs->xSetSystemCall(vfs, "pread64", (sqlite3_syscall_ptr)broken_pread64);
    sqlite3_db_release_memory(database);
    broken = true; /* as ingest.c asks for orders, and does not mind when that fails */
    (void)!store_list_orders(f->store, "decode-1", 7, orders, &count);
    broken = false;
    vfs->xSetSystemCall(vfs, "pread", NULL);
    vfs->xSetSystemCall(vfs, "pread64", NULL);
    if (try_event(writer, "decode-2", 2) != KVR_OK) /* refused is right: it comes again */
        one_event(writer, "decode-2", 2);
    (void)writer_commit(writer);
    assert_true(writer_commit(writer));
    assert_int_equal(store_number(f, "SELECT count(*) FROM transfers WHERE id < 1000000"), 2);
    assert_int_equal(store_number(f, "SELECT count(*) FROM positions WHERE agent LIKE 'decode-%'"),
                     2);
    assert_int_equal(store_number(f, "SELECT bytes FROM rails"), 4000);
    writer_close(writer);
    health_close(options.health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_read_that_fails_loses_nothing),
        WITH_STORE(a_stalled_writer_delays_readers_once),
        WITH_STORE(a_writer_that_owes_does_not_spin),
        WITH_STORE(old_rows_make_room_for_what_is_owed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
