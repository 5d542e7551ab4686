/* Goal: whatever the scheduler does, no event within the bounds is lost, each is reported once, and
 * the agent never waits.
 * Method: reporters against the real HTTP port, writer and database in this process; these go away
 * and come back on the same port. */
#include "tests/support/check.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/reporter.h"
#include "scheduler/scheduler.h"
#include "tests/support/folder.h"

struct fixture {
    char folder[FOLDER_BYTES];
    struct scheduler scheduler;
};

/* Starts on the same port as before. */
static void scheduler_start(struct fixture *fixture)
{
    struct scheduler_options options = {
        .place.folder = fixture->folder,
        .place.retention = KVR_NEVER,
        .listen = {.host = "127.0.0.1", .port = fixture->scheduler.port},
        .connections_max = 64,
    };

    fixture->scheduler = (struct scheduler){0};
    assert_int_equal(scheduler_open(&options, &fixture->scheduler, NULL), KVR_OK);
}

static void scheduler_stop(struct fixture *fixture)
{
    scheduler_close(&fixture->scheduler);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    folder_make(fixture->folder);
    scheduler_start(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

#define CLOSE_MS 20000 /* with a scheduler that answers; without one the close is immediate */

static struct kvr_reporter *open_reporter(const struct fixture *fixture, uint64_t boot,
                                          size_t memory_bytes, size_t spool_bytes)
{
    struct kvr_reporter_options options = {.agent = "decode-0",
                                           .boot = boot,
                                           .state_dir = fixture->folder,
                                           .memory_bytes_max = memory_bytes,
                                           .spool_bytes_max = spool_bytes,
                                           .close_ms = CLOSE_MS};
    struct kvr_reporter *reporter = NULL;
    char address[64];

    snprintf(address, sizeof(address), "127.0.0.1:%u", fixture->scheduler.port);
    options.schedulers[0] = address;
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    return reporter;
}

static void nap(unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static void emit(struct kvr_reporter *reporter, uint64_t first, uint64_t count)
{
    struct kvr_event_sink sink = kvr_reporter_sink(reporter);

    for (uint64_t id = first; id < first + count; id++) {
        struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                  .role = KVR_ROLE_TARGET,
                                  .at = kvr_clock_now(),
                                  .transfer = id,
                                  .request = "request"};

        memset(event.detail, 'x', sizeof(event.detail) - 1);
        sink.emit(sink.self, &event);
        if (id % 2000 == 0)
            nap(20); /* the ring holds 8,192 */
    }
}

static struct kvr_reporter_stats wait_for(struct kvr_reporter *reporter, uint64_t settled)
{
    struct kvr_reporter_stats stats;

    for (int i = 0; i < 400; i++) {
        kvr_reporter_stats(reporter, &stats);
        if (stats.acknowledged + stats.dropped >= settled)
            break;
        nap(50);
    }
    return stats;
}

static uint64_t stored(struct fixture *fixture)
{
    uint64_t counts[STATE_END], total = 0;

    ingest_settle(fixture->scheduler.ingest, 10 * KVR_S);
    assert_true(store_count_states(fixture->scheduler.reader, counts));
    for (int state = 0; state < STATE_END; state++)
        total += counts[state];
    return total;
}

static void reporter_counts_without_a_scheduler(void **state)
{
    struct kvr_reporter_options options = {.agent = "decode-0"};
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats;

    scheduler_stop(*state);
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    emit(reporter, 1, 10);
    kvr_reporter_stats(reporter, &stats);
    assert_int_equal(stats.emitted, 10);
    assert_int_equal(stats.dropped, 0);
    kvr_reporter_close(reporter);
}

static void reporter_refuses_bad_options(void **state)
{
    struct kvr_reporter_options options = {.agent = "a", .schedulers = {"nowhere"}};
    struct kvr_reporter *reporter = NULL;
    struct kvr_error error;

    scheduler_stop(*state);
    assert_int_equal(kvr_reporter_open(&options, &reporter, &error), KVR_INVALID);
    options = (struct kvr_reporter_options){.agent = "", .schedulers = {"127.0.0.1:1"}};
    assert_int_equal(kvr_reporter_open(&options, &reporter, &error), KVR_INVALID);
    options = (struct kvr_reporter_options){
        .agent = "a", .schedulers = {"127.0.0.1:1"}, .state_dir = "/nonexistent"};
    assert_int_equal(kvr_reporter_open(&options, &reporter, &error), KVR_SYSTEM);
    assert_null(reporter);
}

static void reporter_hands_over_everything(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_reporter(fixture, 1, 0, 0);
    struct kvr_reporter_stats stats;

    emit(reporter, 1, 5000);
    stats = wait_for(reporter, 5000);
    assert_int_equal(stats.acknowledged, 5000);
    assert_int_equal(stats.dropped, 0);
    emit(reporter, 5001, 300);
    kvr_reporter_close(reporter); /* flushes the rest */
    assert_int_equal(stored(fixture), 5300);
    scheduler_stop(fixture);
}

static void reporter_loses_nothing_while_the_scheduler_is_away(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_reporter(fixture, 1, 64 << 10, 0);
    struct kvr_reporter_stats stats;

    emit(reporter, 1, 1000);
    (void)wait_for(reporter, 1000);
    scheduler_stop(fixture);
    emit(reporter, 1001, 8000); /* about 3 MiB: most events spill to the spool */
    do {                        /* until a post has failed */
        nap(10);
        kvr_reporter_stats(reporter, &stats);
    } while (stats.connected || stats.failing_since == 0);
    assert_string_not_equal(stats.failure, "");
    scheduler_start(fixture);
    stats = wait_for(reporter, 9000);
    assert_int_equal(stats.failing_since, 0);
    assert_int_equal(stats.acknowledged, 9000);
    assert_int_equal(stats.dropped, 0);
    kvr_reporter_close(reporter);
    assert_int_equal(stored(fixture), 9000);
    scheduler_stop(fixture);
}

static void reporter_leaves_the_rest_for_its_next_start(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats;

    scheduler_stop(fixture);
    reporter = open_reporter(fixture, 1, 0, 0);
    emit(reporter, 1, 2500);
    kvr_reporter_close(reporter);
    scheduler_start(fixture);
    reporter = open_reporter(fixture, 2, 0, 0);
    emit(reporter, 2501, 100);
    stats = wait_for(reporter, 2600);
    assert_int_equal(stats.acknowledged, 2600);
    kvr_reporter_close(reporter);
    assert_int_equal(stored(fixture), 2600);
    scheduler_stop(fixture);
}

static void reporter_drops_the_oldest_past_its_bounds(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats;

    scheduler_stop(fixture);
    reporter = open_reporter(fixture, 1, 64 << 10, 1 << 20);
    emit(reporter, 1, 16000); /* about 6 MiB */
    nap(500);
    scheduler_start(fixture);
    stats = wait_for(reporter, 16000);
    assert_true(stats.dropped > 0);
    assert_int_equal(stats.acknowledged + stats.dropped, 16000);
    kvr_reporter_close(reporter);
    assert_int_equal(stored(fixture), stats.acknowledged);
    scheduler_stop(fixture);
}

static void count_pair(void *self, const struct fleet_pair *pair)
{
    (void)pair;
    ++*(unsigned *)self;
}

static unsigned pairs_shown(struct fixture *fixture)
{
    struct fleet_pairs_wanted all = {.count_max = KVR_REPORT_PAIRS_MAX};
    unsigned count = 0;

    (void)fleet_each_pair(fixture->scheduler.fleet, &all, kvr_clock_now(), count_pair, &count);
    return count;
}

/* Rows of several peers, given before the scheduler answers and after. */
static void reporter_says_how_rails_reach_each_other(void **state)
{
    static struct kvr_agent_facts facts = {.role = KVR_ROLE_SOURCE};
    static struct kvr_report_pairs pairs = {
        .peer_count = 1, .pair_count = 2, .peers = {{"decode-0", 0, 2}}};
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter;

    scheduler_stop(fixture);
    reporter = open_reporter(fixture, 1, 0, 0);
    kvr_reporter_facts(reporter, &facts);
    for (uint32_t i = 0; i < 3; i++) {
        pairs.peers[0].peer[strlen("decode-")] = (char)('0' + i);
        kvr_reporter_pairs(reporter, &pairs);
    }
    scheduler_start(fixture);
    for (int i = 0; i < 200 && pairs_shown(fixture) < 6; i++) {
        kvr_reporter_facts(reporter, &facts);
        nap(50);
    }
    assert_int_equal(pairs_shown(fixture), 6);
    pairs.peers[0].pair_count = pairs.pair_count = 0;
    kvr_reporter_pairs(reporter, &pairs);
    for (int i = 0; i < 200 && pairs_shown(fixture) > 4; i++) {
        kvr_reporter_facts(reporter, &facts);
        nap(50);
    }
    assert_int_equal(pairs_shown(fixture), 4);
    kvr_reporter_close(reporter);
    scheduler_stop(fixture);
}

static void damage_spool(const struct fixture *fixture, long offset, const char *bytes,
                         size_t byte_count)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/events-%020d.spool", fixture->folder, 1);
    file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, byte_count, file), byte_count);
    fclose(file);
}

