/* Goal: `kvrail status` of 256 agents fits on a screen of 24 lines and 100 columns. The worst comes
 * first, and the others are counted; --all shows each. --check fails for each finding that needs a
 * person, and for no other. Method: the scheduler's JSON of such a fleet in, text out. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tools/status_findings.h"
#include "tools/status_print.h"
#include "tools/status_screen.h"

#define AGENTS 256

static struct status_answers answers;
static char *printed;

static json_t *rail(const char *state)
{
    return json_pack("{s:s, s:s, s:i, s:s, s:I, s:I}", "name", "rdmap160s27", "state", state,
                     "group", 0, "address", "10.200.100.100:65535", "bytes",
                     (json_int_t)123456789012, "writes", (json_int_t)123456789);
}

static json_t *agent(unsigned number)
{
    json_t *object =
        json_pack("{s:o, s:s, s:s, s:s, s:s, s:f, s:i, s:i, s:b, s:[o, o], s:[{s:s}]}", "name",
                  json_sprintf("%s.a-rack-with-a-long-name-%03u",
                               number % 2 == 0 ? "prefill" : "decode", number),
                  "role", number % 2 == 0 ? "prefill" : "decode", "state", "up", "provider",
                  "tcp+local", "host", "host-with-a-long-name.example.internal", "silent_seconds",
                  0.4, "peers_up", 128, "transfers_live", number == 77 ? 900 : 3, "insecure", 1,
                  "rails", rail("up"), rail("up"), "tenants", "name", "default");

    return object;
}

static json_t *transfer(unsigned number)
{
    return json_pack("{s:o, s:s, s:b, s:I, s:f, s:{s:s}, s:{s:s}}", "request",
                     json_sprintf("cmpl-0123456789abcdef0123456789abcdef-%u", number), "state",
                     "done", "live", 0, "bytes", (json_int_t)1234567, "duration_seconds", 12.345,
                     "source", "agent", "prefill.a-rack-with-a-long-name-002", "target", "agent",
                     "decode.a-rack-with-a-long-name-003");
}

static json_t *agent_at(size_t number)
{
    return json_array_get(answers.agents, number);
}

/* All is well, but for --insecure. */
static int make(void **state)
{
    (void)state;
    answers.summary = json_pack("{s:{s:i}, s:[]}", "states", "live", 1668, "troubles");
    answers.agents = json_array();
    answers.transfers = json_array();
    answers.opened = json_array();
    answers.troubles = json_array();
    for (unsigned i = 0; i < AGENTS; i++)
        json_array_append_new(answers.agents, agent(i));
    for (unsigned i = 0; i < 20; i++)
        json_array_append_new(answers.transfers, transfer(i));
    return 0;
}

static int forget(void **state)
{
    (void)state;
    json_decref(answers.summary);
    json_decref(answers.agents);
    json_decref(answers.transfers);
    json_decref(answers.opened);
    json_decref(answers.troubles);
    free(printed);
    printed = NULL;
    return 0;
}

static const char *print(bool all)
{
    json_t *findings = status_findings(&answers);
    size_t bytes;
    FILE *out;

    free(printed);
    out = open_memstream(&printed, &bytes);
    status_print(&answers, findings, all, out);
    fclose(out);
    json_decref(findings);
    return printed;
}

/* Sets *ret_well to what --check ends with. */
static const char *check(bool *ret_well)
{
    json_t *findings = status_findings(&answers);
    size_t bytes;
    FILE *out;

    free(printed);
    out = open_memstream(&printed, &bytes);
    status_print_check(findings, out);
    fclose(out);
    *ret_well = status_is_well(findings);
    json_decref(findings);
    return printed;
}

static void expect(const char *part)
{
    if (strstr(printed, part) == NULL)
        fail_msg("no \"%s\" in %s", part, printed);
}

