/* Goal: the API's sums over time: series, histograms, and two windows beside each other, and which
 * questions it refuses. Method: the API on a database with some transfers of the last minutes. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>

#include "scheduler/api.h"
#include "scheduler/rollups.h"
#include "tests/support/store_case.h"

/* Ended at that wall time, in so many ms of which `land` took most. */
static void end_transfer(struct rollups *rollups, int64_t wall_ns, int64_t ms, const char *tenant,
                         kvr_status outcome)
{
    const struct rollup_news news = {.ended = true, .side_ended = {true, true}};
    struct transfer transfer = {
        .state = outcome == KVR_OK ? STATE_DONE : STATE_FAILED, .reason = outcome, .bytes = 1000};
    int64_t *at_ns = transfer.sides[KVR_ROLE_TARGET].at_ns, begin = wall_ns - ms * KVR_MS;

    strcpy(transfer.tenant, tenant);
    strcpy(transfer.sides[KVR_ROLE_TARGET].agent, "decode-0");
    transfer.sides[KVR_ROLE_TARGET].outcome = outcome;
    at_ns[STAGE_OPENED] = begin;
    at_ns[STAGE_MATCHED] = begin + KVR_MS;
    at_ns[STAGE_FIRST_LAND] = begin + 2 * (int64_t)KVR_MS;
    at_ns[STAGE_LAST_LAND] = wall_ns - (int64_t)KVR_MS;
    at_ns[STAGE_ENDED] = wall_ns;
    assert_true(rollups_take_transfer(rollups, &transfer, &news, wall_ns));
    assert_true(rollups_flush(rollups));
}

/* 100 of 10 ms, ten to six minutes ago; then 100 of 100 ms, five minutes to one ago. */
static void fill(struct fixture *fixture, int64_t now_ns)
{
    struct rollups *rollups = rollups_open(fixture->store);

    assert_true(store_begin(fixture->store));
    for (int i = 0; i < 200; i++) {
        int64_t back = i < 100 ? 600 - i * 24 / 10 : 300 - (i - 100) * 24 / 10;

        end_transfer(rollups, now_ns - back * (int64_t)KVR_S, i < 100 ? 10 : 100,
                     i % 4 == 0 ? "blue" : "red", i % 50 == 49 ? KVR_PEER_LOST : KVR_OK);
    }
    assert_true(store_commit(fixture->store));
    rollups_close(rollups);
}

struct parameter {
    const char *name, *value;
};

static json_t *ask(struct fixture *fixture, const char *path, const struct parameter *parameters,
                   int count, unsigned status)
{
    struct health *health = health_open("kvrail.db");
    struct api *api = api_open(fixture->store, fixture->metrics, health);
    struct api_query query = {.count = count};
    struct api_answer answer = {0};
    json_t *json;

    for (int i = 0; i < count; i++) {
        query.parameters[i].name = parameters[i].name;
        query.parameters[i].value = parameters[i].value;
    }
    api_get(api, path, &query, &answer);
    json = json_loads(answer.body, 0, NULL);
    assert_non_null(json);
    if (answer.status != status)
        fail_msg("%s", answer.body);
    free(answer.body);
    api_close(api);
    health_close(health);
    return json;
}

static const json_t *at(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);

    if (member == NULL)
        fail_msg("%s is missing", key);
    return member;
}

static void series_have_a_number_for_each_point(void **state)
{
    struct fixture *fixture = *state;
    const struct parameter by_tenant[] = {{"by", "tenant"}, {"step", "60"}};
    json_t *json;
    const json_t *red, *points;
    json_int_t sum = 0;
    size_t index;
    json_t *point;

    fill(fixture, (int64_t)kvr_clock_wall());
    json = ask(fixture, "/api/v1/rollups", by_tenant, 2, 200);
    assert_int_equal(json_array_size(at(json, "series")), 2);
    red = json_array_get(at(json, "series"), 0); /* the larger one is first */
    assert_string_equal(json_string_value(at(red, "name")), "red");
    assert_int_equal(json_integer_value(at(at(red, "totals"), "transfers")), 150);
    assert_int_equal(json_integer_value(at(at(red, "totals"), "failed")), 4);
    points = at(red, "transfers");
    assert_int_equal(json_array_size(points), json_integer_value(at(json, "points")));
    json_array_foreach(points, index, point) sum += json_integer_value(point);
    assert_int_equal(sum, 150);
    json_decref(json);
}

