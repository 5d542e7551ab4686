/* Goal: the scheduler shows how rails reach each other now: a peer's rows replace its earlier ones,
 * old rows and those of agents that are gone are not shown, and memory is bounded.
 * Method: reports given to the fleet at chosen times, and the API's answers. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/api.h"
#include "scheduler/metrics.h"
#include "tests/support/store_case.h"

static struct kvr_report_pairs pairs;
static struct kvr_agent_facts facts;

static struct kvr_pair_facts *rows_of(const char *peer, uint32_t count)
{
    struct kvr_peer_pairs *to = &pairs.peers[pairs.peer_count++];

    snprintf(to->peer, sizeof(to->peer), "%s", peer);
    to->pair_first = pairs.pair_count;
    to->pair_count = count;
    for (uint32_t i = 0; i < count; i++)
        pairs.pairs[pairs.pair_count++] = (struct kvr_pair_facts){
            .rail = i % KVR_RAILS_MAX, .target_rail = i % KVR_RAILS_MAX, .state = KVR_PAIR_WARM};
    return &pairs.pairs[to->pair_first];
}

static int fresh(void **state)
{
    memset(&pairs, 0, sizeof(pairs));
    memset(&facts, 0, sizeof(facts));
    return store_setup(state);
}

/* With the rows that were made since the last one. */
static void report_comes(struct fixture *fixture, const char *agent, kvr_ns now)
{
    struct kvr_report report = report_of(agent, 0, NULL, 0);

    report.facts = &facts;
    report.pairs = pairs.peer_count > 0 ? &pairs : NULL;
    assert_true(fleet_update(fixture->fleet, &report, now, WALL));
    pairs.peer_count = pairs.pair_count = 0;
}

static void write_pair(void *self, const struct fleet_pair *pair)
{
    FILE *out = self;

    fprintf(out, "%s %u%s > %s %u%s %s %s; ", pair->source, pair->row->rail,
            pair->rail_name != NULL ? pair->rail_name : "", pair->row->peer, pair->row->target_rail,
            pair->target_rail_name != NULL ? pair->target_rail_name : "",
            kvr_pair_state_name(pair->row->state), pair->row->detail);
}

static uint64_t left_out;
static const char *shown(struct fixture *fixture, const char *source, const char *target,
                         kvr_ns now)
{
    static char text[4096];
    struct fleet_pairs_wanted wanted = {.source = source, .target = target, .count_max = 20};
    FILE *out = fmemopen(text, sizeof(text), "w");

    text[0] = '\0';
    left_out = fleet_each_pair(fixture->fleet, &wanted, now, write_pair, out);
    fputc('\0', out);
    fclose(out);
    return text;
}

static void fleet_shows_pairs_of_rails(void **state)
{
    struct kvr_pair_facts *rows;

    facts.rail_count = 2;
    strcpy(facts.rails[1].name, "mlx5_1");
    rows = rows_of("decode-0", 2);
    rows[1].state = KVR_PAIR_UNREACHABLE;
    strcpy(rows[1].detail, "its writes fail: x");
    rows_of("decode-1", 1);
    report_comes(*state, "prefill-0", KVR_S);
    assert_string_equal(shown(*state, NULL, NULL, KVR_S),
                        "prefill-0 0 > decode-0 0 warm ; "
                        "prefill-0 1mlx5_1 > decode-0 1 unreachable its writes fail: x; "
                        "prefill-0 0 > decode-1 0 warm ; ");
    strcpy(facts.rails[1].name, "mlx5_9");
    report_comes(*state, "decode-0", KVR_S);
    assert_string_equal(shown(*state, "prefill-0", "decode-0", KVR_S),
                        "prefill-0 0 > decode-0 0 warm ; "
                        "prefill-0 1mlx5_1 > decode-0 1mlx5_9 unreachable its writes fail: x; ");
    assert_string_equal(shown(*state, "decode-0", NULL, KVR_S), "");
    assert_int_equal(left_out, 0);
}

static void fleet_replaces_the_pairs_of_a_peer(void **state)
{
    rows_of("decode-0", 2);
    rows_of("decode-1", 1);
    report_comes(*state, "prefill-0", KVR_S);
    rows_of("decode-0", 1)->state = KVR_PAIR_SLOW;
    report_comes(*state, "prefill-0", 2 * KVR_S);
    assert_string_equal(shown(*state, NULL, "decode-0", 2 * KVR_S),
                        "prefill-0 0 > decode-0 0 slow ; ");
    assert_string_equal(shown(*state, NULL, "decode-1", 2 * KVR_S),
                        "prefill-0 0 > decode-1 0 warm ; ");
    rows_of("decode-0", 0);
    report_comes(*state, "prefill-0", 3 * KVR_S);
    assert_string_equal(shown(*state, NULL, "decode-0", 3 * KVR_S), "");
}

