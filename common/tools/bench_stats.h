/* What repeated measurements say: the median and how far they lie apart. */
#ifndef KVR_TOOLS_BENCH_STATS_H
#define KVR_TOOLS_BENCH_STATS_H

#include <stddef.h>

/* Quartiles lie between neighbours where the count demands it, as numpy's and R's default do. All
 * zero when count is 0. */
struct bench_spread {
    double min, quarter, median, three_quarters, max;
};

/* Sorts values. */
struct bench_spread bench_spread_of(double *values, size_t count);

/* Interquartile range as a share of the median; 0 when the median is 0. */
double bench_spread_relative(const struct bench_spread *spread);

#endif
