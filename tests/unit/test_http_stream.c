/* Goal: an open page hears what the writer commits, without asking; a page that comes back, reads
 * slowly or has lost its right gets what the stream's rules say. Method: sockets against a whole
 * scheduler, and reports as agents post them. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/http_case.h"
#include "tests/support/store_case.h"

#define PATIENCE_S 30

struct page {
    int socket;
    char text[1 << 20]; /* received, and not awaited yet */
    size_t bytes;
};

static struct page *page_open(struct http_case *c, const char *headers)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(c->scheduler.port)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    struct page *page = calloc(1, sizeof(*page));
    char text[512];
    int length, small = 8192;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    page->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(page->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(page->socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(connect(page->socket, (struct sockaddr *)&at, sizeof(at)), 0);
    length = snprintf(text, sizeof(text),
                      "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers);
    assert_int_equal(send(page->socket, text, (size_t)length, MSG_NOSIGNAL), length);
    return page;
}

static void page_close(struct page *page)
{
    close(page->socket);
    free(page);
}

/* False: the connection ended. */
static bool page_hears(struct page *page)
{
    ssize_t got =
        recv(page->socket, page->text + page->bytes, sizeof(page->text) - 1 - page->bytes, 0);

    if (got < 0)
        fail_msg("nothing came for %d s", PATIENCE_S);
    page->bytes += (size_t)got;
    page->text[page->bytes] = '\0';
    return got > 0;
}

/* Reads until that has come, and drops the text before it. */
static void page_awaits(struct page *page, const char *text)
{
    const char *found;

    while ((found = strstr(page->text, text)) == NULL)
        if (!page_hears(page))
            fail_msg("the stream ended before \"%s\"", text);
    page->bytes -= (size_t)(found - page->text);
    memmove(page->text, found, page->bytes + 1);
}

/* Of the next event of that kind. */
static long long page_id(struct page *page, const char *kind)
{
    char event[64];
    const char *at;

    snprintf(event, sizeof(event), "\nevent: %s\n", kind);
    page_awaits(page, "id: ");
    for (;;) {
        at = strstr(page->text, event);
        if (at != NULL)
            break;
        assert_true(page_hears(page));
    }
    while (at > page->text && strncmp(at, "id: ", 4) != 0)
        at--;
    return strtoll(at + 4, NULL, 10);
}

static void post(struct http_case *c, const struct kvr_report *report)
{
    uint8_t *bytes = NULL;
    size_t size;

    assert_int_equal(kvr_report_encode(report, &bytes, &size), KVR_OK);
    assert_int_equal(http_case_post(c,
                                    "POST /ingest/v1/events\r\n"
                                    "Content-Type: application/x-protobuf\r\n",
                                    bytes, size),
                     200);
    free(bytes);
}

/* A transfer of prefill-0 with that number begins. */
static void begin_transfer(struct http_case *c, uint64_t number)
{
    struct kvr_event event = event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, number, number);
    struct kvr_report report = report_of("prefill-0", number, &event, 1);

    post(c, &report);
}

static void a_page_hears_what_is_committed(void **state)
{
    static struct kvr_agent_facts facts = {.role = KVR_ROLE_SOURCE, .host = "h", .rail_count = 1};
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    struct page *page = page_open(*state, "");

    page_awaits(page, "HTTP/1.1 200");
    page_awaits(page, "Content-Type: text/event-stream\r\n");
    page_awaits(page, "\nevent: snapshot\ndata: {\"summary\":");
    begin_transfer(*state, 1);
    page_awaits(page, "\nevent: delta\ndata: {");
    page_awaits(page, "\"id\":\"0000000000000001\"");
    facts.rails[0].bytes = 4711;
    report.facts = &facts;
    post(*state, &report);
    page_awaits(page, "\"name\":\"prefill-0\"");
    page_awaits(page, "\"rail_bytes\":[4711]");
    page_close(page);
}

static void a_page_that_comes_back_hears_the_gap(void **state)
{
    struct http_case *c = *state;
    struct page *page = page_open(c, "");
    char header[64];
    long long id;

    begin_transfer(c, 1);
    page_awaits(page, "\"id\":\"0000000000000001\"");
    id = page_id(page, "delta");
    page_close(page);
    begin_transfer(c, 2);
    snprintf(header, sizeof(header), "Last-Event-ID: %lld\r\n", id);
    page = page_open(c, header);
    page_awaits(page, "\r\n\r\n");
    page_awaits(page, "event: delta");
    page_awaits(page, "\"id\":\"0000000000000002\"");
    page_close(page);
    page = page_open(c, "Last-Event-ID: 12\r\n"); /* of long ago */
    page_awaits(page, "event: resync\n");
    page_awaits(page, "event: snapshot\n");
    page_awaits(page, "\"id\":\"0000000000000002\"");
    page_close(page);
    page = page_open(c, "Last-Event-ID: what\r\n");
    page_awaits(page, "event: resync\n");
    page_close(page);
    assert_true(http_case_metric(c, "stream_resyncs_total") >= 2);
}

/* What the stream's rules say when it misses some stands in unit.stream_book. */
static void a_page_that_does_not_read_holds_nobody_up(void **state)
{
    struct http_case *c = *state;
    struct page *slow = page_open(c, ""), *quick = page_open(c, "");

    page_awaits(slow, "event: snapshot\n");
    page_awaits(quick, "event: snapshot\n");
    for (uint64_t number = 1; number <= 4; number++) {
        char id[32];

        begin_transfer(c, number);
        snprintf(id, sizeof(id), "\"id\":\"%016llx\"", (unsigned long long)number);
        page_awaits(quick, id);
    }
    page_awaits(slow, "\"id\":\"0000000000000001\"");
    page_awaits(slow, "\"id\":\"0000000000000004\"");
    page_close(slow);
    page_close(quick);
}

static void there_are_so_many_pages(void **state)
{
    struct http_case *c = *state;
    static struct page *pages[STREAM_VIEWERS_MAX];

    for (int i = 0; i < STREAM_VIEWERS_MAX; i++)
        pages[i] = page_open(c, "");
    for (int i = 0; i < STREAM_VIEWERS_MAX; i++)
        page_awaits(pages[i], "event: snapshot\n");
    assert_int_equal(http_case_ask(c, "GET /api/v1/stream\r\n"), 503);
    assert_true(http_case_has(c, "200 viewers"));
    assert_int_equal(http_case_metric(c, "stream_viewers"), STREAM_VIEWERS_MAX);
    assert_int_equal(http_case_metric(c, "stream_refused_total"), 1);
    begin_transfer(c, 1);
    for (int i = 0; i < STREAM_VIEWERS_MAX; i++)
        page_awaits(pages[i], "\"id\":\"0000000000000001\"");
    for (int i = 0; i < STREAM_VIEWERS_MAX; i++)
        page_close(pages[i]);
}

static void bad_requests_are_refused(void **state)
{
    assert_int_equal(http_case_ask(*state, "GET /api/v1/stream?since=1\r\n"), 400);
    assert_int_equal(http_case_ask(*state, "POST /api/v1/stream\r\n"), 405);
    assert_int_equal(http_case_ask(*state, "HEAD /api/v1/stream\r\n"), 200);
}

static void a_page_without_a_right_hears_nothing(void **state)
{
    struct http_case *c = *state;
    char header[256];
    struct page *page;

    assert_int_equal(http_case_ask(c, "GET /api/v1/stream\r\n"), 401);
    snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n", c->reader);
    page = page_open(c, header);
    page_awaits(page, "event: snapshot\n");
    http_case_write_tokens(c, false, true);
    access_reread(c->scheduler.access, true);
    while (page_hears(page)) /* it ends at the next look */
        page->bytes = 0;
    page_close(page);
}

/* cmocka's teardown closes the scheduler with pages that wait. */
static void pages_do_not_keep_the_scheduler(void **state)
{
    struct page *pages[4];

    for (int i = 0; i < 4; i++)
        pages[i] = page_open(*state, "");
    for (int i = 0; i < 4; i++) {
        page_awaits(pages[i], "event: snapshot\n");
        shutdown(pages[i]->socket, i < 2 ? SHUT_RDWR : SHUT_WR);
        free(pages[i]); /* the sockets stay open */
    }
}

#define CASE(test)        cmocka_unit_test_setup_teardown(test, http_case_open, http_case_close)
#define WITH_TOKENS(test) cmocka_unit_test_setup_teardown(test, http_case_tokens, http_case_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_page_hears_what_is_committed),
        CASE(a_page_that_comes_back_hears_the_gap),
        CASE(a_page_that_does_not_read_holds_nobody_up),
        CASE(there_are_so_many_pages),
        CASE(bad_requests_are_refused),
        WITH_TOKENS(a_page_without_a_right_hears_nothing),
        CASE(pages_do_not_keep_the_scheduler),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
