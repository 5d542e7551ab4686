#include "trace/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "trace/events.pb-c.h"
#include "trace/report_budget.h"

/* What protobuf-c may allocate for one body: two bytes can announce an event of 200, and 4 MiB of
 * those would ask for half a gigabyte. A full report of honest events needs about 1 MiB. */
#define DECODE_BYTES_MAX ((size_t)32 << 20)

static const char *const roles[] = {[KVR_ROLE_SOURCE] = "source", [KVR_ROLE_TARGET] = "target"};

static const char *const rail_states[] = {
#define X(symbol, name, text) [symbol] = name,
    KVR_RAIL_STATE_LIST(X)
#undef X
};

static const char *const counter_names[] = {
#define X(symbol, name, text) [symbol] = name,
    KVR_COUNTER_LIST(X)
#undef X
};

static const char *const counter_texts[] = {
#define X(symbol, name, text) [symbol] = text,
    KVR_COUNTER_LIST(X)
#undef X
};

static const struct kvr_rail_counter_facts rail_counters[] = {
#define X(symbol, name, gauge, unit, text) {name, text, gauge, unit},
    KVR_RAIL_COUNTER_LIST(X)
#undef X
};

const struct kvr_rail_counter_facts *kvr_rail_counter_facts(kvr_rail_counter counter)
{
    return &rail_counters[counter];
}

const char *kvr_rail_state_name(kvr_rail_state state)
{
    return state >= 0 && state < KVR_RAIL_STATE_END ? rail_states[state] : "?";
}

const char *kvr_counter_name(kvr_counter counter)
{
    return counter >= 0 && counter < KVR_COUNTER_END ? counter_names[counter] : "?";
}

const char *kvr_counter_text(kvr_counter counter)
{
    return counter >= 0 && counter < KVR_COUNTER_END ? counter_texts[counter] : "?";
}

/* ---- encoding: the protobuf structs borrow the report's memory ---- */

static char *text(const char *borrowed)
{
    return (char *)(uintptr_t)borrowed; /* protobuf-c's structs are not const */
}

static ProtobufCBinaryData uuid_bytes(const struct kvr_uuid *uuid)
{
    static const struct kvr_uuid none;
    size_t size = kvr_uuid_equal(uuid, &none) ? 0 : sizeof(uuid->bytes);

    return (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)uuid->bytes};
}

static void event_to_proto(const struct kvr_event *event, Kvrail__Report__Event *proto)
{
    kvrail__report__event__init(proto);
    proto->kind = text(kvr_event_name(event->kind));
    proto->role = text(roles[event->role]);
    proto->at = event->at;
    proto->transfer = event->transfer;
    proto->request = text(event->request);
    proto->attempt = event->attempt;
    proto->source_engine = uuid_bytes(&event->source_engine);
    proto->target_engine = uuid_bytes(&event->target_engine);
    proto->peer = text(event->peer);
    proto->tokens = event->tokens;
    proto->skip_tokens = event->skip_tokens;
    proto->bytes = event->bytes;
    proto->layers = event->layers;
    proto->chunks = event->chunks;
    proto->retries = event->retries;
    proto->rails = event->rails;
    proto->source_tp = event->source_rank.tp;
    proto->source_pp = event->source_rank.pp;
    proto->target_tp = event->target_rank.tp;
    proto->target_pp = event->target_rank.pp;
    proto->pieces = event->pieces;
    proto->fragment_bytes = event->fragment_bytes;
    proto->direct_writes = event->fragments_direct.writes;
    proto->direct_ns = event->fragments_direct.ns;
    proto->staged_writes = event->fragments_copied.writes;
    proto->staged_ns = event->fragments_copied.ns;
    proto->fragments_staged = event->fragments_staged;
    proto->pieces_local = event->limits.pieces_local;
    proto->pieces_remote = event->limits.pieces_remote;
    proto->write_bytes_max = event->limits.bytes;
    proto->calibrated = event->limits.calibrated;
    proto->path = text(kvr_path_name(event->path));
    if (event->outcome != KVR_OK)
        proto->outcome = text(kvr_status_name(event->outcome));
    proto->detail = text(event->detail);
}