static void reporter_counts_what_its_spool_does_not_give_back(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats;

    scheduler_stop(fixture);
    reporter = open_reporter(fixture, 1, 0, 0);
    emit(reporter, 1, 100);
    kvr_reporter_close(reporter);
    damage_spool(fixture, 0, "not a header", 12);
    scheduler_start(fixture);
    reporter = open_reporter(fixture, 2, 0, 0);
    emit(reporter, 101, 10);
    stats = wait_for(reporter, 11);
    assert_int_equal(stats.acknowledged, 10);
    assert_int_equal(stats.dropped,
                     1); /* at least 1, as the damaged header cannot give the exact number */
    assert_int_equal(stats.spool_lost, 1);
    assert_string_equal(stats.spool_lost_file, "events-00000000000000000001.spool");
    kvr_reporter_close(reporter);
    scheduler_stop(fixture);
}

/* The damage is in the record's number of events: later records must still be reported. */
static void reporter_goes_on_behind_a_record_that_is_damaged(void **state)
{
    static const char counts[][4] = {{0}, {127, 127, 127, 127}};
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats;

    for (uint64_t i = 0; i < 2; i++) {
        scheduler_stop(fixture);
        reporter = open_reporter(fixture, 1 + 2 * i, 0, 0);
        emit(reporter, 1, 100);
        kvr_reporter_close(reporter);
        damage_spool(fixture, 12, counts[i], sizeof(counts[i]));
        scheduler_start(fixture);
        reporter = open_reporter(fixture, 2 + 2 * i, 0, 0);
        emit(reporter, 101, 10);
        stats = wait_for(reporter, 11);
        assert_int_equal(stats.acknowledged, 10);
        assert_int_equal(stats.spool_lost, 1);
        assert_int_equal(stats.dropped, 1);
        kvr_reporter_close(reporter);
    }
    scheduler_stop(fixture);
}

