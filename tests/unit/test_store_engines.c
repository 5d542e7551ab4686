/* Goal: engines that have gone are known, with how their pages are made, as long as their
 * transfers. Method: reports applied as the writer does, and the API. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>

#include "scheduler/api.h"
#include "scheduler/store_engines.h"
#include "tests/support/store_case.h"

#define MINUTE_NS ((int64_t)(60 * KVR_S))
#define WHOLE     "bfloat16 32 0:32:16:65536"

/* A report at that time; name NULL: without an engine. */
static void report_at(struct fixture *fixture, int64_t now_ns, const char *name, uint32_t regions,
                      const char *geometry)
{
    struct kvr_agent_facts *facts = calloc(1, sizeof(*facts));
    struct kvr_engine_facts *engine = &facts->engines[0];
    struct kvr_report one = report_of("decode-0", 0, NULL, 0);
    uint64_t acknowledged;

    one.facts = facts;
    if (name != NULL) {
        facts->engine_count = 1;
        snprintf(engine->name, sizeof(engine->name), "%s", name);
        snprintf((char *)engine->rank.engine.bytes, sizeof(engine->rank.engine.bytes), "%s", name);
        engine->rank.tp = 1;
        engine->rank.tp_size = 2;
        engine->rank.pp_size = 1;
        strcpy(engine->model, "m");
        strcpy(engine->geometry, geometry);
        engine->region_count = regions;
        engine->region_bytes = regions * 10ull;
    }
    assert_int_equal(apply_at(fixture, &one, now_ns, &acknowledged), KVR_OK);
    free(facts);
}

struct seen {
    char text[1024];
};

static void add(void *self, const struct stored_engine *engine)
{
    struct seen *seen = self;
    size_t used = strlen(seen->text);

    assert_string_equal(engine->agent, "decode-0");
    assert_int_equal(engine->facts.rank.tp, 1);
    snprintf(seen->text + used, sizeof(seen->text) - used, "%s %u %s %d-%d;", engine->facts.name,
             engine->facts.region_count, engine->facts.geometry,
             (int)((engine->first_ns - WALL) / MINUTE_NS),
             (int)((engine->last_ns - WALL) / MINUTE_NS));
}

static void sees(struct fixture *fixture, const struct engine_filter *filter, const char *wanted)
{
    struct seen seen = {""};

    assert_true(store_list_engines(fixture->store, filter, add, &seen));
    assert_string_equal(seen.text, wanted);
}

static const struct engine_filter all = {.until_ns = INT64_MAX, .limit = 10};

/* It came and went between two reports. */
static void an_engine_of_a_moment_is_known(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_agent_facts *facts = calloc(1, sizeof(*facts));
    struct kvr_report one = report_of("decode-0", 0, NULL, 0);
    uint64_t acknowledged;

    one.facts = facts;
    facts->gone_count = 1;
    strcpy(facts->engines[0].name, "short");
    facts->engines[0].rank.tp = 1;
    facts->engines[0].region_count = 2;
    strcpy(facts->engines[0].geometry, WHOLE);
    assert_int_equal(apply_one(fixture, &one, &acknowledged), KVR_OK);
    sees(fixture, &all, "short 2 " WHOLE " 0-0;");
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM engines"), 0);
    free(facts);
}

/* It lends its regions one after the other, and gives them back before it goes. */
static void an_engine_that_has_gone_has_its_geometry(void **state)
{
    struct fixture *fixture = *state;

    report_at(fixture, WALL, "e", 0, "");
    report_at(fixture, WALL + 1, "e", 2, WHOLE);
    report_at(fixture, WALL + 2, "e", 0, "");
    report_at(fixture, WALL + 3, NULL, 0, NULL);
    sees(fixture, &all, "e 2 " WHOLE " 0-0;");
    report_at(fixture, WALL + 4, "f", 2, WHOLE);
    sees(fixture, &all, "f 2 " WHOLE " 0-0;e 2 " WHOLE " 0-0;");
}

static void what_goes_on_is_stored_now_and_then(void **state)
{
    struct fixture *fixture = *state;
    int64_t at = WALL;

    for (; at <= WALL + 5 * MINUTE_NS; at += MINUTE_NS / 10)
        report_at(fixture, at, "e", 1, WHOLE);
    sees(fixture, &all, "e 1 " WHOLE " 0-4;");
    assert_int_equal(store_number(fixture, "SELECT count(*) FROM engines_seen"), 1);
}

