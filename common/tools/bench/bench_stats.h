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

/* rates: rounds of one value for each choice, rates[round × choices + choice], taken in turn. The
 * choice to leave `fallback` for: it was never worse, in three rounds of four better by
 * BENCH_BEYOND_NOISE or more, and no other's median gain is larger; else `fallback`. A round in
 * which the fallback has no rate says nothing. */
#define BENCH_BEYOND_NOISE 1.05
#define BENCH_ROUNDS_MAX   64u /* those after it are not looked at */
size_t bench_choose(const double *rates, size_t rounds, size_t choices, size_t fallback);

#endif
