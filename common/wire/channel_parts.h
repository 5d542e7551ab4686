/* Shared by channel.c and channel_listener.c; no other file may include it. */
#ifndef KVR_WIRE_CHANNEL_PARTS_H
#define KVR_WIRE_CHANNEL_PARTS_H

#include "tls/tls_stream.h"
#include "wire/channel.h"

typedef enum kvr_channel_state {
    KVR_CHANNEL_RESOLVING,
    KVR_CHANNEL_CONNECTING,
    KVR_CHANNEL_SECURING, /* the TLS handshake is under way */
    KVR_CHANNEL_UP,
    KVR_CHANNEL_FINISHING, /* the queue still goes out; incoming bytes are dropped */
    KVR_CHANNEL_CLOSED,    /* no more callbacks; the memory goes when libuv lets go of it */
} kvr_channel_state;

struct kvr_channel {
    uv_tcp_t tcp;
    uv_timer_t timer;     /* of a young, finishing or broken one */
    uv_prepare_t corking; /* runs at the end of a turn of the loop in which frames were queued */
    uv_connect_t connecting;
    uv_getaddrinfo_t resolving;
    uv_write_t writing;
    uv_shutdown_t shutting;
    int holds; /* handles and requests that still point here */
    kvr_channel_state state;
    int broken; /* libuv's error that is to be told from the loop */
    struct kvr_channel_options options;
    void *owner;
    char name[KVR_ADDRESS_TEXT_BYTES];

    struct kvr_listener *listener; /* of a young one, else NULL */

    uint8_t *ring; /* frames to write; KVR_CHANNEL_QUEUE_BYTES */
    size_t ring_first, ring_used;
    size_t flying; /* bytes that libuv is writing: of the ring, or of TLS's output */

    struct kvr_tls_stream *tls; /* NULL: plain */
    bool tls_begun;             /* the first byte has come */
    bool tls_finished;          /* the other side gets to know that no more comes */
    kvr_tls_refusal refusal;
    bool starved; /* send said KVR_AGAIN */
    struct kvr_frame_parser parser;
    uint8_t *memory; /* of the ring and the parser */
};

/* NULL: no memory. */
struct kvr_channel *kvr_channel_new(uv_loop_t *loop, const struct kvr_channel_options *options);
/* The connection is there, accepted or dialed: begins to read; calls up() at once, or after the TLS
 * handshake. */
void kvr_channel_begin(struct kvr_channel *channel, bool accepted);
/* Closes and calls closed(); only from the loop. */
void kvr_channel_fail(struct kvr_channel *channel, kvr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void kvr_channel_start_timer(struct kvr_channel *channel, uint64_t ms);

/* Sends what can be sent at once, and has libuv write the rest. */
void kvr_channel_flush(struct kvr_channel *channel);
/* The queue still goes out, then the connection ends. No callback comes any more. */
void kvr_channel_wind_up(struct kvr_channel *channel);
void kvr_channel_put(struct kvr_channel *channel, const uint8_t *bytes, size_t count);
/* Of the ring: count bytes have left it. */
void kvr_channel_took(struct kvr_channel *channel, size_t count);
/* Hands whole frames to the owner. */
void kvr_channel_give_frames(struct kvr_channel *channel);

/* channel_tls.c */
void kvr_channel_secure(struct kvr_channel *channel, bool accepted); /* the handshake begins */
/* Ciphertext that came; `bytes` is borrowed for the call. */
void kvr_channel_decrypt(struct kvr_channel *channel, const uint8_t *bytes, size_t count);
/* Takes from the ring what the output has room for. Returns the ciphertext to send. */
const uint8_t *kvr_channel_encrypt(struct kvr_channel *channel, size_t *ret_bytes);
/* The connection ended, or nothing came in time, before the handshake was done. */
void kvr_channel_handshake_cut(struct kvr_channel *channel, const char *how);

void kvr_listener_forget(struct kvr_channel *channel);
/* Whether it may take a step of its handshake now. False: kvr_channel_go_on follows, in a later
 * turn of the loop. */
bool kvr_listener_step(struct kvr_channel *channel);
void kvr_channel_go_on(struct kvr_channel *channel);

#endif
