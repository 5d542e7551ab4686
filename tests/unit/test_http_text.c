/* Goal: each request gets an answer, whatever bytes its path and its parameters have.
 * Method: a whole scheduler in this process; requests with malformed UTF-8 in each place that takes
 * a name. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>

#include "http/problem.h"
#include "tests/support/http_case.h"

/* The body of the last answer is a problem in JSON. */
static void expect_problem(struct http_case *c, const char *head, int status, const char *text)
{
    int found = http_case_ask(c, head);
    const char *body = strstr(c->answer, "\r\n\r\n");
    json_t *json;

    if (found != status)
        fail_msg("%s: %d, not %d", head, found, status);
    assert_non_null(strstr(c->answer, "application/problem+json"));
    json = json_loads(body + 4, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL)
        fail_msg("%s: no JSON: %s", head, body + 4);
    if (strstr(json_string_value(json_object_get(json, "detail")), text) == NULL)
        fail_msg("%s: no %s in %s", head, text, body + 4);
    json_decref(json);
}

static void a_path_that_is_no_utf8_is_refused(void **state)
{
    static const char *const paths[] = {
        "/api/v1/agents/%ff/drain",
        "/api/v1/agents/a%c3/resume",
        "/api/v1/agents/%ed%a0%80/drain", /* half of a surrogate pair */
        "/api/v1/requests/r%c0%80/abandon",
        "/api/v1/requests/r%ff/renew?lease_ms=1",
        "/api/v1/transfers/%f5%80%80%80/cancel",
    };
    char head[128];

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        snprintf(head, sizeof(head), "POST %s", paths[i]);
        expect_problem(*state, head, 400, "the path is not UTF-8");
    }
    expect_problem(*state, "GET /api/v1/transfers/%ff", 400, "the path is not UTF-8");
    expect_problem(*state, "GET /api/v1/transfers/%ff/timeline", 400, "the path is not UTF-8");
    expect_problem(*state, "GET /%ff", 400, "the path is not UTF-8");
}

static void a_parameter_that_is_no_utf8_is_refused(void **state)
{
    static const char *const heads[] = {
        "GET /api/v1/transfers?request=%ff",      "GET /api/v1/transfers?agent=a%c3",
        "GET /api/v1/transfers?agent=a&rail=%ff", "GET /api/v1/transfers?tenant=%ff",
        "GET /api/v1/rails/matrix?source=%ff",    "GET /api/v1/pairs?tokens=1&model=%ff",
        "GET /api/v1/rollups?agent=%ff",          "GET /api/v1/agents?%ff=1",
        "POST /api/v1/agents/a/drain?%ff=1",      "POST /api/v1/requests/r/renew?lease_ms=%ff",
    };

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        expect_problem(*state, heads[i], 400, "is not UTF-8");
}

/* As long as a name may be, of characters of two bytes, at an even and an odd place. */
static void a_long_name_is_answered(void **state)
{
    char name[2 * 3 * KVR_REQUEST_BYTES], head[sizeof(name) + 64];

    for (size_t letters = 0; letters < 2; letters++) {
        size_t used = letters;

        memset(name, 'a', letters);
        for (size_t i = 0; i < (KVR_REQUEST_BYTES - 1 - letters) / 2; i++)
            used += (size_t)sprintf(name + used, "%%c3%%a9");
        name[used] = '\0';
        snprintf(head, sizeof(head), "POST /api/v1/agents/%s/drain", name);
        expect_problem(*state, head, 404, "no agent ");
    }
}

/* A sentence may have been cut within a character. */
static void a_problem_is_json_whatever_it_says(void **state)
{
    char *text = problem_text(400, "caf\xc3", NULL);
    json_t *json = json_loads(text, 0, NULL);

    (void)state;
    assert_string_equal(json_string_value(json_object_get(json, "detail")), "caf?");
    json_decref(json);
    free(text);
}

static void control_characters_are_shown_as_question_marks(void **state)
{
    expect_problem(*state, "POST /api/v1/agents/a%1b%5bb/drain", 404, "no agent a?[b ");
    expect_problem(*state, "GET /api/v1/transfers?state=%1b", 400, "\"?\" is no state");
}

#define WITH_HTTP(test) cmocka_unit_test_setup_teardown(test, http_case_open, http_case_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HTTP(a_path_that_is_no_utf8_is_refused),
        WITH_HTTP(a_parameter_that_is_no_utf8_is_refused),
        WITH_HTTP(a_long_name_is_answered),
        cmocka_unit_test(a_problem_is_json_whatever_it_says),
        WITH_HTTP(control_characters_are_shown_as_question_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
