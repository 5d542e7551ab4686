/* Shared by peer.c and peer_accept.c; no other file may include it. */
#ifndef KVR_AGENT_PEER_PARTS_H
#define KVR_AGENT_PEER_PARTS_H

#include "agent/peer/hello_limit.h"
#include "agent/peer/peer.h"
#include "wire/channel.h"
#include "wire/session.h"

struct kvr_peer {
    struct kvr_peers *peers;
    uint32_t index;
    bool live;       /* between dial or accept, and lost */
    bool dialed;     /* we dial, and redial */
    bool superseded; /* its agent was seen under another boot: without a connection it ends soon */
    bool ending;     /* the owner wants it to end */
    struct kvr_msg_hello *met; /* of an accepted one, until its RESUME has come: then it is up */
    struct kvr_session *session;
    void *memory; /* of the session; kept from one to the next */
    struct kvr_channel *channel;
    bool channel_up;
    uint32_t backoff_ms, attempt;
    kvr_ns dialed_at; /* first */
    kvr_ns redial_at;
    kvr_ns lost_at;
    kvr_ns begun_at, away_at; /* of an accepted one; its last connection ended */
    uint64_t from;            /* the host that it dialed from; 0: we dialed */
    uint64_t boot;
    char agent[KVR_NAME_BYTES], host[KVR_NAME_BYTES];
    bool proven; /* by TLS, to be: */
    struct kvr_identity identity;
    char address[KVR_ADDRESS_TEXT_BYTES];
    char why[KVR_DETAIL_BYTES]; /* how the last connection ended */
    kvr_status end_status;
    char end_detail[KVR_DETAIL_BYTES];
};

struct kvr_peers {
    uv_loop_t *loop;
    uv_timer_t timer;
    kvr_ns armed_at; /* when the timer fires; KVR_NEVER */
    bool closing;
    struct kvr_peers_options options;
    struct kvr_message_decoder *decoder;
    struct kvr_listener *listener;
    struct hello_limit hellos;
    uint32_t used; /* indexes below it were in use once */
    struct kvr_peer table[KVR_PEERS_MAX];
};

/* An index without a live peer, for one from that host (0: we dial); NULL: there is none. */
struct kvr_peer *kvr_peer_free(struct kvr_peers *peers, kvr_ns now, uint64_t from);
/* Makes the peer live with a new session. */
kvr_status kvr_peer_start(struct kvr_peer *peer, bool dialed, const char *address, kvr_ns now);
/* Gives it an accepted connection, instead of the one that it may have. */
void kvr_peer_attach(struct kvr_peer *peer, struct kvr_channel *channel);
/* Keeps the HELLO of an accepted one in `met`, if there is memory. */
void kvr_peer_keep_hello(struct kvr_peer *peer, const struct kvr_msg_hello *hello);
/* A peer that dialed is up when it has shown that it hears us: until then it may not have made way
 * for our rails, and may be a stranger that only talks. */
void kvr_peer_up_when_confirmed(struct kvr_peer *peer, kvr_ns now);
/* From now on the session belongs to the identity of its connection. */
void kvr_peer_prove(struct kvr_peer *peer);
/* The connection's certificate is the peer's; so is none where there was none. */
bool kvr_peer_is(const struct kvr_peer *peer, const struct kvr_channel *channel);
/* Counts it. */
void kvr_peers_refused(struct kvr_peers *peers, kvr_tls_refusal refusal);
/* KVR_REFUSED: its certificate has another name than the HELLO or WELCOME. */
kvr_status kvr_peers_name_check(struct kvr_peers *peers, const struct kvr_channel *channel,
                                const struct kvr_msg_hello *hello, struct kvr_error *error);
/* Ends the connection, not the session; a dialed one is dialed again. */
void kvr_peer_cut(struct kvr_peer *peer, const char *why);
/* Its next wake may have come nearer. */
void kvr_peer_arm(struct kvr_peer *peer, kvr_ns now);

/* When a superseded session without a connection ends: a live agent has dialed again by then. */
kvr_ns kvr_peer_superseded_ends(const struct kvr_peer *peer);

/* peer_accept.c: whether a connection from that host may begin. */
bool kvr_peers_admit(void *self, const char *name, uint64_t host);
/* peer_accept.c: a frame from an accepted connection that belongs to no peer yet. */
void kvr_peers_stranger(struct kvr_peers *peers, struct kvr_channel *channel, kvr_ns now,
                        const uint8_t *frame, size_t bytes);

#endif
