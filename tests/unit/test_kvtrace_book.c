/* Goal: records that do not fit each other are named; the requests of a trace are those that it
 * records, else those that its transfers name. Method: lines by heart, each with one thing wrong.
 */
#include "tests/support/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

#include "trace/kvtrace_book.h"
#include "trace/kvtrace_scan.h"
#include "trace/trace_file.h"

static struct kvtrace_record record;
static int64_t numbers[1000];
static char sentence[KVR_DETAIL_BYTES];

static kvr_status take(struct kvtrace_book *book, const char *line)
{
    struct kvtrace_scan scan = {.at = line, .end = line + strlen(line), .numbers = numbers};
    struct kvr_error error = {0};
    kvr_status status;

    if (kvtrace_scan_line(&scan, &record) != KVTRACE_SCANNED)
        fail_msg("%s: %s", line, scan.problem);
    status = kvtrace_book_take(book, &record, &error);
    memcpy(sentence, error.detail, sizeof(sentence));
    return status;
}

static void misfits_are_named(void **state)
{
    static const struct {
        const char *line, *sentence;
    } wrong[] = {
        {"{\"kvtrace\":{\"version\":1}}", "a second header"},
        {"{\"agent\":{\"number\":3}}", "agent has number 3, but the next one is 2"},
        {"{\"geometry\":{\"number\":1,\"layers\":300}}", "300 layers: 0 to 256"},
        {"{\"geometry\":{\"number\":1,\"groups\":[{\"page_bytes\":-1}]}}",
         "KV group 0 is negative"},
        {"{\"engine\":{\"number\":1,\"agent\":2}}", "agent 2 was not defined"},
        {"{\"engine\":{\"number\":1,\"geometry\":5}}", "geometry 5 was not defined"},
        {"{\"request\":{\"input_tokens\":-1}}", "-1 input tokens"},
        {"{\"request\":{\"source\":1}}", "agent 1 is no prefill-agent"},
        {"{\"request\":{\"target\":0}}", "agent 0 is no decode-agent"},
        {"{\"transfer\":{\"source\":{\"agent\":7}}}", "agent 7 was not defined"},
        {"{\"transfer\":{\"source\":{\"agent\":-2}}}", "agent -2 was not defined"},
        {"{\"transfer\":{\"source\":{\"engine\":4}}}", "engine 4 was not defined"},
        {"{\"transfer\":{\"target\":{\"agent\":0}}}", "agent 0 is no decode-agent"},
        {"{\"transfer\":{\"source\":{\"agent\":0,\"rails\":[[2,1,1,1]]}}}",
         "agent 0 has no rail 2"},
        {"{\"transfer\":{\"source\":{\"agent\":0,\"rails\":[[1,1,-1,1]]}}}", "rail 1 is negative"},
        {"{\"transfer\":{\"source\":{\"pages\":[{\"group\":32}]}}}", "no KV group 32"},
        {"{\"transfer\":{\"source\":{\"pages\":[{\"runs\":[[5,0]]}]}}}", "a run of 0 pages"},
        {"{\"transfer\":{\"source\":{\"layer_first\":256,\"layers_us\":[[1,2]]}}}", "at most 256"},
        {"{\"transfer\":{\"tokens\":5,\"skip_tokens\":6}}", "skip_tokens is 6, of 5 tokens"},
        {"{\"transfer\":{\"bytes\":-5}}", "bytes is -5"},
        {"{\"transfer\":{\"reason\":\"weather\"}}", "'weather' is no status"},
        {"{\"fault\":{\"agent\":0,\"rail\":2}}", "agent 0 has no rail 2"},
        {"{\"fault\":{\"rail\":0}}", "agent -1 has no rail 0"},
        {"{\"mark\":{\"agent\":9}}", "agent 9 was not defined"},
        {"{\"request\":{\"blocks\":[3,-4]}}", "block -4 is negative"},
        {"{\"transfer\":{\"at_us\":9223372036854775807}}", "at_us is 9223372036854775807"},
        {"{\"transfer\":{\"source\":{\"stages_us\":{\"opened\":-9223372036854775807}}}}",
         "stages_us is"},
        {"{\"transfer\":{\"cancelled_us\":9007199254740993}}", "cancelled_us is 9007199254740993"},
        {"{\"transfer\":{\"source\":{\"layers_us\":[[0,9007199254740993]]}}}", "layers_us is 9007"},
        {"{\"transfer\":{\"target\":{\"layers_us\":[[-9007199254740993,0]]}}}",
         "layers_us is -9007"},
        {"{\"fault\":{\"for_us\":9223372036854775807}}", "for_us is 9223372036854775807"},
        {"{\"dropped\":{\"count\":9223372036854775807}}", "records were dropped"},
        {"{\"dropped\":{\"count\":-1}}", "-1 records were dropped"},
    };
    struct kvtrace_book book = {0};

    (void)state;
    assert_int_equal(
        take(&book, "{\"agent\":{\"number\":0,\"role\":\"source\",\"rails\":[{},{}]}}"), KVR_OK);
    assert_int_equal(take(&book, "{\"agent\":{\"number\":1,\"role\":\"target\"}}"), KVR_OK);
    assert_int_equal(take(&book, "{\"geometry\":{\"number\":0,\"layers\":2}}"), KVR_OK);
    assert_int_equal(take(&book, "{\"engine\":{\"number\":0,\"agent\":0,\"geometry\":0}}"), KVR_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(take(&book, wrong[i].line), KVR_INVALID);
        if (strstr(sentence, wrong[i].sentence) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i].line, sentence, wrong[i].sentence);
    }
    assert_int_equal(
        take(&book, "{\"transfer\":{\"tokens\":5,\"source\":{\"agent\":0,\"engine\":0,\"rails\":"
                    "[[1,2,3,0]],\"pages\":[{\"runs\":[[5,3]]}]},\"target\":{\"agent\":1}}}"),
        KVR_OK);
    assert_int_equal(book.agent_count, 2);
    assert_int_equal(book.engine_count, 1);
    kvtrace_book_close(&book);
}

