/* Goal: `kvrail doctor --peer` reads what an agent has reported to the scheduler, and an unknown
 * name gets a sentence; a dial ends. Method: the scheduler's own JSON of facts by hand, read again.
 */
#include "tests/support/check.h"

#include "tests/support/agent_json.h"
#include "tools/doctor_peer.h"

static struct kvr_agent_facts facts;
static struct doctor_side side;

static json_t *answer_of(const struct agent_view *agents, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, agent_json(&agents[i], 5 * (int64_t)KVR_S));
    return json_pack("{s:o}", "agents", list);
}

static void facts_set(void)
{
    facts = (struct kvr_agent_facts){
        .role = KVR_ROLE_SOURCE,
        .version = "0.2.0",
        .host = "node-3",
        .listen = "10.0.0.7:9480",
        .provider = "verbs+local",
        .secure = true,
        .rail_count = 2,
        .traits = {.reported = true,
                   .libfabric = "2.1.0",
                   .files_limit = 524288,
                   .lockable_bytes = UINT64_MAX,
                   .clock_known = true,
                   .clock_synchronised = true,
                   .clock_error_us = 4000,
                   .rail_port_first = 9500,
                   .rail_port_last = 9563},
        .rails = {{.name = "mlx5_0",
                   .provider = "verbs",
                   .address = "10.1.0.7",
                   .state = KVR_RAIL_DOWN,
                   .speed_bps = UINT64_C(400000000000),
                   .traits = {.reported = true,
                              .plane = "red",
                              .network = "10.1.0.0/24",
                              .link = {KVR_LINK_ROCE_V2, 9000, true, true, 1 << 3, 0},
                              .device_path = KVR_PATH_HMEM,
                              .pins_memory = true}},
                  {.name = "local", .provider = "local", .address = "here"}}};
}

static void an_agent_is_read_as_it_reported(void **state)
{
    struct agent_view views[2] = {{.row = {.name = "decode-0"}, .facts = &facts},
                                  {.row = {.name = "prefill-0", .seen_ns = 2 * (int64_t)KVR_S},
                                   .state = AGENT_UP,
                                   .facts = &facts,
                                   .clock_heard = true,
                                   .clock_ahead_ns = -(int64_t)KVR_S}};
    json_t *answer;

    (void)state;
    facts_set();
    answer = answer_of(views, 2);
    assert_int_equal(doctor_side_read(answer, "prefill-0", &side, NULL), KVR_OK);
    assert_string_equal(side.name, "prefill-0");
    assert_true(side.agent && side.up && side.traits_shown && side.clock_heard);
    assert_true(side.clock_ahead_s == -1 && side.silent_s == 3);
    assert_memory_equal(&side.facts, &facts, sizeof(facts));
    json_decref(answer);
}

static void an_older_scheduler_shows_no_traits(void **state)
{
    struct agent_view view = {.row = {.name = "a"}, .state = AGENT_LOST, .facts = &facts};
    json_t *answer, *agent;

    (void)state;
    facts_set();
    answer = answer_of(&view, 1);
    agent = json_array_get(json_object_get(answer, "agents"), 0);
    json_object_del(agent, "traits");
    json_object_del(agent, "clock_ahead_seconds");
    json_object_del(json_array_get(json_object_get(agent, "rails"), 0), "traits");
    assert_int_equal(doctor_side_read(answer, "a", &side, NULL), KVR_OK);
    assert_false(side.up || side.traits_shown || side.clock_heard);
    assert_false(side.facts.traits.reported || side.facts.rails[0].traits.reported);
    assert_string_equal(side.state, "lost");
    json_decref(answer);
}

static void an_unknown_name_gets_those_that_there_are(void **state)
{
    struct agent_view views[6];
    struct kvr_error error = {0};
    json_t *answer;

    (void)state;
    for (int i = 0; i < 6; i++) {
        views[i] = (struct agent_view){.facts = &facts};
        snprintf(views[i].row.name, sizeof(views[i].row.name), "a%d", i);
    }
    answer = answer_of(views, 6);
    assert_int_equal(doctor_side_read(answer, "b", &side, &error), KVR_NOT_FOUND);
    assert_string_equal(error.detail, "the scheduler knows no agent 'b'; it knows a0, a1, a2, a3 "
                                      "and 2 more");
    json_decref(answer);
    answer = answer_of(views, 0);
    assert_int_equal(doctor_side_read(answer, "b", &side, &error), KVR_NOT_FOUND);
    assert_string_equal(error.detail, "the scheduler knows no agent 'b', nor any other");
    json_decref(answer);
    answer = json_pack("{s:s}", "agents", "none");
    assert_int_equal(doctor_side_read(answer, "b", &side, &error), KVR_MALFORMED);
    json_decref(answer);
}

/* A scheduler is believed no more than it must be. */
static void wrong_types_are_read_as_nothing(void **state)
{
    json_t *answer = json_loads("{\"agents\":[7,{\"name\":\"a\",\"state\":1,\"role\":[],"
                                "\"version\":{},\"traits\":{\"rail_ports\":\"x\"},"
                                "\"rails\":[3,{\"name\":\"\\u001b[2J\",\"traits\":{\"pfc\":[99,"
                                "\"x\",2],\"mtu\":-5}}]}]}",
                                0, NULL);

    (void)state;
    assert_non_null(answer);
    assert_int_equal(doctor_side_read(answer, "a", &side, NULL), KVR_OK);
    assert_false(side.up);
    assert_int_equal(side.facts.rail_count, 2);
    assert_string_equal(side.facts.rails[1].name, "?[2J");
    assert_int_equal(side.facts.rails[1].traits.link.pfc, 1 << 2);
    assert_int_equal(side.facts.rails[1].traits.link.mtu, 0);
    assert_int_equal(side.facts.traits.rail_port_first, 0);
    json_decref(answer);
}

static void dials_end_within_their_bound(void **state)
{
    struct doctor_dial dial;

    (void)state;
    doctor_dial("127.0.0.1:1", KVR_S, &dial);
    assert_true(dial.tried);
    assert_non_null(strstr(dial.error.detail, "refused"));
    doctor_dial("not an address", KVR_S, &dial);
    assert_int_not_equal(dial.error.status, KVR_OK);
    doctor_dial("192.0.2.1:9480", 50 * KVR_MS,
                &dial); /* an address for documents: no host has it */
    assert_int_not_equal(dial.error.status, KVR_OK);
    assert_true(dial.took < 20 * KVR_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_is_read_as_it_reported),
        cmocka_unit_test(an_older_scheduler_shows_no_traits),
        cmocka_unit_test(an_unknown_name_gets_those_that_there_are),
        cmocka_unit_test(wrong_types_are_read_as_nothing),
        cmocka_unit_test(dials_end_within_their_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