/* What the counters of one rail are encoded from. */
struct rail_counter_space {
    Kvrail__Report__Counter counters[KVR_RAIL_COUNTER_END], *list[KVR_RAIL_COUNTER_END];
};

static void rail_to_proto(const struct kvr_rail_snapshot *rail, Kvrail__Report__Rail *proto,
                          struct rail_counter_space *space)
{
    kvrail__report__rail__init(proto);
    proto->name = text(rail->name);
    proto->provider = text(rail->provider);
    proto->address = text(rail->address);
    proto->epoch = rail->epoch;
    proto->group = rail->group;
    proto->state = text(kvr_rail_state_name(rail->state));
    proto->speed_bps = rail->speed_bps;
    proto->bytes = rail->bytes;
    proto->writes = rail->writes;
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) {
        kvrail__report__counter__init(&space->counters[i]);
        space->counters[i].name = text(rail_counters[i].name);
        space->counters[i].value = rail->counters[i];
        space->list[i] = &space->counters[i];
    }
    proto->n_counters = KVR_RAIL_COUNTER_END;
    proto->counters = space->list;
}

static void engine_to_proto(const struct kvr_engine_facts *engine, Kvrail__Report__Engine *proto)
{
    kvrail__report__engine__init(proto);
    proto->name = text(engine->name);
    proto->uuid = uuid_bytes(&engine->rank.engine);
    proto->generation = engine->rank.generation;
    proto->tp = engine->rank.tp;
    proto->tp_size = engine->rank.tp_size;
    proto->pp = engine->rank.pp;
    proto->pp_size = engine->rank.pp_size;
    proto->model = text(engine->model);
    proto->region_count = engine->region_count;
    proto->region_bytes = engine->region_bytes;
}

/* Everything that one encoding borrows, in one block. */
struct encoding {
    Kvrail__Report__Report report;
    Kvrail__Report__Facts facts;
    Kvrail__Report__Rail rails[KVR_RAILS_MAX], *rail_list[KVR_RAILS_MAX];
    struct rail_counter_space rail_counters[KVR_RAILS_MAX];
    Kvrail__Report__Engine engines[KVR_ENGINES_MAX], *engine_list[KVR_ENGINES_MAX];
    Kvrail__Report__Counter counters[KVR_COUNTER_END], *counter_list[KVR_COUNTER_END];
    Kvrail__Report__Event events[KVR_REPORT_EVENTS_MAX], *event_list[KVR_REPORT_EVENTS_MAX];
};

static void facts_to_proto(const struct kvr_agent_facts *facts, struct encoding *encoding)
{
    Kvrail__Report__Facts *proto = &encoding->facts;

    kvrail__report__facts__init(proto);
    proto->role = text(roles[facts->role]);
    proto->version = text(facts->version);
    proto->host = text(facts->host);
    proto->pid = facts->pid;
    proto->listen = text(facts->listen);
    proto->provider = text(facts->provider);
    proto->transfers_live = facts->transfers_live;
    proto->peers_up = facts->peers_up;
    proto->peers_warm = facts->peers_warm;
    for (uint32_t i = 0; i < facts->rail_count; i++) {
        rail_to_proto(&facts->rails[i], &encoding->rails[i], &encoding->rail_counters[i]);
        encoding->rail_list[i] = &encoding->rails[i];
    }
    proto->n_rails = facts->rail_count;
    proto->rails = encoding->rail_list;
    for (uint32_t i = 0; i < facts->engine_count; i++) {
        engine_to_proto(&facts->engines[i], &encoding->engines[i]);
        encoding->engine_list[i] = &encoding->engines[i];
    }
    proto->n_engines = facts->engine_count;
    proto->engines = encoding->engine_list;
    for (int i = 0; i < KVR_COUNTER_END; i++) {
        kvrail__report__counter__init(&encoding->counters[i]);
        encoding->counters[i].name = text(counter_names[i]);
        encoding->counters[i].value = facts->counters[i];
        encoding->counter_list[i] = &encoding->counters[i];
    }
    proto->n_counters = KVR_COUNTER_END;
    proto->counters = encoding->counter_list;
}

