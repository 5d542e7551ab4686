/* Goal: the cost of a query of the page or an operator depends on the size of its answer, not of
 * the database.
 * Method: SQLite's plan for each such statement: it must use the index made for it, and never walk
 * through a table row by row. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/plain_name.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

/* SQLite's explanation of a plan, one line for each step. */
static void plan_of(struct fixture *fixture, const char *sql, char *text, size_t capacity)
{
    sqlite3_stmt *statement;
    char explained[4096];
    size_t used = 0;

    snprintf(explained, sizeof(explained), "EXPLAIN QUERY PLAN %s", sql);
    assert_int_equal(
        sqlite3_prepare_v2(store_sqlite_database(fixture->store), explained, -1, &statement, NULL),
        SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW)
        used += (size_t)snprintf(text + used, capacity - used, "%s\n",
                                 (const char *)sqlite3_column_text(statement, 3));
    sqlite3_finalize(statement);
    assert_true(used > 0 && used < capacity);
}

static const char *const sqls[] = {STORE_STATEMENT_LIST(KVR_NAME)};

static void statements_go_over_their_indexes(void **state)
{
    static const struct {
        store_sql sql;
        const char *index;
    } expected[] = {
        {SQL_LIST_LIVE, "USING INDEX transfers_live"},
        {SQL_LIVE_OF_AGENT, "USING INDEX transfers_live"},
        {SQL_LIST_STATE, "USING INDEX transfers_by_state"},
        {SQL_LIST_ALL_OF, "USING INDEX transfers_by_tenant "},
        {SQL_LIST_LIVE_OF, "USING INDEX transfers_live"},
        {SQL_LIST_STATE_OF, "USING INDEX transfers_by_tenant_state"},
        {SQL_LIST_REQUEST_OF, "USING INDEX transfers_by_request"},
        {SQL_COUNT_STATES, "USING COVERING INDEX transfers_by_state"},
        {SQL_LIST_REQUEST, "USING COVERING INDEX transfers_by_request"},
        {SQL_OF_REQUEST, "USING INDEX transfers_by_request"},
        {SQL_GROUP_REASONS, "USING COVERING INDEX transfers_not_done (updated_ns>?)"},
        {SQL_FIND_LIVE, "USING INDEX transfers_live"},
        {SQL_FIND_TIME, "USING COVERING INDEX transfers_ended (live=? AND updated_ns>?"},
        {SQL_FIND_AGENT, "USING COVERING INDEX ended_by_source (live=? AND source_agent=?"},
        {SQL_FIND_AGENT, "USING COVERING INDEX ended_by_target (live=? AND target_agent=?"},
        {SQL_FIND_ENGINE, "USING COVERING INDEX ended_by_source_engine (live=? AND source_e"},
        {SQL_FIND_ENGINE, "USING COVERING INDEX ended_by_target_engine (live=? AND target_e"},
        {SQL_FIND_REASON, "USING COVERING INDEX ended_by_reason (live=? AND reason=?"},
        {SQL_FIND_PATH, "USING INDEX ended_by_path (live=? AND <expr>=? AND updated_ns>?"},
        {SQL_FIND_SLOW, "USING INDEX ended_by_digits (live=? AND <expr>=? AND updated_ns>?"},
        {SQL_ERROR_FIRST, "USING INDEX ended_by_reason (live=? AND reason=? AND updated_ns>?"},
        {SQL_ERROR_LAST, "USING INDEX ended_by_reason (live=? AND reason=? AND updated_ns>?"},
        {SQL_ERROR_COUNT, "USING COVERING INDEX ended_by_reason (live=? AND reason=? AND upd"},
        {SQL_FIND_REQUEST, "USING INDEX transfers_by_request"},
        {SQL_LAST_TIME, "USING COVERING INDEX transfers_ended"},
        {SQL_LAST_AGENT, "USING COVERING INDEX ended_by_source"},
        {SQL_LAST_ENGINE, "USING COVERING INDEX ended_by_source_engine"},
        {SQL_LAST_REASON, "USING COVERING INDEX ended_by_reason"},
        {SQL_LAST_PATH, "USING INDEX ended_by_path (live=? AND <expr>=?"},
        {SQL_LAST_SLOW, "USING INDEX ended_by_digits (live=? AND <expr>=?"},
        {SQL_GET_EVENTS, "USING INTEGER PRIMARY KEY"},
        {SQL_CHAINS, "USING INDEX transfers_by_request"},
        {SQL_LIST_ORDERS, "USING INDEX orders_by_agent"},
        {SQL_LIST_MARKS, "USING INDEX marks_by_time (at_ns>? AND at_ns<?)"},
        {SQL_PRUNE_MARKS, "USING COVERING INDEX marks_by_time (at_ns<?)"},
        {SQL_LIST_FAULTS, "USING INDEX faults_by_time (from_ns<?)"},
        {SQL_ADD_FAULT, "USING INDEX faults_of_agent (agent=? AND kind=? AND rail=? AND peer=?"},
        {SQL_REOPEN_FAULT, "USING INDEX faults_of_agent (agent=? AND kind=? AND rail=? AND peer=?"},
        {SQL_END_FAULTS, "USING INDEX faults_open (agent=?)"},
        {SQL_END_FAULTS_GONE, "USING INDEX faults_open (agent>?)"},
        {SQL_PRUNE_FAULTS, "USING COVERING INDEX faults_by_time (from_ns<?)"},
        {SQL_PRUNE_ENGINES, "USING COVERING INDEX engines_seen_by_last (last_ns<?)"},
        {SQL_BOUND_ENGINES, "USING COVERING INDEX engines_seen_by_last (last_ns<?)"},
        {SQL_BOUND_FAULTS, "USING INTEGER PRIMARY KEY (rowid<?)"},
        {SQL_LIST_ENGINES_SEEN, "USING INTEGER PRIMARY KEY (rowid<?)"},
        {SQL_PRUNE_ENGINES, "USING COVERING INDEX engines_seen_by_last (last_ns<?)"},
        {SQL_GET_ROLLUP, "USING PRIMARY KEY (kind=? AND step=? AND begin=? AND part=?)"},
        {SQL_GET_AMOUNTS, "USING PRIMARY KEY (kind=? AND step=? AND begin=? AND part=?)"},
        {SQL_LIST_ROLLUPS, "USING PRIMARY KEY (kind=? AND step=? AND begin>? AND begin<?)"},
        {SQL_LIST_AMOUNTS, "USING PRIMARY KEY (kind=? AND step=? AND begin>? AND begin<?)"},
        {SQL_FIRST_ROLLUP, "USING PRIMARY KEY (kind=? AND step=? AND begin>?)"},
        {SQL_LAST_ROLLUP, "USING PRIMARY KEY (kind=? AND step=?)"},
        {SQL_PRUNE_ROLLUPS, "USING PRIMARY KEY (kind=? AND step=? AND begin<?)"},
    };
    char plan[2048];

    SQLITE_ALONE();
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        plan_of(*state, sqls[expected[i].sql], plan, sizeof(plan));
        if (strstr(plan, expected[i].index) == NULL)
            fail_msg("%s\nis run as\n%sand not %s", sqls[expected[i].sql], plan, expected[i].index);
    }
}

