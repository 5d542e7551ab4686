/* Goal: a parameter of the API is what its name says, or the answer names the parameter.
 * Method: good and bad texts; queries to the paths; the API on an empty database. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/api_fleet.h"
#include "scheduler/api_parameters.h"
#include "tests/support/store_case.h"

static void numbers_are_digits_within_bounds(void **state)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "1e3", "11", "0x1", "99999999999999999999"};
    int64_t number = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(api_number(bad[i], 0, 10, &number));
    assert_false(api_number(NULL, 0, 10, &number));
    assert_true(number == 7 && api_number("10", 0, 10, &number) && number == 10);
}

static void times_are_rfc_3339(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2023-11-14T22:13:20Z", WALL},
        {"2023-11-14T22:13:20.5Z", WALL + 500000000},
        {"2023-11-14T22:13:20.0000000019Z", WALL + 1},
        {"2024-02-29T00:00:00Z", 1709164800000000000},
    };
    static const char *const bad[] = {
        "",
        "now",
        "1700000000",
        "2023-11-14",
        "2023-11-14T22:13:20",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T22:13:20+00:00",
        "2023-11-14T22:13:20Z ",
        "2023-02-30T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "23-11-14T22:13:20Z",
        "1969-12-31T23:59:59Z",
        "2262-12-31T00:00:00Z",
        "9999-12-31T23:59:59Z",
    };
    int64_t ns;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!api_time(good[i].text, &ns))
            fail_msg("%s is no time", good[i].text);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (api_time(bad[i], &ns))
            fail_msg("%s is a time", bad[i]);
}

static void seconds_have_a_fraction(void **state)
{
    static const char *const bad[] = {"", ".5", "1.", "1.5s", "-1", "1e3", "1000000001"};
    int64_t ns;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(api_seconds(bad[i], &ns));
    assert_true(api_seconds("2", &ns) && ns == 2000000000);
    assert_true(api_seconds("0.1", &ns) && ns == 100000000);
    assert_true(api_seconds("1.0000000009", &ns) && ns == 1000000000);
}

static void uuids_are_32_digits(void **state)
{
    static const char *const bad[] = {"", "-", "0011", "zz112233-4455-6677-8899-aabbccddeeff",
                                      "00112233-4455-6677-8899-aabbccddeeff0"};
    struct kvr_uuid a, b;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(api_uuid(bad[i], &a));
    assert_true(api_uuid("00112233-4455-6677-8899-aabbccddeeff", &a));
    assert_true(api_uuid("00112233445566778899AABBCCDDEEFF", &b));
    assert_true(kvr_uuid_equal(&a, &b) && a.bytes[15] == 0xff);
}

static void a_path_is_known_whole(void **state)
{
    (void)state;
    assert_int_equal(api_path_of("GET", "/api/v1/transfers/00ff")->kind, API_TRANSFER);
    assert_int_equal(api_path_of("GET", "/api/v1/transfers")->kind, API_TRANSFERS);
    assert_int_equal(api_path_of("DELETE", "/api/v1/session")->kind, API_SESSION);
    assert_null(api_path_of("GET", "/api/v1/transfers/"));
    assert_null(api_path_of("GET", "/api/v1/transfers/a/b"));
    assert_null(api_path_of("GET", "/api/v1"));
    assert_null(api_path_of("DELETE", "/api/v1/summary"));
}

/* ---- the answers ---- */

struct asked {
    const char *path, *name, *value;
};

static void ask(struct fixture *fixture, const struct asked *asked, struct api_answer *ret_answer)
{
    struct api_query query = {.count = asked->name != NULL};
    struct health *health = health_open("kvrail.db");
    struct api *api = api_open(fixture->store, fixture->metrics, health);
    struct api_fleet_parts parts = {fixture->fleet, fixture->metrics, {.health = health}};
    struct api_fleet *api_fleet = api_fleet_open(&parts);

    *ret_answer = (struct api_answer){0};
    query.parameters[0].name = asked->name;
    query.parameters[0].value = asked->value;
    if (asked->name != NULL && strcmp(asked->name, "rail") == 0 && asked->value != NULL &&
        strcmp(asked->value, "no agent") != 0) {
        query.parameters[query.count].name = "agent";
        query.parameters[query.count++].value = "prefill-0";
    }
    if (api_fleet_is_path(asked->path))
        api_fleet_get(api_fleet, asked->path, &query, ret_answer);
    else
        api_get(api, asked->path, &query, ret_answer);
    api_close(api);
    api_fleet_close(api_fleet);
    health_close(health);
}

