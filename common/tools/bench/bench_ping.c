/* `kvrail bench ping`: how long one page takes, and what each of our layers adds to it. */
#include "tools/bench/bench_ping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_cli.h"
#include "tools/interrupt.h"

#define OPTIONS struct ping_options
#define WAYS    3

static const struct kvr_option options[] = {
    BENCH_OPTION_PROVIDER(OPTIONS, "Provider of the rails."),
    BENCH_OPTION_PAGE_BYTES(OPTIONS, "pages", "64k", 1u << 20, "The page; a multiple of 1024."),
    {.name = "pings",
     .section = "measuring",
     .fallback = "1000",
     .min = 1,
     .max = 100000,
     KVR_OPTION_COUNT(OPTIONS, pings),
     .help = "Of each way and each manner of waiting, a pause between two."},
    BENCH_OPTION_TLS(OPTIONS),
    JSON_OUTPUT_OPTION(OPTIONS, "output", "the figures"),
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
        "engines sleep always, as an engine's loop does.\n\n"
        "Every station on the way notes the time, so that what agents and engines take above raw\n"
        "is explained by parts that are all of it.",
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail bench ping --provider tcp --json",
};

static const char *const names[WAYS] = {"raw", "agents", "engines"};

struct figures {
    struct ping_account ways[WAYS][2]; /* asleep, spinning */
};

static bool way_measure(int way, struct ping_pair *pair, const struct ping_options *chosen,
                        bool spin, struct ping_sample *samples)
{
    if (way == 0)
        return ping_raw(pair, chosen, spin, samples);
    return way == 1 ? ping_groups(pair, chosen, spin, samples)
                    : ping_engines(chosen, spin, samples);
}

static bool measure(const struct ping_options *chosen, struct figures *figures)
{
    static struct ping_pair pair;
    struct ping_sample *samples = calloc(chosen->pings, sizeof(*samples));
    bool good = samples != NULL && ping_pair_open(&pair, chosen);

    if (samples == NULL)
        perror("kvrail bench ping");
    for (int i = 0; i < 2 * WAYS && good; i++) {
        memset(samples, 0, chosen->pings * sizeof(*samples));
        good = way_measure(i % WAYS, &pair, chosen, i >= WAYS, samples);
        ping_account_make(samples, chosen->pings, &figures->ways[i % WAYS][i / WAYS]);
    }
    ping_pair_close(&pair);
    free(samples);
    return good;
}

/* What each part takes beyond raw's own is where the difference of the two comes from. */
static json_t *parts_json(const struct ping_account *way, const struct ping_account *raw)
{
    json_t *parts = json_object();

    for (int i = PING_ASKED + 1; i < PING_STATION_END; i++)
        if (way->on_way[i] || (raw != NULL && raw->on_way[i]))
            json_object_set_new(parts, ping_station_name((ping_station)i),
                                json_real(way->parts_us[i] - (raw != NULL ? raw->parts_us[i] : 0)));
    return parts;
}

static json_t *way_json(const struct ping_account *way, const struct ping_account *raw)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:f, s:o, s:f, s:o}", "p50_us", way->p50_us, "p99_us",
                     way->p99_us, "above_raw_p50_us", way->p50_us - raw->p50_us, "pings",
                     (json_int_t)way->count, "middle_us", way->middle_us, "parts_us",
                     parts_json(way, NULL), "above_raw_us", way->middle_us - raw->middle_us,
                     "above_raw_parts_us", parts_json(way, raw));
}

static json_t *figures_json(const struct ping_options *chosen, const struct figures *figures)
{
    json_t *report = json_pack("{s:s, s:I, s:b}", "provider", chosen->provider, "page_bytes",
                               (json_int_t)chosen->page_bytes, "tls", chosen->tls);

    for (int way = 0; way < WAYS; way++)
        json_object_set_new(report, names[way],
                            json_pack("{s:o, s:o}", "spinning",
                                      way_json(&figures->ways[way][1], &figures->ways[0][1]),
                                      "sleeping",
                                      way_json(&figures->ways[way][0], &figures->ways[0][0])));
    return report;
}

static void print_parts(const struct figures *figures)
{
    printf("\nwhere they go, means of the middle fifth of the pings\n");
    printf("             spinning                  sleeping\n");
    printf("  until      raw   agents  engines     raw   agents  engines\n");
    for (int i = PING_ASKED + 1; i < PING_STATION_END; i++) {
        printf("  %-7s", ping_station_name((ping_station)i));
        for (int k = 0; k < 2 * WAYS; k++)
            printf(k == 0 ? " %7.1f" : " %8.1f", figures->ways[k % WAYS][1 - k / WAYS].parts_us[i]);
        printf("   %s\n", ping_station_text((ping_station)i));
    }
    printf("  %-7s", "sum");
    for (int k = 0; k < 2 * WAYS; k++)
        printf(k == 0 ? " %7.1f" : " %8.1f", figures->ways[k % WAYS][1 - k / WAYS].middle_us);
    printf("\n");
}

static void print(const struct ping_options *chosen, const struct figures *figures)
{
    printf("%s, one page of %.10g KiB, %u pings, microseconds\n\n", chosen->provider,
           (double)chosen->page_bytes / 1024, (unsigned)chosen->pings);
    printf("             spinning             sleeping\n");
    printf("             p50      p99         p50      p99\n");
    for (int way = 0; way < WAYS; way++)
        printf("  %-7s %6.1f %8.1f    %8.1f %8.1f\n", names[way], figures->ways[way][1].p50_us,
               figures->ways[way][1].p99_us, figures->ways[way][0].p50_us,
               figures->ways[way][0].p99_us);
    print_parts(figures);
}

int bench_ping_main(int argc, char **argv)
{
    static struct ping_options chosen;
    static struct figures figures;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &chosen, &exit_status))
        return exit_status;
    if (chosen.page_bytes % 1024 != 0)
        return kvr_options_refuse(&command, "--page-bytes must be a multiple of 1024");
    interrupt_catch();
    if (!measure(&chosen, &figures))
        return 1;
    if (!json_output_replaces_text(chosen.json))
        print(&chosen, &figures);
    return json_output_write(figures_json(&chosen, &figures), chosen.json) ? 0 : 1;
}
