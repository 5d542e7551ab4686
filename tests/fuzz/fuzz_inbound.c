/* A target agent with engines and peers that do anything. The input is a list of decisions against
 * one struct inbound with a real landing thread; its bytes decide which writes arrive, on open
 * epochs. Nothing may assert, every fetch ends in exactly one terminal notice, and no rail is
 * recycled for ever. After the teardown no slot, no byte of the tables and no region is held. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode-agent/fetch.h"
#include "decode-agent/inbound.h"
#include "decode-agent/land.h"
#include "decode-agent/transfer.h"
#include "kv/chunk_digest.h"
#include "tests/support/fuzz_agent.h"

#define SLOTS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct inbound inbound;
static struct land land;
static struct kvr_group_user user;

/* ---- ports ---- */

static kvr_status port_dial(void *self, const char *address, uint32_t *ret_peer,
                            struct kvr_error *error)
{
    uint32_t peer = (uint32_t)address[0] - 'a';

    (void)self;
    if (peer >= FUZZ_PEERS)
        return kvr_error_set(error, KVR_INVALID, "fuzz", "no address: %s", address);
    fuzz.peers[peer].known = true;
    *ret_peer = peer;
    return KVR_OK;
}

/* ---- engines ---- */

static void target_open(struct kvr_request *request)
{
    static struct kvr_source_address sources[2];
    struct kvr_req_target_open *open = &request->target_open;

    snprintf(open->request, sizeof(open->request), "r%u", fuzz_below(fuzz.input, 4));
    open->tokens = fuzz_about(fuzz.input, 4 + fuzz_below(fuzz.input, 32));
    open->skip_tokens = fuzz_about(fuzz.input, 4u * fuzz_below(fuzz.input, 3));
    open->deadline_ms = (uint32_t)fuzz_about(fuzz.input, 500);
    if (open->tokens % 16 != 15) /* else it has none, and is refused */
        open->secret = (struct kvr_secret){.bytes = {1, (uint8_t)open->request[1]}};
    open->sources = sources;
    open->source_count = 1 + (fuzz_below(fuzz.input, 8) == 7);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(sources[i].agent, sizeof(sources[i].agent), "%c",
                 "abcx"[fuzz_byte(fuzz.input) > 240 ? 3 : fuzz_below(fuzz.input, FUZZ_PEERS)]);
        sources[i].engine = fuzz_rank(8 + i, 1).engine;
        sources[i].generation = fuzz_about(fuzz.input, 1);
    }
}

/* Page n of every table is physical page n, so that the fuzzer can plan as a source would. */
static void target_pages(struct kvr_request *request, const struct fetch *fetch)
{
    static uint32_t ids[8];
    uint32_t given, kind = fuzz_below(fuzz.input, 16);
    struct kvr_req_skip skip = {0};

    request->pages.group = kind < 12 ? 0 : kind - 11;
    skip.skip_tokens = fuzz_about(fuzz.input, 4u * fuzz_below(fuzz.input, 3));
    given = fetch != NULL ? fetch->pages.groups[request->pages.group].count : 0;
    request->pages.page_first = (uint32_t)fuzz_about(fuzz.input, given);
    request->pages.id_count = fuzz_below(fuzz.input, 9);
    request->pages.ids = ids;
    for (uint32_t i = 0; i < request->pages.id_count; i++)
        ids[i] = (uint32_t)fuzz_about(fuzz.input, given + i);
    if (kind == 11) {
        request->kind = KVR_REQ_TARGET_SKIP;
        request->skip = skip;
    } else if (request->pages.id_count == 8) {
        request->kind = KVR_REQ_TARGET_HOLD;
    }
}

static void engine_request(uint32_t index)
{
    static const kvr_request_kind kinds[] = {KVR_REQ_TARGET_OPEN, KVR_REQ_TARGET_PAGES,
                                             KVR_REQ_TARGET_OPEN, KVR_REQ_TARGET_PAGES,
                                             KVR_REQ_CANCEL,      KVR_REQ_WATCH};
    struct kvr_request request = {.kind = kinds[fuzz_below(fuzz.input, 6)],
                                  .handle = fuzz_below(fuzz.input, 4)};
    const struct fetch *fetch = fetch_find(&inbound, index, request.handle);

    if (!fuzz.engines[index].up)
        return;
    if (request.kind == KVR_REQ_TARGET_OPEN) {
        target_open(&request);
        fuzz.engines[index].opened++;
    } else if (request.kind == KVR_REQ_TARGET_PAGES) {
        target_pages(&request, fetch);
    } else if (request.kind == KVR_REQ_WATCH) {
        request.watch.word = (uint32_t)fuzz_about(fuzz.input, KVR_WORDS_MAX);
    } else if (fuzz_below(fuzz.input, 4) != 3) {
        return;
    }
    inbound_request(&inbound, fuzz.world.now, index, &request);
}

