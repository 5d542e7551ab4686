/* Goal: the API shows what an agent reports of its host and rails, keeps unknown apart from none,
 * and compares the agent's clock with the scheduler's. Method: reports to the fleet, and its JSON.
 */
#include "tests/support/check.h"

#include "tests/support/agent_json.h"
#include "tests/support/store_case.h"

static struct kvr_agent_facts facts;

static void take(void *self, const struct agent_view *agent)
{
    json_t **json = self;

    *json = agent_json(agent, WALL);
}

/* The one agent of a fleet after one report with `facts`, of a clock so far ahead. */
static json_t *agent_after(int64_t ahead_ns)
{
    struct kvr_report report = report_of("decode-0", 0, NULL, 0);
    struct fleet *fleet = fleet_open();
    json_t *json = NULL;

    report.facts = &facts;
    report.anchor_wall = (kvr_ns)(WALL + ahead_ns);
    assert_true(fleet_update(fleet, &report, kvr_clock_now(), WALL));
    fleet_each(fleet, kvr_clock_now(), take, &json);
    fleet_close(fleet);
    assert_non_null(json);
    return json;
}

static const json_t *rail_of(const json_t *agent)
{
    return json_array_get(json_object_get(agent, "rails"), 0);
}

/* JSON text of a member. */
static void expect(const json_t *object, const char *key, const char *text)
{
    char *found = json_dumps(json_object_get(object, key), JSON_ENCODE_ANY | JSON_COMPACT);

    if (found == NULL || strcmp(found, text) != 0)
        fail_msg("%s is %s, not %s", key, found != NULL ? found : "missing", text);
    free(found);
}

static void an_older_agent_reports_nothing(void **state)
{
    json_t *agent;

    (void)state;
    facts = (struct kvr_agent_facts){.rail_count = 1};
    agent = agent_after(0);
    expect(agent, "traits", "null");
    expect(rail_of(agent), "traits", "null");
    json_decref(agent);
}

static void what_is_reported_is_shown(void **state)
{
    const json_t *traits;
    json_t *agent;

    (void)state;
    facts = (struct kvr_agent_facts){
        .rail_count = 1,
        .traits = {.reported = true,
                   .libfabric = "2.1.0",
                   .files_limit = 524288,
                   .lockable_bytes = 65536,
                   .clock_known = true,
                   .clock_synchronised = true,
                   .clock_error_us = 4000,
                   .rail_port_first = 9500,
                   .rail_port_last = 9563,
                   .gpu_count = 2,
                   .gpus = {{.pci = "0000:9d:00.0", .node_known = true, .node = 1, .groups = 5},
                            {.pci = "0000:e4:00.0", .model = "H100"}}},
        .rails = {{.traits = {.reported = true,
                              .plane = "red",
                              .network = "10.1.0.0/24",
                              .link = {KVR_LINK_ROCE_V2, 9000, true, true, 1 << 3, 0},
                              .device_path = KVR_PATH_DMABUF,
                              .pins_memory = true,
                              .node_known = true,
                              .node = 1}}}};
    agent = agent_after(0);
    traits = json_object_get(agent, "traits");
    expect(traits, "libfabric", "\"2.1.0\"");
    expect(traits, "open_files", "524288");
    expect(traits, "lockable_bytes", "65536");
    expect(traits, "clock_synchronised", "true");
    expect(traits, "clock_error_seconds", "0.0040000000000000001");
    expect(traits, "rail_ports", "[9500,9563]");
    expect(traits, "gpus",
           "[{\"pci\":\"0000:9d:00.0\",\"model\":null,\"node\":1,\"groups\":[0,2]},"
           "{\"pci\":\"0000:e4:00.0\",\"model\":\"H100\",\"node\":null,\"groups\":[]}]");
    traits = json_object_get(rail_of(agent), "traits");
    expect(traits, "plane", "\"red\"");
    expect(traits, "network", "\"10.1.0.0/24\"");
    expect(traits, "link", "\"roce-v2\"");
    expect(traits, "mtu", "9000");
    expect(traits, "pfc", "[3]");
    expect(traits, "ecn", "[]");
    expect(traits, "device_memory", "\"dmabuf\"");
    expect(traits, "pins_memory", "true");
    expect(traits, "node", "1");
    json_decref(agent);
}

static void what_is_unknown_is_null(void **state)
{
    const json_t *traits;
    json_t *agent;

    (void)state;
    facts = (struct kvr_agent_facts){
        .rail_count = 1,
        .traits = {.reported = true, .files_limit = UINT64_MAX, .lockable_bytes = UINT64_MAX},
        .rails = {{.traits = {.reported = true}}}};
    agent = agent_after(0);
    traits = json_object_get(agent, "traits");
    for (const char *const *key =
             (const char *const[]){"libfabric", "open_files", "lockable_bytes",
                                   "clock_synchronised", "clock_error_seconds", "rail_ports", NULL};
         *key != NULL; key++)
        expect(traits, *key, "null");
    expect(traits, "gpus", "[]");
    traits = json_object_get(rail_of(agent), "traits");
    for (const char *const *key = (const char *const[]){"plane", "network", "link", "mtu", "pfc",
                                                        "ecn", "device_memory", "node", NULL};
         *key != NULL; key++)
        expect(traits, *key, "null");
    json_decref(agent);
}

static void the_agents_clock_is_compared(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("decode-0", 0, NULL, 0);
    struct fleet *fleet;
    json_t *agent;

    facts = (struct kvr_agent_facts){.rail_count = 0};
    agent = agent_after(1500 * (int64_t)KVR_MS);
    expect(agent, "clock_ahead_seconds", "1.5");
    json_decref(agent);
    agent = agent_after(-2 * (int64_t)KVR_S);
    expect(agent, "clock_ahead_seconds", "-2.0");
    json_decref(agent);
    report.facts = &facts; /* of an agent that has not reported since the scheduler started */
    assert_int_equal(apply_one(fixture, &report, &(uint64_t){0}), KVR_OK);
    fleet = fleet_open();
    assert_true(fleet_load(fleet, fixture->store));
    fleet_each(fleet, kvr_clock_now(), take, &agent);
    fleet_close(fleet);
    expect(agent, "clock_ahead_seconds", "null");
    json_decref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_agent_reports_nothing),
        cmocka_unit_test(what_is_reported_is_shown),
        cmocka_unit_test(what_is_unknown_is_null),
        WITH_STORE(the_agents_clock_is_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
