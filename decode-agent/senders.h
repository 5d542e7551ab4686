/* Endpoints of source agents that this agent's endpoints must know before a write (rule 12). */
#ifndef DECODE_AGENT_SENDERS_H
#define DECODE_AGENT_SENDERS_H

#include "rail_group/rail_group.h"

struct inbound;

/* SENDER: has every rail group insert it. */
void sender_received(struct inbound *inbound, uint32_t peer,
                     const struct kvr_rail_address *endpoint);
/* A rail group has done so; after the last one SENDER_KNOWN is sent. */
void sender_set(struct inbound *inbound, const struct kvr_group_sender *set);
/* The session has ended, and with it the right to write. */
void senders_lost(struct inbound *inbound, uint32_t peer);

#endif
