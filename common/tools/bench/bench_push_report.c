#include "tools/bench/bench_push_report.h"

#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fabric/ofi/fabric_ofi.h"
#include "tools/bench/bench_cli.h"

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
#define MEDIAN(figures, field) (SPREAD(figures, field).median)

static bool has(const struct push_figures *figures, enum push_loop loop)
{
    for (uint32_t i = 0; i < figures->loop_count; i++)
        if (figures->loops[i] == loop)
            return true;
    return false;
}

bool push_figures_quiet(const struct push_figures *figures, double *ret_spread)
{
    struct bench_spread raw = SPREAD(figures, turns[PUSH_RAW].gb_s);
    struct bench_spread same = SPREAD(figures, turns[PUSH_SAME].gb_s);
    double apart = bench_spread_relative(&same);

    *ret_spread = bench_spread_relative(&raw);
    if (has(figures, PUSH_SAME) && apart > *ret_spread)
        *ret_spread = apart;
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
        writes += figures->pairs[i].turns[PUSH_OURS].writes;
    return writes;
}

static const char *waits(const struct bench_raw_shape *shape)
{
    if (shape->threads > 0)
        return "not at all";
    return shape->spins ? "spinning" : "sleeping";
}

static void waiting_text(const struct push_figures *figures, const struct bench_options *options,
                         char text[160])
{
    int used =
        snprintf(text, 160,
                 "the agents spin %.0f us, then sleep on the queue's descriptor; raw waits "
                 "%s",
                 (double)options->posting.spin / (double)KVR_US, waits(&figures->shapes[PUSH_RAW]));

    if (has(figures, PUSH_SAME))
        snprintf(text + used, 160 - (size_t)used, ", same %s", waits(&figures->shapes[PUSH_SAME]));
}

static void print_setting(const struct push_figures *figures, const struct bench_options *options,
                          FILE *out)
{
    const struct bench_raw_shape *raw = &figures->shapes[PUSH_RAW];
    const struct bench_raw_shape *same = &figures->shapes[PUSH_SAME];
    char waiting[160];

    waiting_text(figures, options, waiting);
    fprintf(out, "%s, %u rail%s, pages of %.10g KiB, %s; fetches of %u pages, %u at a time\n",
            options->provider, (unsigned)options->rails, options->rails == 1 ? "" : "s",
            (double)options->page_bytes / 1024, options->contiguous ? "in order" : "scattered",
            (unsigned)options->pages, (unsigned)options->fetches);
    if (strcmp(options->device, "none") != 0)
        fprintf(out, "pages on device: %s\n", options->device);
    fprintf(out, "waiting: %s\n", waiting);
    if (raw->threads > 0)
        fprintf(out, "raw: memcpy of %u page%s by %u thread%s", raw->pages,
                raw->pages == 1 ? "" : "s", raw->threads, raw->threads == 1 ? "" : "s");
    else
        fprintf(out, "raw: %u x %u page%s a write, %u writes on their way", raw->pieces, raw->pages,
                raw->pages == 1 ? "" : "s", raw->window);
    if (has(figures, PUSH_SAME))
        fprintf(out, "; same: %u x %u page%s, %u writes\n\n", same->pieces, same->pages,
                same->pages == 1 ? "" : "s", same->window);
    else
        fprintf(out, ", each rail alone, the sum of all\nrails: %s\n\n", figures->way);
}

static const char *const loop_names[PUSH_LOOPS] = {"ours", "raw", "same", "against"};

/* The medians over all pairs. p50 and p99 are those of all fetches together. */
static struct push_pair median_pair(const struct push_figures *figures)
{
    struct push_pair median = {.p50_us = percentile_us(figures, 50),
                               .p99_us = percentile_us(figures, 99),
                               .core_round_trip_ns = MEDIAN(figures, core_round_trip_ns)};

