/* A source agent whose engines and peers do anything: the input is a list of decisions against one
 * struct outbound with a real posting thread on simulated cards. Whatever they do, nothing asserts,
 * every publish ends in exactly one SOURCE_FREE, and when all is torn down no byte of the tables
 * and no region is kept. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "prefill-agent/outbound.h"
#include "tests/support/fuzz_machine.h"

#define ENGINES 2
#define PEERS   3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_world world;
static struct outbound outbound;
static struct push push;
static struct fuzz_input *input;

static struct {
    bool up, free; /* free: the index may be used again */
    uint64_t generation;
    uint32_t opened, freed; /* publishes of this life */
} engines[ENGINES];

static struct {
    bool up, hung_up, full;
} peers[PEERS];

/* ---- ports ---- */

static kvr_status port_send(void *self, uint32_t peer, const struct kvr_message *message)
{
    (void)self;
    assert(peer < PEERS && kvr_message_numbered(message->kind));
    if (!peers[peer].up)
        return KVR_PEER_LOST;
    return peers[peer].full ? KVR_AGAIN : KVR_OK;
}

static void port_hang_up(void *self, uint32_t peer, kvr_status status, const char *detail)
{
    (void)self;
    assert(peer < PEERS && status < 0 && detail[0] != '\0');
    peers[peer].hung_up = true;
}

static void port_notify(void *self, uint32_t engine, const struct kvr_notice *notice)
{
    (void)self;
    assert(engine < ENGINES && !engines[engine].free);
    if (notice->kind == KVR_NOTICE_SOURCE_FREE)
        engines[engine].freed++;
}

static void port_command(void *self, const struct kvr_group_message *message)
{
    (void)self;
    fuzz_command(&world, message);
}

static void port_region_done(void *self, struct kvr_region *region)
{
    (void)self;
    fuzz_region_done(&world, region);
}

static void port_engine_done(void *self, uint32_t engine)
{
    struct kvr_group_message message = {.kind = PUSH_PAGE, .index = engine};

    (void)self;
    fuzz_command(&world, &message);
}

static const struct kvr_ports ports = {
    .send = port_send,
    .hang_up = port_hang_up,
    .notify = port_notify,
    .command = port_command,
    .region_done = port_region_done,
    .engine_done = port_engine_done,
};

static void on_group(const struct kvr_group_message *message)
{
    if (message->kind != PUSH_PAGE_SET)
        outbound_group(&outbound, world.now, message);
    else if (message->pointer == NULL)
        engines[message->index].free = true;
}

/* ---- engines ---- */

static void engine_up(uint32_t index)
{
    struct kvr_req_attach attach = {.compat = fuzz_compat(), .name = "e"};
    struct kvr_group_message page = {
        .kind = PUSH_PAGE, .index = index, .pointer = &world.pages[index]};
    struct kvr_error error;

    if (!engines[index].free)
        return;
    attach.rank = fuzz_rank(index, ++engines[index].generation);
    if (kvr_engines_up(&outbound.engines, index, &attach, &world.pages[index], &error) != KVR_OK)
        return;
    engines[index].up = true;
    engines[index].free = false;
    engines[index].opened = engines[index].freed = 0;
    fuzz_command(&world, &page);
}

static void engine_down(uint32_t index)
{
    if (!engines[index].up)
        return;
    engines[index].up = false;
    outbound_engine_down(&outbound, world.now, index);
}

static void engine_region(uint32_t index)
{
    uint32_t number = fuzz_below(input, 3);
    struct kvr_region *region;
    struct kvr_error error;

    if (!engines[index].up)
        return;
    if (fuzz_below(input, 4) == 3) {
        if (kvr_engines_region_drop(&outbound.engines, index, number) != KVR_OK)
            return;
        return;
    }
    region = fuzz_region(&world, number, true, false);
    if (kvr_engines_region_add(&outbound.engines, index, region, &error) != KVR_OK)
        fuzz_region_done(&world, region);
}

static void request_name(char name[KVR_REQUEST_BYTES])
{
    snprintf(name, KVR_REQUEST_BYTES, "r%u", fuzz_below(input, 4));
}

static void source_open(struct kvr_request *request)
{
    request_name(request->source_open.request);
    request->source_open.tokens = fuzz_about(input, 12);
    request->source_open.consumers = (uint32_t)fuzz_about(input, fuzz_below(input, 3));
    request->source_open.lease_ms = (uint32_t)fuzz_about(input, 500);
}

