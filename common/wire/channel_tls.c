/* TLS of a connection: the handshake before up(), then ciphertext to frames and frames to
 * ciphertext. The decisions are tls/tls_stream.c's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/channel_parts.h"
#include "wire/message.h"

#define TOGETHER                                                                                   \
    "it may be older or run with --insecure: upgrade prefill-agents and decode-agents together"

/* Ends by a reason of TLS. What is queued, an alert or a last frame, still goes out. */
static void refuse(struct kvr_channel *channel, kvr_tls_refusal refusal, const char *detail)
{
    struct kvr_channel_handler handler = channel->options.handler;
    char kept[KVR_DETAIL_BYTES];

    snprintf(kept, sizeof(kept), "%s", detail);
    channel->refusal = refusal;
    channel->tls_finished = true; /* an alert has said it */
    kvr_channel_flush(channel);
    kvr_channel_wind_up(channel);
    handler.closed(handler.self, channel, KVR_REFUSED, kept);
}

void kvr_channel_handshake_cut(struct kvr_channel *channel, const char *how)
{
    bool accepted = channel->listener != NULL;

    channel->refusal = KVR_TLS_CUT;
    if (accepted || channel->tls_begun)
        kvr_channel_fail(channel, KVR_REFUSED, "%s", how);
    else
        kvr_channel_fail(channel, KVR_REFUSED, "it answers no TLS: " TOGETHER);
}

/* A last frame that an agent without TLS understands. */
static void refuse_plain(struct kvr_channel *channel)
{
    struct kvr_message message = {.kind = KVR_MSG_REFUSED, .reason = {.status = KVR_REFUSED}};
    uint8_t header[KVR_FRAME_HEADER_BYTES], frame[512];
    size_t bytes;

    kvr_tls_stream_close(channel->tls);
    channel->tls = NULL;
    snprintf(
        message.reason.detail, sizeof(message.reason.detail),
        "this agent takes TLS alone: give --tls-certificate, --tls-key and --tls-ca there, and "
        "upgrade prefill-agents and decode-agents together");
    if (kvr_message_encode(&message, frame, sizeof(frame), &bytes) == KVR_OK) {
        kvr_frame_header((uint32_t)bytes, header);
        kvr_channel_put(channel, header, sizeof(header));
        kvr_channel_put(channel, frame, bytes);
    }
    refuse(channel, KVR_TLS_PLAIN, "it does not speak TLS: " TOGETHER);
}

void kvr_channel_secure(struct kvr_channel *channel, bool accepted)
{
    struct kvr_tls_stream_options options = {
        .credentials = channel->options.credentials,
        .server = accepted,
        .roles = channel->options.roles,
    };
    struct kvr_error error = {0};

    if (kvr_tls_stream_open(&options, &channel->tls, &error) != KVR_OK)
        return kvr_channel_fail(channel, error.status, "%s", error.detail);
    if (accepted)
        return;                                            /* the other side begins */
    (void)!kvr_tls_stream_handshake(channel->tls, &error); /* nothing has come: it wants more */
    kvr_channel_flush(channel);
}

/* True: it is up. */
static bool shake(struct kvr_channel *channel)
{
    struct kvr_channel_handler *handler = &channel->options.handler;
    struct kvr_error error = {0};
    kvr_status status = kvr_tls_stream_handshake(channel->tls, &error);

    if (status == KVR_REFUSED) {
        refuse(channel, kvr_tls_stream_refusal(channel->tls), error.detail);
        return false;
    }
    kvr_channel_flush(channel);
    if (status != KVR_OK)
        return false;
    channel->state = KVR_CHANNEL_UP;
    handler->up(handler->self, channel);
    return channel->state == KVR_CHANNEL_UP;
}

/* Both sides of TLS begin with a record of a handshake; an alert may come too. */
static bool looks_like_tls(const struct kvr_channel *channel, uint8_t first)
{
    return first == KVR_TLS_FIRST_BYTE || (channel->listener == NULL && first == 0x15);
}

static void take_records(struct kvr_channel *channel)
{
    struct kvr_error error = {0};
    kvr_status status = KVR_OK;
    size_t room_bytes, bytes;

    while (channel->state == KVR_CHANNEL_UP) {
        uint8_t *room = kvr_frame_parser_room(&channel->parser, &room_bytes);

        status = kvr_tls_stream_read(channel->tls, room, room_bytes, &bytes, &error);
        if (status != KVR_OK)
            break;
        kvr_frame_parser_filled(&channel->parser, bytes);
        kvr_channel_give_frames(channel);
    }
    if (channel->state != KVR_CHANNEL_UP)
        return;
    if (status == KVR_AGAIN)
        return kvr_channel_flush(channel); /* answers about keys */
    if (status == KVR_REFUSED)
        return refuse(channel, kvr_tls_stream_refusal(channel->tls), error.detail);
    kvr_channel_fail(channel, KVR_SYSTEM, "%s", error.detail);
}

void kvr_channel_decrypt(struct kvr_channel *channel, const uint8_t *bytes, size_t count)
{
    if (channel->state != KVR_CHANNEL_SECURING && channel->state != KVR_CHANNEL_UP)
        return;
    if (!channel->tls_begun && !looks_like_tls(channel, bytes[0])) {
        if (channel->listener != NULL)
            return refuse_plain(channel);
        return refuse(channel, KVR_TLS_PLAIN, "it answers without TLS: " TOGETHER);
    }
    channel->tls_begun = true;
    kvr_tls_stream_feed(channel->tls, bytes, count);
    if (channel->state == KVR_CHANNEL_SECURING && !shake(channel))
        return;
    take_records(channel);
}

const uint8_t *kvr_channel_encrypt(struct kvr_channel *channel, size_t *ret_bytes)
{
    bool open = kvr_tls_stream_peer(channel->tls) != NULL;

    while (open && channel->ring_used > 0) {
        size_t until_end = KVR_CHANNEL_QUEUE_BYTES - channel->ring_first;
        size_t piece = channel->ring_used < until_end ? channel->ring_used : until_end;
        size_t taken =
            kvr_tls_stream_write(channel->tls, channel->ring + channel->ring_first, piece);

        kvr_channel_took(channel, taken);
        if (taken < piece)
            break;
    }
    (void)kvr_tls_stream_output(channel->tls, ret_bytes);
    if (open && channel->ring_used > 0 && *ret_bytes == 0) { /* GnuTLS takes no more */
        channel->broken = UV_EPROTO;
        kvr_channel_start_timer(channel, 0);
    }
    return kvr_tls_stream_output(channel->tls, ret_bytes);
}

const struct kvr_identity *kvr_channel_peer(const struct kvr_channel *channel)
{
    return channel->tls != NULL ? kvr_tls_stream_peer(channel->tls) : NULL;
}

kvr_tls_refusal kvr_channel_check(const struct kvr_channel *channel, struct kvr_error *error)
{
    return kvr_channel_peer(channel) != NULL ? kvr_tls_stream_check(channel->tls, error)
                                             : KVR_TLS_REFUSAL_END;
}

int64_t kvr_channel_peer_expiry(const struct kvr_channel *channel)
{
    return channel->tls != NULL ? kvr_tls_stream_peer_expiry(channel->tls) : INT64_MAX;
}

kvr_tls_refusal kvr_channel_refusal(const struct kvr_channel *channel)
{
    return channel->refusal;
}
