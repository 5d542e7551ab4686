#include "trace/kvtrace_fields.h"

#define KEY(text) .key = (text), .key_bytes = sizeof(text) - 1
#define FIELDS(table)                                                                              \
    {                                                                                              \
        (table), sizeof(table) / sizeof((table)[0])                                                \
    }

/* Each takes the struct's tag and the member, which gives the key its name unless one is given. */
#define NUMBER(tag, member)                                                                        \
    {                                                                                              \
        KEY(#member), .type = KVTRACE_NUMBER, .offset = offsetof(struct tag, member)               \
    }
#define NUMBER_ALWAYS(tag, member)                                                                 \
    {                                                                                              \
        KEY(#member), .type = KVTRACE_NUMBER, .offset = offsetof(struct tag, member),              \
                      .always = true                                                               \
    }
#define NUMBER_OR_NEVER(tag, member)                                                               \
    {                                                                                              \
        KEY(#member), .type = KVTRACE_NUMBER, .offset = offsetof(struct tag, member),              \
                      .never = true                                                                \
    }
#define TEXT(tag, member)                                                                          \
    {                                                                                              \
        KEY(#member), .type = KVTRACE_TEXT, .offset = offsetof(struct tag, member),                \
                      .room = sizeof(((struct tag *)0)->member)                                    \
    }
#define FLAG(tag, member, text)                                                                    \
    {                                                                                              \
        KEY(text), .type = KVTRACE_FLAG, .offset = offsetof(struct tag, member)                    \
    }
#define CHOICE(tag, member, of, end)                                                               \
    {                                                                                              \
        KEY(#member), .type = KVTRACE_CHOICE, .offset = offsetof(struct tag, member),              \
                      .always = true, .name = (of), .names = (end)                                 \
    }
#define ROWS(tag, member, width)                                                                   \
    {                                                                                              \
        KEY(#member), .type = KVTRACE_ROWS, .offset = offsetof(struct tag, member),                \
                      .room = (width)                                                              \
    }
#define OBJECT(text, at, table)                                                                    \
    {                                                                                              \
        KEY(text), .type = KVTRACE_OBJECT, .offset = (at), .fields = &(table)                      \
    }
#define OBJECTS(tag, member, counter, table)                                                       \
    {                                                                                              \
        KEY(#member),                                                                              \
            .type = KVTRACE_OBJECTS, .offset = offsetof(struct tag, member),                       \
            .room = sizeof(((struct tag *)0)->member[0]), .fields = &(table),                      \
            .count_offset = offsetof(struct tag, counter),                                         \
            .count_max = sizeof(((struct tag *)0)->member) / sizeof(((struct tag *)0)->member[0])  \
    }

static const char *const kinds[] = {KVTRACE_KIND_LIST(KVR_NAME)};
static const char *const outcomes[] = {KVTRACE_OUTCOME_LIST(KVR_NAME)};

const char *kvtrace_kind_name(kvtrace_kind kind)
{
    return kinds[kind];
}

const char *kvtrace_outcome_name(kvtrace_outcome outcome)
{
    return outcomes[outcome];
}

static const char *outcome_name(int value)
{
    return outcomes[value];
}

static const char *role_name(int value)
{
    return value == KVR_ROLE_SOURCE ? "source" : "target";
}

static const char *path_name(int value)
{
    return kvr_path_name((kvr_path)value);
}

static const struct kvtrace_field header_rows[] = {
    NUMBER_ALWAYS(kvtrace_header, version),
    TEXT(kvtrace_header, made_by),
    TEXT(kvtrace_header, start),
    NUMBER(kvtrace_header, start_us),
    FLAG(kvtrace_header, virtual_time, "virtual"),
    FLAG(kvtrace_header, plain_ids, "plain_ids"),
    TEXT(kvtrace_header, note),
};

static const struct kvtrace_field rail_rows[] = {
    TEXT(kvtrace_rail, name),        TEXT(kvtrace_rail, provider), TEXT(kvtrace_rail, plane),
    NUMBER(kvtrace_rail, speed_bps), NUMBER(kvtrace_rail, group),
};
static const struct kvtrace_fields rail_fields = FIELDS(rail_rows);

static const struct kvtrace_field agent_rows[] = {
    NUMBER_ALWAYS(kvtrace_agent, number),
    TEXT(kvtrace_agent, name),
    CHOICE(kvtrace_agent, role, role_name, 2),
    TEXT(kvtrace_agent, host),
    TEXT(kvtrace_agent, version),
    TEXT(kvtrace_agent, options),
    OBJECTS(kvtrace_agent, rails, rail_count, rail_fields),
};

static const struct kvtrace_field group_rows[] = {
    TEXT(kvtrace_kv_group, kind),
    NUMBER(kvtrace_kv_group, layers),
    NUMBER(kvtrace_kv_group, page_tokens),
    NUMBER(kvtrace_kv_group, page_bytes),
};
static const struct kvtrace_fields group_fields = FIELDS(group_rows);

static const struct kvtrace_field geometry_rows[] = {
    NUMBER_ALWAYS(kvtrace_geometry, number),
    TEXT(kvtrace_geometry, model),
    TEXT(kvtrace_geometry, dtype),
    NUMBER(kvtrace_geometry, layers),
    TEXT(kvtrace_geometry, pattern),
    OBJECTS(kvtrace_geometry, groups, group_count, group_fields),
};

static const struct kvtrace_field engine_rows[] = {
    NUMBER_ALWAYS(kvtrace_engine, number),
    NUMBER_OR_NEVER(kvtrace_engine, agent),
    TEXT(kvtrace_engine, name),
    NUMBER_OR_NEVER(kvtrace_engine, geometry),
    NUMBER(kvtrace_engine, tp),
    NUMBER(kvtrace_engine, tp_size),
    NUMBER(kvtrace_engine, pp),
    NUMBER(kvtrace_engine, pp_size),
};

static const struct kvtrace_field request_rows[] = {
    TEXT(kvtrace_request, id),
    TEXT(kvtrace_request, tenant),
    NUMBER_ALWAYS(kvtrace_request, at_us),
    NUMBER(kvtrace_request, input_tokens),
    NUMBER(kvtrace_request, output_tokens),
    NUMBER_OR_NEVER(kvtrace_request, source),
    NUMBER_OR_NEVER(kvtrace_request, target),
    NUMBER(kvtrace_request, priority),
    ROWS(kvtrace_request, blocks, 1),
};

/* KVR_EVENT_RETRY is counted, and is no stage. */
#define STAGE(text, kind)                                                                          \
    {                                                                                              \
        KEY(text), .type = KVTRACE_NUMBER, .offset = (kind) * sizeof(int64_t), .never = true       \
    }
static const struct kvtrace_field stage_rows[] = {
    STAGE("opened", KVR_EVENT_OPENED),         STAGE("matched", KVR_EVENT_MATCHED),
    STAGE("granted", KVR_EVENT_GRANTED),       STAGE("first_ready", KVR_EVENT_FIRST_READY),
    STAGE("last_ready", KVR_EVENT_LAST_READY), STAGE("first_post", KVR_EVENT_FIRST_POST),
    STAGE("last_post", KVR_EVENT_LAST_POST),   STAGE("first_land", KVR_EVENT_FIRST_LAND),
    STAGE("last_land", KVR_EVENT_LAST_LAND),   STAGE("failing", KVR_EVENT_FAILING),
    STAGE("ended", KVR_EVENT_ENDED),
};
static const struct kvtrace_fields stage_fields = FIELDS(stage_rows);

static const struct kvtrace_field pages_rows[] = {
    NUMBER(kvtrace_pages, group),
    ROWS(kvtrace_pages, runs, 2),
};
static const struct kvtrace_fields pages_fields = FIELDS(pages_rows);

static const struct kvtrace_field side_rows[] = {
    NUMBER_OR_NEVER(kvtrace_side, agent),
    NUMBER_OR_NEVER(kvtrace_side, engine),
    {KEY("path"), .type = KVTRACE_CHOICE, .offset = offsetof(struct kvtrace_side, path),
     .name = path_name, .names = KVR_PATH_END},
    OBJECT("stages_us", offsetof(struct kvtrace_side, stages_us), stage_fields),
    NUMBER(kvtrace_side, layer_first),
    ROWS(kvtrace_side, layers_us, 2),
    ROWS(kvtrace_side, rails, 4),
    OBJECTS(kvtrace_side, pages, pages_count, pages_fields),
};
static const struct kvtrace_fields side_fields = FIELDS(side_rows);

static const struct kvtrace_field transfer_rows[] = {
    TEXT(kvtrace_transfer, id),
    TEXT(kvtrace_transfer, request),
    TEXT(kvtrace_transfer, tenant),
    NUMBER(kvtrace_transfer, attempt),
    NUMBER_ALWAYS(kvtrace_transfer, at_us),
    NUMBER(kvtrace_transfer, tokens),
    NUMBER(kvtrace_transfer, skip_tokens),
    NUMBER(kvtrace_transfer, bytes),
    NUMBER(kvtrace_transfer, layers),
    NUMBER(kvtrace_transfer, chunks),
    NUMBER(kvtrace_transfer, retries),
    NUMBER(kvtrace_transfer, pieces),
    NUMBER(kvtrace_transfer, priority),
    NUMBER(kvtrace_transfer, deadline_us),
    NUMBER_OR_NEVER(kvtrace_transfer, cancelled_us),
    CHOICE(kvtrace_transfer, outcome, outcome_name, KVTRACE_OUTCOME_END),
    TEXT(kvtrace_transfer, reason),
    TEXT(kvtrace_transfer, detail),
    OBJECT("source", offsetof(struct kvtrace_transfer, sides[KVR_ROLE_SOURCE]), side_fields),
    OBJECT("target", offsetof(struct kvtrace_transfer, sides[KVR_ROLE_TARGET]), side_fields),
};

static const struct kvtrace_field fault_rows[] = {
    NUMBER_ALWAYS(kvtrace_fault, at_us),
    NUMBER(kvtrace_fault, for_us),
    NUMBER_OR_NEVER(kvtrace_fault, agent),
    NUMBER_OR_NEVER(kvtrace_fault, rail),
    TEXT(kvtrace_fault, kind),
    NUMBER(kvtrace_fault, amount),
    TEXT(kvtrace_fault, text),
};

static const struct kvtrace_field mark_rows[] = {
    NUMBER_ALWAYS(kvtrace_mark, at_us), NUMBER_OR_NEVER(kvtrace_mark, agent),
    TEXT(kvtrace_mark, kind),           TEXT(kvtrace_mark, before),
    TEXT(kvtrace_mark, after),
};

static const struct kvtrace_field dropped_rows[] = {
    NUMBER_OR_NEVER(kvtrace_dropped, agent),
    NUMBER(kvtrace_dropped, count),
    TEXT(kvtrace_dropped, what),
};

static const struct kvtrace_field end_rows[] = {
    NUMBER_ALWAYS(kvtrace_end, lines), NUMBER(kvtrace_end, transfers),
    NUMBER(kvtrace_end, requests),     NUMBER(kvtrace_end, dropped),
    TEXT(kvtrace_end, digest),
};

static const struct {
    struct kvtrace_fields fields;
    size_t bytes;
} kind_rows[] = {
    [KVTRACE_HEADER] = {FIELDS(header_rows), sizeof(struct kvtrace_header)},
    [KVTRACE_AGENT] = {FIELDS(agent_rows), sizeof(struct kvtrace_agent)},
    [KVTRACE_GEOMETRY] = {FIELDS(geometry_rows), sizeof(struct kvtrace_geometry)},
    [KVTRACE_ENGINE] = {FIELDS(engine_rows), sizeof(struct kvtrace_engine)},
    [KVTRACE_REQUEST] = {FIELDS(request_rows), sizeof(struct kvtrace_request)},
    [KVTRACE_TRANSFER] = {FIELDS(transfer_rows), sizeof(struct kvtrace_transfer)},
    [KVTRACE_FAULT] = {FIELDS(fault_rows), sizeof(struct kvtrace_fault)},
    [KVTRACE_MARK] = {FIELDS(mark_rows), sizeof(struct kvtrace_mark)},
    [KVTRACE_DROPPED] = {FIELDS(dropped_rows), sizeof(struct kvtrace_dropped)},
    [KVTRACE_END] = {FIELDS(end_rows), sizeof(struct kvtrace_end)},
};

const struct kvtrace_fields *kvtrace_fields(kvtrace_kind kind)
{
    return &kind_rows[kind].fields;
}

size_t kvtrace_kind_bytes(kvtrace_kind kind)
{
    return kind_rows[kind].bytes;
}

void kvtrace_fields_clear(const struct kvtrace_fields *fields, void *base)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct kvtrace_field *field = &fields->at[i];
        void *at = (char *)base + field->offset;

        if (field->type == KVTRACE_OBJECT)
            kvtrace_fields_clear(field->fields, at);
        else if (field->never)
            *(int64_t *)at = KVTRACE_NEVER;
    }
}

void kvtrace_clear(struct kvtrace_record *record, kvtrace_kind kind)
{
    record->kind = kind;
    memset(kvtrace_members(record), 0, kind_rows[kind].bytes);
    kvtrace_fields_clear(&kind_rows[kind].fields, kvtrace_members(record));
}

void kvtrace_copy(struct kvtrace_record *record, const struct kvtrace_record *from)
{
    record->kind = from->kind;
    memcpy(kvtrace_members(record), &from->header, kind_rows[from->kind].bytes);
}
