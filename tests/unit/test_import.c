/* Goal: request traces are read as their formats define, and an error names its line number and the
 * member or column. Method: small files in memory. */
#include "tests/support/check.h"

#include "trace/trace_file.h"

static struct kvr_trace trace;
static struct kvr_error error;

static kvr_status read_limited(kvr_trace_format format, const char *text, size_t bytes,
                               uint32_t limit)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, bytes, "r");
    kvr_status status;

    assert_non_null(stream);
    kvr_trace_done(&trace);
    memset(&error, 0, sizeof(error));
    status = kvr_trace_read_stream(stream, "t", format, limit, &trace, &error);
    fclose(stream);
    return status;
}

static kvr_status read_text(kvr_trace_format format, const char *text)
{
    return read_limited(format, text, strlen(text), 0);
}

static void refused(kvr_trace_format format, const char *text, const char *sentence)
{
    assert_int_equal(read_text(format, text), KVR_MALFORMED);
    if (strstr(error.detail, sentence) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.detail, sentence);
}

#define GOOD                                                                                       \
    "{\"timestamp\": 5, \"input_length\": 700, \"output_length\": 9, \"hash_ids\": [0, 7]}\n"

static void mooncake_reads_requests(void **state)
{
    (void)state;
    assert_int_equal(read_text(KVR_TRACE_MOONCAKE,
                               GOOD "\n{\"timestamp\": 3005, \"input_length\": 512, "
                                    "\"hash_ids\": [0], \"more\": {}}"),
                     KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.requests[0].at, 0);
    assert_int_equal(trace.requests[1].at, 3000 * KVR_MS);
    assert_int_equal(trace.requests[0].input_tokens, 700);
    assert_int_equal(trace.requests[0].output_tokens, 9);
    assert_int_equal(trace.requests[1].output_tokens, 0);
    assert_int_equal(trace.requests[0].block_count, 2);
    assert_int_equal(kvr_trace_blocks(&trace, &trace.requests[0])[1], 7);
    assert_int_equal(kvr_trace_blocks(&trace, &trace.requests[1])[0], 0);
}

static void mooncake_sorts_by_time_and_keeps_ties_in_order(void **state)
{
    (void)state;
    assert_int_equal(read_text(KVR_TRACE_MOONCAKE, "{\"timestamp\": 9, \"input_length\": 1}\n"
                                                   "{\"timestamp\": 4.5, \"input_length\": 2}\n"
                                                   "{\"timestamp\": 9, \"input_length\": 3}\n"),
                     KVR_OK);
    assert_int_equal(trace.requests[0].input_tokens, 2);
    assert_int_equal(trace.requests[1].input_tokens, 1);
    assert_int_equal(trace.requests[2].input_tokens, 3);
    assert_int_equal(trace.requests[2].at, 4500 * KVR_US);
}

static void mooncake_makes_ids_where_there_are_none(void **state)
{
    uint64_t first, second;

    (void)state;
    assert_int_equal(read_text(KVR_TRACE_MOONCAKE, "{\"timestamp\": 0, \"input_length\": 513}\n"
                                                   "{\"timestamp\": 0, \"input_length\": 1}\n"),
                     KVR_OK);
    first = kvr_trace_blocks(&trace, &trace.requests[0])[0];
    second = kvr_trace_blocks(&trace, &trace.requests[1])[0];
    assert_int_equal(trace.requests[0].block_count, 2);
    assert_true(first & KVR_TRACE_BLOCK_OWN);
    assert_true(first != second);
}

static void mooncake_names_line_and_member(void **state)
{
    const kvr_trace_format format = KVR_TRACE_MOONCAKE;

    (void)state;
    refused(format, GOOD GOOD "{\"timestamp\": 5, \"input_len", "t, line 3: no JSON at column");
    refused(format, GOOD "[1]\n", "line 2: the line is not a JSON object");
    refused(format, "{\"input_length\": 1}", "line 1: timestamp is missing");
    refused(format, "{\"timestamp\": -3, \"input_length\": 1}", "timestamp -3 is outside");
    refused(format, "{\"timestamp\": 1e14, \"input_length\": 1}", "timestamp 1e+14 is outside");
    refused(format, "{\"timestamp\": 1}", "input_length is missing");
    refused(format, "{\"timestamp\": 1, \"input_length\": 1.5}", "input_length is not a whole");
    refused(format, "{\"timestamp\": 1, \"input_length\": -1}", "input_length is not a whole");
    refused(format, "{\"timestamp\": 1, \"input_length\": 0}", "0 input tokens are outside 1 to");
    refused(format, "{\"timestamp\": 1, \"input_length\": 99999999}", "99999999 input tokens are");
    refused(format, "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 99999999}",
            "output tokens are more");
    refused(format, "{\"timestamp\": 1, \"input_length\": 700, \"hash_ids\": [1]}",
            "1 block ids for 700 tokens, which are 2 blocks of 512");
    refused(format, "{\"timestamp\": 1, \"input_length\": 700, \"hash_ids\": 4}", "not an array");
    refused(format, "{\"timestamp\": 1, \"input_length\": 700, \"hash_ids\": [1, \"x\"]}",
            "hash_ids[1] is not a whole number");
    refused(format, "{\"timestamp\": 1, \"timestamp\": 2, \"input_length\": 7}", "duplicate");
    refused(format, "\n \n", "t holds no request");
}

