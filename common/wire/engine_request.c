#include "wire/engine_message.h"

#include <assert.h>

#include "base/text.h"
#include "wire/engine_codec.h"
#include "wire/geometry.h"
#include "wire/packet_socket.h"

/* The schema numbers bodies by kind + 1, so that neither side needs a table. */
static_assert(BODY(ATTACH) == (int)KVR_REQ_ATTACH + 1, "engine.proto and kinds differ");
static_assert(BODY(TARGET_OPEN) == (int)KVR_REQ_TARGET_OPEN + 1, "engine.proto and kinds differ");
static_assert(BODY(DETACH) == (int)KVR_REQ_DETACH + 1, "engine.proto and kinds differ");
static_assert(BODY(NOTICE) == (int)KVR_REQ_DETACH + 2, "engine.proto and kinds differ");
static_assert(BODY(REGION_EXTENTS) == (int)KVR_REQ_REGION_EXTENTS + 1,
              "engine.proto and kinds differ");

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
    room->attach.name = kvr_engine_text(from->name);
    room->attach.rank = &room->rank;
    room->attach.compat = &room->compat;
    kvr_geometry_put_rank(&from->rank, &room->rank);
    kvr_geometry_put_compat(&from->compat, &room->compat);
}

static void encode_region(const struct kvr_req_region *from, struct encode_room *room)
{
    kvrail__engine__region__init(&room->region);
    kvr_geometry_put_layout(&from->layout, &room->layout);
    room->region.name = kvr_engine_text(from->name);
    room->region.memory = from->memory;
    room->region.device = from->device;
    room->region.fd_offset = from->fd_offset;
    if (from->memory == KVR_MEMORY_CUDA_IPC)
        room->region.ipc = kvr_engine_bytes(from->ipc, sizeof(from->ipc));
    room->region.layout = &room->layout;
    room->region.extents = from->extent_count;
}

static void encode_extents(const struct kvr_req_extents *from, PB(RegionExtents) * extents)
{
    kvrail__engine__region_extents__init(extents);
    extents->region = from->region;
    extents->first = from->first;
    extents->total = from->total;
    extents->n_bytes = from->count;
    extents->bytes = (uint64_t *)(uintptr_t)from->bytes;
}

static void encode_source_open(const struct kvr_req_source_open *from, PB(SourceOpen) * open)
{
    kvrail__engine__source_open__init(open);
    open->request = kvr_engine_text(from->request);
    open->attempt = from->attempt;
    open->tokens = from->tokens;
    open->consumers = from->consumers;
    open->lease_ms = from->lease_ms;
    open->priority = from->priority;
    open->tenant = from->tenant;
}

static void encode_target_open(const struct kvr_req_target_open *from, struct encode_room *room)
{
    kvrail__engine__target_open__init(&room->target_open);
    room->target_open.request = kvr_engine_text(from->request);
    room->target_open.attempt = from->attempt;
    room->target_open.tokens = from->tokens;
    room->target_open.skip_tokens = from->skip_tokens;
    room->target_open.deadline_ms = from->deadline_ms;
    room->target_open.priority = from->priority;
    room->target_open.tenant = from->tenant;
    room->target_open.digest = from->digest;
    room->target_open.n_sources = from->source_count;
    room->target_open.sources = room->source_pointers;
    for (uint32_t i = 0; i < from->source_count; i++) {
        const struct kvr_source_address *source = &from->sources[i];

        room->source_pointers[i] = &room->sources[i];
        kvrail__engine__source_address__init(&room->sources[i]);
        room->sources[i].agent = kvr_engine_text(source->agent);
        room->sources[i].engine =
            kvr_engine_bytes(source->engine.bytes, sizeof(source->engine.bytes));
        room->sources[i].generation = source->generation;
        room->sources[i].tp = source->tp;
        room->sources[i].pp = source->pp;
    }
}

static void encode_pages(const struct kvr_req_pages *from, PB(Pages) * pages)
{
    kvrail__engine__pages__init(pages);
    pages->group = from->group;
    pages->page_first = from->page_first;
    pages->n_ids = from->id_count;
    pages->ids = (uint32_t *)(uintptr_t)from->ids;
}

static void encode_skip(const struct kvr_req_skip *from, PB(Pages) * pages)
{
    kvrail__engine__pages__init(pages);
    pages->group = from->group;
    pages->skips = true;
    pages->skip_tokens = from->skip_tokens;
}

