#include "scheduler/api_json.h"

#include <stdio.h>
#include <stdlib.h>

json_t *json_time(int64_t wall_ns)
{
    char text[KVR_RFC3339_BYTES];

    return wall_ns > 0 ? json_string(kvr_clock_rfc3339((kvr_ns)wall_ns, text)) : json_null();
}

json_t *json_seconds(int64_t ns)
{
    return ns >= 0 ? json_real((double)ns / 1e9) : json_null();
}

json_t *json_id(uint64_t id)
{
    return json_sprintf("%016llx", (unsigned long long)id);
}

json_t *json_text(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

json_t *json_count(uint64_t value)
{
    return json_integer(value <= INT64_MAX ? (json_int_t)value : INT64_MAX);
}

static json_t *uuid_text(const struct kvr_uuid *uuid)
{
    static const struct kvr_uuid none;
    char text[2 * sizeof(uuid->bytes) + 5], *to = text;

    if (kvr_uuid_equal(uuid, &none))
        return json_null();
    for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        to += sprintf(to, "%02x", uuid->bytes[i]);
    }
    return json_string(text);
}

static json_t *rails_of(uint64_t bits)
{
    json_t *rails = json_array();

    for (int rail = 0; rail < KVR_RAILS_MAX; rail++)
        if ((bits >> rail & 1) != 0)
            json_array_append_new(rails, json_integer(rail));
    return rails;
}

static json_t *side_json(const struct transfer_side *side, const struct kvr_uuid *engine,
                         const struct kvr_place *rank)
{
    return json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "agent",
                     json_text(side->agent), "engine", uuid_text(engine), "tp",
                     (json_int_t)rank->tp, "pp", (json_int_t)rank->pp, "rails",
                     rails_of(side->rails), "path", json_text(kvr_path_name(side->path)), "outcome",
                     side->ended ? json_string(kvr_status_name(side->outcome)) : json_null(),
                     "detail", json_text(side->detail), "lost", side->lost);
}

struct moment {
    int64_t at_ns;
    int role, stage;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->stage - y->stage;
}

static json_t *stages_json(const struct transfer *transfer)
{
    int64_t from_ns = transfer_opened_ns(transfer);
    struct moment moments[2 * STAGE_END];
    json_t *stages = json_array();
    size_t count = 0;

    for (int role = 0; role < 2; role++)
        for (int stage = 0; stage < STAGE_END; stage++)
            if (transfer->sides[role].at_ns[stage] != 0)
                moments[count++] = (struct moment){transfer->sides[role].at_ns[stage], role, stage};
    qsort(moments, count, sizeof(moments[0]), by_time);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(stages,
                              json_pack("{s:s, s:s, s:o, s:o}", "stage",
                                        transfer_stage_name((transfer_stage)moments[i].stage),
                                        "role", transfer_role_name((kvr_role)moments[i].role), "at",
                                        json_time(moments[i].at_ns), "seconds",
                                        json_seconds(moments[i].at_ns - from_ns)));
    return stages;
}

/* null: the way was impossible, or its cost is unknown. */
static json_t *way_json(const struct kvr_event_way *way)
{
    return way->writes == 0 ? json_null()
                            : json_pack("{s:o, s:o}", "writes", json_count(way->writes), "seconds",
                                        json_seconds((int64_t)way->ns));
}

/* How pieces shorter than fragment_bytes_min were moved, in how many writes, and the expected cost
 * of either way. */
static json_t *fragments_json(const struct transfer *transfer)
{
    if (transfer->fragment_bytes == 0)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:o, s:{s:o, s:o}}", "choice",
                     transfer->fragments_staged ? "staged" : "direct", "bytes",
                     json_count(transfer->fragment_bytes), "pieces", json_count(transfer->pieces),
                     "writes", json_count(transfer->chunks), "expected", "direct",
                     way_json(&transfer->fragments_direct), "staged",
                     way_json(&transfer->fragments_copied));
}

