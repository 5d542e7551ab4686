/* Goal: over TLS an agent reports for itself alone, clients act by certificate or token, and no
 * other certificate is of use. A renewal loses no request. Method: libcurl, the reporter and
 * kvrail's own client against a whole scheduler, with small CAs. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/reporter.h"
#include "tests/support/certificates.h"
#include "tests/support/http_case.h"
#include "tools/scheduler_get.h"

#define REPORTS "/ingest/v1/events"

struct tls_case {
    struct http_case *http;
    struct authority ca, other;
    struct kvr_tls_config scheduler;
    char port_text[32];
};

static void make_certificates(struct tls_case *c)
{
    static const struct {
        const char *name, *uri;
        long begins, ends;
    } good[] = {
        {"scheduler", "kvrail://f/scheduler/s0", 0, 0},
        {"prefill-0", "kvrail://f/prefill/prefill-0", 0, 0},
        {"decode-0", "kvrail://f/decode/decode-0", 0, 0},
        {"ops", "kvrail://f/client/ops", 0, 0},
        {"expired", "kvrail://f/client/old", -7200, -3600},
        {"revoked", "kvrail://f/client/gone", 0, 0},
        {"foreign", "kvrail://g/client/ops", 0, 0},
    };
    struct certificate_shape shape = {.uri = "kvrail://f/client/ops"};
    unsigned serial = 0;

    authority_make(&c->ca, c->http->folder, "ca");
    authority_make(&c->other, c->http->folder, "other");
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct certificate_shape one = {
            .uri = good[i].uri, .begins = good[i].begins, .ends = good[i].ends, .loopback = i == 0};
        unsigned made = certificate_make(&c->ca, good[i].name, &one);

        if (strcmp(good[i].name, "revoked") == 0)
            serial = made;
    }
    certificate_make(&c->other, "stranger", &shape);
    crl_make(&c->ca, "crl", &serial, 1);
}

static int setup(void **state)
{
    struct tls_case *c = calloc(1, sizeof(*c));

    http_case_tokens((void **)&c->http);
    make_certificates(c);
    c->scheduler = certificates_config(c->http->folder, "scheduler", "ca", "crl");
    scheduler_close(&c->http->scheduler);
    c->http->scheduler = (struct scheduler){0};
    c->http->options.tls = &c->scheduler;
    c->http->options.access.tls = true;
    assert_int_equal(scheduler_open(&c->http->options, &c->http->scheduler, NULL), KVR_OK);
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct tls_case *c = *state;

    authority_done(&c->ca);
    authority_done(&c->other);
    http_case_close((void **)&c->http);
    free(c);
    return 0;
}

/* ---- requests ---- */

static size_t keep(char *data, size_t size, size_t count, void *self)
{
    struct http_case *http = self;
    size_t used = strlen(http->answer), room = sizeof(http->answer) - 1 - used;
    size_t bytes = size * count < room ? size * count : room;

    memcpy(http->answer + used, data, bytes);
    http->answer[used + bytes] = '\0';
    return size * count;
}

/* name: of a certificate of the folder; NULL: none. */
static CURL *browser(struct tls_case *c, const char *name)
{
    struct kvr_tls_config files = certificates_config(c->http->folder, name, "ca", NULL);
    CURL *curl = curl_easy_init();

    curl_easy_setopt(curl, CURLOPT_CAINFO, files.ca);
    if (name != NULL) {
        curl_easy_setopt(curl, CURLOPT_SSLCERT, files.certificate);
        curl_easy_setopt(curl, CURLOPT_SSLKEY, files.key);
    }
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, c->http);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, keep);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, c->http);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 20L);
    return curl;
}

/* The status, or minus libcurl's error. header: one more, or NULL. post: a body, or NULL. */
static long fetch(struct tls_case *c, CURL *curl, const char *path, const char *header,
                  const void *post, size_t bytes)
{
    struct curl_slist *headers = header != NULL ? curl_slist_append(NULL, header) : NULL;
    char url[256];
    long status = 0;
    CURLcode code;

    snprintf(url, sizeof(url), "https://localhost:%u%s", c->http->scheduler.port, path);
    c->http->answer[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    if (post != NULL) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)bytes);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, post);
    }
    code = curl_easy_perform(curl);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        return -(long)code;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static long fetch_once(struct tls_case *c, const char *name, const char *path, const char *header)
{
    CURL *curl = browser(c, name);
    long status = fetch(c, curl, path, header, NULL, 0);

    curl_easy_cleanup(curl);
    return status;
}

