/* `kvrail bench push`: starts everything, takes turns, stops everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_provider.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_cores.h"
#include "tools/bench/bench_netns.h"
#include "tools/bench/bench_push_engine.h"
#include "tools/bench/bench_push_report.h"
#include "tools/bench/bench_raw.h"
#include "tools/interrupt.h"

#define CONTIGUOUS_BYTES (1u << 20) /* a raw write with --contiguous */
#define CAPPED_WINDOW    16 /* of the raw loop where a rail and not its window is the limit */

/* Agents and the engines at them. */
struct push_side {
    struct bench_agents agents;
    struct push_engines engines;
};

struct push {
    struct bench_options options;
    struct bench_rails rails;
    struct bench_netns netns;
    struct bench_pool pool;
    struct push_side ours, against; /* against: where --against is given */
    struct bench_raw raw;
    struct push_figures figures;
};

static double gb_s(const struct bench_result *result)
{
    return (double)result->bytes / (double)(result->last_at - result->first_at);
}

static struct push_turn turn_of(const struct bench_result *result, kvr_ns cpu_time)
{
    return (struct push_turn){.gb_s = gb_s(result),
                              .cpu_s_per_gb = (double)cpu_time / (double)result->bytes,
                              .bytes = result->bytes,
                              .writes = result->writes};
}

static kvr_ns side_cpu_time(const struct push_side *side)
{
    return bench_cpu_time(side->agents.source) + bench_cpu_time(side->agents.target) +
           push_engines_cpu_time(&side->engines);
}

static bool side_turn(const struct push *push, struct push_side *side, struct push_turn *turn,
                      struct bench_result *ret_result)
{
    kvr_ns before = side_cpu_time(side);

    kvr_histogram_init(side->engines.fetch_ns);
    if (!push_engines_run(&side->engines, push->options.duration, 0, ret_result))
        return false;
    *turn = turn_of(ret_result, side_cpu_time(side) - before);
    return true;
}

static bool own_turn(struct push *push, struct push_pair *pair)
{
    const struct kvr_histogram *fetch_ns = push->ours.engines.fetch_ns;
    struct bench_result result;

    if (!side_turn(push, &push->ours, &pair->turns[PUSH_OURS], &result))
        return false;
    pair->retries = result.retries;
    pair->p50_us = (double)kvr_histogram_percentile(fetch_ns, 50) / 1e3;
    pair->p99_us = (double)kvr_histogram_percentile(fetch_ns, 99) / 1e3;
    pair->max_us = (double)fetch_ns->max / 1e3;
    kvr_histogram_merge(&push->figures.fetch_ns, fetch_ns);
    return true;
}

static bool raw_turn(struct push *push, const struct bench_raw_shape *shape, struct push_turn *turn)
{
    struct bench_result result;
    kvr_ns before = bench_raw_cpu_time(&push->raw);

    if (!bench_raw_run(&push->raw, push->options.duration, shape, &result))
        return false;
    *turn = turn_of(&result, bench_raw_cpu_time(&push->raw) - before);
    return true;
}

/* Each rail alone that has a partner: what all together could carry. */
static bool rails_turn(struct push *push, struct push_pair *pair)
{
    struct push_turn *sum = &pair->turns[PUSH_RAW], turn;
    struct bench_raw_shape shape = push->figures.shapes[PUSH_RAW];
    double cpu_s = 0;

    for (shape.rail = 0; shape.rail < push->figures.rail_count; shape.rail++) {
        if (bench_rails_partner(&push->rails, true, shape.rail) == BENCH_RAIL_NONE)
            continue;
        if (!raw_turn(push, &shape, &turn))
            return false;
        pair->rail_gb_s[shape.rail] = turn.gb_s;
        sum->gb_s += turn.gb_s;
        sum->bytes += turn.bytes;
        sum->writes += turn.writes;
        cpu_s += turn.cpu_s_per_gb * (double)turn.bytes;
    }
    sum->cpu_s_per_gb = cpu_s / (double)sum->bytes;
    return true;
}

