#include "wire/engine_message.h"

#include <assert.h>

#include "base/plain_name.h"
#include "base/text.h"
#include "wire/engine_codec.h"
#include "wire/geometry.h"
#include "wire/packet_socket.h"

/* The schema numbers bodies by kind + 1, so that neither side needs a table. */
static_assert(BODY(ATTACH) == (int)KVR_REQ_ATTACH + 1, "engine.proto and kinds differ");
static_assert(BODY(TARGET_OPEN) == (int)KVR_REQ_TARGET_OPEN + 1, "engine.proto and kinds differ");
static_assert(BODY(DETACH) == (int)KVR_REQ_DETACH + 1, "engine.proto and kinds differ");
static_assert(BODY(NOTICE) == (int)KVR_REQ_DETACH + 2, "engine.proto and kinds differ");
static_assert(BODY(PAIRS) == (int)KVR_REQ_PAIRS + 1, "engine.proto and kinds differ");
static_assert(BODY(REGION_EXTENTS) == (int)KVR_REQ_REGION_EXTENTS + 1,
              "engine.proto and kinds differ");

#define REGION_FIELDS(X)                                                                           \
    X(memory) X(device) X(fd_offset) X(memory_of) X(dmabuf) X(dmabuf_offset) X(order)
#define EXTENTS_FIELDS(X)     X(region) X(first) X(total)
#define SOURCE_OPEN_FIELDS(X) X(attempt) X(tokens) X(consumers) X(lease_ms) X(priority)
#define PAGES_FIELDS(X)       X(group) X(page_first)
#define SKIP_FIELDS(X)        X(group) X(skip_tokens)
#define WATCH_FIELDS(X)       X(word) X(token_first) X(token_end)
#define TARGET_OPEN_FIELDS(X)                                                                      \
    X(attempt) X(tokens) X(skip_tokens) X(deadline_ms) X(priority) X(digest)
#define SOURCE_FIELDS(X) X(generation) X(tp) X(pp)

/* ---- encode --------------------------------------------------------------------------------- */

/* The structs that one encoded request points into. */
struct encode_room {
    union {
        PB(Attach) attach;
        PB(Region) region;
        PB(RegionDrop) region_drop;
        PB(RegionExtents) extents;
        PB(SourceOpen) source_open;
        PB(Pages) pages;
        PB(Watch) watch;
        PB(Tail) tail;
        PB(Status) status;
        PB(TargetOpen) target_open;
        PB(Renew) renew;
        PB(Empty) empty;
    };
    kvr_pb_rank rank;
    kvr_pb_compat compat;
    kvr_pb_layout layout;
    PB(SourceAddress) sources[KVR_SOURCES_MAX];
    PB(SourceAddress) * source_pointers[KVR_SOURCES_MAX];
};

static void encode_attach(const struct kvr_req_attach *from, struct encode_room *room)
{
    kvrail__engine__attach__init(&room->attach);
    room->attach.version = KVR_ENGINE_PROTOCOL;
    room->attach.name = kvr_proto_text(from->name);
    room->attach.rank = &room->rank;
    room->attach.compat = &room->compat;
    kvr_geometry_put_rank(&from->rank, &room->rank);
    kvr_geometry_put_compat(&from->compat, &room->compat);
}

static void encode_region(const struct kvr_req_region *in, struct encode_room *room)
{
    static const struct kvr_uuid unknown;
    PB(Region) *out = &room->region;

    kvrail__engine__region__init(out);
    REGION_FIELDS(KVR_PROTO_COPY)
    kvr_geometry_put_layout(&in->layout, &room->layout);
    out->name = kvr_proto_text(in->name);
    if (in->memory == KVR_MEMORY_CUDA_IPC)
        out->ipc = kvr_proto_bytes(in->ipc, sizeof(in->ipc));
    out->layout = &room->layout;
    out->extents = in->extent_count;
    if (!kvr_uuid_equal(&in->gpu.uuid, &unknown))
        out->gpu = kvr_proto_bytes(in->gpu.uuid.bytes, sizeof(in->gpu.uuid.bytes));
    out->gpu_pci = kvr_proto_text(in->gpu.pci);
}

static void encode_extents(const struct kvr_req_extents *in, PB(RegionExtents) * out)
{
    kvrail__engine__region_extents__init(out);
    EXTENTS_FIELDS(KVR_PROTO_COPY)
    out->n_bytes = in->count;
    out->bytes = (uint64_t *)(uintptr_t)in->bytes;
}

static ProtobufCBinaryData encode_secret(const struct kvr_secret *secret)
{
    return kvr_secret_given(secret) ? kvr_proto_bytes(secret->bytes, sizeof(secret->bytes))
                                    : (ProtobufCBinaryData){0};
}

