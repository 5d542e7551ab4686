/* Goal: two traces are compared request by request; a slower rail, a changed option and another
 * outcome are named, and the part of a transfer that changed is the one that is named. Conditions
 * are read, and hold when they must. Method: traces that are written here, of which one has one
 * change. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "tools/compare/compare_report.h"

#define TRANSFERS 400

static char folder[] = "/tmp/kvrail-compare-XXXXXX";
static char paths[2][128];
static struct kvtrace_record record;
static struct compare_report report;

/* How a trace differs from the usual one. */
struct change {
    int64_t land_us;      /* more, of each transfer */
    const char *options;  /* of the prefill-agent; NULL: the usual ones */
    int64_t rail_percent; /* of the bytes over rail 0; 0: half */
    int failed;           /* transfers */
    int64_t queue_us;     /* added to the wait for the source */
    int64_t ended_us;     /* more, between the last byte and the end */
    int transfers;        /* 0: the usual number; -1: none */
    bool other_ids;
};

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], sizeof(paths[i]), "%s/%d.kvtrace", folder, i);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    compare_report_release(&report);
    unlink(paths[0]);
    unlink(paths[1]);
    return rmdir(folder);
}

static void put(struct kvtrace_writer *writer)
{
    struct kvr_error error = {0};

    assert_int_equal(kvtrace_write(writer, &record, &error), KVR_OK);
}

static void put_agents(struct kvtrace_writer *writer, const struct change *change)
{
    for (int role = 0; role < 2; role++) {
        kvtrace_clear(&record, KVTRACE_AGENT);
        record.agent.number = role;
        record.agent.role = (kvr_role)role;
        snprintf(record.agent.name, sizeof(record.agent.name), "%s-0",
                 role == KVR_ROLE_SOURCE ? "prefill" : "decode");
        snprintf(record.agent.options, sizeof(record.agent.options), "%s",
                 role == KVR_ROLE_TARGET   ? "quiet=100ms"
                 : change->options != NULL ? change->options
                                           : "batch=32 rail=rdma0,rdma1");
        record.agent.rail_count = 2;
        for (int rail = 0; rail < 2; rail++)
            snprintf(record.agent.rails[rail].name, sizeof(record.agent.rails[rail].name), "rdma%d",
                     rail);
        put(writer);
    }
}

static void put_transfer(struct kvtrace_writer *writer, const struct change *change, int i,
                         struct kvr_rng *rng)
{
    struct kvtrace_transfer *one = &record.transfer;
    int64_t land = 1000 + (int64_t)(kvr_rng_next(rng) % 5000), bytes = 1000000;
    int64_t first = bytes * (change->rail_percent > 0 ? change->rail_percent : 50) / 100;
    const int64_t rails[] = {0, 10, first, 0, 1, 10, bytes - first, 0};
    int64_t *source = one->sides[KVR_ROLE_SOURCE].stages_us;
    int64_t *target = one->sides[KVR_ROLE_TARGET].stages_us;

    kvtrace_clear(&record, KVTRACE_TRANSFER);
    snprintf(one->request, sizeof(one->request), "%s%d", change->other_ids ? "x" : "r", i);
    one->at_us = i * 100;
    one->tokens = 100 + i % 7;
    one->bytes = bytes;
    one->outcome = i < change->failed ? KVTRACE_FAILED : KVTRACE_DONE;
    for (int role = 0; role < 2; role++) {
        one->sides[role].agent = role;
        one->sides[role].rails = (struct kvtrace_rows){rails, 8};
    }
    target[KVR_EVENT_OPENED] = 0;
    target[KVR_EVENT_MATCHED] = 5000 + change->queue_us + (int64_t)(kvr_rng_next(rng) % 50);
    target[KVR_EVENT_GRANTED] = target[KVR_EVENT_MATCHED] + 200;
    target[KVR_EVENT_FIRST_LAND] = target[KVR_EVENT_GRANTED] + 50;
    target[KVR_EVENT_LAST_LAND] = target[KVR_EVENT_FIRST_LAND] + land + change->land_us;
    target[KVR_EVENT_ENDED] = target[KVR_EVENT_LAST_LAND] + 10 + change->ended_us;
    source[KVR_EVENT_FIRST_READY] = 300;
    source[KVR_EVENT_LAST_READY] = 900;
    source[KVR_EVENT_ENDED] = target[KVR_EVENT_ENDED];
    put(writer);
}

