/* Goal: a trace of transfers becomes requests with all that a replay plays: places, page tables,
 * times, ends, faults. Method: traces of a few lines. */
#include "tests/support/folder.h"

#include "tools/replay/replay_recording.h"
#include "trace/kvtrace.h"

#define HEADER "{\"kvtrace\":{\"version\":1,\"start_us\":1795773600000000}}\n"
#define AGENTS                                                                                     \
    "{\"agent\":{\"number\":0,\"name\":\"p0\",\"role\":\"source\"}}\n"                             \
    "{\"agent\":{\"number\":1,\"name\":\"d0\",\"role\":\"target\"}}\n"                             \
    "{\"agent\":{\"number\":2,\"name\":\"d1\",\"role\":\"target\"}}\n"

static struct kvr_trace trace;
static struct replay_recording recording;
static struct replay_agents agents;
static struct kvr_error error;
static char folder[FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    kvr_trace_init(&trace);
    memset(&recording, 0, sizeof(recording));
    memset(&agents, 0, sizeof(agents));
    agents.counts[KVR_ROLE_SOURCE] = 1;
    agents.counts[KVR_ROLE_TARGET] = 2;
    folder_make(folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kvr_trace_done(&trace);
    replay_recording_done(&recording);
    return folder_remove(folder);
}

static kvr_status read_lines(const char *lines, uint32_t limit)
{
    char path[FOLDER_BYTES + 16];
    FILE *stream;

    snprintf(path, sizeof(path), "%s/a.kvtrace", folder);
    stream = fopen(path, "we");
    assert_non_null(stream);
    fprintf(stream, "%s%s%s", HEADER, AGENTS, lines);
    assert_int_equal(fclose(stream), 0);
    return replay_recording_read(path, limit, &trace, &recording, &error);
}

/* Of a request in the order of time. */
static const struct replay_recorded *item(uint32_t request)
{
    assert_true(request < trace.request_count);
    return &recording.items[trace.requests[request].number];
}

static void place(void)
{
    uint32_t shared[REPLAY_ROLES];

    assert_int_equal(replay_recording_place(&recording, &trace, &agents, shared, &error), KVR_OK);
}

static void transfers_stand_for_their_request(void **state)
{
    (void)state;
    assert_int_equal(
        read_lines(
            "{\"request\":{\"id\":\"a\",\"at_us\":50,\"input_tokens\":600,\"blocks\":[4,5]}}\n"
            "{\"request\":{\"id\":\"b\",\"at_us\":40,\"input_tokens\":100,\"priority\":7,"
            "\"target\":2}}\n"
            "{\"transfer\":{\"request\":\"a\",\"at_us\":90,\"tokens\":600,\"skip_tokens\":512,"
            "\"priority\":-2,\"deadline_us\":5000,\"outcome\":\"done\",\"source\":{\"agent\":0},"
            "\"target\":{\"agent\":2}}}\n"
            "{\"transfer\":{\"request\":\"a\",\"at_us\":80,\"tokens\":400,\"outcome\":\"done\"}}\n"
            "{\"transfer\":{\"request\":\"a\",\"at_us\":70,\"tokens\":0,\"outcome\":\"done\"}}\n",
            0),
        KVR_OK);
    assert_int_equal(trace.request_count, 3);
    assert_non_null(strstr(trace.problem, "it has no footer: it was cut behind line 9"));
    assert_int_equal(recording.transfer_count, 2);
    assert_int_equal(trace.requests[0].input_tokens, 100);
    assert_false(item(0)->transfer);
    assert_int_equal(item(0)->priority, 7);
    assert_int_equal(trace.requests[1].at, 40 * KVR_US);
    assert_int_equal(kvr_trace_blocks(&trace, &trace.requests[1])[0], 4);
    assert_int_equal(trace.requests[2].input_tokens, 600);
    assert_int_equal(kvr_trace_blocks(&trace, &trace.requests[2])[1], 5);
    assert_true(item(2)->transfer);
    assert_int_equal(item(2)->skip_tokens, 512);
    assert_int_equal(item(2)->priority, -2);
    assert_int_equal(item(2)->deadline, 5 * KVR_MS);
    place();
    assert_int_equal(item(0)->numbers[KVR_ROLE_TARGET], 1);
    assert_int_equal(item(1)->numbers[KVR_ROLE_TARGET], 1); /* its turn */
    assert_int_equal(item(2)->numbers[KVR_ROLE_TARGET], 1);
}

static void pages_and_times_of_layers_are_kept(void **state)
{
    const struct replay_recorded *one;

    (void)state;
    assert_int_equal(
        read_lines(
            "{\"transfer\":{\"at_us\":90,\"tokens\":64,\"outcome\":\"done\",\"source\":{"
            "\"agent\":0,\"layers_us\":[[30,0],[-1,-1],[20,0],[50,0]],"
            "\"pages\":[{\"group\":1,\"runs\":[[8,4],[2,1]]},{\"group\":9,\"runs\":[[1,1]]}]},"
            "\"target\":{\"agent\":1,\"layers_us\":[[1,1]]}}}\n",
            0),
        KVR_OK);
    one = item(0);
    assert_int_equal(one->ready.count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(recording.numbers[one->ready.first + i], i < 3 ? 30 : 50);
    assert_int_equal(one->runs[KVR_ROLE_SOURCE][0].count, 0);
    assert_int_equal(one->runs[KVR_ROLE_SOURCE][1].count, 4);
    assert_int_equal(recording.numbers[one->runs[KVR_ROLE_SOURCE][1].first + 2], 2);
    assert_int_equal(one->runs[KVR_ROLE_TARGET][1].count, 0);
    assert_int_equal(one->cancelled, KVR_NEVER);
}

/* By when it was asked for; else by the side that knew first. */
static void a_cancel_has_its_time_and_its_side(void **state)
{
    (void)state;
    assert_int_equal(
        read_lines("{\"transfer\":{\"at_us\":1,\"tokens\":9,\"outcome\":\"cancelled\","
                   "\"cancelled_us\":70,\"source\":{\"agent\":0,\"stages_us\":{\"ended\":90}},"
                   "\"target\":{\"agent\":1,\"stages_us\":{\"failing\":80,\"ended\":99}}}}\n"
                   "{\"transfer\":{\"at_us\":2,\"tokens\":9,\"outcome\":\"cancelled\","
                   "\"source\":{\"agent\":0,\"stages_us\":{\"failing\":40,\"ended\":90}},"
                   "\"target\":{\"agent\":1,\"stages_us\":{\"failing\":80,\"ended\":99}}}}\n"
                   "{\"transfer\":{\"at_us\":3,\"tokens\":9,\"outcome\":\"expired\","
                   "\"source\":{\"agent\":0,\"stages_us\":{\"failing\":40}},"
                   "\"target\":{\"agent\":1}}}\n",
                   0),
        KVR_OK);
    assert_int_equal(item(0)->cancelled, 70 * KVR_US);
    assert_int_equal(item(0)->cancelled_by, KVR_ROLE_TARGET);
    assert_int_equal(item(1)->cancelled, 40 * KVR_US);
    assert_int_equal(item(1)->cancelled_by, KVR_ROLE_SOURCE);
    assert_int_equal(item(2)->cancelled, KVR_NEVER);
}

#define SOURCE_HALF(request, at, ended, attempt)                                                   \
    "{\"transfer\":{\"request\":\"" request "\",\"at_us\":" at                                     \
    ",\"tokens\":9,\"attempt\":" attempt                                                           \
    ",\"outcome\":\"cancelled\",\"source\":{\"agent\":0,\"stages_us\":{\"ended\":" ended "}}}}\n"
#define TARGET_HALF(request, at, ended, attempt)                                                   \
    "{\"transfer\":{\"request\":\"" request "\",\"at_us\":" at                                     \
    ",\"tokens\":9,\"attempt\":" attempt                                                           \
    ",\"outcome\":\"cancelled\",\"target\":{\"agent\":2,\"stages_us\":{\"failing\":" ended         \
    "}}}}\n"
#define BOTH(request, at)                                                                          \
    "{\"transfer\":{\"request\":\"" request "\",\"at_us\":" at ",\"tokens\":9,\"attempt\":1,"      \
    "\"outcome\":\"cancelled\",\"source\":{\"agent\":0,\"stages_us\":{\"failing\":300}},"          \
    "\"target\":{\"agent\":2,\"stages_us\":{\"failing\":290}}}}\n"

static void halves_are_one_transfer(void **state)
{
    (void)state;
    assert_int_equal(
        read_lines(SOURCE_HALF("a", "100", "50", "1") TARGET_HALF("a", "110", "20", "1")
                       SOURCE_HALF("b", "200", "60", "1") BOTH("b", "205")
                           TARGET_HALF("c", "300", "9", "1") SOURCE_HALF("c", "310", "9", "2"),
                   0),
        KVR_OK);
    assert_int_equal(trace.request_count, 2); /* attempts are no halves of each other */
    assert_int_equal(recording.lone_count, 2);
    assert_int_equal(item(0)->agents[KVR_ROLE_SOURCE], 0);
    assert_int_equal(item(0)->agents[KVR_ROLE_TARGET], 2);
    assert_int_equal(item(0)->cancelled, 30 * KVR_US);
    assert_int_equal(item(0)->cancelled_by, KVR_ROLE_TARGET);
    assert_int_equal(trace.requests[1].at, 100 * KVR_US);
    assert_int_equal(item(1)->agents[KVR_ROLE_TARGET], 2);
    assert_int_equal(item(1)->cancelled, 60 * KVR_US);
    assert_int_equal(item(1)->cancelled_by, KVR_ROLE_SOURCE);
}

static void faults_of_the_part_that_is_played_stay(void **state)
{
    (void)state;
    assert_int_equal(
        read_lines(
            "{\"fault\":{\"at_us\":160,\"agent\":2,\"kind\":\"engine_ended\",\"for_us\":3}}\n"
            "{\"transfer\":{\"at_us\":300,\"tokens\":9,\"outcome\":\"done\"}}\n"
            "{\"transfer\":{\"at_us\":100,\"tokens\":9,\"outcome\":\"done\"}}\n"
            "{\"transfer\":{\"at_us\":200,\"tokens\":9,\"outcome\":\"done\"}}\n"
            "{\"fault\":{\"at_us\":150,\"kind\":\"rail_lost\"}}\n"
            "{\"fault\":{\"at_us\":320,\"kind\":\"rail_lost\"}}\n",
            2),
        KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_string_equal(trace.problem, ""); /* the file was cut behind what was asked for */
    assert_int_equal(recording.fault_count, 2);
    assert_string_equal(recording.faults[0].kind, "rail_lost");
    assert_int_equal(recording.faults[0].at_us, 50);
    assert_int_equal(recording.faults[0].agent, KVTRACE_NONE);
    assert_int_equal(recording.faults[1].for_us, 3);
}

static void a_wrong_line_is_named(void **state)
{
    (void)state;
    assert_int_equal(read_lines("{\"transfer\":{\"at_us\":3,\"tokens\":9,\"skip_tokens\":10,"
                                "\"outcome\":\"done\"}}\n",
                                0),
                     KVR_INVALID);
    assert_non_null(strstr(error.detail, "line 5: "));
    assert_int_equal(read_lines("", 0), KVR_MALFORMED);
    assert_non_null(strstr(error.detail, "holds no request"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(transfers_stand_for_their_request, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_and_times_of_layers_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancel_has_its_time_and_its_side, setup, teardown),
        cmocka_unit_test_setup_teardown(halves_are_one_transfer, setup, teardown),
        cmocka_unit_test_setup_teardown(faults_of_the_part_that_is_played_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_line_is_named, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
