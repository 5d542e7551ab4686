/* GRANT: from here on the source may write, and its writes land. GRANT again: other rails carry on;
 * the table of its states is in regrant.c. */
#ifndef DECODE_AGENT_GRANT_H
#define DECODE_AGENT_GRANT_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct landing;
struct transfer;

struct grant {
    struct landing *landing; /* NULL before the first GRANT */
    uint64_t *taken;         /* a bit for each chunk that was given to a copy; NULL: not staged */
    struct kvr_span_book
        *spans;          /* its rails are lent to the landing; NULL: not asked for, or no memory */
    uint32_t rail_group; /* of this agent, where the transfer lands */
    uint32_t granted_group; /* group of the rails that the last GRANT named */
    bool same_host; /* it named rails over which this agent copies from the source's memory, though
                       the rail group has cards too */
    uint32_t tag;   /* of every write of the transfer; 0 before the first GRANT */
    bool sent;      /* else nothing can land */
};

/* The transfer has slots, and a segment is planned: opens its landing and sends GRANT, or waits for
 * staging memory. */
void transfer_grant(struct inbound *inbound, struct transfer *transfer);
/* The first GRANT: its keys are open. */
void grant_first(struct inbound *inbound, struct transfer *transfer);
/* Names the rails of granted_group to the source. */
void grant_send(struct inbound *inbound, struct transfer *transfer);

enum regrant_state {
    REGRANT_NONE,
    REGRANT_REGISTERING, /* the regions are being registered on another rail group */
    REGRANT_OPENING,     /* keys are being opened on the rails of the next GRANT */
    REGRANT_ANNOUNCING,  /* REGIONS and GRANT are to be sent; they may wait for room in the queue */
    REGRANT_STATES
};

enum regrant_event {
    REGRANT_ON_GROUP_LOST, /* the source reaches no rail that was granted: take another group */
    REGRANT_ON_RAILS_LOST, /* the same, and the transfer stays with its rail group */
    REGRANT_ON_REGISTERED,
    REGRANT_ON_OPENED,
    REGRANT_ON_SENT,
    REGRANT_EVENTS
};

struct regrant {
    enum regrant_state state;
    uint32_t forwarding;    /* bit g: rail group g hands over what arrives for the transfer */
    uint32_t landings_open; /* CLOSING: of those groups and its own, the ones that are not done */
};

KVR_STATE_MACHINE(regrant);

void no_rail_received(struct inbound *inbound, struct transfer *transfer);
/* Keys are open on the rails of the next GRANT. */
void regrant_opened(struct inbound *inbound, struct transfer *transfer);
/* Sends REGIONS and GRANT to the source when its queue has room. */
void regrant_announce(struct inbound *inbound, struct transfer *transfer);
/* The transfer closes: every group that hands over for it stops. */
void forwarding_end(struct inbound *inbound, struct transfer *transfer);

#endif
