/* Goal: an agent that knows several schedulers reports to one of them, changes within the bounds
 * when that one fails, and loses no event.
 * Method: a reporter and two schedulers in this process, with databases of their own, or, where
 * there is a server, one of PostgreSQL; ports that hang. What one database has of the events of a
 * change shows which scheduler got them. */
#include "tests/support/check.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/reporter.h"
#include "scheduler/scheduler.h"
#include "tests/support/folder.h"

#define CLOSE_MS 20000

struct place {
    char folder[FOLDER_BYTES], address[64];
    struct scheduler scheduler;
};

struct fixture {
    struct place a, b;
    char folder[FOLDER_BYTES]; /* the agent's */
};

/* tests/support/postgres.sh: both have that database. */
static const char *postgres_url(void)
{
    return getenv("KVRAIL_TEST_POSTGRES");
}

/* Again on the port that it had before. */
static void start(struct place *place)
{
    struct scheduler_options options = {
        .place.folder = place->folder,
        .place.url = postgres_url(),
        .place.retention = KVR_NEVER,
        .listen = {.host = "127.0.0.1", .port = place->scheduler.port},
        .connections_max = 64,
    };

    place->scheduler = (struct scheduler){0};
    assert_int_equal(scheduler_open(&options, &place->scheduler, NULL), KVR_OK);
    snprintf(place->address, sizeof(place->address), "127.0.0.1:%u", place->scheduler.port);
}

static void stop(struct place *place)
{
    scheduler_close(&place->scheduler);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    folder_make(fixture->folder);
    folder_make(fixture->a.folder);
    folder_make(fixture->b.folder);
    start(&fixture->a);
    start(&fixture->b);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    folder_remove(fixture->folder);
    folder_remove(fixture->a.folder);
    folder_remove(fixture->b.folder);
    free(fixture);
    return 0;
}

static struct kvr_reporter *open_reporter(const struct fixture *fixture, const char *first,
                                          const char *second)
{
    const struct kvr_reporter_options options = {.schedulers = {first, second},
                                                 .agent = "decode-0",
                                                 .boot = 1,
                                                 .state_dir = fixture->folder,
                                                 .memory_bytes_max = 64 << 10,
                                                 .close_ms = CLOSE_MS};
    struct kvr_reporter *reporter = NULL;

    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    return reporter;
}

static struct kvr_reporter *open_both(const struct fixture *fixture)
{
    return open_reporter(fixture, fixture->a.address, fixture->b.address);
}

static void nap(unsigned ms)
{
    const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

/* Each event ends a transfer of its own. */
static void emit(struct kvr_reporter *reporter, uint64_t first, uint64_t last)
{
    struct kvr_event_sink sink = kvr_reporter_sink(reporter);

    for (uint64_t id = first; id <= last; id++) {
        struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                  .role = KVR_ROLE_TARGET,
                                  .at = kvr_clock_now(),
                                  .transfer = id,
                                  .request = "request"};

        sink.emit(sink.self, &event);
    }
}

static struct kvr_reporter_stats stats_of(struct kvr_reporter *reporter)
{
    struct kvr_reporter_stats stats;

    kvr_reporter_stats(reporter, &stats);
    return stats;
}

/* Everything is acknowledged, and nothing is lost. */
static struct kvr_reporter_stats all_taken(struct kvr_reporter *reporter, uint64_t count)
{
    struct kvr_reporter_stats stats = stats_of(reporter);

    for (int i = 0; i < 1200 && stats.acknowledged + stats.dropped < count; i++) {
        nap(50);
        stats = stats_of(reporter);
    }
    assert_int_equal(stats.acknowledged, count);
    assert_int_equal(stats.dropped, 0);
    return stats;
}

static void count_event(void *self, const struct stored_event *event)
{
    (void)event;
    ++*(unsigned *)self;
}

/* How often the event of that transfer is stored there. */
static unsigned copies(const struct place *place, uint64_t id)
{
    unsigned count = 0;

    ingest_settle(place->scheduler.ingest, 10 * KVR_S);
    assert_true(store_list_events(place->scheduler.reader, id, 10, count_event, &count));
    return count;
}

