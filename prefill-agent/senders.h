/* Our endpoints, for targets that must know their senders (rule 12). */
#ifndef PREFILL_AGENT_SENDERS_H
#define PREFILL_AGENT_SENDERS_H

#include "wire/message.h"

struct outbound;

/* The session is up: announces every endpoint of ours. */
void senders_tell(struct outbound *outbound, uint32_t peer);
/* This rail of ours has a fresh endpoint: announces it to every target. */
void senders_renewed(struct outbound *outbound, uint32_t rail);
/* The target's endpoints know that one: writes may leave from it. */
void senders_known(struct outbound *outbound, uint32_t peer,
                   const struct kvr_msg_sender_known *known);

#endif