static void expect_screen(void)
{
    unsigned lines = 0;

    for (const char *line = printed; *line != '\0'; line = strchr(line, '\n') + 1) {
        size_t bytes = strcspn(line, "\n");

        lines++;
        if (screen_columns(line, bytes) > SCREEN_COLUMNS)
            fail_msg("%u columns: %.*s", screen_columns(line, bytes), (int)bytes, line);
    }
    if (lines > SCREEN_LINES)
        fail_msg("%u lines: %s", lines, printed);
}

/* The text of one comes before the other's. */
static void expect_order(const char *first, const char *second)
{
    expect(first);
    expect(second);
    assert_true(strstr(printed, first) < strstr(printed, second));
}

static void break_some(void)
{
    static const char pair[] =
        "[{\"source\":\"prefill.a-rack-with-a-long-name-020\",\"target\":\"decode\",\"rail\":"
        "{\"index\":1},\"state\":\"slow\",\"state_seconds\":12,\"breaks\":2}]";

    json_object_set_new(agent_at(200), "state", json_string("lost"));
    json_object_set_new(agent_at(200), "silent_seconds", json_real(61));
    json_object_set_new(agent_at(100), "state", json_string("stopped"));
    json_object_set_new(agent_at(30), "name_shared_with", json_string("other-host"));
    json_object_set_new(json_array_get(json_object_get(agent_at(10), "rails"), 1), "state",
                        json_string("down"));
    json_object_set_new(agent_at(5), "events_dropped", json_integer(7));
    json_decref(answers.troubles);
    answers.troubles = json_loads(pair, 0, NULL);
    assert_non_null(answers.troubles);
}

static void a_large_fleet_fits_on_a_screen(void **state)
{
    (void)state;
    print(false);
    expect_screen();
    expect("256 agents: 256 up, 0 lost, 0 stopped; 512 of 512 rails up; 1668 transfers live\n");
    expect_order("decode.a-r…-name-077 decode", "decode.a-r…-name-001 decode"); /* the busiest */
    expect(" more are up\n");
    assert_null(strstr(printed, "need a look"));
    expect("cmpl-01234…9abcdef-0 done");
}

static void the_worst_come_first(void **state)
{
    (void)state;
    break_some();
    print(false);
    expect_screen();
    expect("256 agents: 254 up, 1 lost, 1 stopped; 511 of 512 rails up");
    expect_order("-name-200 prefill  lost", "-name-030 prefill  up");
    expect_order("-name-030 prefill  up", "-name-010 prefill  up");
    expect_order("-name-010 prefill  up", "-name-020 prefill  up");
    expect_order("-name-020 prefill  up", "decode.a-r…-name-005");
    expect_order("  prefill.a-rack-with-a-long-name-200 is lost; it was heard 61 s ago\n",
                 "  two agents call themselves prefill.a-rack-with-a-long-name-030, on ");
    expect("-name-001 decode   up"); /* behind the six */
    expect("\n248 more are up\n");
    for (unsigned i = 220; i < 240; i++)
        json_object_set_new(agent_at(i), "state", json_string("lost"));
    print(false);
    expect_screen();
    expect("\n18 more need a look (--all shows them), 230 more are up\n");
    expect("  and 22 more (--all shows them)\n");
}

static void all_shows_each_agent_in_full(void **state)
{
    char name[64];

    (void)state;
    break_some();
    json_object_set_new(agent_at(7), "scheduler", json_string("10.0.0.6:9470"));
    print(true);
    expect(" ENGINES  SCHEDULER\n");
    expect("  10.0.0.6:9470\n");
    for (unsigned i = 0; i < AGENTS; i++) {
        snprintf(name, sizeof(name), "\n%s.a-rack-with-a-long-name-%03u %s",
                 i % 2 == 0 ? "prefill" : "decode", i, i % 2 == 0 ? "prefill" : "decode");
        expect(name);
    }
    expect("10.200.100.100:65535");
    expect("cmpl-0123456789abcdef0123456789abcdef-19 done");
    expect("  256 agents run with --insecure: their peers prove no identity\n");
    assert_null(strstr(printed, " more"));
}

