/* Goal: several schedulers write to one database of PostgreSQL, connections break, and no event is
 * lost or counted twice.
 * Method: a real server (tests/support/postgres.sh), stores on it that take turns, and SQLite's
 * result of the same reports to compare with. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "scheduler/store_listen.h"
#include "scheduler/store_postgres.h"
#include "tests/support/store_case.h"

/* Another scheduler, of the same database or of another one. */
static void open_other(const struct fixture *fixture, struct fixture *other)
{
    *other = (struct fixture){.place = fixture->place};
    assert_int_equal(store_open_writer(&other->place, &other->store, NULL), KVR_OK);
    other->fleet = fleet_open();
    other->metrics = metrics_open();
    other->apply = apply_open(other->store, other->fleet);
}

static void close_other(struct fixture *other)
{
    apply_close(other->apply);
    store_close(other->store);
    fleet_close(other->fleet);
    metrics_close(other->metrics);
}

/* ---- several schedulers ---- */

#define AGENTS    2
#define TRANSFERS 40

/* The events of each agent, in their order: opened, matched and ended for each transfer. */
static struct kvr_report next_report(struct kvr_rng *rng, uint32_t agent, uint64_t *made,
                                     struct kvr_event events[8])
{
    static const kvr_event_kind kinds[] = {KVR_EVENT_MATCHED, KVR_EVENT_FIRST_POST,
                                           KVR_EVENT_LAST_POST, KVR_EVENT_ENDED};
    static const char *const names[AGENTS] = {"prefill-0", "decode-0"};
    uint64_t first = *made + 1;
    uint32_t count = 0, most = 1 + (uint32_t)kvr_rng_below(rng, 8);

    for (; count < most && *made < TRANSFERS * 4; count++, ++*made)
        events[count] = event_of(kinds[*made % 4], agent == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET,
                                 1 + *made / 4, *made + 1);
    return report_of(names[agent], first, events, count);
}

static void keep_line(void *self, const struct transfer *transfer)
{
    char *text = self;
    size_t used = strlen(text);

    snprintf(text + used, 8192 - used, "%" PRIu64 " %s %" PRIu64 " %" PRId64 " %" PRId64 "\n",
             transfer->id, transfer_state_name(transfer->state), transfer->bytes,
             transfer->sides[KVR_ROLE_SOURCE].at_ns[STAGE_ENDED],
             transfer->sides[KVR_ROLE_TARGET].at_ns[STAGE_ENDED]);
}

static void list_all(struct store *store, char text[8192])
{
    const struct transfer_filter filter = {.limit = 500};

    text[0] = '\0';
    assert_true(store_list_transfers(store, &filter, keep_line, text));
}

/* Each report goes to any of them, some twice. The order of the reports is the same in both. */
static void run(uint64_t seed, struct fixture *const schedulers[], uint32_t count)
{
    struct kvr_rng order, choice;
    uint64_t made[AGENTS] = {0}, acknowledged;

    kvr_rng_init(&order, seed);
    kvr_rng_init(&choice, seed + 1);
    while (made[0] < TRANSFERS * 4 || made[1] < TRANSFERS * 4) {
        uint32_t agent = (uint32_t)kvr_rng_below(&order, AGENTS);
        struct kvr_event events[8];
        struct kvr_report report = next_report(&order, agent, &made[agent], events);

        do
            assert_int_equal(
                apply_one(schedulers[kvr_rng_below(&choice, count)], &report, &acknowledged),
                KVR_OK);
        while (kvr_rng_below(&choice, 5) == 0);
    }
}

static void schedulers_write_what_one_would(void **state)
{
    struct fixture other, *both[] = {*state, &other}, alone = {0};
    char shared[8192], wanted[8192], folder[FOLDER_BYTES];

    folder_make(folder);
    alone.place.folder = folder;
    open_other(&alone, &alone);
    open_other(*state, &other);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run(seed, both, 2);
        if (seed > 1)
            continue; /* all events came before */
        run(seed, (struct fixture *[]){&alone}, 1);
    }
    list_all(both[0]->store, shared);
    list_all(alone.store, wanted);
    assert_string_equal(shared, wanted);
    assert_int_equal(store_number(*state, "SELECT count(*) FROM positions"), AGENTS);
    close_other(&other);
    close_other(&alone);
    folder_remove(folder);
}

