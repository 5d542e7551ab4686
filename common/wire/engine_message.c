#include "wire/engine_message.h"

#include <stdlib.h>

#include "wire/engine_codec.h"

const char *kvr_request_name(kvr_request_kind kind)
{
    static const char *const names[KVR_REQ_KIND_END] = {
        [KVR_REQ_ATTACH] = "attach",
        [KVR_REQ_REGION_ADD] = "region_add",
        [KVR_REQ_REGION_DROP] = "region_drop",
        [KVR_REQ_SOURCE_OPEN] = "source_open",
        [KVR_REQ_SOURCE_PAGES] = "source_pages",
        [KVR_REQ_WATCH] = "watch",
        [KVR_REQ_SOURCE_TAIL] = "source_tail",
        [KVR_REQ_SOURCE_END] = "source_end",
        [KVR_REQ_TARGET_OPEN] = "target_open",
        [KVR_REQ_TARGET_PAGES] = "target_pages",
        [KVR_REQ_CANCEL] = "cancel",
        [KVR_REQ_RENEW] = "renew",
        [KVR_REQ_WHY] = "why",
        [KVR_REQ_DETACH] = "detach",
        [KVR_REQ_REGION_EXTENTS] = "region_extents",
        [KVR_REQ_TARGET_SKIP] = "target_skip",
        [KVR_REQ_TARGET_HOLD] = "target_hold",
        [KVR_REQ_PAIRS] = "pairs",
    };

    return (unsigned)kind < KVR_REQ_KIND_END && names[kind] != NULL ? names[kind] : "?";
}

static const struct {
    const char *name;
    bool terminal;
} notices[KVR_NOTICE_KIND_END] = {KVR_NOTICE_LIST(KVR_ROW)};

const char *kvr_notice_name(kvr_notice_kind kind)
{
    return (unsigned)kind < KVR_NOTICE_KIND_END && notices[kind].name != NULL ? notices[kind].name
                                                                              : "?";
}

bool kvr_notice_terminal(kvr_notice_kind kind)
{
    return (unsigned)kind < KVR_NOTICE_KIND_END && notices[kind].terminal;
}

bool kvr_notice_join(struct kvr_notice *notice, const struct kvr_notice *next)
{
    if (notice->kind != KVR_NOTICE_LAYER_IN || next->kind != KVR_NOTICE_LAYER_IN ||
        next->handle != notice->handle || next->token_first != notice->token_first ||
        next->token_end != notice->token_end || next->bytes != notice->bytes ||
        next->layer_first != notice->layer_first + notice->layer_count)
        return false;
    notice->layer_count += next->layer_count;
    return true;
}

/* ---- memory of one packet -------------------------------------------------------------------- */

kvr_status kvr_engine_pack(const PB(EnginePacket) * packet, uint8_t *buffer, size_t capacity,
                           size_t *ret_bytes)
{
    size_t bytes = protobuf_c_message_get_packed_size(&packet->base);

    if (bytes > capacity || bytes > KVR_PACKET_BYTES_MAX)
        return KVR_TOO_LARGE;
    *ret_bytes = protobuf_c_message_pack(&packet->base, buffer);
    return KVR_OK;
}

/* A full packet of ours needs less than three times its size; what needs more is no packet of ours,
 * but many tiny fields that want to be large in memory. */
#define ARENA_BYTES (512u << 10)

struct kvr_engine_decoder {
    ProtobufCAllocator allocator;
    size_t used;
    _Alignas(16) uint8_t arena[ARENA_BYTES];
};

void *kvr_engine_take(void *self, size_t bytes)
{
    struct kvr_engine_decoder *decoder = self;
    void *room = decoder->arena + decoder->used;

    if (bytes > ARENA_BYTES - decoder->used)
        return NULL;
    decoder->used += (bytes + 15) & ~(size_t)15;
    return room;
}

/* Everything goes at once, before the next packet. */
static void arena_forget(void *self, void *room)
{
    (void)self;
    (void)room;
}

struct kvr_engine_decoder *kvr_engine_decoder_open(void)
{
    struct kvr_engine_decoder *decoder = malloc(sizeof(*decoder));

    if (decoder == NULL)
        return NULL;
    decoder->allocator = (ProtobufCAllocator){kvr_engine_take, arena_forget, decoder};
    decoder->used = 0;
    return decoder;
}

