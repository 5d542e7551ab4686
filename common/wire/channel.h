/* Connections of the control channel: TCP on a libuv loop, with TLS 1.3 on it (tls/tls_stream.h)
 * unless the options have no credentials, cut into frames. The only files of the control channel
 * that know sockets. Loop thread only.
 *
 * A channel is made by kvr_channel_dial or by a listener, and ends in exactly one closed()
 * callback, after which it is gone, or by kvr_channel_close/finish, after which no callback comes.
 * No callback is made from inside a function that its owner called.
 *
 * Bounds: frames of KVR_FRAME_BYTES_MAX; a write queue of KVR_CHANNEL_QUEUE_BYTES; accepted
 * connections that are not trusted yet (kvr_channel_trust) as young.h says, each for at most
 * KVR_CHANNEL_YOUNG_MS. A step of a TLS handshake takes KVR_CHANNEL_STEP_BYTES, and KVR_YOUNG_STEPS
 * of accepted connections are taken in a turn of the loop. */
#ifndef KVR_WIRE_CHANNEL_H
#define KVR_WIRE_CHANNEL_H

#include <uv.h>

#include "base/address.h"
#include "tls/credentials.h"
#include "wire/frame.h"

#define KVR_CHANNEL_QUEUE_BYTES (KVR_FRAME_BYTES_MAX + 65536u)
#define KVR_CHANNEL_YOUNG_MS    5000
#define KVR_CHANNEL_FINISH_MS   1000
#define KVR_CHANNEL_STEP_BYTES  16384

struct kvr_channel;
struct kvr_listener;

struct kvr_channel_handler {
    void *self;
    /* Dialed or accepted, and the TLS handshake is done: it can be used. */
    void (*up)(void *self, struct kvr_channel *channel);
    void (*frame)(void *self, struct kvr_channel *channel, const uint8_t *frame, size_t bytes);
    void (*writable)(void *self, struct kvr_channel *channel); /* after KVR_AGAIN */
    /* KVR_MALFORMED (a frame too large), KVR_TIMED_OUT (said nothing), KVR_REFUSED (by TLS, see
     * kvr_channel_refusal), else KVR_SYSTEM. */
    void (*closed)(void *self, struct kvr_channel *channel, kvr_status status, const char *detail);
    /* May be NULL: whether a connection that was accepted from this host (kvr_address_network) may
     * stay. False: it is closed before it costs anything, and no other callback comes. */
    bool (*admit)(void *self, const char *name, uint64_t host);
};

struct kvr_channel_options {
    struct kvr_channel_handler handler;
    /* TCP_USER_TIMEOUT: sent bytes stay unacknowledged at most this long; 0: the system's. */
    uint32_t user_timeout_ms;
    uint32_t young_ms; /* 0: KVR_CHANNEL_YOUNG_MS */
    uint32_t attempt;  /* of a name with several addresses the one to try, modulo their number */
    struct kvr_credentials *credentials; /* borrowed until the last channel is gone; NULL: no TLS */
    uint32_t roles; /* with TLS, those that the other side may have, bits 1 << role */
};

/* Listens on "host:port" ("0.0.0.0:7700", "[::]:0"; numeric; port 0: any free one). */
KVR_MUST_CHECK kvr_status kvr_listener_open(uv_loop_t *loop, const char *address,
                                            const struct kvr_channel_options *options,
                                            struct kvr_listener **ret_listener,
                                            struct kvr_error *error);
uint16_t kvr_listener_port(const struct kvr_listener *listener);
/* Since it was opened. */
struct kvr_listener_counts {
    uint64_t crowded; /* connections closed because their host had the most without a HELLO */
    uint64_t waited;  /* steps of handshakes that had to wait for a later turn of the loop */
};
struct kvr_listener_counts kvr_listener_counts(const struct kvr_listener *listener);
/* Takes no more connections; those that were accepted stay, young ones are closed. NULL is fine. */
void kvr_listener_close(struct kvr_listener *listener);

/* Begins to connect to "host:port"; up() or closed() follows. KVR_INVALID for an address that is
 * none, KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status kvr_channel_dial(uv_loop_t *loop, const char *address,
                                           const struct kvr_channel_options *options,
                                           struct kvr_channel **ret_channel,
                                           struct kvr_error *error);
/* Copies one frame into the write queue. KVR_AGAIN: no room, writable() will come. KVR_PEER_LOST:
 * not up. */
KVR_MUST_CHECK kvr_status kvr_channel_send(struct kvr_channel *channel, const uint8_t *frame,
                                           size_t bytes);
/* The peer has proven its identity: it may be silent from now on. */
void kvr_channel_trust(struct kvr_channel *channel);
/* Drops what is queued. */
void kvr_channel_close(struct kvr_channel *channel);
/* Lets what is queued reach the peer (at most KVR_CHANNEL_FINISH_MS), reads no more frames. */
void kvr_channel_finish(struct kvr_channel *channel);

const char *
kvr_channel_name(const struct kvr_channel *channel); /* the other end, "10.0.0.7:4242" */
/* The identity that the other side has proven; NULL: without TLS, or not yet. */
const struct kvr_identity *kvr_channel_peer(const struct kvr_channel *channel);
/* Judges its certificate once more, by the newest CA and lists. KVR_TLS_REFUSAL_END: it is fine, or
 * there is no TLS. */
KVR_MUST_CHECK kvr_tls_refusal kvr_channel_check(const struct kvr_channel *channel,
                                                 struct kvr_error *error);
/* When its certificate ends, in seconds of 1970; INT64_MAX without TLS. */
int64_t kvr_channel_peer_expiry(const struct kvr_channel *channel);
/* In closed(): why TLS ended it; KVR_TLS_REFUSAL_END: that was not the reason. */
kvr_tls_refusal kvr_channel_refusal(const struct kvr_channel *channel);
void kvr_channel_set_owner(struct kvr_channel *channel, void *owner); /* NULL at first */
void *kvr_channel_owner(const struct kvr_channel *channel);

#endif