/* ---- peers ---- */

static struct transfer *some_transfer(uint32_t peer)
{
    uint32_t skip = fuzz_below(fuzz.input, 8);

    for (uint32_t i = 0; i < inbound.transfers.reach; i++) {
        struct transfer *transfer = kvr_pool_at(&inbound.transfers, i, NULL);

        if (transfer != NULL && (peer == FUZZ_PEERS || transfer->link.peer == peer) &&
            skip-- % 8 == 0)
            return transfer;
    }
    return NULL;
}

/* Fills in an honest source's hash and number of writes for these pages. */
static void plan_honestly(const struct transfer *transfer, struct kvr_msg_plan *plan,
                          uint32_t page_count)
{
    const struct kvr_region_layout layout = fuzz_layout(NULL, plan->group);
    const struct fetch *fetch = fetch_of(&inbound, transfer);
    static uint32_t ids[FUZZ_PAGES];
    struct kvr_plan_input honest = {
        .source_layouts = &layout,
        .source_layout_count = 1,
        .target_layouts = fetch->set->layouts,
        .target_layout_count = fetch->set->count,
        .group = plan->group,
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
        kvr_plan_make(&honest, &fuzz.world.buddy, &made, &error) != KVR_OK)
        return;
    plan->hash = made->hash;
    plan->chunk_count = made->chunk_count;
    kvr_plan_free(made, &fuzz.world.buddy);
}

static void peer_plan(struct kvr_message *message, const struct transfer *transfer)
{
    static struct kvr_page_run runs[8];
    struct kvr_msg_plan *plan = &message->plan;
    uint32_t kind = fuzz_below(fuzz.input, 16);
    uint32_t page_first;

    plan->group = kind >= 12;
    plan->none = kind % 12 == 11;
    page_first = (uint32_t)(transfer->intake.token_next[plan->group] / FUZZ_TOKENS);
    plan->segment = (uint32_t)fuzz_about(fuzz.input, transfer->intake.segment_count);
    plan->page_first = (uint32_t)fuzz_about(fuzz.input, page_first);
    plan->token_first = (uint64_t)page_first * FUZZ_TOKENS;
    plan->chunk_first = (uint32_t)fuzz_about(fuzz.input, transfer->intake.chunk_count);
    plan->source = fuzz_rank(transfer->source.engine.bytes[0] - 1u, transfer->source.generation);
    plan->limits = (struct kvr_write_limits){2, 2, 4096, false};
    plan->runs = runs;
    runs[0] = (struct kvr_page_run){plan->page_first, 1 + fuzz_below(fuzz.input, 6)};
    plan->token_end = plan->token_first + runs[0].page_count * FUZZ_TOKENS;
    plan_honestly(transfer, plan, runs[0].page_count);
    plan->chunk_count = (uint32_t)fuzz_about(fuzz.input, plan->chunk_count);
    plan->run_count = 1;
    plan->more = fuzz_below(fuzz.input, 16) == 15;
    if (fuzz_below(fuzz.input, 16) == 15)
        plan->run_count = fuzz_page_runs(fuzz.input, runs);
}

static void peer_final(struct kvr_message *message, const struct transfer *transfer)
{
    message->final.segment_count = (uint32_t)fuzz_about(fuzz.input, transfer->intake.segment_count);
    message->final.chunk_count = (uint32_t)fuzz_about(fuzz.input, transfer->intake.chunk_count);
    message->final.token_end = fuzz_about(fuzz.input, transfer->intake.token_next[0]);
    message->final.has_tail = fuzz_below(fuzz.input, 2);
}

/* Counts as the landing has them, so that quiet can be reached, or wild ones. */
static void peer_quiet(struct kvr_message *message, const struct transfer *transfer)
{
    static struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER + 1];
    const struct landing *landing = transfer->grant.landing;
    uint32_t count = landing != NULL ? landing->arrived.count_count : 0;

    message->quiet.round = (uint32_t)fuzz_about(fuzz.input, transfer->trust.round);
    message->quiet.counts = counts;
    if (count > 0)
        memcpy(counts, landing->arrived.counts, count * sizeof(counts[0]));
    if (fuzz_below(fuzz.input, 4) == 3) {
        counts[count].rail = (uint32_t)fuzz_about(fuzz.input, fuzz_below(fuzz.input, FUZZ_RAILS));
        counts[count].epoch = (uint32_t)fuzz_about(fuzz.input, inbound.rails[0].epoch);
        counts[count].count = fuzz_about(fuzz.input, 1);
        count++;
    }
    message->quiet.count_count = count;
}

