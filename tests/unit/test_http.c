/* Goal: no client of the scheduler's port keeps a connection for longer than it needs one.
 * Method: the port alone, and clients that hang up, are slow or come in numbers. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/need.h"
#include "http/http_clients.h"
#include "scheduler/scheduler.h"
#include "tests/support/store_case.h"

#define CONNECTIONS_MAX      40
#define CONNECTIONS_PER_HOST 24
#define PATIENCE_MS          (HTTP_IDLE_SECONDS * 1000 / 2) /* long, but below the idle limit */

struct port {
    struct http *http;
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct access *access;
    uint16_t port;
};

static int setup_with(void **state, uint64_t connections_max, uint64_t connections_per_host)
{
    struct port *fixture = calloc(1, sizeof(*fixture));
    struct http_options options = {.listen = {.host = "127.0.0.1"},
                                   .connections_max = connections_max,
                                   .connections_per_host = connections_per_host};

    options.fleet = fixture->fleet = fleet_open();
    options.metrics = fixture->metrics = metrics_open();
    options.health = fixture->health = health_open("kvrail.db");
    assert_int_equal(access_open(&(struct access_options){0}, &fixture->access, NULL), KVR_OK);
    options.access = fixture->access;
    assert_int_equal(http_start(&options, &fixture->http, &fixture->port, NULL), KVR_OK);
    *state = fixture;
    return 0;
}

/* As the options are without a value. */
static int setup(void **state)
{
    return setup_with(state, FLEET_AGENTS_MAX + 512, 128);
}

static int setup_for_few(void **state)
{
    return setup_with(state, CONNECTIONS_MAX, CONNECTIONS_PER_HOST);
}

static int teardown(void **state)
{
    struct port *fixture = *state;

    http_stop(fixture->http);
    fleet_close(fixture->fleet);
    metrics_close(fixture->metrics);
    health_close(fixture->health);
    access_close(fixture->access);
    free(fixture);
    return 0;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    return client;
}

/* Connects from a host of its own: loopback has many addresses. */
static int connect_from(uint16_t port, uint32_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, at = from;
    struct timeval patience = {
        .tv_sec = 30}; /* a full queue makes the kernel retry at growing intervals */
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 256 + host);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    assert_int_equal(bind(client, (struct sockaddr *)&from, sizeof(from)), 0);
    while (connect(client, (struct sockaddr *)&at, sizeof(at)) != 0)
        assert_int_equal(errno, EINTR); /* the process was stopped and goes on: it waits again */
    return client;
}