    for (int loop = 0; loop < PUSH_LOOPS; loop++) {
        median.turns[loop].gb_s = MEDIAN(figures, turns[loop].gb_s);
        median.turns[loop].cpu_s_per_gb = MEDIAN(figures, turns[loop].cpu_s_per_gb);
        median.ratio[loop] = MEDIAN(figures, ratio[loop]);
        median.cpu_ratio[loop] = MEDIAN(figures, cpu_ratio[loop]);
    }
    return median;
}

static void row_print(const struct push_figures *figures, const char *name,
                      const struct push_pair *pair, FILE *out)
{
    fprintf(out, "  %4s", name);
    for (uint32_t i = 0; i < figures->loop_count; i++)
        fprintf(out, "  %8.3f", pair->turns[figures->loops[i]].gb_s);
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  %9.3f", pair->ratio[figures->loops[i]]);
    fprintf(out, "  %8.3f", pair->turns[PUSH_OURS].cpu_s_per_gb);
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  %9.3f", pair->cpu_ratio[figures->loops[i]]);
    fprintf(out, "  %6.2f  %6.2f  %7.0f\n", pair->p50_us / 1000, pair->p99_us / 1000,
            pair->core_round_trip_ns);
}

/* The loops' columns are GB/s, then ours divided by theirs, then the same of CPU time. */
static void head_print(const struct push_figures *figures, FILE *out)
{
    fprintf(out, "  pair");
    for (uint32_t i = 0; i < figures->loop_count; i++)
        fprintf(out, "  %8s", loop_names[figures->loops[i]]);
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  / %7s", loop_names[figures->loops[i]]);
    fprintf(out, "  CPU s/GB");
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  / %7s", loop_names[figures->loops[i]]);
    fprintf(out, "  p50 ms  p99 ms  core ns\n");
}

void push_figures_print(const struct push_figures *figures, const struct bench_options *options,
                        FILE *out)
{
    static const char *const names[PUSH_LOOPS] = {"quartiles of GB/s: ", ", raw ", ", same ",
                                                  ", against "};
    struct push_pair median = median_pair(figures);
    char number[16];

    print_setting(figures, options, out);
    head_print(figures, out);
    for (uint32_t i = 0; i < figures->pair_count; i++) {
        snprintf(number, sizeof(number), "%u", i + 1);
        row_print(figures, number, &figures->pairs[i], out);
    }
    row_print(figures, "med.", &median, out);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < figures->loop_count; i++) {
        enum push_loop loop = figures->loops[i];
        struct bench_spread spread = SPREAD(figures, turns[loop].gb_s);

        fprintf(out, "%s%.3f to %.3f", names[loop], spread.quarter, spread.three_quarters);
    }
    fprintf(out, "\n");
}

static void set_real(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, json_real(value));
}