static void report_to_proto(const struct kvr_report *report, struct encoding *encoding)
{
    Kvrail__Report__Report *proto = &encoding->report;

    kvrail__report__report__init(proto);
    proto->agent = text(report->agent);
    proto->boot = report->boot;
    proto->sequence_first = report->sequence_first;
    proto->sequence_held = report->sequence_held;
    proto->dropped = report->dropped;
    proto->leaving = report->leaving;
    proto->orders_taken = report->orders_taken;
    proto->anchor_at = report->anchor_at;
    proto->anchor_wall = report->anchor_wall;
    if (report->facts != NULL) {
        facts_to_proto(report->facts, encoding);
        proto->facts = &encoding->facts;
    }
    for (uint32_t i = 0; i < report->event_count; i++) {
        event_to_proto(&report->events[i], &encoding->events[i]);
        encoding->event_list[i] = &encoding->events[i];
    }
    proto->n_events = report->event_count;
    proto->events = encoding->event_list;
}

kvr_status kvr_report_encode(const struct kvr_report *report, uint8_t **ret_bytes, size_t *ret_size)
{
    const struct kvr_agent_facts *facts = report->facts;
    struct encoding *encoding;
    uint8_t *bytes;
    size_t size;

    if (report->event_count > KVR_REPORT_EVENTS_MAX ||
        (facts != NULL &&
         (facts->rail_count > KVR_RAILS_MAX || facts->engine_count > KVR_ENGINES_MAX)))
        return KVR_TOO_LARGE;
    encoding = malloc(sizeof(*encoding));
    if (encoding == NULL)
        return KVR_NO_MEMORY;
    report_to_proto(report, encoding);
    size = kvrail__report__report__get_packed_size(&encoding->report);
    bytes = malloc(size + 1); /* an empty message is legal, a block of no bytes is not portable */
    if (bytes != NULL)
        kvrail__report__report__pack(&encoding->report, bytes);
    free(encoding);
    if (bytes == NULL)
        return KVR_NO_MEMORY;
    *ret_bytes = bytes;
    *ret_size = size;
    return KVR_OK;
}

/* ---- decoding: everything from outside is checked ---- */

/* Request ids are an engine's own bytes: JSON carries what is kept of them, and terminals show it.
 */
static bool copy_text(const char *from, char *to, size_t room)
{
    if (strlen(from) >= room)
        return false;
    kvr_text_show(from, room, to);
    return true;
}

#define COPY_TEXT(proto, value, field)                                                             \
    copy_text((proto)->field, (value)->field, sizeof((value)->field))

static bool copy_uuid(const ProtobufCBinaryData *from, struct kvr_uuid *to)
{
    if (from->len != 0 && from->len != sizeof(to->bytes))
        return false;
    if (from->len != 0)
        memcpy(to->bytes, from->data, sizeof(to->bytes));
    return true;
}

static bool find_name(const char *const *names, int count, const char *name, int *ret_index)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

static bool role_from(const char *name, kvr_role *ret_role)
{
    int index;

    if (!find_name(roles, 2, name, &index))
        return false;
    *ret_role = (kvr_role)index;
    return true;
}

/* A newer agent may tell of kinds that this version does not know: they keep their number. */
static kvr_event_kind kind_from(const char *name)
{
    for (int kind = 0; kind < KVR_EVENT_KIND_END; kind++)
        if (strcmp(kvr_event_name((kvr_event_kind)kind), name) == 0)
            return (kvr_event_kind)kind;
    return KVR_EVENT_KIND_END;
}

static kvr_status status_from(const char *name)
{
    bool known;
    kvr_status status;

    if (name[0] == '\0')
        return KVR_OK;
    status = kvr_status_from_name(name, &known);
    return known ? status : KVR_INTERNAL;
}