void kvr_engine_decoder_close(struct kvr_engine_decoder *decoder)
{
    free(decoder);
}

void kvr_engine_decoder_wipe(struct kvr_engine_decoder *decoder)
{
    kvr_secret_wipe(decoder->arena, decoder->used);
    decoder->used = 0;
}

kvr_status kvr_engine_malformed(struct kvr_error *error, const char *what)
{
    (void)kvr_error_set(error, KVR_MALFORMED, "engine", "%s", what);
    return KVR_MALFORMED;
}

kvr_status kvr_engine_unpack(struct kvr_engine_decoder *decoder, const uint8_t *packet,
                             size_t bytes, PB(EnginePacket) * *ret_packet, struct kvr_error *error)
{
    if (bytes > KVR_PACKET_BYTES_MAX)
        return kvr_engine_malformed(error, "the packet is longer than 64 KiB");
    decoder->used = 0;
    *ret_packet = kvrail__engine__engine_packet__unpack(&decoder->allocator, bytes, packet);
    if (*ret_packet == NULL)
        return kvr_engine_malformed(error, "the packet is not an EnginePacket");
    return KVR_OK;
}

/* ---- notices --------------------------------------------------------------------------------- */

#define NOTICE_FIELDS(X)                                                                           \
    X(kind)                                                                                        \
    X(status)                                                                                      \
    X(layer_first)                                                                                 \
    X(layer_count)                                                                                 \
    X(token_first)                                                                                 \
    X(token_end)                                                                                   \
    X(bytes)                                                                                       \
    X(writes)                                                                                      \
    X(retries)                                                                                     \
    X(at)                                                                                          \
    X(abilities)

static void notice_to_proto(const struct kvr_notice *in, PB(Notice) * out)
{
    kvrail__engine__notice__init(out);
    NOTICE_FIELDS(KVR_PROTO_COPY)
    out->agent = kvr_proto_text(in->agent);
    out->payload = kvr_proto_bytes(in->payload, in->payload_bytes);
    out->detail = kvr_proto_text(in->detail);
}

kvr_status kvr_notice_encode(const struct kvr_notice *notice, uint8_t *buffer, size_t capacity,
                             size_t *ret_bytes)
{
    PB(EnginePacket) packet = KVRAIL__ENGINE__ENGINE_PACKET__INIT;
    PB(Notice) body;

    notice_to_proto(notice, &body);
    packet.handle = notice->handle;
    packet.body_case = BODY(NOTICE);
    packet.notice = &body;
    return kvr_engine_pack(&packet, buffer, capacity, ret_bytes);
}

/* A sentence for people: cut rather than refused. */
static void take_detail(const char *from, char *to, size_t capacity)
{
    size_t length = strnlen(from, capacity - 1);

    memset(to, 0, capacity);
    memcpy(to, from, length);
}

/* A status that only a newer agent knows is kept as it is: it is the end of a transfer all the
 * same. */
static void notice_from_proto(const PB(Notice) * in, struct kvr_notice *out)
{
    NOTICE_FIELDS(KVR_PROTO_COPY)
    out->payload = in->payload.data;
    out->payload_bytes = (uint32_t)in->payload.len;
    take_detail(in->agent, out->agent, sizeof(out->agent));
    take_detail(in->detail, out->detail, sizeof(out->detail));
}

kvr_status kvr_notice_decode(struct kvr_engine_decoder *decoder, const uint8_t *packet,
                             size_t bytes, struct kvr_notice *ret_notice, struct kvr_error *error)
{
    PB(EnginePacket) * message;
    const PB(Notice) * body;

    KVR_TRY(kvr_engine_unpack(decoder, packet, bytes, &message, error));
    if (message->body_case != BODY(NOTICE))
        return kvr_engine_malformed(error, "the packet holds no notice");
    body = message->notice;
    if (body->kind == KVR_NOTICE_NONE || body->kind >= KVR_NOTICE_KIND_END)
        return kvr_error_set(error, KVR_UNSUPPORTED, "engine", "notice %u is not known",
                             body->kind);
    memset(ret_notice, 0, sizeof(*ret_notice));
    ret_notice->handle = message->handle;
    notice_from_proto(body, ret_notice);
    return KVR_OK;
}
