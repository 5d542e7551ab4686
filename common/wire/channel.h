/* Connections of the control channel: TCP on a libuv loop, cut into frames. The only file of the
 * control channel that knows sockets; TLS will come behind it. Loop thread only.
 *
 * A channel is made by kvr_channel_dial or by a listener, and ends in exactly one closed()
 * callback, after which it is gone, or by kvr_channel_close/finish, after which no callback comes.
 * No callback is made from inside a function that its owner called.
 *
 * Bounds: frames of KVR_FRAME_BYTES_MAX; a write queue of KVR_CHANNEL_QUEUE_BYTES; at most
 * KVR_CHANNEL_YOUNG_MAX accepted connections that are not trusted yet (kvr_channel_trust), each
 * for at most KVR_CHANNEL_YOUNG_MS: one more closes the oldest. */
#ifndef KVR_WIRE_CHANNEL_H
#define KVR_WIRE_CHANNEL_H

#include <uv.h>

#include "base/address.h"
#include "wire/frame.h"

#define KVR_CHANNEL_QUEUE_BYTES (KVR_FRAME_BYTES_MAX + 65536u)
#define KVR_CHANNEL_YOUNG_MAX   64
#define KVR_CHANNEL_YOUNG_MS    5000
#define KVR_CHANNEL_FINISH_MS   1000

struct kvr_channel;
struct kvr_listener;

struct kvr_channel_handler {
    void *self;
    void (*up)(void *self, struct kvr_channel *channel); /* dialed or accepted: it can be used */
    void (*frame)(void *self, struct kvr_channel *channel, const uint8_t *frame, size_t bytes);
    void (*writable)(void *self, struct kvr_channel *channel); /* after KVR_AGAIN */
    /* KVR_MALFORMED (a frame too large), KVR_TIMED_OUT (said nothing), else KVR_SYSTEM. */
    void (*closed)(void *self, struct kvr_channel *channel, kvr_status status, const char *detail);
};

struct kvr_channel_options {
    struct kvr_channel_handler handler;
    /* TCP_USER_TIMEOUT: sent bytes stay unacknowledged at most this long; 0: the system's. */
    uint32_t user_timeout_ms;
    uint32_t young_ms; /* 0: KVR_CHANNEL_YOUNG_MS */
    uint32_t attempt;  /* of a name with several addresses the one to try, modulo their number */
};

/* Listens on "host:port" ("0.0.0.0:7700", "[::]:0"; numeric; port 0: any free one). */
KVR_MUST_CHECK kvr_status kvr_listener_open(uv_loop_t *loop, const char *address,
                                            const struct kvr_channel_options *options,
                                            struct kvr_listener **ret_listener,
                                            struct kvr_error *error);
uint16_t kvr_listener_port(const struct kvr_listener *listener);
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
void kvr_channel_set_owner(struct kvr_channel *channel, void *owner); /* NULL at first */
void *kvr_channel_owner(const struct kvr_channel *channel);

#endif
