/* `kvrail bench plan`: what it takes to plan one request, and what the plan weighs. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kv/layout_named.h"
#include "kv/plan.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_cli.h"
#include "tools/bench/bench_pool.h"
#include "tools/bench/bench_stats.h"

#define OPTIONS      struct plan_options
#define RUNS_MAX     10001
#define MEMORY_BYTES (1ull << 30)

struct plan_options {
    uint64_t tokens, layers, heads, target_heads, head_bytes, page_tokens, target_page_tokens;
    uint64_t pieces_local, pieces_remote, chunk_bytes_max, runs;
    char layout[32], target_layout[32];
    char json[JSON_OUTPUT_PATH_BYTES];
};

#define LAYOUTS                                                                                    \
    "vllm-nhd|vllm-hnd|vllm-pages-nhd|vllm-pages-hnd|vllm-cross-nhd|vllm-cross-hnd|sglang-k|"      \
    "sglang-v|mla|fused-nhd|fused-hnd|state"

static const struct kvr_option options[] = {
    {.name = "tokens",
     .section = "request",
     .fallback = "131072",
     .min = 1,
     .max = 1u << 24,
     KVR_OPTION_COUNT(OPTIONS, tokens),
     .help = "Of the one segment that is planned."},
    {.name = "layout",
     .section = "source",
     .choices = LAYOUTS,
     .fallback = "vllm-nhd",
     KVR_OPTION_CHOICE(OPTIONS, layout),
     .help = "How the source's region holds pages."},
    {.name = "page-tokens",
     .fallback = "16",
     .min = 1,
     .max = 1u << 20,
     KVR_OPTION_COUNT(OPTIONS, page_tokens),
     .help = "Tokens of one page."},
    {.name = "layers",
     .fallback = "80",
     .min = 1,
     .max = KVR_LAYERS_MAX,
     KVR_OPTION_COUNT(OPTIONS, layers),
     .help = "Of both sides."},
    {.name = "heads",
     .fallback = "8",
     .min = 1,
     .max = 1024,
     KVR_OPTION_COUNT(OPTIONS, heads),
     .help = "KV heads of one rank."},
    {.name = "head-bytes",
     .fallback = "256",
     .min = 2,
     .max = 1u << 20,
     KVR_OPTION_SIZE(OPTIONS, head_bytes),
     .help = "Of one head of one token, in K or in V; even. Of both sides."},
    {.name = "target-layout",
     .section = "target",
     .choices = LAYOUTS "|same",
     .fallback = "same",
     KVR_OPTION_CHOICE(OPTIONS, target_layout),
     .help = "How the target's region holds pages."},
    {.name = "target-page-tokens",
     .fallback = "0",
     .max = 1u << 20,
     KVR_OPTION_COUNT(OPTIONS, target_page_tokens),
     .help = "Tokens of one page; 0: as the source."},
    {.name = "target-heads",
     .fallback = "0",
     .max = 1024,
     KVR_OPTION_COUNT(OPTIONS, target_heads),
     .help = "KV heads of one rank, the first of them the source's first; 0: as the source."},
    {.name = "pieces-local",
     .section = "write",
     .fallback = "4",
     .min = 1,
     .max = KVR_IOV_MAX,
     KVR_OPTION_COUNT(OPTIONS, pieces_local),
     .help = "Runs of bytes that one write reads."},
    {.name = "pieces-remote",
     .fallback = "4",
     .min = 1,
     .max = KVR_IOV_MAX,
     KVR_OPTION_COUNT(OPTIONS, pieces_remote),
     .help = "Runs of bytes that one write fills."},
    {.name = "chunk-bytes-max",
     .fallback = "1M",
     .min = 4096,
     .max = 1ull << 40,
     KVR_OPTION_SIZE(OPTIONS, chunk_bytes_max),
     .help = "The largest write."},
    {.name = "runs",
     .section = "measurement",
     .fallback = "201",
     .min = 1,
     .max = RUNS_MAX,
     KVR_OPTION_COUNT(OPTIONS, runs),
     .help = "How often each plan is made; the figures are medians."},
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
};

static const struct kvr_command command = {
    .name = "kvrail bench plan",
    .description =
        "Plans one request, with its pages at random on both sides and with all of them\n"
        "in one row, and says what that takes. Nothing is moved.",
    KVR_OPTION_ROWS(options),
};

struct plan_bench {
    struct plan_options options;
    struct kvr_buddy memory;
    struct kvr_region_layout source, target;
    struct kvr_plan_input input;
};

struct figures {
    double us;
    uint64_t chunks, pieces, bytes, plan_bytes;
};

static void complete_options(struct plan_options *config)
{
    if (strcmp(config->target_layout, "same") == 0)
        memcpy(config->target_layout, config->layout, sizeof(config->layout));
    if (config->target_page_tokens == 0)
        config->target_page_tokens = config->page_tokens;
    if (config->target_heads == 0)
        config->target_heads = config->heads;
}

static kvr_status make_side(const struct plan_options *config, const char *layout, uint64_t heads,
                            uint64_t page_tokens, struct kvr_region_layout *ret_region,
                            struct kvr_error *error)
{
    struct kvr_layout_shape shape = {
        .layer_count = (uint32_t)config->layers,
        .head_count = (uint32_t)heads,
        .page_tokens = (uint32_t)page_tokens,
        .page_count = (uint32_t)(2 * ((config->tokens + page_tokens - 1) / page_tokens)),
        .head_dim = (uint32_t)config->head_bytes / 2,
        .element_bytes = 2,
    };
    kvr_layout_name name;

    if (!kvr_layout_name_find(layout, &name))
        return kvr_error_set(error, KVR_INVALID, "bench", "there is no layout \"%s\"", layout);
    return kvr_layout_make(name, &shape, ret_region, error);
}

static kvr_status plan_once(struct plan_bench *bench, struct figures *figures, double *ret_us,
                            struct kvr_error *error)
{
    kvr_ns start = kvr_clock_now();
    struct kvr_plan *plan;
    kvr_status status = kvr_plan_make(&bench->input, &bench->memory, &plan, error);

    if (status != KVR_OK)
        return status;
    *ret_us = (double)(kvr_clock_now() - start) / KVR_US;
    figures->chunks = plan->chunk_count;
    figures->pieces = plan->piece_count;
    figures->bytes = plan->bytes;
    figures->plan_bytes = plan->memory_bytes;
    kvr_plan_free(plan, &bench->memory);
    return KVR_OK;
}

static kvr_status measure(struct plan_bench *bench, bool random, struct figures *ret_figures,
                          struct kvr_error *error)
{
    static double times[RUNS_MAX];
    struct kvr_rng rng;
    uint32_t *source, *target;
    kvr_status status = KVR_OK;

    kvr_rng_init(&rng, 1);
    bench->input.source_pages = source = bench_page_order(bench->source.page_count, random, &rng);
    bench->input.target_pages = target = bench_page_order(bench->target.page_count, random, &rng);
    if (source == NULL || target == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "bench", "no memory for the lists of pages");
    for (uint64_t i = 0; status == KVR_OK && i < bench->options.runs; i++)
        status = plan_once(bench, ret_figures, &times[i], error);
    if (status == KVR_OK)
        ret_figures->us = bench_spread_of(times, bench->options.runs).median;
    free(source);
    free(target);
    return status;
}

static void fill_input(struct plan_bench *bench)
{
    const struct plan_options *config = &bench->options;

    bench->input = (struct kvr_plan_input){
        .source_layouts = &bench->source,
        .target_layouts = &bench->target,
        .source_layout_count = 1,
        .target_layout_count = 1,
        .source_page_count = bench->source.page_count,
        .target_page_count = bench->target.page_count,
        .token_end = config->tokens,
        .limits = {(uint32_t)config->pieces_local, (uint32_t)config->pieces_remote,
                   config->chunk_bytes_max},
    };
}

static kvr_status run(struct plan_bench *bench, struct figures *random, struct figures *contiguous,
                      struct kvr_error *error)
{
    const struct plan_options *config = &bench->options;
    kvr_status status = make_side(config, config->layout, config->heads, config->page_tokens,
                                  &bench->source, error);

    if (status == KVR_OK)
        status = make_side(config, config->target_layout, config->target_heads,
                           config->target_page_tokens, &bench->target, error);
    if (status != KVR_OK)
        return status;
    fill_input(bench);
    status = measure(bench, true, random, error);
    if (status == KVR_OK)
        status = measure(bench, false, contiguous, error);
    return status;
}

static int report(const struct plan_options *config, const struct figures *random,
                  const struct figures *contiguous)
{
    json_t *json =
        json_pack("{s:f, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "plan_us", random->us, "chunks",
                  (json_int_t)random->chunks, "pieces", (json_int_t)random->pieces, "bytes",
                  (json_int_t)random->bytes, "plan_bytes", (json_int_t)random->plan_bytes,
                  "contiguous_us", contiguous->us, "contiguous_chunks",
                  (json_int_t)contiguous->chunks, "runs", (json_int_t)config->runs);

    if (!json_output_replaces_text(config->json))
        printf("pages at random: %.0f us, %llu writes of %llu pieces, %llu B; the plan has %llu B\n"
               "pages in a row:  %.0f us, %llu writes\n",
               random->us, (unsigned long long)random->chunks, (unsigned long long)random->pieces,
               (unsigned long long)random->bytes, (unsigned long long)random->plan_bytes,
               contiguous->us, (unsigned long long)contiguous->chunks);
    return json_output_write(json, config->json) ? 0 : 1;
}

int bench_plan_main(int argc, char **argv)
{
    static struct plan_bench bench;
    struct figures random = {0}, contiguous = {0};
    struct kvr_error error = {0};
    kvr_status status;
    void *memory;
    int code;

    if (!kvr_options_load(&command, argc, argv, &bench.options, &code))
        return code;
    if (bench.options.head_bytes % 2 != 0)
        return kvr_options_refuse(&command, "--head-bytes is %llu, but must be even",
                                  (unsigned long long)bench.options.head_bytes);
    complete_options(&bench.options);
    memory = aligned_alloc(KVR_BUDDY_BLOCK_BYTES, MEMORY_BYTES); /* touched as far as it is used */
    if (memory == NULL) {
        fprintf(stderr, "kvrail bench plan: no memory\n");
        return 1;
    }
    kvr_buddy_init(&bench.memory, memory, MEMORY_BYTES);
    status = run(&bench, &random, &contiguous, &error);
    free(memory);
    if (status != KVR_OK)
        return kvr_options_refuse(&command, "%s", error.detail);
    return report(&bench.options, &random, &contiguous);
}
