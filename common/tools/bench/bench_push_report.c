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

/* One row: of a pair, or the medians. ours_gb_s … by loop. */
struct row {
    char name[16];
    double gb_s[PUSH_LOOPS], ratio[PUSH_LOOPS], cpu_ratio[PUSH_LOOPS];
    double cpu_s_per_gb, p50_ms, p99_ms, core_ns;
};

static struct row pair_row(const struct push_figures *figures, uint32_t index)
{
    const struct push_pair *pair = &figures->pairs[index];
    struct row row = {.cpu_s_per_gb = pair->turns[PUSH_OURS].cpu_s_per_gb,
                      .p50_ms = pair->p50_us / 1000,
                      .p99_ms = pair->p99_us / 1000,
                      .core_ns = pair->core_round_trip_ns};

    snprintf(row.name, sizeof(row.name), "%u", index + 1);
    for (int loop = 0; loop < PUSH_LOOPS; loop++) {
        row.gb_s[loop] = pair->turns[loop].gb_s;
        row.ratio[loop] = pair->ratio[loop];
        row.cpu_ratio[loop] = pair->cpu_ratio[loop];
    }
    return row;
}

static struct row median_row(const struct push_figures *figures)
{
    struct row row = {.name = "med.",
                      .cpu_s_per_gb = MEDIAN(figures, turns[PUSH_OURS].cpu_s_per_gb),
                      .p50_ms = percentile_us(figures, 50) / 1000,
                      .p99_ms = percentile_us(figures, 99) / 1000,
                      .core_ns = MEDIAN(figures, core_round_trip_ns)};

    for (int loop = 0; loop < PUSH_LOOPS; loop++) {
        row.gb_s[loop] = MEDIAN(figures, turns[loop].gb_s);
        row.ratio[loop] = MEDIAN(figures, ratio[loop]);
        row.cpu_ratio[loop] = MEDIAN(figures, cpu_ratio[loop]);
    }
    return row;
}

static void row_print(const struct push_figures *figures, const struct row *row, FILE *out)
{
    fprintf(out, "  %4s", row->name);
    for (uint32_t i = 0; i < figures->loop_count; i++)
        fprintf(out, "  %8.3f", row->gb_s[figures->loops[i]]);
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  %9.3f", row->ratio[figures->loops[i]]);
    fprintf(out, "  %8.3f", row->cpu_s_per_gb);
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  %9.3f", row->cpu_ratio[figures->loops[i]]);
    fprintf(out, "  %6.2f  %6.2f  %7.0f\n", row->p50_ms, row->p99_ms, row->core_ns);
}

/* The loops' columns are GB/s, then ours divided by theirs, then the same of CPU time. */
static void head_print(const struct push_figures *figures, FILE *out)
{
    static const char *const names[PUSH_LOOPS] = {"ours", "raw", "same", "against"};

    fprintf(out, "  pair");
    for (uint32_t i = 0; i < figures->loop_count; i++)
        fprintf(out, "  %8s", names[figures->loops[i]]);
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  / %7s", names[figures->loops[i]]);
    fprintf(out, "  CPU s/GB");
    for (uint32_t i = 1; i < figures->loop_count; i++)
        fprintf(out, "  / %7s", names[figures->loops[i]]);
    fprintf(out, "  p50 ms  p99 ms  core ns\n");
}

void push_figures_print(const struct push_figures *figures, const struct bench_options *options,
                        FILE *out)
{
    static const char *const names[PUSH_LOOPS] = {"quartiles of GB/s: ", ", raw ", ", same ",
                                                  ", against "};
    struct row row;

    print_setting(figures, options, out);
    head_print(figures, out);
    for (uint32_t i = 0; i < figures->pair_count; i++) {
        row = pair_row(figures, i);
        row_print(figures, &row, out);
    }
    row = median_row(figures);
    row_print(figures, &row, out);
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

static void set_loop(json_t *object, const struct push_pair *pair, enum push_loop loop)
{
    const char *const *keys = loop_keys[loop];
    const struct push_turn *turn = &pair->turns[loop];

    set_real(object, keys[0], turn->gb_s);
    set_real(object, keys[1], turn->cpu_s_per_gb);
    set_count(object, keys[2], turn->bytes);
    set_count(object, keys[3], turn->writes);
    if (loop == PUSH_OURS)
        return;
    set_real(object, keys[4], pair->ratio[loop]);
    set_real(object, keys[5], pair->cpu_ratio[loop]);
}

static json_t *pair_json(const struct push_figures *figures, const struct push_pair *pair)
{
    static const char *const firsts[PUSH_LOOPS] = {"ours", "raw", "same", "against"};
    json_t *object = json_object(), *rails = json_array();

    for (uint32_t i = 0; i < figures->loop_count; i++)
        set_loop(object, pair, figures->loops[i]);
    for (uint32_t i = 0; i < figures->rail_count; i++)
        json_array_append_new(rails, json_real(pair->rail_gb_s[i]));
    if (figures->rail_count > 0)
        json_object_set(object, "raw_rails_gb_s", rails);
    json_decref(rails);
    set_real(object, "p50_us", pair->p50_us);
    set_real(object, "p99_us", pair->p99_us);
    set_real(object, "max_us", pair->max_us);
    set_count(object, "retries", pair->retries);
    set_real(object, "core_round_trip_ns", pair->core_round_trip_ns);
    json_object_set_new(object, "first", json_string(firsts[pair->first]));
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

    for (uint32_t i = 0; i < figures->loop_count; i++) {
        enum push_loop loop = figures->loops[i];
        const char *const *keys = loop_keys[loop];

        set_real(report, keys[0], MEDIAN(figures, turns[loop].gb_s));
        set_real(report, keys[1], MEDIAN(figures, turns[loop].cpu_s_per_gb));
        if (loop == PUSH_OURS)
            continue;
        set_real(report, keys[4], MEDIAN(figures, ratio[loop]));
        set_real(report, keys[5], MEDIAN(figures, cpu_ratio[loop]));
    }
    set_count(report, "writes", writes_of(figures));
    set_real(report, "p50_us", percentile_us(figures, 50));
    set_real(report, "p99_us", percentile_us(figures, 99));
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
    json_t *against = json_array();
    char waiting[160];

    waiting_text(figures, options, waiting);
    json_object_set_new(report, "provider", json_string(options->provider));
    json_object_set_new(report, "device", json_string(options->device));
    set_count(report, "rails", options->rails);
    set_count(report, "page_bytes", options->page_bytes);
    set_count(report, "pages", options->pages);
    set_count(report, "layers", options->layers);
    set_count(report, "fetches", options->fetches);
    json_object_set_new(report, "contiguous", json_boolean(options->contiguous));
    set_real(report, "seconds", (double)options->duration / (double)KVR_S);
    json_object_set_new(report, "waiting", json_string(waiting));
    json_object_set_new(report, "tcp_congestion", json_string(options->posting.tcp_congestion));
    json_object_set_new(report, "raw_tcp_congestion", json_string(options->raw_congestion));
    json_object_set_new(report, "raw", shape_json(&figures->shapes[PUSH_RAW]));
    if (has(figures, PUSH_SAME)) {
        json_object_set_new(report, "same", shape_json(&figures->shapes[PUSH_SAME]));
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
    set_count(report, "pages_checked", figures->pages_checked);
    json_object_set_new(report, "machine", machine_json(figures));
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
    return bench_json_write(report, path);
}
