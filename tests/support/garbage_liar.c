#include "tests/support/garbage_liar.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/engine_message.h"
#include "wire/packet_socket.h"

#define LAYERS      2
#define PAGES       16
#define PAGE_TOKENS 16
#define PAGE_BYTES  1024
#define BYTES       (LAYERS * PAGES * PAGE_BYTES)
#define TOKENS      (4 * PAGE_TOKENS)
#define LIFE_MAX    12

/* A life, and the numbers in it. The prefill-agent answers a target's requests by giving the engine
 * up, and so does the decode-agent a source's: half of the lives end there. */
struct life {
    struct kvr_request requests[LIFE_MAX];
    uint32_t count;
    int memory;
};

static uint8_t packet[KVR_PACKET_BYTES_MAX];

#define FIELD(kind_, member)                                                                       \
    {                                                                                              \
        kind_, offsetof(struct kvr_request, member), sizeof(((struct kvr_request *)NULL)->member)  \
    }
static const struct field {
    kvr_request_kind kind;
    size_t offset, bytes;
} fields[] = {
    FIELD(KVR_REQ_ATTACH, attach.rank.generation),
    FIELD(KVR_REQ_ATTACH, attach.rank.tp),
    FIELD(KVR_REQ_ATTACH, attach.rank.tp_size),
    FIELD(KVR_REQ_ATTACH, attach.rank.pp),
    FIELD(KVR_REQ_ATTACH, attach.rank.pp_size),
    FIELD(KVR_REQ_ATTACH, attach.compat.layers_total),
    FIELD(KVR_REQ_ATTACH, attach.compat.kv_heads_total),
    FIELD(KVR_REQ_ATTACH, attach.compat.head_dim),
    FIELD(KVR_REQ_REGION_ADD, region.memory),
    FIELD(KVR_REQ_REGION_ADD, region.device),
    FIELD(KVR_REQ_REGION_ADD, region.fd_offset),
    FIELD(KVR_REQ_REGION_ADD, region.extent_count),
    FIELD(KVR_REQ_REGION_ADD, region.memory_of),
    FIELD(KVR_REQ_REGION_ADD, region.dmabuf_offset),
    FIELD(KVR_REQ_REGION_ADD, region.order),
    FIELD(KVR_REQ_REGION_ADD, region.layout.region),
    FIELD(KVR_REQ_REGION_ADD, region.layout.group),
    FIELD(KVR_REQ_REGION_ADD, region.layout.layer_first),
    FIELD(KVR_REQ_REGION_ADD, region.layout.layer_count),
    FIELD(KVR_REQ_REGION_ADD, region.layout.part_count),
    FIELD(KVR_REQ_REGION_ADD, region.layout.head_first),
    FIELD(KVR_REQ_REGION_ADD, region.layout.head_count),
    FIELD(KVR_REQ_REGION_ADD, region.layout.page_tokens),
    FIELD(KVR_REQ_REGION_ADD, region.layout.page_count),
    FIELD(KVR_REQ_REGION_ADD, region.layout.bytes),
    FIELD(KVR_REQ_REGION_ADD, region.layout.layer_stride),
    FIELD(KVR_REQ_REGION_ADD, region.layout.part_stride),
    FIELD(KVR_REQ_REGION_ADD, region.layout.page_stride),
    FIELD(KVR_REQ_REGION_ADD, region.layout.token_stride),
    FIELD(KVR_REQ_REGION_ADD, region.layout.head_stride),
    FIELD(KVR_REQ_REGION_ADD, region.layout.head_bytes),
    FIELD(KVR_REQ_SOURCE_OPEN, source_open.attempt),
    FIELD(KVR_REQ_SOURCE_OPEN, source_open.tokens),
    FIELD(KVR_REQ_SOURCE_OPEN, source_open.consumers),
    FIELD(KVR_REQ_SOURCE_OPEN, source_open.lease_ms),
    FIELD(KVR_REQ_SOURCE_OPEN, source_open.priority),
    FIELD(KVR_REQ_SOURCE_PAGES, handle),
    FIELD(KVR_REQ_SOURCE_PAGES, pages.group),
    FIELD(KVR_REQ_SOURCE_PAGES, pages.page_first),
    FIELD(KVR_REQ_SOURCE_PAGES, pages.id_count),
    FIELD(KVR_REQ_WATCH, handle),
    FIELD(KVR_REQ_WATCH, watch.word),
    FIELD(KVR_REQ_WATCH, watch.base),
    FIELD(KVR_REQ_WATCH, watch.token_first),
    FIELD(KVR_REQ_WATCH, watch.token_end),
    FIELD(KVR_REQ_SOURCE_TAIL, tail.byte_count),
    FIELD(KVR_REQ_SOURCE_END, end.status),
    FIELD(KVR_REQ_TARGET_OPEN, target_open.attempt),
    FIELD(KVR_REQ_TARGET_OPEN, target_open.tokens),
    FIELD(KVR_REQ_TARGET_OPEN, target_open.skip_tokens),
    FIELD(KVR_REQ_TARGET_OPEN, target_open.deadline_ms),
    FIELD(KVR_REQ_TARGET_OPEN, target_open.source_count),
    FIELD(KVR_REQ_TARGET_OPEN, target_open.digest),
    FIELD(KVR_REQ_TARGET_PAGES, handle),
    FIELD(KVR_REQ_TARGET_PAGES, pages.group),
    FIELD(KVR_REQ_TARGET_PAGES, pages.page_first),
    FIELD(KVR_REQ_TARGET_PAGES, pages.id_count),
    FIELD(KVR_REQ_TARGET_SKIP, skip.group),
    FIELD(KVR_REQ_TARGET_SKIP, skip.skip_tokens),
    FIELD(KVR_REQ_RENEW, renew.lease_ms),
};

