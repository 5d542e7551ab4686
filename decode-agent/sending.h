/* What the machine sends: messages to source agents, commands to rail threads, events to the
 * scheduler. */
#ifndef DECODE_AGENT_SENDING_H
#define DECODE_AGENT_SENDING_H

#include "decode-agent/transfer.h"

/* Sends, or ends the session: a message of the protocol must not be lost. */
void inbound_send(struct inbound *inbound, uint32_t peer, const struct kvr_message *message);
/* The same about a transfer. Sends nothing where its session is gone. */
void inbound_send_needed(struct inbound *inbound, const struct transfer *transfer,
                         struct kvr_message *message);
/* To the rail group of the transfer. */
void inbound_group_command(struct inbound *inbound, const struct transfer *transfer,
                           union land_message message);
/* An event of now, for the scheduler. */
void transfer_report(struct inbound *inbound, const struct transfer *transfer, kvr_event_kind kind);

/* The session is up. Until what is skipped is known, WANT says that SKIP follows. Where the queue
 * is full, both are tried again later. */
void want_send(struct inbound *inbound, struct transfer *transfer);
void skip_send(struct inbound *inbound, struct transfer *transfer);
/* Sends the pages that were not sent yet, of all KV groups. inbound_peer_writable() sends the rest
 * where the queue is full. */
void pages_send(struct inbound *inbound, struct transfer *transfer);

#endif
