#include "tests/support/store_case.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/embedded.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/check.h"

/* Where the tests run once more, with PostgreSQL: tests/support/postgres.sh. */
static const char *postgres_url(void)
{
    return getenv("KVRAIL_TEST_POSTGRES");
}

bool store_is_postgres(void)
{
    return postgres_url() != NULL;
}

/* Over a connection of the test's own. Returns the first number of the last answer, or 0. */
static int64_t ask_postgres(const char *sql)
{
    PGconn *connection = PQconnectdb(postgres_url());
    PGresult *result;
    int64_t number = 0;

    PQclear(PQexec(connection, "SET client_min_messages = warning; SET search_path = kvrail"));
    result = PQexec(connection, sql);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    else if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
    return number;
}

static int64_t ask_sqlite(sqlite3 *database, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t number = 0;

    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    if (sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    return number;
}

int64_t store_number(struct fixture *fixture, const char *sql)
{
    return store_is_postgres() ? ask_postgres(sql)
                               : ask_sqlite(store_sqlite_database(fixture->store), sql);
}

void store_execute(struct fixture *fixture, const char *sql)
{
    sqlite3 *database = store_is_postgres() ? NULL : store_sqlite_database(fixture->store);

    if (store_is_postgres())
        (void)ask_postgres(sql);
    else if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
}

int store_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    folder_make(fixture->folder);
    fixture->place = (struct store_place){
        .folder = fixture->folder, .url = postgres_url(), .retention = KVR_NEVER};
    if (store_is_postgres())
        (void)ask_postgres("DROP SCHEMA IF EXISTS kvrail CASCADE");
    assert_int_equal(store_open_writer(&fixture->place, &fixture->store, NULL), KVR_OK);
    fixture->fleet = fleet_open();
    fixture->metrics = metrics_open();
    fixture->apply = apply_open(fixture->store, fixture->fleet);
    *state = fixture;
    return 0;
}

int store_teardown(void **state)
{
    struct fixture *fixture = *state;

    apply_close(fixture->apply);
    store_close(fixture->store);
    fleet_close(fixture->fleet);
    metrics_close(fixture->metrics);
    folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

struct kvr_event event_of(kvr_event_kind kind, kvr_role role, uint64_t transfer, kvr_ns at)
{
    struct kvr_event event = {.kind = kind,
                              .role = role,
                              .at = at,
                              .transfer = transfer,
                              .request = "request-1",
                              .attempt = 1,
                              .tokens = 100};

    strcpy(event.peer, role == KVR_ROLE_SOURCE ? "decode-0" : "prefill-0");
    if (kind == KVR_EVENT_ENDED)
        event.bytes = 4096;
    return event;
}

struct kvr_report report_of(const char *agent, uint64_t first, const struct kvr_event *events,
                            uint32_t count)
{
    struct kvr_report report = {.boot = 7,
                                .sequence_first = first,
                                .sequence_held = first,
                                .anchor_wall = (kvr_ns)WALL,
                                .events = events,
                                .event_count = count};

    strcpy(report.agent, agent);
    return report;
}

kvr_status apply_at(struct fixture *fixture, const struct kvr_report *report, int64_t now_ns,
                    uint64_t *ret_acknowledged)
{
    struct kvr_error error;
    kvr_status status;

    assert_true(apply_begin(fixture->apply));
    assert_true(apply_expect(fixture->apply, &report, 1));
    status = apply_report(fixture->apply, report, now_ns, ret_acknowledged, &error);
    if (status == KVR_OK)
        status = apply_flush(fixture->apply, now_ns, &error);
    if (status == KVR_OK) {
        if (!store_commit(fixture->store))
            fail_msg("%s", store_problem(fixture->store));
        apply_count(fixture->apply, fixture->metrics, NULL, now_ns);
        (void)fleet_update(fixture->fleet, report, kvr_clock_now(), now_ns);
    } else {
        if (status == KVR_SYSTEM)
            print_message("%s\n", error.detail);
        store_rollback(fixture->store);
    }
    apply_reset(fixture->apply);
    return status;
}

kvr_status apply_one(struct fixture *fixture, const struct kvr_report *report,
                     uint64_t *ret_acknowledged)
{
    return apply_at(fixture, report, WALL, ret_acknowledged);
}

json_t *store_ask(struct fixture *fixture, const char *path, const struct api_query *query,
                  unsigned status)
{
    struct health *health = health_open("kvrail.db");
    struct api *api = api_open(fixture->store, fixture->metrics, health);
    struct api_answer answer = {0};
    json_t *json;

    api_get(api, path, query, &answer);
    assert_int_equal(answer.status, status);
    json = json_loads(answer.body, 0, NULL);
    assert_non_null(json);
    free(answer.body);
    api_close(api);
    health_close(health);
    return json;
}

struct transfer get_transfer(struct fixture *fixture, uint64_t id)
{
    struct transfer transfer = {0};
    bool found;

    assert_true(store_get_transfer(fixture->store, id, &transfer, &found));
    assert_true(found);
    return transfer;
}

void store_count_one(void *self, const struct transfer *transfer)
{
    (void)transfer;
    ++*(int *)self;
}

int store_count_transfers(struct fixture *fixture)
{
    struct transfer_filter filter = {.limit = 500};
    int count = 0;

    assert_true(store_list_transfers(fixture->store, &filter, store_count_one, &count));
    return count;
}

void store_lists(const struct fixture *fixture, const struct transfer_filter *filter, int wanted)
{
    int count = 0;

    if (!store_list_transfers(fixture->store, filter, store_count_one, &count))
        fail_msg("%s", store_problem(fixture->store));
    assert_int_equal(count, wanted);
}
