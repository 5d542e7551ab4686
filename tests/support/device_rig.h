/* A device by its name, with memory on it, for the tests of all devices. */
#ifndef KVR_TESTS_DEVICE_RIG_H
#define KVR_TESTS_DEVICE_RIG_H

#include "device/allocation.h"

#define DEVICE_RIG_MEMORIES 4

struct device_rig {
    struct kvr_device *device;
    bool virtual_time; /* the device reads no clock: each look at the time is later */
    kvr_ns now;
    uint32_t memory_count;
    struct kvr_device_memory *memories[DEVICE_RIG_MEMORIES];
    struct kvr_allocation allocations[DEVICE_RIG_MEMORIES];
};

/* False, with a word on stderr: there is no such device here. */
bool device_rig_possible(const char *name);
void device_rig_open(struct device_rig *rig, const char *name);
void device_rig_close(struct device_rig *rig);
kvr_ns device_rig_now(struct device_rig *rig);
/* Of an allocation of its own, or of several where KVRAIL_EXTENTS is set, as an engine would give
 * it. Released by device_rig_close. */
struct kvr_device_memory *device_rig_memory(struct device_rig *rig, uint64_t bytes);
/* One copy, to its completion; or why it was not accepted. */
kvr_status device_rig_copy(struct device_rig *rig, kvr_device_way way,
                           const struct kvr_device_piece *pieces, uint32_t piece_count);

#endif
