/* Memory of a device that this process has and others can import by its descriptor: what an engine
 * gives to an agent. For benchmarks and tests. */
#ifndef KVR_DEVICE_ALLOCATION_H
#define KVR_DEVICE_ALLOCATION_H

#include "device/device.h"

struct kvr_allocation {
    struct kvr_device_import import; /* all of it; its descriptors are the allocation's */
};

/* On the GPU of a CUDA device, whose context is current in this thread: made by VMM, which works
 * where containers refuse CUDA IPC; where the machine refuses that too, plain device memory, which
 * has no descriptor (fd -1) and nobody else can import. Of another device a memfd. */
KVR_MUST_CHECK kvr_status kvr_allocation_open(const struct kvr_device *device, uint64_t bytes,
                                              struct kvr_allocation *ret_allocation,
                                              struct kvr_error *error);
/* The same over several allocations that lie side by side (import.extents), each as small as the
 * device makes them; it begins in the middle of the first. On a GPU UNSUPPORTED where the machine
 * gives no descriptors. */
KVR_MUST_CHECK kvr_status kvr_allocation_open_extents(const struct kvr_device *device,
                                                      uint64_t bytes,
                                                      struct kvr_allocation *ret_allocation,
                                                      struct kvr_error *error);
/* Who has imported it keeps it. One that was zeroed and never opened is fine. */
void kvr_allocation_close(struct kvr_allocation *allocation);

#endif
