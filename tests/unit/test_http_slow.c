/* Goal: a question that takes long makes no report, metric or page wait, and a search that never
 * ends is given up.
 * Method: the API's answer is held back until a report has been answered beside it. Then a query
 * without an end, with a deadline. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scheduler/scheduler.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

#define PATIENCE_MS 20000

static sem_t answer_now;

/* Waits as a search among very many rows does. */
void __wrap_api_get(struct api *api, const char *path, const struct api_query *query,
                    struct api_answer *ret_answer);
void __real_api_get(struct api *api, const char *path, const struct api_query *query,
                    struct api_answer *ret_answer);
void __wrap_api_get(struct api *api, const char *path, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    sem_wait(&answer_now);
    __real_api_get(api, path, query, ret_answer);
}

static int ask(uint16_t port, const char *text, size_t bytes)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(send(client, text, bytes, MSG_NOSIGNAL), bytes);
    return client;
}

static void hear(int client, const char *wanted)
{
    struct pollfd readable = {.fd = client, .events = POLLIN};
    char answer[16] = "";

    assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    assert_int_equal(recv(client, answer, 12, MSG_WAITALL), 12);
    assert_string_equal(answer, wanted);
    close(client);
}

static int get(uint16_t port, const char *path)
{
    char text[256];
    int bytes = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);

    return ask(port, text, (size_t)bytes);
}

static void a_slow_search_holds_up_no_report(void **state)
{
    static const char report[] =
        "POST /ingest/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
        "application/x-protobuf\r\nContent-Length: 4\r\n\r\n\n\x02ok";
    struct fixture *fixture = *state;
    struct scheduler_options options = {.place.folder = fixture->folder,
                                        .place.retention = KVR_NEVER,
                                        .listen = {.host = "127.0.0.1"},
                                        .connections_max = 64};
    struct scheduler scheduler = {0};
    int slow;

    sem_init(&answer_now, 0, 0);
    assert_int_equal(scheduler_open(&options, &scheduler, NULL), KVR_OK);
    slow = get(scheduler.port, "/api/v1/transfers?request=a");
    hear(get(scheduler.port, "/metrics"), "HTTP/1.1 200");
    hear(ask(scheduler.port, report, sizeof(report) - 1), "HTTP/1.1 200");
    hear(get(scheduler.port, "/"), "HTTP/1.1 200");
    sem_post(&answer_now);
    hear(slow, "HTTP/1.1 200");
    for (int i = 0; i <= 2; i++) /* and a question that waits at the end */
        sem_post(&answer_now);
    slow = get(scheduler.port, "/api/v1/agents");
    hear(slow, "HTTP/1.1 200");
    scheduler_close(&scheduler);
    sem_destroy(&answer_now);
}

static void a_search_without_an_end_is_given_up(void **state)
{
    static const char endless[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                                  "SELECT count(*) FROM n";
    struct fixture *fixture = *state;
    struct store *reader;

    assert_int_equal(
        store_open_reader(&(struct store_place){.folder = fixture->folder}, &reader, NULL), KVR_OK);
    store_set_deadline(reader, kvr_clock_now() + 50 * KVR_MS);
    assert_int_not_equal(sqlite3_exec(store_sqlite_database(reader), endless, NULL, NULL, NULL),
                         SQLITE_OK);
    assert_true(store_timed_out(reader));
    store_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_slow_search_holds_up_no_report),
        WITH_STORE(a_search_without_an_end_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