static void source_pages(struct kvr_request *request, uint64_t given)
{
    static uint32_t ids[4];

    request->pages.page_first = (uint32_t)fuzz_about(input, given);
    request->pages.id_count = fuzz_below(input, 5);
    request->pages.ids = ids;
    for (uint32_t i = 0; i < request->pages.id_count; i++)
        ids[i] = (uint32_t)fuzz_about(input, given + i);
}

static void engine_request(uint32_t index)
{
    static const uint8_t bytes[64];
    static const kvr_request_kind kinds[] = {
        KVR_REQ_SOURCE_OPEN,  KVR_REQ_SOURCE_OPEN,  KVR_REQ_SOURCE_PAGES, KVR_REQ_SOURCE_PAGES,
        KVR_REQ_SOURCE_WATCH, KVR_REQ_SOURCE_WATCH, KVR_REQ_SOURCE_TAIL,  KVR_REQ_SOURCE_END,
        KVR_REQ_CANCEL,       KVR_REQ_RENEW};
    struct kvr_request request = {.kind = kinds[fuzz_below(input, 10)],
                                  .handle = fuzz_below(input, 4)};
    const struct publish *publish = publish_find(&outbound, index, request.handle);
    uint64_t token_end = publish != NULL ? publish->token_end : 0;

    if (!engines[index].up)
        return;
    if (request.kind == KVR_REQ_SOURCE_OPEN) {
        source_open(&request);
        engines[index].opened++;
    } else if (request.kind == KVR_REQ_SOURCE_PAGES) {
        source_pages(&request, publish != NULL ? publish->table.count : 0);
    } else if (request.kind == KVR_REQ_SOURCE_WATCH) {
        request.watch.word = (uint32_t)fuzz_about(input, fuzz_below(input, 3));
        request.watch.base = fuzz_about(input, 0);
        request.watch.token_first = fuzz_about(input, token_end);
        request.watch.token_end = fuzz_about(input, token_end + 1 + fuzz_below(input, 8));
    } else if (request.kind == KVR_REQ_SOURCE_TAIL) {
        request.tail.bytes = bytes;
        request.tail.byte_count = fuzz_below(input, sizeof(bytes));
    } else if (request.kind == KVR_REQ_SOURCE_END) {
        request.end.status = fuzz_below(input, 4) == 3 ? KVR_ABORTED : KVR_OK;
    } else if (request.kind == KVR_REQ_RENEW) {
        request.renew.lease_ms = (uint32_t)fuzz_about(input, 100);
    }
    outbound_request(&outbound, world.now, index, &request);
}

/* ---- peers ---- */

static void peer_up(uint32_t peer)
{
    struct kvr_rail_address rails[KVR_RAILS_MAX] = {0};
    struct kvr_msg_hello hello;

    if (peers[peer].up)
        return;
    peers[peer].up = true;
    peers[peer].hung_up = peers[peer].full = false;
    fuzz_hello(&world, input, rails, &hello);
    outbound_peer_up(&outbound, world.now, peer, &hello);
}

static void peer_lost(uint32_t peer)
{
    if (!peers[peer].up)
        return;
    peers[peer].up = false;
    outbound_peer_lost(&outbound, world.now, peer, KVR_PEER_LOST, "it is gone");
}

static void peer_regions(uint32_t peer)
{
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};
    struct kvr_region_layout layouts[2];
    struct kvr_remote_key keys[2 * FUZZ_RAILS];
    struct kvr_rank rank = fuzz_rank(8 + fuzz_below(input, 2), fuzz_about(input, 1));

    fuzz_regions(&world, input, &rank, layouts, keys, &message.regions);
    outbound_message(&outbound, world.now, peer, &message);
}

static void peer_want(uint32_t peer)
{
    static struct kvr_page_run runs[8];
    struct kvr_message message = {
        .kind = KVR_MSG_WANT, .transfer = fuzz_about(input, peer * 8u + 1 + fuzz_below(input, 6))};
    struct kvr_msg_want *want = &message.want;
    uint32_t engine = fuzz_below(input, ENGINES);

    request_name(want->request);
    want->source_engine = fuzz_rank(engine, 1).engine;
    want->source_generation = fuzz_about(input, engines[engine].generation);
    want->target = fuzz_rank(8 + fuzz_below(input, 2), 1);
    want->tokens = fuzz_about(input, 12);
    want->skip_tokens = fuzz_about(input, 4u * fuzz_below(input, 4));
    want->deadline_ms = (uint32_t)fuzz_about(input, 200);
    want->runs = runs;
    want->run_count = fuzz_page_runs(input, runs);
    outbound_message(&outbound, world.now, peer, &message);
}

