/* A small side's memory behind a stage with an emulated device: what push and land see where cards
 * cannot reach an engine's pages. */
#ifndef KVR_TESTS_SMALL_STAGE_H
#define KVR_TESTS_SMALL_STAGE_H

#include "device/device_emulated.h"
#include "device/stage.h"
#include "tests/support/small_plan.h"

#define SMALL_COPY_NS (10 * KVR_US) /* a copy takes so long at least */

struct small_stage {
    struct kvr_stage stage;
    struct kvr_region pinned; /* the stage's memory */
    struct kvr_device_memory *pages;
    uint8_t memory[16 * SMALL_PAGE_BYTES];
};

/* Of `page_count` pages, at most 16. fail: every copy does. user: zeroed, for the caller. */
void small_stage_open(struct small_stage *small, struct small_side *side, uint32_t page_count,
                      bool fail, void *user);
void small_stage_close(struct small_stage *small);

#endif
