#include "trace/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/proto.h"
#include "base/text.h"
#include "trace/report_budget.h"
#include "trace/report_parts.h"

/* What protobuf-c may allocate for one body: two bytes can announce an event of 200, and 4 MiB of
 * those would ask for half a gigabyte. A full report of honest events needs about 1 MiB. */
#define DECODE_BYTES_MAX  ((size_t)32 << 20)
/* A report of thirty events fits. */
#define FIRST_BLOCK_BYTES 16384

static const char *const roles[] = {[KVR_ROLE_SOURCE] = "source", [KVR_ROLE_TARGET] = "target"};

static const char *const rail_states[] = {KVR_RAIL_STATE_LIST(KVR_NAME)};
static const char *const counter_names[] = {KVR_COUNTER_LIST(KVR_NAME)};
static const char *const counter_texts[] = {KVR_COUNTER_LIST(KVR_TEXT)};

static const struct kvr_rail_counter_facts rail_counters[] = {KVR_RAIL_COUNTER_LIST(KVR_ROW)};

static const struct kvr_rail_counter_facts tenant_counters[] = {KVR_TENANT_COUNTER_LIST(KVR_ROW)};

const struct kvr_rail_counter_facts *kvr_tenant_counter_facts(kvr_tenant_counter counter)
{
    return &tenant_counters[counter];
}

const struct kvr_rail_counter_facts *kvr_rail_counter_facts(kvr_rail_counter counter)
{
    return &rail_counters[counter];
}

const char *kvr_rail_state_name(kvr_rail_state state)
{
    return state >= 0 && state < KVR_RAIL_STATE_END ? rail_states[state] : "?";
}

bool kvr_rail_state_from_name(const char *name, kvr_rail_state *ret_state)
{
    int state = kvr_name_find(rail_states, KVR_RAIL_STATE_END, name);

    if (state < KVR_RAIL_STATE_END)
        *ret_state = (kvr_rail_state)state;
    return state < KVR_RAIL_STATE_END;
}

const char *kvr_counter_name(kvr_counter counter)
{
    return counter >= 0 && counter < KVR_COUNTER_END ? counter_names[counter] : "?";
}

const char *kvr_counter_text(kvr_counter counter)
{
    return counter >= 0 && counter < KVR_COUNTER_END ? counter_texts[counter] : "?";
}

/* ---- what both directions copy ---- */

#define EVENT_FIELDS(X)                                                                            \
    X(at)                                                                                          \
    X(transfer)                                                                                    \
    X(attempt)                                                                                     \
    X(tokens)                                                                                      \
    X(skip_tokens)                                                                                 \
    X(bytes)                                                                                       \
    X(layers)                                                                                      \
    X(chunks)                                                                                      \
    X(retries)                                                                                     \
    X(rails)                                                                                       \
    X(pieces)                                                                                      \
    X(fragment_bytes)                                                                              \
    X(fragments_staged)
#define EVENT_MEMBERS(X)                                                                           \
    X(source_rank.tp, source_tp)                                                                   \
    X(source_rank.pp, source_pp)                                                                   \
    X(target_rank.tp, target_tp)                                                                   \
    X(target_rank.pp, target_pp)                                                                   \
    X(fragments_direct.writes, direct_writes)                                                      \
    X(fragments_direct.ns, direct_ns)                                                              \
    X(fragments_copied.writes, staged_writes)                                                      \
    X(fragments_copied.ns, staged_ns)                                                              \
    X(limits.pieces_local, pieces_local)                                                           \
    X(limits.pieces_remote, pieces_remote)                                                         \
    X(limits.bytes, write_bytes_max)                                                               \
    X(limits.calibrated, calibrated)
#define RAIL_FIELDS(X) X(epoch) X(group) X(speed_bps) X(bytes) X(writes)
#define ENGINE_MEMBERS(X)                                                                          \
    X(rank.generation, generation)                                                                 \
    X(rank.tp, tp)                                                                                 \
    X(rank.tp_size, tp_size)                                                                       \
    X(rank.pp, pp)                                                                                 \
    X(rank.pp_size, pp_size)                                                                       \
    X(region_count, region_count)                                                                  \
    X(region_bytes, region_bytes)
