#include "tools/bench_stats.h"

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

double bench_spread_relative(const struct bench_spread *spread)
{
    if (spread->median <= 0)
        return 0;
    return (spread->three_quarters - spread->quarter) / spread->median;
}
