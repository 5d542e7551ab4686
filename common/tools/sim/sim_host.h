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

#define SIM_HOST_GROUPS 8

/* What is known of one EFA card of that host and of a thread that drives such cards. */
struct sim_host_costs {
    const char *name;
    uint32_t rails;        /* of a group */
    uint64_t card_bps;     /* as it is sold */
    uint64_t line_bps;     /* what it was seen to send; 0: the next two say so */
    kvr_ns small_write_ns; /* fi_rma_bw, one thread, one card: a write of up to 4 KiB */
    kvr_ns large_write_ns; /* the same: a write of 64 KiB */
    kvr_ns alone_ns;       /* of the thread, a write with a doorbell of its own */
    kvr_ns batched_ns; /* of the thread, when doorbells are shared: fabric-lib's 2.1 M writes/s */
    kvr_ns own_ns;     /* ours: kvrail bench post */
    kvr_ns first_ns;   /* an endpoint's first write takes so much longer */
    kvr_ns latency_ns; /* from the last byte to its completion; nothing depends on it */
    uint32_t queue_writes; /* a card takes so many */
};

extern const struct sim_host_costs sim_host_p5, sim_host_p5en;
/* By name; NULL: there is no such host. */
const struct sim_host_costs *sim_host_find(const char *name);
/* alone_ns of the tutorial's thread before it knew batches: 1,523 Gb/s on eight of them. */
#define SIM_HOST_TUTORIAL_ALONE_NS 2754

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

/* What a card sends. Of two published writes it is the difference, so that the thread's part of
 * both falls out. */
uint64_t sim_host_line_bps(const struct sim_host_costs *costs);
KVR_MUST_CHECK kvr_status sim_host_run(const struct sim_host_costs *costs,
                                       const struct sim_host_case *one,
                                       struct sim_host_result *ret_result, struct kvr_error *error);

/* sim_host_print.c: all cases; json: of the option; returns the exit status. */
int sim_host_report(const struct sim_host_costs *costs, const char *json);

#endif
