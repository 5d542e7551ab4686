/* One TLS 1.3 session over memory: ciphertext in, plaintext out, and back. No socket, no clock but
 * that of certificates: the owner of the connection carries the bytes. Loop thread only.
 *
 * Both sides show certificates. The other side's is judged in the handshake (tls/credentials.h),
 * and any time later by kvr_tls_stream_check.
 *
 * There are no tickets and no resumption: each connection shows certificates anew, so a revoked or
 * expired one cannot come back by an older secret.
 *
 * Bounds: KVR_TLS_OUTPUT_BYTES of ciphertext wait to be sent; messages about keys and tickets
 * between two pieces of data are at most KVR_TLS_EXTRA_MAX, and GnuTLS takes 8 changes of keys a
 * second. */
#ifndef KVR_TLS_TLS_STREAM_H
#define KVR_TLS_TLS_STREAM_H

#include "tls/credentials.h"

#define KVR_TLS_RECORD_BYTES 16384u /* of plaintext */
#define KVR_TLS_OUTPUT_BYTES (4 * (KVR_TLS_RECORD_BYTES + 256u) + 16384u)
#define KVR_TLS_EXTRA_MAX    8
#define KVR_TLS_FIRST_BYTE   0x16 /* of a connection that speaks TLS: a handshake's record */

struct kvr_tls_stream;

struct kvr_tls_stream_options {
    struct kvr_credentials *credentials; /* borrowed; its newest generation is used */
    bool server;                         /* accepted the connection; else dialed */
    uint32_t roles;                      /* that the other side may have, bits 1 << role */
};

KVR_MUST_CHECK kvr_status kvr_tls_stream_open(const struct kvr_tls_stream_options *options,
                                              struct kvr_tls_stream **ret_stream,
                                              struct kvr_error *error);
void kvr_tls_stream_close(struct kvr_tls_stream *stream); /* NULL is fine */

/* Ciphertext that came: borrowed until handshake or read has said KVR_AGAIN. */
void kvr_tls_stream_feed(struct kvr_tls_stream *stream, const uint8_t *bytes, size_t count);
/* Goes on with the handshake. KVR_OK: done, the peer is known. KVR_AGAIN: more bytes are needed.
 * KVR_REFUSED: it has failed, see the error and kvr_tls_stream_refusal; the output has the alert.
 */
KVR_MUST_CHECK kvr_status kvr_tls_stream_handshake(struct kvr_tls_stream *stream,
                                                   struct kvr_error *error);
/* KVR_OK and at least one byte of plaintext; KVR_AGAIN: all that was fed is used. KVR_PEER_LOST:
 * the other side has ended the session in good order. KVR_REFUSED: as above. */
KVR_MUST_CHECK kvr_status kvr_tls_stream_read(struct kvr_tls_stream *stream, uint8_t *room,
                                              size_t room_bytes, size_t *ret_bytes,
                                              struct kvr_error *error);
/* Encrypts as much as the output has room for. Returns how many bytes that is; 0: none, or the
 * session has failed. After the handshake only. */
size_t kvr_tls_stream_write(struct kvr_tls_stream *stream, const uint8_t *bytes, size_t count);
/* Says that no more comes: an alert in the output. */
void kvr_tls_stream_finish(struct kvr_tls_stream *stream);

/* Ciphertext to send, in one piece that stays where it is until it was sent. */
const uint8_t *kvr_tls_stream_output(const struct kvr_tls_stream *stream, size_t *ret_bytes);
void kvr_tls_stream_sent(struct kvr_tls_stream *stream, size_t bytes);

/* What the other side is; NULL before the handshake is done. */
const struct kvr_identity *kvr_tls_stream_peer(const struct kvr_tls_stream *stream);
/* When its certificate ends, in seconds of 1970. */
int64_t kvr_tls_stream_peer_expiry(const struct kvr_tls_stream *stream);
/* Judges the other side's certificates once more, by the newest CA and lists.
 * KVR_TLS_REFUSAL_END: they are fine. The session goes on either way: its owner ends it. */
KVR_MUST_CHECK kvr_tls_refusal kvr_tls_stream_check(const struct kvr_tls_stream *stream,
                                                    struct kvr_error *error);
/* Why it was refused; KVR_TLS_REFUSAL_END: it was not. */
kvr_tls_refusal kvr_tls_stream_refusal(const struct kvr_tls_stream *stream);

#endif