/* A report in that agent's name, with that certificate. */
static long report(struct tls_case *c, const char *name, const char *agent)
{
    static struct kvr_agent_facts facts;
    struct kvr_report text = {.boot = 7, .facts = &facts};
    CURL *curl = browser(c, name);
    uint8_t *bytes;
    size_t size;
    long status;

    strcpy(text.agent, agent);
    assert_int_equal(kvr_report_encode(&text, &bytes, &size), KVR_OK);
    status = fetch(c, curl, REPORTS, "Content-Type: application/x-protobuf", bytes, size);
    free(bytes);
    curl_easy_cleanup(curl);
    return status;
}

/* ---- tests ---- */

static void an_agent_reports_for_itself_alone(void **state)
{
    struct tls_case *c = *state;

    assert_int_equal(report(c, NULL, "decode-0"), 401);
    assert_true(http_case_has(c->http, "--tls-certificate"));
    assert_int_equal(report(c, "ops", "ops"), 403); /* a client is no agent */
    assert_true(http_case_has(c->http, "of this role"));
    assert_int_equal(report(c, "scheduler", "s0"), 403);
    assert_int_equal(report(c, "prefill-0", "decode-0"), 403);
    assert_true(http_case_has(c->http, "names another agent"));
    assert_int_equal(report(c, "stranger", "ops"), 403);
    assert_true(http_case_has(c->http, "of another CA"));
    assert_int_equal(report(c, "decode-0", "decode-0"), 200);
    assert_int_equal(report(c, "prefill-0", "prefill-0"), 200);
}

static void clients_act_and_others_do_not(void **state)
{
    static const char *const bad[] = {"stranger", "expired", "revoked", "foreign"};
    struct tls_case *c = *state;
    char bearer[128], order[] = "/api/v1/requests/r/abandon";
    CURL *ops = browser(c, "ops"), *agent = browser(c, "decode-0");

    assert_int_equal(fetch(c, ops, "/api/v1/agents", NULL, NULL, 0), 200);
    assert_int_equal(fetch(c, ops, order, NULL, "", 0), 404);
    assert_int_equal(fetch(c, ops, "/api/v1/session", NULL, NULL, 0), 200);
    assert_true(http_case_has(c->http, "\"name\":\"kvrail://f/client/ops\""));
    assert_int_equal(fetch(c, agent, "/api/v1/agents", NULL, NULL, 0), 403);
    assert_int_equal(fetch(c, agent, order, NULL, "", 0), 403);
    curl_easy_cleanup(ops);
    curl_easy_cleanup(agent);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(fetch_once(c, bad[i], "/api/v1/agents", NULL), 403);
        assert_true(http_case_has(c->http, "is not accepted"));
    }
    assert_int_equal(fetch_once(c, NULL, "/api/v1/agents", NULL), 401);
    snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s", c->http->reader);
    assert_int_equal(fetch_once(c, NULL, "/api/v1/agents", bearer), 200);
    assert_int_equal(fetch_once(c, NULL, "/metrics", bearer), 200);
    assert_true(http_case_has(c->http, "kvrail_http_refusals_total{reason=\"bad_certificate\"} 4"));
}

static void a_cookie_is_for_tls_alone(void **state)
{
    struct tls_case *c = *state;
    CURL *curl = browser(c, NULL);
    char header[128];

    snprintf(header, sizeof(header), "Authorization: Bearer %s", c->http->actor);
    assert_int_equal(fetch(c, curl, "/api/v1/session", header, "", 0), 201);
    assert_true(http_case_has(c->http, "Set-Cookie: __Host-kvrail_"));
    assert_true(http_case_has(c->http, "HttpOnly; SameSite=Strict; Secure"));
    assert_int_equal(fetch(c, curl, "/api/v1/agents", "Origin: http://localhost", NULL, 0), 403);
    curl_easy_cleanup(curl);
}

static void old_protocols_are_refused(void **state)
{
    static const long versions[] = {CURL_SSLVERSION_MAX_TLSv1_0, CURL_SSLVERSION_MAX_TLSv1_1};
    struct tls_case *c = *state;
    CURL *curl;

    for (size_t i = 0; i < 2; i++) {
        curl = browser(c, "ops");
        curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_0 | versions[i]);
        assert_true(fetch(c, curl, "/api/v1/agents", NULL, NULL, 0) < 0);
        curl_easy_cleanup(curl);
    }
    curl = browser(c, "ops");
    curl_easy_setopt(curl, CURLOPT_SSLVERSION,
                     CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_2);
    assert_int_equal(fetch(c, curl, "/api/v1/agents", NULL, NULL, 0), 200); /* a browser */
    curl_easy_cleanup(curl);
}

