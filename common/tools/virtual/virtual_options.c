#include "tools/virtual/virtual_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/kvtrace.h"
#include "trace/synth.h"

#define OPTIONS        struct virtual_options
#define SYNTH_REQUESTS 200

static const struct kvr_option rows[] = {
    {.name = "format",
     .section = "requests",
     .choices = KVR_TRACE_FORMATS "|kvtrace",
     .fallback = "mooncake",
     KVR_OPTION_CHOICE(OPTIONS, format),
     .help = "What the trace is: JSON lines of Mooncake or Qwen-Bailian, CSV of Azure or BurstGPT, "
             "results of vLLM's or SGLang's benchmark, SGLang's log, or a trace that kvrail has "
             "written."},
    {.name = "requests",
     .fallback = "0",
     .max = KVR_TRACE_REQUESTS_MAX,
     KVR_OPTION_COUNT(OPTIONS, requests),
     .help = "How many requests, from the start of the trace; 0: all of it."},
    {.name = "seed",
     .fallback = "1",
     KVR_OPTION_COUNT(OPTIONS, seed),
     .help = "Of page ids, contents and synthesised requests. The same seed gives the same run."},
    {.name = "speed",
     .value = "X",
     .fallback = "1",
     KVR_OPTION_STRING(OPTIONS, speed),
     .help = "Requests arrive so many times as fast as in the trace, 0.001 to 1000, in steps of "
             "0.001."},

    {.name = "concurrency",
     .fallback = "0",
     .max = 1000000,
     KVR_OPTION_COUNT(OPTIONS, concurrency),
     .help = "Requests on their way at one time in the whole fleet, at most; 0: no limit."},

    {.name = "model",
     .section = "engines",
     .choices = "llama-3.1-8b|llama-3.1-70b|qwen3-235b-a22b|deepseek-v3",
     .fallback = "qwen3-235b-a22b",
     KVR_OPTION_CHOICE(OPTIONS, model),
     .help = "The model that the engines serve: its KV cache and its time of prefill."},
    {.name = "layers",
     .fallback = "0",
     .max = KVR_LAYERS_MAX,
     KVR_OPTION_COUNT(OPTIONS, layers),
     .help = "Layers of a scaled model; 0: as many as the model has."},
    {.name = "kv-bytes-per-token",
     .value = "BYTES",
     .fallback = "0",
     .max = 4 << 20,
     KVR_OPTION_SIZE(OPTIONS, kv_bytes_per_token),
     .help = "All layers and parts together; 0: as many as the model has, for --layers."},
    {.name = "tp",
     .fallback = "0",
     .max = VIRTUAL_GPUS,
     KVR_OPTION_COUNT(OPTIONS, tp),
     .help = "GPUs of one engine: 1, 2, 4 or 8 of the 8 of a host; 0: as many as the model has KV "
             "heads, at most 8."},
    {.name = "engines",
     .fallback = "0",
     .max = VIRTUAL_GPUS,
     KVR_OPTION_COUNT(OPTIONS, engines),
     .help = "Engines of each host, which share all its cards; 0: as many as its 8 GPUs make."},
    {.name = "page-tokens",
     .fallback = "16",
     .min = 1,
     .max = KVR_TRACE_BLOCK_TOKENS,
     KVR_OPTION_COUNT(OPTIONS, page_tokens),
     .help = "Tokens of one page; must divide 512."},
    {.name = "fused-pages",
     KVR_OPTION_BOOL(OPTIONS, fused_pages),
     .help = "K and V of a page lie side by side, so that a page of one layer is one write. Else "
             "they are two."},
    {.name = "chunk-tokens",
     .fallback = "16384",
     .min = KVR_TRACE_BLOCK_TOKENS,
     .max = KVR_TRACE_TOKENS_MAX,
     KVR_OPTION_COUNT(OPTIONS, chunk_tokens),
     .help = "Longer prompts are prefilled in chunks of so many tokens, rounded up to 512."},
    {.name = "prefill-tokens-per-s",
     .fallback = "0",
     .max = 1000000000,
     KVR_OPTION_COUNT(OPTIONS, prefill_tokens_per_s),
     .help = "Tokens that a prefill engine computes in a second, as kvrail replay has it; 0: the "
             "model's own time."},
    {.name = "pool-bytes",
     .fallback = "48G",
     .min = 1 << 20,
     .max = 1ull << 40,
     KVR_OPTION_SIZE(OPTIONS, pool_bytes),
     .help = "Memory of each GPU's pages."},
    {.name = "pages",
     .choices = "aged|fresh|shuffled",
     .fallback = "aged",
     KVR_OPTION_CHOICE(OPTIONS, pages),
     .help = "How the free pages of all engines lie at the start: as after hours of service, as "
             "after a start, or all at random."},
    {.name = "prefix-cache",
     .fallback = "yes",
     KVR_OPTION_BOOL(OPTIONS, prefix_cache),
     .help = "Engines of both sides keep blocks of 512 tokens. A prefill engine computes no block "
             "that it has; a decode engine fetches none."},
    {.name = "decode-step",
     .fallback = "20ms",
     .min = KVR_US,
     .max = 10 * KVR_S,
     KVR_OPTION_DURATION(OPTIONS, decode_step),
     .help = "Time of one output token."},
    {.name = "decode-batch",
     .fallback = "64",
     .min = 1,
     .max = 65536,
     KVR_OPTION_COUNT(OPTIONS, decode_batch),
     .help = "Requests that one decode engine has at once, at most; further ones wait."},
    {.name = "output-tokens",
     .fallback = "0",
     .max = KVR_TRACE_TOKENS_MAX,
     KVR_OPTION_COUNT(OPTIONS, output_tokens),
     .help =
         "Output tokens of a request that has none in the trace, as in recordings of kvrail and "
         "in some logs. With 0 such a request leaves the decode engine at once."},
    {.name = "costs",
     .section = "network",
     .value = RAIL_COSTS_NAMES "|FILE",
     .fallback = "efa",
     KVR_OPTION_STRING(OPTIONS, costs),
     .help = "What a write costs beside its bytes, and what cards carry of their speed: published "
             "of EFA, published of ConnectX-7, or fitted to fabric-lib's transfers of Qwen3-235B. "
             "Or measured: a FILE of "
             "kvrail bench calibrate --state-dir, with a / or .json in its name; a card then "
             "carries what was measured, and no more than its speed."},
};