/* The plan has a step that begins so. */
static bool has_step(const char *plan, const char *step)
{
    for (; plan != NULL; plan = strchr(plan, '\n')) {
        plan += *plan == '\n';
        if (strncmp(plan, step, strlen(step)) == 0)
            return true;
    }
    return false;
}

/* What no statement does with tables that grow with the transfers, except these. */
static void no_statement_walks_or_sorts_a_table(void **state)
{
    static const char *const steps[] = {
        "SCAN transfers", "SCAN events", "SCAN audit",        "SCAN rollups",
        "SCAN marks",     "SCAN faults", "SCAN engines_seen", "USE TEMP B-TREE FOR ORDER BY"};
    static const struct {
        store_sql sql;
        const char *step, *reason;
    } exceptions[] = {
        {SQL_LIVE_OF_AGENT, "SCAN transfers", "an index of live transfers alone"},
        {SQL_COUNT_HELD, "SCAN transfers", "an index of live transfers alone"},
        {SQL_OLDEST_LIVE, "SCAN transfers", "the first row of an index of live transfers"},
        {SQL_PRUNE_AGENTS, "SCAN transfers", "an index of live transfers alone"},
        {SQL_COUNT_STATES, "SCAN transfers", "once, at the start, over an index alone"},
        {SQL_GROUP_REASONS, "USE TEMP B-TREE FOR ORDER BY", "of at most 50 groups"},
        {SQL_LIST_REQUEST, "USE TEMP B-TREE FOR ORDER BY", "of few requests: store_read.c"},
        {SQL_LIST_REQUEST_OF, "USE TEMP B-TREE FOR ORDER BY", "of few requests: store_read.c"},
        {SQL_FIND_REQUEST, "USE TEMP B-TREE FOR ORDER BY", "of few requests: store_search.c"},
        {SQL_OF_REQUEST, "USE TEMP B-TREE FOR ORDER BY", "of the transfers of one request"},
        {SQL_BOUND_ENGINES, "SCAN engines_seen", "as far as its bound, over an index alone"},
    };
    size_t exception_count = sizeof(exceptions) / sizeof(exceptions[0]), met = 0;
    char plan[2048];

    SQLITE_ALONE();
    for (int sql = 0; sql < SQL_END; sql++) {
        if (strstr(sqls[sql], "VALUES") != NULL)
            continue; /* reads nothing */
        plan_of(*state, sqls[sql], plan, sizeof(plan));
        for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
            bool expected = false;

            for (size_t e = 0; e < exception_count; e++)
                expected |= exceptions[e].sql == (store_sql)sql &&
                            strcmp(exceptions[e].step, steps[s]) == 0;
            if (has_step(plan, steps[s]) != expected)
                fail_msg("%s\nis run as\n%s%s \"%s\"", sqls[sql], plan,
                         expected ? "without" : "with", steps[s]);
            met += expected;
        }
    }
    assert_int_equal(met, exception_count);
}