/* null: any number, because the bytes lie in staging memory. */
static json_t *pieces_json(uint32_t pieces)
{
    return pieces == UINT32_MAX ? json_null() : json_integer(pieces);
}

/* The largest write, and whether calibration has found that larger ones gain nothing. */
static json_t *limits_json(const struct kvr_event_limits *limits)
{
    if (limits->bytes == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:b}", "pieces_local", pieces_json(limits->pieces_local),
                     "pieces_remote", pieces_json(limits->pieces_remote), "bytes",
                     json_count(limits->bytes), "calibrated", limits->calibrated);
}

json_t *json_transfer(const struct transfer *transfer, int64_t now_ns)
{
    bool live = transfer_state_live(transfer->state);
    int64_t opened_ns = transfer_opened_ns(transfer);
    bool failed = !live && transfer->reason != KVR_OK;
    json_t *object = json_object();

    json_object_set_new(object, "id", json_id(transfer->id));
    json_object_set_new(object, "request", json_text(transfer->request));
    json_object_set_new(object, "tenant", json_text(transfer->tenant));
    json_object_set_new(object, "attempt", json_count(transfer->attempt));
    json_object_set_new(object, "state", json_string(transfer_state_name(transfer->state)));
    json_object_set_new(object, "live", json_boolean(live));
    json_object_set_new(object, "reason",
                        failed ? json_string(kvr_status_name(transfer->reason)) : json_null());
    json_object_set_new(object, "reason_text",
                        failed ? json_string(kvr_status_text(transfer->reason)) : json_null());
    json_object_set_new(object, "detail", json_text(transfer_detail(transfer)));
    json_object_set_new(object, "tokens", json_count(transfer->tokens));
    json_object_set_new(object, "skip_tokens", json_count(transfer->skip_tokens));
    json_object_set_new(object, "bytes", json_count(transfer->bytes));
    json_object_set_new(object, "layers", json_count(transfer->layers));
    json_object_set_new(object, "chunks", json_count(transfer->chunks));
    json_object_set_new(object, "retries", json_count(transfer->retries));
    json_object_set_new(object, "pieces", json_count(transfer->pieces));
    json_object_set_new(object, "path", json_text(kvr_path_name(transfer_path(transfer))));
    json_object_set_new(object, "fragments", fragments_json(transfer));
    json_object_set_new(object, "limits", limits_json(&transfer->limits));
    json_object_set_new(object, "opened", json_time(opened_ns));
    json_object_set_new(object, "ended", json_time(transfer_ended_ns(transfer)));
    json_object_set_new(object, "updated", json_time(transfer->updated_ns));
    json_object_set_new(object, "duration_seconds",
                        live ? json_null() : json_seconds(transfer_duration_ns(transfer)));
    json_object_set_new(object, "age_seconds",
                        live && now_ns >= opened_ns ? json_seconds(now_ns - opened_ns)
                                                    : json_null());
    json_object_set_new(object, "source",
                        side_json(&transfer->sides[KVR_ROLE_SOURCE], &transfer->source_engine,
                                  &transfer->source_rank));
    json_object_set_new(object, "target",
                        side_json(&transfer->sides[KVR_ROLE_TARGET], &transfer->target_engine,
                                  &transfer->target_rank));
    json_object_set_new(object, "stages", stages_json(transfer));
    return object;
}

json_t *json_event(const struct stored_event *event, const char *tenant, int64_t from_ns)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:s, s:o}", "kind",
                     event->kind, "role", event->role, "agent", event->agent, "tenant",
                     json_text(tenant), "sequence", (json_int_t)event->sequence, "at",
                     json_time(event->at_ns), "seconds", json_seconds(event->at_ns - from_ns),
                     "peer", json_text(event->peer), "bytes", (json_int_t)event->bytes, "retries",
                     (json_int_t)event->retries, "outcome", event->outcome, "detail",
                     json_text(event->detail));
}

/* The names are the metrics'. */
static json_t *rail_counters_json(const struct kvr_rail_snapshot *rail)
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

