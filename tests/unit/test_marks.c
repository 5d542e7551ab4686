/* Goal: an agent's start, its end and what the start changed are marks, each once. Method: reports
 * applied as the writer does, and the API. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>

#include "scheduler/api.h"
#include "scheduler/store_marks.h"
#include "tests/support/store_case.h"

/* options: NULL: of an older agent. */
static void report_with(struct fixture *fixture, uint64_t boot, const char *version,
                        const char *options, bool leaving)
{
    struct kvr_agent_facts *facts = calloc(1, sizeof(*facts));
    struct kvr_report one = report_of("decode-0", 0, NULL, 0);
    uint64_t acknowledged;

    strcpy(facts->version, version);
    strcpy(facts->options, options != NULL ? options : "");
    strcpy(facts->provider, boot == 7 ? "tcp" : "efa");
    facts->rail_count = 2;
    one.boot = boot;
    one.facts = facts;
    one.leaving = leaving;
    assert_int_equal(apply_one(fixture, &one, &acknowledged), KVR_OK);
    free(facts);
}

static void report(struct fixture *fixture, uint64_t boot, const char *version, bool leaving)
{
    report_with(fixture, boot, version, NULL, leaving);
}

struct seen {
    char text[512];
};

static void add(void *self, const struct stored_mark *mark)
{
    struct seen *seen = self;
    size_t used = strlen(seen->text);

    assert_string_equal(mark->agent, "decode-0");
    snprintf(seen->text + used, sizeof(seen->text) - used, "%s %s>%s;", mark->kind, mark->before,
             mark->after);
}

static void sees(struct fixture *fixture, const char *wanted)
{
    struct seen seen = {""};

    assert_true(store_list_marks(fixture->store, WALL, WALL, 100, add, &seen));
    assert_string_equal(seen.text, wanted);
}

static void a_start_is_marked_once(void **state)
{
    struct fixture *fixture = *state;

    report(fixture, 7, "1.0", false);
    report(fixture, 7, "1.0", false);
    sees(fixture, "started >1.0;");
}

static void a_new_start_says_its_changes(void **state)
{
    static const char *const parts[] = {"started >1.0;", "started 1.0>1.1;", "version 1.0>1.1;",
                                        "provider tcp>efa;", "stopped 1.1>1.1;"};
    struct fixture *fixture = *state;
    struct seen seen = {""};
    size_t length = 0;

    report(fixture, 7, "1.0", false);
    report(fixture, 8, "1.1", false);
    report(fixture, 8, "1.1", true);
    report(fixture, 8, "1.1", true);
    assert_true(store_list_marks(fixture->store, WALL, WALL, 100, add, &seen));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_non_null(strstr(seen.text, parts[i]));
        length += strlen(parts[i]);
    }
    assert_int_equal(strlen(seen.text), length); /* and no others */
}

/* What the marks of a start with `second` after one with `first` say of options; NULL: nothing. */
static void options_are_marked(const char *first, const char *second, const char *before,
                               const char *after)
{
    static struct kvr_agent_facts was, is;
    struct kvr_report report = {.facts = &is};
    struct mark marks[MARK_KIND_END];
    uint32_t count, options = 0;

    strcpy(was.options, first);
    strcpy(is.options, second);
    count = marks_of(&was, true, &report, marks);
    for (uint32_t i = 0; i < count; i++) {
        if (marks[i].kind != MARK_OPTIONS)
            continue;
        options++;
        assert_string_equal(marks[i].before, before);
        assert_string_equal(marks[i].after, after);
    }
    assert_int_equal(options, before != NULL);
}

