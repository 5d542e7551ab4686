/* GRANT: from here on the source may write, and its writes land. */
#ifndef DECODE_AGENT_GRANT_H
#define DECODE_AGENT_GRANT_H

#include "decode-agent/inbound.h"

struct landing;
struct transfer;

struct grant {
    struct landing *landing; /* NULL before the first GRANT */
    uint64_t *taken;         /* a bit for each chunk that was given to a copy; NULL: not staged */
    uint32_t rail_group;     /* of this agent, where the transfer lands */
    uint32_t granted_group;  /* group of the rails that the last GRANT named */
    bool same_host; /* it named rails over which this agent copies from the source's memory, though
                       the rail group has cards too */
};

/* The transfer has slots, and a segment is planned: opens its landing and sends GRANT, or waits for
 * staging memory. */
void transfer_grant(struct inbound *inbound, struct transfer *transfer);
/* Names the rails of granted_group to the source. */
void grant_send(struct inbound *inbound, struct transfer *transfer);

#endif
