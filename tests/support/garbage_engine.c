/* Malformed sessions of the engine socket: as an engine that is broken or hostile. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pidfd.h"
#include "tests/support/garbage.h"
#include "tests/support/garbage_liar.h"
#include "wire/engine_message.h"
#include "wire/packet_socket.h"

static uint8_t packet[KVR_PACKET_BYTES_MAX * 2];
static uint32_t ids[KVR_PAGES_PER_PACKET];

static struct kvr_request good_attach(struct garbage *garbage)
{
    struct kvr_request request = {.kind = KVR_REQ_ATTACH};

    request.attach = (struct kvr_req_attach){
        .rank = {.engine.bytes = {0xba, (uint8_t)kvr_rng_next(&garbage->rng)},
                 .generation = kvr_clock_wall(), /* larger than the last: else it is refused */
                 .tp_size = 1,
                 .pp_size = 1},
        .compat = {.model = "garbage", .dtype = "none", .layers_total = 2},
        .name = "garbage",
    };
    return request;
}

static bool say(struct garbage *garbage, const struct kvr_request *request)
{
    size_t bytes;

    if (kvr_request_encode(request, packet, KVR_PACKET_BYTES_MAX, &bytes) != KVR_OK)
        return true; /* cannot be said at all: go on */
    return garbage_send(garbage, packet, bytes);
}

static void region_of(struct garbage *garbage, struct kvr_req_region *region)
{
    struct kvr_region_layout *layout = &region->layout;

    snprintf(region->name, sizeof(region->name), "r");
    region->device = -1;
    region->fd_offset = garbage_number(garbage, 0);
    region->memory = kvr_rng_percent(&garbage->rng, 90) ? KVR_MEMORY_MEMFD : KVR_MEMORY_DMABUF;
    *layout = (struct kvr_region_layout){
        .region = (uint32_t)kvr_rng_below(&garbage->rng, 4),
        .layer_count = (uint32_t)garbage_number(garbage, 2),
        .part_count = 1,
        .parts = {KVR_PART_KV},
        .head_count = 1,
        .page_tokens = (uint32_t)garbage_number(garbage, 16),
        .page_count = (uint32_t)garbage_number(garbage, 16),
        .bytes = garbage_number(garbage, 32768),
        .layer_stride = garbage_number(garbage, 16384),
        .page_stride = garbage_number(garbage, 1024),
        .token_stride = 64,
        .head_stride = 64,
        .head_bytes = garbage_number(garbage, 64),
    };
}

/* Descriptors of a region that lies over several allocations: all, some, out of turn or askew. */
static bool say_extents(struct garbage *garbage, struct kvr_req_region *region, int memory)
{
    uint64_t sizes[4] = {4096, 4096, 8192, garbage_number(garbage, 4096)};
    uint32_t count = (uint32_t)kvr_rng_below(&garbage->rng, 5);
    struct kvr_request request = {.kind = KVR_REQ_REGION_EXTENTS,
                                  .extents = {.region = region->layout.region,
                                              .first = (uint32_t)garbage_number(garbage, 0),
                                              .total = (uint32_t)garbage_number(garbage, count),
                                              .bytes = sizes,
                                              .count = count}};
    struct kvr_packet_fds fds = {.count = count, .fds = {memory, memory, memory, memory}};
    size_t bytes;

    region->memory = KVR_MEMORY_CUDA_VMM;
    region->device = 0;
    region->extent_count = (uint32_t)garbage_number(garbage, count);
    if (kvr_rng_percent(&garbage->rng, 10))
        fds.count = (uint32_t)kvr_rng_below(&garbage->rng, 4);
    return kvr_request_encode(&request, packet, KVR_PACKET_BYTES_MAX, &bytes) == KVR_OK &&
           kvr_packet_send(garbage->socket, packet, bytes, &fds) == KVR_OK;
}

/* A region with a descriptor that is good, not sealed, too small, of a file, or one too many. */
static bool say_region(struct garbage *garbage)
{
    struct kvr_request request = {.kind = KVR_REQ_REGION_ADD};
    int memory = memfd_create("garbage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct kvr_packet_fds fds = {.count = 1 + kvr_rng_percent(&garbage->rng, 10),
                                 .fds = {memory, memory}};
    size_t bytes;
    bool said = true;

    region_of(garbage, &request.region);
    if (memory < 0)
        return false;
    if (kvr_rng_percent(&garbage->rng, 90) && ftruncate(memory, 32768) == 0 &&
        kvr_rng_percent(&garbage->rng, 90))
        (void)fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK);
    if (kvr_rng_percent(&garbage->rng, 10))
        fds.fds[0] = garbage->socket;
    if (kvr_rng_percent(&garbage->rng, 10))
        fds.count = 0;
    if (kvr_rng_percent(&garbage->rng, 20)) {
        said = say_extents(garbage, &request.region, memory);
        fds.count = kvr_rng_percent(&garbage->rng, 10);
    }
    said = said && kvr_request_encode(&request, packet, KVR_PACKET_BYTES_MAX, &bytes) == KVR_OK &&
           kvr_packet_send(garbage->socket, packet, bytes, &fds) == KVR_OK;
    close(memory);
    return said;
}

