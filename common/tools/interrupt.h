/* SIGINT and SIGTERM, for commands that end cleanly: they finish what they write, and end their
 * children.
 *
 * Any thread may ask; one thread sleeps. */
#ifndef KVR_TOOLS_INTERRUPT_H
#define KVR_TOOLS_INTERRUPT_H

#include <stdbool.h>

#include "base/clock.h"

/* From now on both signals are only counted. A system call that waits ends with EINTR. A write to a
 * closed pipe fails with EPIPE. */
void interrupt_catch(void);

/* How often one of them came. */
unsigned interrupts(void);

/* Sleeps until the time is over, or more than `heard` signals have come. False: they have. */
bool interrupt_sleep(kvr_ns time, unsigned heard);

#endif
