/* A connection between two simulated agents: bytes, in order, late, and lost from any byte on.
 *
 * A writer gives a frame. Its bytes travel in pieces of any size, and the real parser
 * (wire/frame.h) puts them together. A connection that breaks delivers the bytes up to some byte of
 * either direction; each end finds out in its own time, or never.
 *
 * Owned by the world, freed with it. */
#ifndef KVR_TOOLS_SIM_CONNECTION_H
#define KVR_TOOLS_SIM_CONNECTION_H

#include "base/clock.h"
#include "wire/frame.h"

struct sim_world;
struct sim_agent;
struct sim_peer;

struct sim_packet { /* bytes on their way; none: the end of the stream */
    struct sim_packet *next;
    kvr_ns sent_at;
    size_t bytes;
    uint8_t data[];
};

struct sim_end {
    struct sim_agent *agent;
    uint32_t life;         /* of the agent: a later one has nothing to do with this end */
    struct sim_peer *peer; /* NULL: accepted, and HELLO has not come */
    bool open;             /* as this end sees it */
    bool starved;          /* a write found no room */
    uint64_t sent, limit;  /* bytes written here; from the limit on they never come */
    uint64_t arrived;      /* bytes that the other end has got */
    size_t room;           /* bytes that may be on their way from here */
    kvr_ns last;           /* bytes arrive in the order of sending */
    struct sim_packet *first, *tail;
    struct kvr_frame_parser parser; /* of the bytes that come here */
};

struct sim_connection {
    struct sim_world *world;
    struct sim_connection *next;
    bool broken;
    struct sim_end ends[2]; /* the dialer, the accepter */
};

/* Up at both ends. */
struct sim_connection *sim_connection_open(struct sim_world *world, struct sim_peer *dialer,
                                           struct sim_agent *accepter);
/* One frame. KVR_AGAIN: no room, sim_peer_writable follows. */
kvr_status sim_connection_write(struct sim_connection *connection, uint32_t end,
                                const uint8_t *frame, size_t bytes);
/* This end is done with it; what it has written still comes, and the end of the stream behind. */
void sim_connection_close(struct sim_connection *connection, uint32_t end);
/* The agent is gone. silent: the other end does not learn of it. */
void sim_connection_abandon(struct sim_connection *connection, uint32_t end, bool silent);
/* Breaks: of each direction some bytes that are on their way, and perhaps `more` still to be
 * written, come; all others are lost. */
void sim_connection_break(struct sim_connection *connection, uint64_t more);
void sim_connections_free(struct sim_world *world);

#endif
