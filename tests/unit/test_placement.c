/* Goal: pairs of agents are ranked by their measured speed, their transfers in flight and their
 * rails; pairs that cannot serve a request are left out with a reason. Method: figures that the
 * case sets, first for the parts, then reports to a fleet and the answer of the API. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/api_fleet.h"
#include "scheduler/api_json.h"
#include "scheduler/placement.h"
#include "tests/support/store_case.h"

#define GB 1e9

static struct placement_agent source = {
    .name = "p", .host = "a", .model_count = 1, .models = {"m"}};
static struct placement_agent target = {
    .name = "d", .host = "b", .model_count = 1, .models = {"m"}};
static const struct placement_ask ask = {.tokens = 1000};

/* ---- measured ---- */

/* Bytes that landed within that time; ready: all layers were, before the grant. */
static struct transfer moved(uint64_t bytes, int64_t ns, bool ready)
{
    struct transfer transfer = {.bytes = bytes, .tokens = 1000};
    struct transfer_side *sides = transfer.sides;

    strcpy(sides[KVR_ROLE_SOURCE].agent, "p");
    strcpy(sides[KVR_ROLE_TARGET].agent, "d");
    sides[KVR_ROLE_SOURCE].at_ns[STAGE_GRANTED] = 1000;
    sides[KVR_ROLE_SOURCE].at_ns[STAGE_LAST_READY] = ready ? 999 : 1001;
    sides[KVR_ROLE_TARGET].at_ns[STAGE_GRANTED] = 5000;
    sides[KVR_ROLE_TARGET].at_ns[STAGE_LAST_LAND] = 5000 + ns;
    return transfer;
}

static double speed_after(struct speeds *speeds, struct transfer transfer)
{
    struct speeds_figures figures = {0};

    speeds_take(speeds, &transfer, WALL);
    (void)speeds_of(speeds, "p", "d", &figures);
    return figures.bytes_per_second;
}

static void speeds_are_those_of_transfers_that_did_not_wait(void **state)
{
    struct speeds *speeds = speeds_open();
    struct speeds_figures figures;

    (void)state;
    assert_non_null(speeds);
    assert_false(speeds_of(speeds, "p", "d", &figures));
    assert_true(speed_after(speeds, moved(SPEEDS_BYTES_MIN - 1, 1000, true)) == 0);
    assert_true(speed_after(speeds, moved(2000000, 1000000, true)) == 2 * GB);
    assert_true(speed_after(speeds, moved(2000000, 1000000000, false)) == 2 * GB); /* it waited */
    assert_true(speed_after(speeds, moved(2000000, 500000, false)) == 3 * GB);
    assert_true(speed_after(speeds, moved(2000000, 1000000000, true)) < 3 * GB);
    assert_true(speeds_of(speeds, "p", "d", &figures));
    assert_int_equal(figures.transfers, 4);
    assert_true(figures.bytes_per_token == 2000);
    assert_false(speeds_of(speeds, "d", "p", &figures));
    speeds_close(speeds);
}

/* More pairs than there is room for: the newest ones are known. */
static void speeds_forget_the_oldest(void **state)
{
    struct speeds *speeds = speeds_open();
    struct transfer transfer = moved(2000000, 1000000, true);
    struct speeds_figures figures;

    (void)state;
    assert_non_null(speeds);
    for (int i = 0; i < 100000; i++) {
        snprintf(transfer.sides[KVR_ROLE_TARGET].agent, KVR_NAME_BYTES, "d%d", i);
        speeds_take(speeds, &transfer, WALL + i);
    }
    assert_true(speeds_of(speeds, "p", "d99999", &figures));
    assert_false(speeds_of(speeds, "p", "d0", &figures));
    speeds_close(speeds);
}

/* ---- the order ---- */

static struct placement pair(double speed, uint32_t live)
{
    static struct placement_agent sources[8];
    static int next;
    struct placement_agent *busy = &sources[next++ % 8];

    *busy = source;
    busy->transfers_live = live;
    return (struct placement){.source = busy,
                              .target = &target,
                              .reach = {.pairs = 4, .warm = 4},
                              .measured = {.bytes_per_second = speed, .bytes_per_token = 1000}};
}

static bool better(struct placement a, struct placement b)
{
    struct placement_common common = {0};

    placement_estimate(&a, &common, &ask);
    placement_estimate(&b, &common, &ask);
    assert_true((placement_compare(&a, &b) < 0) == (placement_compare(&b, &a) > 0));
    return placement_compare(&a, &b) < 0;
}

