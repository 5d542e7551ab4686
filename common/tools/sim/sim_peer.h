/* The peers of a simulated agent: the real sessions (wire/session.h) over simulated connections;
 * dialed, redialed, resumed and superseded as in agent/peer.c and agent/peer_accept.c. */
#ifndef KVR_TOOLS_SIM_PEER_H
#define KVR_TOOLS_SIM_PEER_H

#include "tools/sim/sim_connection.h"
#include "wire/session.h"

#define SIM_PEERS 6 /* of one agent, those that are lost included */

struct sim_peer {
    struct sim_agent *agent, *other;
    uint32_t index; /* how the agent's state machine calls it */
    uint32_t life;  /* grows with every session in this place */
    bool live, dialed, dialing, ending, superseded;
    bool was_full; /* WANTs are refused for a while */
    struct kvr_session *session;
    struct sim_connection *connection; /* NULL: none is up */
    uint32_t end;                      /* ours, of the connection */
    uint32_t backoff_ms;
    kvr_ns redial_at, armed_at, lost_at;
    uint64_t boot; /* the other agent's */
    kvr_status status;
    char detail[KVR_DETAIL_BYTES]; /* why it is to end */
};

void sim_peers_init(struct sim_agent *agent);
void sim_peers_die(struct sim_agent *agent); /* with their agent */
void sim_peers_end(struct sim_agent *agent); /* all sessions, in good order */

/* Ports of the agent `self`. */
kvr_status sim_peer_send(void *self, uint32_t index, const struct kvr_message *message);
kvr_status sim_peer_dial(void *self, const char *address, uint32_t *ret_index,
                         struct kvr_error *error);
void sim_peer_hang_up(void *self, uint32_t index, kvr_status status, const char *detail);

/* From the connection. */
void sim_peer_frame(struct sim_connection *connection, uint32_t end, const uint8_t *frame,
                    size_t bytes);
void sim_peer_writable(struct sim_peer *peer);
void sim_peer_disconnected(struct sim_peer *peer);

/* sim_accept.c: a frame of a connection that is no peer's yet. */
void sim_peer_stranger(struct sim_connection *connection, uint32_t end, const uint8_t *frame,
                       size_t bytes);

/* Between sim_peer.c and sim_accept.c. */
void sim_peer_start(struct sim_peer *peer, bool dialed); /* a new session in this place */
void sim_peer_detach(struct sim_peer *peer);             /* lets go of its connection */
void sim_peer_arm(struct sim_peer *peer);                /* its next wake may have come nearer */
void sim_peer_hello(void *peer, struct kvr_msg_hello *ret_hello);
/* A place never used, else the one that has been free for longest; NULL: all are live. */
struct sim_peer *sim_peer_place(struct sim_agent *agent);

#endif