static const char transfers[] = "/api/v1/transfers";

static void a_bad_value_names_its_parameter(void **state)
{
    static const struct asked bad[] = {
        {transfers, "state", "sleeping"},
        {transfers, "state", NULL},
        {transfers, "request", ""},
        {transfers, "tenant", "a/b"},
        {transfers, "agent", ""},
        {transfers, "engine", "12"},
        {transfers, "rail", "no agent"},
        {transfers, "rail", "mlx5_9"},
        {transfers, "rail", "999"},
        {transfers, "path", "fast"},
        {transfers, "reason", "ok"},
        {transfers, "reason", "because"},
        {transfers, "min_duration", "1s"},
        {transfers, "from", "yesterday"},
        {transfers, "until", "1970-01-01T00:00:00Z"},
        {transfers, "limit", "501"},
        {transfers, "after", "x"},
        {transfers, "after", "1-2"}, /* of a search */
        {transfers, "colour", "red"},
        {"/api/v1/audit", "after", "1-2"},
        {"/api/v1/audit", "limit", "0"},
        {"/api/v1/summary", "limit", "1"},
        {"/api/v1/agents", "limit", "1"},
        {"/api/v1/rails/matrix", "limit", "1"},
        {"/api/v1/rails/matrix", "source", ""},
        {"/api/v1/rails/matrix", "trouble", "no"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct api_answer answer;
        json_t *problem;

        ask(*state, &bad[i], &answer);
        problem = json_loads(answer.body, 0, NULL);
        if (answer.status != 400 || !answer.problem || problem == NULL ||
            json_string_value(json_object_get(problem, "parameter")) == NULL ||
            strcmp(json_string_value(json_object_get(problem, "parameter")), bad[i].name) != 0)
            fail_msg("%s=%s is answered %u %s", bad[i].name, bad[i].value, answer.status,
                     answer.body);
        json_decref(problem);
        free(answer.body);
    }
}

static void a_parameter_stands_once(void **state)
{
    const struct api_query query = {2, {{"target", "a"}, {"target", "b"}}};
    struct api_answer answer;

    (void)state;
    assert_false(api_check_parameters(api_path_of("GET", "/api/v1/rails/matrix"), &query, &answer));
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(answer.body, "a second one"));
    assert_non_null(strstr(answer.body, "\"parameter\":\"target\""));
    free(answer.body);
}

static void a_good_value_is_answered(void **state)
{
    static const struct asked good[] = {
        {transfers, NULL, NULL},
        {transfers, "state", "live"},
        {transfers, "request", "chat"},
        {transfers, "tenant", "red"},
        {transfers, "agent", "prefill-0"},
        {transfers, "engine", "00112233-4455-6677-8899-aabbccddeeff"},
        {transfers, "rail", "31"},
        {transfers, "path", "dmabuf"},
        {transfers, "reason", "peer_lost"},
        {transfers, "min_duration", "0.5"},
        {transfers, "from", "2026-01-31T12:34:56Z"},
        {transfers, "until", "2026-01-31T12:34:56.789Z"},
        {transfers, "limit", "500"},
        {transfers, "after", "17"},
        {"/api/v1/audit", "after", "17"},
        {"/api/v1/rails/matrix", "trouble", "yes"},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct api_answer answer;

        ask(*state, &good[i], &answer);
        if (answer.status != 200)
            fail_msg("%s=%s is answered %u %s", good[i].name, good[i].value, answer.status,
                     answer.body);
        free(answer.body);
        ready_drop(answer.ready);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_digits_within_bounds),
        cmocka_unit_test(times_are_rfc_3339),
        cmocka_unit_test(seconds_have_a_fraction),
        cmocka_unit_test(uuids_are_32_digits),
        cmocka_unit_test(a_path_is_known_whole),
        cmocka_unit_test(a_parameter_stands_once),
        WITH_STORE(a_bad_value_names_its_parameter),
        WITH_STORE(a_good_value_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
