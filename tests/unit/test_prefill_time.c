/* Goal: the model of prefill and of transfers gives fabric-lib's published times of Qwen3-235B on
 * four H200 with two cards of 200 Gb/s each (arXiv 2510.27656, table 3; chunks of 16,384 tokens,
 * pages of 16). Method: the six rows of the table; the transfers come out of whole runs. */
#include "tests/support/check.h"

#include "tools/virtual/virtual_run.h"

#define CHUNK  16384u
#define LAYERS 94u

static const struct row {
    uint32_t tokens;
    double prefill_ms, layer_ms, transfer_ms; /* layer: of the last chunk */
} table[] = {
    {4096, 214, 2.267, 0.661},    {8192, 433, 4.578, 0.952},    {16384, 929, 9.860, 1.610},
    {32768, 2179, 13.295, 1.606}, {65536, 5681, 20.344, 1.611}, {131072, 16735, 34.895, 1.609},
};
#define ROWS (sizeof(table) / sizeof(table[0]))

/* The task's bound; the fit itself is closer. */
static void assert_within_percent(double value, double published, double percent, const char *what,
                                  uint32_t tokens)
{
    double off = 100 * (value / published - 1);

    print_message("%6u tokens, %-8s %9.3f ms, published %9.3f: %+.1f %%\n", tokens, what, value,
                  published, off);
    assert_true(off <= percent && off >= -percent);
}

static void computation_is_as_published(void **state)
{
    const struct prefill_time *time = prefill_time_find("qwen3-235b-a22b");

    (void)state;
    assert_non_null(time);
    for (size_t i = 0; i < ROWS; i++) {
        uint32_t size = table[i].tokens < CHUNK ? table[i].tokens : CHUNK;
        kvr_ns sum = 0, last = 0;

        for (uint32_t first = 0; first < table[i].tokens; first += size) {
            last = prefill_layer_ns(time, 4, size, first);
            sum += last * LAYERS;
        }
        assert_within_percent((double)last / 1e6, table[i].layer_ms, 10, "layer", table[i].tokens);
        assert_within_percent((double)sum / 1e6, table[i].prefill_ms, 10, "prefill",
                              table[i].tokens);
    }
}

static void config_init(struct virtual_config *config)
{
    struct kvr_error error = {0};

    *config = (struct virtual_config){
        .fleet = {1, 1, 16, UINT64_C(200000000000)},
        .costs = *rail_costs_find("fabric-lib"),
        .prefill = prefill_time_find("qwen3-235b-a22b"),
        .tp = 4,
        .page_tokens = 16,
        .chunk_tokens = CHUNK,
        .pool_bytes = UINT64_C(32) << 30,
        .order = PAGES_SHUFFLED,
        .seed = 1,
        .speed_permille = 1000,
        .step_ns = KVR_MS,
        .batch = 8,
        .fused = true,
    };
    assert_int_equal(model_scale(model_find("qwen3-235b-a22b"), 0, 0, &error, &config->geometry),
                     KVR_OK);
}

static void transfers_are_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct virtual_figures figures;
        struct virtual_config config;
        struct kvr_error error = {0};
        struct kvr_trace trace;

        config_init(&config);
        kvr_trace_init(&trace);
        assert_int_equal(kvr_trace_add(&trace, 0, table[i].tokens, 1, NULL, 0, &error), KVR_OK);
        assert_int_equal(virtual_run(&config, &trace, NULL, &figures, &error), KVR_OK);
        assert_int_equal(figures.layers.count, LAYERS * ((table[i].tokens + CHUNK - 1) / CHUNK));
        assert_int_equal(figures.writes, (uint64_t)table[i].tokens / 16 * LAYERS * 4);
        assert_within_percent(kvr_histogram_mean(&figures.layers) / 1e6, table[i].transfer_ms, 10,
                              "transfer", table[i].tokens);
        virtual_figures_done(&figures);
        kvr_trace_done(&trace);
    }
}

/* Twice the GPUs, half the time; a longer prefix or prompt takes longer. */
static void more_work_takes_longer(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "qwen3-235b-a22b",
                                             "deepseek-v3"};
        const struct prefill_time *time = prefill_time_find(models[i]);

        assert_non_null(time);
        assert_int_equal(prefill_layer_ns(time, 4, 512, 0) / 2, prefill_layer_ns(time, 8, 512, 0));
        assert_true(prefill_layer_ns(time, 4, 1024, 0) > prefill_layer_ns(time, 4, 512, 0));
        assert_true(prefill_layer_ns(time, 4, 512, 65536) > prefill_layer_ns(time, 4, 512, 0));
        /* 16 Mi tokens behind 16 Mi: nothing overflows. */
        assert_true(prefill_layer_ns(time, 1, 1u << 24, 1u << 24) >
                    prefill_layer_ns(time, 1, 1u << 23, 1u << 24));
    }
    assert_null(prefill_time_find("gpt-oss-120b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computation_is_as_published),
        cmocka_unit_test(transfers_are_as_published),
        cmocka_unit_test(more_work_takes_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
