/* A target agent whose engines and peers do anything: the input is a list of decisions against one
 * struct inbound with a real landing thread; writes arrive as the bytes say, on epochs that are
 * open. Whatever they do, nothing asserts, every fetch ends in exactly one terminal notice, no rail
 * is recycled for ever, and when all is torn down no slot, no byte of the tables and no region is
 * kept. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode-agent/inbound.h"
#include "kv/chunk_digest.h"
#include "tests/support/fuzz_machine.h"

#define ENGINES 2
#define PEERS   3
#define SLOTS   4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_world world;
static struct inbound inbound;
static struct land land;
static struct kvr_group_user user;
static struct fuzz_input *input;

static struct {
    bool up, free;
    uint64_t generation;
    uint32_t opened, ended; /* fetches of this life */
} engines[ENGINES];

static struct {
    bool dialed, up, hung_up, full;
} peers[PEERS];

/* ---- ports ---- */

static kvr_status port_send(void *self, uint32_t peer, const struct kvr_message *message)
{
    (void)self;
    assert(peer < PEERS && kvr_message_numbered(message->kind));
    if (!peers[peer].dialed)
        return KVR_PEER_LOST;
    return peers[peer].full ? KVR_AGAIN : KVR_OK;
}

static kvr_status port_dial(void *self, const char *address, uint32_t *ret_peer,
                            struct kvr_error *error)
{
    uint32_t peer = (uint32_t)address[0] - 'a';

    (void)self;
    if (peer >= PEERS)
        return kvr_error_set(error, KVR_INVALID, "fuzz", "no address: %s", address);
    peers[peer].dialed = true;
    *ret_peer = peer;
    return KVR_OK;
}

static void port_hang_up(void *self, uint32_t peer, kvr_status status, const char *detail)
{
    (void)self;
    assert(peer < PEERS && status < 0 && detail[0] != '\0');
    peers[peer].hung_up = true;
}

static void port_notify(void *self, uint32_t engine, const struct kvr_notice *notice)
{
    uint8_t packet[KVR_PACKET_BYTES_MAX];
    size_t bytes;

    (void)self;
    assert(engine < ENGINES && !engines[engine].free);
    assert(kvr_notice_encode(notice, packet, sizeof(packet), &bytes) == KVR_OK);
    if (kvr_notice_terminal(notice->kind))
        engines[engine].ended++;
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
    (void)self;
    engines[engine].free = true;
}

static uint32_t port_rails(void *self, struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    (void)self;
    for (uint32_t i = 0; i < FUZZ_RAILS; i++)
        ret_rails[i] = kvr_group_address(world.group, i);
    return FUZZ_RAILS;
}

static const struct kvr_ports ports = {
    .send = port_send,
    .dial = port_dial,
    .hang_up = port_hang_up,
    .notify = port_notify,
    .command = port_command,
    .region_done = port_region_done,
    .engine_done = port_engine_done,
    .rails = port_rails,
};

static void on_group(const struct kvr_group_message *message)
{
    inbound_group(&inbound, world.now, message);
}

/* ---- engines ---- */

static void engine_up(uint32_t index)
{
    struct kvr_req_attach attach = {.compat = fuzz_compat(), .name = "e"};
    struct kvr_error error;

    if (!engines[index].free)
        return;
    attach.rank = fuzz_rank(index, ++engines[index].generation);
    if (kvr_engines_up(&inbound.engines, index, &attach, &world.pages[index], &error) != KVR_OK)
        return;
    engines[index].up = true;
    engines[index].free = false;
    engines[index].opened = engines[index].ended = 0;
}

static void engine_down(uint32_t index)
{
    if (!engines[index].up)
        return;
    engines[index].up = false;
    inbound_engine_down(&inbound, world.now, index);
}

static void engine_region(uint32_t index)
{
    uint32_t number = fuzz_below(input, 3);
    struct kvr_region *region;
    struct kvr_error error;

    if (!engines[index].up)
        return;
    if (fuzz_below(input, 4) == 3) {
        (void)!kvr_engines_region_drop(&inbound.engines, index, number);
        return;
    }
    region = fuzz_region(&world, number, false, true);
    if (kvr_engines_region_add(&inbound.engines, index, region, &error) != KVR_OK)
        fuzz_region_done(&world, region);
}