/* No TLS at all, plain HTTP, and handshakes that are cut, wrong or held open. */
static void broken_handshakes_disturb_no_other(void **state)
{
    static const char *const texts[] = {"",
                                        "\x16",
                                        "\x16\x03\x01\x02\x01\x01",
                                        "\x16\x03\x03\xff\xff",
                                        "\x15\x03\x03\x00\x02\x02\x28",
                                        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    static const size_t sizes[] = {0, 1, 6, 5, 7, 35};
    struct tls_case *c = *state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CURL *ops = browser(c, "ops");
    int held[64];

    at.sin_port = htons(c->http->scheduler.port);
    for (unsigned i = 0; i < 600; i++) {
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int *place = &held[i % 64];

        assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
        (void)send(client, texts[i % 6], sizes[i % 6], MSG_NOSIGNAL);
        if (i >= 64)
            close(*place);
        *place = client;
        if (i % 50 == 0)
            assert_int_equal(fetch(c, ops, "/healthz", NULL, NULL, 0), 200);
    }
    assert_int_equal(fetch_once(c, "ops", "/healthz", NULL), 200);
    for (unsigned i = 0; i < 64; i++)
        close(held[i]);
    curl_easy_cleanup(ops);
}

static void replace(struct tls_case *c, const char *from, const char *to)
{
    static const char *const kinds[] = {"pem", "key"};

    for (int i = 0; i < 2; i++) {
        char a[FOLDER_BYTES + 64], b[FOLDER_BYTES + 64];

        snprintf(a, sizeof(a), "%s/%s.%s", c->http->folder, from, kinds[i]);
        snprintf(b, sizeof(b), "%s/%s.%s", c->http->folder, to, kinds[i]);
        assert_int_equal(rename(a, b), 0);
    }
}

/* What libcurl says of the certificate that the scheduler shows. */
static void shown_certificate(struct tls_case *c, char text[8192])
{
    CURL *curl = browser(c, "ops");
    struct curl_certinfo *info = NULL;

    curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
    assert_int_equal(fetch(c, curl, "/healthz", NULL, NULL, 0), 200);
    curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info);
    text[0] = '\0';
    for (struct curl_slist *line = info->certinfo[0]; line != NULL; line = line->next)
        if (strlen(text) + strlen(line->data) < 8192)
            strcat(text, line->data);
    assert_string_not_equal(text, "");
    curl_easy_cleanup(curl);
}

static void a_renewal_loses_no_request(void **state)
{
    struct certificate_shape longer = {
        .uri = "kvrail://f/scheduler/s0", .ends = 5 * 86400, .loopback = true};
    struct tls_case *c = *state;
    CURL *held = browser(c, "ops");
    char before[8192], after[8192];

    assert_int_equal(fetch(c, held, "/healthz", NULL, NULL, 0), 200);
    shown_certificate(c, before);
    certificate_make(&c->ca, "newer", &longer);
    replace(c, "newer", "scheduler");
    for (int i = 0; i < 3; i++)
        http_tick(c->http->scheduler.http, kvr_clock_now());
    assert_int_equal(fetch(c, held, "/healthz", NULL, NULL, 0), 200); /* the same connection */
    shown_certificate(c, after);
    assert_string_not_equal(before, after);
    /* files that cannot be used change nothing */
    replace(c, "stranger", "scheduler");
    for (int i = 0; i < 3; i++)
        http_tick(c->http->scheduler.http, kvr_clock_now());
    shown_certificate(c, before);
    assert_string_equal(before, after);
    curl_easy_cleanup(held);
}

/* Also on a connection that was there before. */
static void a_revocation_holds_at_once(void **state)
{
    struct tls_case *c = *state;
    CURL *held = browser(c, "ops");
    unsigned serials[64];

    assert_int_equal(fetch(c, held, "/api/v1/agents", NULL, NULL, 0), 200);
    for (unsigned i = 0; i < 64; i++)
        serials[i] = i + 1;
    crl_make(&c->ca, "crl", serials + 2, 62); /* all but the CA's and the scheduler's */
    http_tls_look(c->http->scheduler.tls, true);
    assert_int_equal(fetch(c, held, "/api/v1/agents", NULL, NULL, 0), 403);
    curl_easy_cleanup(held);
}

/* One event of that agent is on its way, with that certificate. */
static struct kvr_reporter *open_reporter(struct tls_case *c, const char *name, const char *agent)
{
    struct kvr_tls_config files = certificates_config(c->http->folder, name, "ca", NULL);
    struct kvr_reporter_options options = {
        .agent = agent, .boot = 9, .close_ms = 200, .tls = &files};
    struct kvr_event event = {.kind = KVR_EVENT_ENDED, .transfer = 5, .at = 1, .request = "r"};
    struct kvr_reporter *reporter;
    struct kvr_event_sink sink;