static void encode_source_open(const struct kvr_req_source_open *in, PB(SourceOpen) * out)
{
    kvrail__engine__source_open__init(out);
    SOURCE_OPEN_FIELDS(KVR_PROTO_COPY)
    out->request = kvr_proto_text(in->request);
    out->tenant = kvr_proto_text(in->tenant);
    out->secret = encode_secret(&in->secret);
}

static void encode_source(const struct kvr_source_address *in, PB(SourceAddress) * out)
{
    kvrail__engine__source_address__init(out);
    SOURCE_FIELDS(KVR_PROTO_COPY)
    out->agent = kvr_proto_text(in->agent);
    out->engine = kvr_proto_bytes(in->engine.bytes, sizeof(in->engine.bytes));
}

static void encode_target_open(const struct kvr_req_target_open *in, struct encode_room *room)
{
    PB(TargetOpen) *out = &room->target_open;

    kvrail__engine__target_open__init(out);
    TARGET_OPEN_FIELDS(KVR_PROTO_COPY)
    out->request = kvr_proto_text(in->request);
    out->tenant = kvr_proto_text(in->tenant);
    out->secret = encode_secret(&in->secret);
    out->n_sources = in->source_count;
    out->sources = room->source_pointers;
    for (uint32_t i = 0; i < in->source_count; i++) {
        room->source_pointers[i] = &room->sources[i];
        encode_source(&in->sources[i], &room->sources[i]);
    }
}

static void encode_pages(const struct kvr_req_pages *in, PB(Pages) * out)
{
    kvrail__engine__pages__init(out);
    PAGES_FIELDS(KVR_PROTO_COPY)
    out->n_ids = in->id_count;
    out->ids = (uint32_t *)(uintptr_t)in->ids;
}

static void encode_skip(const struct kvr_req_skip *in, PB(Pages) * out)
{
    kvrail__engine__pages__init(out);
    SKIP_FIELDS(KVR_PROTO_COPY)
    out->skips = true;
}

static void encode_watch(const struct kvr_req_watch *in, PB(Watch) * out)
{
    kvrail__engine__watch__init(out);
    WATCH_FIELDS(KVR_PROTO_COPY)
    out->base_value = in->base;
}

static void encode_status(kvr_status from, PB(Status) * out)
{
    kvrail__engine__status__init(out);
    out->status = from;
}

#define VALID(field) kvr_text_valid(field, sizeof(field))

static bool sources_encodable(const struct kvr_req_target_open *open)
{
    for (uint32_t i = 0; i < open->source_count; i++)
        if (!VALID(open->sources[i].agent))
            return false;
    return true;
}

/* What the other side would take for malformed: it would give up the whole connection. */
static bool encodable(const struct kvr_request *request)
{
    switch (request->kind) {
    case KVR_REQ_ATTACH:
        return VALID(request->attach.name) && VALID(request->attach.compat.model) &&
               VALID(request->attach.compat.dtype);
    case KVR_REQ_REGION_ADD:
        return request->region.layout.part_count <= KVR_PARTS_MAX && VALID(request->region.name);
    case KVR_REQ_SOURCE_OPEN:
        return VALID(request->source_open.request) &&
               kvr_plain_name_or_none(request->source_open.tenant);
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_TARGET_PAGES:
        return request->pages.id_count <= KVR_PAGES_PER_PACKET;
    case KVR_REQ_SOURCE_TAIL:
        return request->tail.byte_count <= KVR_TAIL_BYTES_MAX - 1024;
    case KVR_REQ_TARGET_OPEN:
        return request->target_open.source_count <= KVR_SOURCES_MAX &&
               VALID(request->target_open.request) &&
               kvr_plain_name_or_none(request->target_open.tenant) &&
               sources_encodable(&request->target_open);
    case KVR_REQ_REGION_EXTENTS:
        return request->extents.count <= KVR_PACKET_FDS_MAX;
    case KVR_REQ_TARGET_SKIP:
    case KVR_REQ_TARGET_HOLD:
    case KVR_REQ_PAIRS:
        return true;
    default:
        return request->kind > KVR_REQ_ATTACH && request->kind <= KVR_REQ_DETACH;
    }
}