/* The scheduler has each of these events once. */
static void has_once(const struct place *place, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        if (copies(place, id) != 1)
            fail_msg("event %u is there %u times", (unsigned)id, copies(place, id));
}

static void has_none(const struct place *place, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        assert_int_equal(copies(place, id), 0);
}

static void the_first_one_that_answers_is_kept(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_both(fixture);
    struct kvr_reporter_stats stats;

    assert_string_equal(stats_of(reporter).scheduler, fixture->a.address);
    emit(reporter, 1, 100);
    (void)all_taken(reporter, 100);
    emit(reporter, 101, 200);
    stats = all_taken(reporter, 200);
    assert_string_equal(stats.scheduler, fixture->a.address);
    assert_int_equal(stats.scheduler_changes, 0);
    kvr_reporter_close(reporter);
    has_once(&fixture->a, 1, 200);
    has_none(&fixture->b, 1, 200);
    stop(&fixture->a);
    stop(&fixture->b);
}

/* What the first one had not acknowledged goes to the second one, and each of them has no event
 * twice. */
static void the_second_one_gets_what_the_first_did_not_take(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_both(fixture);
    struct kvr_reporter_stats stats;
    uint64_t id = 1;

    for (; stats_of(reporter).acknowledged < 2000; id += 100) {
        emit(reporter, id, id + 99);
        nap(5);
    }
    stop(&fixture->a);
    for (int i = 0; i < 20; i++, id += 100) {
        emit(reporter, id, id + 99);
        nap(5);
    }
    stats = all_taken(reporter, id - 1);
    assert_string_equal(stats.scheduler, fixture->b.address);
    assert_int_equal(stats.scheduler_changes, 1);
    kvr_reporter_close(reporter);
    start(&fixture->a);
    for (uint64_t i = 1; i < id; i++) {
        unsigned at_a = copies(&fixture->a, i), at_b = copies(&fixture->b, i);

        assert_in_range(at_a, 0, 1);
        assert_in_range(at_b, 0, 1);
        assert_true(at_a + at_b >= 1);
    }
    has_once(&fixture->b, id - 2000, id - 1);
    stop(&fixture->a);
    stop(&fixture->b);
}

/* Two databases: a scheduler that lacks what the other one took goes on where the agent is. */
static void an_agent_changes_and_goes_back(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_both(fixture);
    struct kvr_reporter_stats stats;

    emit(reporter, 1, 100);
    (void)all_taken(reporter, 100);
    stop(&fixture->a);
    emit(reporter, 101, 200);
    (void)all_taken(reporter, 200);
    start(&fixture->a);
    emit(reporter, 201, 300); /* it stays where it is */
    (void)all_taken(reporter, 300);
    stop(&fixture->b);
    emit(reporter, 301, 400);
    stats = all_taken(reporter, 400);
    assert_string_equal(stats.scheduler, fixture->a.address);
    assert_int_equal(stats.scheduler_changes, 2);
    kvr_reporter_close(reporter);
    start(&fixture->b);
    has_once(&fixture->a, 1, 100);
    has_none(&fixture->a, 101, 300);
    has_once(&fixture->a, 301, 400);
    has_none(&fixture->b, 1, 100);
    has_once(&fixture->b, 101, 300);
    has_none(&fixture->b, 301, 400);
    stop(&fixture->a);
    stop(&fixture->b);
}

/* One database: whatever scheduler an event comes by, and however often, it is there once. */
static void a_database_of_both_has_each_event_once(void **state)
{
    struct fixture *fixture = *state;
    struct place *from = &fixture->a, *to = &fixture->b;
    struct kvr_reporter *reporter = open_both(fixture);
    uint64_t id = 1;

    for (unsigned change = 1; change <= 2; change++) {
        uint64_t until = id + 800;

        for (; id < until || stats_of(reporter).acknowledged < until - 400; id += 100) {
            emit(reporter, id, id + 99);
            nap(5);
        }
        stop(from);
        emit(reporter, id, id + 99);
        id += 100;
        assert_int_equal(all_taken(reporter, id - 1).scheduler_changes, change);
        start(from);
        from = to;
        to = from == &fixture->a ? &fixture->b : &fixture->a;
    }
    kvr_reporter_close(reporter);
    has_once(&fixture->b, 1, id - 1);
    stop(&fixture->a);
    stop(&fixture->b);
}