static void a_new_start_says_which_options_differ(void **state)
{
    static char longest[KVR_AGENT_OPTIONS_BYTES], other[KVR_AGENT_OPTIONS_BYTES];
    struct fixture *fixture = *state;
    struct seen seen = {""};

    options_are_marked("name=a beat=2s", "name=a beat=2s", NULL, NULL);
    options_are_marked("name=a beat=2s rail=x", "name=a beat=3s rail=x", "beat=2s", "beat=3s");
    options_are_marked("name=a", "name=a beat=3s", "", "beat=3s");
    options_are_marked("name=a beat=3s digest=full", "name=a", "beat=3s digest=full", "");
    options_are_marked("name=a rail=x", "name=a rail=x,y", "rail=x", "rail=x,y");
    /* An older agent was replaced, or came back. */
    options_are_marked("", "name=a beat=3s", NULL, NULL);
    options_are_marked("name=a beat=3s", "", NULL, NULL);
    /* What was cut may be the same. */
    options_are_marked("name=a rail=x ...", "name=a beat=3s", "rail=x", "");
    options_are_marked("name=a beat=3s", "name=b ...", "name=a", "name=b");
    options_are_marked("name=a ...", "name=a rail=x ...", NULL, NULL);
    /* Words of another program. */
    options_are_marked("  = a==  ", "...... =...", "= a==", "=...");
    memset(longest, 'l', sizeof(longest) - 1);
    memset(other, 'o', sizeof(other) - 1);
    longest[1] = other[1] = '=';
    options_are_marked(longest, other, longest, other);

    report_with(fixture, 7, "1.0", "name=decode-0 beat=2s", false);
    report_with(fixture, 8, "1.0", "name=decode-0 beat=3s", false);
    assert_true(store_list_marks(fixture->store, WALL, WALL, 100, add, &seen));
    assert_non_null(strstr(seen.text, "options beat=2s>beat=3s;"));
}

static void marks_go_after_their_time(void **state)
{
    struct fixture *fixture = *state;
    bool more;

    report(fixture, 7, "1.0", false);
    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_sum_up(fixture->apply, WALL + MARKS_KEPT_NS, &more, NULL), KVR_OK);
    assert_true(store_commit(fixture->store));
    sees(fixture, "started >1.0;");
    assert_true(store_begin(fixture->store));
    assert_int_equal(apply_sum_up(fixture->apply, WALL + MARKS_KEPT_NS + 1, &more, NULL), KVR_OK);
    assert_true(store_commit(fixture->store));
    sees(fixture, "");
}

static json_t *ask(struct fixture *fixture, const char *from, const char *until)
{
    const struct api_query query = {2, {{"from", from}, {"until", until}}};

    return store_ask(fixture, "/api/v1/marks", &query, 200);
}

static void the_api_has_a_window_of_them(void **state)
{
    struct fixture *fixture = *state;
    json_t *json, *mark;

    report(fixture, 7, "1.0", false);
    json = ask(fixture, "2023-11-14T22:00:00Z", "2023-11-14T23:00:00Z");
    mark = json_array_get(json_object_get(json, "marks"), 0);
    assert_string_equal(json_string_value(json_object_get(mark, "kind")), "started");
    assert_string_equal(json_string_value(json_object_get(mark, "at")), "2023-11-14T22:13:20.000Z");
    assert_true(json_is_null(json_object_get(mark, "before")));
    assert_true(json_is_false(json_object_get(json, "more")));
    json_decref(json);
}

/* The next page is asked for with the time of the last mark, as it was written. */
static void the_time_of_a_mark_is_within_its_window(void **state)
{
    static const struct mark mark = {.kind = MARK_STARTED, .before = "", .after = "1.0"};
    struct fixture *fixture = *state;
    json_t *json;

    assert_true(store_begin(fixture->store));
    assert_true(store_add_mark(fixture->store, "decode-0", 7, &mark, WALL + 300000));
    assert_true(store_add_mark(fixture->store, "decode-0", 8, &mark, WALL + (int64_t)KVR_MS));
    assert_true(store_commit(fixture->store));
    json = ask(fixture, "2023-11-14T22:00:00Z", "2023-11-14T22:13:20.000Z");
    assert_int_equal(json_array_size(json_object_get(json, "marks")), 1);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_start_is_marked_once),
        WITH_STORE(a_new_start_says_its_changes),
        WITH_STORE(a_new_start_says_which_options_differ),
        WITH_STORE(marks_go_after_their_time),
        WITH_STORE(the_api_has_a_window_of_them),
        WITH_STORE(the_time_of_a_mark_is_within_its_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