static void write_trace(const char *path, uint64_t seed, const struct change *change)
{
    const struct kvtrace_header header = {.start_us = 1};
    struct kvtrace_writer *writer;
    struct kvr_error error = {0};
    struct kvr_rng rng;

    kvr_rng_init(&rng, seed);
    assert_int_equal(kvtrace_create(path, &header, &writer, &error), KVR_OK);
    put_agents(writer, change);
    for (int i = 0; i < (change->transfers != 0 ? change->transfers : TRANSFERS); i++)
        put_transfer(writer, change, i, &rng);
    assert_int_equal(kvtrace_finish(writer, &error), KVR_OK);
}

/* The usual trace, and one with a change; other: of other chance. */
static void compare(const struct change *change, bool other)
{
    static const struct change none;
    struct kvr_error error = {0};

    write_trace(paths[0], 1, &none);
    write_trace(paths[1], other ? 2 : 1, change);
    compare_report_release(&report);
    assert_int_equal(compare_report_make(paths[0], paths[1], 1, &report, &error), KVR_OK);
}

static bool condition(const char *text)
{
    struct compare_condition one;
    struct kvr_error error = {0};

    if (compare_condition_parse(text, &one, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    return compare_condition_holds(&one, &report);
}

static const char *verdict(void)
{
    static char text[400];

    compare_verdict(&report, text, sizeof(text));
    return text;
}

static void a_trace_and_itself_are_not_distinguishable(void **state)
{
    (void)state;
    compare(&(const struct change){0}, false);
    assert_int_equal(report.matched, TRANSFERS);
    assert_int_equal(report.matching, COMPARE_BY_ID);
    assert_false(report.differs);
    assert_string_equal(verdict(), "A and B are not distinguishable");
    assert_int_equal(report.option_count, 0);
    assert_int_equal(report.rail_count, 0);
    assert_false(condition("p99_total>+0%"));
    compare(&(const struct change){0}, true);
    assert_false(report.differs);
}

static void the_part_that_changed_is_named(void **state)
{
    (void)state;
    compare(&(const struct change){.land_us = 2000}, true);
    assert_true(report.differs);
    assert_int_equal(report.cause, KVTRACE_TIME_LAND);
    assert_non_null(strstr(verdict(), "B is slower"));
    assert_non_null(strstr(verdict(), "most of it is land"));
    assert_true(report.times[KVTRACE_TIME_EXPOSED].figures[COMPARE_P50].differs);
    assert_false(report.times[KVTRACE_TIME_QUEUE].figures[COMPARE_MEAN].differs);
    assert_true(condition("p99_total>+5%"));
    assert_true(condition("mean_land>+1.5ms"));
    assert_true(condition("p50_total>+1500us"));
    assert_false(condition("p99_total>+500%"));
    assert_false(condition("mean_land<-1ms"));
    assert_false(condition("mean_queue>+0us"));
}

static void options_rails_and_outcomes_are_named(void **state)
{
    (void)state;
    compare(&(const struct change){.options = "batch=1 rail=rdma0,rdma1", .rail_percent = 5},
            false);
    assert_int_equal(report.option_count, 2);
    assert_string_equal(report.options[0], "prefill-0: only A has batch=32");
    assert_string_equal(report.options[1], "prefill-0: only B has batch=1");
    assert_string_equal(report.rails[0], "rail rdma0 of prefill-0 carried 50.0 % of the agent's "
                                         "bytes in A, 5.0 % in B");
    assert_int_equal(report.rail_count, 4);
    assert_false(report.differs);
    compare(&(const struct change){.failed = 3}, false);
    assert_false(report.differs); /* chance may have made so few */
    compare(&(const struct change){.failed = 40}, false);
    assert_non_null(strstr(verdict(), "10.0 % of B did not end well, 0.0 % of A"));
    assert_true(report.differs);
    assert_false(compare_same_outcomes(&report));
}

static void other_ids_are_matched_by_order(void **state)
{
    (void)state;
    compare(&(const struct change){.other_ids = true}, false);
    assert_int_equal(report.matching, COMPARE_BY_ORDER);
    assert_int_equal(report.matched, TRANSFERS);
    assert_false(report.differs);
    assert_int_equal(report.times[KVTRACE_TIME_TOTAL].count, TRANSFERS);
}

static void other_conditions_are_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "p98_total>+5%",
                                        "p99_totl>+5%",
                                        "p99_total=5%",
                                        "p99_total>5%",
                                        "p99_total>+%",
                                        "p99_total>+5",
                                        "p99_total>+5min",
                                        "p99total>+5%"};
    struct compare_condition one;
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        error = (struct kvr_error){0};
        assert_int_equal(compare_condition_parse(wrong[i], &one, &error), KVR_INVALID);
        assert_non_null(strstr(error.detail, "write a condition as"));
    }
}