static void set_count(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

/* What each loop's figures are called. */
static const char *const loop_keys[PUSH_LOOPS][6] = {
    {"gb_s", "cpu_s_per_gb", "bytes", "writes", NULL, NULL},
    {"raw_gb_s", "raw_cpu_s_per_gb", "raw_bytes", "raw_writes", "ratio", "cpu_ratio"},
    {"same_gb_s", "same_cpu_s_per_gb", "same_bytes", "same_writes", "ratio_same", "cpu_ratio_same"},
    {"against_gb_s", "against_cpu_s_per_gb", "against_bytes", "against_writes", "ratio_against",
     "cpu_ratio_against"},
};

/* Speeds and ratios. */
static void set_loop(json_t *object, const struct push_pair *pair, enum push_loop loop)
{
    const char *const *keys = loop_keys[loop];

    set_real(object, keys[0], pair->turns[loop].gb_s);
    set_real(object, keys[1], pair->turns[loop].cpu_s_per_gb);
    if (loop == PUSH_OURS)
        return;
    set_real(object, keys[4], pair->ratio[loop]);
    set_real(object, keys[5], pair->cpu_ratio[loop]);
}

static json_t *pair_json(const struct push_figures *figures, const struct push_pair *pair)
{
    json_t *object =
        json_pack("{s:f, s:f, s:f, s:I, s:f, s:s}", "p50_us", pair->p50_us, "p99_us", pair->p99_us,
                  "max_us", pair->max_us, "retries", (json_int_t)pair->retries,
                  "core_round_trip_ns", pair->core_round_trip_ns, "first", loop_names[pair->first]);
    json_t *rails = json_array();

    for (uint32_t i = 0; i < figures->loop_count; i++) {
        enum push_loop loop = figures->loops[i];

        set_loop(object, pair, loop);
        set_count(object, loop_keys[loop][2], pair->turns[loop].bytes);
        set_count(object, loop_keys[loop][3], pair->turns[loop].writes);
    }
    for (uint32_t i = 0; i < figures->rail_count; i++)
        json_array_append_new(rails, json_real(pair->rail_gb_s[i]));
    if (figures->rail_count > 0)
        json_object_set(object, "raw_rails_gb_s", rails);
    json_decref(rails);
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
    struct push_pair median = median_pair(figures);
    double spread;
    bool quiet = push_figures_quiet(figures, &spread);

    for (uint32_t i = 0; i < figures->loop_count; i++)
        set_loop(report, &median, figures->loops[i]);
    set_count(report, "writes", writes_of(figures));
    set_real(report, "p50_us", median.p50_us);
    set_real(report, "p99_us", median.p99_us);
    set_real(report, "raw_spread", spread);
    json_object_set_new(report, "quiet", json_boolean(quiet));
}

static json_t *shape_json(const struct bench_raw_shape *shape)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:s}", "window", (int)shape->window, "pieces",
                     (int)shape->pieces, "pages_a_piece", (int)shape->pages, "copy_threads",
                     (int)shape->threads, "waits", waits(shape));
}

static void add_setting(const struct push_figures *figures, const struct bench_options *options,
                        json_t *report)
{
    const struct bench_raw_shape *shapes = figures->shapes;
    json_t *against = json_array(), *setting;
    char waiting[160];

    waiting_text(figures, options, waiting);
    setting = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:s, s:s, s:s, s:o, s:I, s:b, s:o}",
        "provider", options->provider, "device", options->device, "rails",
        (json_int_t)options->rails, "page_bytes", (json_int_t)options->page_bytes, "pages",
        (json_int_t)options->pages, "layers", (json_int_t)options->layers, "fetches",
        (json_int_t)options->fetches, "contiguous", options->contiguous, "seconds",
        (double)options->duration / (double)KVR_S, "waiting", waiting, "tcp_congestion",
        options->posting.tcp_congestion, "raw_tcp_congestion", options->raw_congestion, "raw",
        shape_json(&shapes[PUSH_RAW]), "pages_checked", (json_int_t)figures->pages_checked, "tls",
        options->tls, "machine", machine_json(figures));
    json_object_update(report, setting);
    json_decref(setting);
    if (has(figures, PUSH_SAME)) {
        json_object_set_new(report, "same", shape_json(&shapes[PUSH_SAME]));
    } else {
        json_object_set_new(report, "way", json_string(figures->way));
        set_count(report, "target_rails", options->target_rails);
        set_count(report, "rail_mbits", options->rail_mbits);
        set_count(report, "slow_mbits", options->slow_mbits);
    }
    for (uint32_t i = 0; i < options->against.count; i++)
        json_array_append_new(against, json_string(options->against.items[i]));
    if (options->against.count > 0)
        json_object_set(report, "against", against);
    json_decref(against);
}

bool push_figures_write(const struct push_figures *figures, const struct bench_options *options,
                        const char *path)
{
    json_t *report = json_object(), *pairs = json_array();

    add_medians(figures, report);
    add_setting(figures, options, report);
    for (uint32_t i = 0; i < figures->pair_count; i++)
        json_array_append_new(pairs, pair_json(figures, &figures->pairs[i]));
    json_object_set_new(report, "pairs", pairs);
    return json_output_write(report, path);
}