static void a_window_has_those_that_were_there(void **state)
{
    struct fixture *fixture = *state;
    struct engine_filter filter = all;

    report_at(fixture, WALL, "early", 1, WHOLE);
    report_at(fixture, WALL + 60 * MINUTE_NS, "late", 1, WHOLE);
    filter.until_ns = WALL + 59 * MINUTE_NS;
    sees(fixture, &filter, "early 1 " WHOLE " 0-0;");
    filter = all;
    filter.from_ns = WALL + 3 * MINUTE_NS;
    sees(fixture, &filter, "late 1 " WHOLE " 60-60;");
    filter.from_ns = WALL + MINUTE_NS; /* it may have gone on until there */
    sees(fixture, &filter, "late 1 " WHOLE " 60-60;early 1 " WHOLE " 0-0;");
    filter.agent = "prefill-0";
    sees(fixture, &filter, "");
}

/* Several schedulers have one database; and one starts anew. */
static void a_scheduler_that_starts_anew_adds_no_second_row(void **state)
{
    struct fixture *fixture = *state;

    report_at(fixture, WALL, "e", 1, WHOLE);
    fleet_close(fixture->fleet);
    fixture->fleet = fleet_open();
    apply_close(fixture->apply);
    fixture->apply = apply_open(fixture->store, fixture->fleet);
    report_at(fixture, WALL + 9 * MINUTE_NS, "e", 1, WHOLE);
    sees(fixture, &all, "e 1 " WHOLE " 0-9;");
}

static void old_engines_are_removed(void **state)
{
    struct fixture *fixture = *state;
    uint64_t removed;

    report_at(fixture, WALL, "e", 1, WHOLE);
    report_at(fixture, WALL + MINUTE_NS, "f", 1, WHOLE);
    assert_true(store_begin(fixture->store));
    assert_true(store_prune(fixture->store, WALL + 1, NULL, &removed));
    assert_true(store_commit(fixture->store));
    assert_int_equal(removed, 1);
    sees(fixture, &all, "f 1 " WHOLE " 1-1;");
}

/* One that is still there was seen last. */
static void there_is_a_bound(void **state)
{
    struct fixture *fixture = *state;
    bool more = false;

    report_at(fixture, WALL, "old", 1, WHOLE);
    report_at(fixture, WALL + MINUTE_NS, "e", 1, WHOLE);
    report_at(fixture, WALL + 2 * MINUTE_NS, "f", 1, WHOLE);
    report_at(fixture, WALL + 3 * MINUTE_NS, "old", 1, WHOLE);
    assert_true(store_begin(fixture->store));
    assert_true(store_bound_engines(fixture->store, 3, &more));
    assert_false(more);
    assert_true(store_bound_engines(fixture->store, 2, &more));
    assert_true(more);
    assert_true(store_bound_engines(fixture->store, 2, &more));
    assert_false(more);
    assert_true(store_commit(fixture->store));
    sees(fixture, &all, "f 1 " WHOLE " 2-2;old 1 " WHOLE " 0-3;");
}

static json_t *ask(struct fixture *fixture, const char *key, const char *value, unsigned status)
{
    struct api_query query = {0};

    if (key != NULL)
        query = (struct api_query){1, {{key, value}}};
    return store_ask(fixture, "/api/v1/engines", &query, status);
}

static void the_api_has_pages_of_them(void **state)
{
    struct fixture *fixture = *state;
    json_t *first, *second, *engine;
    const char *next;

    report_at(fixture, WALL, "e", 1, WHOLE);
    report_at(fixture, WALL + 1, "f", 1, WHOLE);
    first = ask(fixture, "limit", "1", 200);
    engine = json_array_get(json_object_get(first, "engines"), 0);
    assert_string_equal(json_string_value(json_object_get(engine, "name")), "f");
    assert_string_equal(json_string_value(json_object_get(engine, "agent")), "decode-0");
    assert_string_equal(json_string_value(json_object_get(engine, "geometry")), WHOLE);
    assert_string_equal(json_string_value(json_object_get(engine, "first_seen")),
                        "2023-11-14T22:13:20.000Z");
    next = json_string_value(json_object_get(first, "next"));
    assert_non_null(next);
    second = ask(fixture, "after", next, 200);
    assert_int_equal(json_array_size(json_object_get(second, "engines")), 1);
    assert_true(json_is_null(json_object_get(second, "next")));
    json_decref(first);
    json_decref(second);
    json_decref(ask(fixture, "from", "yesterday", 400));
    json_decref(ask(fixture, "after", "1-2", 400));
    json_decref(ask(fixture, "agent", "", 400));
    json_decref(ask(fixture, "engine", "x", 400));
}

