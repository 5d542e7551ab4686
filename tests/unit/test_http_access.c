/* Goal: over HTTP a right is needed to read or act, and no foreign page makes a browser do so. Each
 * refusal has its status, its sentence and its count. Method: attacks as text against a whole
 * scheduler, with and without tokens. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "http/guesses.h"
#include "http/sessions.h"
#include "tests/support/http_case.h"

#define BEARER "Authorization: Bearer %s\r\n"
#define ORDER  "/api/v1/requests/r/abandon"

static uint64_t refused(struct http_case *c, const char *reason)
{
    char name[64];

    snprintf(name, sizeof(name), "http_refusals_total{reason=\"%s\"}", reason);
    return http_case_metric(c, name);
}

/* DNS rebinding: the page's own name leads to the scheduler's address. */
static void a_foreign_host_is_refused(void **state)
{
    static const char *const foreign[] = {"evil.example",
                                          "evil.example:9470",
                                          "10.1.2.3",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example",
                                          "[::2]",
                                          "",
                                          "a b",
                                          "localhost:x"};
    static const char *const own[] = {"localhost", "127.0.0.1", "127.0.0.1:9470", "[::1]:9470",
                                      "LOCALHOST:1"};
    static const char *const paths[] = {"/", "/metrics", "/healthz", "/api/v1/agents",
                                        "/api/v1/session"};
    struct http_case *c = *state;

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++)
            assert_int_equal(http_case_askf(c, "GET %s\r\nHost: %s\r\n", paths[k], foreign[i]),
                             421);
    assert_true(http_case_has(c, "--host NAME"));
    assert_int_equal(refused(c, "foreign_host"), 9 * 5);
    assert_int_equal(http_case_ask(c, "POST /ingest/v1/events\r\nHost: evil.example\r\n"
                                      "Content-Type: application/x-protobuf\r\n"),
                     421);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        assert_int_equal(http_case_askf(c, "GET /metrics\r\nHost: %s\r\n", own[i]), 200);
}

/* --host, the connection's own address and this host's name; an address is one however it is
 * written. */
static void more_hosts_can_be_named(void **state)
{
    struct hosts hosts = {.own = "node-3",
                          .extra = {.count = 2, .items = {"kvrail.example", "2001:db8::1"}}};
    const struct kvr_address local = {.host = "::ffff:10.0.0.5"};

    (void)state;
    assert_true(hosts_allow(&hosts, "kvrail.example", NULL));
    assert_true(hosts_allow(&hosts, "Kvrail.Example:9470", NULL));
    assert_true(hosts_allow(&hosts, "[2001:DB8:0::1]:9470", NULL));
    assert_true(hosts_allow(&hosts, "node-3:9470", NULL));
    assert_true(hosts_allow(&hosts, "10.0.0.5:9470", &local));
    assert_false(hosts_allow(&hosts, "10.0.0.5:9470", NULL));
    assert_false(hosts_allow(&hosts, "10.0.0.6", &local));
    assert_false(hosts_allow(&hosts, "xkvrail.example", &local));
    assert_false(hosts_allow(&(struct hosts){0}, "", NULL));
}

static void a_foreign_origin_is_refused(void **state)
{
    struct http_case *c = *state;

    assert_int_equal(http_case_ask(c, "POST " ORDER "\r\nOrigin: http://evil.example\r\n"), 403);
    assert_int_equal(http_case_ask(c, "POST " ORDER "\r\nOrigin: null\r\n"), 403);
    assert_int_equal(http_case_ask(c, "GET /api/v1/agents\r\nOrigin: http://localhost:3000\r\n"),
                     403); /* another port is another site */
    assert_int_equal(http_case_ask(c, "GET /api/v1/agents\r\nSec-Fetch-Site: cross-site\r\n"), 403);
    assert_int_equal(http_case_ask(c, "GET /api/v1/agents\r\nSec-Fetch-Site: same-site\r\n"), 403);
    assert_int_equal(http_case_ask(c, "GET /\r\nSec-Fetch-Site: cross-site\r\n"), 200); /* a link */
    assert_int_equal(http_case_ask(c, "GET /api/v1/agents\r\nSec-Fetch-Site: same-origin\r\n"),
                     200);
    assert_int_equal(http_case_ask(c, "POST " ORDER "\r\nOrigin: http://localhost\r\n"), 404);
    assert_int_equal(refused(c, "foreign_origin"), 5);
}

