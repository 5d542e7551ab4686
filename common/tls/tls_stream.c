#include "tls/tls_stream.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

/* Room that plaintext leaves to alerts and to answers about keys. */
#define OUTPUT_RESERVE 4096u
#define RECORD_EXTRA   256u /* header, type and tag of a record, at most */

/* TLS 1.3 alone, by certificates alone; ECDSA first: it costs a server a tenth of RSA. */
static const char priorities[] =
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:"
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:"
    "-SIGN-ALL:+SIGN-ECDSA-SECP256R1-SHA256:+SIGN-EDDSA-ED25519:+SIGN-ECDSA-SECP384R1-SHA384:"
    "+SIGN-RSA-PSS-RSAE-SHA256:+SIGN-RSA-PSS-RSAE-SHA384:+SIGN-RSA-SHA256:+SIGN-RSA-SHA384";

struct kvr_tls_stream {
    struct kvr_tls_stream_options options;
    gnutls_session_t session;
    struct kvr_generation *generation; /* of the certificate that this side shows */
    bool done;                         /* the handshake is */
    bool overflowed;                   /* the output had no room */
    unsigned extra;                    /* messages about keys and tickets since the last data */
    kvr_tls_refusal refusal;
    struct kvr_error why; /* of the refusal */
    struct kvr_identity peer;
    gnutls_x509_crt_t chain[KVR_CREDENTIALS_CHAIN_MAX]; /* that the other side showed */
    unsigned chain_count;
    const uint8_t *input; /* fed and not used */
    size_t input_bytes;
    size_t output_first, output_end;
    uint8_t output[KVR_TLS_OUTPUT_BYTES];
};

/* ---- bytes ---- */

static ssize_t pull(gnutls_transport_ptr_t self, void *room, size_t bytes)
{
    struct kvr_tls_stream *stream = self;

    if (stream->input_bytes == 0) {
        gnutls_transport_set_errno(stream->session, EAGAIN);
        return -1;
    }
    if (bytes > stream->input_bytes)
        bytes = stream->input_bytes;
    memcpy(room, stream->input, bytes);
    stream->input += bytes;
    stream->input_bytes -= bytes;
    return (ssize_t)bytes;
}

/* The handshake asks before it pulls. */
static int pull_timeout(gnutls_transport_ptr_t self, unsigned ms)
{
    (void)ms;
    return ((struct kvr_tls_stream *)self)->input_bytes > 0;
}

static ssize_t push(gnutls_transport_ptr_t self, const void *bytes, size_t count)
{
    struct kvr_tls_stream *stream = self;

    if (count > sizeof(stream->output) - stream->output_end) {
        stream->overflowed = true;
        gnutls_transport_set_errno(stream->session, ENOBUFS);
        return -1;
    }
    memcpy(stream->output + stream->output_end, bytes, count);
    stream->output_end += count;
    return (ssize_t)count;
}

void kvr_tls_stream_feed(struct kvr_tls_stream *stream, const uint8_t *bytes, size_t count)
{
    stream->input = bytes;
    stream->input_bytes = count;
}

const uint8_t *kvr_tls_stream_output(const struct kvr_tls_stream *stream, size_t *ret_bytes)
{
    *ret_bytes = stream->output_end - stream->output_first;
    return stream->output + stream->output_first;
}

void kvr_tls_stream_sent(struct kvr_tls_stream *stream, size_t bytes)
{
    assert(bytes <= stream->output_end - stream->output_first);
    stream->output_first += bytes;
    if (stream->output_first == stream->output_end)
        stream->output_first = stream->output_end = 0;
}

/* ---- refusing ---- */

static kvr_status refuse(struct kvr_tls_stream *stream, kvr_tls_refusal refusal,
                         struct kvr_error *error)
{
    if (stream->refusal == KVR_TLS_REFUSAL_END)
        stream->refusal = refusal;
    if (error != NULL)
        *error = stream->why;
    return KVR_REFUSED;
}

