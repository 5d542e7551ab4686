#include "tools/bench_push_report.h"

#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fabric/fabric_ofi.h"
#include "tools/bench_cli.h"

#define SPREAD_MAX 0.15

/* One column of the pairs. */
static struct bench_spread spread_of(const struct push_figures *figures, size_t offset)
{
    double values[BENCH_PAIRS_MAX];

    for (uint32_t i = 0; i < figures->pair_count; i++)
        memcpy(&values[i], (const char *)&figures->pairs[i] + offset, sizeof(values[i]));
    return bench_spread_of(values, figures->pair_count);
}
#define SPREAD(figures, field) spread_of(figures, offsetof(struct push_pair, field))

bool push_figures_quiet(const struct push_figures *figures, double *ret_spread)
{
    struct bench_spread raw = SPREAD(figures, raw_gb_s);

    *ret_spread = bench_spread_relative(&raw);
    return *ret_spread <= SPREAD_MAX;
}

static double percentile_us(const struct push_figures *figures, double percent)
{
    return (double)kvr_histogram_percentile(&figures->fetch_ns, percent) / (double)KVR_US;
}

static uint64_t writes_of(const struct push_figures *figures)
{
    uint64_t writes = 0;

    for (uint32_t i = 0; i < figures->pair_count; i++)
        writes += figures->pairs[i].writes;
    return writes;
}

static void waiting_text(const struct bench_options *options, char text[96])
{
    snprintf(text, 96, "both spin %.0f us, then sleep %s", (double)options->spin / (double)KVR_US,
             strcmp(options->provider, "shm") == 0 ? "50 us at a time"
                                                   : "on the queue's descriptor");
}

void push_figures_print(const struct push_figures *figures, const struct bench_options *options,
                        FILE *out)
{
    struct bench_spread ours = SPREAD(figures, gb_s), raw = SPREAD(figures, raw_gb_s);
    struct bench_spread ratio = SPREAD(figures, ratio);
    char waiting[96];

    waiting_text(options, waiting);
    fprintf(out, "%s, %u rail%s, pages of %.10g KiB, %s; fetches of %u pages, %u at a time\n",
            options->provider, (unsigned)options->rails, options->rails == 1 ? "" : "s",
            (double)options->page_bytes / 1024, options->scatter ? "scattered" : "in order",
            (unsigned)options->pages, (unsigned)options->fetches);
    fprintf(out, "waiting: %s; raw window %u writes of %u page%s a rail\n\n", waiting,
            figures->raw_window, (unsigned)options->raw_pieces,
            options->raw_pieces == 1 ? "" : "s");
    fprintf(out,
            "  pair    GB/s  raw GB/s   ratio  CPU s/GB  raw CPU s/GB  p50 ms  p99 ms  core ns\n");
    for (uint32_t i = 0; i < figures->pair_count; i++) {
        const struct push_pair *pair = &figures->pairs[i];

        fprintf(out, "  %4u  %6.3f  %8.3f  %6.3f  %8.3f  %12.3f  %6.2f  %6.2f  %7.0f\n", i + 1,
                pair->gb_s, pair->raw_gb_s, pair->ratio, pair->cpu_s_per_gb, pair->raw_cpu_s_per_gb,
                pair->p50_us / 1000, pair->p99_us / 1000, pair->core_round_trip_ns);
    }
    fprintf(out, "  med.  %6.3f  %8.3f  %6.3f  %8.3f  %12.3f  %6.2f  %6.2f  %7.0f\n", ours.median,
            raw.median, ratio.median, SPREAD(figures, cpu_s_per_gb).median,
            SPREAD(figures, raw_cpu_s_per_gb).median, percentile_us(figures, 50) / 1000,
            percentile_us(figures, 99) / 1000, SPREAD(figures, core_round_trip_ns).median);
    fprintf(out, "\nquartiles of GB/s: %.3f to %.3f, raw %.3f to %.3f\n", ours.quarter,
            ours.three_quarters, raw.quarter, raw.three_quarters);
}