static void peer_pages(struct kvr_message *message, const struct offer *offer)
{
    static struct kvr_page_run runs[8];

    message->pages.group = fuzz_below(input, 32) == 31;
    message->pages.page_first = (uint32_t)fuzz_about(input, offer != NULL ? offer->table.count : 0);
    message->pages.runs = runs;
    message->pages.run_count = fuzz_page_runs(input, runs);
}

static void peer_grant(struct kvr_message *message)
{
    static uint16_t slots[KVR_TRANSFER_SLOTS_MAX];

    slots[0] = (uint16_t)fuzz_about(input, 5);
    message->grant.slots = slots;
    message->grant.slot_count = fuzz_below(input, 16) == 15 ? fuzz_below(input, 65) : 1;
}

static void peer_epoch_ended(struct kvr_message *message)
{
    static uint32_t epoch;
    struct kvr_msg_epoch_ended *ended = &message->epoch_ended;

    message->transfer = 0;
    epoch = 1 + fuzz_below(input, 8);
    ended->rail = (uint32_t)fuzz_about(input, fuzz_below(input, FUZZ_RAILS));
    ended->epoch = (uint32_t)fuzz_about(input, epoch);
    ended->successor.rail = (uint32_t)fuzz_about(input, ended->rail);
    ended->successor.epoch = (uint32_t)fuzz_about(input, epoch + 1);
    if (fuzz_below(input, 4) != 3)
        world.fabric.ops->endpoint_address(world.far_endpoints[ended->rail % FUZZ_RAILS],
                                           ended->successor.address, &ended->successor.bytes);
}

static const struct offer *some_offer(uint32_t peer)
{
    uint32_t skip = fuzz_below(input, 8);

    for (uint32_t i = 0; i < outbound.offers.reach; i++) {
        const struct offer *offer = kvr_pool_at(&outbound.offers, i, NULL);

        if (offer != NULL && offer->peer == peer && skip-- == 0)
            return offer;
    }
    return NULL;
}

static void peer_message(uint32_t peer)
{
    static const kvr_message_kind kinds[] = {KVR_MSG_PAGES,  KVR_MSG_PAGES,       KVR_MSG_GRANT,
                                             KVR_MSG_GRANT,  KVR_MSG_MISSING,     KVR_MSG_LANDED,
                                             KVR_MSG_CANCEL, KVR_MSG_EPOCH_ENDED, KVR_MSG_UNKNOWN};
    static struct kvr_chunk_run chunks[8];
    const struct offer *offer = some_offer(peer);
    struct kvr_message message = {
        .kind = fuzz_below(input, 32) == 31
                    ? (kvr_message_kind)(KVR_MSG_REGIONS + 1 +
                                         fuzz_below(input, KVR_MSG_KIND_END - KVR_MSG_REGIONS - 1))
                    : kinds[fuzz_below(input, 9)],
        .transfer = fuzz_about(input, offer != NULL ? offer->nonce : 1)};

    if (message.kind == KVR_MSG_PAGES) {
        peer_pages(&message, offer);
    } else if (message.kind == KVR_MSG_GRANT) {
        peer_grant(&message);
    } else if (message.kind == KVR_MSG_MISSING) {
        message.missing.round = (uint32_t)fuzz_about(input, offer != NULL ? offer->round + 1 : 1);
        message.missing.runs = chunks;
        message.missing.run_count = fuzz_chunk_runs(input, chunks);
    } else if (message.kind == KVR_MSG_EPOCH_ENDED) {
        peer_epoch_ended(&message);
    } else if (message.kind == KVR_MSG_LANDED || message.kind == KVR_MSG_CANCEL) {
        message.reason.status = fuzz_below(input, 2) ? KVR_OK : KVR_CANCELLED;
    }
    outbound_message(&outbound, world.now, peer, &message);
}

/* ---- everything ---- */

static void run(kvr_ns later)
{
    fuzz_world_run(&world, on_group);
    for (uint32_t i = 0; i < PEERS; i++)
        if (peers[i].hung_up)
            peer_lost(i);
    world.now += later;
}