/* Mostly the one that garbage of the control channel proves. */
static void secret_take(struct garbage *garbage, struct kvr_secret *ret_secret)
{
    *ret_secret = garbage_secret;
    if (kvr_rng_percent(&garbage->rng, 10))
        ret_secret->bytes[0] = (uint8_t)kvr_rng_next(&garbage->rng);
    if (kvr_rng_percent(&garbage->rng, 5))
        memset(ret_secret, 0, sizeof(*ret_secret));
}

static void open_of(struct garbage *garbage, struct kvr_request *request)
{
    static struct kvr_source_address source = {.agent = "127.0.0.1:1", .generation = 1};

    if (request->kind == KVR_REQ_SOURCE_OPEN) {
        snprintf(request->source_open.request, KVR_REQUEST_BYTES, "garbage-%u",
                 (unsigned)kvr_rng_below(&garbage->rng, 50));
        request->source_open.tokens = garbage_number(garbage, 64);
        secret_take(garbage, &request->source_open.secret);
        request->source_open.consumers = (uint32_t)garbage_number(garbage, 1);
        request->source_open.lease_ms = 200;
    } else {
        snprintf(request->target_open.request, KVR_REQUEST_BYTES, "garbage");
        request->target_open.tokens = garbage_number(garbage, 64);
        secret_take(garbage, &request->target_open.secret);
        request->target_open.skip_tokens = garbage_number(garbage, 0);
        request->target_open.deadline_ms = 200;
        request->target_open.sources = &source;
        request->target_open.source_count = 1;
    }
}

/* A request of some kind in no order; numbers are near the good ones or far off. */
static struct kvr_request some_request(struct garbage *garbage, bool source)
{
    struct kvr_request request = {
        .kind = (kvr_request_kind)kvr_rng_between(&garbage->rng, KVR_REQ_REGION_DROP, KVR_REQ_WHY),
        .handle = kvr_rng_below(&garbage->rng, 6)};

    if (kvr_rng_percent(&garbage->rng, 30))
        request.kind = source ? KVR_REQ_SOURCE_OPEN : KVR_REQ_TARGET_OPEN;
    if (request.kind == KVR_REQ_SOURCE_OPEN || request.kind == KVR_REQ_TARGET_OPEN) {
        open_of(garbage, &request);
    } else if (request.kind == KVR_REQ_SOURCE_PAGES || request.kind == KVR_REQ_TARGET_PAGES) {
        request.pages.page_first = (uint32_t)garbage_number(garbage, 0);
        request.pages.ids = ids;
        request.pages.id_count = (uint32_t)kvr_rng_below(&garbage->rng, KVR_PAGES_PER_PACKET);
        ids[0] = (uint32_t)garbage_number(garbage, 3);
    } else if (request.kind == KVR_REQ_WATCH) {
        request.watch.word = (uint32_t)garbage_number(garbage, 0);
        request.watch.token_end = garbage_number(garbage, 16);
    } else if (request.kind == KVR_REQ_SOURCE_TAIL) {
        request.tail.bytes = (const uint8_t *)ids;
        request.tail.byte_count = (uint32_t)kvr_rng_below(&garbage->rng, sizeof(ids));
    } else if (request.kind == KVR_REQ_RENEW) {
        request.renew.lease_ms = (uint32_t)garbage_number(garbage, 100);
    } else if (request.kind == KVR_REQ_REGION_DROP) {
        request.region.layout.region = (uint32_t)kvr_rng_below(&garbage->rng, 4);
    }
    return request;
}

/* ---- shapes ---- */

static void shape_truncated(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);
    size_t bytes;

    if (kvr_request_encode(&request, packet, KVR_PACKET_BYTES_MAX, &bytes) == KVR_OK)
        (void)garbage_send(garbage, packet, (size_t)kvr_rng_below(&garbage->rng, bytes));
    garbage_pause(1);
}

