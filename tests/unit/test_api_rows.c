/* Goal: transfers and events are shown with each member that their rows have, whatever their names
 * contain. Method: the text that the scheduler writes, read again, beside a tree of the same rows
 * that jansson makes. Rows are random. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "scheduler/api_json.h"
#include "scheduler/api_rows.h"
#include "tests/support/json_case.h"
#include "tests/support/store_case.h"

#define ROUNDS 2000

/* ---- the tree ---- */

static json_t *rails_of(uint64_t bits)
{
    json_t *rails = json_array();

    for (int rail = 0; rail < KVR_RAILS_MAX; rail++)
        if ((bits >> rail & 1) != 0)
            json_array_append_new(rails, json_integer(rail));
    return rails;
}

static json_t *side_tree(const struct transfer_side *side, const struct kvr_uuid *engine,
                         const struct kvr_place *rank)
{
    return json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "agent",
                     json_text(side->agent), "engine", json_case_uuid(engine), "tp",
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

static json_t *stages_tree(const struct transfer *transfer)
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
static json_t *way_tree(const struct kvr_event_way *way)
{
    return way->writes == 0 ? json_null()
                            : json_pack("{s:o, s:o}", "writes", json_count(way->writes), "seconds",
                                        json_seconds((int64_t)way->ns));
}

/* How pieces shorter than fragment_bytes_min were moved, in how many writes, and the expected cost
 * of either way. */
static json_t *fragments_tree(const struct transfer *transfer)
{
    if (transfer->fragment_bytes == 0)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:o, s:{s:o, s:o}}", "choice",
                     transfer->fragments_staged ? "staged" : "direct", "bytes",
                     json_count(transfer->fragment_bytes), "pieces", json_count(transfer->pieces),
                     "writes", json_count(transfer->chunks), "expected", "direct",
                     way_tree(&transfer->fragments_direct), "staged",
                     way_tree(&transfer->fragments_copied));
}

/* null: any number, because the bytes lie in staging memory. */
static json_t *pieces_tree(uint32_t pieces)
{
    return pieces == UINT32_MAX ? json_null() : json_integer(pieces);
}

/* The largest write, and whether calibration has found that larger ones gain nothing. */
static json_t *limits_tree(const struct kvr_event_limits *limits)
{
    if (limits->bytes == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:b}", "pieces_local", pieces_tree(limits->pieces_local),
                     "pieces_remote", pieces_tree(limits->pieces_remote), "bytes",
                     json_count(limits->bytes), "calibrated", limits->calibrated);
}

static json_t *transfer_tree(const struct transfer *transfer, int64_t now_ns)
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
    json_object_set_new(object, "fragments", fragments_tree(transfer));
    json_object_set_new(object, "limits", limits_tree(&transfer->limits));
    json_object_set_new(object, "opened", json_time(opened_ns));
    json_object_set_new(object, "ended", json_time(transfer_ended_ns(transfer)));
    json_object_set_new(object, "updated", json_time(transfer->updated_ns));
    json_object_set_new(object, "duration_seconds",
                        live ? json_null() : json_seconds(transfer_duration_ns(transfer)));
    json_object_set_new(object, "age_seconds",
                        live && now_ns >= opened_ns ? json_seconds(now_ns - opened_ns)
                                                    : json_null());
    json_object_set_new(object, "source",
                        side_tree(&transfer->sides[KVR_ROLE_SOURCE], &transfer->source_engine,
                                  &transfer->source_rank));
    json_object_set_new(object, "target",
                        side_tree(&transfer->sides[KVR_ROLE_TARGET], &transfer->target_engine,
                                  &transfer->target_rank));
    json_object_set_new(object, "stages", stages_tree(transfer));
    return object;
}

static json_t *event_tree(const struct stored_event *event, const char *tenant, int64_t from_ns)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:s, s:o}", "kind",
                     event->kind, "role", event->role, "agent", event->agent, "tenant",
                     json_text(tenant), "sequence", (json_int_t)event->sequence, "at",
                     json_time(event->at_ns), "seconds", json_seconds(event->at_ns - from_ns),
                     "peer", json_text(event->peer), "bytes", (json_int_t)event->bytes, "retries",
                     (json_int_t)event->retries, "outcome", event->outcome, "detail",
                     json_text(event->detail));
}

/* ---- random rows ---- */

static struct kvr_rng rng;

static uint64_t number(void)
{
    return json_case_number(&rng);
}

#define NAME(field) json_case_name(&rng, field, sizeof(field), raw)

static kvr_status status(void)
{
    static const kvr_status statuses[] = {KVR_OK, KVR_CANCELLED, KVR_EXPIRED, KVR_PEER_LOST};

    return statuses[kvr_rng_below(&rng, sizeof(statuses) / sizeof(statuses[0]))];
}

static void random_side(struct transfer_side *side, bool raw)
{
    NAME(side->agent);
    NAME(side->detail);
    side->rails = number() & UINT32_MAX;
    side->path = (kvr_path)kvr_rng_below(&rng, KVR_PATH_DMABUF + 1);
    side->ended = kvr_rng_below(&rng, 2) != 0;
    side->lost = kvr_rng_below(&rng, 2) != 0;
    side->outcome = status();
    for (int stage = 0; stage < STAGE_END; stage++) /* no two at once: their order would be open */
        side->at_ns[stage] =
            kvr_rng_below(&rng, 3) == 0 ? 0 : WALL + (int64_t)(kvr_rng_next(&rng) >> 20);
}