static const char *event_from_proto(const Kvrail__Report__Event *proto, struct kvr_event *event)
{
    if (!role_from(proto->role, &event->role))
        return "role";
    if (!COPY_TEXT(proto, event, request))
        return "request";
    if (!COPY_TEXT(proto, event, peer))
        return "peer";
    if (!COPY_TEXT(proto, event, detail))
        return "detail";
    if (!copy_uuid(&proto->source_engine, &event->source_engine))
        return "source_engine";
    if (!copy_uuid(&proto->target_engine, &event->target_engine))
        return "target_engine";
    event->kind = kind_from(proto->kind);
    event->at = proto->at;
    event->transfer = proto->transfer;
    event->attempt = proto->attempt;
    event->tokens = proto->tokens;
    event->skip_tokens = proto->skip_tokens;
    event->bytes = proto->bytes;
    event->layers = proto->layers;
    event->chunks = proto->chunks;
    event->retries = proto->retries;
    event->rails = proto->rails;
    event->source_rank = (struct kvr_place){proto->source_tp, proto->source_pp};
    event->target_rank = (struct kvr_place){proto->target_tp, proto->target_pp};
    event->pieces = proto->pieces;
    event->fragment_bytes = proto->fragment_bytes;
    event->fragments_direct = (struct kvr_event_way){proto->direct_writes, proto->direct_ns};
    event->fragments_copied = (struct kvr_event_way){proto->staged_writes, proto->staged_ns};
    event->fragments_staged = proto->fragments_staged;
    event->limits.pieces_local = proto->pieces_local;
    event->limits.pieces_remote = proto->pieces_remote;
    event->limits.bytes = proto->write_bytes_max;
    event->limits.calibrated = proto->calibrated;
    event->path = kvr_path_from_name(proto->path);
    event->outcome = status_from(proto->outcome);
    return NULL;
}

static const char *rail_from_proto(const Kvrail__Report__Rail *proto,
                                   struct kvr_rail_snapshot *rail)
{
    int state;

    if (!COPY_TEXT(proto, rail, name))
        return "rails.name";
    if (!COPY_TEXT(proto, rail, provider))
        return "rails.provider";
    if (!COPY_TEXT(proto, rail, address))
        return "rails.address";
    if (!find_name(rail_states, KVR_RAIL_STATE_END, proto->state, &state))
        return "rails.state";
    rail->state = (kvr_rail_state)state;
    rail->epoch = proto->epoch;
    rail->group = proto->group;
    rail->speed_bps = proto->speed_bps;
    rail->bytes = proto->bytes;
    rail->writes = proto->writes;
    for (size_t i = 0; i < proto->n_counters; i++)
        for (int k = 0; k < KVR_RAIL_COUNTER_END; k++)
            if (strcmp(rail_counters[k].name, proto->counters[i]->name) == 0)
                rail->counters[k] = proto->counters[i]->value;
    return NULL;
}

static const char *engine_from_proto(const Kvrail__Report__Engine *proto,
                                     struct kvr_engine_facts *engine)
{
    if (!COPY_TEXT(proto, engine, name))
        return "engines.name";
    if (!COPY_TEXT(proto, engine, model))
        return "engines.model";
    if (!copy_uuid(&proto->uuid, &engine->rank.engine))
        return "engines.uuid";
    engine->rank.generation = proto->generation;
    engine->rank.tp = proto->tp;
    engine->rank.tp_size = proto->tp_size;
    engine->rank.pp = proto->pp;
    engine->rank.pp_size = proto->pp_size;
    engine->region_count = proto->region_count;
    engine->region_bytes = proto->region_bytes;
    return NULL;
}

static const char *facts_lists_from_proto(const Kvrail__Report__Facts *proto,
                                          struct kvr_agent_facts *facts)
{
    const char *wrong = NULL;
    int index;

    if (proto->n_rails > KVR_RAILS_MAX)
        return "rails";
    if (proto->n_engines > KVR_ENGINES_MAX)
        return "engines";
    for (; facts->rail_count < proto->n_rails && wrong == NULL; facts->rail_count++)
        wrong = rail_from_proto(proto->rails[facts->rail_count], &facts->rails[facts->rail_count]);
    for (; facts->engine_count < proto->n_engines && wrong == NULL; facts->engine_count++)
        wrong = engine_from_proto(proto->engines[facts->engine_count],
                                  &facts->engines[facts->engine_count]);
    for (size_t i = 0; i < proto->n_counters; i++)
        if (find_name(counter_names, KVR_COUNTER_END, proto->counters[i]->name, &index))
            facts->counters[index] = proto->counters[i]->value;
    return wrong;
}