static void encode_body(const struct kvr_request *request, struct encode_room *room)
{
    switch (request->kind) {
    case KVR_REQ_ATTACH:
        encode_attach(&request->attach, room);
        return;
    case KVR_REQ_REGION_ADD:
        encode_region(&request->region, room);
        return;
    case KVR_REQ_REGION_DROP:
        kvrail__engine__region_drop__init(&room->region_drop);
        room->region_drop.region = request->region.layout.region;
        return;
    case KVR_REQ_REGION_EXTENTS:
        encode_extents(&request->extents, &room->extents);
        return;
    case KVR_REQ_SOURCE_OPEN:
        encode_source_open(&request->source_open, &room->source_open);
        return;
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_TARGET_PAGES:
        encode_pages(&request->pages, &room->pages);
        return;
    case KVR_REQ_TARGET_SKIP:
        encode_skip(&request->skip, &room->pages);
        return;
    case KVR_REQ_TARGET_HOLD:
        kvrail__engine__pages__init(&room->pages);
        room->pages.hold = true;
        return;
    case KVR_REQ_WATCH:
        encode_watch(&request->watch, &room->watch);
        return;
    case KVR_REQ_SOURCE_TAIL:
        kvrail__engine__tail__init(&room->tail);
        room->tail.bytes = kvr_proto_bytes(request->tail.bytes, request->tail.byte_count);
        return;
    case KVR_REQ_SOURCE_END:
        encode_status(request->end.status, &room->status);
        return;
    case KVR_REQ_TARGET_OPEN:
        encode_target_open(&request->target_open, room);
        return;
    case KVR_REQ_CANCEL:
        encode_status(request->cancel.reason, &room->status);
        return;
    case KVR_REQ_RENEW:
        kvrail__engine__renew__init(&room->renew);
        room->renew.lease_ms = request->renew.lease_ms;
        return;
    case KVR_REQ_WHY:
    case KVR_REQ_DETACH:
    case KVR_REQ_PAIRS:
    case KVR_REQ_KIND_END:
        kvrail__engine__empty__init(&room->empty);
        return;
    }
}

kvr_status kvr_request_encode(const struct kvr_request *request, uint8_t *buffer, size_t capacity,
                              size_t *ret_bytes)
{
    PB(EnginePacket) packet = KVRAIL__ENGINE__ENGINE_PACKET__INIT;
    struct encode_room room;

    if (!encodable(request))
        return KVR_INVALID;
    encode_body(request, &room);
    packet.handle = request->handle;
    packet.body_case = request->kind == KVR_REQ_TARGET_SKIP || request->kind == KVR_REQ_TARGET_HOLD
                           ? BODY(TARGET_PAGES)
                           : (PB(EnginePacket__BodyCase))(request->kind + 1);
    packet.attach = &room.attach; /* every member of both unions is at the same place */
    return kvr_engine_pack(&packet, buffer, capacity, ret_bytes);
}

/* ---- decode --------------------------------------------------------------------------------- */

static bool take_text(const char *from, char *to, size_t capacity)
{
    if (!kvr_text_valid(from, capacity))
        return false;
    memset(to, 0, capacity);
    memcpy(to, from, strlen(from) + 1);
    return true;
}

static kvr_status decode_attach(const PB(Attach) * from, struct kvr_req_attach *to,
                                struct kvr_error *error)
{
    const char *wrong;

    if (from->version != KVR_ENGINE_PROTOCOL)
        return kvr_error_set(
            error, KVR_VERSION, "engine",
            "the engine's libkvrail speaks version %u of the engine protocol, this "
            "agent %u: %s",
            from->version, KVR_ENGINE_PROTOCOL,
            from->version < KVR_ENGINE_PROTOCOL
                ? "install the agent's libkvrail, then restart the engine"
                : "upgrade the agent, then restart the engine");
    if (!take_text(from->name, to->name, sizeof(to->name)))
        return kvr_engine_malformed(error, "the engine's name is too long or not printable");
    if ((wrong = kvr_geometry_get_rank(from->rank, &to->rank)) != NULL ||
        (wrong = kvr_geometry_get_compat(from->compat, &to->compat)) != NULL)
        return kvr_engine_malformed(error, wrong);
    return KVR_OK;
}

static kvr_status decode_region(const PB(Region) * in, struct kvr_req_region *out,
                                struct kvr_error *error)
{
    const char *wrong = kvr_geometry_get_layout(in->layout, &out->layout);

