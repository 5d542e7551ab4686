/* Messages to target agents, commands to rail threads. */
#ifndef PREFILL_AGENT_SENDING_H
#define PREFILL_AGENT_SENDING_H

#include "agent/core/ports.h"
#include "prefill-agent/push.h"

struct outbound;
struct source_transfer;

/* Sends, or ends the session: the protocol may not lose such a message. */
void outbound_send(struct outbound *outbound, uint32_t peer, const struct kvr_message *message);
/* The same about a transfer. */
void outbound_send_needed(struct outbound *outbound, const struct source_transfer *transfer,
                          struct kvr_message *message);
/* The same where the message can wait. KVR_AGAIN: it was not sent; outbound_peer_writable lets the
 * transfer go on. */
KVR_MUST_CHECK kvr_status outbound_send_patient(struct outbound *outbound,
                                                const struct source_transfer *transfer,
                                                struct kvr_message *message);

/* To the rail group of the transfer. While a failover is under way the command waits. */
void outbound_command(struct outbound *outbound, struct source_transfer *transfer,
                      union push_message message);
/* To every rail group. */
void outbound_command_groups(struct outbound *outbound, const struct kvr_group_message *message);
/* Memory for one copy a rail group; false: there is none, and none is taken. */
bool outbound_copies_take(struct outbound *outbound, size_t bytes, void *ret_copies[]);

#endif
