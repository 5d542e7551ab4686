/* Goal: a request that several traces have is written once, and two requests of one trace twice.
 * Many requests of one moment are fast. Method: requests of up to three inputs. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tools/trace/trace_seen.h"

static struct trace_seen seen;

static bool take(const char *id, int64_t at_us, uint32_t input)
{
    struct kvtrace_request request = {.at_us = at_us};
    struct kvr_error error = {0};
    bool before = false;

    snprintf(request.id, sizeof(request.id), "%s", id);
    assert_int_equal(trace_seen_take(&seen, &request, input, &before, &error), KVR_OK);
    return before;
}

static int teardown(void **state)
{
    (void)state;
    trace_seen_done(&seen);
    return 0;
}

static void a_request_of_several_traces_is_one(void **state)
{
    (void)state;
    assert_false(take("a", 5, 0));
    assert_false(take("b", 5, 0));
    assert_true(take("a", 5, 1));
    assert_false(take("c", 5, 1));
    assert_true(take("c", 5, 2));
    assert_true(take("b", 5, 2));
    assert_false(take("a", 6, 2)); /* another moment */
    assert_false(take("a", 5, 0));
}

static void two_requests_of_one_trace_are_two(void **state)
{
    (void)state;
    assert_false(take("a", 5, 0));
    assert_false(take("a", 5, 0));
    assert_true(take("a", 5, 1));
    assert_true(take("a", 5, 1));
    assert_false(take("a", 5, 1)); /* a third one, which the first trace has not */
    assert_true(take("a", 5, 2));
    assert_false(take("", 5, 0)); /* without an id nothing is the same */
    assert_false(take("", 5, 1));
}

/* Each against each would take minutes. */
static void many_requests_of_one_moment_are_fast(void **state)
{
    char id[20];

    (void)state;
    for (uint32_t input = 0; input < 2; input++)
        for (int i = 0; i < 500000; i++) {
            snprintf(id, sizeof(id), "%d", i);
            assert_true(take(id, 0, input) == (input == 1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_request_of_several_traces_is_one, teardown),
        cmocka_unit_test_teardown(two_requests_of_one_trace_are_two, teardown),
        cmocka_unit_test_teardown(many_requests_of_one_moment_are_fast, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
