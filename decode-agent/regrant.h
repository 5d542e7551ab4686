/* GRANT again: other rails carry on. The table of the states is in regrant.c. */
#ifndef DECODE_AGENT_REGRANT_H
#define DECODE_AGENT_REGRANT_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct transfer;

enum regrant_state {
    REGRANT_NONE,
    REGRANT_REGISTERING, /* the regions are being registered on another rail group */
    REGRANT_ANNOUNCING,  /* REGIONS and GRANT are to be sent; they may wait for room in the queue */
    REGRANT_STATES
};

enum regrant_event {
    REGRANT_ON_GROUP_LOST, /* the source reaches no rail that was granted: take another group */
    REGRANT_ON_RAILS_LOST, /* the same, and the transfer stays with its rail group */
    REGRANT_ON_REGISTERED,
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
/* Sends REGIONS and GRANT to the source when its queue has room. */
void regrant_announce(struct inbound *inbound, struct transfer *transfer);
/* The transfer closes: every group that hands over for it stops. */
void forwarding_end(struct inbound *inbound, struct transfer *transfer);

#endif
