/* Goal: a scheduler's answers become records that fit each other. That holds where the scheduler
 * knows an agent no more, where clocks differ and where texts are too long. A transfer that was
 * written as live is not written again. Method: answers by heart, and the trace that they make. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/trace/trace_recorder.h"

static char path[64];
static struct kvtrace_writer *writer;
static struct trace_recorder *recorder;
static struct kvr_error error;
static const uint8_t key[TRACE_KEY_BYTES] = {7};

static int begin(void **state)
{
    const struct kvtrace_header header = {.start_us = 1000000};
    int descriptor;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/kvrail-recorder-XXXXXX");
    descriptor = mkstemp(path);
    if (descriptor < 0)
        return -1;
    close(descriptor);
    error = (struct kvr_error){0};
    if (kvtrace_create(path, &header, &writer, &error) != KVR_OK)
        return -1;
    recorder = trace_recorder_open(writer, header.start_us, key);
    return recorder != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    trace_recorder_close(recorder);
    return unlink(path);
}

static void take(kvr_status (*record)(struct trace_recorder *, const json_t *, struct kvr_error *),
                 const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    if (record(recorder, json, &error) != KVR_OK)
        fail_msg("%s: %s", text, error.detail);
    json_decref(json);
}

static void take_engine(const char *agent, const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    if (trace_record_engine(recorder, agent, json, &error) != KVR_OK)
        fail_msg("%s: %s", text, error.detail);
    json_decref(json);
}

/* The file's text, without its header. */
static const char *written(void)
{
    static char text[20000];
    FILE *file;
    size_t count;
    struct kvtrace_reader *reader;
    const struct kvtrace_record *one;
    struct kvtrace_ending ending;

    assert_int_equal(trace_recorder_finish(recorder, &error), KVR_OK);
    assert_int_equal(kvtrace_finish(writer, &error), KVR_OK);
    assert_int_equal(kvtrace_open(path, &reader, &error), KVR_OK);
    while (kvtrace_next(reader, &one, &error) == KVR_OK)
        continue;
    kvtrace_ending(reader, &ending);
    assert_true(ending.complete);
    kvtrace_close(reader);
    file = fopen(path, "re");
    assert_non_null(file);
    count = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[count] = '\0';
    return strchr(text, '\n') + 1;
}

static void holds(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL)
        fail_msg("no %s in\n%s", wanted, text);
}

#define AGENTS                                                                                     \
    "[{\"name\": \"p\", \"role\": \"prefill\", \"host\": \"h\", \"version\": \"1\", "              \
    "\"options\": \"batch=1\", \"events_dropped\": 3, \"rails\": [{\"name\": \"r0\", "             \
    "\"provider\": \"efa\", \"speed_bits_per_second\": 100, \"group\": 1, "                        \
    "\"traits\": {\"plane\": \"a\"}}]}]"
#define ENGINE                                                                                     \
    "{\"engine\": \"e-1\", \"model\": \"m\", \"tp\": 1, \"tp_size\": 2, \"pp\": 0, \"pp_size\": "  \
    "1, "                                                                                          \
    "\"geometry\": \"bfloat16 32 0:32:16:65536 2:1:0:100\"}"
#define TRANSFER(id, state, more)                                                                  \
    "{\"id\": \"" id "\", \"request\": \"ask\", \"state\": \"" state                               \
    "\", \"tokens\": 5, \"bytes\": 9, \"opened_us\": 1000700, \"source\": {\"agent\": \"p\", "     \
    "\"engine\": \"e-1\", \"tp\": 1, \"pp\": 0, \"path\": \"host\"}, \"target\": {\"agent\": "     \
    "\"gone\", \"engine\": \"e-2\", \"tp\": 0, \"pp\": 0}" more "}"