static char path[64];

static kvr_status requests_of(const char *text, uint32_t limit, struct kvr_trace *trace)
{
    struct kvr_error error = {0};
    kvr_status status;
    int descriptor;

    snprintf(path, sizeof(path), "/tmp/kvrail-book-XXXXXX");
    descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), strlen(text));
    close(descriptor);
    kvr_trace_init(trace);
    status = kvtrace_requests_quietly(path, limit, trace, &error);
    memcpy(sentence, error.detail, sizeof(sentence));
    unlink(path);
    return status;
}

#define HEAD "{\"kvtrace\":{\"version\":1}}\n"

static void requests_are_read(void **state)
{
    struct kvr_trace trace;

    (void)state;
    assert_int_equal(
        requests_of(HEAD "{\"transfer\":{\"request\":\"z\",\"at_us\":1,\"tokens\":9}}\n"
                         "{\"request\":{\"at_us\":7000,\"input_tokens\":700,\"blocks\":[4,5]}}\n"
                         "{\"request\":{\"at_us\":5000,\"input_tokens\":1,\"output_tokens\":3}}\n",
                    0, &trace),
        KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.requests[0].at, 0);
    assert_int_equal(trace.requests[0].output_tokens, 3);
    assert_int_equal(trace.requests[1].at, 2 * KVR_MS);
    assert_int_equal(kvr_trace_blocks(&trace, &trace.requests[1])[1], 5);
    kvr_trace_done(&trace);
}

static void transfers_name_requests(void **state)
{
    struct kvr_trace trace;

    (void)state;
    assert_int_equal(
        requests_of(HEAD "{\"transfer\":{\"request\":\"b\",\"at_us\":9000,\"tokens\":600}}\n"
                         "{\"transfer\":{\"request\":\"a\",\"at_us\":5000,\"tokens\":20}}\n"
                         "{\"transfer\":{\"request\":\"b\",\"at_us\":9001,\"tokens\":600}}\n",
                    0, &trace),
        KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.requests[0].input_tokens, 20);
    assert_int_equal(trace.requests[1].at, 4 * KVR_MS);
    assert_int_equal(trace.requests[1].block_count, 2);
    kvr_trace_done(&trace);
}