static void shape_mutated(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);
    size_t bytes;

    for (int i = 0; i < 10; i++) {
        if (kvr_request_encode(&request, packet, KVR_PACKET_BYTES_MAX, &bytes) != KVR_OK)
            return;
        if (i > 0 || kvr_rng_percent(&garbage->rng, 50))
            garbage_mutate(garbage, packet, bytes);
        if (!garbage_send(garbage, packet, bytes))
            return;
        request = some_request(garbage, true);
    }
}

static void shape_oversized(struct garbage *garbage)
{
    garbage_random(garbage, packet, sizeof(packet));
    (void)garbage_send(garbage, packet, KVR_PACKET_BYTES_MAX + 1);
    garbage_pause(1);
}

static void shape_empty(struct garbage *garbage)
{
    (void)garbage_send(garbage, packet, 0); /* which looks like the end */
    garbage_pause(1);
}

static void shape_not_attached(struct garbage *garbage)
{
    struct kvr_request request = some_request(garbage, true);

    if (kvr_rng_percent(&garbage->rng, 50))
        (void)say_region(garbage);
    (void)say(garbage, &request);
    garbage_pause(1);
}

/* A process that is no engine asks, perhaps again, and perhaps does not read. */
static void shape_pairs(struct garbage *garbage)
{
    struct kvr_request request = {.kind = KVR_REQ_PAIRS};

    garbage->reads = kvr_rng_percent(&garbage->rng, 50);
    for (uint64_t i = kvr_rng_between(&garbage->rng, 1, 3); i > 0; i--)
        if (!say(garbage, &request))
            return;
    garbage_pause(1);
}

static void shape_attach_twice(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);

    if (say(garbage, &request) && say(garbage, &request))
        garbage_pause(2);
}

/* Beside ATTACH there may be a pidfd: here of this process, of a pipe that is readable at once, of
 * a folder, or many. */
static void shape_attach_with(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);
    struct kvr_packet_fds fds = {.count = 1 + (uint32_t)kvr_rng_below(&garbage->rng, 4)};
    int ends[2] = {-1, -1};
    size_t bytes;

    if (pipe(ends) != 0)
        return;
    close(ends[1]);
    for (uint32_t i = 0; i < fds.count; i++) {
        uint64_t kind = kvr_rng_below(&garbage->rng, 4);

        fds.fds[i] = kind == 0   ? kvr_pidfd_open(getpid())
                     : kind == 1 ? open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : kind == 2 ? dup(ends[0])
                                 : dup(garbage->socket);
    }
    if (kvr_request_encode(&request, packet, KVR_PACKET_BYTES_MAX, &bytes) == KVR_OK &&
        kvr_packet_send(garbage->socket, packet, bytes, &fds) == KVR_OK)
        garbage_pause(1 + (unsigned)kvr_rng_below(&garbage->rng, 10));
    kvr_packet_fds_close(&fds);
    close(ends[0]);
}

static void shape_descriptors(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 40);

    if (!say(garbage, &request))
        return;
    for (uint64_t i = 0; i < count && say_region(garbage); i++)
        continue;
    garbage_pause((unsigned)kvr_rng_below(&garbage->rng, 20));
}

/* Attached, with a region or without, then requests in no order. */
static void shape_order(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 100);
    bool source = kvr_rng_percent(&garbage->rng, 50);

    if (!say(garbage, &request) || !say_region(garbage))
        return;
    garbage_pause(10);
    for (uint64_t i = 0; i < count; i++) {
        request = some_request(garbage, source);
        if (!say(garbage, &request))
            return;
    }
    garbage_pause((unsigned)kvr_rng_below(&garbage->rng, 20));
}

/* Every request is answered, and no answer is read. */
static void shape_deaf(struct garbage *garbage)
{
    struct kvr_request request = good_attach(garbage);

    garbage->reads = false;
    for (unsigned i = 0; i < 3000; i++) {
        if (!say(garbage, &request))
            return;
        request = (struct kvr_request){.kind = KVR_REQ_WHY, .handle = i};
    }
}

static const struct garbage_shape shapes[] = {
    {"truncated", shape_truncated},
    {"mutated", shape_mutated},
    {"oversized", shape_oversized},
    {"empty", shape_empty},
    {"not-attached", shape_not_attached},
    {"pairs", shape_pairs},
    {"attach-twice", shape_attach_twice},
    {"attach-with", shape_attach_with},
    {"descriptors", shape_descriptors},
    {"order", shape_order},
    {"order", shape_order},
    {"deaf", shape_deaf},
    {"liar", garbage_liar},
    {"liar", garbage_liar},
    {"liar", garbage_liar},
    {"liar-memory", garbage_liar_memory},
    {"liar-handles", garbage_liar_handles},
};

const struct garbage_kind garbage_engine = {"engine", shapes, sizeof(shapes) / sizeof(shapes[0])};