/* Its uuid stays, its regions need not. The report has the running one first. */
static void an_engine_that_starts_anew_is_the_newer_one(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report one = report_of("decode-0", 0, NULL, 0);
    uint64_t acknowledged;

    memset(&facts, 0, sizeof(facts));
    one.facts = &facts;
    facts.engine_count = facts.gone_count = 1;
    strcpy(facts.engines[0].name, "new");
    strcpy(facts.engines[0].geometry, WHOLE);
    strcpy(facts.engines[1].name, "old");
    strcpy(facts.engines[1].geometry, "float16 2 0:2:16:64");
    facts.engines[0].rank.tp = facts.engines[1].rank.tp = 1;
    facts.engines[0].rank.generation = 8;
    facts.engines[1].rank.generation = 7;
    facts.engines[0].region_count = 1;
    facts.engines[1].region_count = 5;
    assert_int_equal(apply_one(fixture, &one, &acknowledged), KVR_OK);
    sees(fixture, &all, "new 1 " WHOLE " 0-0;");
    facts.engine_count = 0; /* the old one alone: a report that waited */
    facts.engines[0] = facts.engines[1];
    assert_int_equal(apply_at(fixture, &one, WALL + MINUTE_NS, &acknowledged), KVR_OK);
    sees(fixture, &all, "new 1 " WHOLE " 0-0;");
    strcpy(facts.engines[0].name, "newest");
    facts.engines[0].rank.generation = 9;
    facts.engines[0].region_count = 0;
    facts.engines[0].geometry[0] = '\0';
    assert_int_equal(apply_at(fixture, &one, WALL + MINUTE_NS, &acknowledged), KVR_OK);
    sees(fixture, &all, "newest 0  0-1;");
}

/* A commit failed after the fleet had taken the report, which comes again. */
static void what_was_not_stored_is_stored_later(void **state)
{
    struct fixture *fixture = *state;

    report_at(fixture, WALL, "e", 1, WHOLE);
    store_execute(fixture, "DELETE FROM engines_seen");
    fleet_forget_stored(fixture->fleet);
    report_at(fixture, WALL + 1, "e", 1, WHOLE);
    sees(fixture, &all, "e 1 " WHOLE " 0-0;");
}

struct loaded {
    char geometry[KVR_GEOMETRY_BYTES];
};

static void keep_geometry(void *self, const struct agent_view *agent)
{
    struct loaded *loaded = self;

    if (agent->facts->engine_count == 1)
        strcpy(loaded->geometry, agent->facts->engines[0].geometry);
}

static void attached_engines_outlive_the_scheduler(void **state)
{
    struct fixture *fixture = *state;
    struct loaded loaded = {""};

    report_at(fixture, WALL, "e", 1, WHOLE);
    fleet_close(fixture->fleet);
    fixture->fleet = fleet_open();
    assert_true(fleet_load(fixture->fleet, fixture->store));
    assert_true(fleet_each(fixture->fleet, kvr_clock_now(), keep_geometry, &loaded));
    assert_string_equal(loaded.geometry, WHOLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(an_engine_that_has_gone_has_its_geometry),
        WITH_STORE(an_engine_of_a_moment_is_known),
        WITH_STORE(what_goes_on_is_stored_now_and_then),
        WITH_STORE(a_window_has_those_that_were_there),
        WITH_STORE(a_scheduler_that_starts_anew_adds_no_second_row),
        WITH_STORE(old_engines_are_removed),
        WITH_STORE(there_is_a_bound),
        WITH_STORE(an_engine_that_starts_anew_is_the_newer_one),
        WITH_STORE(what_was_not_stored_is_stored_later),
        WITH_STORE(the_api_has_pages_of_them),
        WITH_STORE(attached_engines_outlive_the_scheduler),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