/* Both bring an empty database to this version at the same time. */
static void schedulers_start_together(void **state)
{
    struct fixture *fixture = *state;
    pid_t children[4];

    store_close(fixture->store);
    fixture->store = NULL;
    apply_close(fixture->apply);
    fixture->apply = NULL;
    store_execute(fixture, "DROP SCHEMA kvrail CASCADE");
    for (size_t i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct store *store;

            _exit(store_open_writer(&fixture->place, &store, NULL) == KVR_OK ? 0 : 1);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        int status;

        assert_true(waitpid(children[i], &status, 0) == children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM version"), 1);
}

/* ---- what breaks ---- */

static struct kvr_report one_event(uint64_t sequence, struct kvr_event *event)
{
    *event = event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, sequence, sequence);
    return report_of("decode-0", sequence, event, 1);
}

/* The server ends the connection within a transaction; the next one is over a new connection. */
static void a_cut_transaction_is_not_there(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_error error;
    struct kvr_event event;
    struct kvr_report report = one_event(1, &event);
    uint64_t acknowledged;

    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_report(fixture->apply, &report, WALL, &acknowledged, &error), KVR_OK);
    store_execute(fixture, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                           "WHERE application_name = 'kvrail-scheduler'");
    assert_true(apply_flush(fixture->apply, WALL, &error) != KVR_OK ||
                !store_commit(fixture->store));
    assert_int_equal(store_trouble(fixture->store), HEALTH_GONE);
    store_rollback(fixture->store);
    apply_reset(fixture->apply);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM transfers"), 0);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(acknowledged, 1);
    assert_int_equal(store_count_transfers(fixture), 1);
}

/* A scheduler that is stopped within a transaction holds the others up for some seconds. */
static void a_stopped_scheduler_lets_the_others_go_on(void **state)
{
    struct fixture *fixture = *state, other;
    struct kvr_event event;
    struct kvr_report report = one_event(1, &event);
    uint64_t acknowledged;
    bool begun;

    open_other(fixture, &other);
    assert_true(store_begin(other.store));
    begun = store_begin(fixture->store); /* 3 s later */
    assert_true(begun);
    store_rollback(fixture->store);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_false(store_set_position(other.store, "decode-0", 7, 99, WALL) &&
                 store_commit(other.store));
    store_rollback(other.store);
    assert_int_equal(store_number(fixture, "SELECT sequence FROM positions"), 1);
    close_other(&other);
}

/* A statement that fails takes the transaction with it, and the next one is as good as any. */
static void a_failed_statement_fails_the_commit(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event event;
    struct kvr_report report = one_event(1, &event);
    uint64_t acknowledged;

    store_execute(fixture, "ALTER TABLE positions ADD CHECK (sequence <> 5)");
    assert_true(store_begin(fixture->store));
    (void)store_set_position(fixture->store, "decode-0", 7, 5, WALL);
    (void)store_set_position(fixture->store, "decode-1", 7, 6, WALL);
    assert_false(store_commit(fixture->store));
    assert_non_null(strstr(store_problem(fixture->store), "positions"));
    assert_int_equal(store_trouble(fixture->store), HEALTH_COMMITS);
    store_rollback(fixture->store);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM positions"), 0);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM positions"), 1);
}

/* Processes of the server, by pg_stat_activity; not those of this test's own connection. */
static void signal_servers(struct fixture *fixture, int number)
{
    static pid_t stopped[16];
    static int count;

    if (number == SIGSTOP)
        for (count = 0; count < 16; count++) {
            char sql[256];

            snprintf(sql, sizeof(sql),
                     "SELECT coalesce((SELECT pid FROM pg_stat_activity WHERE application_name = "
                     "'kvrail-scheduler' ORDER BY pid OFFSET %d LIMIT 1), 0)::BIGINT",
                     count);
            stopped[count] = (pid_t)store_number(fixture, sql);
            if (stopped[count] == 0)
                break;
        }
    for (int i = 0; i < count; i++)
        assert_int_equal(kill(stopped[i], number), 0);
}

