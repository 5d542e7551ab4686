#include "scheduler/api_agents.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/api_parameters.h"
#include "scheduler/api_rows.h"

/* ---- rails ---- */

/* The names are the metrics'. */
static void write_rail_counters(struct json_writer *out, const struct kvr_rail_snapshot *rail)
{
    json_writer_object(out, "counters");
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) {
        const struct kvr_rail_counter_facts *facts = kvr_rail_counter_facts((kvr_rail_counter)i);

        if (facts->unit == 1)
            json_writer_count(out, facts->name, rail->counters[i]);
        else
            json_writer_seconds(out, facts->name,
                                (int64_t)kvr_min_u64(rail->counters[i], INT64_MAX));
    }
    json_writer_end_object(out);
}

static void write_rail(struct json_writer *out, const struct kvr_rail_snapshot *rail)
{
    json_writer_object(out, NULL);
    json_writer_string(out, "name", rail->name);
    json_writer_count(out, "group", rail->group);
    json_writer_string(out, "provider", rail->provider);
    json_writer_text(out, "address", rail->address);
    json_writer_count(out, "epoch", rail->epoch);
    json_writer_string(out, "state", kvr_rail_state_name(rail->state));
    if (rail->speed_bps > 0)
        json_writer_count(out, "speed_bits_per_second", rail->speed_bps);
    else
        json_writer_null(out, "speed_bits_per_second");
    json_writer_count(out, "bytes", rail->bytes);
    json_writer_count(out, "writes", rail->writes);
    write_rail_counters(out, rail);
    api_write_rail_traits(out, &rail->traits);
    json_writer_end_object(out);
}

/* ---- engines and tenants ---- */

void api_write_engine_members(struct json_writer *out, const struct kvr_engine_facts *engine)
{
    const struct kvr_rank *rank = &engine->rank;

    json_writer_text(out, "name", engine->name);
    api_write_uuid(out, "engine", &rank->engine);
    json_writer_count(out, "generation", rank->generation);
    json_writer_count(out, "tp", rank->tp);
    json_writer_count(out, "tp_size", rank->tp_size);
    json_writer_count(out, "pp", rank->pp);
    json_writer_count(out, "pp_size", rank->pp_size);
    json_writer_text(out, "model", engine->model);
    json_writer_count(out, "regions", engine->region_count);
    json_writer_count(out, "region_bytes", engine->region_bytes);
    json_writer_text(out, "geometry", engine->geometry);
}

static void write_tenant(struct json_writer *out, const struct kvr_tenant_facts *tenant)
{
    json_writer_object(out, NULL);
    json_writer_text(out, "name", tenant->name);
    for (int i = 0; i < KVR_TENANT_COUNTER_END; i++)
        json_writer_count(out, kvr_tenant_counter_facts((kvr_tenant_counter)i)->name,
                          tenant->counters[i]);
    json_writer_end_object(out);
}

/* ---- agents ---- */

static void write_identity(struct json_writer *out, const struct agent_view *agent, int64_t now_ns)
{
    const struct kvr_agent_facts *facts = agent->facts;

    json_writer_string(out, "name", agent->row.name);
    json_writer_string(out, "role", facts->role == KVR_ROLE_SOURCE ? "prefill" : "decode");
    json_writer_string(out, "state", agent_state_name(agent->state));
    api_write_id(out, "boot", agent->row.boot);
    json_writer_text(out, "version", facts->version);
    json_writer_text(out, "host", facts->host);
    json_writer_count(out, "pid", facts->pid);
    json_writer_text(out, "listen", facts->listen);
    json_writer_text(out, "provider", facts->provider);
    api_write_time(out, "seen", agent->row.seen_ns);
    json_writer_seconds(out, "silent_seconds",
                        now_ns > agent->row.seen_ns ? now_ns - agent->row.seen_ns : 0);
    json_writer_count(out, "transfers_live", facts->transfers_live);
    json_writer_count(out, "peers_up", facts->peers_up);
    json_writer_count(out, "events_dropped", agent->row.dropped);
}

static void write_parts(struct json_writer *out, const struct kvr_agent_facts *facts)
{
    json_writer_object(out, "counters");
    for (int i = 0; i < KVR_COUNTER_END; i++)
        json_writer_count(out, kvr_counter_name((kvr_counter)i), facts->counters[i]);
    json_writer_end_object(out);
    json_writer_array(out, "rails");
    for (uint32_t i = 0; i < facts->rail_count; i++)
        write_rail(out, &facts->rails[i]);
    json_writer_end_array(out);
    json_writer_array(out, "engines");
    for (uint32_t i = 0; i < facts->engine_count; i++) {
        json_writer_object(out, NULL);
        api_write_engine_members(out, &facts->engines[i]);
        json_writer_end_object(out);
    }
    json_writer_end_array(out);
    json_writer_array(out, "tenants");
    for (uint32_t i = 0; i < facts->tenant_count; i++)
        write_tenant(out, &facts->tenants[i]);
    json_writer_end_array(out);
}

void api_write_agent(struct json_writer *out, const struct agent_view *agent, int64_t now_ns)
{
    const struct kvr_agent_facts *facts = agent->facts;

    json_writer_object(out, NULL);
    write_identity(out, agent, now_ns);
    write_parts(out, facts);
    if (facts->role == KVR_ROLE_SOURCE) /* alone connects rails */
        json_writer_count(out, "peers_warm", facts->peers_warm);
    else
        json_writer_null(out, "peers_warm");
    json_writer_boolean(out, "insecure", !facts->secure);
    json_writer_boolean(out, "drained", facts->drained);
    api_write_host_traits(out, &facts->traits);
    if (agent->clock_heard)
        json_writer_seconds(out, "clock_ahead_seconds", agent->clock_ahead_ns);
    else
        json_writer_null(out, "clock_ahead_seconds");
    json_writer_text(out, "name_shared_with", agent->twin_host);
    json_writer_text(out, "scheduler", facts->scheduler);
    json_writer_text(out, "options", facts->options);
    json_writer_end_object(out);
}

struct agent_list {
    const char *only; /* NULL: all */
    struct json_writer out;
    int64_t now_ns;
};

static void add_agent(void *self, const struct agent_view *agent)
{
    struct agent_list *list = self;

    if (list->only == NULL || strcmp(list->only, agent->row.name) == 0)
        api_write_agent(&list->out, agent, list->now_ns);
}

void api_get_agents(struct fleet *fleet, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    struct agent_list list = {.now_ns = (int64_t)kvr_clock_wall()};
    bool visited;
    char *body;

    if (!api_parse_name(query, "agent", "agent", &list.only, ret_answer))
        return;
    json_writer_object(&list.out, NULL);
    json_writer_array(&list.out, "agents");
    visited = fleet_each(fleet, kvr_clock_now(), add_agent, &list);
    json_writer_end_array(&list.out);
    json_writer_seconds(&list.out, "now_seconds", list.now_ns - list.now_ns % (int64_t)KVR_MS);
    json_writer_end_object(&list.out);
    body = json_writer_take(&list.out);
    if (!visited) {
        free(body);
        body = NULL;
    }
    *ret_answer = (struct api_answer){.status = 200, .body = body};
}
