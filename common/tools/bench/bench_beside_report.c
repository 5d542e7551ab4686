/* `kvrail bench beside`: its figures as JSON and as a table. */
#include "tools/bench/bench_beside.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/bench_stats.h"

/* The medians over all rounds. */
struct medians {
    double alone_us, alone_control_us, rested_us, beside_us, beside_control_us, huge_gb_s;
    double window_us;    /* how long the window takes at that speed */
    double passed_bytes; /* of the huge one, while a small one waited */
};

static double median_of(const struct bench_beside_figures *figures, uint64_t rounds, size_t offset)
{
    double values[BENCH_BESIDE_ROUNDS_MAX];

    for (uint64_t i = 0; i < rounds; i++)
        memcpy(&values[i], (const char *)&figures->rounds[i] + offset, sizeof(values[i]));
    return bench_spread_of(values, rounds).median;
}

static struct medians medians_of(const struct bench_beside_figures *figures, uint64_t rounds)
{
#define MEDIAN(field)                                                                              \
    .field = median_of(figures, rounds, offsetof(struct bench_beside_round, field))
    struct medians medians = {MEDIAN(alone_us),  MEDIAN(alone_control_us),  MEDIAN(rested_us),
                              MEDIAN(beside_us), MEDIAN(beside_control_us), MEDIAN(huge_gb_s)};
#undef MEDIAN
    double passed[BENCH_BESIDE_ROUNDS_MAX];

    for (uint64_t i = 0; i < rounds; i++)
        passed[i] = figures->rounds[i].beside_us * figures->rounds[i].huge_gb_s * 1e3;
    medians.passed_bytes = bench_spread_of(passed, rounds).median;
    medians.window_us = (double)figures->window_bytes / medians.huge_gb_s / 1e3;
    return medians;
}

static json_t *rounds_json(const struct bench_beside_figures *figures, uint64_t count)
{
    json_t *rounds = json_array();

    for (uint64_t i = 0; i < count; i++) {
        const struct bench_beside_round *round = &figures->rounds[i];

        json_array_append_new(
            rounds,
            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "rested_us", round->rested_us,
                      "alone_us", round->alone_us, "alone_control_us", round->alone_control_us,
                      "beside_us", round->beside_us, "beside_max_us", round->beside_max_us,
                      "beside_control_us", round->beside_control_us, "huge_gb_s", round->huge_gb_s,
                      "beside_count", (json_int_t)round->beside_count));
    }
    return rounds;
}

json_t *bench_beside_json(const struct bench_beside_figures *figures,
                          const struct bench_beside_options *options)
{
    struct medians median = medians_of(figures, options->rounds);

    return json_pack(
        "{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, s:o}",
        "provider", options->provider, "warm_up", options->warm_up, "at_once", options->at_once,
        "rest_ns", (json_int_t)options->rest, "page_bytes", (json_int_t)options->page_bytes,
        "huge_bytes", (json_int_t)options->huge_bytes, "window_bytes",
        (json_int_t)figures->window_bytes, "warm_us", figures->warm_us, "first_us",
        figures->first_us, "first_ratio", figures->first_us / median.rested_us,
        "first_ratio_in_a_row", figures->first_us / median.alone_us, "rested_us", median.rested_us,
        "alone_us", median.alone_us, "alone_control_us", median.alone_control_us, "beside_us",
        median.beside_us, "beside_control_us", median.beside_control_us, "huge_gb_s",
        median.huge_gb_s, "passed_bytes", median.passed_bytes, "window_us", median.window_us,
        "allowed_us", 2 * median.alone_us + median.window_us, "rounds",
        rounds_json(figures, options->rounds));
}

void bench_beside_print(const struct bench_beside_figures *figures,
                        const struct bench_beside_options *options)
{
    struct medians median = medians_of(figures, options->rounds);

    printf("%s, one page of %.10g KiB beside %.10g MiB, microseconds, medians of %u rounds\n\n",
           options->provider, (double)options->page_bytes / 1024,
           (double)options->huge_bytes / (1 << 20), (unsigned)options->rounds);
    printf("  first after the hello  %8.1f   at most %.1f: 1.5 of one after a rest\n",
           figures->first_us, 1.5 * median.rested_us);
    printf("  after a rest           %8.1f\n", median.rested_us);
    printf("  alone, in a row        %8.1f   of that agreeing %.1f\n", median.alone_us,
           median.alone_control_us);
    printf(
        "  beside the huge one    %8.1f   of that agreeing %.1f; at most %.1f: twice alone and a "
        "window of %.1f\n",
        median.beside_us, median.beside_control_us, 2 * median.alone_us + median.window_us,
        median.window_us);
    printf("                                    %.1f MiB of the huge one passed meanwhile\n",
           median.passed_bytes / (1 << 20));
}
