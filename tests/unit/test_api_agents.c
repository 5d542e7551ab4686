/* Goal: /api/v1/agents shows each member that an agent's facts give, whatever its names contain.
 * Method: the text that the scheduler writes, read again, beside a tree of the same facts that
 * jansson makes. Facts are random, with names of quotes, control characters and malformed UTF-8. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/text.h"
#include "scheduler/api_json.h"
#include "tests/support/agent_json.h"
#include "tests/support/json_case.h"
#include "tests/support/store_case.h"

#define PRIORITIES 8 /* of Ethernet */
#define ROUNDS     200

/* ---- the tree ---- */

/* null: no limit. */
static json_t *limit_tree(uint64_t limit)
{
    return limit == UINT64_MAX ? json_null() : json_count(limit);
}

static json_t *priorities_tree(bool known, uint32_t bits)
{
    json_t *list = known ? json_array() : json_null();

    for (int i = 0; i < PRIORITIES && known; i++)
        if ((bits >> i & 1) != 0)
            json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *node_tree(bool known, uint32_t node)
{
    return known ? json_count(node) : json_null();
}

static json_t *gpus_tree(const struct kvr_host_traits *traits)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < traits->gpu_count; i++) {
        const struct kvr_gpu_traits *gpu = &traits->gpus[i];
        json_t *groups = json_array();

        for (int group = 0; group < KVR_RAIL_GROUPS_MAX; group++)
            if ((gpu->groups >> group & 1) != 0)
                json_array_append_new(groups, json_integer(group));
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:o}", "pci", gpu->pci, "model", json_text(gpu->model),
                            "node", node_tree(gpu->node_known, gpu->node), "groups", groups));
    }
    return list;
}

static json_t *host_traits_tree(const struct kvr_host_traits *traits)
{
    if (!traits->reported)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "libfabric", json_text(traits->libfabric),
        "open_files", limit_tree(traits->files_limit), "lockable_bytes",
        limit_tree(traits->lockable_bytes), "clock_synchronised",
        traits->clock_known ? json_boolean(traits->clock_synchronised) : json_null(),
        "clock_error_seconds",
        traits->clock_synchronised ? json_real((double)traits->clock_error_us / 1e6) : json_null(),
        "rail_ports",
        traits->rail_port_first == 0 ? json_null()
                                     : json_pack("[I, I]", (json_int_t)traits->rail_port_first,
                                                 (json_int_t)traits->rail_port_last),
        "gpus", gpus_tree(traits));
}

static json_t *rail_traits_tree(const struct kvr_rail_traits *traits)
{
    const struct kvr_link *link = &traits->link;

    if (!traits->reported)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "plane",
                     json_text(traits->plane), "network", json_text(traits->network), "link",
                     json_text(kvr_link_name(link->kind)), "mtu",
                     link->mtu > 0 ? json_count(link->mtu) : json_null(), "pfc",
                     priorities_tree(link->pfc_known, link->pfc), "ecn",
                     priorities_tree(link->ecn_known, link->ecn), "device_memory",
                     json_text(kvr_path_name(traits->device_path)), "pins_memory",
                     traits->pins_memory, "node", node_tree(traits->node_known, traits->node));
}

/* The names are the metrics'. */
static json_t *rail_counters_tree(const struct kvr_rail_snapshot *rail)
{
    json_t *counters = json_object();

    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) {
        const struct kvr_rail_counter_facts *facts = kvr_rail_counter_facts((kvr_rail_counter)i);

        json_object_set_new(counters, facts->name,
                            facts->unit == 1 ? json_count(rail->counters[i])
                                             : json_real((double)rail->counters[i] * facts->unit));
    }
    return counters;
}

static json_t *rail_tree(const struct kvr_rail_snapshot *rail)
{
    return json_pack("{s:s, s:I, s:s, s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "name", rail->name,
                     "group", (json_int_t)rail->group, "provider", rail->provider, "address",
                     json_text(rail->address), "epoch", (json_int_t)rail->epoch, "state",
                     kvr_rail_state_name(rail->state), "speed_bits_per_second",
                     rail->speed_bps > 0 ? json_count(rail->speed_bps) : json_null(), "bytes",
                     json_count(rail->bytes), "writes", json_count(rail->writes), "counters",
                     rail_counters_tree(rail), "traits", rail_traits_tree(&rail->traits));
}