static void placement_prefers_what_is_faster_freer_and_warmer(void **state)
{
    struct placement a = pair(2 * GB, 0), b = pair(1 * GB, 0);

    (void)state;
    assert_true(better(a, b));
    a = pair(2 * GB, 3);
    b = pair(1 * GB, 0);
    assert_true(better(b, a)); /* four share the faster one */
    a = pair(1 * GB, 0);
    b = pair(1.01 * GB, 0);
    b.reach.warm = 1;
    assert_true(better(a, b)); /* a percent is no difference */
    b = pair(1 * GB, 0);
    b.reach.troubled = 1;
    assert_true(better(a, b));
    b = pair(0, 0);
    b.measured.bytes_per_token = 0;
    assert_true(better(a, b)); /* nothing is known */
}

static void placement_expects_bytes_over_the_share(void **state)
{
    struct placement a = pair(1 * GB, 1), b = pair(0, 0);
    struct placement_common common = {0};
    struct placement_agent wide = source;
    uint64_t count = 0;

    (void)state;
    placement_estimate(&a, &common, &ask);
    assert_int_equal(a.bytes, 1000000);
    assert_true(a.seconds > 0.00199 && a.seconds < 0.00201);
    /* Not measured: as others do by the speed of their links. */
    wide.bytes_per_second = 4 * GB;
    target.bytes_per_second = 8 * GB;
    a.source = b.source = &wide;
    placement_common_take(&common, &count, &a);
    b.measured = (struct speeds_figures){0};
    placement_estimate(&b, &common, &ask);
    assert_true(b.bytes_per_second > 0.99 * GB && b.bytes_per_second < 1.01 * GB);
    assert_int_equal(b.bytes, 1000000);
    target.bytes_per_second = 0;
}

static void placement_refuses_with_a_reason(void **state)
{
    struct placement a = pair(1 * GB, 0);
    struct placement_ask other = {.tokens = 1, .model = "x"};
    struct placement_agent agent = source;
    char text[PLACEMENT_REASON_BYTES];

    (void)state;
    assert_true(placement_model(a.source, a.target, NULL, &a.model));
    assert_string_equal(a.model, "m");
    assert_null(placement_refused(&a, &ask, text));
    a.reach.unreachable = a.reach.pairs;
    assert_string_equal(placement_refused(&a, &ask, text),
                        "no rail of the prefill-agent reaches a rail of the decode-agent");
    assert_false(placement_model(a.source, a.target, "x", &a.model));
    assert_string_equal(placement_refused(&a, &other, text),
                        "x is not the model of engines at both agents");
    agent.state = AGENT_LOST;
    assert_string_equal(placement_agent_refused(&agent, text), "p is silent");
    agent.state = AGENT_UP;
    assert_string_equal(placement_agent_refused(&agent, text), "p has no rail that works");
    agent.rails_up = 1;
    assert_null(placement_agent_refused(&agent, text));
    agent.model_count = 0;
    assert_string_equal(placement_agent_refused(&agent, text), "p has no engine");
}

/* ---- the answer ---- */

static void reports(struct fixture *fixture, const char *name, kvr_role role, uint32_t live)
{
    static struct kvr_agent_facts facts;
    struct kvr_report report = report_of(name, 0, NULL, 0);

    facts = (struct kvr_agent_facts){.role = role,
                                     .transfers_live = live,
                                     .rail_count = 1,
                                     .engine_count = 1,
                                     .rails = {{.state = KVR_RAIL_UP, .speed_bps = 8000000000}},
                                     .engines = {{.model = "m"}}};
    snprintf(facts.host, sizeof(facts.host), "host-of-%s", name);
    report.facts = &facts;
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
}

static struct api_answer ask_for(struct fixture *fixture, struct metrics *metrics, int count,
                                 const char *const *parameters)
{
    struct api_fleet_parts parts = {.fleet = fixture->fleet, .metrics = metrics};
    struct api_fleet *api = api_fleet_open(&parts);
    struct api_query query = {.count = count};
    struct api_answer answer = {0};

    assert_non_null(api);
    for (int i = 0; i < count; i++) {
        query.parameters[i].name = parameters[2 * i];
        query.parameters[i].value = parameters[2 * i + 1];
    }
    assert_true(api_fleet_is_path("/api/v1/pairs"));
    api_fleet_get(api, "/api/v1/pairs", &query, &answer);
    api_fleet_close(api);
    return answer;
}

