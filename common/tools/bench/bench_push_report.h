/* What `kvrail bench push` found, as JSON and as a table. */
#ifndef KVR_TOOLS_BENCH_PUSH_REPORT_H
#define KVR_TOOLS_BENCH_PUSH_REPORT_H

#include <stdio.h>

#include "base/histogram.h"
#include "base/limits.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_stats.h"

/* The loops that take turns. */
enum push_loop {
    PUSH_OURS,    /* engines, agents, wire */
    PUSH_RAW,     /* the raw loop: a page a write; with --contiguous 1 MiB a write */
    PUSH_SAME,    /* the raw loop with as many pages a write as ours had; not with --netns */
    PUSH_AGAINST, /* as ours, with agents of other options; only with --against */
    PUSH_LOOPS
};

struct push_turn {
    double gb_s, cpu_s_per_gb;
    uint64_t bytes, writes;
};

/* One turn of each loop, right after each other. */
struct push_pair {
    struct push_turn turns[PUSH_LOOPS]; /* with --netns RAW is the sum over the rails, each alone */
    double rail_gb_s[KVR_RAILS_MAX];    /* --netns: of the raw loop on each rail alone */
    double ratio[PUSH_LOOPS], cpu_ratio[PUSH_LOOPS]; /* of ours to that of each loop */
    double p50_us, p99_us, max_us;                   /* of our fetches */
    double core_round_trip_ns;                       /* just before */
    uint64_t retries;
    enum push_loop first;
};

struct push_figures {
    struct push_pair pairs[BENCH_PAIRS_MAX];
    uint32_t pair_count;
    enum push_loop loops[PUSH_LOOPS]; /* those that take turns */
    uint32_t loop_count;
    struct bench_raw_shape shapes[PUSH_LOOPS]; /* of the raw loops */
    struct kvr_histogram fetch_ns;             /* of all pairs */
    double load_at_start;
    uint64_t pages_checked;
    uint32_t rail_count; /* of rail_gb_s; 0: without --netns */
    const char *way;     /* of --netns; NULL */
};

/* True when the raw loops' turns lie so near each other that a ratio means something. */
bool push_figures_quiet(const struct push_figures *figures, double *ret_spread);
void push_figures_print(const struct push_figures *figures, const struct bench_options *options,
                        FILE *out);
/* path "-": standard output. False: said on stderr. */
bool push_figures_write(const struct push_figures *figures, const struct bench_options *options,
                        const char *path);

#endif