    snprintf(c->port_text, sizeof(c->port_text), "127.0.0.1:%u", c->http->scheduler.port);
    options.schedulers[0] = c->port_text;
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    sink = kvr_reporter_sink(reporter);
    sink.emit(sink.self, &event);
    return reporter;
}

/* Until the event is acknowledged, or a post has failed with that sentence. A slow machine may fail
 * otherwise before. */
static struct kvr_reporter_stats wait_for(struct kvr_reporter *reporter, const char *failure)
{
    const struct timespec rest = {0, 20 * 1000 * 1000};
    struct kvr_reporter_stats stats = {0};

    for (int i = 0; i < 3000 && stats.acknowledged == 0; i++) {
        nanosleep(&rest, NULL);
        kvr_reporter_stats(reporter, &stats);
        if (failure != NULL && strstr(stats.failure, failure) != NULL)
            return stats;
    }
    if (failure != NULL)
        fail_msg("not '%s' but: %s", failure, stats.failure);
    return stats;
}

/* No event is lost: a certificate can be mended. */
static void is_refused(struct tls_case *c, const char *name, const char *agent, const char *failure)
{
    struct kvr_reporter *reporter = open_reporter(c, name, agent);
    struct kvr_reporter_stats stats = wait_for(reporter, failure);

    assert_int_equal(stats.acknowledged, 0);
    assert_int_equal(stats.dropped, 0);
    kvr_reporter_close(reporter);
}

/* The agent's certificate was of another CA; the good one replaces it while the agent runs. */
static void a_renewed_certificate_of_an_agent_is_shown(void **state)
{
    struct tls_case *c = *state;
    struct kvr_reporter *reporter = open_reporter(c, "stranger", "decode-0");

    (void)wait_for(reporter, "it answers 403: the client certificate is not accepted");
    replace(c, "decode-0", "stranger");
    assert_int_equal(wait_for(reporter, NULL).acknowledged, 1);
    kvr_reporter_close(reporter);
}

static void the_reporter_shows_its_certificate(void **state)
{
    struct tls_case *c = *state;
    struct kvr_reporter *reporter = open_reporter(c, "decode-0", "decode-0");

    assert_int_equal(wait_for(reporter, NULL).acknowledged, 1);
    kvr_reporter_close(reporter);
    is_refused(c, "decode-0", "decode-1", "it answers 403: the report names another agent");
}

/* A scheduler of another CA gets no report. */
static void the_reporter_checks_the_scheduler(void **state)
{
    struct tls_case *c = *state;

    replace(c, "ca", "hidden");
    replace(c, "other", "ca");
    is_refused(c, "decode-0", "decode-0", "certificate verification failed");
}

static void commands_speak_tls(void **state)
{
    struct tls_case *c = *state;
    struct scheduler_call options = {.timeout = 20 * KVR_S};
    struct kvr_error error = {0};
    json_t *answer;

    snprintf(options.address, sizeof(options.address), "127.0.0.1:%u", c->http->scheduler.port);
    options.tls = certificates_config(c->http->folder, "ops", "ca", NULL);
    assert_int_equal(scheduler_prepare(&options, &error), KVR_OK);
    answer = scheduler_get(&options, "/api/v1/agents", "agents", &error);
    if (answer == NULL)
        fail_msg("%s", error.detail);
    json_decref(answer);
    options.tls = certificates_config(c->http->folder, "ops", "other", NULL);
    assert_null(scheduler_get(&options, "/api/v1/agents", "agents", &error));
    assert_int_equal(error.status, KVR_REFUSED);
    assert_non_null(strstr(error.detail, "does not lead to the CA"));
    options.tls = (struct kvr_tls_config){0};
    snprintf(options.address, sizeof(options.address), "http://127.0.0.1:%u",
             c->http->scheduler.port);
    assert_int_equal(scheduler_prepare(&options, &error), KVR_OK);
    assert_null(scheduler_get(&options, "/api/v1/agents", "agents", &error));
    assert_int_equal(error.status, KVR_SYSTEM);
}

#define TLS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS(an_agent_reports_for_itself_alone),
        TLS(clients_act_and_others_do_not),
        TLS(a_cookie_is_for_tls_alone),
        TLS(old_protocols_are_refused),
        TLS(broken_handshakes_disturb_no_other),
        TLS(a_renewal_loses_no_request),
        TLS(a_revocation_holds_at_once),
        TLS(the_reporter_shows_its_certificate),
        TLS(a_renewed_certificate_of_an_agent_is_shown),
        TLS(the_reporter_checks_the_scheduler),
        TLS(commands_speak_tls),
    };

    curl_global_init(CURL_GLOBAL_DEFAULT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