#define FACTS_FIELDS(X) X(pid) X(transfers_live) X(peers_up) X(peers_warm) X(drained) X(secure)
#define REPORT_FIELDS(X)                                                                           \
    X(boot)                                                                                        \
    X(sequence_first)                                                                              \
    X(sequence_held)                                                                               \
    X(dropped)                                                                                     \
    X(leaving)                                                                                     \
    X(orders_taken)                                                                                \
    X(sequence_made)                                                                               \
    X(anchor_at)                                                                                   \
    X(anchor_wall)

/* Texts: X(where the field is, for an error; field) */
#define EVENT_TEXTS(X)  X("", request) X("", tenant) X("", peer) X("", detail)
#define RAIL_TEXTS(X)   X("rails.", name) X("rails.", provider) X("rails.", address)
#define ENGINE_TEXTS(X) X("engines.", name) X("engines.", model)
#define FACTS_TEXTS(X)                                                                             \
    X("facts.", version)                                                                           \
    X("facts.", host) X("facts.", listen) X("facts.", provider) X("facts.", scheduler)
#define PUT_TEXT(where, field) out->field = kvr_proto_text(in->field);
/* Returns the field's name from the function around it when the text does not fit. */
#define GET_TEXT(where, field)                                                                     \
    if (!report_copy_text(in->field, out->field, sizeof(out->field)))                              \
        return where #field;

/* ---- encoding: the protobuf structs borrow the report's memory ---- */

static ProtobufCBinaryData uuid_bytes(const struct kvr_uuid *uuid)
{
    static const struct kvr_uuid none;
    size_t size = kvr_uuid_equal(uuid, &none) ? 0 : sizeof(uuid->bytes);

    return kvr_proto_bytes(uuid->bytes, size);
}

static void event_to_proto(const struct kvr_event *in, Kvrail__Report__Event *out)
{
    kvrail__report__event__init(out);
    EVENT_FIELDS(KVR_PROTO_COPY)
    EVENT_MEMBERS(KVR_PROTO_PUT)
    EVENT_TEXTS(PUT_TEXT)
    out->kind = kvr_proto_text(kvr_event_name(in->kind));
    out->role = kvr_proto_text(roles[in->role]);
    out->source_engine = uuid_bytes(&in->source_engine);
    out->target_engine = uuid_bytes(&in->target_engine);
    out->path = kvr_proto_text(kvr_path_name(in->path));
    out->spans = kvr_proto_bytes(in->spans, in->spans_bytes);
    out->pages = kvr_proto_bytes(in->pages, in->pages_bytes);
    if (in->outcome != KVR_OK)
        out->outcome = kvr_proto_text(kvr_status_name(in->outcome));
}

/* What the counters and traits of one rail are encoded from. */
struct rail_counter_space {
    Kvrail__Report__Counter counters[KVR_RAIL_COUNTER_END], *list[KVR_RAIL_COUNTER_END];
    Kvrail__Report__RailTraits traits;
};

static void counter_to_proto(const char *name, uint64_t value, Kvrail__Report__Counter *out)
{
    kvrail__report__counter__init(out);
    out->name = kvr_proto_text(name);
    out->value = value;
}

static void rail_to_proto(const struct kvr_rail_snapshot *in, Kvrail__Report__Rail *out,
                          struct rail_counter_space *space)
{
    kvrail__report__rail__init(out);
    RAIL_FIELDS(KVR_PROTO_COPY)
    RAIL_TEXTS(PUT_TEXT)
    out->state = kvr_proto_text(kvr_rail_state_name(in->state));
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++) {
        counter_to_proto(rail_counters[i].name, in->counters[i], &space->counters[i]);
        space->list[i] = &space->counters[i];
    }
    out->n_counters = KVR_RAIL_COUNTER_END;
    out->counters = space->list;
    out->traits = report_rail_traits_put(&in->traits, &space->traits) ? &space->traits : NULL;
}

static void engine_to_proto(const struct kvr_engine_facts *in, Kvrail__Report__Engine *out)
{
    kvrail__report__engine__init(out);
    ENGINE_MEMBERS(KVR_PROTO_PUT)
    ENGINE_TEXTS(PUT_TEXT)
    out->geometry = kvr_proto_text(in->geometry);
    out->uuid = uuid_bytes(&in->rank.engine);
}