static json_t *engine_tree(const struct kvr_engine_facts *engine)
{
    const struct kvr_rank *rank = &engine->rank;

    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o}", "name",
                     json_text(engine->name), "engine", json_case_uuid(&rank->engine), "generation",
                     json_count(rank->generation), "tp", (json_int_t)rank->tp, "tp_size",
                     (json_int_t)rank->tp_size, "pp", (json_int_t)rank->pp, "pp_size",
                     (json_int_t)rank->pp_size, "model", json_text(engine->model), "regions",
                     (json_int_t)engine->region_count, "region_bytes",
                     json_count(engine->region_bytes), "geometry", json_text(engine->geometry));
}

static json_t *tenant_tree(const struct kvr_tenant_facts *tenant)
{
    json_t *json = json_pack("{s:o}", "name", json_text(tenant->name));

    for (int i = 0; i < KVR_TENANT_COUNTER_END; i++)
        json_object_set_new(json, kvr_tenant_counter_facts((kvr_tenant_counter)i)->name,
                            json_count(tenant->counters[i]));
    return json;
}

/* Only a source connects rails. */
static json_t *peers_warm_tree(const struct kvr_agent_facts *facts)
{
    return facts->role == KVR_ROLE_SOURCE ? json_integer((json_int_t)facts->peers_warm)
                                          : json_null();
}

static json_t *agent_tree(const struct agent_view *agent, int64_t now_ns)
{
    const struct kvr_agent_facts *facts = agent->facts;
    json_t *rails = json_array(), *engines = json_array(), *counters = json_object();
    json_t *tenants = json_array();

    for (uint32_t i = 0; i < facts->tenant_count; i++)
        json_array_append_new(tenants, tenant_tree(&facts->tenants[i]));
    for (uint32_t i = 0; i < facts->rail_count; i++)
        json_array_append_new(rails, rail_tree(&facts->rails[i]));
    for (uint32_t i = 0; i < facts->engine_count; i++)
        json_array_append_new(engines, engine_tree(&facts->engines[i]));
    for (int i = 0; i < KVR_COUNTER_END; i++)
        json_object_set_new(counters, kvr_counter_name((kvr_counter)i),
                            json_count(facts->counters[i]));
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, "
        "s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o}",
        "name", agent->row.name, "role", facts->role == KVR_ROLE_SOURCE ? "prefill" : "decode",
        "state", agent_state_name(agent->state), "boot", json_id(agent->row.boot), "version",
        json_text(facts->version), "host", json_text(facts->host), "pid", (json_int_t)facts->pid,
        "listen", json_text(facts->listen), "provider", json_text(facts->provider), "seen",
        json_time(agent->row.seen_ns), "silent_seconds",
        json_seconds(now_ns > agent->row.seen_ns ? now_ns - agent->row.seen_ns : 0),
        "transfers_live", (json_int_t)facts->transfers_live, "peers_up",
        (json_int_t)facts->peers_up, "events_dropped", json_count(agent->row.dropped), "counters",
        counters, "rails", rails, "engines", engines, "tenants", tenants, "peers_warm",
        peers_warm_tree(facts), "insecure", !facts->secure, "drained", facts->drained, "traits",
        host_traits_tree(&facts->traits), "clock_ahead_seconds",
        agent->clock_heard ? json_real((double)agent->clock_ahead_ns / 1e9) : json_null(),
        "name_shared_with", json_text(agent->twin_host != NULL ? agent->twin_host : ""),
        "scheduler", json_text(facts->scheduler), "options", json_text(facts->options));
}

/* ---- random facts ---- */

static struct kvr_agent_facts facts;
static struct kvr_rng rng;

static uint64_t number(void)
{
    return json_case_number(&rng);
}

#define NAME(field) json_case_name(&rng, field, sizeof(field), raw)

