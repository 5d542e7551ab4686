/* What a trace has of agents and engines. */
#include <string.h>

#include "base/text.h"
#include "tools/trace/trace_recorder_state.h"
#include "trace/geometry.h"

static int64_t find_agent(const struct trace_recorder *recorder, const char *name, kvr_role role)
{
    for (int64_t i = 0; i < recorder->book.agent_count; i++)
        if (recorder->book.agents[i]->role == role &&
            strcmp(recorder->book.agents[i]->name, name) == 0)
            return i;
    return KVTRACE_NONE;
}

int64_t recorder_agent(const struct trace_recorder *recorder, const char *name)
{
    int64_t number = find_agent(recorder, name, KVR_ROLE_SOURCE);

    return number != KVTRACE_NONE ? number : find_agent(recorder, name, KVR_ROLE_TARGET);
}

static void set_rails(struct kvtrace_agent *agent, const json_t *rails)
{
    size_t index;
    json_t *rail;

    json_array_foreach(rails, index, rail)
    {
        struct kvtrace_rail *one = &agent->rails[index];

        if (index == KVR_RAILS_MAX)
            break;
        kvr_text_show(recorder_text(rail, "name"), sizeof(one->name), one->name);
        kvr_text_show(recorder_text(rail, "provider"), sizeof(one->provider), one->provider);
        kvr_text_show(recorder_text(json_object_get(rail, "traits"), "plane"), sizeof(one->plane),
                      one->plane);
        one->speed_bps = recorder_number(rail, "speed_bits_per_second");
        one->group = recorder_number(rail, "group");
        agent->rail_count = index + 1;
    }
}

/* Also one that a transfer names and the scheduler knows no more. */
static kvr_status add_agent(struct trace_recorder *recorder, const char *name, kvr_role role,
                            const json_t *agent, struct kvr_error *error)
{
    struct kvtrace_agent *one = &recorder->record.agent;

    kvtrace_clear(&recorder->record, KVTRACE_AGENT);
    one->number = recorder->book.agent_count;
    one->role = role;
    kvr_text_show(name, sizeof(one->name), one->name);
    if (agent != NULL) {
        kvr_text_show(recorder_text(agent, "host"), sizeof(one->host), one->host);
        kvr_text_show(recorder_text(agent, "version"), sizeof(one->version), one->version);
        kvr_text_show(recorder_text(agent, "options"), sizeof(one->options), one->options);
        set_rails(one, json_object_get(agent, "rails"));
    }
    return recorder_put(recorder, error);
}

static int64_t find_geometry(const struct trace_recorder *recorder,
                             const struct kvtrace_geometry *wanted)
{
    for (int64_t i = 0; i < recorder->book.geometry_count; i++) {
        const struct kvtrace_geometry *one = recorder->book.geometries[i];

        if (strcmp(one->model, wanted->model) == 0 && strcmp(one->dtype, wanted->dtype) == 0 &&
            one->layers == wanted->layers && one->group_count == wanted->group_count &&
            memcmp(one->groups, wanted->groups, one->group_count * sizeof(one->groups[0])) == 0)
            return i;
    }
    return KVTRACE_NONE;
}

/* A group's place is its number. Which layers look back no farther than a window, no agent knows.
 */
static void set_geometry(struct kvtrace_geometry *one, const char *text)
{
    struct kvr_geometry geometry;

    if (!kvr_geometry_read(text, &geometry))
        return;
    kvr_text_show(geometry.dtype, sizeof(one->dtype), one->dtype);
    one->layers = geometry.layers;
    for (uint32_t i = 0; i < geometry.group_count; i++) {
        const struct kvr_geometry_group *group = &geometry.groups[i];
        struct kvtrace_kv_group *to = &one->groups[group->group];

        if (group->page_tokens == 0)
            kvr_text_show("state", sizeof(to->kind), to->kind);
        to->layers = group->layers;
        to->page_tokens = group->page_tokens;
        to->page_bytes = (int64_t)group->page_bytes;
        if (one->group_count <= group->group)
            one->group_count = group->group + 1;
    }
}

