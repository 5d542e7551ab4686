/* What is published of the cards of a host and of the threads that drive them: for `kvrail sim
 * --model` and `kvrail replay --virtual`. Constant values. */
#ifndef KVR_TOOLS_HOST_COSTS_H
#define KVR_TOOLS_HOST_COSTS_H

#include "base/clock.h"

/* What is known of one EFA card of that host and of a thread that drives such cards. */
struct host_costs {
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

extern const struct host_costs host_costs_p5, host_costs_p5en;
/* By name; NULL: there is no such host. */
const struct host_costs *host_costs_find(const char *name);
/* alone_ns of the tutorial's thread before it knew batches: 1,523 Gb/s on eight of them. */
#define HOST_COSTS_TUTORIAL_ALONE_NS 2754

/* What a card sends. Of two published writes it is the difference, so that the thread's part of
 * both falls out. */
uint64_t host_costs_line_bps(const struct host_costs *costs);

#endif