static const char *facts_from_proto(const Kvrail__Report__Facts *proto,
                                    struct kvr_agent_facts *facts)
{
    if (!role_from(proto->role, &facts->role))
        return "facts.role";
    if (!COPY_TEXT(proto, facts, version))
        return "facts.version";
    if (!COPY_TEXT(proto, facts, host))
        return "facts.host";
    if (!COPY_TEXT(proto, facts, listen))
        return "facts.listen";
    if (!COPY_TEXT(proto, facts, provider))
        return "facts.provider";
    facts->pid = proto->pid;
    facts->transfers_live = proto->transfers_live;
    facts->peers_up = proto->peers_up;
    facts->peers_warm = proto->peers_warm;
    return facts_lists_from_proto(proto, facts);
}

/* One block: the report, then its events, then its facts. */
struct decoded {
    struct kvr_report report;
    struct kvr_agent_facts facts;
    struct kvr_event events[];
};

static const char *report_from_proto(const Kvrail__Report__Report *proto, struct decoded *decoded)
{
    struct kvr_report *report = &decoded->report;
    const char *wrong;

    if (proto->agent[0] == '\0' || !COPY_TEXT(proto, report, agent))
        return "agent";
    if (proto->n_events > 0 && proto->sequence_first == 0)
        return "sequence_first";
    if (proto->sequence_first > INT64_MAX - KVR_REPORT_EVENTS_MAX)
        return "sequence_first"; /* the scheduler's store has signed integers */
    report->boot = proto->boot;
    report->sequence_first = proto->sequence_first;
    report->sequence_held =
        proto->sequence_held != 0 ? proto->sequence_held : proto->sequence_first;
    report->dropped = proto->dropped;
    report->leaving = proto->leaving;
    report->orders_taken = proto->orders_taken;
    report->anchor_at = proto->anchor_at;
    report->anchor_wall = proto->anchor_wall;
    for (size_t i = 0; i < proto->n_events; i++) {
        wrong = event_from_proto(proto->events[i], &decoded->events[i]);
        if (wrong != NULL)
            return wrong;
    }
    report->events = decoded->events;
    report->event_count = (uint32_t)proto->n_events;
    if (proto->facts == NULL)
        return NULL;
    report->facts = &decoded->facts;
    return facts_from_proto(proto->facts, &decoded->facts);
}

kvr_status kvr_report_decode(const uint8_t *bytes, size_t size, struct kvr_report **ret_report,
                             struct kvr_error *error)
{
    struct report_budget budget = {.left = DECODE_BYTES_MAX};
    ProtobufCAllocator allocator = report_budget_allocator(&budget);
    Kvrail__Report__Report *proto;
    struct decoded *decoded;
    const char *wrong;

    if (size > KVR_REPORT_BYTES_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "report", "a report of %zu bytes; at most %u",
                             size, KVR_REPORT_BYTES_MAX);
    proto = kvrail__report__report__unpack(&allocator, size, bytes);
    if (proto == NULL)
        return kvr_error_set(error, KVR_MALFORMED, "report", "the body is no report");
    if (proto->n_events > KVR_REPORT_EVENTS_MAX) {
        kvr_error_set(error, KVR_TOO_LARGE, "report", "%zu events in one report; at most %d",
                      proto->n_events, KVR_REPORT_EVENTS_MAX);
        kvrail__report__report__free_unpacked(proto, &allocator);
        return KVR_TOO_LARGE;
    }
    decoded = calloc(1, sizeof(*decoded) + proto->n_events * sizeof(decoded->events[0]));
    wrong = decoded == NULL ? NULL : report_from_proto(proto, decoded);
    kvrail__report__report__free_unpacked(proto, &allocator);
    if (decoded == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "report", "no memory for a report");
    if (wrong != NULL) {
        free(decoded);
        return kvr_error_set(error, KVR_MALFORMED, "report",
                             "field %s of the report is missing, too long or unknown", wrong);
    }
    *ret_report = &decoded->report;
    return KVR_OK;
}

struct kvr_report *kvr_report_free(struct kvr_report *report)
{
    free(report); /* the first member of its block */
    return NULL;
}