struct tenant_counter_space {
    Kvrail__Report__Counter counters[KVR_TENANT_COUNTER_END], *list[KVR_TENANT_COUNTER_END];
};

static void tenant_to_proto(const struct kvr_tenant_facts *in, Kvrail__Report__Tenant *out,
                            struct tenant_counter_space *space)
{
    kvrail__report__tenant__init(out);
    out->name = kvr_proto_text(in->name);
    for (int i = 0; i < KVR_TENANT_COUNTER_END; i++) {
        counter_to_proto(tenant_counters[i].name, in->counters[i], &space->counters[i]);
        space->list[i] = &space->counters[i];
    }
    out->n_counters = KVR_TENANT_COUNTER_END;
    out->counters = space->list;
}

/* Everything that one encoding borrows, in one block. */
struct encoding {
    Kvrail__Report__Report report;
    Kvrail__Report__Facts facts;
    struct report_host_space host;
    Kvrail__Report__Rail rails[KVR_RAILS_MAX], *rail_list[KVR_RAILS_MAX];
    struct rail_counter_space rail_counters[KVR_RAILS_MAX];
    Kvrail__Report__Engine engines[KVR_ENGINES_MAX], *engine_list[KVR_ENGINES_MAX];
    Kvrail__Report__Tenant tenants[KVR_TENANTS_MAX], *tenant_list[KVR_TENANTS_MAX];
    struct tenant_counter_space tenant_counters[KVR_TENANTS_MAX];
    Kvrail__Report__Counter counters[KVR_COUNTER_END], *counter_list[KVR_COUNTER_END];
    Kvrail__Report__Event events[KVR_REPORT_EVENTS_MAX], *event_list[KVR_REPORT_EVENTS_MAX];
    struct report_pairs_space *pairs; /* or NULL */
};

static void facts_to_proto(const struct kvr_agent_facts *in, struct encoding *encoding)
{
    Kvrail__Report__Facts *out = &encoding->facts;

    kvrail__report__facts__init(out);
    FACTS_FIELDS(KVR_PROTO_COPY)
    FACTS_TEXTS(PUT_TEXT)
    out->role = kvr_proto_text(roles[in->role]);
    out->options = kvr_proto_text(in->options);
    for (uint32_t i = 0; i < in->rail_count; i++) {
        rail_to_proto(&in->rails[i], &encoding->rails[i], &encoding->rail_counters[i]);
        encoding->rail_list[i] = &encoding->rails[i];
    }
    out->n_rails = in->rail_count;
    out->rails = encoding->rail_list;
    for (uint32_t i = 0; i < in->engine_count + in->gone_count; i++) {
        engine_to_proto(&in->engines[i], &encoding->engines[i]);
        encoding->engine_list[i] = &encoding->engines[i];
    }
    out->n_engines = in->engine_count;
    out->engines = encoding->engine_list;
    out->n_engines_gone = in->gone_count;
    out->engines_gone = encoding->engine_list + in->engine_count;
    for (uint32_t i = 0; i < in->tenant_count; i++) {
        tenant_to_proto(&in->tenants[i], &encoding->tenants[i], &encoding->tenant_counters[i]);
        encoding->tenant_list[i] = &encoding->tenants[i];
    }
    out->n_tenants = in->tenant_count;
    out->tenants = encoding->tenant_list;
    for (int i = 0; i < KVR_COUNTER_END; i++) {
        counter_to_proto(counter_names[i], in->counters[i], &encoding->counters[i]);
        encoding->counter_list[i] = &encoding->counters[i];
    }
    out->n_counters = KVR_COUNTER_END;
    out->counters = encoding->counter_list;
    out->traits =
        report_host_traits_put(&in->traits, &encoding->host) ? &encoding->host.traits : NULL;
}

static kvr_status report_to_proto(const struct kvr_report *in, struct encoding *encoding)
{
    Kvrail__Report__Report *out = &encoding->report;

    kvrail__report__report__init(out);
    REPORT_FIELDS(KVR_PROTO_COPY)
    out->agent = kvr_proto_text(in->agent);
    if (in->facts != NULL) {
        facts_to_proto(in->facts, encoding);
        out->facts = &encoding->facts;
    }
    for (uint32_t i = 0; i < in->event_count; i++) {
        event_to_proto(&in->events[i], &encoding->events[i]);
        encoding->event_list[i] = &encoding->events[i];
    }
    out->n_events = in->event_count;
    out->events = encoding->event_list;
    return in->pairs != NULL ? report_pairs_put(in->pairs, out, &encoding->pairs) : KVR_OK;
}

