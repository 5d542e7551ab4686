/* What a rail carries and what its writes cost, from this process to a target in another one, which
 * may be in another network namespace. One thread in each; the target's polls all the time. */
#ifndef KVR_TOOLS_BENCH_CALIBRATE_COSTS_H
#define KVR_TOOLS_BENCH_CALIBRATE_COSTS_H

#include "fabric/calibration.h"
#include "tools/bench/bench_child.h"

struct calibrate_shared;

struct calibrate_costs {
    const char *provider;
    const char *rail, *target_rail; /* as agents name rails */
    const char *target_netns;       /* path of its namespace; "": ours */
    struct bench_child child;
    struct calibrate_shared *shared; /* with the child */
};

/* Forks the target, so it comes before anything that starts threads. False: said on stderr. */
bool calibrate_costs_open(struct calibrate_costs *costs);
/* Measures so many rounds; false: said on stderr. */
bool calibrate_costs_measure(struct calibrate_costs *costs, uint64_t rounds,
                             struct kvr_calibration_costs *ret_costs);
void calibrate_costs_close(struct calibrate_costs *costs);

#endif
