#include "tools/virtual/virtual_print.h"

#include <inttypes.h>

#include "tools/virtual/virtual_options.h"

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void print_times(const struct virtual_figures *figures, FILE *stream)
{
    fprintf(stream, "\n  %-13s %10s %10s %10s %10s\n", "ms", "p50", "p90", "p99", "most");
    for (int i = 0; i < VIRTUAL_TIME_END; i++) {
        virtual_time time = (virtual_time)i;

        fprintf(stream, "  %-13s %10.2f %10.2f %10.2f %10.2f  %s\n", virtual_time_name(time),
                ms(virtual_percentile(figures, time, 50)),
                ms(virtual_percentile(figures, time, 90)),
                ms(virtual_percentile(figures, time, 99)),
                ms(virtual_percentile(figures, time, 100)), virtual_time_meaning(time));
    }
    fprintf(stream, "  %-13s %10.2f %10.2f %10.2f %10.2f  from a layer's end to its last byte\n",
            "layer", ms(kvr_histogram_percentile(&figures->layers, 50)),
            ms(kvr_histogram_percentile(&figures->layers, 90)),
            ms(kvr_histogram_percentile(&figures->layers, 99)), ms(figures->layers.max));
}

static void print_use(const char *side, const struct virtual_use *use, FILE *stream)
{
    fprintf(stream, "  cards of %-8s %.2f %% of their time, the busiest %.2f %%\n", side,
            100 * use->share, 100 * use->share_max);
}

void virtual_print(const struct virtual_report *report, FILE *stream)
{
    const struct virtual_figures *figures = report->figures;
    const struct virtual_config *config = report->config;
    const struct virtual_fleet *fleet = &config->fleet;
    char sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES];
    char shortened[VIRTUAL_SENTENCE_BYTES];
    size_t count = virtual_assumptions(config, sentences);

    fprintf(stream,
            "%" PRIu64 " requests of %s in virtual time: %s, %u prefill and %u decode hosts of "
            "%ux%gG, seed %" PRIu64 "%s\n",
            figures->requests, report->trace, config->geometry.model->name, fleet->prefill_hosts,
            fleet->decode_hosts, fleet->rails, (double)fleet->card_bps / 1e9, config->seed,
            config->exact ? ", write by write" : "");
    print_times(figures, stream);
    fprintf(stream,
            "\n  %.3f TB in %" PRIu64 " writes; %" PRIu64 " tokens, of which decode engines had "
            "%" PRIu64 " and prefill engines %" PRIu64 "\n",
            (double)figures->bytes / 1e12, figures->writes, figures->tokens,
            figures->skipped_tokens, figures->source_cached_tokens);
    print_use("prefill", &figures->source, stream);
    print_use("decode", &figures->target, stream);
    fprintf(stream,
            "  prefill engines compute %.1f %% of their time, rail threads post %.1f %%\n"
            "  %.1f virtual seconds in %.1f, %" PRIu64 " events, %.1f MiB of memory; at most %u "
            "requests at once\n"
            "  digest %016" PRIx64 "\n",
            100 * figures->prefill_busy, 100 * figures->thread_busy, (double)figures->end / 1e9,
            report->wall_s, figures->events, (double)report->memory_kib / 1024, figures->live_max,
            figures->digest);
    virtual_shortened(config, figures->clipped, figures->without_output, shortened);
    if (shortened[0] != '\0')
        fprintf(stream, "\nNote: %s\n", shortened);
    fputs("\nThe model:\n", stream);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "  %s\n", sentences[i]);
}

static json_t *times_json(const struct virtual_figures *figures)
{
    json_t *times = json_object();

    for (int i = 0; i < VIRTUAL_TIME_END; i++) {
        virtual_time time = (virtual_time)i;

        json_object_set_new(times, virtual_time_name(time),
                            json_pack("{s:f, s:f, s:f, s:f}", "p50",
                                      ms(virtual_percentile(figures, time, 50)), "p90",
                                      ms(virtual_percentile(figures, time, 90)), "p99",
                                      ms(virtual_percentile(figures, time, 99)), "max",
                                      ms(virtual_percentile(figures, time, 100))));
    }
    json_object_set_new(times, "layer",
                        json_pack("{s:f, s:f, s:f, s:f}", "p50",
                                  ms(kvr_histogram_percentile(&figures->layers, 50)), "p90",
                                  ms(kvr_histogram_percentile(&figures->layers, 90)), "p99",
                                  ms(kvr_histogram_percentile(&figures->layers, 99)), "max",
                                  ms(figures->layers.max)));
    return times;
}

static json_t *use_json(const struct virtual_use *use)
{
    return json_pack("{s:I, s:I, s:f, s:f}", "writes", (json_int_t)use->writes, "bytes",
                     (json_int_t)use->bytes, "share", use->share, "share_max", use->share_max);
}

json_t *virtual_json(const struct virtual_report *report)
{
    const struct virtual_figures *figures = report->figures;
    const struct virtual_config *config = report->config;
    char digest[20], sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES];
    size_t count = virtual_assumptions(config, sentences);
    json_t *assumptions = json_array();

    snprintf(digest, sizeof(digest), "%016" PRIx64, figures->digest);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(assumptions, json_string(sentences[i]));
    return json_pack(
        "{s:b, s:b, s:s, s:I, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:I, s:I, "
        "s:I, "
        "s:I, s:i, s:f, s:f, s:f, s:f, s:i, s:o, s:o, s:o, s:s, s:o}",
        "virtual", 1, "exact", config->exact, "model", config->geometry.model->name, "seed",
        (json_int_t)config->seed, "trace", report->trace, "prefill_hosts",
        (int)config->fleet.prefill_hosts, "decode_hosts", (int)config->fleet.decode_hosts, "rails",
        (int)config->fleet.rails, "card_bps", (json_int_t)config->fleet.card_bps, "requests",
        (json_int_t)figures->requests, "tokens", (json_int_t)figures->tokens, "skipped_tokens",
        (json_int_t)figures->skipped_tokens, "source_cached_tokens",
        (json_int_t)figures->source_cached_tokens, "clipped", (int)figures->clipped,
        "without_output", (int)figures->without_output, "bytes", (json_int_t)figures->bytes,
        "writes", (json_int_t)figures->writes, "checked_words", (json_int_t)figures->checked_words,
        "events", (json_int_t)figures->events, "live_max", (int)figures->live_max, "virtual_s",
        (double)figures->end / 1e9, "wall_s", report->wall_s, "prefill_busy", figures->prefill_busy,
        "thread_busy", figures->thread_busy, "memory_kib", (int)report->memory_kib, "times_ms",
        times_json(figures), "source_cards", use_json(&figures->source), "target_cards",
        use_json(&figures->target), "digest", digest, "assumptions", assumptions);
}
