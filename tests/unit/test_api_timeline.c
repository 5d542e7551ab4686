/* Goal: the timeline of a transfer has what each agent saw, in its order, with the time between.
 * Method: the API on a database into which both agents have reported. */
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>

#include "scheduler/api.h"
#include "tests/support/store_case.h"

static json_t *ask(struct fixture *fixture, const char *path, unsigned status)
{
    return store_ask(fixture, path, &(struct api_query){0}, status);
}

static const char timeline[] = "/api/v1/transfers/0000000000000005/timeline";

static void report(struct fixture *fixture, const char *agent, struct kvr_event *events,
                   uint32_t count, struct kvr_agent_facts *facts)
{
    struct kvr_report sent = report_of(agent, 1, events, count);
    struct agent_row row = {.boot = 7};
    uint64_t acknowledged;

    assert_int_equal(apply_one(fixture, &sent, &acknowledged), KVR_OK);
    strcpy(row.name, agent);
    if (facts == NULL)
        return;
    assert_true(store_begin(fixture->store) && store_put_agent(fixture->store, &row, facts) &&
                store_commit(fixture->store));
}

/* Milliseconds after the anchor. */
static struct kvr_event at(kvr_event_kind kind, kvr_role role, kvr_ns ms)
{
    return event_of(kind, role, 5, ms * KVR_MS);
}

static void both_report(struct fixture *fixture)
{
    struct kvr_agent_facts *facts = calloc(1, sizeof(*facts));
    struct kvr_event source[] = {
        at(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 1000),
        at(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 1040),
        at(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 1060),
        at(KVR_EVENT_RETRY, KVR_ROLE_SOURCE, 1070),
        at(KVR_EVENT_LAST_POST, KVR_ROLE_SOURCE, 1160),
        at(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 1200),
    };
    struct kvr_event target[] = {
        at(KVR_EVENT_OPENED, KVR_ROLE_TARGET, 1010),
        at(KVR_EVENT_LAST_LAND, KVR_ROLE_TARGET, 1170),
        at(KVR_EVENT_ENDED, KVR_ROLE_TARGET, 1190),
    };

    source[3].retries = 34;
    strcpy(source[3].detail, "mlx5_1 failed");
    source[5].rails = 1 << 1 | 1 << 3;
    facts->rail_count = 2;
    strcpy(facts->rails[0].name, "mlx5_0");
    strcpy(facts->rails[1].name, "mlx5_1");
    report(fixture, "prefill-0", source, 6, facts);
    report(fixture, "decode-0", target, 3, NULL);
    free(facts);
}

