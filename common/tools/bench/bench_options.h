/* What `kvrail bench push` was asked for. */
#ifndef KVR_TOOLS_BENCH_OPTIONS_H
#define KVR_TOOLS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/options.h"
#include "rail_group/rail_options.h"
#include "tools/json_output.h"

#define BENCH_FETCHES_MAX    64u
#define BENCH_PAIRS_MAX      1000u
#define BENCH_EXIT_NOT_QUIET 75

struct bench_options {
    char provider[16];
    uint64_t rails, netns, target_rails, rail_mbits, slow_mbits;
    struct kvr_option_list planes;    /* --netns: as typed, of the target's rails */
    uint32_t plane_of[KVR_RAILS_MAX]; /* as numbers; 0 in the first: there are none */
    uint64_t page_bytes, pages, layers, fetches, pool_bytes;
    bool contiguous, scatter;
    uint64_t pairs;
    kvr_ns duration; /* of one side of a pair */
    uint64_t raw_window;
    char raw_congestion[16]; /* of the raw loops; "" on the command line: as the agents' */
    struct kvr_posting_config posting; /* the agents'; the raw loops have some of it too */
    struct kvr_copying_config copying;
    struct kvr_option_list against; /* NAME=VALUE, of a second pair of agents; or none */
    char device[16];                /* where the pages lie */
    bool tls;                       /* the agents get certificates; else --insecure */
    bool stamps;                    /* they note when layers pass */
    char json[JSON_OUTPUT_PATH_BYTES];
};

/* The agents' options get the defaults that agents have; all others are zero. */
void bench_options_init(struct bench_options *options);
/* From the command line. False: leave with *ret_exit. */
bool bench_options_load(int argc, char **argv, struct bench_options *options, int *ret_exit);

#endif
