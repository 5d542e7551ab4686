/* What `kvrail bench beside` is asked, and what it finds. */
#ifndef KVR_TOOLS_BENCH_BESIDE_H
#define KVR_TOOLS_BENCH_BESIDE_H

#include <jansson.h>

#include "base/options.h"
#include "tools/json_output.h"

#define BENCH_BESIDE_ROUNDS_MAX 64u

struct bench_beside_options {
    char provider[16], warm_up[8], json[JSON_OUTPUT_PATH_BYTES];
    struct kvr_option_list agents;
    uint64_t page_bytes, huge_bytes, rounds, window_bytes;
    kvr_ns rest;
    bool at_once, tls;
};

/* Medians, in microseconds. */
struct bench_beside_round {
    double alone_us, alone_control_us, rested_us;
    double beside_us, beside_max_us, beside_control_us, huge_gb_s;
    uint64_t beside_count;
};

struct bench_beside_figures {
    double first_us; /* the first after the hello */
    double warm_us;  /* from the hello until the pairs of rails are connected; 0: it was not waited
                        for, or had been before */
    uint64_t window_bytes;                                     /* of the agents' rails */
    struct bench_beside_round rounds[BENCH_BESIDE_ROUNDS_MAX]; /* options->rounds */
};

json_t *bench_beside_json(const struct bench_beside_figures *figures,
                          const struct bench_beside_options *options);
void bench_beside_print(const struct bench_beside_figures *figures,
                        const struct bench_beside_options *options);

#endif
