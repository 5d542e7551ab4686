/* Memory of a device that this process owns and that other processes can import by a descriptor, as
 * an engine gives it to an agent. For benchmarks and tests. */
#ifndef KVR_DEVICE_ALLOCATION_H
#define KVR_DEVICE_ALLOCATION_H

#include "device/device.h"

struct kvr_allocation {
    struct kvr_device_import import; /* of the whole memory; owns its descriptors */
};

/* On a CUDA device, the device's context is current in this thread, and the memory is made by VMM,
 * which works where containers refuse CUDA IPC. Where the machine refuses VMM, it is plain device
 * memory: it has no descriptor (fd -1), and no other process can import it. On another device it is
 * a memfd. */
KVR_MUST_CHECK kvr_status kvr_allocation_open(const struct kvr_device *device, uint64_t bytes,
                                              struct kvr_allocation *ret_allocation,
                                              struct kvr_error *error);
/* The same memory as several allocations side by side (import.extents), each as small as the device
 * makes one. The region begins in the middle of the first. UNSUPPORTED on a GPU where the machine
 * gives no descriptors. */
KVR_MUST_CHECK kvr_status kvr_allocation_open_extents(const struct kvr_device *device,
                                                      uint64_t bytes,
                                                      struct kvr_allocation *ret_allocation,
                                                      struct kvr_error *error);
/* Importers keep the memory. A struct that was zeroed and never opened is fine. */
void kvr_allocation_close(struct kvr_allocation *allocation);

#endif
