/* Ending the epochs of this agent's rails (rule 7). */
#ifndef DECODE_AGENT_RAIL_EPOCHS_H
#define DECODE_AGENT_RAIL_EPOCHS_H

#include "decode-agent/inbound.h"

/* Ends this epoch of the rail, unless it has ended. */
void inbound_rail_recycle(struct inbound *inbound, uint32_t rail, uint32_t epoch);
/* The group thread has closed the endpoint, and perhaps opened a fresh one. */
void inbound_rail_recycled(struct inbound *inbound, const struct kvr_group_message *message);
/* A session is up: sends the peer all rails with a later epoch than the first. */
void rail_epochs_send(struct inbound *inbound, uint32_t peer);

#endif