kvr_status kvr_report_encode(const struct kvr_report *report, uint8_t **ret_bytes, size_t *ret_size)
{
    const struct kvr_agent_facts *facts = report->facts;
    struct encoding *encoding;
    uint8_t *bytes = NULL;
    size_t size = 0;
    kvr_status status;

    if (report->event_count > KVR_REPORT_EVENTS_MAX ||
        (facts != NULL &&
         (facts->rail_count > KVR_RAILS_MAX || facts->engine_count > KVR_ENGINES_MAX ||
          facts->gone_count > KVR_ENGINES_MAX - facts->engine_count)))
        return KVR_TOO_LARGE;
    encoding = malloc(sizeof(*encoding));
    if (encoding == NULL)
        return KVR_NO_MEMORY;
    encoding->pairs = NULL;
    status = report_to_proto(report, encoding);
    if (status == KVR_OK) {
        size = kvrail__report__report__get_packed_size(&encoding->report);
        bytes =
            malloc(size + 1); /* an empty message is legal, a block of no bytes is not portable */
        status = bytes != NULL ? KVR_OK : KVR_NO_MEMORY;
    }
    if (status == KVR_OK)
        kvrail__report__report__pack(&encoding->report, bytes);
    report_pairs_free(encoding->pairs);
    free(encoding);
    if (status != KVR_OK)
        return status;
    *ret_bytes = bytes;
    *ret_size = size;
    return KVR_OK;
}

/* ---- decoding: everything from outside is checked ---- */

/* Request ids are an engine's own bytes: JSON carries what is kept of them, and terminals show it.
 */
bool report_copy_text(const char *from, char *to, size_t room)
{
    if (strlen(from) >= room)
        return false;
    kvr_text_show(from, room, to);
    return true;
}

static bool copy_uuid(const ProtobufCBinaryData *from, struct kvr_uuid *to)
{
    if (from->len != 0 && from->len != sizeof(to->bytes))
        return false;
    if (from->len != 0)
        memcpy(to->bytes, from->data, sizeof(to->bytes));
    return true;
}