/* The times of each point add up to those of the whole window. */
static void points_have_times(void **state)
{
    struct fixture *fixture = *state;
    const struct parameter parameters[] = {{"times", "yes"}, {"step", "60"}};
    const json_t *total, *means;
    json_int_t count = 0, empty = 0, fast = 0, slow = 0;
    size_t index;
    json_t *json, *point;

    fill(fixture, (int64_t)kvr_clock_wall());
    json = ask(fixture, "/api/v1/rollups", parameters, 2, 200);
    total = at(at(json_array_get(at(json, "series"), 0), "times"), "total");
    means = at(total, "mean_seconds");
    assert_int_equal(json_array_size(means), json_integer_value(at(json, "points")));
    json_array_foreach(at(total, "count"), index, point)
    {
        const json_t *mean = json_array_get(means, index);
        const json_t *p99 = json_array_get(at(total, "p99_seconds"), index);

        count += json_integer_value(point);
        empty += json_is_null(mean);
        assert_int_equal(json_is_null(mean), json_integer_value(point) == 0);
        assert_int_equal(json_is_null(p99), json_is_null(mean));
        fast += json_real_value(mean) > 0.009 && json_real_value(mean) < 0.011;
        slow += json_real_value(p99) > 0.08 && json_real_value(p99) < 0.12;
    }
    assert_int_equal(count, 196);
    assert_true(empty > 0 && fast >= 3 && slow >= 3);
    json_decref(json);
    json = ask(fixture, "/api/v1/rollups", NULL, 0, 200);
    assert_null(json_object_get(json_array_get(at(json, "series"), 0), "times"));
    json_decref(json);
}

static void histograms_have_all_times(void **state)
{
    struct fixture *fixture = *state;
    const struct parameter by[] = {{"by", "reason"}};
    const json_t *group, *total;
    json_t *json;

    fill(fixture, (int64_t)kvr_clock_wall());
    json = ask(fixture, "/api/v1/histograms", NULL, 0, 200);
    group = json_array_get(at(json, "groups"), 0);
    assert_int_equal(json_integer_value(at(group, "transfers")), 200);
    total = at(at(group, "times"), "total");
    assert_int_equal(json_integer_value(at(total, "count")), 196);
    assert_true(json_real_value(at(total, "p50_seconds")) < 0.1);
    assert_true(json_real_value(at(total, "p99_seconds")) > 0.08);
    assert_true(json_real_value(at(total, "p99_seconds")) < 0.12);
    assert_true(json_is_null(at(at(at(group, "times"), "ready"), "p50_seconds")));
    json_decref(json);
    json = ask(fixture, "/api/v1/histograms", by, 1, 200);
    assert_int_equal(json_array_size(at(json, "groups")), 2);
    json_decref(json);
}

static void a_comparison_names_the_stage(void **state)
{
    char begin[40], middle[40], end[40];
    int64_t now_ns = (int64_t)kvr_clock_wall();
    const struct parameter windows[] = {
        {"with_from", begin}, {"with_until", middle}, {"from", middle}, {"until", end}};
    struct fixture *fixture = *state;
    json_t *json;

    fill(fixture, now_ns);
    kvr_clock_rfc3339((kvr_ns)now_ns - 700 * KVR_S, begin);
    kvr_clock_rfc3339((kvr_ns)now_ns - 330 * KVR_S, middle);
    kvr_clock_rfc3339((kvr_ns)now_ns, end);
    json = ask(fixture, "/api/v1/compare", windows, 4, 200);
    assert_string_equal(json_string_value(at(json, "moved")), "land");
    assert_true(json_real_value(at(at(at(json, "differences"), "total"), "p99_seconds")) > 0.07);
    assert_non_null(strstr(json_string_value(at(json, "text")), "land"));
    assert_int_equal(json_integer_value(at(at(json, "window"), "transfers")), 100);
    json_decref(json);
}

