/* Goal: SQLite's log has a bound, also while one question begins before another has ended.
 * Method: a writer, and two readers by turns. */
#include "tests/support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

struct reading {
    const struct store_place *place;
    atomic_bool stopping;
    pthread_t thread;
};

/* One question begins before the one before it has ended. */
static void *read_on_and_on(void *self)
{
    struct reading *reading = self;
    struct store *readers[2];
    const struct timespec pause = {.tv_nsec = 60000000};

    for (int i = 0; i < 2; i++)
        if (store_open_reader(reading->place, &readers[i], NULL) != KVR_OK)
            abort();
    for (unsigned turn = 0; !atomic_load(&reading->stopping); turn++) {
        sqlite3_exec(store_sqlite_database(readers[turn % 2]), "BEGIN; SELECT count(*) FROM agents",
                     NULL, NULL, NULL);
        sqlite3_exec(store_sqlite_database(readers[(turn + 1) % 2]), "COMMIT", NULL, NULL, NULL);
        nanosleep(&pause, NULL);
    }
    store_close(readers[0]);
    store_close(readers[1]);
    return NULL;
}

/* Beyond 64 MB it begins anew as soon as the questions of that moment have ended. */
static void the_log_is_bounded_while_questions_read(void **state)
{
    struct fixture *fixture = *state;
    struct reading reading = {.place = &fixture->place};
    sqlite3 *database;
    uint64_t before, bytes = 0;
    bool began_anew = false;

    database = store_sqlite_database(fixture->store);
    assert_int_equal(sqlite3_exec(database, "CREATE TABLE filling (bytes BLOB)", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(pthread_create(&reading.thread, NULL, read_on_and_on, &reading), 0);
    for (int i = 0; i < 200 && !began_anew; i++) {
        before = bytes;
        assert_true(store_begin(fixture->store));
        assert_int_equal(sqlite3_exec(database,
                                      "DELETE FROM filling;"
                                      "INSERT INTO filling VALUES (zeroblob(2000000))",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        assert_true(store_commit(fixture->store));
        bytes = store_size(fixture->store);
        began_anew = bytes == before;
    }
    atomic_store(&reading.stopping, true);
    pthread_join(reading.thread, NULL);
    assert_true(began_anew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(the_log_is_bounded_while_questions_read),
    };

    return cmocka_run_group_tests_name("store_log", tests, NULL, NULL);
}