static double seconds_of(json_t *list, const char *key, const char *name, const char *value)
{
    size_t index;
    json_t *item;

    json_array_foreach(list, index,
                       item) if (strcmp(json_string_value(json_object_get(item, key)), name) ==
                                 0) return json_is_null(json_object_get(item, value))
        ? -2
        : json_number_value(json_object_get(item, value));
    return -1;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static void a_side_has_its_stages_and_spans(void **state)
{
    struct fixture *fixture = *state;
    json_t *json, *source, *stages, *spans;

    both_report(fixture);
    json = ask(fixture, timeline, 200);
    assert_string_equal(json_string_value(json_object_get(json, "state")), "done");
    source = json_array_get(json_object_get(json, "sides"), 0);
    assert_string_equal(json_string_value(json_object_get(source, "agent")), "prefill-0");
    stages = json_object_get(source, "stages");
    assert_int_equal(json_array_size(stages), 5);
    assert_true(near(seconds_of(stages, "stage", "opened", "after_seconds"), -2));
    assert_true(near(seconds_of(stages, "stage", "matched", "after_seconds"), 0.04));
    assert_true(near(seconds_of(stages, "stage", "last_post", "seconds"), 0.16));
    assert_true(near(seconds_of(stages, "stage", "ended", "after_seconds"), 0.04));
    spans = json_object_get(source, "spans");
    assert_true(near(seconds_of(spans, "span", "match", "seconds"), 0.04));
    assert_true(near(seconds_of(spans, "span", "post", "begins_seconds"), 0.06));
    assert_true(near(seconds_of(spans, "span", "post", "seconds"), 0.1));
    assert_true(near(seconds_of(spans, "span", "whole", "seconds"), 0.2));
    assert_true(near(seconds_of(spans, "span", "land", "seconds"), -1));
    spans = json_object_get(json_array_get(json_object_get(json, "sides"), 1), "spans");
    assert_true(near(seconds_of(spans, "span", "settle", "seconds"), 0.02));
    assert_true(near(seconds_of(spans, "span", "whole", "begins_seconds"), 0.01));
    json_decref(json);
}

static void a_side_has_its_rails_and_retries(void **state)
{
    struct fixture *fixture = *state;
    json_t *json, *source, *rails, *retry;

    both_report(fixture);
    json = ask(fixture, timeline, 200);
    source = json_array_get(json_object_get(json, "sides"), 0);
    rails = json_object_get(source, "rails");
    assert_int_equal(json_array_size(rails), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rails, 0), "index")), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rails, 0), "name")),
                        "mlx5_1");
    assert_true(json_is_null(json_object_get(json_array_get(rails, 1), "name"))); /* forgotten */
    retry = json_array_get(json_object_get(source, "retries"), 0);
    assert_int_equal(json_integer_value(json_object_get(retry, "retries")), 34);
    assert_string_equal(json_string_value(json_object_get(retry, "detail")), "mlx5_1 failed");
    assert_true(near(json_number_value(json_object_get(retry, "seconds")), 0.07));
    json_decref(json);
}

/* Both times of a stage may be equal, and a clock may have gone back. */
static void stages_of_one_moment_are_all_there(void **state)
{
    struct kvr_event events[] = {at(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 1000),
                                 at(KVR_EVENT_LAST_POST, KVR_ROLE_SOURCE, 1000),
                                 at(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 1010),
                                 at(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 1020)};
    struct fixture *fixture = *state;
    json_t *json, *stages;

    report(fixture, "prefill-0", events, 4, NULL);
    json = ask(fixture, timeline, 200);
    stages = json_object_get(json_array_get(json_object_get(json, "sides"), 0), "stages");
    assert_int_equal(json_array_size(stages), 4);
    assert_string_equal(json_string_value(json_object_get(json_array_get(stages, 0), "stage")),
                        "first_post");
    assert_string_equal(json_string_value(json_object_get(json_array_get(stages, 1), "stage")),
                        "last_post");
    assert_string_equal(json_string_value(json_object_get(json_array_get(stages, 3), "stage")),
                        "opened");
    json_decref(json);
}

/* Layers 3 to 5 at the agent of that role: 10 ms each, one after the other, up to its end. */
static size_t spans_of(kvr_role role, kvr_ns end, uint8_t bytes[KVR_SPANS_BYTES_MAX])
{
    union {
        struct kvr_span_book book;
        uint8_t room[sizeof(struct kvr_span_book) + 3 * sizeof(struct kvr_layer_span)];
    } notes;

    kvr_span_book_open(&notes.book, end - KVR_S, 3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        kvr_span_begins(&notes.book, 3 + i, end - (60 - 20 * i) * KVR_MS);
        if (i != 1 || role == KVR_ROLE_SOURCE)
            kvr_span_ends(&notes.book, 3 + i, end - (50 - 20 * i) * KVR_MS);
    }
    notes.book.rails[1] = (struct kvr_rail_span){.bytes = 65536, .writes = 17, .retries = 1};
    return kvr_spans_pack(&notes.book, role, end, bytes);
}