/* ---- the truth ---- */

static struct kvr_request *add(struct life *life, kvr_request_kind kind, uint64_t handle)
{
    life->requests[life->count] = (struct kvr_request){.kind = kind, .handle = handle};
    return &life->requests[life->count++];
}

static void attach_of(struct garbage *garbage, struct life *life)
{
    struct kvr_request *request = add(life, KVR_REQ_ATTACH, 0);

    request->attach = (struct kvr_req_attach){
        .rank = {.generation = kvr_clock_wall(), .tp_size = 1, .pp_size = 1},
        .compat = {.model = "liar",
                   .dtype = "none",
                   .layers_total = LAYERS,
                   .kv_heads_total = 1,
                   .head_dim = 32},
        .name = "liar",
    };
    garbage_random(garbage, request->attach.rank.engine.bytes,
                   sizeof(request->attach.rank.engine.bytes));
}

static void region_of(struct life *life)
{
    struct kvr_request *request = add(life, KVR_REQ_REGION_ADD, 0);

    snprintf(request->region.name, sizeof(request->region.name), "r");
    request->region.device = -1;
    request->region.layout = (struct kvr_region_layout){
        .region = 1,
        .layer_count = LAYERS,
        .part_count = 1,
        .parts = {KVR_PART_KV},
        .head_count = 1,
        .page_tokens = PAGE_TOKENS,
        .page_count = PAGES,
        .bytes = BYTES,
        .layer_stride = BYTES / LAYERS,
        .page_stride = PAGE_BYTES,
        .token_stride = PAGE_BYTES / PAGE_TOKENS,
        .head_stride = PAGE_BYTES / PAGE_TOKENS,
        .head_bytes = PAGE_BYTES / PAGE_TOKENS,
    };
}

static const uint32_t *page_ids(struct garbage *garbage)
{
    static uint32_t ids[KVR_PAGES_PER_PACKET] = {3, 1, 4, 15};

    ids[0] = (uint32_t)garbage_number(garbage, 3);
    return ids;
}

static void source_of(struct garbage *garbage, struct life *life)
{
    static const uint8_t tail[KVR_TAIL_BYTES_MAX] = "tail";
    struct kvr_request *request = add(life, KVR_REQ_SOURCE_OPEN, 1);

    snprintf(request->source_open.request, KVR_REQUEST_BYTES, "lie-%u",
             (unsigned)kvr_rng_below(&garbage->rng, 1000));
    request->source_open.tokens = TOKENS;
    request->source_open.consumers = 1;
    request->source_open.lease_ms = 100;
    request = add(life, KVR_REQ_SOURCE_PAGES, 1);
    request->pages.ids = page_ids(garbage);
    request->pages.id_count = TOKENS / PAGE_TOKENS;
    request = add(life, KVR_REQ_WATCH, 1);
    request->watch.token_end = TOKENS;
    request = add(life, KVR_REQ_SOURCE_TAIL, 1);
    request->tail.bytes = tail;
    request->tail.byte_count = 5;
    add(life, KVR_REQ_RENEW, 1)->renew.lease_ms = 100;
    add(life, KVR_REQ_SOURCE_END, 1);
}

static void target_of(struct garbage *garbage, struct life *life)
{
    static struct kvr_source_address sources[KVR_SOURCES_MAX] = {{.agent = "127.0.0.1:1"}};
    struct kvr_request *request = add(life, KVR_REQ_TARGET_OPEN, 1);

    snprintf(request->target_open.request, KVR_REQUEST_BYTES, "lie");
    request->target_open.tokens = TOKENS;
    request->target_open.deadline_ms = 100;
    request->target_open.sources = sources;
    request->target_open.source_count = 1;
    add(life, KVR_REQ_TARGET_SKIP, 1)->skip.skip_tokens = PAGE_TOKENS;
    request = add(life, KVR_REQ_TARGET_PAGES, 1);
    request->pages.ids = page_ids(garbage);
    request->pages.id_count = TOKENS / PAGE_TOKENS;
    add(life, KVR_REQ_WATCH, 1);
}