static void random_uuid(struct kvr_uuid *uuid)
{
    bool none = kvr_rng_below(&rng, 4) == 0;

    for (size_t i = 0; i < sizeof(uuid->bytes); i++)
        uuid->bytes[i] = none ? 0 : (uint8_t)number();
}

static struct kvr_event_way random_way(void)
{
    return (struct kvr_event_way){.writes = (uint32_t)kvr_rng_below(&rng, 3), .ns = number() >> 1};
}

static struct transfer random_transfer(bool raw)
{
    struct transfer transfer = {
        .id = kvr_rng_next(&rng),
        .state = (transfer_state)kvr_rng_below(&rng, STATE_END),
        .reason = status(),
        .attempt = (uint32_t)number(),
        .tokens = number(),
        .skip_tokens = number(),
        .bytes = number(),
        .layers = (uint32_t)number(),
        .chunks = (uint32_t)number(),
        .retries = (uint32_t)number(),
        .pieces = number(),
        .fragment_bytes = kvr_rng_below(&rng, 2) * number(),
        .fragments_staged = kvr_rng_below(&rng, 2) != 0,
        .fragments_direct = random_way(),
        .fragments_copied = random_way(),
        .limits = {.pieces_local = kvr_rng_below(&rng, 2) != 0 ? 4 : UINT32_MAX,
                   .pieces_remote = (uint32_t)number(),
                   .bytes = (uint32_t)(kvr_rng_below(&rng, 2) * number()),
                   .calibrated = kvr_rng_below(&rng, 2) != 0},
        .updated_ns = WALL + (int64_t)(number() >> 20)};

    NAME(transfer.request);
    NAME(transfer.tenant);
    random_uuid(&transfer.source_engine);
    random_uuid(&transfer.target_engine);
    transfer.source_rank.tp = (uint16_t)number();
    transfer.target_rank.pp = (uint16_t)number();
    random_side(&transfer.sides[0], raw);
    random_side(&transfer.sides[1], raw);
    return transfer;
}

struct names {
    char agent[KVR_NAME_BYTES], peer[KVR_NAME_BYTES], detail[KVR_DETAIL_BYTES];
};

static struct stored_event random_event(struct names *names, bool raw)
{
    bool timed = kvr_rng_below(&rng, 4) != 0;

    NAME(names->agent);
    NAME(names->peer);
    NAME(names->detail);
    return (struct stored_event){.agent = names->agent,
                                 .role = "source",
                                 .kind = "retry",
                                 .peer = names->peer,
                                 .outcome = "ok",
                                 .detail = names->detail,
                                 .sequence = number() >> 1,
                                 .bytes = number() >> 1,
                                 .retries = number() >> 1,
                                 .at_ns = timed ? WALL + (int64_t)(number() >> 20) : 0};
}

/* ---- tests ---- */

/* The text of one, in an array: it has another before it. */
static json_t *read_text(struct json_writer *out)
{
    json_error_t error;
    json_t *json;
    char *text;

    json_writer_end_array(out);
    text = json_writer_take(out);
    json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        fail_msg("%s at %d of %s", error.text, error.position, text);
    free(text);
    return json;
}

static void begin_text(struct json_writer *out)
{
    json_writer_array(out, NULL);
    json_writer_null(out, NULL);
}

static void transfers_are_as_the_tree(void **state)
{
    (void)state;
    kvr_rng_init(&rng, 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct transfer transfer = random_transfer(false);
        json_t *wanted = transfer_tree(&transfer, WALL + (int64_t)KVR_S), *found;
        struct json_writer out = {0};

        begin_text(&out);
        api_write_transfer(&out, NULL, &transfer, WALL + (int64_t)KVR_S);
        found = read_text(&out);
        expect_json("the transfer", json_array_get(found, 1), wanted);
        json_decref(found);
        json_decref(wanted);
    }
}

static void events_are_as_the_tree(void **state)
{
    (void)state;
    kvr_rng_init(&rng, 2);
    for (int round = 0; round < ROUNDS; round++) {
        struct names names;
        struct stored_event event = random_event(&names, false);
        json_t *wanted = event_tree(&event, "trial", WALL), *found;
        struct json_writer out = {0};

        begin_text(&out);
        api_write_event(&out, &event, "trial", WALL);
        found = read_text(&out);
        expect_json("the event", json_array_get(found, 1), wanted);
        json_decref(found);
        json_decref(wanted);
    }
}

/* As a database may hold them: one row must not take the list from all. */
static void raw_names_are_shown(void **state)
{
    char shown[KVR_REQUEST_BYTES];

    (void)state;
    kvr_rng_init(&rng, 3);
    for (int round = 0; round < ROUNDS; round++) {
        struct transfer transfer = random_transfer(true);
        struct names names;
        struct stored_event event = random_event(&names, true);
        struct json_writer out = {0};
        json_t *found;

        begin_text(&out);
        api_write_transfer(&out, NULL, &transfer, WALL);
        api_write_event(&out, &event, transfer.tenant, WALL);
        found = read_text(&out);
        kvr_text_show(transfer.request, sizeof(shown), shown);
        if (shown[0] != '\0')
            assert_string_equal(
                json_string_value(json_object_get(json_array_get(found, 1), "request")), shown);
        kvr_text_show(event.agent, sizeof(shown), shown);
        assert_string_equal(json_string_value(json_object_get(json_array_get(found, 2), "agent")),
                            shown);
        json_decref(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers_are_as_the_tree),
        cmocka_unit_test(events_are_as_the_tree),
        cmocka_unit_test(raw_names_are_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