/* ENDED of either agent in a report; NULL: without spans. */
static void ends_with(struct fixture *fixture, kvr_role role, const uint8_t *bytes, size_t count)
{
    struct kvr_event ended = at(KVR_EVENT_ENDED, role, role == KVR_ROLE_SOURCE ? 1200 : 1190);

    ended.rails = 1 << 1 | 1 << 3;
    ended.spans = bytes;
    ended.spans_bytes = (uint32_t)count;
    report(fixture, role == KVR_ROLE_SOURCE ? "prefill-0" : "decode-0", &ended, 1, NULL);
}

static double layer_seconds(json_t *json, size_t index, const char *key)
{
    json_t *value = json_object_get(json_array_get(json_object_get(json, "layers"), index), key);

    assert_non_null(value);
    return json_is_null(value) ? -1 : json_number_value(value);
}

static void a_sampled_transfer_has_its_layers(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event opened = at(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 1000);
    uint8_t bytes[KVR_SPANS_BYTES_MAX];
    json_t *json, *rails;

    report(fixture, "prefill-1", &opened, 1, NULL);
    json = ask(fixture, timeline, 200);
    assert_string_equal(json_string_value(json_object_get(json, "spans")), "not ended");
    json_decref(json);
    ends_with(fixture, KVR_ROLE_SOURCE, bytes, spans_of(KVR_ROLE_SOURCE, 1200 * KVR_MS, bytes));
    ends_with(fixture, KVR_ROLE_TARGET, bytes, spans_of(KVR_ROLE_TARGET, 1190 * KVR_MS, bytes));
    json = ask(fixture, timeline, 200);
    assert_string_equal(json_string_value(json_object_get(json, "spans")), "sampled");
    assert_int_equal(json_array_size(json_object_get(json, "layers")), 3);
    assert_true(near(layer_seconds(json, 0, "layer"), 3));
    assert_true(near(layer_seconds(json, 0, "ready_seconds"), 0.14));
    assert_true(near(layer_seconds(json, 0, "posted_seconds"), 0.15));
    assert_true(near(layer_seconds(json, 1, "landed_seconds"), 0.15));
    assert_true(near(layer_seconds(json, 1, "delivered_seconds"), -1));
    assert_true(near(layer_seconds(json, 2, "delivered_seconds"), 0.18));
    rails = json_object_get(json_array_get(json_object_get(json, "sides"), 0), "rails");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rails, 0), "writes")), 17);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rails, 0), "bytes")), 65536);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(rails, 0), "retries")), 1);
    assert_true(json_is_null(json_object_get(json_array_get(rails, 1), "writes")));
    json_decref(json);
}

/* An agent of before sends none; those of a newer one, and damaged ones, are not shown. */
static void spans_that_cannot_be_read_are_not_shown(void **state)
{
    static const uint8_t newer[] = {0x02, 0x00}, damaged[] = {0x11, 0x00};
    struct fixture *fixture = *state;
    json_t *json;

    both_report(fixture);
    json = ask(fixture, timeline, 200);
    assert_string_equal(json_string_value(json_object_get(json, "spans")), "not sampled");
    json_decref(json);
    ends_with(fixture, KVR_ROLE_SOURCE, newer, sizeof(newer));
    ends_with(fixture, KVR_ROLE_TARGET, damaged, sizeof(damaged));
    json = ask(fixture, timeline, 200);
    assert_string_equal(json_string_value(json_object_get(json, "spans")), "not sampled");
    assert_int_equal(json_array_size(json_object_get(json, "layers")), 0);
    json_decref(json);
}

static void a_timeline_needs_its_transfer(void **state)
{
    json_decref(ask(*state, timeline, 404));
    json_decref(ask(*state, "/api/v1/transfers/5/timeline", 400));
    json_decref(ask(*state, "/api/v1/transfers/0000000000000005/line", 404));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_side_has_its_stages_and_spans),
        WITH_STORE(a_side_has_its_rails_and_retries),
        WITH_STORE(stages_of_one_moment_are_all_there),
        WITH_STORE(a_sampled_transfer_has_its_layers),
        WITH_STORE(spans_that_cannot_be_read_are_not_shown),
        WITH_STORE(a_timeline_needs_its_transfer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