static void a_token_in_a_url_is_never_taken(void **state)
{
    struct http_case *c = *state;

    assert_int_equal(http_case_askf(c, "GET /api/v1/agents?token=%s\r\n", c->reader), 400);
    assert_true(http_case_has(c, "never accepted"));
    assert_int_equal(
        http_case_askf(c, "GET /api/v1/transfers?request=%s\r\n" BEARER, c->reader, c->reader),
        400); /* a right one in its place changes nothing */
    assert_int_equal(http_case_askf(c, "GET /%s\r\n", c->actor), 400);
    assert_int_equal(http_case_askf(c, "POST " ORDER "?access_token=%s\r\n", c->actor), 400);
    assert_int_equal(http_case_askf(c, "POST /api/v1/session?token=%s\r\n", c->actor), 400);
    assert_int_equal(refused(c, "token_in_url"), 5);
}

static void rights_are_kept_apart(void **state)
{
    static const char *const reads[] = {"/api/v1/agents", "/api/v1/summary", "/api/v1/transfers",
                                        "/api/v1/audit",  "/metrics",        "/healthz",
                                        "/nowhere",       "/api/v1/session"};
    struct http_case *c = *state;

    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        int open = strcmp(reads[i], "/nowhere") == 0 ? 404 : 200;

        assert_int_equal(http_case_askf(c, "GET %s\r\n", reads[i]), 401);
        assert_true(http_case_has(c, "WWW-Authenticate: Bearer"));
        assert_true(http_case_has(c, "--token-file"));
        assert_int_equal(http_case_askf(c, "GET %s\r\n" BEARER, reads[i], c->reader), open);
        assert_int_equal(http_case_askf(c, "GET %s\r\n" BEARER, reads[i], c->actor), open);
    }
    assert_int_equal(http_case_ask(c, "GET /\r\n"), 200); /* the form for signing in */
    assert_int_equal(http_case_ask(c, "POST " ORDER "\r\n"), 401);
    assert_int_equal(http_case_askf(c, "POST " ORDER "\r\n" BEARER, c->reader), 403);
    assert_true(http_case_has(c, "may read and not act"));
    assert_int_equal(http_case_askf(c, "POST " ORDER "\r\n" BEARER, c->actor), 404);
    assert_int_equal(http_case_askf(c, "POST " ORDER "\r\nAuthorization: Basic %s\r\n", c->actor),
                     401);
    assert_int_equal(refused(c, "no_right"), 1);
    assert_int_equal(refused(c, "no_token"), 9);
}

/* The tokens that they know make no other wait, from the same address too. */
static void a_thousand_wrong_tokens_slow_no_other(void **state)
{
    struct http_case *c = *state;
    char wrong[KVR_TOKEN_TEXT_BYTES];
    int forbidden = 0, waiting = 0;
    kvr_ns begun;

    for (int i = 0; i < 1000; i++) {
        int status;

        kvr_token_make(wrong);
        status = http_case_askf(c, "GET /api/v1/agents\r\n" BEARER, wrong);
        forbidden += status == 401;
        waiting += status == 429;
    }
    assert_int_equal(forbidden, GUESSES_PER_MINUTE);
    assert_int_equal(waiting, 1000 - GUESSES_PER_MINUTE);
    assert_true(http_case_has(c, "Retry-After: 60"));
    begun = kvr_clock_now();
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\n" BEARER, c->reader), 200);
    assert_true(kvr_clock_now() - begun < 5 * KVR_S);
    assert_int_equal(refused(c, "wrong_token"), GUESSES_PER_MINUTE);
    assert_int_equal(refused(c, "many_wrong_tokens"), 1000 - GUESSES_PER_MINUTE);
}