static void lines_are_bounded(void **state)
{
    size_t bytes = KVR_TRACE_LINE_BYTES_MAX + 10;
    char *text = malloc(bytes);

    (void)state;
    assert_non_null(text);
    memset(text, '7', bytes);
    assert_int_equal(read_limited(KVR_TRACE_MOONCAKE, text, bytes, 0), KVR_MALFORMED);
    assert_non_null(strstr(error.detail, "line 1: longer than"));
    free(text);
}

static void limit_stops_before_what_is_wrong(void **state)
{
    (void)state;
    assert_int_equal(read_limited(KVR_TRACE_MOONCAKE, GOOD "rubbish\n", strlen(GOOD) + 8, 1),
                     KVR_OK);
    assert_int_equal(trace.request_count, 1);
}

static void azure_reads_dates(void **state)
{
    (void)state;
    assert_int_equal(read_text(KVR_TRACE_AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                                "2023-11-16 18:17:03.9799600,4808,10\r\n"
                                                "2023-11-16 18:17:04.0319600,3180,8"),
                     KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.requests[0].input_tokens, 4808);
    assert_int_equal(trace.requests[0].block_count, 10);
    assert_int_equal(trace.requests[1].at, 52 * KVR_MS);
    assert_int_equal(trace.requests[1].output_tokens, 8);
    assert_int_equal(read_text(KVR_TRACE_AZURE, "GeneratedTokens,Other,ContextTokens,TIMESTAMP\n"
                                                "1,x,2,2024-02-29T00:00:00.5+00:00\n"),
                     KVR_OK);
    assert_int_equal(trace.requests[0].input_tokens, 2);
}

static void azure_names_line_and_column(void **state)
{
    const char *header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    const char *const lines[][2] = {
        {"2023-11-16,1,1", "t, line 2: column 1 is not a time"},
        {"2023-13-16 00:00:00,1,1", "column 1 is not a time"},
        {"2023-11-16 18:17:03.98 CET,1,1", "column 1 is not a time"},
        {"2600-01-01 00:00:00,1,1", "column 1 is not a time"},
        {"2023-11-16 18:17:03,-1,1", "column 2 is not a number of tokens"},
        {"2023-11-16 18:17:03,1,", "column 3 is not a number of tokens"},
        {"2023-11-16 18:17:03", "column 2 is not a number of tokens"},
        {"2023-11-16 18:17:03,1234567890123,1", "column 2 is not a number of tokens"},
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        snprintf(text, sizeof(text), "%s%s\n", header, lines[i][0]);
        refused(KVR_TRACE_AZURE, text, lines[i][1]);
    }
    refused(KVR_TRACE_AZURE, "TIMESTAMP,GeneratedTokens\n", "names no column \"ContextTokens\"");
}

static void burstgpt_skips_failed_requests(void **state)
{
    (void)state;
    assert_int_equal(read_text(KVR_TRACE_BURSTGPT,
                               "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log "
                               "Type\n5,ChatGPT,472,18,490,Conversation log\n"
                               "6,GPT-4,0,0,0,API log\n45.25,ChatGPT,1087,230,1317,API log\n"),
                     KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.skipped_count, 1);
    assert_int_equal(trace.requests[1].at, 40250 * KVR_MS);
    refused(KVR_TRACE_BURSTGPT, "Timestamp,Request tokens,Response tokens\nsoon,1,1\n",
            "column 1 is not a time");
}

static void missing_file_is_named(void **state)
{
    (void)state;
    kvr_trace_done(&trace);
    assert_int_equal(kvr_trace_read("/nowhere/x", KVR_TRACE_AZURE, 0, &trace, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "/nowhere/x"));
}

static void formats_have_names(void **state)
{
    kvr_trace_format format;

    (void)state;
    assert_int_equal(kvr_trace_format_from_name("mooncake", &format), KVR_OK);
    assert_int_equal(format, KVR_TRACE_MOONCAKE);
    assert_int_equal(kvr_trace_format_from_name("burstgpt", &format), KVR_OK);
    assert_int_equal(format, KVR_TRACE_BURSTGPT);
    assert_int_equal(kvr_trace_format_from_name("other", &format), KVR_NOT_FOUND);
}

/* A directory can be opened, and not read. */
static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    assert_int_equal(kvr_trace_read("/tmp", KVR_TRACE_AZURE, 0, &trace, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "tmp cannot be read"));
}

static void clip_keeps_blocks_in_step(void **state)
{
    struct kvr_trace_request *request;

    (void)state;
    assert_int_equal(read_text(KVR_TRACE_MOONCAKE, GOOD), KVR_OK);
    request = &trace.requests[0];
    assert_false(kvr_trace_clip(request, 700));
    assert_true(kvr_trace_clip(request, 512));
    assert_int_equal(request->input_tokens, 512);
    assert_int_equal(request->block_count, 1);
}

static int forget_trace(void **state)
{
    (void)state;
    kvr_trace_done(&trace);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncake_reads_requests),
        cmocka_unit_test(mooncake_sorts_by_time_and_keeps_ties_in_order),
        cmocka_unit_test(mooncake_makes_ids_where_there_are_none),
        cmocka_unit_test(mooncake_names_line_and_member),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(limit_stops_before_what_is_wrong),
        cmocka_unit_test(azure_reads_dates),
        cmocka_unit_test(azure_names_line_and_column),
        cmocka_unit_test(burstgpt_skips_failed_requests),
        cmocka_unit_test(missing_file_is_named),
        cmocka_unit_test(formats_have_names),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(clip_keeps_blocks_in_step),
    };

    return cmocka_run_group_tests(tests, NULL, forget_trace);
}