static void target_open(struct kvr_request *request)
{
    static struct kvr_source_address sources[2];
    struct kvr_req_target_open *open = &request->target_open;

    snprintf(open->request, sizeof(open->request), "r%u", fuzz_below(input, 4));
    open->tokens = fuzz_about(input, 4 + fuzz_below(input, 32));
    open->skip_tokens = fuzz_about(input, 4u * fuzz_below(input, 3));
    open->deadline_ms = (uint32_t)fuzz_about(input, 500);
    open->sources = sources;
    open->source_count = 1 + (fuzz_below(input, 8) == 7);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(sources[i].agent, sizeof(sources[i].agent), "%c",
                 "abcx"[fuzz_byte(input) > 240 ? 3 : fuzz_below(input, PEERS)]);
        sources[i].engine = fuzz_rank(8 + i, 1).engine;
        sources[i].generation = fuzz_about(input, 1);
    }
}

/* Page n of every table is physical page n, so that the fuzzer can plan as a source would. */
static void target_pages(struct kvr_request *request, uint32_t given)
{
    static uint32_t ids[8];

    request->pages.page_first = (uint32_t)fuzz_about(input, given);
    request->pages.id_count = fuzz_below(input, 9);
    request->pages.ids = ids;
    for (uint32_t i = 0; i < request->pages.id_count; i++)
        ids[i] = (uint32_t)fuzz_about(input, given + i);
}

static void engine_request(uint32_t index)
{
    static const kvr_request_kind kinds[] = {KVR_REQ_TARGET_OPEN, KVR_REQ_TARGET_PAGES,
                                             KVR_REQ_TARGET_OPEN, KVR_REQ_TARGET_PAGES,
                                             KVR_REQ_CANCEL};
    struct kvr_request request = {.kind = kinds[fuzz_below(input, 5)],
                                  .handle = fuzz_below(input, 4)};
    const struct fetch *fetch = fetch_find(&inbound, index, request.handle);

    if (!engines[index].up)
        return;
    if (request.kind == KVR_REQ_TARGET_OPEN) {
        target_open(&request);
        engines[index].opened++;
    } else if (request.kind == KVR_REQ_TARGET_PAGES) {
        target_pages(&request, fetch != NULL ? fetch->table.count : 0);
    } else if (fuzz_below(input, 4) != 3) {
        return;
    }
    inbound_request(&inbound, world.now, index, &request);
}

/* ---- peers ---- */

static void peer_up(uint32_t peer)
{
    struct kvr_rail_address rails[KVR_RAILS_MAX] = {0};
    struct kvr_msg_hello hello;

    if (!peers[peer].dialed || peers[peer].up)
        return;
    peers[peer].up = true;
    fuzz_hello(&world, input, rails, &hello);
    inbound_peer_up(&inbound, world.now, peer, &hello);
}

static void peer_lost(uint32_t peer)
{
    if (!peers[peer].dialed)
        return;
    peers[peer].dialed = peers[peer].up = peers[peer].hung_up = peers[peer].full = false;
    inbound_peer_lost(&inbound, world.now, peer, KVR_PEER_LOST, "it is gone");
}

static void peer_regions(uint32_t peer)
{
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};
    struct kvr_region_layout layouts[2];
    struct kvr_remote_key keys[2 * FUZZ_RAILS];
    struct kvr_rank rank = fuzz_rank(8 + fuzz_below(input, 2), fuzz_about(input, 1));

    fuzz_regions(&world, input, &rank, layouts, keys, &message.regions);
    inbound_message(&inbound, world.now, peer, &message);
}

static struct transfer *some_transfer(uint32_t peer)
{
    uint32_t skip = fuzz_below(input, 8);

    for (uint32_t i = 0; i < inbound.transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound.transfers, i, NULL);

        if (transfer != NULL && (peer == PEERS || transfer->peer == peer) && skip-- % 8 == 0)
            return transfer;
    }
    return NULL;
}

