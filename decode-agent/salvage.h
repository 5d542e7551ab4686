/* What of a failed fetch is still right. */
#ifndef DECODE_AGENT_SALVAGE_H
#define DECODE_AGENT_SALVAGE_H

#include "decode-agent/transfer.h"

/* Of a settled transfer: all tokens from the skipped ones up to here are in place. */
uint64_t transfer_salvage(const struct inbound *inbound, const struct transfer *transfer);

#endif