static void guesses_are_counted_by_address(void **state)
{
    struct kvr_address a = {.host = "10.0.0.7"}, b = {.host = "2001:db8:1:2::3"},
                       c = {.host = "2001:db8:1:2::4"};
    struct guesses *guesses = calloc(1, sizeof(*guesses));

    (void)state;
    for (int i = 0; i < 2 * GUESSES_PER_MINUTE; i++)
        assert_true(guesses_wrong(guesses, &a, KVR_S) == (i < GUESSES_PER_MINUTE));
    assert_true(guesses_wrong(guesses, &b, KVR_S));
    for (int i = 1; i < GUESSES_PER_MINUTE; i++) /* one network is one address */
        assert_true(guesses_wrong(guesses, &c, KVR_S));
    assert_false(guesses_wrong(guesses, &b, KVR_S));
    assert_true(guesses_wrong(guesses, NULL, KVR_S));
    assert_true(guesses_wrong(guesses, &a, 62 * KVR_S)); /* the minute is over */
    for (uint32_t i = 0; i < 2 * GUESSES_SOURCES_MAX; i++) {
        struct kvr_address other;

        snprintf(other.host, sizeof(other.host), "10.1.%u.%u", i / 250, i % 250 + 1);
        assert_true(guesses_wrong(guesses, &other, 70 * KVR_S + i));
    }
    free(guesses);
}

static int sign_in(struct http_case *c, const char *token)
{
    return http_case_askf(c, "POST /api/v1/session\r\n" BEARER, token);
}

static void a_session_stands_for_its_token(void **state)
{
    struct http_case *c = *state;
    char cookie[sizeof(c->cookie)];

    assert_int_equal(http_case_ask(c, "POST /api/v1/session\r\n"), 401);
    assert_int_equal(sign_in(c, "kvrail_0"), 401);
    assert_int_equal(sign_in(c, c->actor), 201);
    assert_true(http_case_has(c, "HttpOnly; SameSite=Strict\r\n"));
    assert_true(http_case_has(c, "Max-Age=3600"));
    assert_true(http_case_has(c, "\"right\":\"act\""));
    assert_false(http_case_has(c, c->actor)); /* the token itself comes back nowhere */
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\nCookie: %s\r\n", c->cookie), 200);
    assert_int_equal(http_case_askf(c, "GET /api/v1/session\r\nCookie: %s\r\n", c->cookie), 200);
    assert_true(http_case_has(c, "\"via\":\"session\""));
    /* what a foreign page can do: the cookie, and no header of its own */
    assert_int_equal(http_case_askf(c, "POST " ORDER "\r\nCookie: %s\r\n", c->cookie), 403);
    assert_true(http_case_has(c, "X-Kvrail-Request"));
    assert_int_equal(http_case_askf(c,
                                    "POST " ORDER "\r\nCookie: %s\r\nX-Kvrail-Request: 1\r\n"
                                    "Origin: http://localhost\r\n",
                                    c->cookie),
                     404);
    strcpy(cookie, c->cookie);
    assert_int_equal(http_case_askf(c, "DELETE /api/v1/session\r\nCookie: %s\r\n", cookie), 403);
    assert_int_equal(
        http_case_askf(c, "DELETE /api/v1/session\r\nCookie: %s\r\nX-Kvrail-Request: 1\r\n",
                       cookie),
        200);
    assert_true(http_case_has(c, "Max-Age=0"));
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\nCookie: %s\r\n", cookie), 401);
    assert_true(http_case_has(c, "session has ended"));
    assert_int_equal(
        http_case_askf(c, "DELETE /api/v1/session\r\nCookie: %s\r\nX-Kvrail-Request: 1\r\n",
                       cookie),
        401);
}

static void a_session_of_a_reader_does_not_act(void **state)
{
    struct http_case *c = *state;

    assert_int_equal(sign_in(c, c->reader), 201);
    assert_int_equal(
        http_case_askf(c, "POST " ORDER "\r\nCookie: %s\r\nX-Kvrail-Request: 1\r\n", c->cookie),
        403);
    assert_int_equal(refused(c, "no_right"), 1);
}