static void fleet_forgets_pairs_that_are_old(void **state)
{
    kvr_ns end = KVR_S + KVR_PAIR_TABLE_FRESH_NS;

    rows_of("decode-0", 1);
    report_comes(*state, "prefill-0", KVR_S);
    report_comes(*state, "prefill-0", end); /* it lives, and says nothing of them */
    assert_string_not_equal(shown(*state, NULL, NULL, end), "");
    assert_string_equal(shown(*state, NULL, NULL, end + 1), "");
}

static void fleet_forgets_pairs_of_an_agent_that_is_gone(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);

    rows_of("decode-0", 1);
    report_comes(fixture, "prefill-0", KVR_S);
    assert_string_equal(shown(fixture, NULL, NULL, KVR_S + FLEET_SILENT_NS + 1), "");
    report_comes(fixture, "prefill-0", 20 * KVR_S);
    assert_string_not_equal(shown(fixture, NULL, NULL, 20 * KVR_S), "");
    report.facts = &facts;
    report.boot++; /* it was started again */
    assert_true(fleet_update(fixture->fleet, &report, 20 * KVR_S, WALL));
    assert_string_equal(shown(fixture, NULL, NULL, 20 * KVR_S), "");
    rows_of("decode-0", 1);
    report.pairs = &pairs;
    assert_true(fleet_update(fixture->fleet, &report, 20 * KVR_S, WALL));
    assert_string_not_equal(shown(fixture, NULL, NULL, 20 * KVR_S), "");
    report.leaving = true;
    assert_true(fleet_update(fixture->fleet, &report, 20 * KVR_S, WALL));
    report.leaving = false;
    report.pairs = NULL;
    assert_true(fleet_update(fixture->fleet, &report, 20 * KVR_S, WALL));
    assert_string_equal(shown(fixture, NULL, NULL, 20 * KVR_S), "");
}

/* The rows beyond are counted, and those of a peer that shrinks make room. */
static void fleet_bounds_pairs(void **state)
{
    char name[KVR_NAME_BYTES];

    for (uint32_t i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "decode-%u", i);
        rows_of(name, 1000);
        report_comes(*state, "prefill-0", KVR_S);
    }
    (void)shown(*state, NULL, NULL, KVR_S);
    assert_int_equal(left_out, 5 * 1000 - 20); /* so many were asked for */
    assert_string_equal(shown(*state, NULL, "decode-4", KVR_S), "");
    assert_int_equal(left_out, 1000);
    rows_of("decode-0", 3);
    rows_of("decode-4", 1000);
    report_comes(*state, "prefill-0", KVR_S);
    assert_string_not_equal(shown(*state, NULL, "decode-4", KVR_S), "");
    assert_int_equal(left_out, 1000 - 20);
    for (uint32_t i = 0; i < KVR_PAIR_TABLE_PEERS_MAX + 10; i++) { /* a stranger's report */
        snprintf(name, sizeof(name), "x-%u", i);
        rows_of(name, 1);
        report_comes(*state, "prefill-1", KVR_S);
    }
    (void)shown(*state, "prefill-1", NULL, KVR_S);
    assert_in_range(left_out, KVR_PAIR_TABLE_PEERS_MAX - 20 + 1,
                    KVR_PAIR_TABLE_PEERS_MAX + 10 - 20);
}

static void expect(struct fixture *fixture, struct api_query query, unsigned status,
                   const char *text)
{
    struct api_answer answer = {0};

    api_get_matrix(fixture->fleet, &query, &answer);
    assert_int_equal(answer.status, status);
    if (strstr(answer.body, text) == NULL)
        fail_msg("no %s in %s", text, answer.body);
    free(answer.body);
}

static void metrics_count_pairs_by_state(void **state)
{
    struct fixture *fixture = *state;
    char *text = NULL;
    size_t size = 0;
    struct exposition out = {.out = open_memstream(&text, &size)};

    rows_of("decode-0", 3)[1].state = KVR_PAIR_SLOW;
    rows_of("decode-1", 2)[0].state = KVR_PAIR_STATE_END; /* of a newer agent */
    report_comes(fixture, "prefill-0", KVR_S);
    report_comes(fixture, "decode-0", KVR_S);
    metrics_write_fleet(fixture->fleet, KVR_S, &out);
    fclose(out.out);
    assert_non_null(strstr(text, "\n# TYPE kvrail_rail_pairs gauge\n"
                                 "kvrail_rail_pairs{agent=\"prefill-0\",state=\"up\"} 0\n"
                                 "kvrail_rail_pairs{agent=\"prefill-0\",state=\"warming\"} 0\n"
                                 "kvrail_rail_pairs{agent=\"prefill-0\",state=\"warm\"} 3\n"));
    assert_non_null(strstr(text, "kvrail_rail_pairs{agent=\"prefill-0\",state=\"slow\"} 1\n"));
    assert_null(strstr(text, "kvrail_rail_pairs{agent=\"decode-0\""));
    free(text);
}

