/* The agents that this agent talks to: a session and its connection each, named by an index
 * 0 … KVR_PEERS_MAX - 1. Loop thread only.
 *
 * With credentials a session belongs to the identity in the peer's certificate: only a connection
 * of the same one resumes or supersedes it, and the name in HELLO and WELCOME must be it.
 *
 * The decode-agent dials: kvr_peers_dial on first need, and again after lost. The prefill-agent
 * listens; a connection with a good HELLO gets an index. An index belongs to one peer from dial or
 * up() until lost(); a later session may have the same index (a redialed address always has), and
 * only after lost() of the one before.
 *
 * Callbacks come from the loop, never from inside a function that the owner called; in them every
 * function here may be called. One timer serves the whole table and is armed for the next thing
 * due: without peers the loop sleeps, with idle ones it wakes for beats. */
#ifndef KVR_AGENT_PEER_H
#define KVR_AGENT_PEER_H

#include <uv.h>

#include "tls/credentials.h"
#include "wire/channel.h"
#include "wire/message.h"

struct kvr_peers;

struct kvr_peers_owner {
    void *self;
    /* Our hello for the next handshake: boot, agent, provider, host, limits, rails, compats (their
     * memory stays yours and must hold until the next call). Versions, session and beat_ms are set
     * by the session. */
    void (*hello)(void *self, struct kvr_msg_hello *ret_hello);
    /* A session begins (not: a connection is resumed). What was sent before goes out first. We
     * dialed: before our RESUME goes out. It dialed: when its RESUME has come. */
    void (*up)(void *self, kvr_ns now, uint32_t peer, const struct kvr_msg_hello *hello);
    void (*message)(void *self, kvr_ns now, uint32_t peer, const struct kvr_message *message);
    /* Exactly once for each dial or up: KVR_PEER_LOST (silence, or not reached),
     * KVR_PEER_RESTARTED, KVR_MALFORMED, or the status of the peer's refusal. The sentence names
     * the peer. */
    void (*lost)(void *self, kvr_ns now, uint32_t peer, kvr_status status, const char *detail);
    /* After kvr_peers_send said KVR_AGAIN: half of the queue is free again. */
    void (*writable)(void *self, kvr_ns now, uint32_t peer);
    /* May be NULL: certificates kept a connection from being used, for this reason; for a counter.
     * turned_away() or the sentence of lost() says it to people. */
    void (*refused)(void *self, kvr_tls_refusal refusal);
    /* May be NULL: a connection was turned away before it became a peer; for the log. KVR_AGAIN:
     * too many connections begin (hello_limit.h). It was closed without a word, so that an agent
     * dials again. */
    void (*turned_away)(void *self, kvr_ns now, const char *who, kvr_status status,
                        const char *detail);
};

struct kvr_peers_options {
    struct kvr_peers_owner owner;
    uint32_t beat_ms;                    /* 0: KVR_PEERS_BEAT_MS */
    uint32_t queue_bytes;                /* resend buffer of each peer; 0: KVR_PEERS_QUEUE_BYTES */
    uint32_t queue_count;                /* messages in it; 0: KVR_PEERS_QUEUE_COUNT */
    struct kvr_credentials *credentials; /* borrowed; NULL: no TLS, and any name is believed */
    uint32_t roles;                      /* that certificates of peers may have, bits 1 << role */
};
#define KVR_PEERS_BEAT_MS     1000
#define KVR_PEERS_QUEUE_BYTES (8u << 20)
#define KVR_PEERS_QUEUE_COUNT 8192
/* When so many dialed addresses have not answered yet, each new one takes the place of the one that
 * has been dialed in vain for longest. */
#define KVR_PEERS_UNREACHED   (KVR_PEERS_MAX * 3 / 4)
/* A session without a connection keeps its place for so long, even if the table is full. */
#define KVR_PEERS_AWAY_MS     1000
/* When the table is full, a host that dials may lose places above so many to hosts with fewer. */
#define KVR_PEERS_HOST_SHARE  (KVR_PEERS_MAX / 8)

KVR_MUST_CHECK kvr_status kvr_peers_open(uv_loop_t *loop, const struct kvr_peers_options *options,
                                         struct kvr_peers **ret_peers, struct kvr_error *error);
/* Says goodbye to every peer, closes everything; no callback comes any more. The loop must run
 * until its handles are closed. NULL is fine. */
void kvr_peers_close(struct kvr_peers *peers);

/* Accepts peers on "host:port"; port 0 takes a free one. */
KVR_MUST_CHECK kvr_status kvr_peers_listen(struct kvr_peers *peers, const char *address,
                                           struct kvr_error *error);
uint16_t kvr_peers_port(const struct kvr_peers *peers); /* 0: not listening */
/* Of accepted connections; zeros: not listening. */
struct kvr_listener_counts kvr_peers_accepted(const struct kvr_peers *peers);

/* The peer at "host:port"; dials it if it is not live. KVR_INVALID: no address; KVR_FULL: the table
 * is full of live peers; KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status kvr_peers_dial(struct kvr_peers *peers, const char *address,
                                         uint32_t *ret_peer, struct kvr_error *error);

/* Queues one message, also while the connection is down or not yet up. KVR_AGAIN: the queue is
 * full, writable() follows. KVR_PEER_LOST: there is no session. KVR_TOO_LARGE, KVR_INVALID: never.
 */
KVR_MUST_CHECK kvr_status kvr_peers_send(struct kvr_peers *peers, uint32_t peer,
                                         const struct kvr_message *message);

/* Ends a session on our own wish, telling the peer why; lost() follows from the loop. */
void kvr_peers_end(struct kvr_peers *peers, uint32_t peer, kvr_status status, const char *detail);

/* The CA or its revocation lists have changed: judges the certificate of every peer that is
 * connected, and ends the sessions of those that are no longer believed. Where only the CA is no
 * longer trusted, it closes the connection: the next one, with a certificate of another CA, carries
 * the session on. */
void kvr_peers_judge(struct kvr_peers *peers);
/* now: seconds of 1970. Closes connections of peers with a certificate that has ended: the next
 * connection, with a new certificate, carries the session on. Once a second. */
void kvr_peers_expire(struct kvr_peers *peers, int64_t now);

/* For pages and logs. */
struct kvr_peer_info {
    bool live;      /* between dial or up, and lost */
    bool connected; /* a connection is up and greeted */
    uint64_t session;
    uint64_t boot;
    const char *agent;   /* "" before up; borrowed until lost */
    const char *address; /* dialed, or where it came from; borrowed until lost */
};
/* false: no such index. */
bool kvr_peers_info(const struct kvr_peers *peers, uint32_t peer, struct kvr_peer_info *ret_info);

/* What the certificate of the peer's connection says, or said last; NULL: none was shown. */
const struct kvr_identity *kvr_peers_identity(const struct kvr_peers *peers, uint32_t peer);

#endif
