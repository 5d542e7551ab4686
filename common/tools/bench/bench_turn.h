/* Writes of one kind from an endpoint of this process to another, timed turn by turn. A late
 * write belongs to the turn that posted it: the next turn waits for it first, and does not count
 * it. One thread drives both ends. */
#ifndef KVR_TOOLS_BENCH_TURN_H
#define KVR_TOOLS_BENCH_TURN_H

#include "fabric/fabric.h"

struct bench_turns {
    const struct kvr_fabric_ops *ops;
    struct kvr_endpoint *source, *target;
    kvr_ns late_ns;    /* how long a turn may take, and then how long its rest is waited for */
    uint32_t number;   /* of the last turn; 0: there was none */
    uint64_t posted;   /* of it */
    uint64_t finished; /* of those, at the source */
    uint64_t arrived;
    bool failed;
};

/* Posts one write of a turn, which has its number as immediate and this context. */
typedef kvr_status (*bench_turn_post)(void *self, uint32_t number, uint64_t context);

/* One turn of so many writes; returns how long it took. 0: they were refused, failed or did not all
 * come in time. */
kvr_ns bench_turn(struct bench_turns *turns, uint64_t writes, bench_turn_post post, void *self);

#endif