static void random_rail(struct kvr_rail_snapshot *rail, bool raw)
{
    struct kvr_rail_traits *traits = &rail->traits;

    NAME(rail->name);
    NAME(rail->provider);
    NAME(rail->address);
    rail->epoch = (uint32_t)number();
    rail->group = (uint32_t)number();
    rail->state = (kvr_rail_state)kvr_rng_below(&rng, KVR_RAIL_STATE_END);
    rail->speed_bps = kvr_rng_below(&rng, 2) * number();
    rail->bytes = number();
    rail->writes = number();
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) /* no time is beyond INT64_MAX */
        rail->counters[i] = number() >> (kvr_rail_counter_facts((kvr_rail_counter)i)->unit != 1);
    traits->reported = kvr_rng_below(&rng, 4) != 0;
    NAME(traits->plane);
    NAME(traits->network);
    traits->link = (struct kvr_link){(kvr_link_kind)kvr_rng_below(&rng, KVR_LINK_ROCE_V2 + 1),
                                     (uint32_t)kvr_rng_below(&rng, 2) * 9000,
                                     kvr_rng_below(&rng, 2) != 0,
                                     kvr_rng_below(&rng, 2) != 0,
                                     (uint8_t)number(),
                                     (uint8_t)number()};
    traits->device_path = kvr_rng_below(&rng, 2) != 0 ? KVR_PATH_DMABUF : KVR_PATH_NONE;
    traits->pins_memory = kvr_rng_below(&rng, 2) != 0;
}

static void random_engine(struct kvr_engine_facts *engine, bool raw)
{
    NAME(engine->name);
    NAME(engine->model);
    NAME(engine->geometry);
    for (size_t i = 0; i < sizeof(engine->rank.engine.bytes); i++)
        engine->rank.engine.bytes[i] = (uint8_t)number();
    engine->rank.generation = number();
    engine->rank.tp = (uint32_t)kvr_rng_below(&rng, 8);
    engine->rank.tp_size = 8;
    engine->rank.pp = (uint32_t)kvr_rng_below(&rng, 2);
    engine->rank.pp_size = 2;
    engine->region_count = (uint32_t)number();
    engine->region_bytes = number();
}

static void random_host(bool raw)
{
    struct kvr_host_traits *traits = &facts.traits;

    facts.role = (kvr_role)kvr_rng_below(&rng, 2);
    NAME(facts.version);
    NAME(facts.host);
    NAME(facts.listen);
    NAME(facts.provider);
    NAME(facts.scheduler);
    NAME(facts.options);
    facts.pid = (uint32_t)number();
    facts.transfers_live = (uint32_t)number();
    facts.peers_up = (uint32_t)number();
    facts.peers_warm = (uint32_t)number();
    facts.drained = kvr_rng_below(&rng, 2) != 0;
    facts.secure = kvr_rng_below(&rng, 2) != 0;
    for (int i = 0; i < KVR_COUNTER_END; i++)
        facts.counters[i] = number();
    traits->reported = kvr_rng_below(&rng, 4) != 0;
    NAME(traits->libfabric);
    traits->files_limit = kvr_rng_below(&rng, 2) != 0 ? number() : UINT64_MAX;
    traits->lockable_bytes = kvr_rng_below(&rng, 2) != 0 ? number() : UINT64_MAX;
    traits->clock_known = kvr_rng_below(&rng, 2) != 0;
    traits->clock_synchronised = kvr_rng_below(&rng, 2) != 0;
    traits->clock_error_us = number() >> 16;
    traits->rail_port_first = (uint32_t)kvr_rng_below(&rng, 2) * 9500;
    traits->rail_port_last = 9563;
    traits->gpu_count = (uint32_t)kvr_rng_below(&rng, KVR_GPU_TRAITS_MAX + 1);
    for (uint32_t i = 0; i < traits->gpu_count; i++) {
        strcpy(traits->gpus[i].pci, "0000:9d:00.0");
        NAME(traits->gpus[i].model);
        traits->gpus[i].node_known = kvr_rng_below(&rng, 2) != 0;
        traits->gpus[i].node = (uint32_t)number();
        traits->gpus[i].groups = (uint32_t)kvr_rng_below(&rng, 1u << KVR_RAIL_GROUPS_MAX);
    }
}

static struct agent_view random_agent(bool raw)
{
    struct agent_view view = {.facts = &facts,
                              .state = (agent_state)kvr_rng_below(&rng, AGENT_STOPPED + 1),
                              .clock_heard = kvr_rng_below(&rng, 2) != 0,
                              .clock_ahead_ns = (int64_t)number() / 1000 - (int64_t)KVR_S,
                              .twin_host = kvr_rng_below(&rng, 2) != 0 ? facts.host : NULL};

