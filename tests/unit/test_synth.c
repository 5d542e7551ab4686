/* Goal: a synthesised trace is the same for the same seed, survives writing and reading, and has
 * the statistics that synth.h promises. */
#include "tests/support/check.h"

#include <unistd.h>

#include "trace/synth.h"

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

static void make(struct kvr_trace *trace, uint64_t seed, uint32_t count)
{
    kvr_trace_init(trace);
    assert_int_equal(kvr_trace_synth(seed, count, trace, NULL), KVR_OK);
    assert_int_equal(trace->request_count, count);
}

static void synth_repeats_itself(void **state)
{
    struct kvr_trace a, b, c;

    (void)state;
    make(&a, 7, 300);
    make(&b, 7, 300);
    make(&c, 8, 300);
    assert_memory_equal(a.requests, b.requests, 300 * sizeof(a.requests[0]));
    assert_int_equal(a.block_count, b.block_count);
    assert_memory_equal(a.blocks, b.blocks, a.block_count * sizeof(a.blocks[0]));
    assert_memory_not_equal(a.requests, c.requests, 300 * sizeof(a.requests[0]));
    kvr_trace_done(&a);
    kvr_trace_done(&b);
    kvr_trace_done(&c);
}

static void synth_is_read_back(void **state)
{
    struct kvr_trace made, read;
    char path[] = "/tmp/kvrail-synth-XXXXXX.zst";
    int descriptor = mkstemps(path, 4);

    (void)state;
    make(&made, 1, 200);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(kvr_trace_write(&made, path, NULL), KVR_OK);
    kvr_trace_init(&read);
    assert_int_equal(kvr_trace_read(path, KVR_TRACE_MOONCAKE, 0, NULL, &read, NULL), KVR_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read.request_count, 200);
    assert_memory_equal(made.requests, read.requests, 200 * sizeof(made.requests[0]));
    assert_memory_equal(made.blocks, read.blocks, made.block_count * sizeof(made.blocks[0]));
    kvr_trace_done(&made);
    kvr_trace_done(&read);
}

static void synth_looks_like_the_published_trace(void **state)
{
    static uint32_t inputs[12000];
    static bool seen[1 << 20];
    uint32_t seen_before = 0;
    struct kvr_trace trace;
    double seconds, percent;

    (void)state;
    make(&trace, 42, 12000);
    for (uint32_t i = 0; i < trace.request_count; i++)
        inputs[i] = trace.requests[i].input_tokens;
    for (uint32_t i = 0; i < trace.block_count; i++) {
        assert_true(trace.blocks[i] < sizeof(seen));
        seen_before += seen[trace.blocks[i]];
        seen[trace.blocks[i]] = true;
    }
    qsort(inputs, 12000, sizeof(inputs[0]), by_value);
    seconds = (double)trace.requests[11999].at / (double)KVR_S;
    percent = 100.0 * seen_before / trace.block_count;
    print_message("input p50 %u, p90 %u, max %u; %.1f %% of blocks seen before; %.0f s\n",
                  inputs[6000], inputs[10800], inputs[11999], percent, seconds);
    assert_in_range(inputs[6000], 6500, 7300);
    assert_in_range(inputs[10800], 25000, 30000);
    assert_in_range(inputs[11999], 80000, KVR_SYNTH_INPUT_TOKENS_MAX);
    assert_in_range((uint32_t)percent, 31, 42);
    assert_in_range((uint32_t)seconds, 3100, 4000);
    kvr_trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synth_repeats_itself),
        cmocka_unit_test(synth_is_read_back),
        cmocka_unit_test(synth_looks_like_the_published_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