static void move(struct fixture *fixture, uint32_t rails, int64_t now_ns)
{
    static struct kvr_agent_facts facts;
    struct rollups *rollups = rollups_open(fixture->store);
    const struct kvr_report report = {.agent = "prefill-0", .boot = 1, .facts = &facts};
    const struct kvr_agent_facts none = {.rail_count = rails};

    facts = none;
    assert_true(store_begin(fixture->store));
    for (int second = 30; second > 10; second--) {
        for (uint32_t rail = 0; rail < rails; rail++)
            facts.rails[rail].bytes += 1000 * (rail + 1);
        assert_true(rollups_take_report(rollups, &report, now_ns - second * (int64_t)KVR_S));
        assert_true(rollups_flush(rollups));
    }
    assert_true(store_commit(fixture->store));
    rollups_close(rollups);
}

/* The slowest of its cards is among those that moved the least. */
static void no_rail_is_left_out(void **state)
{
    struct fixture *fixture = *state;
    const struct parameter parameters[] = {{"by", "rail"}, {"agent", "prefill-0"}};
    const json_t *series;
    json_t *json;

    move(fixture, KVR_RAILS_MAX, (int64_t)kvr_clock_wall());
    json = ask(fixture, "/api/v1/rollups", parameters, 2, 200);
    series = at(json, "series");
    assert_int_equal(json_array_size(series), KVR_RAILS_MAX);
    assert_int_equal(json_integer_value(at(json, "left_out")), 0);
    assert_int_equal(json_integer_value(at(json_array_get(series, 0), "rail")), KVR_RAILS_MAX - 1);
    assert_int_equal(json_integer_value(at(json_array_get(series, KVR_RAILS_MAX - 1), "rail")), 0);
    json_decref(json);
}

static void bad_questions_are_refused(void **state)
{
    static const struct {
        const char *path, *parameter, *name, *value, *also, *also_value;
    } bad[] = {
        {"/api/v1/rollups", "by", "by", "colour", "step", "60"},
        {"/api/v1/rollups", "agent", "by", "rail", "step", "60"},
        {"/api/v1/rollups", "agent", "by", "tenant", "agent", "decode-0"},
        {"/api/v1/rollups", "step", "step", "1", "from", "2020-01-01T00:00:00Z"},
        {"/api/v1/rollups", "step", "step", "0", "by", "tenant"},
        {"/api/v1/rollups", "times", "times", "no", "step", "60"},
        {"/api/v1/rollups", "times", "times", "yes", "by", "tenant"},
        {"/api/v1/rollups", "from", "from", "2099-01-01T00:00:00Z", "by", "tenant"},
        {"/api/v1/histograms", "by", "by", "rail", "from", "2020-01-01T00:00:00Z"},
        {"/api/v1/histograms", "until", "by", "agent", "until", "tomorrow"},
        {"/api/v1/compare", "with_from", "from", "2020-01-01T00:00:00Z", "until",
         "2020-01-02T00:00:00Z"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct parameter parameters[] = {{bad[i].name, bad[i].value},
                                               {bad[i].also, bad[i].also_value}};
        json_t *json = ask(*state, bad[i].path, parameters, 2, 400);

        assert_string_equal(json_string_value(at(json, "parameter")), bad[i].parameter);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(series_have_a_number_for_each_point),
        WITH_STORE(points_have_times),
        WITH_STORE(histograms_have_all_times),
        WITH_STORE(a_comparison_names_the_stage),
        WITH_STORE(no_rail_is_left_out),
        WITH_STORE(bad_questions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