static void pages_and_json_are_whole(void **state)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    json_t *json;

    (void)state;
    assert_non_null(stream);
    compare(&(const struct change){.land_us = 2000, .options = "batch=<b>&"}, true);
    assert_true(compare_html(&report, stream));
    fclose(stream);
    assert_non_null(strstr(text, "</html>"));
    assert_non_null(strstr(text, "batch=&lt;b&gt;&amp;"));
    assert_null(strstr(text, "<b>&"));
    assert_null(strstr(text, "http:"));
    assert_null(strstr(text, "nan"));
    free(text);
    json = compare_json(&report);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "cause")), "land");
    json_decref(json);
}

static double point(const json_t *curve, size_t i)
{
    return json_real_value(json_array_get(curve, i));
}

/* Each transfer of B took 2 ms more to land. */
static void a_curve_goes_from_the_shortest_to_the_longest(void **state)
{
    const json_t *curve, *a, *b;
    json_t *json;

    (void)state;
    compare(&(const struct change){.land_us = 2000}, true);
    json = compare_json(&report);
    curve = json_object_get(json_object_get(json_object_get(json, "time_ms"), "land"), "curve");
    a = json_object_get(curve, "a");
    b = json_object_get(curve, "b");
    assert_int_equal(json_array_size(a), 21);
    assert_int_equal(json_array_size(b), 21);
    for (size_t i = 0; i < 21; i++) {
        double more = point(b, i) - point(a, i);

        assert_true(more > 1 && more < 3); /* by chance the shortest and the longest vary most */
        assert_true(i == 0 || (point(a, i) > point(a, i - 1) && point(b, i) > point(b, i - 1)));
    }
    json_decref(json);
}

/* The total rose although the fetches waited less: the wait is not the cause. */
static void a_part_that_became_shorter_is_no_cause_of_a_longer_total(void **state)
{
    (void)state;
    compare(&(const struct change){.queue_us = -4000, .land_us = 3000, .ended_us = 9000}, true);
    assert_non_null(strstr(verdict(), "B is slower"));
    if (report.cause == KVTRACE_TIME_QUEUE)
        fail_msg("%s", verdict());
}

static void part_of_the_change_is_not_most_of_it(void **state)
{
    (void)state;
    compare(&(const struct change){.land_us = 1000, .ended_us = 50000}, true);
    if (strstr(verdict(), "most of it is land") != NULL)
        fail_msg("land rose by 1 ms of 51: %s", verdict());
}

/* As behind a slow rail: chunks come late, and the next transfer waits for them. */
static void the_larger_of_two_parts_is_named(void **state)
{
    (void)state;
    compare(&(const struct change){.land_us = 45000, .queue_us = 35000, .ended_us = 20000}, true);
    assert_int_equal(report.cause, KVTRACE_TIME_LAND);
    assert_non_null(strstr(verdict(), "the largest part is land"));
}

static void without_pairs_there_is_no_verdict_of_equality(void **state)
{
    const struct change none = {.transfers = -1};
    struct kvr_error error = {0};

    (void)state;
    write_trace(paths[0], 1, &none);
    write_trace(paths[1], 1, &none);
    compare_report_release(&report);
    assert_int_equal(compare_report_make(paths[0], paths[1], 1, &report, &error), KVR_OK);
    assert_int_equal(report.matched, 0);
    if (strstr(verdict(), "not distinguishable") != NULL)
        fail_msg("no transfer in either: %s", verdict());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_and_itself_are_not_distinguishable),
        cmocka_unit_test(the_part_that_changed_is_named),
        cmocka_unit_test(options_rails_and_outcomes_are_named),
        cmocka_unit_test(other_ids_are_matched_by_order),
        cmocka_unit_test(other_conditions_are_refused),
        cmocka_unit_test(pages_and_json_are_whole),
        cmocka_unit_test(a_curve_goes_from_the_shortest_to_the_longest),
        cmocka_unit_test(a_part_that_became_shorter_is_no_cause_of_a_longer_total),
        cmocka_unit_test(part_of_the_change_is_not_most_of_it),
        cmocka_unit_test(the_larger_of_two_parts_is_named),
        cmocka_unit_test(without_pairs_there_is_no_verdict_of_equality),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