/* It takes what is sent, and does not answer: its disk hangs, or its processes are stopped. */
static void a_silent_server_is_given_up(void **state)
{
    struct fixture *fixture = *state;
    kvr_ns begin = kvr_clock_now();
    struct kvr_event event;
    struct kvr_report report = one_event(1, &event);
    uint64_t acknowledged;

    signal_servers(fixture, SIGSTOP);
    assert_false(store_begin(fixture->store));
    assert_int_equal(store_trouble(fixture->store), HEALTH_GONE);
    assert_string_equal(store_problem(fixture->store), "the server does not answer");
    store_rollback(fixture->store);
    assert_true(kvr_clock_now() - begin < 30 * KVR_S); /* 8 s, where nothing else runs */
    signal_servers(fixture, SIGCONT);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(store_count_transfers(fixture), 1);
}

/* A reader's query ends soon after its deadline, also without an answer. */
static void a_silent_server_keeps_no_reader(void **state)
{
    struct fixture *fixture = *state;
    kvr_ns begin = kvr_clock_now();
    struct store *reader;
    uint64_t held;

    assert_int_equal(store_open_reader(&fixture->place, &reader, NULL), KVR_OK);
    signal_servers(fixture, SIGSTOP);
    store_set_deadline(reader, kvr_clock_now() + KVR_S / 2);
    assert_false(store_count_held(reader, &held));
    assert_true(kvr_clock_now() - begin < 30 * KVR_S);
    signal_servers(fixture, SIGCONT);
    store_close(reader);
}

/* Statements are prepared once, however many transactions fail: the server keeps each. */
static void failures_leave_no_statements_behind(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event event;
    struct kvr_report report = one_event(1, &event);
    int64_t prepared;
    uint64_t acknowledged;
    PGresult *result;

    store_execute(fixture, "ALTER TABLE positions ADD CHECK (sequence <> 5)");
    for (int i = 0; i < 50; i++) {
        assert_true(store_begin(fixture->store));
        (void)store_drop_orders(fixture->store, 1);
        (void)store_set_position(fixture->store, "decode-0", 7, 5, WALL);
        assert_false(store_commit(fixture->store));
        store_rollback(fixture->store);
    }
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    result = store_postgres_ask(store_postgres(fixture->store),
                                "SELECT count(*) FROM pg_prepared_statements");
    prepared = store_postgres_number(result, 0, 0);
    PQclear(result);
    assert_true(prepared < 50);
}

/* A path of the API may hold bytes that are no UTF-8. The reports of its round are stored. */
static void a_malformed_text_fails_no_round(void **state)
{
    struct fixture *fixture = *state;
    const struct audit_entry entry = {.action = "abandon", .object = "a\xff\xf0\x9f"};

    assert_true(store_begin(fixture->store) && store_add_audit(fixture->store, &entry, WALL));
    if (!store_commit(fixture->store))
        fail_msg("%s", store_problem(fixture->store));
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM audit WHERE object LIKE 'a___'"),
                     1);
}

/* ---- listening ---- */

static void count_heard(void *self)
{
    ++*(_Atomic int *)self;
}

static void await_heard(_Atomic int *heard, int wanted)
{
    for (int i = 0; i < 3000 && *heard < wanted; i++)
        usleep(10000);
    assert_true(*heard >= wanted);
}

static void set_position(struct fixture *fixture, uint64_t sequence)
{
    assert_true(store_begin(fixture->store) &&
                store_set_position(fixture->store, "decode-0", 7, sequence, WALL) &&
                store_commit(fixture->store));
}

/* Each commit of another scheduler, also after the connection was lost; but not its own. */
static void commits_of_others_are_heard(void **state)
{
    struct fixture *fixture = *state, other;
    struct store_listener *listener;
    _Atomic int heard = 0;

    assert_int_equal(
        store_listen(&fixture->place, fixture->store, count_heard, &heard, &listener, NULL),
        KVR_OK);
    await_heard(&heard, 1); /* it listens from now on */
    open_other(fixture, &other);
    set_position(&other, 1); /* both are known now */
    set_position(fixture, 2);
    heard = 0;
    set_position(&other, 3);
    await_heard(&heard, 1);
    heard = 0;
    set_position(fixture, 4);
    set_position(fixture, 5);
    set_position(&other, 6);
    await_heard(&heard, 1);
    assert_int_equal(heard, 1);
    store_execute(fixture, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                           "WHERE query LIKE 'LISTEN%'");
    heard = 0;
    await_heard(&heard, 1);
    heard = 0;
    set_position(&other, 7);
    await_heard(&heard, 1);
    assert_null(store_listen_end(listener));
    close_other(&other);
}