    facts = (struct kvr_agent_facts){0};
    random_host(raw);
    facts.rail_count = (uint32_t)kvr_rng_below(&rng, KVR_RAILS_MAX + 1);
    for (uint32_t i = 0; i < facts.rail_count; i++)
        random_rail(&facts.rails[i], raw);
    facts.engine_count = (uint32_t)kvr_rng_below(&rng, KVR_ENGINES_MAX + 1);
    for (uint32_t i = 0; i < facts.engine_count; i++)
        random_engine(&facts.engines[i], raw);
    facts.tenant_count = (uint32_t)kvr_rng_below(&rng, KVR_TENANTS_MAX + 1);
    for (uint32_t i = 0; i < facts.tenant_count; i++) {
        NAME(facts.tenants[i].name);
        for (int k = 0; k < KVR_TENANT_COUNTER_END; k++)
            facts.tenants[i].counters[k] = number();
    }
    NAME(view.row.name);
    view.row.boot = number();
    view.row.seen_ns = (int64_t)kvr_rng_below(&rng, 2) * (WALL - (int64_t)(number() >> 12));
    view.row.dropped = number();
    return view;
}

static void the_text_is_as_the_tree(void **state)
{
    (void)state;
    kvr_rng_init(&rng, 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct agent_view view = random_agent(false);
        json_t *found = agent_json(&view, WALL), *wanted = agent_tree(&view, WALL);

        assert_non_null(wanted);
        expect_json("the agent", found, wanted);
        json_decref(found);
        json_decref(wanted);
    }
}

/* As a database may hold them; one agent's name must not take the answer from all. */
static void raw_names_are_shown(void **state)
{
    char shown[KVR_NAME_BYTES];

    (void)state;
    kvr_rng_init(&rng, 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct agent_view view = random_agent(true);
        json_t *found = agent_json(&view, WALL);

        kvr_text_show(view.row.name, sizeof(shown), shown);
        assert_string_equal(json_string_value(json_object_get(found, "name")), shown);
        for (uint32_t i = 0; i < facts.rail_count; i++) {
            const json_t *rail = json_array_get(json_object_get(found, "rails"), i);

            kvr_text_show(facts.rails[i].name, sizeof(shown), shown);
            assert_string_equal(json_string_value(json_object_get(rail, "name")), shown);
        }
        json_decref(found);
    }
}

static const struct api_query none;

/* Of one agent alone, of one that is not there, and of a name that is none. */
static void check_one(struct fleet *fleet, const char *agent, unsigned status, size_t count)
{
    const struct api_query query = {.count = 1, .parameters = {{"agent", agent}}};
    struct api_answer answer;
    json_t *json;

    api_get_agents(fleet, &query, &answer);
    assert_int_equal(answer.status, status);
    json = json_loads(answer.body, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_array_size(json_object_get(json, "agents")), count);
    json_decref(json);
    free(answer.body);
}

static void the_answer_has_each_agent(void **state)
{
    struct fixture *fixture = *state;
    struct api_answer answer;
    json_t *json, *agents;

    facts = (struct kvr_agent_facts){.role = KVR_ROLE_TARGET};
    for (int i = 0; i < 3; i++) {
        char agent[KVR_NAME_BYTES];
        struct kvr_report report;

        snprintf(agent, sizeof(agent), "a%d", i);
        report = report_of(agent, 0, NULL, 0);
        report.facts = &facts;
        assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    }
    api_get_agents(fixture->fleet, &none, &answer);
    assert_int_equal(answer.status, 200);
    json = json_loads(answer.body, JSON_REJECT_DUPLICATES, NULL);
    agents = json_object_get(json, "agents");
    assert_int_equal(json_array_size(agents), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(agents, 2), "name")),
                        "a2");
    assert_true(json_is_real(json_object_get(json, "now_seconds")));
    json_decref(json);
    free(answer.body);
    check_one(fixture->fleet, "a1", 200, 1);
    check_one(fixture->fleet, "a9", 200, 0);
    check_one(fixture->fleet, "", 400, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_the_tree),
        cmocka_unit_test(raw_names_are_shown),
        WITH_STORE(the_answer_has_each_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
