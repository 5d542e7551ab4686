/* Room for WANTs that wait for their publish. Any target may send them, also for requests that will
 * never be, so no target and no crowd of targets may leave the others without room. Pure. */
#ifndef PREFILL_AGENT_PARKED_H
#define PREFILL_AGENT_PARKED_H

#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

struct outbound;

/* One target's parked WANTs take at most these parts of the table of transfers and of the memory;
 * those of all targets at most half of the memory. */
#define OUTBOUND_PARKED_MAX   (KVR_TRANSFERS_MAX / 4)
#define OUTBOUND_PARKED_SHARE 16

/* Whether one more WANT of this target may be parked. While the table has as many free places as
 * the target has parked WANTs, it may. Else a target that has more of them loses one. KVR_FULL with
 * the sentence. */
KVR_MUST_CHECK kvr_status parked_place(struct outbound *outbound, uint32_t peer,
                                       struct kvr_error *error);
/* The same for the memory of its page tables. What fits is added to the target's. */
KVR_MUST_CHECK kvr_status parked_memory(struct outbound *outbound, uint32_t peer, uint64_t bytes,
                                        struct kvr_error *error);
void parked_memory_return(struct outbound *outbound, uint32_t peer, uint64_t bytes);

#endif
