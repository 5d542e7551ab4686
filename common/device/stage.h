/* A stage: a device's copies, and the pinned memory between the device and the network cards. It
 * serves memory that the cards cannot reach, or reach only in pieces too small for good writes. A
 * rail group has one stage for each device that it works with, host memory among them. Only that
 * group's thread uses a stage, except for import and release.
 *
 * At a source the pinned memory is a ring. The bytes of a write are gathered into a part of the
 * ring, and the part is free again when the write has completed. A target that copies by itself
 * (kvr_rail_facts.target_copies) may copy after its writer saw the write fail or its endpoint
 * close. Such a completion revokes the transfer (wire/revocation_words.h) before another write uses
 * the part.
 *
 * At a target the memory is divided among the granted transfers. A source writes into the part of
 * its transfer, and each write is scattered from there. */
#ifndef KVR_DEVICE_STAGE_H
#define KVR_DEVICE_STAGE_H

#include "device/device.h"

#define KVR_STAGES_MAX 16 /* devices of one rail group */

struct kvr_region;

struct kvr_stage {
    uint32_t index; /* index among the stages of the group, below KVR_STAGES_MAX */
    struct kvr_device *device;
    uint8_t *base; /* pinned by the device */
    uint64_t bytes;
    struct kvr_region *pinned; /* the same memory, registered with the group's rails */
    void *user; /* of the layer that works on top of the group; zeroed when the stage is opened */
};

#endif