static void page_tables_become_runs(void **state)
{
    const char *text;

    (void)state;
    take(trace_record_agents, AGENTS);
    take(trace_record_transfer,
         TRANSFER("00000000000000ab", "done",
                  ", \"pages\": {\"source\": [{\"group\": 0, \"runs\": [[5, 2], [1, 1]]}, "
                  "{\"group\": 3, \"runs\": [[9, 1]]}], \"target\": [{\"group\": 0, \"runs\": "
                  "[[7, 3], [1], [8]]}]}"));
    text = written();
    holds(text, "\"pages\":[{\"runs\":[[5,2],[1,1]]},{\"group\":3,\"runs\":[[9,1]]}]");
    holds(text, "\"pages\":[{\"runs\":[[7,3]]}]");
}

/* The trace begins at 1 s. What began before has the part that is in it. */
static void faults_become_records(void **state)
{
    const char *text;

    (void)state;
    take(trace_record_agents, AGENTS);
    take(trace_record_fault,
         "{\"at\": \"1970-01-01T00:00:01.250Z\", \"until\": null, \"kind\": \"rail_slow\", "
         "\"agent\": \"p\", \"rail\": 0, \"peer\": \"d\", \"amount\": 2, \"text\": \"why\"}");
    take(trace_record_fault,
         "{\"at\": \"1970-01-01T00:00:00.250Z\", \"until\": \"1970-01-01T00:00:03.000Z\", "
         "\"kind\": \"agent_silent\", \"agent\": \"unknown\", \"rail\": 7, \"peer\": null, "
         "\"amount\": 0, \"text\": null}");
    text = written();
    holds(text, "{\"fault\":{\"at_us\":250000,\"agent\":0,\"rail\":0,\"kind\":\"rail_slow\","
                "\"amount\":2,\"text\":\"why\"}}");
    holds(text, "{\"fault\":{\"at_us\":0,\"for_us\":2000000,\"kind\":\"agent_silent\"}}");
}

static void answers_become_records(void **state)
{
    const char *text;

    (void)state;
    take(trace_record_agents, AGENTS);
    take_engine("p", ENGINE);
    take_engine("p", ENGINE); /* once */
    take_engine("unknown", ENGINE);
    take(trace_record_transfer,
         TRANSFER("00000000000000aa", "done",
                  ", \"stages\": [{\"stage\": \"opened\", \"role\": \"target\", \"seconds\": 0.0}, "
                  "{\"stage\": \"ended\", \"role\": \"target\", \"seconds\": 0.0123}], \"spans\": "
                  "{\"source\": {\"layer_first\": 2, \"layers_us\": [[-7, 5], [8, -1], [1]], "
                  "\"rails\": [[0, 1, 2, 3], [9, 1, 1, 1]]}}"));
    take(trace_record_mark, "{\"at\": \"1970-01-01T00:00:01.250Z\", \"agent\": \"p\", \"kind\": "
                            "\"option\", \"before\": \"a\", \"after\": \"b\"}");
    assert_int_equal(trace_recorder_transfers(recorder), 1);
    text = written();
    holds(text, "{\"agent\":{\"number\":0,\"name\":\"p\",\"role\":\"source\",\"host\":\"h\","
                "\"version\":\"1\",\"options\":\"batch=1\",\"rails\":[{\"name\":\"r0\","
                "\"provider\":\"efa\",\"plane\":\"a\",\"speed_bps\":100,\"group\":1}]}}");
    holds(text, "{\"geometry\":{\"number\":0,\"model\":\"m\",\"dtype\":\"bfloat16\",\"layers\":32,"
                "\"groups\":[{\"layers\":32,\"page_tokens\":16,\"page_bytes\":65536},{},"
                "{\"kind\":\"state\",\"layers\":1,\"page_bytes\":100}]}}");
    holds(text, "{\"engine\":{\"number\":0,\"agent\":0,\"name\":\"e-1\",\"geometry\":0,\"tp\":1,"
                "\"tp_size\":2,\"pp_size\":1}}");
    holds(text, "{\"dropped\":{\"agent\":0,\"count\":3");
    /* The scheduler does not know the target any more. */
    holds(text, "{\"agent\":{\"number\":1,\"name\":\"gone\",\"role\":\"target\"}}");
    holds(text, "{\"engine\":{\"number\":1,\"agent\":1,\"name\":\"e-2\"}}");
    holds(text,
          "\"at_us\":700,\"tokens\":5,\"bytes\":9,\"outcome\":\"done\",\"source\":{\"agent\":0,"
          "\"engine\":0,\"path\":\"host\",\"layer_first\":2,\"layers_us\":[[-7,5],[8,-1]],"
          "\"rails\":[[0,1,2,3]]},\"target\":{\"agent\":1,\"engine\":1,\"stages_us\":"
          "{\"opened\":0,\"ended\":12300}}}}");
    holds(text, "{\"mark\":{\"at_us\":250000,\"agent\":0,\"kind\":\"option\",\"before\":\"a\","
                "\"after\":\"b\"}}");
    assert_null(strstr(text, "\"ask\""));
}