static bool role_from(const char *name, kvr_role *ret_role)
{
    *ret_role = strcmp(name, roles[KVR_ROLE_SOURCE]) == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
    return strcmp(name, roles[*ret_role]) == 0;
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

/* *packed: where its spans and page tables go; moved behind them. */
static const char *event_from_proto(const Kvrail__Report__Event *in, struct kvr_event *out,
                                    uint8_t **packed)
{
    if (!role_from(in->role, &out->role))
        return "role";
    EVENT_TEXTS(GET_TEXT)
    if (!copy_uuid(&in->source_engine, &out->source_engine))
        return "source_engine";
    if (!copy_uuid(&in->target_engine, &out->target_engine))
        return "target_engine";
    EVENT_FIELDS(KVR_PROTO_COPY)
    EVENT_MEMBERS(KVR_PROTO_GET)
    out->kind = kvr_event_from_name(in->kind);
    out->path = kvr_path_from_name(in->path);
    out->outcome = status_from(in->outcome);
    out->spans_bytes = report_spans_kept(in);
    out->spans = report_keep(&in->spans, out->spans_bytes, packed);
    out->pages_bytes = report_pages_kept(in);
    out->pages = report_keep(&in->pages, out->pages_bytes, packed);
    return NULL;
}

/* Which of them has that name; count: none. An agent of this version sends them in their order. */
static int find_fact(const struct kvr_rail_counter_facts *facts, int count, const char *name,
                     size_t expected)
{
    int found = 0;

    if (expected < (size_t)count && strcmp(facts[expected].name, name) == 0)
        return (int)expected;
    while (found < count && strcmp(facts[found].name, name) != 0)
        found++;
    return found;
}

static const char *rail_from_proto(const Kvrail__Report__Rail *in, struct kvr_rail_snapshot *out)
{
    RAIL_TEXTS(GET_TEXT)
    if (!kvr_rail_state_from_name(in->state, &out->state))
        return "rails.state";
    RAIL_FIELDS(KVR_PROTO_COPY)
    for (size_t i = 0; i < in->n_counters; i++) {
        int k = find_fact(rail_counters, KVR_RAIL_COUNTER_END, in->counters[i]->name, i);

        if (k < KVR_RAIL_COUNTER_END)
            out->counters[k] = in->counters[i]->value;
    }
    return in->traits != NULL ? report_rail_traits_get(in->traits, &out->traits) : NULL;
}

static const char *engine_from_proto(const Kvrail__Report__Engine *in, struct kvr_engine_facts *out)
{
    ENGINE_TEXTS(GET_TEXT)
    (void)report_copy_text(in->geometry, out->geometry, sizeof(out->geometry)); /* as options */
    if (!copy_uuid(&in->uuid, &out->rank.engine))
        return "engines.uuid";
    ENGINE_MEMBERS(KVR_PROTO_GET)
    return NULL;
}

static const char *tenant_from_proto(const Kvrail__Report__Tenant *in, struct kvr_tenant_facts *out)
{
    if (!report_copy_text(in->name, out->name, sizeof(out->name)))
        return "tenants.name";
    for (size_t i = 0; i < in->n_counters; i++) {
        int k = find_fact(tenant_counters, KVR_TENANT_COUNTER_END, in->counters[i]->name, i);

        if (k < KVR_TENANT_COUNTER_END)
            out->counters[k] = in->counters[i]->value;
    }
    return NULL;
}

static const char *facts_lists_from_proto(const Kvrail__Report__Facts *proto,
                                          struct kvr_agent_facts *facts)
{
    const char *wrong = NULL;

    if (proto->n_rails > KVR_RAILS_MAX)
        return "rails";
    if (proto->n_engines > KVR_ENGINES_MAX)
        return "engines";
    if (proto->n_engines_gone > KVR_ENGINES_MAX - proto->n_engines)
        return "engines_gone";
    if (proto->n_tenants > KVR_TENANTS_MAX)
        return "tenants";
    for (; facts->rail_count < proto->n_rails && wrong == NULL; facts->rail_count++)
        wrong = rail_from_proto(proto->rails[facts->rail_count], &facts->rails[facts->rail_count]);
    for (; facts->engine_count < proto->n_engines && wrong == NULL; facts->engine_count++)
        wrong = engine_from_proto(proto->engines[facts->engine_count],
                                  &facts->engines[facts->engine_count]);
    for (; facts->gone_count < proto->n_engines_gone && wrong == NULL; facts->gone_count++)
        wrong = engine_from_proto(proto->engines_gone[facts->gone_count],
                                  &facts->engines[facts->engine_count + facts->gone_count]);
    for (; facts->tenant_count < proto->n_tenants && wrong == NULL; facts->tenant_count++)
        wrong = tenant_from_proto(proto->tenants[facts->tenant_count],
                                  &facts->tenants[facts->tenant_count]);
    for (size_t i = 0; i < proto->n_counters; i++) {
        const char *name = proto->counters[i]->name;
        int k = (int)i;

        if (i >= KVR_COUNTER_END || strcmp(counter_names[i], name) != 0)
            k = kvr_name_find(counter_names, KVR_COUNTER_END, name);
        if (k < KVR_COUNTER_END)
            facts->counters[k] = proto->counters[i]->value;
    }
    return wrong;
}

static const char *facts_from_proto(const Kvrail__Report__Facts *in, struct kvr_agent_facts *out)
{
    const char *wrong;

    if (!role_from(in->role, &out->role))
        return "facts.role";
    FACTS_TEXTS(GET_TEXT)
    FACTS_FIELDS(KVR_PROTO_COPY)
    (void)report_copy_text(in->options, out->options, sizeof(out->options)); /* a newer agent's may
                                                                                be longer */
    wrong = in->traits != NULL ? report_host_traits_get(in->traits, &out->traits) : NULL;
    return wrong != NULL ? wrong : facts_lists_from_proto(in, out);
}

/* One block: the report and its events, with their spans and page tables behind them. Facts and
 * pairs are large and come with few reports: each has a block of its own. */
struct decoded {
    struct kvr_report report;
    struct kvr_agent_facts *facts; /* or NULL, as the next */
    struct kvr_report_pairs *pairs;
    struct kvr_event events[];
};

static struct decoded *decoded_open(const Kvrail__Report__Report *in)
{
    size_t bytes = sizeof(struct decoded) + in->n_events * sizeof(struct kvr_event);
    struct decoded *decoded;

    for (size_t i = 0; i < in->n_events; i++)
        bytes += report_spans_kept(in->events[i]) + report_pages_kept(in->events[i]);
    decoded = calloc(1, bytes);
    if (decoded == NULL)
        return NULL;
    if (in->n_pairs > 0)
        decoded->pairs = calloc(1, sizeof(*decoded->pairs));
    if (in->facts != NULL)
        decoded->facts = calloc(1, sizeof(*decoded->facts));
    if ((in->n_pairs > 0 && decoded->pairs == NULL) ||
        (in->facts != NULL && decoded->facts == NULL)) {
        kvr_report_free(&decoded->report);
        return NULL;
    }
    return decoded;
}

static const char *report_from_proto(const Kvrail__Report__Report *in, struct decoded *decoded)
{
    struct kvr_report *out = &decoded->report;
    uint8_t *packed = (uint8_t *)&decoded->events[in->n_events];
    const char *wrong;

    if (in->agent[0] == '\0')
        return "agent";
    GET_TEXT("", agent)
    if (in->n_events > 0 && in->sequence_first == 0)
        return "sequence_first";
    if (in->sequence_first > INT64_MAX - KVR_REPORT_EVENTS_MAX)
        return "sequence_first"; /* the scheduler's store has signed integers */
    REPORT_FIELDS(KVR_PROTO_COPY)
    if (in->sequence_held == 0)
        out->sequence_held = in->sequence_first;
    for (size_t i = 0; i < in->n_events; i++) {
        wrong = event_from_proto(in->events[i], &decoded->events[i], &packed);
        if (wrong != NULL)
            return wrong;
    }
    out->events = decoded->events;
    out->event_count = (uint32_t)in->n_events;
    out->pairs = decoded->pairs;
    wrong = out->pairs != NULL ? report_pairs_get(in, decoded->pairs) : NULL;
    if (wrong != NULL || in->facts == NULL)
        return wrong;
    out->facts = decoded->facts;
    return facts_from_proto(in->facts, decoded->facts);
}

static kvr_status decode(const uint8_t *bytes, size_t size, ProtobufCAllocator *allocator,
                         struct kvr_report **ret_report, struct kvr_error *error)
{
    Kvrail__Report__Report *proto = kvrail__report__report__unpack(allocator, size, bytes);
    struct decoded *decoded;
    const char *wrong;

    if (proto == NULL)
        return kvr_error_set(error, KVR_MALFORMED, "report", "the body is no report");
    if (proto->n_events > KVR_REPORT_EVENTS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "report", "%zu events in one report; at most %d",
                             proto->n_events, KVR_REPORT_EVENTS_MAX);
    decoded = decoded_open(proto);
    if (decoded == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "report", "no memory for a report");
    wrong = report_from_proto(proto, decoded);
    if (wrong != NULL) {
        kvr_report_free(&decoded->report);
        return kvr_error_set(error, KVR_MALFORMED, "report",
                             "field %s of the report is missing, too long or unknown", wrong);
    }
    *ret_report = &decoded->report;
    return KVR_OK;
}

kvr_status kvr_report_decode(const uint8_t *bytes, size_t size, struct kvr_report **ret_report,
                             struct kvr_error *error)
{
    alignas(max_align_t) uint8_t first[FIRST_BLOCK_BYTES];
    struct report_budget budget;
    ProtobufCAllocator allocator = report_budget_allocator(&budget);
    kvr_status status;

    report_budget_begin(&budget, DECODE_BYTES_MAX, first, sizeof(first));
    if (size > KVR_REPORT_BYTES_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "report", "a report of %zu bytes; at most %u",
                             size, KVR_REPORT_BYTES_MAX);
    status = decode(bytes, size, &allocator, ret_report, error);
    report_budget_end(&budget);
    return status;
}

struct kvr_report *kvr_report_free(struct kvr_report *report)
{
    struct decoded *decoded = (struct decoded *)report;

    if (decoded != NULL) {
        free(decoded->facts);
        free(decoded->pairs);
    }
    free(report); /* the first member of its block */
    return NULL;
}