static gnutls_alert_description_t alert_of(kvr_tls_refusal refusal)
{
    switch (refusal) {
    case KVR_TLS_UNKNOWN_CA:
        return GNUTLS_A_UNKNOWN_CA;
    case KVR_TLS_EXPIRED:
        return GNUTLS_A_CERTIFICATE_EXPIRED;
    case KVR_TLS_REVOKED:
        return GNUTLS_A_CERTIFICATE_REVOKED;
    case KVR_TLS_PURPOSE:
        return GNUTLS_A_UNSUPPORTED_CERTIFICATE;
    case KVR_TLS_NO_IDENTITY:
        return GNUTLS_A_BAD_CERTIFICATE;
    default:
        return GNUTLS_A_ACCESS_DENIED;
    }
}

static const char *alert_text(gnutls_alert_description_t alert)
{
    switch (alert) {
    case GNUTLS_A_CERTIFICATE_REQUIRED:
        return "it wants a certificate of this agent";
    case GNUTLS_A_UNKNOWN_CA:
        return "it does not know this agent's CA";
    case GNUTLS_A_CERTIFICATE_EXPIRED:
        return "it says that this agent's certificate is expired";
    case GNUTLS_A_CERTIFICATE_REVOKED:
        return "it says that this agent's certificate is revoked";
    case GNUTLS_A_UNSUPPORTED_CERTIFICATE:
        return "it says that this agent's certificate has the wrong purpose";
    case GNUTLS_A_BAD_CERTIFICATE:
        return "it finds no program's name in this agent's certificate";
    case GNUTLS_A_ACCESS_DENIED:
        return "it refuses the fleet or role in this agent's certificate";
    case GNUTLS_A_PROTOCOL_VERSION:
    case GNUTLS_A_HANDSHAKE_FAILURE:
    case GNUTLS_A_INSUFFICIENT_SECURITY:
        return "it does not speak TLS 1.3, or has no cipher in common";
    default:
        return NULL;
    }
}

static kvr_status refuse_by_alert(struct kvr_tls_stream *stream, struct kvr_error *error)
{
    gnutls_alert_description_t alert = gnutls_alert_get(stream->session);
    const char *text = alert_text(alert), *name = gnutls_alert_get_name(alert);

    if (text != NULL)
        kvr_error_set(&stream->why, KVR_REFUSED, "tls", "%s", text);
    else
        kvr_error_set(&stream->why, KVR_REFUSED, "tls", "it ended TLS with the alert %s",
                      name != NULL ? name : "?");
    return refuse(stream,
                  alert == GNUTLS_A_PROTOCOL_VERSION || alert == GNUTLS_A_HANDSHAKE_FAILURE ||
                          alert == GNUTLS_A_INSUFFICIENT_SECURITY
                      ? KVR_TLS_PROTOCOL
                      : KVR_TLS_BY_PEER,
                  error);
}

/* GnuTLS says so of a ClientHello without a version or a cipher of ours. */
static bool speaks_no_tls13(int result)
{
    return result == GNUTLS_E_UNSUPPORTED_VERSION_PACKET || result == GNUTLS_E_NO_CIPHER_SUITES;
}

static kvr_tls_refusal refusal_of(const struct kvr_tls_stream *stream, int result)
{
    if (stream->overflowed || result == GNUTLS_E_TOO_MANY_HANDSHAKE_PACKETS ||
        result == GNUTLS_E_TOO_MANY_EMPTY_PACKETS)
        return KVR_TLS_FLOOD;
    if (result == GNUTLS_E_NO_CERTIFICATE_FOUND || result == GNUTLS_E_CERTIFICATE_REQUIRED)
        return KVR_TLS_NO_CERTIFICATE;
    return KVR_TLS_PROTOCOL;
}

static kvr_status refuse_by_gnutls(struct kvr_tls_stream *stream, int result,
                                   struct kvr_error *error)
{
    kvr_tls_refusal refusal = refusal_of(stream, result);