/* Mostly digests of the next chunks; sometimes fewer values than announced, and wrong ones. */
static void peer_digest(struct kvr_message *message, const struct transfer *transfer)
{
    static uint64_t values[256];

    message->digest.chunk_first =
        (uint32_t)fuzz_about(fuzz.input, transfer->verification.chunk_end);
    message->digest.chunk_count = (uint32_t)fuzz_about(
        fuzz.input, transfer->intake.chunk_count - transfer->verification.chunk_end);
    message->digest.values = values;
    for (uint32_t i = 0; i < message->digest.chunk_count && i < 200; i++)
        message->digest.value_count += kvr_digest_covers(
            transfer->verification.mode, transfer->nonce, message->digest.chunk_first + i);
    message->digest.value_count =
        (uint32_t)fuzz_about(fuzz.input, message->digest.value_count) % 256;
}

static void peer_sender(struct kvr_message *message)
{
    struct kvr_rail_address *endpoint = &message->sender.endpoint;

    message->transfer = 0;
    endpoint->rail = (uint32_t)fuzz_about(fuzz.input, fuzz_below(fuzz.input, FUZZ_RAILS));
    endpoint->epoch = (uint32_t)fuzz_about(fuzz.input, 1);
    fuzz.world.fabric.ops->endpoint_address(fuzz.world.far_endpoints[endpoint->rail % FUZZ_RAILS],
                                            endpoint->address, &endpoint->bytes);
    if (fuzz_below(fuzz.input, 8) == 7)
        endpoint->bytes = fuzz_below(fuzz.input, KVR_ADDRESS_BYTES + 1);
}

static void peer_message(uint32_t peer)
{
    static const uint8_t tail[KVR_TAIL_BYTES_MAX];
    static struct kvr_chunk_run chunks[8];
    static const kvr_message_kind kinds[] = {KVR_MSG_PLAN,    KVR_MSG_PLAN,      KVR_MSG_PLAN,
                                             KVR_MSG_FINAL,   KVR_MSG_TAIL,      KVR_MSG_QUIET,
                                             KVR_MSG_QUIET,   KVR_MSG_RAIL_LOST, KVR_MSG_FAIL,
                                             KVR_MSG_UNKNOWN, KVR_MSG_SENDER};
    const struct transfer *transfer = some_transfer(peer);
    struct kvr_message message = {
        .kind = kinds[fuzz_below(fuzz.input, sizeof(kinds) / sizeof(kinds[0]))]};
    uint32_t other;

    if (transfer == NULL)
        return;
    message.transfer = fuzz_about(fuzz.input, transfer->nonce);
    other = fuzz_below(fuzz.input, 32);
    if (other == 31)
        message.kind = (kvr_message_kind)(KVR_MSG_WANT +
                                          fuzz_below(fuzz.input, KVR_MSG_KIND_END - KVR_MSG_WANT));
    else if (other >= 28)
        message.kind = KVR_MSG_DIGEST;
    if (message.kind == KVR_MSG_PLAN) {
        peer_plan(&message, transfer);
    } else if (message.kind == KVR_MSG_FINAL) {
        peer_final(&message, transfer);
    } else if (message.kind == KVR_MSG_TAIL) {
        message.tail.bytes = tail;
        message.tail.byte_count =
            fuzz_below(fuzz.input, 8) == 7 ? KVR_TAIL_BYTES_MAX : fuzz_below(fuzz.input, 100);
    } else if (message.kind == KVR_MSG_QUIET) {
        peer_quiet(&message, transfer);
    } else if (message.kind == KVR_MSG_RAIL_LOST) {
        message.rail_lost.rail = fuzz_below(fuzz.input, FUZZ_RAILS);
        message.rail_lost.runs = chunks;
        message.rail_lost.run_count = fuzz_chunk_runs(fuzz.input, chunks);
    } else if (message.kind == KVR_MSG_SENDER) {
        peer_sender(&message);
    } else if (message.kind == KVR_MSG_DIGEST) {
        peer_digest(&message, transfer);
    } else if (message.kind == KVR_MSG_FAIL) {
        message.reason.status = fuzz_below(fuzz.input, 4) == 3 ? KVR_OK : KVR_ABORTED;
    } else if (message.kind == KVR_MSG_UNKNOWN && fuzz_below(fuzz.input, 4) != 3) {
        return;
    }
    inbound_message(&inbound, fuzz.world.now, peer, &message);
}

/* A write of a source: mostly of a chunk that the transfer has; at times the whole of a run of
 * chunks. */
