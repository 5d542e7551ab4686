/* MISSING: which chunks the source posts again. */
#ifndef DECODE_AGENT_MISSING_H
#define DECODE_AGENT_MISSING_H

#include "decode-agent/inbound.h"

struct landing_filter;
struct transfer;

/* The source lost a rail: asks the group thread which of those chunks are not here. */
void rail_lost_received(struct inbound *inbound, struct transfer *transfer,
                        const struct kvr_msg_rail_lost *lost);
/* The group thread's answer: asks the source to post those chunks again. */
void missing_send(struct inbound *inbound, struct transfer *transfer,
                  const struct landing_filter *filter);

#endif
