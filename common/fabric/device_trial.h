/* Whether the cards of this host take a dmabuf of its GPU, tried with a small one before any engine
 * has a region. FI_HMEM of a provider says less: libfabric offers it also where it found no CUDA,
 * and the kernel's or the driver's refusal shows only in a registration.
 *
 * The memory is this process's own. An engine's may still be refused. One thread. */
#ifndef KVR_FABRIC_DEVICE_TRIAL_H
#define KVR_FABRIC_DEVICE_TRIAL_H

#include "device/allocation.h"
#include "fabric/fabric.h"

struct kvr_device_trial {
    struct kvr_device *device; /* borrowed */
    struct kvr_allocation allocation;
    struct kvr_device_memory *memory;
    struct kvr_device_hint hint; /* with a dmabuf */
};

/* A rail with these facts may take a dmabuf: it is worth the trial. */
bool kvr_device_trial_wanted(const struct kvr_rail_facts *facts);

/* Allocates on the device. UNSUPPORTED with a reason: the device gives no dmabuf. */
KVR_MUST_CHECK kvr_status kvr_device_trial_open(struct kvr_device *device,
                                                struct kvr_device_trial *ret_trial,
                                                struct kvr_error *error);
void kvr_device_trial_close(struct kvr_device_trial *trial);

/* Registers the dmabuf for both directions, and releases it again. */
KVR_MUST_CHECK kvr_status kvr_device_trial_register(const struct kvr_device_trial *trial,
                                                    const struct kvr_fabric *fabric,
                                                    struct kvr_rail *rail, struct kvr_error *error);

#endif