    if (stream->refusal != KVR_TLS_REFUSAL_END) { /* certificates were judged */
        (void)gnutls_alert_send(stream->session, GNUTLS_AL_FATAL, alert_of(stream->refusal));
        return refuse(stream, stream->refusal, error);
    }
    if (result == GNUTLS_E_FATAL_ALERT_RECEIVED)
        return refuse_by_alert(stream, error);
    if (speaks_no_tls13(result))
        (void)gnutls_alert_send(stream->session, GNUTLS_AL_FATAL, GNUTLS_A_PROTOCOL_VERSION);
    else
        (void)gnutls_alert_send_appropriate(stream->session, result);
    if (refusal == KVR_TLS_PROTOCOL && !speaks_no_tls13(result))
        kvr_error_set(&stream->why, KVR_REFUSED, "tls", "TLS 1.3 with it fails: %s",
                      gnutls_strerror(result));
    else
        kvr_error_set(&stream->why, KVR_REFUSED, "tls", "%s", kvr_tls_refusal_text(refusal));
    return refuse(stream, refusal, error);
}

/* ---- the handshake ---- */

/* GnuTLS calls it in the handshake; another result than 0 ends that. */
static int judge(gnutls_session_t session)
{
    struct kvr_tls_stream *stream = gnutls_session_get_ptr(session);

    stream->chain_count = kvr_chain_shown(session, stream->chain);
    stream->refusal = kvr_generation_judge(stream->generation, stream->chain, stream->chain_count,
                                           !stream->options.server, stream->options.roles,
                                           &stream->peer, &stream->why);
    return stream->refusal == KVR_TLS_REFUSAL_END ? 0 : GNUTLS_E_CERTIFICATE_ERROR;
}

/* Of each handshake message; after the handshake those are about keys and tickets. */
static int on_handshake_message(gnutls_session_t session, unsigned kind, unsigned when,
                                unsigned incoming, const gnutls_datum_t *message)
{
    struct kvr_tls_stream *stream = gnutls_session_get_ptr(session);

    (void)kind;
    (void)when;
    (void)message;
    if (!stream->done || !incoming || ++stream->extra <= KVR_TLS_EXTRA_MAX)
        return 0;
    return GNUTLS_E_TOO_MANY_HANDSHAKE_PACKETS;
}

