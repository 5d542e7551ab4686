/* Direct copy: this agent copies the pages itself, from the source's device to its own (rule 11).
 */
#ifndef DECODE_AGENT_DIRECT_COPY_H
#define DECODE_AGENT_DIRECT_COPY_H

#include "decode-agent/inbound.h"

struct transfer;

/* For WANT: the pages lie in device memory, and this agent could copy into them from a device of
 * the source's host. */
bool direct_copy_possible(const struct inbound *inbound, const struct transfer *transfer);
/* The source's PLANs are not for staging memory: a direct copy. False: WANT did not offer one. */
bool direct_copy_take(struct transfer *transfer);

#endif