static void a_changed_token_file_ends_sessions(void **state)
{
    struct http_case *c = *state;
    char reader[sizeof(c->cookie)];

    assert_int_equal(sign_in(c, c->reader), 201);
    strcpy(reader, c->cookie);
    assert_int_equal(sign_in(c, c->actor), 201);
    http_case_write_tokens(c, true, false);
    http_tick(c->scheduler.http, kvr_clock_now());
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\nCookie: %s\r\n", c->cookie), 401);
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\n" BEARER, c->actor), 401);
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\nCookie: %s\r\n", reader), 200);
    /* a file that is wrong, or gone, opens nothing and closes nothing */
    assert_int_equal(truncate(c->token_file, 40), 0);
    http_tick(c->scheduler.http, kvr_clock_now());
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\n" BEARER, c->reader), 200);
    assert_int_equal(unlink(c->token_file), 0);
    http_tick(c->scheduler.http, kvr_clock_now());
    assert_int_equal(http_case_ask(c, "GET /api/v1/agents\r\n"), 401);
    assert_int_equal(http_case_askf(c, "GET /api/v1/agents\r\n" BEARER, c->reader), 200);
}

static void sessions_are_bounded(void **state)
{
    struct sessions *sessions = calloc(1, sizeof(*sessions));
    struct token token = {.right = RIGHT_ACT}, other = {.right = RIGHT_READ};
    struct kvr_token_hash cookie = {{0}}, first = {{1}};

    (void)state;
    kvr_token_hash("other", &other.hash);
    sessions_begin(sessions, &first, &other, KVR_S, 3600 * KVR_S);
    for (unsigned i = 0; i < 3 * SESSIONS_PER_TOKEN; i++) {
        cookie.bytes[1] = (uint8_t)(i + 1);
        sessions_begin(sessions, &cookie, &token, KVR_S + i, 60 * KVR_S);
    }
    assert_int_equal(sessions_count(sessions, 2 * KVR_S), SESSIONS_PER_TOKEN + 1);
    assert_non_null(sessions_find(sessions, &first, 2 * KVR_S));
    assert_non_null(sessions_find(sessions, &cookie, 2 * KVR_S)); /* the newest */
    assert_null(sessions_find(sessions, &cookie, 62 * KVR_S));
    assert_int_equal(sessions_count(sessions, 62 * KVR_S), 1);
    free(sessions);
}

static void actions_are_in_the_audit_log(void **state)
{
    struct http_case *c = *state;

    assert_int_equal(sign_in(c, c->actor), 201);
    assert_int_equal(http_case_askf(c, "POST " ORDER "?attempt=3\r\n" BEARER, c->reader), 403);
    assert_int_equal(http_case_askf(c, "POST " ORDER "?attempt=3\r\n" BEARER, c->actor), 404);
    assert_int_equal(http_case_askf(c, "GET /api/v1/audit\r\n" BEARER, c->reader), 200);
    assert_true(http_case_has(
        c, "\"action\":\"abandon\",\"actor\":\"ops\",\"via\":\"token\",\"object\":\"r\",\"from\":"
           "\"127.0.0.1\",\"outcome\":\"not_found\",\"detail\":\"no such request is known"));
    assert_true(http_case_has(c,
                              "\"action\":\"order\",\"actor\":\"dashboard\",\"via\":\"token\","
                              "\"object\":null,\"from\":\"127.0.0.1\",\"outcome\":\"no_right\""));
    assert_true(http_case_has(c, "\"action\":\"sign_in\",\"actor\":\"ops\",\"via\":\"token\","
                                 "\"object\":null,\"from\":\"127.0.0.1\",\"outcome\":\"done\""));
    assert_int_equal(http_case_askf(c, "GET /api/v1/audit?limit=1\r\n" BEARER, c->reader), 200);
    assert_true(http_case_has(c, "\"next\":\"3\""));
    assert_int_equal(http_case_askf(c, "GET /api/v1/audit?limit=1&after=2\r\n" BEARER, c->reader),
                     200);
    assert_true(http_case_has(c, "sign_in"));
    assert_int_equal(http_case_askf(c, "GET /api/v1/audit?state=live\r\n" BEARER, c->reader), 400);
}

