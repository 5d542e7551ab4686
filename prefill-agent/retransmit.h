/* RAIL_LOST, MISSING, ROOM: what is posted again, and posted further (rule 3). */
#ifndef PREFILL_AGENT_RETRANSMIT_H
#define PREFILL_AGENT_RETRANSMIT_H

#include "prefill-agent/push.h"
#include "wire/message.h"

struct outbound;
struct source_transfer;

struct source_retransmit {
    struct push_list *lists, *lists_last; /* of lost pairs; they wait for room to the peer */
};

/* Asks the rail thread which chunks went over pairs of this rail of ours, or to this epoch of a
 * target rail; PUSH_ANY: over any. */
void retransmit_list(struct outbound *outbound, struct source_transfer *transfer, uint32_t rail,
                     uint32_t target_rail, uint32_t epoch);
/* The same of every live transfer to the peer; PUSH_ANY: to any peer. */
void retransmit_list_all(struct outbound *outbound, uint32_t peer, uint32_t rail,
                         uint32_t target_rail, uint32_t epoch);
/* The rail thread's answer. */
void retransmit_listed(struct outbound *outbound, struct source_transfer *transfer,
                       struct push_list *list);
/* Sends the RAIL_LOST messages that wait for room to the peer. */
void retransmit_lists_send(struct outbound *outbound, struct source_transfer *transfer);
void retransmit_lists_drop(struct outbound *outbound, struct source_transfer *transfer);
void retransmit_missing(struct outbound *outbound, struct source_transfer *transfer,
                        const struct kvr_msg_missing *missing);
void retransmit_room(struct outbound *outbound, struct source_transfer *transfer,
                     const struct kvr_msg_room *room);

#endif
