#include "tools/bench/bench_stats.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Of sorted values; share is 0 to 1. */
static double quantile(const double *values, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;

    if (below + 1 >= count)
        return values[count - 1];
    return values[below] + (at - (double)below) * (values[below + 1] - values[below]);
}

struct bench_spread bench_spread_of(double *values, size_t count)
{
    if (count == 0)
        return (struct bench_spread){0};
    qsort(values, count, sizeof(values[0]), compare);
    return (struct bench_spread){
        .min = values[0],
        .quarter = quantile(values, count, 0.25),
        .median = quantile(values, count, 0.5),
        .three_quarters = quantile(values, count, 0.75),
        .max = values[count - 1],
    };
}

size_t bench_choose(const double *rates, size_t rounds, size_t choices, size_t fallback)
{
    double gains[BENCH_ROUNDS_MAX], best = 0;
    size_t chosen = fallback;

    for (size_t choice = 0; choice < choices; choice++) {
        struct bench_spread spread;
        size_t count = 0;

        for (size_t round = 0; round < rounds && count < BENCH_ROUNDS_MAX; round++) {
            const double *values = &rates[round * choices];

            if (values[fallback] > 0)
                gains[count++] = values[choice] / values[fallback];
        }
        spread = bench_spread_of(gains, count);
        if (choice == fallback || spread.min <= 1 || spread.quarter < BENCH_BEYOND_NOISE ||
            spread.median <= best)
            continue;
        best = spread.median;
        chosen = choice;
    }
    return chosen;
}

double bench_spread_relative(const struct bench_spread *spread)
{
    if (spread->median <= 0)
        return 0;
    return (spread->three_quarters - spread->quarter) / spread->median;
}