/* The newest requests with this start of the id, page by page, and no others. */
static void requests_are_paged_from_new_to_old(void **state)
{
    static const char *const requests[] = {"chat-1", "batch-1", "chat-2", "chat", "chas", "chat-1"};
    struct transfer_filter filter = {.kind = FILTER_REQUEST, .request = "chat", .limit = 3};
    struct fixture *fixture = *state;
    uint64_t acknowledged;

    for (uint64_t id = 1; id <= 6; id++) {
        struct kvr_event event = event_of(KVR_EVENT_ENDED, KVR_ROLE_TARGET, id, id);
        struct kvr_report report = report_of("decode-0", id, &event, 1);

        strcpy(event.request, requests[id - 1]);
        assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    }
    store_lists(fixture, &filter, 3);
    filter.before = get_transfer(fixture, 3).ordinal; /* behind it are 1 and 2: one fits */
    store_lists(fixture, &filter, 1);
}

/* Of one tenant alone, with each other choice; and an agent that names none knows only the default.
 */
static void a_tenants_transfers_are_listed_alone(void **state)
{
    static const char *const tenants[] = {"red", "blue", "red", "", "blue", "red"};
    struct transfer_filter filter = {.tenant = "red", .limit = 2};
    struct fixture *fixture = *state;
    uint64_t acknowledged;

    for (uint64_t id = 1; id <= 6; id++) {
        struct kvr_event event =
            event_of(id < 3 ? KVR_EVENT_MATCHED : KVR_EVENT_ENDED, KVR_ROLE_TARGET, id, id);
        struct kvr_report report = report_of("decode-0", id, &event, 1);

        strcpy(event.tenant, tenants[id - 1]);
        assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    }
    store_lists(fixture, &filter, 2);
    filter.before = get_transfer(fixture, 3).ordinal; /* behind it are 1 and 2: one is red's */
    store_lists(fixture, &filter, 1);
    filter = (struct transfer_filter){.tenant = "red", .kind = FILTER_LIVE, .limit = 9};
    store_lists(fixture, &filter, 1);
    filter.kind = FILTER_STATE;
    filter.state = STATE_DONE;
    store_lists(fixture, &filter, 2);
    filter.kind = FILTER_REQUEST;
    filter.request = "request-";
    store_lists(fixture, &filter, 3);
    filter.request = "r-";
    store_lists(fixture, &filter, 0);
    filter = (struct transfer_filter){.tenant = KVR_TENANT_DEFAULT, .limit = 9};
    store_lists(fixture, &filter, 1);
}

#define MANY 24000

static int count_steps(void *self)
{
    ++*(uint64_t *)self;
    return 0;
}

/* Of ids that all begin alike, one page costs the page, of any tenant, and a count up to a bound.
 */
