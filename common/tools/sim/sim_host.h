/* `kvrail sim --model p5|p5en`: how much of its cards a whole host would use, from published costs
 * of one card and one thread, with the agents' own posting code (push, plan, rail group) in virtual
 * time.
 *
 * A host has 8 groups of 4 cards (p5) or 2 (p5en), as --rail all makes them of its cards; each
 * group has a thread of its own. They are alike and share nothing, so one is run and counted eight
 * times. Cards and threads are fabric/fabric_model.h. What is not modelled: pinning and sharded
 * state (threads here never share a core or a cache line), the target's threads, PCIe and memory.
 */
#ifndef KVR_TOOLS_SIM_HOST_H
#define KVR_TOOLS_SIM_HOST_H

#include "base/clock.h"
#include "base/status.h"
#include "tools/host_costs.h"

#define SIM_HOST_GROUPS 8

typedef enum sim_host_lesson {
    SIM_HOST_BATCH = 1,   /* a doorbell for many writes */
    SIM_HOST_WARM_UP = 2, /* every pair's first write has been through */
} sim_host_lesson;

struct sim_host_case {
    uint64_t page_bytes;
    unsigned without;  /* bits of sim_host_lesson */
    bool slow_card;    /* one of each group at a quarter of its speed */
    kvr_ns virtual_ns; /* how long it runs */
};

struct sim_host_result {
    double gbps;
    double share;               /* of the nominal speed of all cards */
    double ceiling;             /* the share if no card ever waited */
    double busy;                /* of the threads' time */
    double writes_per_s, batch; /* batch: writes a doorbell */
    uint64_t writes, refused;
};

KVR_MUST_CHECK kvr_status sim_host_run(const struct host_costs *costs,
                                       const struct sim_host_case *one,
                                       struct sim_host_result *ret_result, struct kvr_error *error);

/* sim_host_print.c: all cases; json: of the option; returns the exit status. */
int sim_host_report(const struct host_costs *costs, const char *json);

#endif