static void say(int client, const char *text)
{
    assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads the port's answer until ms of silence; false: the port has hung up. */
static bool listen_to(int client, int ms, size_t *ret_bytes)
{
    struct pollfd readable = {.fd = client, .events = POLLIN};
    char bytes[4096];

    *ret_bytes = 0;
    while (poll(&readable, 1, ms) > 0) {
        ssize_t count = recv(client, bytes, sizeof(bytes), 0);

        if (count <= 0)
            return false;
        *ret_bytes += (size_t)count;
    }
    return true;
}

static void ask(int client)
{
    struct pollfd readable = {.fd = client, .events = POLLIN};
    size_t bytes;

    say(client, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    assert_true(listen_to(client, 100, &bytes));
    assert_true(bytes > 0);
}

/* Without looking whether more comes, or an end. */
static void ask_briefly(int client)
{
    struct pollfd readable = {.fd = client, .events = POLLIN};
    char bytes[4096];

    say(client, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    assert_true(recv(client, bytes, sizeof(bytes), 0) > 0);
}

/* The client's last bytes and its end come together; the port sees both. */
static void http_hangs_up_with_its_client(void **state)
{
    static const char *const texts[] = {"GET /heal",
                                        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"};

    for (unsigned i = 0; i < 40; i++) {
        int client = connect_to(((struct port *)*state)->port);
        size_t bytes;

        say(client, texts[i % 2]);
        shutdown(client, SHUT_WR);
        if (listen_to(client, PATIENCE_MS, &bytes))
            fail_msg("connection %u is still open", i);
        close(client);
    }
}

/* A byte now and then is no request. */
static void http_ends_the_slow(void **state)
{
    struct port *fixture = *state;
    int slow = connect_to(fixture->port), quick = connect_to(fixture->port);
    kvr_ns between;
    size_t bytes;

    ask(slow);
    ask(quick);
    say(slow, "GET /hea");
    between = kvr_clock_now();
    say(slow, "rics HT");
    ask(quick);
    http_tick(fixture->http, between);
    assert_true(listen_to(slow, 200, &bytes));
    http_tick(fixture->http, between + HTTP_REQUEST_SECONDS * KVR_S);
    assert_false(listen_to(slow, PATIENCE_MS, &bytes));
    ask(quick);
    close(slow);
    close(quick);
}

/* A number of /metrics. */
static uint64_t metric(struct port *fixture, const char *name)
{
    size_t bytes, length = strlen(name);
    const char *line;
    uint64_t value;
    char *text;
    FILE *out = open_memstream(&text, &bytes);

    metrics_write(fixture->metrics, kvr_clock_now(), (int64_t)kvr_clock_wall(),
                  &(struct exposition){.out = out});
    fclose(out);
    line = strstr(text, name);
    while (line != NULL && (line[-1] != '\n' || line[length] != ' '))
        line = strstr(line + 1, name);
    assert_non_null(line);
    value = strtoull(line + length, NULL, 10);
    free(text);
    return value;
}

static void expect_refused(int client)
{
    size_t bytes;

    assert_false(listen_to(client, PATIENCE_MS, &bytes));
    close(client);
}

/* One host leaves room for the others, and regains room when its connections close. */
static void http_bounds_a_host(void **state)
{
    struct port *fixture = *state;
    int clients[CONNECTIONS_PER_HOST];
    size_t bytes;
    int another;

    for (unsigned i = 0; i < CONNECTIONS_PER_HOST; i++)
        clients[i] = connect_to(fixture->port);
    ask(clients[CONNECTIONS_PER_HOST - 1]);
    for (unsigned i = 0; i < 5; i++)
        expect_refused(connect_to(fixture->port));
    assert_int_equal(metric(fixture, "kvrail_http_connections_refused_total{limit=\"host\"}"), 5);
    assert_int_equal(metric(fixture, "kvrail_http_connections_refused_total{limit=\"all\"}"), 0);
    http_tick(fixture->http, kvr_clock_now());
    assert_int_equal(metric(fixture, "kvrail_http_connections"), CONNECTIONS_PER_HOST);
    another = connect_from(fixture->port, 1);
    ask(another);
    close(another);
    shutdown(clients[0], SHUT_WR);
    assert_false(listen_to(clients[0], PATIENCE_MS, &bytes));
    another = connect_to(fixture->port);
    ask(another);
    close(another);
    for (unsigned i = 0; i < CONNECTIONS_PER_HOST; i++)
        close(clients[i]);
}

/* All hosts together: beyond the limit the oldest without a request makes room for each. */
static void http_makes_room(void **state)
{
    struct port *fixture = *state;
    int clients[CONNECTIONS_MAX];
    size_t bytes;

    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        clients[i] = connect_from(fixture->port, i % 4);
    ask_briefly(clients[0]);
    ask_briefly(clients[CONNECTIONS_MAX - 1]);
    for (unsigned i = 1; i <= 30; i++) {
        int another = connect_from(fixture->port, 4 + i % 4);

        ask_briefly(another);
        assert_false(listen_to(clients[i], PATIENCE_MS, &bytes));
        close(clients[i]);
        clients[i] = another;
    }
    assert_int_equal(metric(fixture, "kvrail_http_connections_refused_total{limit=\"all\"}"), 30);
    ask_briefly(clients[0]);
    ask_briefly(clients[CONNECTIONS_MAX - 1]);
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        close(clients[i]);
}

/* Where all have asked, a host gets as many as others have, and no more. */
static void http_shares_among_hosts(void **state)
{
    struct port *fixture = *state;
    int clients[CONNECTIONS_MAX], others[CONNECTIONS_MAX / 5];
    size_t bytes, ended = 0;

    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        clients[i] = connect_from(fixture->port, i % 4);
        ask_briefly(clients[i]);
    }
    for (unsigned i = 0; i < CONNECTIONS_MAX / 5; i++) {
        others[i] = connect_from(fixture->port, 9);
        ask_briefly(others[i]);
    }
    for (unsigned i = 0; i < 5; i++)
        expect_refused(connect_from(fixture->port, 9));
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        ended += !listen_to(clients[i], 0, &bytes);
        close(clients[i]);
    }
    assert_int_equal(ended, CONNECTIONS_MAX / 5);
    for (unsigned i = 0; i < CONNECTIONS_MAX / 5; i++) {
        ask_briefly(others[i]);
        close(others[i]);
    }
}

/* Requests that began earlier are completed after the writer has gone: each gets 503, so that its
 * client tries again. */
static void http_refuses_what_comes_after_the_writer(void **state)
{
    static const char *const texts[] = {"POST /ingest/v1/events HTTP/1.1\r\nHost: "
                                        "localhost\r\nContent-Type: application/x-protobuf\r\n"
                                        "Content-Length: 4\r\n\r\n\n",
                                        "POST /api/v1/requests/r/abandon HTTP/1.1\r\nHost: "
                                        "localhost\r\nContent-Length: 4\r\n\r\n\n"};
    struct fixture *fixture = *state;
    struct scheduler_options options = {.place.folder = fixture->folder,
                                        .place.retention = KVR_NEVER,
                                        .listen = {.host = "127.0.0.1"},
                                        .connections_max = CONNECTIONS_MAX};
    struct scheduler scheduler = {0};
    char answer[16] = "";
    int clients[2];

    assert_int_equal(scheduler_open(&options, &scheduler, NULL), KVR_OK);
    for (int i = 0; i < 2; i++) {
        size_t bytes;

        clients[i] = connect_to(scheduler.port);
        say(clients[i], texts[i]);
        assert_true(listen_to(clients[i], 200, &bytes)); /* the request has begun */
        assert_int_equal(bytes, 0);
    }
    http_drain(scheduler.http);
    ingest_stop(scheduler.ingest);
    for (int i = 0; i < 2; i++) {
        say(clients[i], "\x02ok"); /* the report of an agent called "ok" */
        assert_int_equal(recv(clients[i], answer, 12, MSG_WAITALL), 12);
        assert_string_equal(answer, "HTTP/1.1 503");
        close(clients[i]);
    }
    http_stop(scheduler.http);
    scheduler.http = NULL;
    scheduler.ingest = ingest_close(scheduler.ingest);
    scheduler_close(&scheduler);
}

/* Every agent of a full fleet keeps its connection, and people can still look. */
static void http_has_room_for_a_whole_fleet(void **state)
{
    static int clients[FLEET_AGENTS_MAX];
    uint16_t port = ((struct port *)*state)->port;
    int person;

    if (kvr_need_files(2 * FLEET_AGENTS_MAX + 64, NULL) != KVR_OK)
        skip(); /* this process may not open the files for both ends */
    for (uint32_t i = 0; i < FLEET_AGENTS_MAX; i++)
        clients[i] = connect_from(port, i / 64);
    person = connect_to(port);
    ask(person);
    ask(clients[FLEET_AGENTS_MAX - 1]);
    close(person);
    for (uint32_t i = 0; i < FLEET_AGENTS_MAX; i++)
        close(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(http_hangs_up_with_its_client, setup, teardown),
        cmocka_unit_test_setup_teardown(http_ends_the_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(http_bounds_a_host, setup_for_few, teardown),
        cmocka_unit_test_setup_teardown(http_makes_room, setup_for_few, teardown),
        cmocka_unit_test_setup_teardown(http_shares_among_hosts, setup_for_few, teardown),
        WITH_STORE(http_refuses_what_comes_after_the_writer),
        cmocka_unit_test_setup_teardown(http_has_room_for_a_whole_fleet, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