static void a_live_transfer_is_written_once(void **state)
{
    (void)state;
    take(trace_record_agents, AGENTS);
    take(trace_record_transfer, TRANSFER("00000000000000aa", "granted", ""));
    take(trace_record_transfer, TRANSFER("00000000000000bb", "done", ""));
    take(trace_record_transfer, TRANSFER("00000000000000aa", "done", ""));
    assert_int_equal(trace_recorder_transfers(recorder), 2);
    holds(written(), "\"outcome\":\"live\"");
}

static void odd_answers_do_no_harm(void **state)
{
    static const char long_name[] =
        "{\"id\": \"00000000000000cc\", \"state\": \"done\", \"detail\": \"%s\"}";
    char text[2000], detail[800] = "";

    (void)state;
    for (int i = 0; i < 380; i++)
        strcat(detail, "é");
    snprintf(text, sizeof(text), long_name, detail);
    take(trace_record_transfer, text); /* cut between two characters */
    take(trace_record_transfer, "{}");
    take(trace_record_transfer, "{\"state\": 7, \"stages\": {}, \"spans\": [], \"source\": 3}");
    take(trace_record_agents, "[{}, 5, {\"rails\": 7}]");
    take_engine("", "{}");
    take_engine("", "{\"engine\": 3, \"tp\": \"x\", \"geometry\": []}");
    take_engine("", "[]");
    take(trace_record_mark, "{\"at\": \"yesterday\"}");
    (void)written();
}

/* prefill-agent/consumer.c says sentences as this one. */
static void a_detail_does_not_show_the_request(void **state)
{
    (void)state;
    take(trace_record_agents, AGENTS);
    take(trace_record_transfer,
         TRANSFER("00000000000000aa", "failed",
                  ", \"reason\": \"exists\", \"detail\": \"this target rank is fetching request "
                  "\\\"ask\\\" already\""));
    if (strstr(written(), "ask\\\"") != NULL)
        fail_msg("the request's id is there in plain");
}

/* A newer scheduler may have a reason that this program does not know. */
static void an_unknown_reason_does_not_end_the_recording(void **state)
{
    (void)state;
    take(trace_record_agents, AGENTS);
    take(trace_record_transfer,
         TRANSFER("00000000000000aa", "failed", ", \"reason\": \"of_tomorrow\""));
    (void)written();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_become_records, begin, end),
        cmocka_unit_test_setup_teardown(page_tables_become_runs, begin, end),
        cmocka_unit_test_setup_teardown(faults_become_records, begin, end),
        cmocka_unit_test_setup_teardown(a_live_transfer_is_written_once, begin, end),
        cmocka_unit_test_setup_teardown(odd_answers_do_no_harm, begin, end),
        cmocka_unit_test_setup_teardown(a_detail_does_not_show_the_request, begin, end),
        cmocka_unit_test_setup_teardown(an_unknown_reason_does_not_end_the_recording, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