kvr_status kvr_tls_stream_open(const struct kvr_tls_stream_options *options,
                               struct kvr_tls_stream **ret_stream, struct kvr_error *error)
{
    unsigned flags = (options->server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK |
                     GNUTLS_NO_TICKETS | GNUTLS_NO_SIGNAL;
    struct kvr_tls_stream *stream = calloc(1, sizeof(*stream));
    int result;

    if (stream == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "tls", "no memory for a TLS session");
    stream->options = *options;
    stream->refusal = KVR_TLS_REFUSAL_END;
    stream->generation = kvr_generation_hold(options->credentials);
    result = gnutls_init(&stream->session, flags);
    if (result >= 0) {
        gnutls_session_set_ptr(stream->session, stream);
        gnutls_certificate_set_verify_function(kvr_generation_x509(stream->generation), judge);
        result = gnutls_priority_set_direct(stream->session, priorities, NULL);
    }
    if (result >= 0)
        result = gnutls_credentials_set(stream->session, GNUTLS_CRD_CERTIFICATE,
                                        kvr_generation_x509(stream->generation));
    if (result < 0) {
        kvr_tls_stream_close(stream);
        return kvr_error_set(error, KVR_SYSTEM, "tls", "no TLS session: %s",
                             gnutls_strerror(result));
    }
    if (options->server)
        gnutls_certificate_server_set_request(stream->session, GNUTLS_CERT_REQUIRE);
    gnutls_handshake_set_timeout(stream->session, GNUTLS_INDEFINITE_TIMEOUT); /* the owner's */
    gnutls_handshake_set_hook_function(stream->session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST,
                                       on_handshake_message);
    gnutls_transport_set_ptr(stream->session, stream);
    gnutls_transport_set_pull_function(stream->session, pull);
    gnutls_transport_set_pull_timeout_function(stream->session, pull_timeout);
    gnutls_transport_set_push_function(stream->session, push);
    *ret_stream = stream;
    return KVR_OK;
}

void kvr_tls_stream_close(struct kvr_tls_stream *stream)
{
    if (stream == NULL)
        return;
    if (stream->session != NULL)
        gnutls_deinit(stream->session);
    kvr_chain_free(stream->chain, stream->chain_count);
    kvr_generation_release(stream->generation);
    free(stream);
}

/* What only the moment forbids, or only informs. */
static bool goes_on(int result)
{
    return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ||
           result == GNUTLS_E_WARNING_ALERT_RECEIVED;
}

kvr_status kvr_tls_stream_handshake(struct kvr_tls_stream *stream, struct kvr_error *error)
{
    int result;

    if (stream->done)
        return KVR_OK;
    if (stream->refusal != KVR_TLS_REFUSAL_END)
        return refuse(stream, stream->refusal, error);
    do {
        result = gnutls_handshake(stream->session);
    } while (result < 0 && goes_on(result) && stream->input_bytes > 0);
    if (result < 0)
        return goes_on(result) ? KVR_AGAIN : refuse_by_gnutls(stream, result, error);
    stream->done = true;
    return KVR_OK;
}

/* ---- data ---- */

kvr_status kvr_tls_stream_read(struct kvr_tls_stream *stream, uint8_t *room, size_t room_bytes,
                               size_t *ret_bytes, struct kvr_error *error)
{
    ssize_t result;

    assert(stream->done && room_bytes > 0);
    if (stream->refusal != KVR_TLS_REFUSAL_END)
        return refuse(stream, stream->refusal, error);
    do {
        result = gnutls_record_recv(stream->session, room, room_bytes);
    } while (result < 0 && goes_on((int)result) &&
             (stream->input_bytes > 0 || gnutls_record_check_pending(stream->session) > 0));
    if (result > 0) {
        stream->extra = 0;
        *ret_bytes = (size_t)result;
        return KVR_OK;
    }
    if (result == 0)
        return kvr_error_set(error, KVR_PEER_LOST, "tls", "the other side closed the connection");
    return goes_on((int)result) ? KVR_AGAIN : refuse_by_gnutls(stream, (int)result, error);
}

size_t kvr_tls_stream_write(struct kvr_tls_stream *stream, const uint8_t *bytes, size_t count)
{
    size_t taken = 0;

    assert(stream->done);
    while (taken < count && stream->refusal == KVR_TLS_REFUSAL_END && !stream->overflowed) {
        size_t room = sizeof(stream->output) - stream->output_end;
        size_t piece = count - taken < KVR_TLS_RECORD_BYTES ? count - taken : KVR_TLS_RECORD_BYTES;
        ssize_t result;

        if (room < piece + RECORD_EXTRA + OUTPUT_RESERVE)
            break;
        result = gnutls_record_send(stream->session, bytes + taken, piece);
        if (result <= 0)
            break;
        taken += (size_t)result;
    }
    return taken;
}

void kvr_tls_stream_finish(struct kvr_tls_stream *stream)
{
    if (stream->done && stream->refusal == KVR_TLS_REFUSAL_END)
        (void)gnutls_bye(stream->session, GNUTLS_SHUT_WR);
}

/* ---- the other side ---- */

const struct kvr_identity *kvr_tls_stream_peer(const struct kvr_tls_stream *stream)
{
    return stream->done ? &stream->peer : NULL;
}

int64_t kvr_tls_stream_peer_expiry(const struct kvr_tls_stream *stream)
{
    return stream->chain_count > 0 ? gnutls_x509_crt_get_expiration_time(stream->chain[0]) : 0;
}

kvr_tls_refusal kvr_tls_stream_check(const struct kvr_tls_stream *stream, struct kvr_error *error)
{
    struct kvr_generation *newest = kvr_generation_hold(stream->options.credentials);
    gnutls_x509_crt_t chain[KVR_CREDENTIALS_CHAIN_MAX];
    struct kvr_identity peer;
    kvr_tls_refusal refusal;

    memcpy(chain, stream->chain, sizeof(chain));
    refusal = kvr_generation_judge(newest, chain, stream->chain_count, !stream->options.server,
                                   stream->options.roles, &peer, error);
    kvr_generation_release(newest);
    return refusal;
}

kvr_tls_refusal kvr_tls_stream_refusal(const struct kvr_tls_stream *stream)
{
    return stream->refusal;
}