static bool loop_turn(struct push *push, struct push_pair *pair, enum push_loop loop)
{
    struct bench_result result;

    if (loop == PUSH_OURS)
        return own_turn(push, pair);
    if (loop == PUSH_AGAINST)
        return side_turn(push, &push->against, &pair->turns[loop], &result);
    if (push->figures.rail_count > 0)
        return rails_turn(push, pair);
    return raw_turn(push, &push->figures.shapes[loop], &pair->turns[loop]);
}

/* Which goes first, and which way round, changes, so that a machine that slows down slows all. */
static bool pair_run(struct push *push, struct push_pair *pair, uint32_t number)
{
    const struct push_figures *figures = &push->figures;
    const struct push_turn *ours = &pair->turns[PUSH_OURS];
    uint32_t count = figures->loop_count;

    pair->first = figures->loops[number % count];
    pair->core_round_trip_ns = bench_core_round_trip_ns();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t step = number % 2 == 0 ? i : count - i;

        if (!loop_turn(push, pair, figures->loops[(number + step) % count]))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        enum push_loop loop = figures->loops[i];

        pair->ratio[loop] = ours->gb_s / pair->turns[loop].gb_s;
        pair->cpu_ratio[loop] = ours->cpu_s_per_gb / pair->turns[loop].cpu_s_per_gb;
    }
    return true;
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
static bool side_warm_up(struct push *push, struct push_side *side, struct bench_result *ret_result)
{
    bench_pool_stamp(&push->pool);
    return push_engines_run(&side->engines, 0, push->pool.slices, ret_result) &&
           check_pages(push, "kvrail's turn");
}

static bool warm_up(struct push *push, uint32_t *ret_pages_a_write)
{
    struct bench_result result;
    uint64_t page_bytes = push->pool.page_bytes;

    if (push->options.against.count > 0 && !side_warm_up(push, &push->against, &result))
        return false;
    if (!side_warm_up(push, &push->ours, &result))
        return false;
    push->figures.pages_checked = (uint64_t)push->pool.layers * push->pool.page_count;
    *ret_pages_a_write =
        (uint32_t)((result.bytes + result.writes * page_bytes / 2) / (result.writes * page_bytes));
    return true;
}

/* The most neighbours, up to `most`, that every request has whole numbers of. */
static uint32_t neighbours(const struct push *push, uint64_t most)
{
    uint32_t pages = most < push->pool.slice ? (uint32_t)most : push->pool.slice;

    while (pages > 1 && push->pool.slice % pages != 0)
        pages--;
    return pages > 0 ? pages : 1;
}

/* Each rail will have turns alone: the first one stands for all. */
static bool rails_calibrate(struct push *push, struct bench_raw_shape *raw)
{
    struct bench_raw_shape first = *raw;

    first.rail = bench_rails_partner(&push->rails, false, 0);
    if (first.window == 0)
        first.window = CAPPED_WINDOW;
    if (!bench_raw_calibrate(&push->raw, &first))
        return false;
    raw->window = first.window;
    raw->spins = first.spins;
    return true;
}

static bool choose_shapes(struct push *push, uint32_t pages_a_write)
{
    struct bench_raw_shape *raw = &push->figures.shapes[PUSH_RAW];
    struct bench_raw_shape *same = &push->figures.shapes[PUSH_SAME];
    bool contiguous = push->options.contiguous;

    *raw = *same = (struct bench_raw_shape){.window = (uint32_t)push->options.raw_window,
                                            .pieces = 1,
                                            .pages = 1,
                                            .rail = BENCH_RAILS_ALL};
    if (contiguous) {
        raw->pages = neighbours(push, CONTIGUOUS_BYTES / push->pool.page_bytes);
        same->pages = neighbours(push, pages_a_write);
    } else {
        uint32_t most = bench_raw_pieces_max(&push->raw); /* staged, ours have more */

        same->pieces = pages_a_write < most ? pages_a_write : most;
    }
    if (kvr_provider_find(push->options.provider)->target_copies)
        raw->threads = (uint32_t)push->options.copying.local_copy_threads;
    if (push->figures.rail_count > 0)
        return rails_calibrate(push, raw);
    return (raw->threads > 0 || bench_raw_calibrate(&push->raw, raw)) &&
           bench_raw_calibrate(&push->raw, same);
}