static bool life_of(struct garbage *garbage, struct life *life)
{
    *life = (struct life){.memory = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (life->memory < 0 || ftruncate(life->memory, BYTES) != 0)
        return false;
    attach_of(garbage, life);
    region_of(life);
    if (kvr_rng_percent(&garbage->rng, 50))
        source_of(garbage, life);
    else
        target_of(garbage, life);
    return fcntl(life->memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
}

/* ---- saying it ---- */

/* False: the agent takes no more. What cannot be encoded cannot be said. */
static bool say(struct garbage *garbage, const struct life *life, const struct kvr_request *request)
{
    struct kvr_packet_fds fds = {.count = request->kind == KVR_REQ_REGION_ADD,
                                 .fds = {life->memory}};
    size_t bytes;

    if (kvr_request_encode(request, packet, sizeof(packet), &bytes) != KVR_OK)
        return true;
    if (kvr_packet_send(garbage->socket, packet, bytes, &fds) != KVR_OK)
        return false;
    if (request->kind == KVR_REQ_REGION_ADD)
        garbage_pause(10); /* it is registered by another thread */
    return true;
}

static void live(struct garbage *garbage, const struct life *life)
{
    for (uint32_t i = 0; i < life->count && say(garbage, life, &life->requests[i]); i++)
        continue;
    garbage_pause((unsigned)kvr_rng_below(&garbage->rng, 20));
}

/* A value that is not the good one. */
static uint64_t lie_about(struct garbage *garbage, uint64_t good)
{
    uint64_t value = good;

    while (value == good)
        value = garbage_number(garbage, good);
    return value;
}

void garbage_liar(struct garbage *garbage)
{
    const struct field *field =
        &fields[kvr_rng_below(&garbage->rng, sizeof(fields) / sizeof(fields[0]))];
    struct life life;
    bool ready = life_of(garbage, &life);

    for (uint32_t i = 0; i < life.count; i++) {
        uint64_t value = 0;

        if (life.requests[i].kind != field->kind)
            continue;
        memcpy(&value, (uint8_t *)&life.requests[i] + field->offset, field->bytes);
        value = lie_about(garbage, value);
        if (field->offset == offsetof(struct kvr_request, pages.id_count) ||
            field->offset == offsetof(struct kvr_request, target_open.source_count))
            value %= KVR_SOURCES_MAX; /* that many are there */
        if (field->offset == offsetof(struct kvr_request, tail.byte_count))
            value %= KVR_TAIL_BYTES_MAX;
        memcpy((uint8_t *)&life.requests[i] + field->offset, &value, field->bytes);
    }
    if (ready)
        live(garbage, &life);
    if (life.memory >= 0)
        close(life.memory);
}

void garbage_liar_memory(struct garbage *garbage)
{
    struct life life;
    bool ready = life_of(garbage, &life);
    uint64_t how = kvr_rng_below(&garbage->rng, 4);

    if (ready && how == 0) { /* a file that may shrink under the agent */
        char path[] = "/tmp/kvrail-liar.XXXXXX";

        close(life.memory);
        life.memory = mkostemp(path, O_CLOEXEC);
        ready = life.memory >= 0 && unlink(path) == 0 && ftruncate(life.memory, BYTES) == 0;
    } else if (ready && how == 1) { /* no file at all, called a dmabuf */
        life.requests[1].region.memory = KVR_MEMORY_DMABUF;
        life.requests[1].region.device = 0;
    }
    if (ready)
        live(garbage, &life);
    if (ready && how == 2)
        (void)fallocate(life.memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BYTES);
    if (ready && how == 3)
        (void)!ftruncate(life.memory, (off_t)garbage_number(garbage, 2 * BYTES));
    garbage_pause(5);
    if (life.memory >= 0)
        close(life.memory);
}

void garbage_liar_handles(struct garbage *garbage)
{
    struct life life;
    bool ready = life_of(garbage, &life), more = ready;

    for (uint32_t i = 0; more && i < 2; i++)
        more = say(garbage, &life, &life.requests[i]);
    for (uint32_t i = 0; more && i < 300; i++) {
        struct kvr_request request =
            life.requests[2 + kvr_rng_below(&garbage->rng, life.count - 2)];

        request.handle = kvr_rng_below(&garbage->rng, 200);
        if (kvr_rng_percent(&garbage->rng, 10))
            request = (struct kvr_request){
                .kind = KVR_REQ_CANCEL, .handle = request.handle, .cancel.reason = KVR_CANCELLED};
        more = say(garbage, &life, &request);
    }
    if (life.memory >= 0)
        close(life.memory);
}