    if (wrong != NULL)
        return kvr_engine_malformed(error, wrong);
    if (!take_text(in->name, out->name, sizeof(out->name)))
        return kvr_engine_malformed(error, "the region's name is too long or not printable");
    if (in->memory > KVR_MEMORY_CUDA_VMM)
        return kvr_engine_malformed(error, "the region's kind of memory is not known");
    if (in->order >= KVR_ORDERS)
        return kvr_engine_malformed(error, "the order of a GPU's writes is not known");
    REGION_FIELDS(KVR_PROTO_COPY)
    if (in->ipc.len != (out->memory == KVR_MEMORY_CUDA_IPC ? sizeof(out->ipc) : 0))
        return kvr_engine_malformed(error, "the region's IPC handle has the wrong length");
    if (in->ipc.len != 0)
        memcpy(out->ipc, in->ipc.data, sizeof(out->ipc));
    if ((in->gpu.len != 0 && in->gpu.len != sizeof(out->gpu.uuid.bytes)) ||
        !take_text(in->gpu_pci, out->gpu.pci, sizeof(out->gpu.pci)))
        return kvr_engine_malformed(error, "the name of the region's GPU is malformed");
    if (in->gpu.len != 0)
        memcpy(out->gpu.uuid.bytes, in->gpu.data, sizeof(out->gpu.uuid.bytes));
    out->extent_count = in->extents;
    return KVR_OK;
}

static kvr_status decode_extents(const PB(RegionExtents) * in, struct kvr_req_extents *out,
                                 struct kvr_error *error)
{
    if (in->n_bytes > KVR_PACKET_FDS_MAX)
        return kvr_engine_malformed(error, "more extents than one packet may carry");
    EXTENTS_FIELDS(KVR_PROTO_COPY)
    out->bytes = in->bytes;
    out->count = (uint32_t)in->n_bytes;
    return KVR_OK;
}

static kvr_status take_request(const char *from, char to[KVR_REQUEST_BYTES],
                               struct kvr_error *error)
{
    if (!take_text(from, to, KVR_REQUEST_BYTES) || to[0] == '\0')
        return kvr_engine_malformed(error, "the request id is empty, too long or not printable");
    return KVR_OK;
}

static kvr_status take_tenant(const char *from, char to[KVR_NAME_BYTES], struct kvr_error *error)
{
    if (!take_text(from, to, KVR_NAME_BYTES) || !kvr_plain_name_or_none(to))
        return kvr_engine_malformed(error, "the tenant must have " KVR_PLAIN_NAME_FORM);
    return KVR_OK;
}

static kvr_status take_secret(const ProtobufCBinaryData *from, struct kvr_secret *to,
                              struct kvr_error *error)
{
    if (from->len != 0 && from->len != sizeof(to->bytes))
        return kvr_engine_malformed(error, "the secret of a request is not 32 bytes");
    if (from->len != 0)
        memcpy(to->bytes, from->data, from->len);
    return KVR_OK;
}

static kvr_status decode_source_open(const PB(SourceOpen) * in, struct kvr_req_source_open *out,
                                     struct kvr_error *error)
{
    SOURCE_OPEN_FIELDS(KVR_PROTO_COPY)
    KVR_TRY(take_secret(&in->secret, &out->secret, error));
    KVR_TRY(take_tenant(in->tenant, out->tenant, error));
    return take_request(in->request, out->request, error);
}

static kvr_status decode_pages(const PB(Pages) * in, struct kvr_req_pages *out,
                               struct kvr_error *error)
{
    if (in->n_ids > KVR_PAGES_PER_PACKET)
        return kvr_engine_malformed(error, "more page ids than one packet may carry");
    PAGES_FIELDS(KVR_PROTO_COPY)
    out->ids = in->ids;
    out->id_count = (uint32_t)in->n_ids;
    return KVR_OK;
}