static void a_small_fleet_has_its_rails_too(void **state)
{
    (void)state;
    json_decref(answers.agents);
    answers.agents = json_pack("[o, o]", agent(0), agent(1));
    print(false);
    expect_screen();
    expect("RAIL");
    expect("What is odd:\n  prefill.a-rack-with-a-long-name-000 runs with --insecure");
    json_array_clear(answers.agents);
    json_array_clear(answers.transfers);
    print(false);
    expect_screen();
    expect("no agent has reported yet\n");
    expect("no transfer has been reported yet\n");
    expect("What is odd:\n  nothing\n");
}

static void what_is_held_is_counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 90; i++)
        json_array_append_new(answers.opened,
                              json_pack("{s:o, s:s, s:f, s:{s:s}}", "request",
                                        json_sprintf("held-%u", i), "state", "opened",
                                        "age_seconds", 9.0, "source", "agent", "p0"));
    print(false);
    expect_screen();
    expect("  held-0, attempt 0: held for 9 s without a target, at p0\n");
    expect("  and 89 more\n");
}

static void check_fails_for_what_needs_a_person(void **state)
{
    bool well;

    (void)state;
    check(&well);
    assert_true(well);
    assert_string_equal(printed, "note: 256 agents run with --insecure: their peers prove no "
                                 "identity\nall is well\n");
    json_object_set_new(agent_at(100), "state", json_string("stopped")); /* it said goodbye */
    json_object_set_new(json_array_get(answers.transfers, 0), "reason", json_string("expired"));
    check(&well);
    assert_true(well);
    break_some();
    check(&well);
    assert_false(well);
    expect("prefill.a-rack-with-a-long-name-200 is lost; it was heard 61 s ago\n");
    expect("two agents call themselves prefill.a-rack-with-a-long-name-030, on "
           "host-with-a-long-name.example.internal and on other-host: give each a --name of its "
           "own\n");
    expect("rail 1 (rdmap160s27) of prefill.a-rack-with-a-long-name-010 is down\n");
    expect("1 of 2 rails of prefill.a-rack-with-a-long-name-020 is in trouble: rail 1 to decode: "
           "slow for 12 s (2 times)\n");
    expect("decode.a-rack-with-a-long-name-005 dropped 7 events before the scheduler had them\n");
    assert_null(strstr(printed, "all is well"));
}

static void check_fails_for_each_alone(void **state)
{
    static const struct {
        const char *name, *value, *sentence;
    } odd[] = {
        {"state", "\"lost\"", "is lost"},
        {"name_shared_with", "\"b\"", "call themselves"},
        {"events_dropped", "1", "dropped 1 events"},
        {"rails", "[{\"state\":\"down\"}]", "is down"},
    };
    bool well;

    (void)state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        json_t *before = json_incref(json_object_get(agent_at(9), odd[i].name));

        json_object_set_new(agent_at(9), odd[i].name,
                            json_loads(odd[i].value, JSON_DECODE_ANY, NULL));
        check(&well);
        assert_false(well);
        expect(odd[i].sentence);
        json_object_set_new(agent_at(9), odd[i].name, before != NULL ? before : json_null());
    }
    check(&well);
    assert_true(well);
    json_object_set_new(answers.summary, "troubles",
                        json_pack("[s]", "its database takes no reports: disk full"));
    check(&well);
    assert_false(well);
    expect("the scheduler is in trouble: its database takes no reports: disk full\n");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_fleet_fits_on_a_screen, make, forget),
        cmocka_unit_test_setup_teardown(the_worst_come_first, make, forget),
        cmocka_unit_test_setup_teardown(all_shows_each_agent_in_full, make, forget),
        cmocka_unit_test_setup_teardown(a_small_fleet_has_its_rails_too, make, forget),
        cmocka_unit_test_setup_teardown(what_is_held_is_counted, make, forget),
        cmocka_unit_test_setup_teardown(check_fails_for_what_needs_a_person, make, forget),
        cmocka_unit_test_setup_teardown(check_fails_for_each_alone, make, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