static void api_answers_with_pairs_of_rails(void **state)
{
    char name[KVR_NAME_BYTES + 1];
    struct kvr_pair_facts *rows = rows_of("decode-0", 1);

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    expect(*state, (struct api_query){0}, 200, "{\"pairs\":[],\"left_out\":0}");
    facts.rail_count = 1;
    strcpy(facts.rails[0].name, "mlx5_0");
    rows->state = KVR_PAIR_SLOW;
    rows->bytes = 12345;
    rows->state_ns = 60 * KVR_S;
    rows->breaks = 3;
    rows->renewals = 2;
    strcpy(rows->detail, "its writes were silent for 3.0 s");
    report_comes(*state, "prefill-0", kvr_clock_now());
    expect(*state, (struct api_query){1, {{"target", "decode-0"}}}, 200,
           "{\"pairs\":[{\"source\":\"prefill-0\",\"target\":\"decode-0\",\"rail\":{\"index\":0,"
           "\"name\":\"mlx5_0\"},\"target_rail\":{\"index\":0,\"name\":null},\"state\":\"slow\","
           "\"detail\":\"its writes were silent for 3.0 s\",\"bytes\":12345,\"age_seconds\":");
    expect(*state, (struct api_query){1, {{"target", "decode-0"}}}, 200, ",\"state_seconds\":60.");
    expect(*state, (struct api_query){1, {{"target", "decode-0"}}}, 200,
           ",\"breaks\":3,\"renewals\":2}");
    expect(*state, (struct api_query){1, {{"source", "decode-0"}}}, 200, "{\"pairs\":[]");
    rows_of("decode-2", 1); /* an older agent's */
    report_comes(*state, "prefill-0", kvr_clock_now());
    expect(*state, (struct api_query){1, {{"target", "decode-2"}}}, 200,
           ",\"state_seconds\":null,\"breaks\":0,");
    expect(*state, (struct api_query){1, {{"trouble", "yes"}}}, 200, "\"target\":\"decode-0\"");
    expect(*state, (struct api_query){2, {{"trouble", "yes"}, {"target", "decode-2"}}}, 200,
           "{\"pairs\":[],\"left_out\":0}");
    expect(*state, (struct api_query){1, {{"trouble", "no"}}}, 400, "\\\"trouble\\\" can be yes");
    expect(*state, (struct api_query){1, {{"trouble", NULL}}}, 400, "\\\"trouble\\\" can be yes");
    expect(*state, (struct api_query){1, {{"source", ""}}}, 400, "no agent");
    expect(*state, (struct api_query){1, {{"source", NULL}}}, 400, "no agent");
    expect(*state, (struct api_query){1, {{"source", name}}}, 400, "no agent");
}

/* Names and sentences have what JSON must escape; a second more or less has a point. */
static void the_matrix_is_whole_json(void **state)
{
    struct kvr_pair_facts *rows = rows_of("de\"c\\o\tde", 2);
    const struct api_query query = {0};
    struct fixture *fixture = *state;
    struct api_answer answer;
    json_t *json, *pair;

    facts.rail_count = 1;
    strcpy(facts.rails[0].name, "mlx\"5");
    memset(rows[0].detail, '"', sizeof(rows[0].detail) - 1);
    rows[0].bytes = UINT64_MAX;
    rows[0].state_ns = 61 * KVR_S + KVR_S / 2;
    report_comes(fixture, "prefill-\xc3\xa9", kvr_clock_now());
    api_get_matrix(fixture->fleet, &query, &answer);
    json = json_loads(answer.body, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL)
        fail_msg("this is no JSON: %s", answer.body);
    assert_int_equal(json_array_size(json_object_get(json, "pairs")), 2);
    pair = json_array_get(json_object_get(json, "pairs"), 0);
    assert_string_equal(json_string_value(json_object_get(pair, "source")), "prefill-\xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(pair, "detail")), rows[0].detail);
    assert_string_equal(json_string_value(json_object_get(json_object_get(pair, "rail"), "name")),
                        "mlx\"5");
    assert_true(json_integer_value(json_object_get(pair, "bytes")) == INT64_MAX);
    assert_true(json_is_real(json_object_get(pair, "age_seconds")));
    assert_true(json_real_value(json_object_get(pair, "state_seconds")) >= 61.5);
    json_decref(json);
    free(answer.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fleet_shows_pairs_of_rails, fresh, store_teardown),
        cmocka_unit_test_setup_teardown(fleet_replaces_the_pairs_of_a_peer, fresh, store_teardown),
        cmocka_unit_test_setup_teardown(fleet_forgets_pairs_that_are_old, fresh, store_teardown),
        cmocka_unit_test_setup_teardown(fleet_forgets_pairs_of_an_agent_that_is_gone, fresh,
                                        store_teardown),
        cmocka_unit_test_setup_teardown(fleet_bounds_pairs, fresh, store_teardown),
        cmocka_unit_test_setup_teardown(metrics_count_pairs_by_state, fresh, store_teardown),
        cmocka_unit_test_setup_teardown(api_answers_with_pairs_of_rails, fresh, store_teardown),
        cmocka_unit_test_setup_teardown(the_matrix_is_whole_json, fresh, store_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
