#include "base/clock_sync.h"

#include <errno.h>
#include <sys/timex.h>

void kvr_clock_sync_read(struct kvr_clock_sync *ret_clock)
{
    struct timex facts = {.modes = 0}; /* a question alone */
    int state = adjtimex(&facts);

    *ret_clock = (struct kvr_clock_sync){.synchronised = false};
    if (state < 0) {
        (void)kvr_error_system(&ret_clock->error, "clock", errno,
                               "the kernel does not say whether its clock is synchronised");
        return;
    }
    ret_clock->synchronised = state != TIME_ERROR && (facts.status & STA_UNSYNC) == 0;
    ret_clock->error_us = (uint64_t)facts.maxerror;
}