static void none_is_there_and_the_second_one_comes_back(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_both(fixture);
    struct kvr_reporter_stats stats;

    emit(reporter, 1, 100);
    (void)all_taken(reporter, 100);
    stop(&fixture->a);
    stop(&fixture->b);
    emit(reporter, 101, 3000); /* past the bound of the memory: most lie in the spool */
    do {
        nap(10);
        stats = stats_of(reporter);
    } while (stats.posts_failed < 6); /* three rounds */
    assert_false(stats.connected);
    assert_true(stats.failing_since != 0);
    assert_string_equal(stats.scheduler, fixture->a.address);
    start(&fixture->b);
    stats = all_taken(reporter, 3000);
    assert_string_equal(stats.scheduler, fixture->b.address);
    assert_int_equal(stats.failing_since, 0);
    kvr_reporter_close(reporter);
    has_once(&fixture->b, 101, 3000);
    stop(&fixture->b);
}

/* The end of an agent: what is left goes to the scheduler that is still there. */
static void the_rest_goes_to_the_one_that_is_left(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_both(fixture);

    emit(reporter, 1, 100);
    (void)all_taken(reporter, 100);
    stop(&fixture->a);
    emit(reporter, 101, 150);
    kvr_reporter_close(reporter);
    has_once(&fixture->b, 101, 150);
    stop(&fixture->b);
}

/* A scheduler without its database answers 503. */
static void one_without_its_database_is_left(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_both(fixture);
    struct kvr_reporter_stats stats;
    char path[FOLDER_BYTES + 16];

    emit(reporter, 1, 100);
    (void)all_taken(reporter, 100);
    snprintf(path, sizeof(path), "%s/kvrail.db", fixture->a.folder);
    assert_int_equal(unlink(path), 0);
    emit(reporter, 101, 200);
    stats = all_taken(reporter, 200);
    for (uint64_t id = 201; stats.scheduler_changes == 0; id += 100) { /* it looks once a second */
        nap(500);
        emit(reporter, id, id + 99);
        stats = all_taken(reporter, id + 99);
    }
    assert_string_equal(stats.scheduler, fixture->b.address);
    assert_non_null(strstr(stats.failure, "it answers 503"));
    kvr_reporter_close(reporter);
    stop(&fixture->a);
    stop(&fixture->b);
}

static void order_answered(void *self, kvr_status status, const struct kvr_report_answer *answer,
                           const char *detail)
{
    (void)answer;
    (void)detail;
    atomic_store((_Atomic int *)self, status);
}

/* An order for the agent, which has reported there. */
static void give_order(struct place *place, kvr_order_kind kind)
{
    struct order order = {.kind = kind, .object = "decode-0", .attempt = -1};
    _Atomic int status = KVR_AGAIN;

    assert_int_equal(ingest_order(place->scheduler.ingest, &order, order_answered, &status),
                     KVR_OK);
    while (status == KVR_AGAIN)
        nap(1);
    assert_int_equal(status, KVR_OK);
}

static void count_up(void *self, const struct agent_view *agent)
{
    *(unsigned *)self += agent->state == AGENT_UP;
}

/* A sign of life; without one the reporter does not post. What has changed is posted sooner. */
static void show_facts(struct kvr_reporter *reporter)
{
    static struct kvr_agent_facts facts = {.role = KVR_ROLE_TARGET};

    facts.peers_up++;
    kvr_reporter_facts(reporter, &facts);
}

static void report_to(struct kvr_reporter *reporter, struct place *place)
{
    unsigned up = 0;

    for (int i = 0; i < 600 && up == 0; i++) {
        if (i % 20 == 0)
            show_facts(reporter);
        nap(50);
        fleet_each(place->scheduler.fleet, kvr_clock_now(), count_up, &up);
    }
    assert_int_equal(up, 1);
}

static kvr_order_kind next_order(struct kvr_reporter *reporter)
{
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint32_t count = 0;

    for (int i = 0; i < 100 && count == 0; i++) {
        show_facts(reporter);
        for (int k = 0; k < 100 && count == 0; k++) {
            nap(20);
            count = kvr_reporter_orders(reporter, orders);
        }
    }
    assert_int_equal(count, 1);
    return orders[0].kind;
}

