/* Goal: no client of the scheduler's port holds a place for longer than it needs one.
 * Method: the port alone, and clients that hang up, dawdle or come in numbers. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scheduler/http.h"

#define PATIENCE_MS (HTTP_IDLE_SECONDS * 1000 / 2) /* long, and yet not by being idle */

struct fixture {
    struct http *http;
    struct fleet *fleet;
    struct metrics *metrics;
    uint16_t port;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct http_options options = {.listen = {.host = "127.0.0.1"}};

    options.fleet = fixture->fleet = fleet_open();
    options.metrics = fixture->metrics = metrics_open();
    assert_int_equal(http_start(&options, &fixture->http, &fixture->port, NULL), KVR_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    http_stop(fixture->http);
    fleet_close(fixture->fleet);
    metrics_close(fixture->metrics);
    free(fixture);
    return 0;
}

static int connect_to(const struct fixture *fixture)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(fixture->port)};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    return client;
}

static void say(int client, const char *text)
{
    assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What the port says until ms have passed in silence; false: it has hung up. */
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

    say(client, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    assert_true(listen_to(client, 100, &bytes));
    assert_true(bytes > 0);
}

/* Its last bytes and its end come together, and both are seen. */
static void http_hangs_up_with_its_client(void **state)
{
    static const char *const texts[] = {"GET /metr", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"};

    for (unsigned i = 0; i < 40; i++) {
        int client = connect_to(*state);
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
    struct fixture *fixture = *state;
    int slow = connect_to(fixture), quick = connect_to(fixture);
    kvr_ns between;
    size_t bytes;

    ask(slow);
    ask(quick);
    say(slow, "GET /met");
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

/* One host leaves room for the others, and gets its own back. */
static void http_bounds_a_host(void **state)
{
    struct fixture *fixture = *state;
    int clients[HTTP_CONNECTIONS_PER_HOST];
    size_t bytes;
    int another;

    for (unsigned i = 0; i < HTTP_CONNECTIONS_PER_HOST; i++)
        clients[i] = connect_to(fixture);
    ask(clients[HTTP_CONNECTIONS_PER_HOST - 1]);
    another = connect_to(fixture);
    assert_false(listen_to(another, PATIENCE_MS, &bytes));
    close(another);
    shutdown(clients[0], SHUT_WR);
    assert_false(listen_to(clients[0], PATIENCE_MS, &bytes));
    another = connect_to(fixture);
    ask(another);
    close(another);
    for (unsigned i = 0; i < HTTP_CONNECTIONS_PER_HOST; i++)
        close(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(http_hangs_up_with_its_client, setup, teardown),
        cmocka_unit_test_setup_teardown(http_ends_the_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(http_bounds_a_host, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