static void write_arrives(void)
{
    const struct transfer *transfer = some_transfer(FUZZ_PEERS);
    uint32_t rail = fuzz_below(fuzz.input, FUZZ_RAILS), chunk = fuzz_below(fuzz.input, 32),
             count = 1;
    uint32_t slot = fuzz_below(fuzz.input, SLOTS + 1);

    if (transfer != NULL && transfer->slots.count > 0 && fuzz_below(fuzz.input, 16) != 15)
        slot = transfer->slots.numbers[0];
    if (transfer != NULL && fuzz_below(fuzz.input, 2) == 1) {
        chunk = 0;
        count = transfer->intake.chunk_count;
    }
    for (uint32_t i = 0; i < count; i++)
        user.arrived(user.self, fuzz.world.now, rail,
                     kvr_group_address(fuzz.world.group, rail).epoch,
                     slot << 16 | ((chunk + i) & 0xffff));
}

/* ---- everything ---- */

static void act(uint8_t what, uint32_t engine, uint32_t peer)
{
    struct kvr_group_message error = {.head.kind = KVR_GROUP_RAIL_ERROR};

    switch (what % 16) {
    case 0:
        fuzz_engine_up(engine);
        break;
    case 1:
        fuzz_engine_region(engine);
        break;
    case 2:
        if (fuzz_below(fuzz.input, 8) == 7)
            fuzz_engine_down(engine);
        else if (fuzz_below(fuzz.input, 8) == 7)
            fuzz_peer_lost(peer);
        break;
    case 3:
    case 4:
    case 5:
        engine_request(engine);
        break;
    case 6:
        fuzz_peer_up(peer);
        break;
    case 7:
        if (fuzz_peer_speaks(peer))
            fuzz_peer_regions(peer);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        if (fuzz_peer_speaks(peer))
            peer_message(peer);
        break;
    case 12:
        write_arrives();
        break;
    case 13:
        fuzz.peers[peer].full = fuzz_below(fuzz.input, 8) == 7;
        if (!fuzz.peers[peer].full && fuzz.peers[peer].up)
            inbound_peer_writable(&inbound, fuzz.world.now, peer);
        break;
    case 14:
        if (fuzz_below(fuzz.input, 16) != 15)
            break;
        error.rail_error.rail = fuzz_below(fuzz.input, FUZZ_RAILS);
        error.rail_error.epoch = kvr_group_address(fuzz.world.group, error.rail_error.rail).epoch;
        inbound_group(&inbound, fuzz.world.now, &error);
        break;
    default:
        fuzz_run(fuzz_below(fuzz.input, 4) == 3 ? KVR_S / 8 : KVR_MS);
        inbound_tick(&inbound, fuzz.world.now);
        break;
    }
}

/* A good beginning, or its first steps: random bytes alone would seldom get there. */
static void begin(uint32_t steps)
{
    if (steps > 0) { /* a fetch of three pages from a connected peer */
        FUZZ_SCRIPT(fuzz_engine_up, "");
        FUZZ_SCRIPT(fuzz_engine_region, "");
        FUZZ_SCRIPT(engine_request, "\0\0\0\10");
        FUZZ_SCRIPT(fuzz_peer_up, "");
        FUZZ_SCRIPT(fuzz_peer_regions, "");
        FUZZ_SCRIPT(engine_request, "\1\0\0\0\0\0\3");
    }
    if (steps > 1) /* the plan of two of them */
        FUZZ_SCRIPT(peer_message, "\0\0\0\0\0\0\0\0\1");
    if (steps > 2) { /* the plan of all of them, and the final message */
        FUZZ_SCRIPT(peer_message, "\0\0\0\0\0\0\0\0\0");
        FUZZ_SCRIPT(peer_message, "\0\3");
    }
    fuzz_run(KVR_MS);
}

/* ---- the machine ---- */

static bool busy(void)
{
    for (uint32_t i = 0; i < FUZZ_RAILS; i++)
        if (kvr_rail_recycle_under_way(&inbound.recycle, i))
            return true;
    return land.open_count > 0 || inbound.free_count < SLOTS;
}

static struct kvr_machine open_machine(void)
{
    struct inbound_options options = {
        .silence_ns = KVR_S,
        .quiet_ns = KVR_S / 5,
        .deadline_default_ns = KVR_S,
        .slot_count = SLOTS,
        .rail_count = FUZZ_RAILS,
        .nonce_key = {1},
        .limits = {.pieces_local = 2, .pieces_remote = 2, .chunk_bytes_max = 4096},
        .digest = KVR_DIGEST_SAMPLE,
    };
    static struct kvr_ports ports; /* the machine keeps a pointer */

    ports = fuzz_ports();
    ports.dial = port_dial;
    memset(&land, 0, sizeof(land));
    user = land_user(&land);
    fuzz_agent_open(&user);
    land.group = fuzz.world.group;
    if (inbound_init(&inbound, &options, &ports, &fuzz.world.buddy) != KVR_OK)
        abort();
    return inbound_machine(&inbound);
}

static const struct fuzz_ops ops = {
    .open = open_machine,
    .busy = busy,
    .beginnings = 6,
    .begin = begin,
    .act = act,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_agent_play(&ops, data, size);
}