const struct kvr_option_table virtual_option_table = {rows, sizeof(rows) / sizeof(rows[0])};

/* Digits, at most 7 of them; *text moves behind them. */
static bool read_count(const char **text, uint32_t *ret_count)
{
    size_t digits = strspn(*text, "0123456789");

    if (digits == 0 || digits > 7)
        return false;
    *ret_count = (uint32_t)strtoul(*text, NULL, 10);
    *text += digits;
    return true;
}

kvr_status virtual_hosts_parse(const char *text, struct virtual_fleet *fleet,
                               struct kvr_error *error)
{
    const char *at = text;
    uint32_t prefill, decode;

    if (!read_count(&at, &prefill) || *at++ != ':' || !read_count(&at, &decode) || *at != '\0' ||
        prefill == 0 || decode == 0 || prefill > VIRTUAL_HOSTS_MAX || decode > VIRTUAL_HOSTS_MAX)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--hosts is '%s', but must be PREFILL:DECODE, each from 1 to 128: 8:8",
                             text);
    fleet->prefill_hosts = prefill;
    fleet->decode_hosts = decode;
    return KVR_OK;
}

/* "100G", "0.8G" or "800M", to its end. */
static bool read_bps(const char *text, uint64_t *ret_bps)
{
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double value = strtod(text, &end);

    if (digits == 0 || digits > 12 || end != text + digits ||
        (strcmp(end, "G") != 0 && strcmp(end, "M") != 0))
        return false;
    value *= *end == 'G' ? 1e9 : 1e6;
    *ret_bps = (uint64_t)(value + 0.5);
    return value >= 1e6 && value <= 1e13;
}

kvr_status virtual_rails_parse(const char *text, uint32_t gpus, struct virtual_fleet *fleet,
                               struct kvr_error *error)
{
    const char *at = text;
    uint32_t rails;
    uint64_t bps;