static void every_answer_has_its_headers(void **state)
{
    static const char *const paths[] = {"/", "/LICENSES.txt", "/metrics", "/api/v1/agents",
                                        "/nowhere"};
    struct http_case *c = *state;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        (void)http_case_askf(c, "GET %s\r\n", paths[i]);
        assert_true(http_case_has(c, "Content-Security-Policy: default-src 'none'"));
        assert_true(http_case_has(c, "frame-ancestors 'none'"));
        assert_false(http_case_has(c, "unsafe-"));
        assert_true(http_case_has(c, "X-Content-Type-Options: nosniff\r\n"));
        assert_true(http_case_has(c, "Referrer-Policy: no-referrer\r\n"));
        assert_true(http_case_has(c, i < 2 ? "Cache-Control: no-cache\r\n"
                                           : "Cache-Control: no-store\r\n"));
    }
}

static void what_is_open_needs_no_token(void **state)
{
    struct http_case *c = *state;

    scheduler_close(&c->scheduler);
    c->scheduler = (struct scheduler){0};
    c->options.access.open_metrics = c->options.access.open_health = true;
    assert_int_equal(scheduler_open(&c->options, &c->scheduler, NULL), KVR_OK);
    assert_int_equal(http_case_ask(c, "GET /metrics\r\n"), 200);
    assert_int_equal(http_case_ask(c, "GET /healthz\r\n"), 200);
    assert_int_equal(http_case_ask(c, "GET /api/v1/summary\r\n"), 401);
}

static void token_files_are_checked(void **state)
{
    static const char hash[] =
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    static const struct {
        const char *text, *wrong;
    } files[] = {
        {"ops act HASH\n\n# a remark\n  reader  read\tHASH\r\n", NULL},
        {"", NULL},
        {"ops act", "line 1: the hash"},
        {"a act HASH\na read HASH\n", "line 2: that name"},
        {"ops write HASH", "the right is read or act"},
        {"ops/x act HASH", "a name has letters"},
        {"ops act HASH x", "behind the hash"},
        {"ops act kvrail_00", "does not belong here"},
    };
    struct tokens *tokens = malloc(sizeof(*tokens));

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct kvr_error error = {0};
        char text[512] = "";
        kvr_status status;

        for (const char *at = files[i].text; *at != '\0'; at++) {
            bool place = strncmp(at, "HASH", 4) == 0;

            strncat(text, place ? hash : at, place ? sizeof(hash) : 1);
            at += place ? 3 : 0;
        }
        status = tokens_parse(text, "tokens", tokens, &error);
        assert_int_equal(status, files[i].wrong == NULL ? KVR_OK : KVR_INVALID);
        if (files[i].wrong != NULL && strstr(error.detail, files[i].wrong) == NULL)
            fail_msg("'%s' says: %s", files[i].text, error.detail);
    }
    free(tokens);
}

#define OPEN(test)   cmocka_unit_test_setup_teardown(test, http_case_open, http_case_close)
#define TOKENS(test) cmocka_unit_test_setup_teardown(test, http_case_tokens, http_case_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN(a_foreign_host_is_refused),
        cmocka_unit_test(more_hosts_can_be_named),
        OPEN(a_foreign_origin_is_refused),
        OPEN(every_answer_has_its_headers),
        TOKENS(a_token_in_a_url_is_never_taken),
        TOKENS(rights_are_kept_apart),
        TOKENS(a_thousand_wrong_tokens_slow_no_other),
        cmocka_unit_test(guesses_are_counted_by_address),
        TOKENS(a_session_stands_for_its_token),
        TOKENS(a_session_of_a_reader_does_not_act),
        TOKENS(a_changed_token_file_ends_sessions),
        cmocka_unit_test(sessions_are_bounded),
        TOKENS(actions_are_in_the_audit_log),
        TOKENS(what_is_open_needs_no_token),
        cmocka_unit_test(token_files_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
