/* A scheduler's database in a fresh folder, what is made from it, and reports applied to it as the
 * writer does. */
#ifndef KVR_TESTS_STORE_CASE_H
#define KVR_TESTS_STORE_CASE_H

#include "scheduler/api.h"
#include "scheduler/apply.h"
#include "scheduler/ingest.h"
#include "tests/support/folder.h"

#define WALL ((int64_t)1700000000000000000)

struct fixture {
    char folder[FOLDER_BYTES];
    struct store_place place;
    struct store *store;
    struct fleet *fleet;
    struct metrics *metrics;
    struct apply *apply;
};

/* The tests run with PostgreSQL, and not with SQLite. */
bool store_is_postgres(void);
/* It looks into SQLite, or into what only SQLite does. */
#define SQLITE_ALONE()                                                                             \
    do {                                                                                           \
        if (store_is_postgres())                                                                   \
            skip();                                                                                \
    } while (0)

/* cmocka's fixtures; the state is a struct fixture. */
int store_setup(void **state);
int store_teardown(void **state);
#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, store_setup, store_teardown)

/* An event of attempt 1 of request-1, with the peer "decode-0" or "prefill-0". */
struct kvr_event event_of(kvr_event_kind kind, kvr_role role, uint64_t transfer, kvr_ns at);
/* Of boot 7 of that agent. */
struct kvr_report report_of(const char *agent, uint64_t first, const struct kvr_event *events,
                            uint32_t count);
/* One transaction; nothing of it stays when it is refused. */
kvr_status apply_one(struct fixture *fixture, const struct kvr_report *report,
                     uint64_t *ret_acknowledged);
/* The same at that time, instead of WALL. */
kvr_status apply_at(struct fixture *fixture, const struct kvr_report *report, int64_t now_ns,
                    uint64_t *ret_acknowledged);
struct transfer get_transfer(struct fixture *fixture, uint64_t id); /* that must be there */
/* Of store_list_transfers: counts in an int. */
void store_count_one(void *self, const struct transfer *transfer);
int store_count_transfers(struct fixture *fixture);

/* The API's answer, the caller's; the status must be that one. */
json_t *store_ask(struct fixture *fixture, const char *path, const struct api_query *query,
                  unsigned status);

/* SQL of the test's own, for either kind of database. */
void store_execute(struct fixture *fixture, const char *sql);
int64_t store_number(struct fixture *fixture, const char *sql);

/* The store lists so many of what the filter asks for. */
void store_lists(const struct fixture *fixture, const struct transfer_filter *filter, int wanted);

#endif