    if (!read_count(&at, &rails) || *at++ != 'x' || !read_bps(at, &bps) || rails == 0 ||
        rails > VIRTUAL_RAILS_MAX)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--rails is '%s', but must be CARDSxSPEED, 1 to 32 cards of 1M to "
                             "10000G: 32x100G, 2x0.8G",
                             text);
    if (rails % gpus != 0 && gpus % rails != 0)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--rails is '%s', but the %u GPUs of a host that have an engine must "
                             "have equally many cards",
                             text, gpus);
    fleet->rails = rails;
    fleet->card_bps = bps;
    return KVR_OK;
}

static kvr_status read_speed(const char *text, struct virtual_config *config,
                             struct kvr_error *error)
{
    char *end;
    double speed = strtod(text, &end);

    if (end == text || *end != '\0' || !(speed >= 0.001 && speed <= 1000))
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--speed is '%s', but must be a number from 0.001 to 1000", text);
    config->speed_permille = (uint32_t)(speed * 1000 + 0.5);
    return KVR_OK;
}

static kvr_status choose_tp(const struct virtual_options *options, struct virtual_config *config,
                            struct kvr_error *error)
{
    uint32_t heads = config->geometry.heads, tp = (uint32_t)options->tp;

    if (tp == 0)
        for (tp = 1; 2 * tp <= heads && 2 * tp <= VIRTUAL_GPUS;)
            tp *= 2;
    if (VIRTUAL_GPUS % tp != 0 || (heads % tp != 0 && tp % heads != 0))
        return kvr_error_set(
            error, KVR_INVALID, "options",
            "--tp is %u, but must divide the 8 GPUs of a host, and the %u KV heads "
            "of the model must divide it or be divided by it",
            tp, heads);
    config->tp = tp;
    return KVR_OK;
}

static kvr_status choose_engines(const struct virtual_options *options,
                                 struct virtual_config *config, struct kvr_error *error)
{
    if (options->engines * config->tp > VIRTUAL_GPUS)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--engines is %u, but a host has %u GPUs, and an engine takes %u of "
                             "them (--tp)",
                             (unsigned)options->engines, VIRTUAL_GPUS, config->tp);
    config->engines = (uint32_t)options->engines;
    return KVR_OK;
}

static kvr_status choose_costs(const char *text, struct rail_costs *ret_costs,
                               struct kvr_error *error)
{
    const struct rail_costs *preset = rail_costs_find(text);
    size_t length = strlen(text);

    if (preset != NULL) {
        *ret_costs = *preset;
        return KVR_OK;
    }
    if (strchr(text, '/') == NULL && (length < 5 || strcmp(text + length - 5, ".json") != 0))
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--costs is '%s', but must be " RAIL_COSTS_NAMES ", or a file of "
                             "kvrail bench calibrate with a / in its name, or .json at its end",
                             text);
    return rail_costs_read(text, ret_costs, error);
}

kvr_status virtual_config_make(const struct virtual_options *options,
                               struct virtual_config *ret_config, struct kvr_error *error)
{
    static const char *const orders[] = {"fresh", "aged", "shuffled"};
    struct virtual_config config = {.prefill = prefill_time_find(options->model),
                                    .page_tokens = (uint32_t)options->page_tokens,
                                    .pool_bytes = options->pool_bytes,
                                    .seed = options->seed,
                                    .step_ns = options->decode_step,
                                    .batch = (uint32_t)options->decode_batch,
                                    .prefill_tokens_per_s = (uint32_t)options->prefill_tokens_per_s,
                                    .concurrency = (uint32_t)options->concurrency,
                                    .output_tokens = (uint32_t)options->output_tokens,
                                    .prefix_cache = options->prefix_cache,
                                    .fused = options->fused_pages};

    if (KVR_TRACE_BLOCK_TOKENS % options->page_tokens != 0)
        return kvr_error_set(error, KVR_INVALID, "options",
                             "--page-tokens is %u, but must divide %u: 1, 2, 4 … 512",
                             (unsigned)options->page_tokens, KVR_TRACE_BLOCK_TOKENS);
    config.chunk_tokens = (uint32_t)((options->chunk_tokens + KVR_TRACE_BLOCK_TOKENS - 1) /
                                     KVR_TRACE_BLOCK_TOKENS * KVR_TRACE_BLOCK_TOKENS);
    for (int i = 0; i < 3; i++)
        if (strcmp(orders[i], options->pages) == 0)
            config.order = (pages_order)i;
    KVR_TRY(model_scale(model_find(options->model), (uint32_t)options->layers,
                        options->kv_bytes_per_token, error, &config.geometry));
    KVR_TRY(choose_tp(options, &config, error));
    KVR_TRY(choose_engines(options, &config, error));
    KVR_TRY(choose_costs(options->costs, &config.costs, error));
    KVR_TRY(read_speed(options->speed, &config, error));
    *ret_config = config;
    return KVR_OK;
}

