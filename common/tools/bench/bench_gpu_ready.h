/* From the GPU's readiness word to the first posted write, on the GPU's clock. The GPU raises the
 * word and waits for a reply: first of a thread that drives a rail group and replies when it posts,
 * then of a thread that only replies. The difference is the cost of posting.
 * The fabric of the group accepts each write and moves nothing. */
#ifndef KVR_TOOLS_BENCH_GPU_READY_H
#define KVR_TOOLS_BENCH_GPU_READY_H

#include "base/histogram.h"
#include "device/device.h"

struct gpu_ready {
    uint64_t pings;                 /* of each; a whole number of transfers */
    struct kvr_histogram raw, ours; /* nanoseconds */
};

/* Both with a spinning thread. Makes ready->pings whole. */
kvr_status gpu_ready_measure(struct kvr_device *device, struct gpu_ready *ready,
                             struct kvr_error *error);
/* How much longer ours takes than half of the raw ones do, in microseconds; not below 0. */
double gpu_ready_us(const struct gpu_ready *ready, double percent);

#endif