static void encode_watch(const struct kvr_req_watch *from, PB(Watch) * watch)
{
    kvrail__engine__watch__init(watch);
    watch->word = from->word;
    watch->base_value = from->base;
    watch->token_first = from->token_first;
    watch->token_end = from->token_end;
}

static void encode_status(kvr_status from, PB(Status) * status)
{
    kvrail__engine__status__init(status);
    status->status = from;
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
        return VALID(request->source_open.request);
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_TARGET_PAGES:
        return request->pages.id_count <= KVR_PAGES_PER_PACKET;
    case KVR_REQ_SOURCE_TAIL:
        return request->tail.byte_count <= KVR_TAIL_BYTES_MAX - 1024;
    case KVR_REQ_TARGET_OPEN:
        return request->target_open.source_count <= KVR_SOURCES_MAX &&
               VALID(request->target_open.request) && sources_encodable(&request->target_open);
    case KVR_REQ_REGION_EXTENTS:
        return request->extents.count <= KVR_PACKET_FDS_MAX;
    case KVR_REQ_TARGET_SKIP:
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
    case KVR_REQ_WATCH:
        encode_watch(&request->watch, &room->watch);
        return;
    case KVR_REQ_SOURCE_TAIL:
        kvrail__engine__tail__init(&room->tail);
        room->tail.bytes = kvr_engine_bytes(request->tail.bytes, request->tail.byte_count);
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
    packet.body_case = request->kind == KVR_REQ_TARGET_SKIP
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

static bool take_uuid(const ProtobufCBinaryData *from, struct kvr_uuid *to)
{
    if (from->len != sizeof(to->bytes))
        return false;
    memcpy(to->bytes, from->data, sizeof(to->bytes));
    return true;
}

static kvr_status decode_attach(const PB(Attach) * from, struct kvr_req_attach *to,
                                struct kvr_error *error)
{
    const char *wrong;

    if (from->version != KVR_ENGINE_PROTOCOL)
        return kvr_error_set(error, KVR_VERSION, "engine",
                             "the engine's library speaks protocol %u, this agent speaks %u",
                             from->version, KVR_ENGINE_PROTOCOL);
    if (!take_text(from->name, to->name, sizeof(to->name)))
        return kvr_engine_malformed(error, "the engine's name is too long or not printable");
    if ((wrong = kvr_geometry_get_rank(from->rank, &to->rank)) != NULL ||
        (wrong = kvr_geometry_get_compat(from->compat, &to->compat)) != NULL)
        return kvr_engine_malformed(error, wrong);
    return KVR_OK;
}

static kvr_status decode_region(const PB(Region) * from, struct kvr_req_region *to,
                                struct kvr_error *error)
{
    const char *wrong = kvr_geometry_get_layout(from->layout, &to->layout);

    if (wrong != NULL)
        return kvr_engine_malformed(error, wrong);
    if (!take_text(from->name, to->name, sizeof(to->name)))
        return kvr_engine_malformed(error, "the region's name is too long or not printable");
    if (from->memory > KVR_MEMORY_CUDA_VMM)
        return kvr_engine_malformed(error, "the region's kind of memory is not known");
    to->memory = (kvr_memory_kind)from->memory;
    if (from->ipc.len != (to->memory == KVR_MEMORY_CUDA_IPC ? sizeof(to->ipc) : 0))
        return kvr_engine_malformed(error, "the region's IPC handle has the wrong length");
    if (from->ipc.len != 0)
        memcpy(to->ipc, from->ipc.data, sizeof(to->ipc));
    to->device = from->device;
    to->fd_offset = from->fd_offset;
    to->extent_count = from->extents;
    return KVR_OK;
}

static kvr_status decode_extents(const PB(RegionExtents) * from, struct kvr_req_extents *to,
                                 struct kvr_error *error)
{
    if (from->n_bytes > KVR_PACKET_FDS_MAX)
        return kvr_engine_malformed(error, "more extents than one packet may carry");
    to->region = from->region;
    to->first = from->first;
    to->total = from->total;
    to->bytes = from->bytes;
    to->count = (uint32_t)from->n_bytes;
    return KVR_OK;
}

static kvr_status decode_source_open(const PB(SourceOpen) * from, struct kvr_req_source_open *to,
                                     struct kvr_error *error)
{
    if (!take_text(from->request, to->request, sizeof(to->request)) || to->request[0] == '\0')
        return kvr_engine_malformed(error, "the request id is empty, too long or not printable");
    to->attempt = from->attempt;
    to->tokens = from->tokens;
    to->consumers = from->consumers;
    to->lease_ms = from->lease_ms;
    to->priority = from->priority;
    to->tenant = from->tenant;
    return KVR_OK;
}

static kvr_status decode_pages(const PB(Pages) * from, struct kvr_req_pages *to,
                               struct kvr_error *error)
{
    if (from->n_ids > KVR_PAGES_PER_PACKET)
        return kvr_engine_malformed(error, "more page ids than one packet may carry");
    to->group = from->group;
    to->page_first = from->page_first;
    to->ids = from->ids;
    to->id_count = (uint32_t)from->n_ids;
    return KVR_OK;
}

static kvr_status decode_tail(const PB(Tail) * from, struct kvr_req_tail *to,
                              struct kvr_error *error)
{
    if (from->bytes.len > KVR_TAIL_BYTES_MAX - 1024)
        return kvr_engine_malformed(error, "the tail is longer than 64512 bytes");
    to->bytes = from->bytes.data;
    to->byte_count = (uint32_t)from->bytes.len;
    return KVR_OK;
}

static kvr_status decode_sources(struct kvr_engine_decoder *decoder, const PB(TargetOpen) * from,
                                 struct kvr_req_target_open *to, struct kvr_error *error)
{
    struct kvr_source_address *sources;

    if (from->n_sources > KVR_SOURCES_MAX)
        return kvr_engine_malformed(error, "more than 64 sources");
    sources = kvr_engine_take(decoder, from->n_sources * sizeof(*sources));
    if (sources == NULL)
        return kvr_engine_malformed(error, "the packet needs more memory than any packet of ours");
    for (size_t i = 0; i < from->n_sources; i++) {
        if (!take_text(from->sources[i]->agent, sources[i].agent, sizeof(sources[i].agent)))
            return kvr_engine_malformed(error, "a source's address is too long or not printable");
        if (!take_uuid(&from->sources[i]->engine, &sources[i].engine))
            return kvr_engine_malformed(error, "a source's engine id is not 16 bytes");
        sources[i].generation = from->sources[i]->generation;
        sources[i].tp = from->sources[i]->tp;
        sources[i].pp = from->sources[i]->pp;
    }
    to->sources = sources;
    to->source_count = (uint32_t)from->n_sources;
    return KVR_OK;
}

static kvr_status decode_target_open(struct kvr_engine_decoder *decoder,
                                     const PB(TargetOpen) * from, struct kvr_req_target_open *to,
                                     struct kvr_error *error)
{
    if (!take_text(from->request, to->request, sizeof(to->request)) || to->request[0] == '\0')
        return kvr_engine_malformed(error, "the request id is empty, too long or not printable");
    if (from->digest > KVR_DIGEST_FULL)
        return kvr_engine_malformed(error, "digest is neither off, sample nor full");
    to->digest = (kvr_digest_mode)from->digest;
    to->attempt = from->attempt;
    to->tokens = from->tokens;
    to->skip_tokens = from->skip_tokens;
    to->deadline_ms = from->deadline_ms;
    to->priority = from->priority;
    to->tenant = from->tenant;
    return decode_sources(decoder, from, to, error);
}

static kvr_status decode_watch(const PB(Watch) * from, struct kvr_req_watch *to)
{
    to->word = from->word;
    to->base = from->base_value;
    to->token_first = from->token_first;
    to->token_end = from->token_end;
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
        to->skip.group = packet->target_pages->group;
        to->skip.skip_tokens = packet->target_pages->skip_tokens;
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
    kvr_status status = kvr_engine_unpack(decoder, packet, bytes, &message, error);

    if (status != KVR_OK)
        return status;
    if (message->body_case < BODY(ATTACH) || message->body_case == BODY(NOTICE) ||
        message->body_case > BODY(REGION_EXTENTS))
        return kvr_engine_malformed(error, "the packet holds no request");
    memset(&request, 0, sizeof(request));
    request.kind = (kvr_request_kind)(message->body_case - 1);
    if (message->body_case == BODY(TARGET_PAGES) && message->target_pages->skips)
        request.kind = KVR_REQ_TARGET_SKIP;
    request.handle = message->handle;
    status = decode_body(decoder, message, &request, error);
    if (status == KVR_OK)
        *ret_request = request;
    return status;
}