static json_t *pair_json(const struct push_pair *pair)
{
    json_t *object = json_object();

    json_object_set_new(object, "gb_s", json_real(pair->gb_s));
    json_object_set_new(object, "raw_gb_s", json_real(pair->raw_gb_s));
    json_object_set_new(object, "ratio", json_real(pair->ratio));
    json_object_set_new(object, "cpu_s_per_gb", json_real(pair->cpu_s_per_gb));
    json_object_set_new(object, "raw_cpu_s_per_gb", json_real(pair->raw_cpu_s_per_gb));
    json_object_set_new(object, "p50_us", json_real(pair->p50_us));
    json_object_set_new(object, "p99_us", json_real(pair->p99_us));
    json_object_set_new(object, "max_us", json_real(pair->max_us));
    json_object_set_new(object, "bytes", json_integer((json_int_t)pair->bytes));
    json_object_set_new(object, "raw_bytes", json_integer((json_int_t)pair->raw_bytes));
    json_object_set_new(object, "writes", json_integer((json_int_t)pair->writes));
    json_object_set_new(object, "retries", json_integer((json_int_t)pair->retries));
    json_object_set_new(object, "raw_writes", json_integer((json_int_t)pair->raw_writes));
    json_object_set_new(object, "core_round_trip_ns", json_real(pair->core_round_trip_ns));
    json_object_set_new(object, "raw_first", json_boolean(pair->raw_first));
    return object;
}

static json_t *machine_json(const struct push_figures *figures)
{
    struct utsname system;

    (void)uname(&system);
    return json_pack("{s:i, s:s, s:s, s:s, s:f}", "cores", (int)sysconf(_SC_NPROCESSORS_ONLN),
                     "architecture", system.machine, "kernel", system.release, "libfabric",
                     kvr_fabric_ofi_version(), "load_at_start", figures->load_at_start);
}

static void add_medians(const struct push_figures *figures, json_t *report)
{
    double spread;
    bool quiet = push_figures_quiet(figures, &spread);

    json_object_set_new(report, "gb_s", json_real(SPREAD(figures, gb_s).median));
    json_object_set_new(report, "raw_gb_s", json_real(SPREAD(figures, raw_gb_s).median));
    json_object_set_new(report, "ratio", json_real(SPREAD(figures, ratio).median));
    json_object_set_new(report, "cpu_s_per_gb", json_real(SPREAD(figures, cpu_s_per_gb).median));
    json_object_set_new(report, "raw_cpu_s_per_gb",
                        json_real(SPREAD(figures, raw_cpu_s_per_gb).median));
    json_object_set_new(report, "writes", json_integer((json_int_t)writes_of(figures)));
    json_object_set_new(report, "p50_us", json_real(percentile_us(figures, 50)));
    json_object_set_new(report, "p99_us", json_real(percentile_us(figures, 99)));
    json_object_set_new(report, "raw_spread", json_real(spread));
    json_object_set_new(report, "quiet", json_boolean(quiet));
}

static void add_setting(const struct push_figures *figures, const struct bench_options *options,
                        json_t *report)
{
    char waiting[96];

    waiting_text(options, waiting);
    json_object_set_new(report, "provider", json_string(options->provider));
    json_object_set_new(report, "rails", json_integer((json_int_t)options->rails));
    json_object_set_new(report, "page_bytes", json_integer((json_int_t)options->page_bytes));
    json_object_set_new(report, "pages", json_integer((json_int_t)options->pages));
    json_object_set_new(report, "layers", json_integer((json_int_t)options->layers));
    json_object_set_new(report, "fetches", json_integer((json_int_t)options->fetches));
    json_object_set_new(report, "scatter", json_boolean(options->scatter));
    json_object_set_new(report, "seconds", json_real((double)options->duration / (double)KVR_S));
    json_object_set_new(report, "waiting", json_string(waiting));
    json_object_set_new(report, "raw_window", json_integer(figures->raw_window));
    json_object_set_new(report, "raw_pieces", json_integer((json_int_t)options->raw_pieces));
    json_object_set_new(report, "pages_checked", json_integer((json_int_t)figures->pages_checked));
    json_object_set_new(report, "machine", machine_json(figures));
}

bool push_figures_write(const struct push_figures *figures, const struct bench_options *options,
                        const char *path)
{
    json_t *report = json_object(), *pairs = json_array();
    bool written;

    add_medians(figures, report);
    add_setting(figures, options, report);
    for (uint32_t i = 0; i < figures->pair_count; i++)
        json_array_append_new(pairs, pair_json(&figures->pairs[i]));
    json_object_set_new(report, "pairs", pairs);
    written = bench_json_write(report, path);
    json_decref(report);
    return written;
}