/* Of an older agent the model's name alone is known, or nothing. */
static kvr_status geometry_of(struct trace_recorder *recorder, const json_t *engine,
                              int64_t *ret_number, struct kvr_error *error)
{
    struct kvtrace_geometry *one = &recorder->record.geometry;

    *ret_number = KVTRACE_NONE;
    kvtrace_clear(&recorder->record, KVTRACE_GEOMETRY);
    kvr_text_show(recorder_text(engine, "model"), sizeof(one->model), one->model);
    set_geometry(one, recorder_text(engine, "geometry"));
    if (one->model[0] == '\0' && one->group_count == 0)
        return KVR_OK;
    *ret_number = find_geometry(recorder, one);
    if (*ret_number != KVTRACE_NONE)
        return KVR_OK;
    *ret_number = one->number = recorder->book.geometry_count;
    return recorder_put(recorder, error);
}

static kvr_status add_engine(struct trace_recorder *recorder, int64_t agent, const json_t *engine,
                             struct kvr_error *error)
{
    struct kvtrace_engine *one = &recorder->record.engine;
    int64_t geometry;

    KVR_TRY(geometry_of(recorder, engine, &geometry, error));
    kvtrace_clear(&recorder->record, KVTRACE_ENGINE);
    one->number = recorder->book.engine_count;
    one->agent = agent;
    one->geometry = geometry;
    kvr_text_show(recorder_text(engine, "engine"), sizeof(one->name), one->name);
    one->tp = recorder_number(engine, "tp");
    one->tp_size = recorder_number(engine, "tp_size");
    one->pp = recorder_number(engine, "pp");
    one->pp_size = recorder_number(engine, "pp_size");
    return recorder_put(recorder, error);
}

static int64_t find_engine(const struct trace_recorder *recorder, int64_t agent, const json_t *rank)
{
    const char *name = recorder_text(rank, "engine");

    for (int64_t i = 0; i < recorder->book.engine_count && name[0] != '\0'; i++) {
        const struct kvtrace_engine *engine = recorder->book.engines[i];

        if (engine->agent == agent && strcmp(engine->name, name) == 0 &&
            engine->tp == recorder_number(rank, "tp") && engine->pp == recorder_number(rank, "pp"))
            return i;
    }
    return KVTRACE_NONE;
}

kvr_status trace_record_engine(struct trace_recorder *recorder, const char *agent,
                               const json_t *engine, struct kvr_error *error)
{
    int64_t number = recorder_agent(recorder, agent);

    if (number == KVTRACE_NONE || find_engine(recorder, number, engine) != KVTRACE_NONE)
        return KVR_OK;
    return add_engine(recorder, number, engine, error);
}

static kvr_status add_dropped(struct trace_recorder *recorder, int64_t agent, int64_t count,
                              const char *what, struct kvr_error *error)
{
    if (count <= 0)
        return KVR_OK;
    kvtrace_clear(&recorder->record, KVTRACE_DROPPED);
    recorder->record.dropped = (struct kvtrace_dropped){.agent = agent, .count = count};
    kvr_text_show(what, sizeof(recorder->record.dropped.what), recorder->record.dropped.what);
    return recorder_put(recorder, error);
}

kvr_status trace_record_agents(struct trace_recorder *recorder, const json_t *agents,
                               struct kvr_error *error)
{
    size_t index;
    json_t *agent;

    json_array_foreach(agents, index, agent)
    {
        bool source = strcmp(recorder_text(agent, "role"), "prefill") == 0;
        int64_t number = recorder->book.agent_count;

        KVR_TRY(add_agent(recorder, recorder_text(agent, "name"),
                          source ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET, agent, error));
        KVR_TRY(add_dropped(recorder, number, recorder_number(agent, "events_dropped"),
                            "events since the agent's start", error));
        KVR_TRY(add_dropped(recorder, number,
                            recorder_number(json_object_get(agent, "counters"), "records_dropped"),
                            "spans or page tables since the agent's start", error));
    }
    return KVR_OK;
}

kvr_status recorder_side(struct trace_recorder *recorder, const json_t *side, kvr_role role,
                         int64_t *ret_agent, int64_t *ret_engine, struct kvr_error *error)
{
    const char *name = recorder_text(side, "agent");

    *ret_agent = *ret_engine = KVTRACE_NONE;
    if (name[0] == '\0')
        return KVR_OK;
    *ret_agent = find_agent(recorder, name, role);
    if (*ret_agent == KVTRACE_NONE) {
        *ret_agent = recorder->book.agent_count;
        KVR_TRY(add_agent(recorder, name, role, NULL, error));
    }
    *ret_engine = find_engine(recorder, *ret_agent, side);
    if (*ret_engine != KVTRACE_NONE || recorder_text(side, "engine")[0] == '\0')
        return KVR_OK;
    *ret_engine = recorder->book.engine_count;
    return add_engine(recorder, *ret_agent, side, error);
}
