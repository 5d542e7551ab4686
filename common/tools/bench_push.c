/* `kvrail bench push`: starts everything, takes turns, stops everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_cores.h"
#include "tools/bench_push_engine.h"
#include "tools/bench_push_report.h"
#include "tools/bench_raw.h"

struct push {
    struct bench_options options;
    struct bench_pool pool;
    struct bench_agents agents;
    struct push_engines engines;
    struct bench_raw raw;
    struct push_figures figures;
};

static double seconds_between(const struct bench_result *result)
{
    return (double)(result->last_at - result->first_at) / (double)KVR_S;
}

static kvr_ns own_cpu_time(const struct push *push)
{
    return bench_cpu_time(push->agents.source) + bench_cpu_time(push->agents.target) +
           push_engines_cpu_time(&push->engines);
}

static bool own_turn(struct push *push, struct push_pair *pair)
{
    struct bench_result result;
    kvr_ns before = own_cpu_time(push), used;

    kvr_histogram_init(push->engines.fetch_ns);
    if (!push_engines_run(&push->engines, push->options.duration, 0, &result))
        return false;
    used = own_cpu_time(push) - before;
    pair->bytes = result.bytes;
    pair->writes = result.writes;
    pair->retries = result.retries;
    pair->gb_s = (double)result.bytes / 1e9 / seconds_between(&result);
    pair->cpu_s_per_gb = (double)used / (double)result.bytes;
    pair->p50_us = (double)kvr_histogram_percentile(push->engines.fetch_ns, 50) / 1e3;
    pair->p99_us = (double)kvr_histogram_percentile(push->engines.fetch_ns, 99) / 1e3;
    pair->max_us = (double)push->engines.fetch_ns->max / 1e3;
    kvr_histogram_merge(&push->figures.fetch_ns, push->engines.fetch_ns);
    return true;
}

static bool raw_turn(struct push *push, struct push_pair *pair)
{
    struct bench_result result;
    kvr_ns before = bench_raw_cpu_time(&push->raw), used;

    if (!bench_raw_run(&push->raw, push->options.duration, push->figures.raw_window,
                       (uint32_t)push->options.raw_pieces, &result))
        return false;
    used = bench_raw_cpu_time(&push->raw) - before;
    pair->raw_bytes = result.bytes;
    pair->raw_writes = result.writes;
    pair->raw_gb_s = (double)result.bytes / 1e9 / seconds_between(&result);
    pair->raw_cpu_s_per_gb = (double)used / (double)result.bytes;
    return true;
}

/* Which goes first alternates, so that a machine that slows down slows both. */
static bool pair_run(struct push *push, struct push_pair *pair, bool raw_first)
{
    bool good;

    pair->raw_first = raw_first;
    pair->core_round_trip_ns = bench_core_round_trip_ns();
    if (raw_first)
        good = raw_turn(push, pair) && own_turn(push, pair);
    else
        good = own_turn(push, pair) && raw_turn(push, pair);
    if (good)
        pair->ratio = pair->gb_s / pair->raw_gb_s;
    return good;
}

static bool check_pages(const struct push *push, const char *who)
{
    uint64_t wrong = bench_pool_wrong(&push->pool, UINT64_MAX);

    if (wrong == 0)
        return true;
    fprintf(stderr, "kvrail bench push: after %s, %llu of %llu pages are not what they should be\n",
            who, (unsigned long long)wrong,
            (unsigned long long)push->pool.layers * push->pool.page_count);
    return false;
}

/* Once through the whole pool, so that every mapping is in place, and a look whether the pages
 * really went where they belong. */
static bool warm_up(struct push *push)
{
    struct bench_result result;

    bench_pool_stamp(&push->pool);
    if (!push_engines_run(&push->engines, 0, push->pool.slices, &result) ||
        !check_pages(push, "kvrail's turn"))
        return false;
    push->figures.pages_checked = (uint64_t)push->pool.layers * push->pool.page_count;
    push->figures.raw_window = (uint32_t)push->options.raw_window;
    if (push->figures.raw_window == 0)
        push->figures.raw_window =
            bench_raw_calibrate(&push->raw, (uint32_t)push->options.raw_pieces);
    return push->figures.raw_window > 0;
}

static bool measure(struct push *push)
{
    if (!warm_up(push))
        return false;
    for (uint32_t i = 0; i < push->options.pairs; i++) {
        if (!pair_run(push, &push->figures.pairs[i], i % 2 == 1))
            return false;
        push->figures.pair_count = i + 1;
    }
    return true;
}

static bool start(struct push *push)
{
    const struct bench_options *options = &push->options;

    push->engines.options = options;
    push->engines.pool = &push->pool;
    push->engines.agents = &push->agents;
    return bench_pool_open(&push->pool, options->page_bytes, (uint32_t)options->layers,
                           (uint32_t)(options->pages / options->layers), options->pool_bytes,
                           options->scatter) &&
           bench_agents_start(&push->agents, options) && push_engines_start(&push->engines) &&
           bench_raw_start(&push->raw, options, &push->pool);
}

static void stop(struct push *push)
{
    push_engines_stop(&push->engines);
    bench_raw_stop(&push->raw);
    bench_agents_stop(&push->agents);
    bench_pool_close(&push->pool);
}

static int report(const struct push *push)
{
    const char *json = push->options.json;
    double spread;

    if (strcmp(json, "-") != 0)
        push_figures_print(&push->figures, &push->options, stdout);
    if (json[0] != '\0' && !push_figures_write(&push->figures, &push->options, json))
        return 1;
    if (push_figures_quiet(&push->figures, &spread))
        return 0;
    fprintf(stderr,
            "kvrail bench push: the machine was not quiet: the middle half of the raw loop's turns "
            "lies %.0f %% of their median apart, and 15 %% is the most that lets a ratio mean "
            "something\n",
            spread * 100);
    return BENCH_EXIT_NOT_QUIET;
}

int bench_push_main(int argc, char **argv)
{
    static struct push push;
    int exit_status;
    bool good;

    if (!bench_options_load(argc, argv, &push.options, &exit_status))
        return exit_status;
    bench_catch_signals();
    (void)getloadavg(&push.figures.load_at_start, 1);
    good = start(&push) && measure(&push);
    stop(&push);
    return good ? report(&push) : 1;
}