static json_t *rail_json(const struct kvr_rail_snapshot *rail)
{
    return json_pack("{s:s, s:I, s:s, s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "name", rail->name,
                     "group", (json_int_t)rail->group, "provider", rail->provider, "address",
                     json_text(rail->address), "epoch", (json_int_t)rail->epoch, "state",
                     kvr_rail_state_name(rail->state), "speed_bits_per_second",
                     rail->speed_bps > 0 ? json_count(rail->speed_bps) : json_null(), "bytes",
                     json_count(rail->bytes), "writes", json_count(rail->writes), "counters",
                     rail_counters_json(rail), "traits", json_rail_traits(&rail->traits));
}

static json_t *engine_json(const struct kvr_engine_facts *engine)
{
    const struct kvr_rank *rank = &engine->rank;

    return json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "name", json_text(engine->name),
        "engine", uuid_text(&rank->engine), "generation", json_count(rank->generation), "tp",
        (json_int_t)rank->tp, "tp_size", (json_int_t)rank->tp_size, "pp", (json_int_t)rank->pp,
        "pp_size", (json_int_t)rank->pp_size, "model", json_text(engine->model), "regions",
        (json_int_t)engine->region_count, "region_bytes", json_count(engine->region_bytes));
}

static json_t *tenant_json(const struct kvr_tenant_facts *tenant)
{
    json_t *json = json_pack("{s:o}", "name", json_text(tenant->name));

    for (int i = 0; i < KVR_TENANT_COUNTER_END; i++)
        json_object_set_new(json, kvr_tenant_counter_facts((kvr_tenant_counter)i)->name,
                            json_count(tenant->counters[i]));
    return json;
}

/* Only a source connects rails. */
static json_t *peers_warm_json(const struct kvr_agent_facts *facts)
{
    return facts->role == KVR_ROLE_SOURCE ? json_integer((json_int_t)facts->peers_warm)
                                          : json_null();
}

json_t *json_agent(const struct agent_view *agent, int64_t now_ns)
{
    const struct kvr_agent_facts *facts = agent->facts;
    json_t *rails = json_array(), *engines = json_array(), *counters = json_object();
    json_t *tenants = json_array();

    for (uint32_t i = 0; i < facts->tenant_count; i++)
        json_array_append_new(tenants, tenant_json(&facts->tenants[i]));
    for (uint32_t i = 0; i < facts->rail_count; i++)
        json_array_append_new(rails, rail_json(&facts->rails[i]));
    for (uint32_t i = 0; i < facts->engine_count; i++)
        json_array_append_new(engines, engine_json(&facts->engines[i]));
    for (int i = 0; i < KVR_COUNTER_END; i++)
        json_object_set_new(counters, kvr_counter_name((kvr_counter)i),
                            json_count(facts->counters[i]));
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, "
        "s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o}",
        "name", agent->row.name, "role", facts->role == KVR_ROLE_SOURCE ? "prefill" : "decode",
        "state", agent_state_name(agent->state), "boot", json_id(agent->row.boot), "version",
        json_text(facts->version), "host", json_text(facts->host), "pid", (json_int_t)facts->pid,
        "listen", json_text(facts->listen), "provider", json_text(facts->provider), "seen",
        json_time(agent->row.seen_ns), "silent_seconds",
        json_seconds(now_ns > agent->row.seen_ns ? now_ns - agent->row.seen_ns : 0),
        "transfers_live", (json_int_t)facts->transfers_live, "peers_up",
        (json_int_t)facts->peers_up, "events_dropped", json_count(agent->row.dropped), "counters",
        counters, "rails", rails, "engines", engines, "tenants", tenants, "peers_warm",
        peers_warm_json(facts), "insecure", !facts->secure, "drained", facts->drained, "traits",
        json_host_traits(&facts->traits), "clock_ahead_seconds",
        agent->clock_heard ? json_real((double)agent->clock_ahead_ns / 1e9) : json_null(),
        "name_shared_with", json_text(agent->twin_host != NULL ? agent->twin_host : ""));
}
