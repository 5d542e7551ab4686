/* A stage: a device's copies, and the pinned memory between them and the network cards, for memory
 * that the cards cannot reach themselves, or only in pieces too small to be good writes. One for
 * each device that a rail group works with, host memory among them; used by that group's thread
 * alone, but for import and release.
 *
 * At a source its memory is a ring: a write's bytes are gathered into a part of it, and the part is
 * free again when the write has completed. A target that copies itself
 * (kvr_rail_facts.target_copies) may do so after its writer was told that the write failed or that
 * its endpoint is closed: such a completion revokes the transfer (wire/loans.h) before the part is
 * another write's. At a target it is divided among the transfers that were granted: a source writes
 * into its transfer's part, and each write is scattered from there. */
#ifndef KVR_DEVICE_STAGE_H
#define KVR_DEVICE_STAGE_H

#include "device/device.h"

#define KVR_STAGES_MAX 16 /* devices of one rail group */

struct kvr_region;

struct kvr_stage {
    uint32_t index; /* below KVR_STAGES_MAX, among the stages of its group */
    struct kvr_device *device;
    uint8_t *base; /* pinned by the device */
    uint64_t bytes;
    struct kvr_region *pinned; /* the same memory, registered with the group's rails */
    void *user; /* what works on top of the group keeps here; zeroed by whoever opens the stage */
};

#endif