static void a_common_beginning_costs_no_more(void **state)
{
    static const char *const tenants[] = {NULL, "rare"};
    struct fixture *fixture = *state;
    struct transfer transfer = {.state = STATE_DONE, .updated_ns = WALL};

    SQLITE_ALONE();
    assert_true(store_begin(fixture->store));
    for (uint64_t id = 1; id <= MANY; id++) {
        transfer.id = id;
        transfer.ordinal = 0;
        snprintf(transfer.request, sizeof(transfer.request), "chat-%llu",
                 (unsigned long long)(id * 7919 % MANY));
        strcpy(transfer.tenant, id % 1000 == 0 ? "rare" : "default");
        assert_true(store_put_transfer(fixture->store, &transfer));
    }
    assert_true(store_commit(fixture->store));
    for (size_t i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++) {
        struct transfer_filter filter = {
            .kind = FILTER_REQUEST, .request = "chat-", .tenant = tenants[i], .limit = 50};
        uint64_t thousands = 0;

        sqlite3_progress_handler(store_sqlite_database(fixture->store), 1000, count_steps,
                                 &thousands);
        store_lists(fixture, &filter, tenants[i] == NULL ? 50 : MANY / 1000);
        filter.before = MANY / 2 + 1; /* half of them */
        store_lists(fixture, &filter, tenants[i] == NULL ? 50 : MANY / 2000);
        sqlite3_progress_handler(store_sqlite_database(fixture->store), 0, NULL, NULL);
        if (thousands > 400)
            fail_msg("two pages of %s took %llu,000 steps of SQLite",
                     tenants[i] != NULL ? tenants[i] : "any tenant", (unsigned long long)thousands);
    }
}

/* Of ids that begin in as many ways as there are transfers, a page of one beginning does not pass
 * all others. */
static void a_rare_beginning_costs_its_matches(void **state)
{
    static const char *const tenants[] = {NULL, "default"};
    struct fixture *fixture = *state;
    struct transfer transfer = {.state = STATE_DONE, .updated_ns = WALL, .tenant = "default"};

    SQLITE_ALONE();
    assert_true(store_begin(fixture->store));
    for (uint64_t id = 1; id <= 3 * MANY; id++) {
        transfer.id = id;
        transfer.ordinal = 0;
        snprintf(transfer.request, sizeof(transfer.request), "%s-%llu", id <= 4000 ? "old" : "new",
                 (unsigned long long)id);
        assert_true(store_put_transfer(fixture->store, &transfer));
    }
    assert_true(store_commit(fixture->store));
    for (size_t i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++) {
        struct transfer_filter filter = {
            .kind = FILTER_REQUEST, .request = "old-", .tenant = tenants[i], .limit = 50};
        uint64_t thousands = 0;

        sqlite3_progress_handler(store_sqlite_database(fixture->store), 1000, count_steps,
                                 &thousands);
        store_lists(fixture, &filter, 50);
        sqlite3_progress_handler(store_sqlite_database(fixture->store), 0, NULL, NULL);
        if (thousands > 150)
            fail_msg("a page of %s took %llu,000 steps of SQLite",
                     tenants[i] != NULL ? tenants[i] : "any tenant", (unsigned long long)thousands);
    }
}

/* A column that a later migration adds must not be forgotten where a row changes. */
static void a_changed_row_has_all_its_columns(void **state)
{
    static const char *const kept[] = {"ordinal", "id", "request", "tenant"};
    struct fixture *fixture = *state;
    sqlite3_stmt *statement;
    int columns = 0;

    SQLITE_ALONE();
    assert_int_equal(sqlite3_prepare_v2(store_sqlite_database(fixture->store),
                                        "PRAGMA table_info(transfers)", -1, &statement, NULL),
                     SQLITE_OK);
    for (; sqlite3_step(statement) == SQLITE_ROW; columns++) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        bool changes = true;
        char part[64];

        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
            changes &= strcmp(name, kept[i]) != 0;
        snprintf(part, sizeof(part), " %s=?%d%s", name, columns + 1, changes ? "" : ",");
        if ((strstr(sqls[SQL_UPDATE_TRANSFER], part) != NULL) != changes)
            fail_msg("%s is %s by a change", name, changes ? "left out" : "written");
    }
    sqlite3_finalize(statement);
    assert_true(columns > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(statements_go_over_their_indexes),
        WITH_STORE(no_statement_walks_or_sorts_a_table),
        WITH_STORE(requests_are_paged_from_new_to_old),
        WITH_STORE(a_tenants_transfers_are_listed_alone),
        WITH_STORE(a_common_beginning_costs_no_more),
        WITH_STORE(a_rare_beginning_costs_its_matches),
        WITH_STORE(a_changed_row_has_all_its_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
