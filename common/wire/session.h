/* One pairing of two agents: numbering, resending, life and death. PURE: no clock, socket, thread
 * or heap; the memory is given at init, and events come in with `now`.
 *
 * A connection carries, in this order:
 *
 *   target  HELLO(session to resume or 0)            source  WELCOME(session) or REFUSED(sentence)
 *   both    RESUME(seen), then numbered messages after the peer's `seen`, in order, and BEATs
 *
 * SENDING. kvr_session_send encodes into the resend buffer. A message gets its number when it first
 * goes to a connection. Until then an urgent one (CANCEL, QUIET, ROOM) may pass the bulk of other
 * transfers, but never a message of its own transfer. What was sent stays in the buffer
 * until the peer's BEAT or RESUME says that it was seen. A full buffer answers KVR_AGAIN, and the
 * sink's writable() follows; a reserve is kept for urgent messages.
 *
 * RECEIVING. `seen` is the number of the last message delivered. The next number is delivered, a
 * known one dropped, any other ends the session (KVR_MALFORMED). Besides the regular BEAT, one goes
 * out early after much was received, so that the peer's buffer does not wait for the clock.
 *
 * LIFE. Everything that arrives proves that the peer lives. Silence of 3 of its beats ends the
 * session with KVR_PEER_LOST, whether a connection is up or not; a shorter loss of the connection
 * is healed by the next one. A side that was away itself, which a tick late by half a beat shows,
 * listens for one more beat before it calls that silence, and its sentence says how late its own
 * beats came. A WELCOME of session 0 means that the peer holds no such session: it restarted when
 * its boot differs (KVR_PEER_RESTARTED), else it had given up on us (KVR_PEER_LOST). REFUSED is
 * also the goodbye of a side that ends a session on purpose.
 *
 * The sink's lost() is called exactly once, as the last thing; then the memory may be used again.
 */
#ifndef KVR_WIRE_SESSION_H
#define KVR_WIRE_SESSION_H

#include "wire/message.h"

struct kvr_session;

/* What a session does to the world. No function of it is called from inside kvr_session_send except
 * write. All may call kvr_session_send. */
struct kvr_session_sink {
    void *self;
    /* Fills our own hello; its pointers stay borrowed until the next call. The session sets
     * versions (unless given), session and beat_ms. */
    void (*hello)(void *self, struct kvr_msg_hello *ret_hello);
    /* One frame, copied before it returns. KVR_AGAIN: no room, kvr_session_writable will come. */
    kvr_status (*write)(void *self, const uint8_t *frame, size_t bytes);
    /* The session has a number. Not called for a resumed connection. At the target RESUME follows
     * it; the session may not be ended from here. */
    void (*begun)(void *self, kvr_ns now, const struct kvr_msg_hello *peer);
    void (*message)(void *self, kvr_ns now, const struct kvr_message *message);
    /* After kvr_session_send said KVR_AGAIN: half of the buffer is free again. */
    void (*writable)(void *self, kvr_ns now);
    void (*lost)(void *self, kvr_ns now, kvr_status status, const char *detail);
};

struct kvr_session_options {
    struct kvr_session_sink sink;
    struct kvr_message_decoder *decoder; /* borrowed; may be shared by sessions of one thread */
    uint32_t beat_ms;
    uint32_t queue_bytes; /* resend buffer; at least KVR_SESSION_QUEUE_BYTES_MIN */
    uint32_t queue_count; /* messages in it */
    bool dials;           /* target: sends HELLO; else source: answers it */
};
#define KVR_SESSION_QUEUE_BYTES_MIN (2u * KVR_FRAME_BYTES_MAX)
#define KVR_SESSION_QUEUE_COUNT_MIN 64

/* Bytes of memory that a session with these options needs (aligned as malloc aligns). */
size_t kvr_session_bytes(const struct kvr_session_options *options);
/* The session lives in `memory` (borrowed until lost). The silence is counted from now on. */
struct kvr_session *kvr_session_init(void *memory, const struct kvr_session_options *options,
                                     kvr_ns now);

/* Target: a connection is up. Says HELLO. */
void kvr_session_connected(struct kvr_session *session, kvr_ns now);
/* Source: a connection is up and this HELLO, found good by kvr_hello_check, came on it. Says
 * WELCOME. The first call begins the session under `number` (random, not 0); later calls resume it.
 */
void kvr_session_accepted(struct kvr_session *session, kvr_ns now, const struct kvr_msg_hello *peer,
                          uint32_t version, uint64_t number);
void kvr_session_disconnected(struct kvr_session *session, kvr_ns now);
/* One frame from the connection that is up. */
void kvr_session_frame(struct kvr_session *session, kvr_ns now, const uint8_t *frame, size_t bytes);
/* After write said KVR_AGAIN: there is room. */
void kvr_session_writable(struct kvr_session *session, kvr_ns now);
/* Beats, and finds silence. Due at kvr_session_wake; earlier is harmless, later is an absence. */
void kvr_session_tick(struct kvr_session *session, kvr_ns now);
kvr_ns kvr_session_wake(const struct kvr_session *session);
/* Ends the session on our own wish: sends the peer the reason; the sink's lost() is called. */
void kvr_session_end(struct kvr_session *session, kvr_ns now, kvr_status status,
                     const char *detail);

/* Any message but HELLO, WELCOME, REFUSED, RESUME and BEAT. KVR_OK: it will reach the peer exactly
 * once and in order, or lost() is called. KVR_AGAIN: no room, writable() follows. KVR_TOO_LARGE,
 * KVR_INVALID: it can never be sent. KVR_PEER_LOST: the session has ended. */
KVR_MUST_CHECK kvr_status kvr_session_send(struct kvr_session *session, kvr_ns now,
                                           const struct kvr_message *message);

uint64_t kvr_session_number(const struct kvr_session *session); /* 0 before begun() */
/* Source: the target has shown that it knows the number. Until then its HELLO may come without. */
bool kvr_session_confirmed(const struct kvr_session *session);
bool kvr_session_connected_now(const struct kvr_session *session);

#endif
