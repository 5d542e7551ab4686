/* ROOM: how far a source may write into a staging quota that is a ring. */
#ifndef DECODE_AGENT_ROOM_H
#define DECODE_AGENT_ROOM_H

#include "decode-agent/inbound.h"

struct transfer;

/* The bytes before this position are in the pages. */
void room_landed(struct inbound *inbound, struct transfer *transfer, uint64_t position_end);
/* Sends ROOM where there is more room, and where no repeated write can land in it. */
void room_check(struct inbound *inbound, struct transfer *transfer);

#endif
