/* Copies between a device and pinned memory, and within a device: scattered pages by each way that
 * agents have, and plain ones by the driver, of large pieces one after the other. */
#ifndef KVR_TOOLS_BENCH_GPU_COPY_H
#define KVR_TOOLS_BENCH_GPU_COPY_H

#include "tools/bench/bench_device.h"

enum gpu_copy {
    GPU_OUT,           /* plain, from the device */
    GPU_GATHER,        /* pages at random, one launch a copy */
    GPU_GATHER_PACKED, /* the same, packed within the device first */
    GPU_GATHER_DRIVER, /* the same, by the driver's copies */
    GPU_IN,            /* plain, to the device */
    GPU_SCATTER,
    GPU_SCATTER_PACKED,
    GPU_SCATTER_DRIVER,
    GPU_BESIDE,      /* plain, within the device */
    GPU_MOVE,        /* pages at random, within the device */
    GPU_MOVE_DRIVER, /* the same, a copy of the driver each */
    GPU_COPIES
};

struct gpu_copies {
    struct bench_device *device;
    uint64_t page_bytes, bytes;
    uint32_t *order; /* of the device's pages, at random */
    uint64_t next;   /* in it */
    uint8_t *pinned;
};

/* bytes: of the device's memory. False: said on stderr; close it all the same. */
bool gpu_copies_open(struct gpu_copies *copies, struct bench_device *device, uint64_t page_bytes,
                     uint64_t bytes);
void gpu_copies_close(struct gpu_copies *copies);
/* False: this device has no such way. */
bool gpu_copies_can(const struct gpu_copies *copies, enum gpu_copy what);
/* Copies for so long. GB/s; 0: said on stderr. */
double gpu_copies_turn(struct gpu_copies *copies, enum gpu_copy what, kvr_ns duration);
/* Scatters words to all pages by every way, gathers them by every way and looks at each. False:
 * said on stderr. */
bool gpu_copies_check(struct gpu_copies *copies);

#endif