kvr_status virtual_trace_read(const struct virtual_options *options, const char *path,
                              struct kvr_trace *trace, struct kvr_error *error)
{
    uint32_t count = (uint32_t)options->requests;
    kvr_trace_format format;

    if (path[0] == '\0')
        return kvr_trace_synth(options->seed, count > 0 ? count : SYNTH_REQUESTS, trace, error);
    if (strcmp(options->format, "kvtrace") == 0)
        return kvtrace_requests(path, count, trace, error);
    KVR_TRY(kvr_trace_format_from_name(options->format, &format));
    return kvr_trace_read(path, format, count, NULL, trace, error);
}

void virtual_shortened(const struct virtual_config *config, uint32_t clipped,
                       uint32_t without_output, char ret_sentence[VIRTUAL_SENTENCE_BYTES])
{
    char outputs[128] = "";

    if (without_output > 0 && config->output_tokens > 0)
        snprintf(outputs, sizeof(outputs),
                 "%u requests have no output in the trace and get %u tokens.", without_output,
                 config->output_tokens);
    else if (without_output > 0)
        snprintf(
            outputs, sizeof(outputs),
            "%u requests have no output, so they take no time to decode: --output-tokens gives "
            "them some.",
            without_output);
    if (clipped > 0)
        snprintf(
            ret_sentence, VIRTUAL_SENTENCE_BYTES,
            "%u requests are longer than a pool (--pool-bytes) and are cut to what it holds, so "
            "the load is lighter than the trace's.%s%s",
            clipped, outputs[0] != '\0' ? " " : "", outputs);
    else
        snprintf(ret_sentence, VIRTUAL_SENTENCE_BYTES, "%s", outputs);
}

size_t virtual_assumptions(const struct virtual_config *config,
                           char ret_sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES])
{
    const struct model_geometry *geometry = &config->geometry;
    size_t count = 0;

#define SAY(...) snprintf(ret_sentences[count++], VIRTUAL_SENTENCE_BYTES, __VA_ARGS__)
    SAY("A host has 8 GPUs, and %u engine%s of %u; prefill and decode engines have equal ranks.",
        virtual_gpus(config) / config->tp, virtual_gpus(config) == config->tp ? "" : "s",
        config->tp);
    SAY("A token has %" PRIu64 " bytes in %u layers%s%s.", geometry->token_bytes, geometry->layers,
        geometry->scaling[0] != '\0' ? "; " : "", geometry->scaling);
    if (config->prefill_tokens_per_s > 0)
        SAY("Prefill: one prompt at a time on an engine, %u tokens a second.",
            config->prefill_tokens_per_s);
    else
        SAY("Prefill: one prompt at a time on an engine; times %s fabric-lib's published ones of "
            "Qwen3-235B on four H200 (arXiv 2510.27656, table 3).",
            config->prefill->fitted && config->tp == 4
                ? "are fitted to"
                : "are scaled by active parameters, attention and GPUs from a fit to");
    SAY("Decode: a token each %.1f ms however many requests there are, at most %u at once.",
        (double)config->step_ns / 1e6, config->batch);
    SAY("Rails, %s: %s. A write takes %u ns of the rail thread, a card carries %u.%u %% of its "
        "speed or what is %s.",
        config->costs.name, config->costs.source, (unsigned)config->costs.write_ns,
        config->costs.line_permille / 10, config->costs.line_permille % 10,
        config->costs.line_bps > 0 ? "measured" : "published");
    SAY("Cards reach each other through a network that never limits; a card sends, and receives, "
        "one write after the other. Nothing fails, and nothing is sent twice.");
    SAY("A control message takes %u µs. That is assumed, not measured.",
        (unsigned)(config->costs.control_ns / KVR_US));
    SAY("A prompt goes to the engine that would finish it first, then to the decode engine with "
        "the fewest tokens; tokens in prefix caches do not count.");
#undef SAY
    return count;
}