/* ---- periods ---- */

static void put(struct fixture *fixture, uint64_t id, transfer_state state, int64_t updated_ns)
{
    struct transfer transfer = {
        .id = id, .state = state, .request = "chat", .tenant = "default", .updated_ns = updated_ns};

    assert_true(store_begin(fixture->store));
    assert_true(store_put_transfer(fixture->store, &transfer));
    if (!store_commit(fixture->store))
        fail_msg("%s", store_problem(fixture->store));
}

/* Rows go with their partition: once its time is over, nothing in it lives and nothing is young. */
static void a_period_goes_when_all_in_it_is_old(void **state)
{
    const int64_t now = (int64_t)kvr_clock_wall(), later = now + 30 * 86400 * (int64_t)KVR_S;
    struct fixture *fixture = *state;
    uint64_t states[STATE_END] = {0}, removed = 0;

    put(fixture, 1, STATE_DONE, now);
    put(fixture, 2, STATE_OPENED, now);
    assert_true(store_begin(fixture->store) && store_prune(fixture->store, now, states, &removed) &&
                store_commit(fixture->store));
    assert_true(removed == 0); /* the day is not over */
    assert_true(store_begin(fixture->store) &&
                store_prune(fixture->store, later, states, &removed) &&
                store_commit(fixture->store));
    assert_true(removed == 0 && store_count_transfers(fixture) == 2); /* one lives */
    store_execute(fixture, "UPDATE transfers SET live = 0, state = 'lost' WHERE id = 2");
    assert_true(store_begin(fixture->store) &&
                store_prune(fixture->store, later, states, &removed) &&
                store_commit(fixture->store));
    assert_true(removed > 0 && store_count_transfers(fixture) == 0);
    assert_true(states[STATE_DONE] == 1 && states[STATE_LOST] == 1);
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM pg_tables WHERE schemaname = "
                                           "'kvrail' AND tablename LIKE 'transfers\\__%'"),
                     0);
    put(fixture, 3, STATE_DONE, now); /* the period is made again */
    assert_int_equal(store_count_transfers(fixture), 1);
}

/* A dump reads the tables for as long as it lasts. The next period begins meanwhile, and the old
 * one stays a little longer. */
static void a_dump_stops_nobody(void **state)
{
    const int64_t now = (int64_t)kvr_clock_wall(), later = now + 30 * 86400 * (int64_t)KVR_S;
    struct fixture *fixture = *state, dump;
    uint64_t removed = 0;

    put(fixture, 1, STATE_DONE, now);
    open_other(fixture, &dump);
    assert_true(store_postgres_do(store_postgres(dump.store),
                                  "SET idle_in_transaction_session_timeout = 0") &&
                store_postgres_do(store_postgres(dump.store), "BEGIN") &&
                store_postgres_do(store_postgres(dump.store),
                                  "LOCK TABLE transfers, events IN ACCESS SHARE MODE"));
    assert_true(store_begin(fixture->store));
    assert_true(store_prune(fixture->store, later, NULL, &removed));
    assert_true(removed == 0 && store_commit(fixture->store));
    assert_true(store_begin(fixture->store));
    assert_true(store_postgres_cover(store_postgres(fixture->store),
                                     store_postgres(fixture->store)->began_us +
                                         10 * 86400 * INT64_C(1000000)));
    assert_true(store_commit(fixture->store));
    close_other(&dump);
    assert_true(store_begin(fixture->store) && store_prune(fixture->store, later, NULL, &removed) &&
                store_commit(fixture->store));
    assert_true(removed > 0 && store_count_transfers(fixture) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(schedulers_write_what_one_would),
        WITH_STORE(schedulers_start_together),
        WITH_STORE(a_cut_transaction_is_not_there),
        WITH_STORE(a_stopped_scheduler_lets_the_others_go_on),
        WITH_STORE(a_failed_statement_fails_the_commit),
        WITH_STORE(failures_leave_no_statements_behind),
        WITH_STORE(a_malformed_text_fails_no_round),
        WITH_STORE(commits_of_others_are_heard),
        WITH_STORE(a_period_goes_when_all_in_it_is_old),
        WITH_STORE(a_dump_stops_nobody),
        WITH_STORE(a_silent_server_is_given_up),
        WITH_STORE(a_silent_server_keeps_no_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