/* What an honest source would say of these pages: hash and number of writes. */
static void plan_honestly(const struct transfer *transfer, struct kvr_msg_plan *plan,
                          uint32_t page_count)
{
    const struct kvr_region_layout layout = fuzz_layout(NULL, 0);
    const struct fetch *fetch = fetch_of(&inbound, transfer);
    static uint32_t ids[FUZZ_PAGES];
    struct kvr_plan_input honest = {
        .source_layouts = &layout,
        .source_layout_count = 1,
        .target_layouts = fetch->set->layouts,
        .target_layout_count = fetch->set->count,
        .source_pages = ids + plan->page_first % FUZZ_PAGES,
        .target_pages = ids + plan->page_first % FUZZ_PAGES,
        .source_page_count = page_count,
        .target_page_count = page_count,
        .token_first = plan->token_first,
        .token_end = plan->token_end,
        .limits = {.pieces_local = plan->limits.pieces_local,
                   .pieces_remote = plan->limits.pieces_remote,
                   .chunk_bytes_max = plan->limits.chunk_bytes_max},
    };
    struct kvr_plan *made;
    struct kvr_error error;

    for (uint32_t i = 0; i < FUZZ_PAGES; i++)
        ids[i] = i;
    if ((uint64_t)plan->page_first + page_count > FUZZ_PAGES ||
        kvr_plan_make(&honest, &world.buddy, &made, &error) != KVR_OK)
        return;
    plan->hash = made->hash;
    plan->chunk_count = made->chunk_count;
    kvr_plan_free(made, &world.buddy);
}

static void peer_plan(struct kvr_message *message, const struct transfer *transfer)
{
    static struct kvr_page_run runs[8];
    struct kvr_msg_plan *plan = &message->plan;
    const struct fetch *fetch = fetch_of(&inbound, transfer);
    uint32_t skip = (uint32_t)(fetch->skip_tokens / FUZZ_TOKENS);
    uint32_t next = (uint32_t)(transfer->token_next / FUZZ_TOKENS);
    uint32_t page_first = next > skip ? next : skip;

    plan->segment = (uint32_t)fuzz_about(input, transfer->segment_count);
    plan->page_first = (uint32_t)fuzz_about(input, page_first);
    plan->token_first = (uint64_t)page_first * FUZZ_TOKENS;
    plan->chunk_first = (uint32_t)fuzz_about(input, transfer->chunk_count);
    plan->source = fuzz_rank(transfer->source.engine.bytes[0] - 1u, transfer->source.generation);
    plan->limits = (struct kvr_write_limits){2, 2, 4096};
    plan->runs = runs;
    runs[0] = (struct kvr_page_run){plan->page_first, 1 + fuzz_below(input, 6)};
    plan->token_end = plan->token_first + runs[0].page_count * FUZZ_TOKENS;
    plan_honestly(transfer, plan, runs[0].page_count);
    plan->chunk_count = (uint32_t)fuzz_about(input, plan->chunk_count);
    plan->run_count = 1;
    plan->more = fuzz_below(input, 16) == 15;
    if (fuzz_below(input, 16) == 15)
        plan->run_count = fuzz_page_runs(input, runs);
}

static void peer_final(struct kvr_message *message, const struct transfer *transfer)
{
    message->final.segment_count = (uint32_t)fuzz_about(input, transfer->segment_count);
    message->final.chunk_count = (uint32_t)fuzz_about(input, transfer->chunk_count);
    message->final.token_end = fuzz_about(input, transfer->token_next);
    message->final.has_tail = fuzz_below(input, 2);
}

/* Counts as the landing has them, so that quiet can be reached, or wild ones. */
static void peer_quiet(struct kvr_message *message, const struct transfer *transfer)
{
    static struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER + 1];
    const struct landing *landing = transfer->landing;
    uint32_t count = landing != NULL ? landing->count_count : 0;

    message->quiet.round = (uint32_t)fuzz_about(input, transfer->round);
    message->quiet.counts = counts;
    if (count > 0)
        memcpy(counts, landing->counts, count * sizeof(counts[0]));
    if (fuzz_below(input, 4) == 3) {
        counts[count].rail = (uint32_t)fuzz_about(input, fuzz_below(input, FUZZ_RAILS));
        counts[count].epoch = (uint32_t)fuzz_about(input, inbound.rails[0].epoch);
        counts[count].count = fuzz_about(input, 1);
        count++;
    }
    message->quiet.count_count = count;
}