static kvr_status decode_skip(const PB(Pages) * in, struct kvr_req_skip *out)
{
    SKIP_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status decode_tail(const PB(Tail) * in, struct kvr_req_tail *out,
                              struct kvr_error *error)
{
    if (in->bytes.len > KVR_TAIL_BYTES_MAX - 1024)
        return kvr_engine_malformed(error, "the tail is longer than 64512 bytes");
    out->bytes = in->bytes.data;
    out->byte_count = (uint32_t)in->bytes.len;
    return KVR_OK;
}

static kvr_status decode_source(const PB(SourceAddress) * in, struct kvr_source_address *out,
                                struct kvr_error *error)
{
    if (!take_text(in->agent, out->agent, sizeof(out->agent)))
        return kvr_engine_malformed(error, "a source's address is too long or not printable");
    if (in->engine.len != sizeof(out->engine.bytes))
        return kvr_engine_malformed(error, "a source's engine id is not 16 bytes");
    memcpy(out->engine.bytes, in->engine.data, sizeof(out->engine.bytes));
    SOURCE_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status decode_target_open(struct kvr_engine_decoder *decoder, const PB(TargetOpen) * in,
                                     struct kvr_req_target_open *out, struct kvr_error *error)
{
    struct kvr_source_address *sources;

    KVR_TRY(take_request(in->request, out->request, error));
    if (in->digest > KVR_DIGEST_FULL)
        return kvr_engine_malformed(error, "digest is neither off, sample nor full");
    TARGET_OPEN_FIELDS(KVR_PROTO_COPY)
    KVR_TRY(take_secret(&in->secret, &out->secret, error));
    KVR_TRY(take_tenant(in->tenant, out->tenant, error));
    if (in->n_sources > KVR_SOURCES_MAX)
        return kvr_engine_malformed(error, "more than 64 sources");
    sources = kvr_engine_take(decoder, in->n_sources * sizeof(*sources));
    if (sources == NULL)
        return kvr_engine_malformed(error, "the packet needs more memory than any packet of ours");
    for (size_t i = 0; i < in->n_sources; i++)
        KVR_TRY(decode_source(in->sources[i], &sources[i], error));
    out->sources = sources;
    out->source_count = (uint32_t)in->n_sources;
    return KVR_OK;
}

static kvr_status decode_watch(const PB(Watch) * in, struct kvr_req_watch *out)
{
    WATCH_FIELDS(KVR_PROTO_COPY)
    out->base = in->base_value;
    return KVR_OK;
}

static kvr_status decode_status(const PB(Status) * from, kvr_status *to, struct kvr_error *error)
{
    if (!kvr_status_known(from->status))
        return kvr_engine_malformed(error, "the reason is not a status that is known");
    *to = (kvr_status)from->status;
    return KVR_OK;
}

static kvr_status decode_body(struct kvr_engine_decoder *decoder, const PB(EnginePacket) * packet,
                              struct kvr_request *to, struct kvr_error *error)
{
    switch (to->kind) {
    case KVR_REQ_ATTACH:
        return decode_attach(packet->attach, &to->attach, error);
    case KVR_REQ_REGION_ADD:
        return decode_region(packet->region_add, &to->region, error);
    case KVR_REQ_REGION_DROP:
        to->region.layout.region = packet->region_drop->region;
        return KVR_OK;
    case KVR_REQ_REGION_EXTENTS:
        return decode_extents(packet->region_extents, &to->extents, error);
    case KVR_REQ_SOURCE_OPEN:
        return decode_source_open(packet->source_open, &to->source_open, error);
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_TARGET_PAGES:
        return decode_pages(packet->source_pages, &to->pages, error);
    case KVR_REQ_TARGET_SKIP:
        return decode_skip(packet->target_pages, &to->skip);
    case KVR_REQ_TARGET_HOLD:
        return KVR_OK;
    case KVR_REQ_WATCH:
        return decode_watch(packet->source_watch, &to->watch);
    case KVR_REQ_SOURCE_TAIL:
        return decode_tail(packet->source_tail, &to->tail, error);
    case KVR_REQ_SOURCE_END:
        return decode_status(packet->source_end, &to->end.status, error);
    case KVR_REQ_TARGET_OPEN:
        return decode_target_open(decoder, packet->target_open, &to->target_open, error);
    case KVR_REQ_CANCEL:
        return decode_status(packet->cancel, &to->cancel.reason, error);
    case KVR_REQ_RENEW:
        to->renew.lease_ms = packet->renew->lease_ms;
        return KVR_OK;
    case KVR_REQ_WHY:
    case KVR_REQ_DETACH:
    case KVR_REQ_PAIRS:
    case KVR_REQ_KIND_END:
        return KVR_OK;
    }
    return kvr_engine_malformed(error, "the packet holds no request");
}

kvr_status kvr_request_decode(struct kvr_engine_decoder *decoder, const uint8_t *packet,
                              size_t bytes, struct kvr_request *ret_request,
                              struct kvr_error *error)
{
    PB(EnginePacket) * message;
    struct kvr_request request;

    KVR_TRY(kvr_engine_unpack(decoder, packet, bytes, &message, error));
    if (message->body_case < BODY(ATTACH) || message->body_case == BODY(NOTICE) ||
        message->body_case > BODY(PAIRS))
        return kvr_engine_malformed(error, "the packet holds no request");
    memset(&request, 0, sizeof(request));
    request.kind = (kvr_request_kind)(message->body_case - 1);
    if (message->body_case == BODY(TARGET_PAGES) && message->target_pages->skips)
        request.kind = KVR_REQ_TARGET_SKIP;
    else if (message->body_case == BODY(TARGET_PAGES) && message->target_pages->hold)
        request.kind = KVR_REQ_TARGET_HOLD;
    request.handle = message->handle;
    KVR_TRY(decode_body(decoder, message, &request, error));
    *ret_request = request;
    kvr_secret_wipe(&request, sizeof(request));
    return KVR_OK;
}