/* Orders of both have the same number. The one that was taken is of the other scheduler. */
static void each_one_has_orders_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter;

    stop(&fixture->a);
    reporter = open_both(fixture);
    report_to(reporter, &fixture->b);
    give_order(&fixture->b, KVR_ORDER_RESUME);
    stop(&fixture->b);
    start(&fixture->a);
    report_to(reporter, &fixture->a);
    give_order(&fixture->a, KVR_ORDER_DRAIN);
    assert_int_equal(next_order(reporter), KVR_ORDER_DRAIN);
    stop(&fixture->a); /* before a post says that it was taken */
    start(&fixture->b);
    assert_int_equal(next_order(reporter), KVR_ORDER_RESUME);
    kvr_reporter_close(reporter);
    stop(&fixture->b);
}

/* A port of loopback, in listening mode. */
static int listen_at(char address[64], int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listening, (const struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(listening, backlog), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &bytes), 0);
    snprintf(address, 64, "127.0.0.1:%u", ntohs(at.sin_port));
    return listening;
}

/* So many connections wait there that the kernel answers no more. */
static void fill(const char *address, int clients[4])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1))};

    for (int i = 0; i < 4; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (const struct sockaddr *)&at, sizeof(at));
    }
    nap(200);
}

/* The first failure of a post to `first`, with a good scheduler behind it: its sentence has how
 * long it took. */
static unsigned failed_after_ms(struct fixture *fixture, const char *first)
{
    struct kvr_reporter *reporter = open_reporter(fixture, first, fixture->b.address);
    struct kvr_reporter_stats stats;
    const char *after;
    unsigned ms;

    emit(reporter, 1, 10);
    stats = all_taken(reporter, 10);
    assert_string_equal(stats.scheduler, fixture->b.address);
    assert_string_equal(stats.failure_from, first);
    assert_int_equal(stats.posts_failed, 1); /* the next post went to the other one */
    after = strstr(stats.failure, "after ");
    assert_non_null(after);
    ms = (unsigned)atoi(after + strlen("after "));
    kvr_reporter_close(reporter);
    return ms;
}

/* A busy machine may notice it later: once is enough. */
static void a_host_that_is_silent_costs_two_seconds(void **state)
{
    struct fixture *fixture = *state;
    int clients[4], listening;
    char address[64];
    unsigned ms = 0;

    stop(&fixture->a);
    listening = listen_at(address, 0);
    fill(address, clients);
    for (int i = 0; i < 5 && (ms < 2000 || ms >= 2900); i++)
        ms = failed_after_ms(fixture, address);
    assert_in_range(ms, 2000, 2899);
    for (int i = 0; i < 4; i++)
        close(clients[i]);
    close(listening);
    stop(&fixture->b);
}

static void a_scheduler_that_hangs_costs_five_seconds(void **state)
{
    struct fixture *fixture = *state;
    char address[64];
    int listening;

    stop(&fixture->a);
    listening =
        listen_at(address, 16); /* the kernel takes the connection, and no program answers */
    assert_in_range(failed_after_ms(fixture, address), 5000, 20000);
    close(listening);
    stop(&fixture->b);
}

#define WITH_TWO(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TWO(the_first_one_that_answers_is_kept),
        WITH_TWO(the_second_one_gets_what_the_first_did_not_take),
        WITH_TWO(an_agent_changes_and_goes_back),
        WITH_TWO(none_is_there_and_the_second_one_comes_back),
        WITH_TWO(the_rest_goes_to_the_one_that_is_left),
        WITH_TWO(one_without_its_database_is_left),
        WITH_TWO(each_one_has_orders_of_its_own),
        WITH_TWO(a_host_that_is_silent_costs_two_seconds),
        WITH_TWO(a_scheduler_that_hangs_costs_five_seconds),
    };

    const struct CMUnitTest of_one_database[] = {
        WITH_TWO(a_database_of_both_has_each_event_once),
    };

    if (postgres_url() != NULL)
        return cmocka_run_group_tests(of_one_database, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