static json_t *pairs_of(struct fixture *fixture, struct metrics *metrics, int count,
                        const char *const *parameters)
{
    struct api_answer answer = ask_for(fixture, metrics, count, parameters);
    json_t *json;

    assert_int_equal(answer.status, 200);
    assert_non_null(answer.ready);
    json = json_loadb(answer.ready->text, answer.ready->size, 0, NULL);
    assert_non_null(json);
    ready_drop(answer.ready);
    return json;
}

static const char *text_of(const json_t *json, const char *list, size_t index, const char *key)
{
    const json_t *row = json_array_get(json_object_get(json, list), index);
    const char *text = json_string_value(json_object_get(row, key));

    return text != NULL ? text : "nothing";
}

static void pairs_are_ranked_for_a_router(void **state)
{
    static const char *const tokens[] = {"tokens", "4096", "limit", "2", "model", "m"};
    struct fixture *fixture = *state;
    struct metrics *metrics = metrics_open();
    struct transfer fast = moved(20000000, 1000000, true);
    json_t *json;

    assert_non_null(metrics);
    reports(fixture, "prefill-0", KVR_ROLE_SOURCE, 0);
    reports(fixture, "prefill-1", KVR_ROLE_SOURCE, 0);
    reports(fixture, "decode-0", KVR_ROLE_TARGET, 0);
    reports(fixture, "decode-1", KVR_ROLE_TARGET, 9);
    strcpy(fast.sides[KVR_ROLE_SOURCE].agent, "prefill-1");
    strcpy(fast.sides[KVR_ROLE_TARGET].agent, "decode-0");
    speeds_take(metrics_speeds(metrics), &fast, WALL);
    json = pairs_of(fixture, metrics, 3, tokens);
    assert_int_equal(json_integer_value(json_object_get(json, "pair_count")), 4);
    assert_int_equal(json_array_size(json_object_get(json, "pairs")), 2);
    assert_string_equal(text_of(json, "pairs", 0, "source"), "prefill-0"); /* the same grade */
    assert_string_equal(text_of(json, "pairs", 0, "target"), "decode-0");
    assert_string_equal(text_of(json, "pairs", 1, "target"), "decode-0");
    assert_string_equal(text_of(json, "pairs", 0, "model"), "m");
    json_decref(json);
    metrics_close(metrics);
}

static void pairs_leave_out_agents_with_a_reason(void **state)
{
    static const char *const tokens[] = {"tokens", "1"};
    struct fixture *fixture = *state;
    struct metrics *metrics = metrics_open();
    struct kvr_report report = report_of("decode-0", 0, NULL, 0);
    static struct kvr_agent_facts facts;
    json_t *json;

    assert_non_null(metrics);
    reports(fixture, "prefill-0", KVR_ROLE_SOURCE, 0);
    facts.role = KVR_ROLE_TARGET;
    report.facts = &facts;
    report.leaving = true;
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    json = pairs_of(fixture, metrics, 1, tokens);
    assert_int_equal(json_array_size(json_object_get(json, "pairs")), 0);
    assert_string_equal(text_of(json, "left_out", 0, "agent"), "decode-0");
    assert_string_equal(text_of(json, "left_out", 0, "reason"), "decode-0 was stopped");
    json_decref(json);
    metrics_close(metrics);
}

static void pairs_refuse_bad_parameters(void **state)
{
    static const char *const bad[][3] = {
        {"tokens", "0", "tokens=0"},         {"tokens", "x", "tokens=x"},
        {"limit", "501", "limit=501"},       {"colour", "red", "colour"},
        {"model", "", "is no model"},        {"source", NULL, "is no agent"},
        {"limit", "3", "tokens is missing"},
    };
    struct fixture *fixture = *state;
    struct metrics *metrics = metrics_open();

    assert_non_null(metrics);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct api_answer answer = ask_for(fixture, metrics, 1, bad[i]);

        assert_int_equal(answer.status, 400);
        if (strstr(answer.body, bad[i][2]) == NULL)
            fail_msg("%s=%s: %s", bad[i][0], bad[i][1] != NULL ? bad[i][1] : "", answer.body);
        free(answer.body);
    }
    metrics_close(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speeds_are_those_of_transfers_that_did_not_wait),
        cmocka_unit_test(speeds_forget_the_oldest),
        cmocka_unit_test(placement_prefers_what_is_faster_freer_and_warmer),
        cmocka_unit_test(placement_expects_bytes_over_the_share),
        cmocka_unit_test(placement_refuses_with_a_reason),
        WITH_STORE(pairs_are_ranked_for_a_router),
        WITH_STORE(pairs_leave_out_agents_with_a_reason),
        WITH_STORE(pairs_refuse_bad_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
