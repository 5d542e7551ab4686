/* Strangers: programs that write to a rail of this agent and are no peers, or write as none should.
 */
#ifndef DECODE_AGENT_STRANGERS_H
#define DECODE_AGENT_STRANGERS_H

#include "decode-agent/inbound.h"

/* Between two renewals of a rail for strangers, at least. */
#define STRANGERS_WAIT_NS     KVR_S
#define STRANGERS_WAIT_MAX_NS (64 * KVR_S) /* of a rail that takes tags */

/* More arrived in this epoch of the rail than may that no landing expects, or a peer's write has
 * broken off. */
void strangers_reported(struct inbound *inbound, uint32_t rail, uint32_t epoch);
/* Renews the rail when its time has come. */
void strangers_tick(struct inbound *inbound, uint32_t rail);

#endif
