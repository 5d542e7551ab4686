/* Goal: /api/v1/errors has each reason for which transfers ended badly, with how many, since when
 * and what to do. Method: the API on a database with some transfers. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/remedy.h"
#include "scheduler/api.h"
#include "tests/support/store_case.h"

static void put(struct fixture *fixture, uint64_t id, transfer_state state, kvr_status reason)
{
    struct transfer transfer = {.id = id,
                                .state = state,
                                .reason = reason,
                                .request = "chat",
                                .tenant = "default",
                                .updated_ns = WALL + (int64_t)(id * KVR_S)};

    assert_true(store_put_transfer(fixture->store, &transfer));
}

static json_t *ask(struct fixture *fixture, const char *name, const char *value)
{
    struct api_query query = {.count = name != NULL, .parameters = {{name, value}}};
    struct health *health = health_open("kvrail.db");
    struct api *api = api_open(fixture->store, fixture->metrics, health);
    struct api_answer answer = {0};
    json_t *json;

    api_get(api, "/api/v1/errors", &query, &answer);
    json = json_loads(answer.body, 0, NULL);
    assert_non_null(json);
    assert_int_equal(answer.status == 200, json_object_get(json, "errors") != NULL);
    free(answer.body);
    api_close(api);
    health_close(health);
    return json;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* The error at that place is this one. */
static void is_error(json_t *json, size_t at, const char *code, int count, const char *first,
                     const char *last)
{
    json_t *error = json_array_get(json_object_get(json, "errors"), at);

    assert_string_equal(text_of(error, "code"), code);
    assert_int_equal(json_integer_value(json_object_get(error, "count")), count);
    assert_string_equal(text_of(error, "first"), first);
    assert_string_equal(text_of(error, "last"), last);
}

static void errors_are_grouped_by_reason(void **state)
{
    struct fixture *fixture = *state;
    json_t *json;

    assert_true(store_begin(fixture->store));
    put(fixture, 1, STATE_FAILED, KVR_PEER_LOST);
    put(fixture, 2, STATE_DONE, KVR_OK);
    put(fixture, 3, STATE_EXPIRED, KVR_EXPIRED);
    put(fixture, 4, STATE_FAILED, KVR_PEER_LOST);
    put(fixture, 5, STATE_OPENED, KVR_OK);
    put(fixture, 6, STATE_LOST, KVR_AGENT_LOST);
    assert_true(store_commit(fixture->store));
    json = ask(fixture, NULL, NULL);
    assert_int_equal(json_array_size(json_object_get(json, "errors")), 3);
    is_error(json, 0, "peer_lost", 2, "2023-11-14T22:13:21.000Z", "2023-11-14T22:13:24.000Z");
    is_error(json, 1, "agent_lost", 1, "2023-11-14T22:13:26.000Z", "2023-11-14T22:13:26.000Z");
    is_error(json, 2, "expired", 1, "2023-11-14T22:13:23.000Z", "2023-11-14T22:13:23.000Z");
    json_decref(json);
}

static void an_error_says_what_to_do(void **state)
{
    struct fixture *fixture = *state;
    json_t *json, *error;

    assert_true(store_begin(fixture->store));
    put(fixture, 0xab, STATE_FAILED, KVR_RAIL_FAILED);
    assert_true(store_commit(fixture->store));
    json = ask(fixture, NULL, NULL);
    error = json_array_get(json_object_get(json, "errors"), 0);
    assert_string_equal(text_of(error, "scope"), "rail");
    assert_string_equal(text_of(error, "text"), kvr_status_text(KVR_RAIL_FAILED));
    assert_string_equal(text_of(error, "next"), kvr_remedy_act(KVR_RAIL_FAILED));
    assert_string_equal(text_of(error, "last_transfer"), "00000000000000ab");
    assert_true(json_is_false(json_object_get(error, "more")));
    json_decref(json);
}

static void errors_have_a_window(void **state)
{
    struct fixture *fixture = *state;
    json_t *json;

    assert_true(store_begin(fixture->store));
    for (uint64_t id = 1; id <= 9; id++)
        put(fixture, id, STATE_FAILED, KVR_PEER_LOST);
    assert_true(store_commit(fixture->store));
    json = ask(fixture, "from", "2023-11-14T22:13:28Z");
    is_error(json, 0, "peer_lost", 2, "2023-11-14T22:13:28.000Z", "2023-11-14T22:13:29.000Z");
    json_decref(json);
    json = ask(fixture, "until", "2023-11-14T22:13:23Z");
    is_error(json, 0, "peer_lost", 3, "2023-11-14T22:13:21.000Z", "2023-11-14T22:13:23.000Z");
    json_decref(json);
    json = ask(fixture, "from", "2033-11-14T22:13:23Z");
    assert_int_equal(json_array_size(json_object_get(json, "errors")), 0);
    json_decref(json);
    json = ask(fixture, "from", "today");
    assert_string_equal(text_of(json, "parameter"), "from");
    json_decref(json);
}

/* Beyond that the number says no more than that there are more. */
static void many_are_counted_so_far(void **state)
{
    struct fixture *fixture = *state;
    json_t *json, *error;

    assert_true(store_begin(fixture->store));
    for (uint64_t id = 1; id <= ERROR_COUNT_MAX + 1; id++)
        put(fixture, id, STATE_FAILED, KVR_PEER_LOST);
    assert_true(store_commit(fixture->store));
    json = ask(fixture, NULL, NULL);
    error = json_array_get(json_object_get(json, "errors"), 0);
    assert_int_equal(json_integer_value(json_object_get(error, "count")), ERROR_COUNT_MAX);
    assert_true(json_is_true(json_object_get(error, "more")));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(errors_are_grouped_by_reason),
        WITH_STORE(an_error_says_what_to_do),
        WITH_STORE(errors_have_a_window),
        WITH_STORE(many_are_counted_so_far),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
