/* Goal: `kvrail status` has a line for each source with rails in trouble, and none for the others.
 * Method: the scheduler's JSON in, text out. */
#include "tests/support/check.h"

#include "tools/pairs_print.h"
#include "tools/status_findings.h"
#include "tools/status_print.h"

#define PAIR(source, target, rail, name, state, more)                                              \
    "{\"source\":\"" source "\",\"target\":\"" target "\",\"rail\":{\"index\":" rail               \
    ",\"name\":" name "},\"state\":\"" state "\"" more "}"
#define SINCE(seconds, breaks) ",\"state_seconds\":" seconds ",\"breaks\":" breaks

static char *printed;
static size_t printed_bytes;

static int forget(void **state)
{
    (void)state;
    free(printed);
    printed = NULL;
    return 0;
}

static unsigned rails_of(const char *pairs_text, const char *source)
{
    FILE *out;
    json_t *pairs = json_loads(pairs_text, 0, NULL);
    unsigned rails;

    forget(NULL);
    out = open_memstream(&printed, &printed_bytes);
    rails = pairs_print_rails(pairs, source, 2, out);
    fclose(out);
    json_decref(pairs);
    return rails;
}

static void a_rail_in_trouble_is_said_with_since_when_and_how_often(void **state)
{
    static const char pairs[] =
        "[" PAIR("p0", "d0", "1", "\"mlx5_1\"", "slow", SINCE("12.3", "2")) "," //
        PAIR("p0", "d0", "0", "\"mlx5_0\"", "warm", SINCE("99", "7")) ","       //
        PAIR("p1", "d0", "0", "null", "unreachable", "") "]";

    (void)state;
    assert_int_equal(rails_of(pairs, "p0"), 1);
    assert_string_equal(
        printed,
        "  1 of 2 rails of p0 is in trouble: rail 1 (mlx5_1) to d0: slow for 12 s (2 times)\n");
    assert_int_equal(rails_of(pairs, "p1"), 1);
    assert_string_equal(printed, "  1 of 2 rails of p1 is in trouble: rail 0 to d0: unreachable\n");
    assert_int_equal(rails_of(pairs, "p2"), 0);
    assert_string_equal(printed, "");
    assert_int_equal(rails_of("[1, null, {}]", "p0"), 0);
}

static void pairs_of_one_rail_and_target_are_one(void **state)
{
    static const char pairs[] =
        "[" PAIR("p0", "d0", "1", "null", "unreachable", SINCE("3", "1")) "," //
        PAIR("p0", "d0", "1", "null", "doubted", SINCE("60", "4")) ","        //
        PAIR("p0", "d1", "1", "null", "doubted", SINCE("1", "1")) ","         //
        PAIR("p0", "d2", "1", "null", "doubted", SINCE("1", "1")) ","         //
        PAIR("p0", "d0", "0", "null", "doubted", SINCE("1", "1")) ","         //
        PAIR("p0", "d4", "0", "null", "doubted", SINCE("1", "1")) "]";

    (void)state;
    assert_int_equal(rails_of(pairs, "p0"), 2);
    assert_string_equal(printed, "  2 of 2 rails of p0 are in trouble: "
                                 "rail 1 to d0: unreachable for 60 s (4 times); "
                                 "rail 1 to d1: doubted for 1 s (1 time); "
                                 "rail 1 to d2: doubted for 1 s (1 time); "
                                 "rail 0 to d0: doubted for 1 s (1 time); and 1 more\n");
}

static const char *status_of(const char *troubles_text)
{
    struct status_answers answers = {
        .agents = json_loads("[{\"name\":\"p0\",\"state\":\"up\",\"rails\":[{\"state\":\"up\"}]},"
                             "{\"name\":\"d0\",\"state\":\"up\"}]",
                             0, NULL),
        .troubles = json_loads(troubles_text, 0, NULL),
    };
    json_t *findings = status_findings(&answers);
    FILE *out;

    forget(NULL);
    out = open_memstream(&printed, &printed_bytes);
    status_print(&answers, findings, false, out);
    fclose(out);
    json_decref(findings);
    json_decref(answers.agents);
    json_decref(answers.troubles);
    return strstr(printed, "What is odd:\n");
}

static void status_says_it(void **state)
{
    (void)state;
    assert_string_equal(status_of("[]"), "What is odd:\n  nothing\n");
    assert_string_equal(status_of("null"), "What is odd:\n  nothing\n"); /* an older scheduler */
    assert_string_equal(
        status_of("[" PAIR("p0", "d0", "0", "\"eth0\"", "slow", SINCE("5", "1")) "]"),
        "What is odd:\n"
        "  1 of 1 rails of p0 is in trouble: rail 0 (eth0) to d0: slow for 5 s (1 time)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_rail_in_trouble_is_said_with_since_when_and_how_often, forget),
        cmocka_unit_test_teardown(pairs_of_one_rail_and_target_are_one, forget),
        cmocka_unit_test_teardown(status_says_it, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
