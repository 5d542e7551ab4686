/* What `kvrail bench push` was asked for. */
#ifndef KVR_TOOLS_BENCH_OPTIONS_H
#define KVR_TOOLS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/options.h"

#define BENCH_FETCHES_MAX    64u
#define BENCH_PAIRS_MAX      1000u
#define BENCH_EXIT_NOT_QUIET 75

struct bench_options {
    char provider[16];
    uint64_t rails, netns, target_rails, rail_mbits, slow_mbits;
    uint64_t page_bytes, pages, layers, fetches, pool_bytes;
    bool contiguous;
    uint64_t pairs;
    char seconds_text[32];
    kvr_ns duration; /* of one side of a pair */
    uint64_t raw_window, local_copy_threads;
    kvr_ns spin;
    /* The agents'; "" their default. */
    char chunk_bytes_max[32], window_bytes[32], window_writes[32], pieces[32], batch[32], lazy[8],
        choice[8], warm_up[8], inline_bytes[32];
    struct kvr_option_list against;      /* NAME=VALUE, of a second pair of agents; or none */
    char device[16], staging_memory[32]; /* where the pages lie; "": in host memory */
    bool stamps;                         /* they note when layers pass */
    char json[4096];
};

/* From the command line. False: leave with *ret_exit. */
bool bench_options_load(int argc, char **argv, struct bench_options *options, int *ret_exit);

#endif
