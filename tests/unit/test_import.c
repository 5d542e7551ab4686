/* Goal: request traces are read as their formats define, and an error names its line number and the
 * member or column. Method: small files in memory. */
#include "tests/support/check.h"

#include <stdio.h>

#include "trace/trace_file.h"

static struct kvr_trace trace;
static struct kvr_error error;

static kvr_status read_limited(kvr_trace_format format, const char *text, size_t bytes,
                               uint32_t limit)
{
    kvr_trace_done(&trace);
    memset(&error, 0, sizeof(error));
    return kvr_trace_read_bytes(text, bytes, "t", format, limit, NULL, &trace, &error);
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
    assert_int_equal(kvr_trace_read("/nowhere/x", KVR_TRACE_AZURE, 0, NULL, &trace, &error),
                     KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "/nowhere/x"));
}

static void formats_have_names(void **state)
{
    const char *rest = KVR_TRACE_FORMATS;
    kvr_trace_format format;

    (void)state;
    for (int i = 0; i < KVR_TRACE_FORMAT_END; i++) {
        size_t used = strcspn(rest, "|");
        char name[32];

        snprintf(name, sizeof(name), "%.*s", (int)used, rest);
        assert_int_equal(kvr_trace_format_from_name(name, &format), KVR_OK);
        assert_int_equal(format, i);
        rest += used;
        rest += *rest == '|';
    }
    assert_int_equal(*rest, '\0');
    assert_int_equal(kvr_trace_format_from_name("other", &format), KVR_NOT_FOUND);
}

/* A directory can be opened, and not read. */
static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    assert_int_equal(kvr_trace_read("/tmp", KVR_TRACE_AZURE, 0, NULL, &trace, &error), KVR_SYSTEM);
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

/* Ranks of one request share its blocks and its time. */
static void requests_of_one_moment_stay_in_order(void **state)
{
    (void)state;
    assert_int_equal(read_text(KVR_TRACE_MOONCAKE, GOOD GOOD GOOD GOOD), KVR_OK);
    for (uint32_t i = 0; i < 4; i++) {
        trace.requests[i].number = 3 - i;
        trace.requests[i].block_first = 0;
    }
    kvr_trace_sort(&trace);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(trace.requests[i].number, i);
}

static int forget_trace(void **state)
{
    (void)state;
    kvr_trace_done(&trace);
    return 0;
}

/* 600 tokens: 38 blocks of 16, the last one partial; `last` is the id of block 31. */
static const char *bailian_line(char *line, size_t room, const char *time, int last)
{
    size_t used = (size_t)snprintf(line, room,
                                   "{\"chat_id\": 1, \"timestamp\": %s, \"input_length\": 600, "
                                   "\"output_length\": 5, \"hash_ids\": [",
                                   time);

    for (int i = 0; i < 38; i++)
        used += (size_t)snprintf(line + used, room - used, "%s%d", i > 0 ? ", " : "",
                                 i == 31 ? last : i);
    snprintf(line + used, room - used, "]}\n");
    return line;
}

static void bailian_joins_blocks(void **state)
{
    char text[2000], one[600];
    const uint64_t *blocks[3];

    (void)state;
    snprintf(text, sizeof(text), "%s", bailian_line(one, sizeof(one), "1.5", 31));
    strcat(text, bailian_line(one, sizeof(one), "2", 31));
    strcat(text, bailian_line(one, sizeof(one), "3.25", 777));
    assert_int_equal(read_text(KVR_TRACE_BAILIAN, text), KVR_OK);
    assert_int_equal(trace.request_count, 3);
    assert_int_equal(trace.requests[2].at, 1750 * KVR_MS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trace.requests[i].block_count, 2);
        blocks[i] = kvr_trace_blocks(&trace, &trace.requests[i]);
        assert_int_equal(blocks[i][0] & KVR_TRACE_BLOCK_OWN, 0);
    }
    assert_true(blocks[0][0] == blocks[1][0] && blocks[0][1] == blocks[1][1]);
    /* Another prefix makes other blocks, also behind it. */
    assert_true(blocks[0][0] != blocks[2][0] && blocks[0][1] != blocks[2][1]);
    refused(KVR_TRACE_BAILIAN, "{\"timestamp\": 1, \"input_length\": 33, \"hash_ids\": [1, 2]}",
            "2 hash_ids for 33 tokens, which are 3 blocks of 16");
    refused(KVR_TRACE_BAILIAN, "{\"timestamp\": 1e11, \"input_length\": 3}", "10^10 seconds");
}