static void wrong_requests_are_named(void **state)
{
    struct kvr_trace trace;

    (void)state;
    assert_int_equal(requests_of(HEAD, 0, &trace), KVR_MALFORMED);
    assert_non_null(strstr(sentence, "holds no request"));
    kvr_trace_done(&trace);
    assert_int_equal(
        requests_of(HEAD "{\"request\":{\"input_tokens\":700,\"blocks\":[4]}}\n", 0, &trace),
        KVR_MALFORMED);
    assert_non_null(strstr(sentence, "line 2: 1 block ids for 700 tokens"));
    kvr_trace_done(&trace);
    assert_int_equal(
        requests_of(HEAD "{\"request\":{\"input_tokens\":7,\"blocks\":[-4]}}\n", 0, &trace),
        KVR_INVALID);
    assert_non_null(strstr(sentence, "line 2: block -4 is negative"));
    kvr_trace_done(&trace);
}

static void a_cut_is_noted(void **state)
{
    static const char lines[] = HEAD "{\"request\":{\"at_us\":1,\"input_tokens\":1}}\n"
                                     "{\"request\":{\"at_us\":2,\"input_tokens\":1}}\n";
    static const char transfers[] =
        HEAD "{\"transfer\":{\"request\":\"b\",\"at_us\":9,\"tokens\":600}}\n{\"trans";
    struct kvr_trace trace;
    char whole[400];

    (void)state;
    assert_int_equal(requests_of(lines, 0, &trace), KVR_OK);
    assert_non_null(strstr(trace.problem, "it has no footer: it was cut behind line 3"));
    kvr_trace_done(&trace);
    assert_int_equal(requests_of(lines, 3, &trace), KVR_OK);
    assert_non_null(strstr(trace.problem, "it was cut behind line 3"));
    kvr_trace_done(&trace);
    assert_int_equal(requests_of(lines, 2, &trace), KVR_OK); /* as many as were asked for */
    assert_string_equal(trace.problem, "");
    kvr_trace_done(&trace);
    assert_int_equal(requests_of(transfers, 0, &trace), KVR_OK);
    assert_non_null(strstr(trace.problem, "cut behind line 2, within the next"));
    kvr_trace_done(&trace);
    snprintf(whole, sizeof(whole),
             "%s{\"end\":{\"lines\":3,\"requests\":2,\"digest\":\"%016" PRIx64 "\"}}\n", lines,
             (uint64_t)XXH3_64bits(lines, strlen(lines)));
    assert_int_equal(requests_of(whole, 0, &trace), KVR_OK);
    assert_string_equal(trace.problem, "");
    kvr_trace_done(&trace);
}

static void times_beyond_all_bounds_are_named(void **state)
{
    struct kvr_trace trace;

    (void)state;
    assert_int_equal(requests_of(HEAD
                                 "{\"request\":{\"at_us\":-1,\"input_tokens\":1}}\n"
                                 "{\"request\":{\"at_us\":9007199254740992,\"input_tokens\":1}}\n",
                                 0, &trace),
                     KVR_MALFORMED);
    assert_non_null(strstr(sentence, "comes 9007199254740993 us after the first"));
    kvr_trace_done(&trace);
    assert_int_equal(requests_of(HEAD
                                 "{\"request\":{\"at_us\":0,\"input_tokens\":1}}\n"
                                 "{\"request\":{\"at_us\":9007199254740992,\"input_tokens\":1}}\n",
                                 0, &trace),
                     KVR_OK);
    assert_true(trace.requests[1].at == (kvr_ns)9007199254740992 * KVR_US);
    kvr_trace_done(&trace);
    assert_int_equal(
        requests_of("{\"kvtrace\":{\"version\":1,\"start_us\":9007199254740993}}\n", 0, &trace),
        KVR_MALFORMED);
    assert_non_null(strstr(sentence, "starts at 9007199254740993 us since 1970"));
    kvr_trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_named),
        cmocka_unit_test(requests_are_read),
        cmocka_unit_test(transfers_name_requests),
        cmocka_unit_test(wrong_requests_are_named),
        cmocka_unit_test(a_cut_is_noted),
        cmocka_unit_test(times_beyond_all_bounds_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