static bool measure(struct push *push)
{
    uint32_t pages_a_write;

    if (!warm_up(push, &pages_a_write) || !choose_shapes(push, pages_a_write))
        return false;
    for (uint32_t i = 0; i < push->options.pairs; i++) {
        if (!pair_run(push, &push->figures.pairs[i], i))
            return false;
        push->figures.pair_count = i + 1;
    }
    return true;
}

/* First of all: it moves this process into another namespace. */
static bool rails_lay(struct push *push)
{
    const struct bench_options *options = &push->options;
    struct bench_netns_options cables = {.source_count = (uint32_t)options->rails,
                                         .target_count = (uint32_t)options->target_rails,
                                         .rail_mbits = (uint32_t)options->rail_mbits,
                                         .slow_mbits = (uint32_t)options->slow_mbits};

    memcpy(cables.planes, options->plane_of, sizeof(cables.planes));
    if (options->netns == 0) {
        bench_rails_loopback(&push->rails, options->provider, (uint32_t)options->rails,
                             (uint32_t)options->rails);
        return true;
    }
    push->figures.rail_count = cables.source_count < cables.target_count || cables.planes[0] != 0
                                   ? cables.source_count
                                   : cables.target_count;
    push->figures.way = push->netns.way;
    return bench_netns_open(&push->netns, &cables, &push->rails);
}

static bool side_start(struct push *push, struct push_side *side,
                       const struct kvr_option_list *others)
{
    side->engines.options = &push->options;
    side->engines.pool = &push->pool;
    side->engines.agents = &side->agents;
    return bench_agents_start(&side->agents, &push->options, &push->rails, others) &&
           push_engines_start(&side->engines);
}

static void side_stop(struct push_side *side)
{
    push_engines_stop(&side->engines);
    bench_agents_stop(&side->agents);
}

static void loops_choose(struct push *push)
{
    struct push_figures *figures = &push->figures;

    figures->loops[figures->loop_count++] = PUSH_OURS;
    figures->loops[figures->loop_count++] = PUSH_RAW;
    if (push->options.netns == 0)
        figures->loops[figures->loop_count++] = PUSH_SAME;
    if (push->options.against.count > 0)
        figures->loops[figures->loop_count++] = PUSH_AGAINST;
}

static bool start(struct push *push)
{
    const struct bench_options *options = &push->options;

    loops_choose(push);
    return rails_lay(push) &&
           bench_pool_open(&push->pool, options->page_bytes, (uint32_t)options->layers,
                           (uint32_t)(options->pages / options->layers), options->pool_bytes,
                           !options->contiguous) &&
           side_start(push, &push->ours, NULL) &&
           (options->against.count == 0 || side_start(push, &push->against, &options->against)) &&
           bench_raw_start(&push->raw, options, &push->rails, &push->pool);
}

static void stop(struct push *push)
{
    bench_raw_stop(&push->raw);
    side_stop(&push->against);
    side_stop(&push->ours);
    bench_pool_close(&push->pool);
    bench_netns_close(&push->netns, &push->rails);
}

static int report(const struct push *push)
{
    const char *json = push->options.json;
    double spread;

    if (!json_output_replaces_text(json))
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
    kvr_libfabric_choose(push.options.posting.libfabric);
    interrupt_catch();
    (void)getloadavg(&push.figures.load_at_start, 1);
    good = start(&push) && measure(&push);
    stop(&push);
    return good ? report(&push) : 1;
}