static void act(void)
{
    uint8_t what = fuzz_byte(input);
    uint32_t engine = fuzz_below(input, ENGINES), peer = (what >> 5) % PEERS;

    switch (what % 16) {
    case 0:
        engine_up(engine);
        break;
    case 1:
        engine_region(engine);
        break;
    case 2:
        if (fuzz_below(input, 8) == 7)
            engine_down(engine);
        break;
    case 3:
    case 4:
    case 5:
        engine_request(engine);
        break;
    case 6:
        atomic_store(&world.pages[engine].words[fuzz_below(input, 3)], fuzz_about(input, 2));
        break;
    case 7:
        peer_up(peer);
        break;
    case 8:
        if (fuzz_below(input, 8) == 7)
            peer_lost(peer);
        break;
    case 9:
        if (peers[peer].up && !peers[peer].hung_up)
            peer_regions(peer);
        break;
    case 10:
        if (peers[peer].up && !peers[peer].hung_up)
            peer_want(peer);
        break;
    case 11:
    case 12:
    case 13:
        if (peers[peer].up && !peers[peer].hung_up)
            peer_message(peer);
        break;
    case 14:
        peers[peer].full = fuzz_below(input, 8) == 7;
        break;
    default:
        run(fuzz_below(input, 4) == 3 ? KVR_S / 8 : KVR_MS);
        outbound_tick(&outbound, world.now);
        break;
    }
}

/* Plays what these bytes decide; without bytes every decision is a good one. */
static void play(void (*what)(uint32_t), const char *bytes, size_t count)
{
    struct fuzz_input script = {(const uint8_t *)bytes, count}, *kept = input;

    input = &script;
    what(0);
    input = kept;
}
#define PLAY(what, bytes) play(what, bytes, sizeof(bytes) - 1)

/* A good beginning, or the first steps of one, from which bytes alone would seldom start. */
static void begin_well(uint32_t steps)
{
    if (steps > 0) { /* an engine and a peer, both with regions */
        PLAY(engine_up, "");
        PLAY(engine_region, "");
        PLAY(peer_up, "");
        PLAY(peer_regions, "");
    }
    if (steps > 1) { /* a publish of which two pages are announced */
        PLAY(engine_request, "");
        PLAY(engine_request, "\2\0\0\3");
        PLAY(engine_request, "\4\0\0\0\0\0\7");
    }
    if (steps > 2) { /* its target, whose pages are known */
        PLAY(peer_want, "");
        PLAY(peer_message, "\0\0\0\0\0\0\1\0\2");
    }
    if (steps > 3) { /* which lets it write */
        PLAY(peer_message, "\0\0\2");
        atomic_store(&world.pages[0].words[0], steps > 4 ? 2 : 1);
        run(KVR_MS);
    }
}

static bool busy(void)
{
    for (uint32_t i = 0; i < ENGINES; i++)
        if (!engines[i].free && !engines[i].up)
            return true;
    return outbound_live(&outbound) > 0 || outbound.tombs > 0 || world.parked_count > 0 ||
           kvr_group_outstanding(world.group) > 0;
}

static void settle(void)
{
    for (int i = 0; i < 1000 && (i < 2 || busy()); i++) {
        run(KVR_S / 10);
        outbound_tick(&outbound, world.now);
    }
}

static void tear_down(void)
{
    outbound_cancel_all(&outbound, world.now, KVR_DRAINING, "the end");
    settle();
    assert(outbound_live(&outbound) == 0);
    for (uint32_t i = 0; i < ENGINES; i++) {
        if (!engines[i].up)
            continue;
        assert(engines[i].opened == engines[i].freed);
        engine_down(i);
    }
    for (uint32_t i = 0; i < PEERS; i++)
        peer_lost(i);
    settle();
    assert(!busy() && push.open_count == 0 && outbound.parked == 0);
    assert(world.regions_live == 0);
    assert(world.buddy.used_bytes == world.used_at_start);
}

/* A world is torn down to nothing after every input, and so can serve the next. */
static void begin(void)
{
    struct outbound_options options = {
        .silence_ns = KVR_S,
        .quiet_ns = KVR_S / 5,
        .lease_default_ns = KVR_S,
        .want_default_ns = KVR_S,
        .rail_count = FUZZ_RAILS,
        .limits = {.pieces_local = 2, .pieces_remote = 2, .chunk_bytes_max = 4096},
    };
    struct kvr_group_user user = push_user(&push);

    memset(&push, 0, sizeof(push));
    memset(engines, 0, sizeof(engines));
    for (uint32_t i = 0; i < ENGINES; i++)
        engines[i].free = true;
    fuzz_world_open(&world, &user);
    push.group = world.group;
    if (outbound_init(&outbound, &options, &ports, &world.buddy) != KVR_OK)
        abort();
    world.used_at_start = world.buddy.used_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint32_t inputs;
    struct fuzz_input bytes = {data, size};

    input = &bytes;
    if (inputs == 0)
        begin();
    begin_well(fuzz_below(input, 8));
    while (bytes.left > 0)
        act();
    tear_down();
    if (++inputs < FUZZ_WORLD_INPUTS)
        return 0;
    fuzz_world_close(&world);
    inputs = 0;
    return 0;
}