/* Of the chunks that come next, mostly; sometimes fewer values than it says, and wrong ones. */
static void peer_digest(struct kvr_message *message, const struct transfer *transfer)
{
    static uint64_t values[256];

    message->digest.chunk_first = (uint32_t)fuzz_about(input, transfer->digest_end);
    message->digest.chunk_count =
        (uint32_t)fuzz_about(input, transfer->chunk_count - transfer->digest_end);
    message->digest.values = values;
    for (uint32_t i = 0; i < message->digest.chunk_count && i < 200; i++)
        message->digest.value_count +=
            kvr_digest_covers(transfer->digest, transfer->nonce, message->digest.chunk_first + i);
    message->digest.value_count = (uint32_t)fuzz_about(input, message->digest.value_count) % 256;
}

static void peer_message(uint32_t peer)
{
    static const uint8_t tail[KVR_TAIL_BYTES_MAX];
    static struct kvr_chunk_run chunks[8];
    static const kvr_message_kind kinds[] = {
        KVR_MSG_PLAN,  KVR_MSG_PLAN,  KVR_MSG_PLAN,      KVR_MSG_FINAL, KVR_MSG_TAIL,
        KVR_MSG_QUIET, KVR_MSG_QUIET, KVR_MSG_RAIL_LOST, KVR_MSG_FAIL,  KVR_MSG_UNKNOWN};
    const struct transfer *transfer = some_transfer(peer);
    struct kvr_message message = {.kind = kinds[fuzz_below(input, 10)]};
    uint32_t other;

    if (transfer == NULL)
        return;
    message.transfer = fuzz_about(input, transfer->nonce);
    other = fuzz_below(input, 32);
    if (other == 31)
        message.kind =
            (kvr_message_kind)(KVR_MSG_WANT + fuzz_below(input, KVR_MSG_KIND_END - KVR_MSG_WANT));
    else if (other >= 28)
        message.kind = KVR_MSG_DIGEST;
    if (message.kind == KVR_MSG_PLAN) {
        peer_plan(&message, transfer);
    } else if (message.kind == KVR_MSG_FINAL) {
        peer_final(&message, transfer);
    } else if (message.kind == KVR_MSG_TAIL) {
        message.tail.bytes = tail;
        message.tail.byte_count =
            fuzz_below(input, 8) == 7 ? KVR_TAIL_BYTES_MAX : fuzz_below(input, 100);
    } else if (message.kind == KVR_MSG_QUIET) {
        peer_quiet(&message, transfer);
    } else if (message.kind == KVR_MSG_RAIL_LOST) {
        message.rail_lost.rail = fuzz_below(input, FUZZ_RAILS);
        message.rail_lost.runs = chunks;
        message.rail_lost.run_count = fuzz_chunk_runs(input, chunks);
    } else if (message.kind == KVR_MSG_DIGEST) {
        peer_digest(&message, transfer);
    } else if (message.kind == KVR_MSG_FAIL) {
        message.reason.status = fuzz_below(input, 4) == 3 ? KVR_OK : KVR_ABORTED;
    } else if (message.kind == KVR_MSG_UNKNOWN && fuzz_below(input, 4) != 3) {
        return;
    }
    inbound_message(&inbound, world.now, peer, &message);
}

/* A write of a source: of a chunk that the transfer has, mostly; all of a run of chunks at times.
 */
