/* What the machine sends: messages to source agents, commands to group threads. */
#ifndef DECODE_AGENT_SENDING_H
#define DECODE_AGENT_SENDING_H

#include "decode-agent/transfer.h"

/* Sends, or ends the session: a message of the protocol must not be lost. */
void inbound_send(struct inbound *inbound, uint32_t peer, const struct kvr_message *message);
void inbound_send_needed(
    struct inbound *inbound, const struct transfer *transfer,
    struct kvr_message *message); /* about the transfer; nothing, where its session is gone */
void inbound_group_command(struct inbound *inbound, const struct transfer *transfer,
                           union land_message message); /* to the transfer's group */

#endif
