/* Whether the kernel's wall clock follows another one. Any thread. */
#ifndef KVR_BASE_CLOCK_SYNC_H
#define KVR_BASE_CLOCK_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct kvr_clock_sync {
    struct kvr_error error; /* the kernel does not say */
    bool synchronised;
    uint64_t error_us; /* the kernel's own bound; it grows until the clock is set again */
};

void kvr_clock_sync_read(struct kvr_clock_sync *ret_clock);

#endif