static void write_arrives(void)
{
    const struct transfer *transfer = some_transfer(PEERS);
    uint32_t rail = fuzz_below(input, FUZZ_RAILS), chunk = fuzz_below(input, 32), count = 1;
    uint32_t slot = fuzz_below(input, SLOTS + 1);

    if (transfer != NULL && transfer->slot_count > 0 && fuzz_below(input, 16) != 15)
        slot = transfer->slots[0];
    if (transfer != NULL && fuzz_below(input, 2) == 1) {
        chunk = 0;
        count = transfer->chunk_count;
    }
    for (uint32_t i = 0; i < count; i++)
        user.arrived(user.self, world.now, rail, kvr_group_address(world.group, rail).epoch,
                     slot << 16 | ((chunk + i) & 0xffff));
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
    struct kvr_group_message error = {.kind = KVR_GROUP_RAIL_ERROR};
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
        else if (fuzz_below(input, 8) == 7)
            peer_lost(peer);
        break;
    case 3:
    case 4:
    case 5:
        engine_request(engine);
        break;
    case 6:
        peer_up(peer);
        break;
    case 7:
        if (peers[peer].up && !peers[peer].hung_up)
            peer_regions(peer);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        if (peers[peer].up && !peers[peer].hung_up)
            peer_message(peer);
        break;
    case 12:
        write_arrives();
        break;
    case 13:
        peers[peer].full = fuzz_below(input, 8) == 7;
        if (!peers[peer].full && peers[peer].up)
            inbound_peer_writable(&inbound, world.now, peer);
        break;
    case 14:
        if (fuzz_below(input, 16) != 15)
            break;
        error.index = fuzz_below(input, FUZZ_RAILS);
        error.a = kvr_group_address(world.group, error.index).epoch;
        inbound_group(&inbound, world.now, &error);
        break;
    default:
        run(fuzz_below(input, 4) == 3 ? KVR_S / 8 : KVR_MS);
        inbound_tick(&inbound, world.now);
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
    if (steps > 0) { /* a fetch of three pages from a peer that is there */
        PLAY(engine_up, "");
        PLAY(engine_region, "");
        PLAY(engine_request, "\0\0\0\10");
        PLAY(peer_up, "");
        PLAY(peer_regions, "");
        PLAY(engine_request, "\1\0\0\3");
    }
    if (steps > 1) /* the plan of two of them */
        PLAY(peer_message, "\0\0\0\0\0\0\0\1");
    if (steps > 2) { /* of all of them, and the last word */
        PLAY(peer_message, "\0\0\0\0\0\0\0\0");
        PLAY(peer_message, "\0\3");
    }
    run(KVR_MS);
}

static bool busy(void)
{
    for (uint32_t i = 0; i < ENGINES; i++)
        if (!engines[i].free && !engines[i].up)
            return true;
    for (uint32_t i = 0; i < FUZZ_RAILS; i++)
        if (inbound.rails[i].recycling)
            return true;
    return inbound_live(&inbound) > 0 || world.parked_count > 0;
}

static void settle(void)
{
    for (int i = 0; i < 1000 && (i < 2 || busy()); i++) {
        run(KVR_S / 10);
        inbound_tick(&inbound, world.now);
    }
}

static void tear_down(void)
{
    inbound_cancel_all(&inbound, world.now, KVR_DRAINING, "the end");
    settle();
    assert(inbound_live(&inbound) == 0);
    for (uint32_t i = 0; i < ENGINES; i++) {
        if (!engines[i].up)
            continue;
        assert(engines[i].opened == engines[i].ended);
        engine_down(i);
    }
    for (uint32_t i = 0; i < PEERS; i++)
        peer_lost(i);
    settle();
    assert(!busy() && land.open_count == 0 && inbound.free_count == SLOTS);
    assert(world.regions_live == 0);
    assert(world.buddy.used_bytes == world.used_at_start);
}

/* A world is torn down to nothing after every input, and so can serve the next. */
static void begin(void)
{
    struct inbound_options options = {
        .silence_ns = KVR_S,
        .quiet_ns = KVR_S / 5,
        .deadline_default_ns = KVR_S,
        .slot_count = SLOTS,
        .rail_count = FUZZ_RAILS,
        .nonce_seed = 1,
        .limits = {.pieces_local = 2, .pieces_remote = 2, .chunk_bytes_max = 4096},
        .digest = KVR_DIGEST_SAMPLE,
    };

    memset(&land, 0, sizeof(land));
    memset(engines, 0, sizeof(engines));
    for (uint32_t i = 0; i < ENGINES; i++)
        engines[i].free = true;
    user = land_user(&land);
    fuzz_world_open(&world, &user);
    land.group = world.group;
    if (inbound_init(&inbound, &options, &ports, &world.buddy) != KVR_OK)
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
    begin_well(fuzz_below(input, 6));
    while (bytes.left > 0)
        act();
    tear_down();
    if (++inputs < FUZZ_WORLD_INPUTS)
        return 0;
    fuzz_world_close(&world);
    inputs = 0;
    return 0;
}
