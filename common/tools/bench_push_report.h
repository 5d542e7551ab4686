/* What `kvrail bench push` found, as JSON and as a table. */
#ifndef KVR_TOOLS_BENCH_PUSH_REPORT_H
#define KVR_TOOLS_BENCH_PUSH_REPORT_H

#include <stdio.h>

#include "base/histogram.h"
#include "tools/bench_options.h"
#include "tools/bench_stats.h"

struct push_pair {
    double gb_s, raw_gb_s, ratio, cpu_s_per_gb, raw_cpu_s_per_gb;
    double p50_us, p99_us, max_us;
    double core_round_trip_ns; /* just before */
    uint64_t bytes, raw_bytes, writes, retries, raw_writes;
    bool raw_first;
};

struct push_figures {
    struct push_pair pairs[BENCH_PAIRS_MAX];
    uint32_t pair_count;
    uint32_t raw_window;
    struct kvr_histogram fetch_ns; /* of all pairs */
    double load_at_start;
    uint64_t pages_checked;
};

/* True when the raw loop's turns lie so near each other that a ratio means something. */
bool push_figures_quiet(const struct push_figures *figures, double *ret_spread);
void push_figures_print(const struct push_figures *figures, const struct bench_options *options,
                        FILE *out);
/* path "-": standard output. False: said on stderr. */
bool push_figures_write(const struct push_figures *figures, const struct bench_options *options,
                        const char *path);

#endif
