/* WANT and PAGES: what a fetch asks of a source. */
#ifndef DECODE_AGENT_WANT_H
#define DECODE_AGENT_WANT_H

#include "decode-agent/inbound.h"

struct transfer;

/* The session is up, and a page table has begun. Tried again later where the queue is full. */
void want_send(struct inbound *inbound, struct transfer *transfer);
/* Sends the pages that were not sent yet, of all KV groups. inbound_peer_writable() sends the rest
 * where the queue is full. */
void pages_send(struct inbound *inbound, struct transfer *transfer);

#endif