/* Another program at the scheduler's port: answers every post with the same bytes. */
struct stranger {
    int listening;
    _Atomic int client; /* the connection under way */
    pthread_t thread;
    char answer[512];
    size_t bytes;
};

static void *stranger_main(void *self)
{
    struct stranger *stranger = self;
    int client;

    while ((client = accept(stranger->listening, NULL, NULL)) >= 0) {
        char text[8192];
        size_t used = 0, whole = 0;
        ssize_t got;

        stranger->client = client;
        while ((got = recv(client, text + used, sizeof(text) - 1 - used, 0)) > 0) {
            const char *end, *length;

            used += (size_t)got;
            text[used] = '\0';
            end = strstr(text, "\r\n\r\n");
            length = strstr(text, "Content-Length: ");
            if (end != NULL && length != NULL)
                whole = (size_t)(end + 4 - text) + strtoul(length + 16, NULL, 10);
            if (whole == 0 || used < whole)
                continue;
            (void)send(client, stranger->answer, stranger->bytes, MSG_NOSIGNAL);
            used = whole = 0;
        }
        close(client);
    }
    return NULL;
}

/* In the scheduler's place. */
static void stranger_start(struct fixture *fixture, struct stranger *stranger)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int yes = 1;

    scheduler_stop(fixture);
    stranger->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(stranger->listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    assert_int_equal(bind(stranger->listening, (const struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(stranger->listening, 4), 0);
    assert_int_equal(getsockname(stranger->listening, (struct sockaddr *)&at, &bytes), 0);
    assert_int_equal(pthread_create(&stranger->thread, NULL, stranger_main, stranger), 0);
    fixture->scheduler.port = ntohs(at.sin_port);
}

static void stranger_stop(struct stranger *stranger)
{
    shutdown(stranger->listening, SHUT_RDWR);
    shutdown(stranger->client, SHUT_RDWR);
    pthread_join(stranger->thread, NULL);
    close(stranger->listening);
}

/* It acknowledges what was never made: the agent must not forget its events for that. */
static void reporter_refuses_an_impossible_answer(void **state)
{
    struct kvr_report_answer answer = {.acknowledged = UINT64_C(1) << 62};
    uint8_t encoded[KVR_REPORT_ANSWER_BYTES];
    size_t bytes = kvr_report_answer_encode(&answer, encoded);
    struct fixture *fixture = *state;
    struct stranger stranger = {0};
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats = {0};

    stranger.bytes = (size_t)snprintf(stranger.answer, sizeof(stranger.answer),
                                      "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n"
                                      "Content-Length: %zu\r\n\r\n",
                                      bytes);
    memcpy(stranger.answer + stranger.bytes, encoded, bytes);
    stranger.bytes += bytes;
    stranger_start(fixture, &stranger);
    reporter = open_reporter(fixture, 1, 0, 0);
    emit(reporter, 1, 5);
    for (int i = 0; i < 200 && stats.answers_refused < 2; i++) {
        nap(50);
        kvr_reporter_stats(reporter, &stats);
    }
    assert_true(stats.answers_refused >= 2);
    assert_int_equal(stats.acknowledged, 0);
    assert_int_equal(stats.dropped, 0);
    assert_false(stats.connected);
    assert_non_null(strstr(stats.failure, "it acknowledges event 4611686018427387904"));
    stranger_stop(&stranger);
    scheduler_start(fixture); /* the true one gets them */
    assert_int_equal(wait_for(reporter, 5).acknowledged, 5);
    kvr_reporter_close(reporter);
    scheduler_stop(fixture);
}

/* --scheduler names another program's port. */
static void reporter_does_not_hurry_a_stranger(void **state)
{
    static const char well[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct fixture *fixture = *state;
    struct stranger stranger = {.bytes = sizeof(well) - 1};
    struct kvr_reporter_stats stats = {0};
    struct kvr_reporter *reporter;

    memcpy(stranger.answer, well, sizeof(well));
    stranger_start(fixture, &stranger);
    reporter = open_reporter(fixture, 1, 0, 0);
    emit(reporter, 1, 5);
    for (int i = 0; i < 200 && stats.posts == 0; i++) {
        nap(50);
        kvr_reporter_stats(reporter, &stats);
    }
    nap(1000);
    kvr_reporter_stats(reporter, &stats);
    assert_in_range(stats.posts, 1, 20);
    assert_int_equal(stats.acknowledged, 0);
    assert_false(stats.connected);
    assert_string_equal(stats.failure, "what answers is no scheduler");
    kvr_reporter_close(reporter);
    stranger_stop(&stranger);
}

static void remember_state(void *self, const struct agent_view *agent)
{
    *(agent_state *)self = agent->state;
}

static void reporter_tells_facts_and_says_goodbye(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_reporter(fixture, 1, 0, 0);
    agent_state seen = AGENT_LOST;

    facts.role = KVR_ROLE_TARGET;
    facts.rail_count = 2;
    kvr_reporter_facts(reporter, &facts);
    for (int i = 0; i < 400 && seen != AGENT_UP; i++) {
        nap(50);
        fleet_each(fixture->scheduler.fleet, kvr_clock_now(), remember_state, &seen);
    }
    assert_int_equal(seen, AGENT_UP);
    kvr_reporter_close(reporter);
    fleet_each(fixture->scheduler.fleet, kvr_clock_now(), remember_state, &seen);
    assert_int_equal(seen, AGENT_STOPPED);
    scheduler_stop(fixture);
}

static void order_answered(void *self, kvr_status status, const struct kvr_report_answer *answer,
                           const char *detail)
{
    (void)answer;
    (void)detail;
    atomic_store((_Atomic int *)self, status);
}

/* Repeats the order until the scheduler knows the request. */
static void give_order(struct fixture *fixture, struct order *order)
{
    _Atomic int status = KVR_NOT_FOUND;

    for (int i = 0; i < 200 && status == KVR_NOT_FOUND; i++) {
        status = KVR_AGAIN;
        assert_int_equal(ingest_order(fixture->scheduler.ingest, order, order_answered, &status),
                         KVR_OK);
        while (status == KVR_AGAIN)
            nap(1);
        nap(20);
    }
    assert_int_equal(status, KVR_OK);
}

static uint32_t orders_waiting(struct fixture *fixture)
{
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint32_t count;

    ingest_settle(fixture->scheduler.ingest, 10 * KVR_S);
    assert_true(store_list_orders(fixture->scheduler.reader, "decode-0", 1, orders, &count));
    return count;
}

/* There is no other event to report: the agent fetches the order by the posts that it makes while
 * it holds a transfer. */
static void reporter_brings_orders_until_they_are_taken(void **state)
{
    static struct kvr_agent_facts facts;
    struct kvr_event opened = {.kind = KVR_EVENT_OPENED, .at = 1, .request = "held"};
    struct order order = {.kind = KVR_ORDER_ABANDON, .object = "held", .attempt = -1};
    struct kvr_order orders[KVR_ORDERS_MAX];
    struct fixture *fixture = *state;
    struct kvr_reporter *reporter = open_reporter(fixture, 1, 0, 0);
    struct kvr_event_sink sink = kvr_reporter_sink(reporter);
    uint32_t count = 0;

    facts.role = KVR_ROLE_SOURCE;
    facts.transfers_live = 1;
    kvr_reporter_facts(reporter, &facts);
    sink.emit(sink.self, &opened);
    give_order(fixture, &order);
    scheduler_stop(fixture); /* a restart keeps the order */
    scheduler_start(fixture);
    for (int i = 0; i < 400 && count == 0; i++) {
        nap(20);
        count = kvr_reporter_orders(reporter, orders);
    }
    assert_int_equal(count, 1);
    assert_int_equal(orders[0].kind, KVR_ORDER_ABANDON);
    assert_string_equal(orders[0].request, "held");
    for (int i = 0; i < 400 && orders_waiting(fixture) > 0; i++)
        nap(20);
    assert_int_equal(orders_waiting(fixture), 0);
    nap(1500);
    assert_int_equal(kvr_reporter_orders(reporter, orders), 0); /* once */
    kvr_reporter_close(reporter);
    scheduler_stop(fixture);
}

#define WITH_SCHEDULER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SCHEDULER(reporter_counts_without_a_scheduler),
        WITH_SCHEDULER(reporter_refuses_bad_options),
        WITH_SCHEDULER(reporter_hands_over_everything),
        WITH_SCHEDULER(reporter_loses_nothing_while_the_scheduler_is_away),
        WITH_SCHEDULER(reporter_leaves_the_rest_for_its_next_start),
        WITH_SCHEDULER(reporter_drops_the_oldest_past_its_bounds),
        WITH_SCHEDULER(reporter_counts_what_its_spool_does_not_give_back),
        WITH_SCHEDULER(reporter_goes_on_behind_a_record_that_is_damaged),
        WITH_SCHEDULER(reporter_refuses_an_impossible_answer),
        WITH_SCHEDULER(reporter_does_not_hurry_a_stranger),
        WITH_SCHEDULER(reporter_tells_facts_and_says_goodbye),
        WITH_SCHEDULER(reporter_brings_orders_until_they_are_taken),
        WITH_SCHEDULER(reporter_says_how_rails_reach_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
