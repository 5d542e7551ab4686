/* `kvrail bench ping`: how long one page takes, and what each of our layers adds to it. */
#include "tools/bench_ping.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_child.h"
#include "tools/bench_cli.h"

#define OPTIONS struct ping_options
#define WAYS    3

static const struct kvr_option options[] = {
    {.name = "provider",
     .section = "rails",
     .choices = "tcp|shm|local",
     .fallback = "tcp",
     KVR_OPTION_CHOICE(OPTIONS, provider),
     .help = "Provider of the rails."},
    {.name = "page-bytes",
     .section = "pages",
     .fallback = "64k",
     .min = 1024,
     .max = 1u << 20,
     KVR_OPTION_SIZE(OPTIONS, page_bytes),
     .help = "The page; a multiple of 1024."},
    {.name = "pings",
     .section = "measuring",
     .fallback = "1000",
     .min = 1,
     .max = 1000000,
     KVR_OPTION_COUNT(OPTIONS, pings),
     .help = "Of each way and each manner of waiting, a pause between two."},
    BENCH_OPTION_JSON(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail bench ping",
    .description =
        "How long one page takes from one side to the other, on one clock:\n"
        "  raw      from before a bare write to its arrival at a thread that polls or sleeps on\n"
        "           its queue: half of a round trip\n"
        "  agents   from the store that asks for it to the arrival, between the threads of two\n"
        "           rail groups\n"
        "  engines  from the source engine's readiness word to the event at the target engine,\n"
        "           through both agents\n"
        "Once with the threads that drive rails spinning between pings, once with all asleep. The\n"
        "engines sleep always, as an engine's loop does.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .footer = "Example:\n"
              "  kvrail bench ping --provider tcp --json",
};

static const char *const names[WAYS] = {"raw", "agents", "engines"};

struct figures {
    struct kvr_histogram times[WAYS][2]; /* by way; asleep, spinning */
};

static bool measure(const struct ping_options *chosen, struct figures *figures)
{
    static struct ping_pair pair;
    bool good = ping_pair_open(&pair, chosen);

    for (int spin = 0; spin < 2 && good; spin++)
        good = ping_raw(&pair, chosen, spin != 0, &figures->times[0][spin]) &&
               ping_groups(&pair, chosen, spin != 0, &figures->times[1][spin]) &&
               ping_engines(chosen, spin != 0, &figures->times[2][spin]);
    ping_pair_close(&pair);
    return good;
}

static double microseconds(const struct kvr_histogram *times, double percent)
{
    return (double)kvr_histogram_percentile(times, percent) / 1e3;
}

static json_t *way_json(const struct kvr_histogram *times, const struct kvr_histogram *raw)
{
    return json_pack("{s:f, s:f, s:f, s:I}", "p50_us", microseconds(times, 50), "p99_us",
                     microseconds(times, 99), "above_raw_p50_us",
                     microseconds(times, 50) - microseconds(raw, 50), "pings",
                     (json_int_t)times->count);
}

static json_t *figures_json(const struct ping_options *chosen, const struct figures *figures)
{
    json_t *report = json_pack("{s:s, s:I}", "provider", chosen->provider, "page_bytes",
                               (json_int_t)chosen->page_bytes);

    for (int way = 0; way < WAYS; way++)
        json_object_set_new(report, names[way],
                            json_pack("{s:o, s:o}", "spinning",
                                      way_json(&figures->times[way][1], &figures->times[0][1]),
                                      "sleeping",
                                      way_json(&figures->times[way][0], &figures->times[0][0])));
    return report;
}

static void print(const struct ping_options *chosen, const struct figures *figures)
{
    printf("%s, one page of %.10g KiB, %u pings, microseconds\n\n", chosen->provider,
           (double)chosen->page_bytes / 1024, (unsigned)chosen->pings);
    printf("             spinning             sleeping\n");
    printf("             p50      p99         p50      p99\n");
    for (int way = 0; way < WAYS; way++)
        printf("  %-7s %6.1f %8.1f    %8.1f %8.1f\n", names[way],
               microseconds(&figures->times[way][1], 50), microseconds(&figures->times[way][1], 99),
               microseconds(&figures->times[way][0], 50),
               microseconds(&figures->times[way][0], 99));
}

int bench_ping_main(int argc, char **argv)
{
    static struct ping_options chosen;
    static struct figures figures;
    json_t *report;
    int exit_status;
    bool written = true;

    if (!bench_load(&command, argc, argv, &chosen, &exit_status))
        return exit_status;
    if (chosen.page_bytes % 1024 != 0)
        return kvr_options_refuse(&command, "--page-bytes must be a multiple of 1024");
    bench_catch_signals();
    for (int i = 0; i < 2 * WAYS; i++)
        kvr_histogram_init(&figures.times[i / 2][i % 2]);
    if (!measure(&chosen, &figures))
        return 1;
    if (strcmp(chosen.json, "-") != 0)
        print(&chosen, &figures);
    if (chosen.json[0] != '\0') {
        report = figures_json(&chosen, &figures);
        written = bench_json_write(report, chosen.json);
        json_decref(report);
    }
    return written ? 0 : 1;
}
