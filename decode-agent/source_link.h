/* The session with the source agent of a transfer, and the events of such sessions. The table of
 * the states is in source_link.c. */
#ifndef DECODE_AGENT_SOURCE_LINK_H
#define DECODE_AGENT_SOURCE_LINK_H

#include "base/state.h"
#include "decode-agent/inbound.h"

enum source_link_state {
    LINK_AWAITED,   /* dialed; the source agent has not answered */
    LINK_UP,        /* the session is up */
    LINK_LOST,      /* the session was up, and has ended */
    LINK_UNREACHED, /* the source agent never answered, or could not be dialed */
    LINK_STATES
};

enum source_link_event { LINK_ON_UP, LINK_ON_LOST, LINK_EVENTS };

struct source_link {
    enum source_link_state state;
    uint32_t peer;
    struct kvr_write_limits limits; /* of the transfer: the minimum of both agents' */
};

KVR_STATE_MACHINE(source_link);

/* The source agent has answered, though its session may have ended since. */
static inline bool source_link_answered(const struct source_link *link)
{
    return link->state == LINK_UP || link->state == LINK_LOST;
}

/* No message can be sent any more, and none comes. */
static inline bool source_link_gone(const struct source_link *link)
{
    return link->state == LINK_LOST || link->state == LINK_UNREACHED;
}

/* Rule 8. A rail thread of this agent was away: asks each source whether its session holds. */
void absence_probe(struct inbound *inbound);
/* The source agent has answered such a probe. */
void absence_answered(struct inbound *inbound, uint32_t peer, uint64_t token);

#endif