static char said[3][KVR_DETAIL_BYTES];

static void keep_sentence(void *self, const char *sentence)
{
    uint64_t *count = self;

    assert_true(*count < 3);
    snprintf(said[(*count)++], sizeof(said[0]), "%s", sentence);
}

static kvr_status read_leniently(kvr_trace_format format, const char *text,
                                 struct kvr_trace_wrong *wrong)
{
    kvr_trace_done(&trace);
    return kvr_trace_read_bytes(text, strlen(text), "t", format, 0, wrong, &trace, &error);
}

static void wrong_lines_are_named_and_left_out(void **state)
{
    uint64_t count = 0;
    struct kvr_trace_wrong wrong = {.say = keep_sentence, .self = &count};

    (void)state;
    assert_int_equal(
        read_leniently(KVR_TRACE_MOONCAKE, GOOD "x\n" GOOD "{\"timestamp\": 5}\n", &wrong), KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(wrong.count, 2);
    assert_non_null(strstr(said[0], "t, line 2: no JSON"));
    assert_non_null(strstr(said[1], "t, line 4: input_length is missing"));
    /* Without its header nothing of a CSV can be read. */
    assert_int_equal(read_leniently(KVR_TRACE_AZURE, "a,b\n1,2\n", &wrong), KVR_MALFORMED);
    assert_int_equal(wrong.count, 2);
}

/* ---- files of vLLM and SGLang ---------------------------------------------------------------- */

#define RUN(rate, inputs, more)                                                                    \
    "{\"backend\": \"x\", \"duration\": 10.5, \"request_rate\": " rate ", \"input_lens\": " inputs \
    ", \"ttfts\": [NaN, -Infinity], \"generated_texts\": [\"NaN \\\" Infinity\", "                 \
    "\"\\u0000\"]" more "}\n"

static void runs_have_their_start_times(void **state)
{
    (void)state;
    assert_int_equal(
        read_text(KVR_TRACE_VLLM_BENCH, RUN("\"inf\"", "[700, 0, 9, 5]",
                                            ", \"output_lens\": [7, 0, 8, 0], \"start_times\": "
                                            "[2000.5, 2000.6, 2000.25, 0.0]")),
        KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.skipped_count, 2); /* without tokens, and never sent */
    assert_int_equal(trace.requests[0].input_tokens, 9);
    assert_int_equal(trace.requests[0].output_tokens, 8);
    assert_int_equal(trace.requests[1].at, 250 * KVR_MS);
    assert_int_equal(trace.requests[1].block_count, 2);
    assert_true(kvr_trace_blocks(&trace, &trace.requests[1])[0] & KVR_TRACE_BLOCK_OWN);
}

static void runs_without_start_times_follow_their_rate(void **state)
{
    (void)state;
    assert_int_equal(read_text(KVR_TRACE_SGLANG_BENCH,
                               RUN("4.0", "[1, 2, 3]", "")
                                   RUN("Infinity", "[4, 5]", ", \"output_lens\": [1, 1]")),
                     KVR_OK);
    assert_int_equal(trace.request_count, 5);
    assert_int_equal(trace.requests[2].at, 500 * KVR_MS);
    /* The second run begins when the first has ended, and all of it at once. */
    assert_int_equal(trace.requests[3].at, 10500 * KVR_MS);
    assert_int_equal(trace.requests[4].at, 10500 * KVR_MS);
    assert_int_equal(read_limited(KVR_TRACE_SGLANG_BENCH, RUN("4.0", "[1, 2, 3]", ""),
                                  strlen(RUN("4.0", "[1, 2, 3]", "")), 2),
                     KVR_OK);
    assert_int_equal(trace.request_count, 2);
}

static void runs_name_what_is_wrong(void **state)
{
    const kvr_trace_format format = KVR_TRACE_VLLM_BENCH;
    uint64_t count = 0;
    struct kvr_trace_wrong wrong = {.say = keep_sentence, .self = &count};

    (void)state;
    refused(format, RUN("1", "[1]", "") "{\"duration\": 1}",
            "t, line 2: input_lens is missing: the "
            "benchmark ran without --save-detailed");
    refused(format, RUN("1", "[1, 2.5]", ""), "input_lens[1] is not a whole number");
    refused(format, RUN("1", "[1, -2]", ""), "input_lens[1] is not a whole number");
    refused(format, RUN("1", "[1, 2]", ", \"output_lens\": [1]"),
            "output_lens has 1 elements, input_lens has 2");
    refused(format, RUN("1", "[1]", ", \"start_times\": [\"soon\"]"),
            "start_times[0] is not a time");
    refused(format, RUN("1", "[1]", ", \"start_times\": [1e11]"), "start_times[0] is not a time");
    refused(format, RUN("1", "[99999999]", ""), "99999999 input tokens are outside");
    refused(format, "[1]\n", "the line is not a JSON object");
    refused(format, "{\n  \"input_lens\": [1]\n}", "line 1: no JSON at column");
    /* All of a run, or nothing of it. */
    assert_int_equal(
        read_leniently(format, RUN("1", "[1, 2, 0, \"x\"]", "") RUN("1", "[3]", ""), &wrong),
        KVR_OK);
    assert_int_equal(trace.request_count, 1);
    assert_int_equal(trace.skipped_count, 0);
    assert_int_equal(trace.block_count, 1);
    assert_int_equal(trace.requests[0].input_tokens, 3);
}

static void run_of(char *text, size_t room, size_t lists)
{
    size_t used =
        (size_t)snprintf(text, room, "{\"texts\": [\",[{\"], \"input_lens\": [7], \"x\": [0");

    for (size_t i = 0; i < lists; i++, used += 3)
        memcpy(text + used, ",[]", 3);
    snprintf(text + used, room - used, "]}\n");
}

/* Values of JSON take far more memory than their text. */
static void values_of_a_run_are_bounded(void **state)
{
    const size_t lists = KVR_TRACE_RUN_VALUES_MAX / 2, room = 3 * lists + 100;
    char *text = malloc(room);

    (void)state;
    assert_non_null(text);
    run_of(text, room, lists); /* a comma and an array each, and six beside them */
    refused(KVR_TRACE_VLLM_BENCH, text, "line 1: the line has more than 4194304 values");
    run_of(text, room, lists - 4);
    assert_int_equal(read_text(KVR_TRACE_VLLM_BENCH, text), KVR_OK);
    free(text);
}

/* A run of many requests at this rate. */
static const char *rated(char *text, size_t room, const char *rate)
{
    size_t used = (size_t)snprintf(text, room, "{\"request_rate\": %s, \"input_lens\": [1", rate);

    while (used < room - 8)
        used += (size_t)snprintf(text + used, room - used, ",1");
    snprintf(text + used, room - used, "]}\n");
    return text;
}

static void runs_beyond_all_bounds_are_named(void **state)
{
    static const char long_run[] = "{\"duration\": 8000000000, \"input_lens\": [1]}\n";
    const kvr_trace_format format = KVR_TRACE_SGLANG_BENCH;
    const kvr_ns apart = 500000 * KVR_S;
    char text[40000];

    (void)state;
    snprintf(text, sizeof(text), "%s%s%s", long_run, long_run, long_run);
    assert_int_equal(read_text(format, text), KVR_OK);
    assert_int_equal(trace.request_count, 3);
    assert_true(trace.requests[1].at == 8000000000 * KVR_S);
    assert_true(trace.requests[2].at == 10000000000 * KVR_S);
    strcat(text, "{\"request_rate\": 1, \"input_lens\": [1, 1]}\n");
    refused(format, text,
            "line 4: the request of input_lens[1] comes more than 10^10 seconds after the first");
    assert_int_equal(read_text(format, rated(text, sizeof(text), "2e-6")), KVR_OK);
    assert_true(trace.requests[19000].at == 19000 * apart);
    refused(format, rated(text, sizeof(text), "1.5e-6"),
            "line 1: the request of input_lens[15001]");
}

#define FINISHED(time, info)                                                                       \
    "{\"timestamp\": \"" time                                                                      \
    "\", \"event\": \"request.finished\", \"rid\": \"r\", \"obj\": {\"text\": "                    \
    "\"secret\"}, \"out\": {\"meta_info\": " info "}}\n"

static void log_lines_are_requests(void **state)
{
    (void)state;
    assert_int_equal(
        read_text(
            KVR_TRACE_SGLANG_LOG,
            "{\"timestamp\": \"x\", \"event\": \"request.received\", \"rid\": \"r\"}\n" FINISHED(
                "2026-11-27T10:00:03.250000",
                "{\"prompt_tokens\": 600, \"completion_tokens\": 20, \"e2e_latency\": 0.25}")
                FINISHED("2026-11-27T10:00:04",
                         "{\"prompt_tokens\": 7, \"e2e_latency\": 2.5, \"spec\": NaN}")
                    FINISHED("2026-11-27T10:00:09", "{\"prompt_tokens\": 0, \"e2e_latency\": 1}")),
        KVR_OK);
    assert_int_equal(trace.request_count, 2);
    assert_int_equal(trace.skipped_count, 1);
    assert_int_equal(trace.requests[0].input_tokens, 7);
    assert_int_equal(trace.requests[1].at, 1500 * KVR_MS);
    assert_int_equal(trace.requests[1].output_tokens, 20);
}

static void log_lines_name_what_is_wrong(void **state)
{
    const kvr_trace_format format = KVR_TRACE_SGLANG_LOG;

    (void)state;
    refused(format, "[2026-11-27 10:00:00] Receive: obj=GenerateReqInput()\n",
            "t, line 1: no JSON");
    refused(format, "{\"timestamp\": 1}", "event is missing");
    refused(format, FINISHED("now", "{}"), "timestamp is no date");
    refused(format, FINISHED("2026-11-27T10:00:09", "3"), "out.meta_info is missing");
    refused(format, FINISHED("2026-11-27T10:00:09", "{}"), "e2e_latency is no time");
    refused(format, FINISHED("1970-01-01T00:00:01", "{\"e2e_latency\": 2}"),
            "e2e_latency is no time");
    refused(format, FINISHED("2026-11-27T10:00:09", "{\"e2e_latency\": 1}"),
            "out.meta_info.prompt_tokens is not a whole number");
    refused(format,
            FINISHED("2026-11-27T10:00:09",
                     "{\"e2e_latency\": 1, \"prompt_tokens\": 1, \"completion_tokens\": -1}"),
            "out.meta_info.completion_tokens is not a whole number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_have_their_start_times),
        cmocka_unit_test(runs_without_start_times_follow_their_rate),
        cmocka_unit_test(runs_name_what_is_wrong),
        cmocka_unit_test(runs_beyond_all_bounds_are_named),
        cmocka_unit_test(values_of_a_run_are_bounded),
        cmocka_unit_test(log_lines_are_requests),
        cmocka_unit_test(log_lines_name_what_is_wrong),
        cmocka_unit_test(bailian_joins_blocks),
        cmocka_unit_test(wrong_lines_are_named_and_left_out),
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
        cmocka_unit_test(requests_of_one_moment_stay_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, forget_trace);
}
