/* Device memory of a benchmark: pages as an engine has them on a GPU, or on a substitute for one.
 * Failures are reported on stderr. One thread. */
#ifndef KVR_TOOLS_BENCH_DEVICE_H
#define KVR_TOOLS_BENCH_DEVICE_H

#include "base/clock.h"
#include "device/allocation.h"

#define BENCH_EXIT_NO_DEVICE 77

struct bench_device {
    struct kvr_device *device, *plain; /* plain: its copies are the driver's */
    struct kvr_device *packed;         /* NULL, or one that packs pieces first */
    struct kvr_allocation allocation;
    struct kvr_device_memory *memory, *plain_memory, *packed_memory; /* it, as each sees it */
};

/* kind: "cuda" or "emulated". Close it all the same. */
bool bench_device_open(struct bench_device *device, const char *kind);
/* The one that packs, before memory is allocated. False: it cannot be, and nothing was said. */
bool bench_device_pack(struct bench_device *device, const char *kind);
bool bench_device_allocate(struct bench_device *device, uint64_t bytes);
void bench_device_close(struct bench_device *device);
/* All of it from or to host memory of any kind; ends when the bytes are there. */
bool bench_device_move(const struct bench_device *device, kvr_device_way way, void *host);
/* One half of it to the other by the device's own plain copy, for so long. GB/s; 0: it failed. */
double bench_device_beside(const struct bench_device *device, kvr_ns duration);

#endif
