/* A source agent with engines and peers that do anything. The input is a list of decisions against
 * one struct outbound with a real posting thread on simulated cards. Nothing may assert, and every
 * publish ends in exactly one SOURCE_FREE. After the teardown no byte of the tables and no region
 * is held. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/push.h"
#include "prefill-agent/source_transfer.h"
#include "tests/support/fuzz_agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct outbound outbound;
static struct push push;

/* ---- engines ---- */

static void request_name(char name[KVR_REQUEST_BYTES])
{
    snprintf(name, KVR_REQUEST_BYTES, "r%u", fuzz_below(fuzz.input, 4));
}

static struct kvr_secret secret_of(const char name[KVR_REQUEST_BYTES])
{
    return (struct kvr_secret){.bytes = {1, (uint8_t)name[1]}};
}

static void source_open(struct kvr_request *request)
{
    request_name(request->source_open.request);
    request->source_open.secret = secret_of(request->source_open.request);
    request->source_open.tokens = fuzz_about(fuzz.input, 12);
    request->source_open.consumers = (uint32_t)fuzz_about(fuzz.input, fuzz_below(fuzz.input, 3));
    request->source_open.lease_ms = (uint32_t)fuzz_about(fuzz.input, 500);
}

static uint32_t given_of(const struct kvr_page_tables *pages, uint32_t group)
{
    return pages != NULL && group < KVR_GROUPS_MAX ? pages->groups[group].count : 0;
}

static void source_pages(struct kvr_request *request, const struct publish *publish)
{
    static uint32_t ids[4];
    uint32_t given;

    request->pages.group = fuzz_below(fuzz.input, 8) == 7 ? fuzz_below(fuzz.input, 10) : 0;
    given = given_of(publish != NULL ? &publish->pages : NULL, request->pages.group);
    request->pages.page_first = (uint32_t)fuzz_about(fuzz.input, given);
    request->pages.id_count = fuzz_below(fuzz.input, 5);
    request->pages.ids = ids;
    for (uint32_t i = 0; i < request->pages.id_count; i++)
        ids[i] = (uint32_t)fuzz_about(fuzz.input, given + i);
}

static void engine_request(uint32_t index)
{
    static const uint8_t bytes[64];
    static const kvr_request_kind kinds[] = {
        KVR_REQ_SOURCE_OPEN, KVR_REQ_SOURCE_OPEN, KVR_REQ_SOURCE_PAGES, KVR_REQ_SOURCE_PAGES,
        KVR_REQ_WATCH,       KVR_REQ_WATCH,       KVR_REQ_SOURCE_TAIL,  KVR_REQ_SOURCE_END,
        KVR_REQ_CANCEL,      KVR_REQ_RENEW};
    struct kvr_request request = {.kind = kinds[fuzz_below(fuzz.input, 10)],
                                  .handle = fuzz_below(fuzz.input, 4)};
    const struct publish *publish = publish_find(&outbound, index, request.handle);
    uint64_t token_end = publish != NULL ? publish->content.token_end : 0;

    if (!fuzz.engines[index].up)
        return;
    if (request.kind == KVR_REQ_SOURCE_OPEN) {
        source_open(&request);
        fuzz.engines[index].opened++;
    } else if (request.kind == KVR_REQ_SOURCE_PAGES) {
        source_pages(&request, publish);
    } else if (request.kind == KVR_REQ_WATCH) {
        request.watch.word = (uint32_t)fuzz_about(fuzz.input, fuzz_below(fuzz.input, 3));
        request.watch.base = fuzz_about(fuzz.input, 0);
        request.watch.token_first = fuzz_about(fuzz.input, token_end);
        request.watch.token_end = fuzz_about(fuzz.input, token_end + 1 + fuzz_below(fuzz.input, 8));
    } else if (request.kind == KVR_REQ_SOURCE_TAIL) {
        request.tail.bytes = bytes;
        request.tail.byte_count = fuzz_below(fuzz.input, sizeof(bytes));
    } else if (request.kind == KVR_REQ_SOURCE_END) {
        request.end.status = fuzz_below(fuzz.input, 4) == 3 ? KVR_ABORTED : KVR_OK;
    } else if (request.kind == KVR_REQ_RENEW) {
        request.renew.lease_ms = (uint32_t)fuzz_about(fuzz.input, 100);
    }
    outbound_request(&outbound, fuzz.world.now, index, &request);
}

/* ---- peers ---- */

/* Each peer that comes gets answers. */
static void peer_up(uint32_t peer)
{
    fuzz.peers[peer].known = true;
    fuzz_peer_up(peer);
}

/* Of eight transfers one proves nothing, and one something else. */
static void want_prove(struct kvr_msg_want *want, uint64_t nonce)
{
    const struct kvr_rank source = {
        .engine = want->source_engine, .tp = want->source_tp, .pp = want->source_pp};
    struct kvr_secret secret = secret_of(want->request);
    struct kvr_proof_key key;

    secret.bytes[0] += nonce % 8 == 7;
    kvr_proof_key(&secret, want->request, want->attempt, &source, &key);
    if (nonce % 8 != 6)
        kvr_proof(&key, FUZZ_SESSION, nonce, &want->target, &want->proof);
}

static void peer_want(uint32_t peer)
{
    static struct kvr_page_run runs[8];
    uint64_t skips[2];
    uint32_t siblings[2];
    struct kvr_message message = {
        .kind = KVR_MSG_WANT,
        .transfer = fuzz_about(fuzz.input, peer * 8u + 1 + fuzz_below(fuzz.input, 6))};
    struct kvr_msg_want *want = &message.want;
    uint32_t engine = fuzz_below(fuzz.input, FUZZ_ENGINES);

    request_name(want->request);
    want->source_engine = fuzz_rank(engine, 1).engine;
    want->source_generation = fuzz_about(fuzz.input, fuzz.engines[engine].generation);
    want->target = fuzz_rank(8 + fuzz_below(fuzz.input, 2), 1);
    want->tokens = fuzz_about(fuzz.input, 12);
    want->skip_tokens = fuzz_about(fuzz.input, 4u * fuzz_below(fuzz.input, 4));
    want->deadline_ms = (uint32_t)fuzz_about(fuzz.input, 200);
    (void)fuzz_page_runs(fuzz.input, runs); /* a WANT had runs when the corpus was recorded */
    want->group_skips = skips;
    want->group_skip_count = fuzz_below(fuzz.input, 3);
    for (uint32_t i = 0; i < want->group_skip_count; i++)
        skips[i] = fuzz_about(fuzz.input, 4u * fuzz_below(fuzz.input, 4));
    want->siblings = siblings;
    want->sibling_count = fuzz_below(fuzz.input, 3);
    for (uint32_t i = 0; i < want->sibling_count; i++)
        siblings[i] = (uint32_t)fuzz_about(fuzz.input, i);
    want->target.tp_size = (uint32_t)fuzz_about(fuzz.input, 1);
    want->staged = fuzz_below(fuzz.input, 4) == 3;
    want->skips_follow = fuzz_below(fuzz.input, 4) == 3;
    want_prove(want, message.transfer);
    outbound_message(&outbound, fuzz.world.now, peer, &message);
}

static void peer_pages(struct kvr_message *message, const struct source_transfer *transfer)
{
    static struct kvr_page_run runs[8];

    uint32_t group = fuzz_below(fuzz.input, 32);

    message->pages.group = group < 24 ? 0 : group - 23;
    message->pages.page_first =
        (uint32_t)fuzz_about(fuzz.input, given_of(transfer != NULL ? &transfer->match.pages : NULL,
                                                  message->pages.group));
    message->pages.runs = runs;
    message->pages.run_count = fuzz_page_runs(fuzz.input, runs);
}

static void peer_skip(struct kvr_message *message)
{
    static uint64_t skips[2];

    message->skip.skip_tokens = fuzz_about(fuzz.input, 4u * fuzz_below(fuzz.input, 4));
    message->skip.group_skips = skips;
    message->skip.group_skip_count = fuzz_below(fuzz.input, 3);
    for (uint32_t i = 0; i < message->skip.group_skip_count; i++)
        skips[i] = fuzz_about(fuzz.input, 4u * fuzz_below(fuzz.input, 4));
}

static void peer_grant(struct kvr_message *message)
{
    static struct kvr_remote_key keys[KVR_RAILS_MAX];
    static uint16_t slots[KVR_TRANSFER_SLOTS_MAX];

    slots[0] = (uint16_t)fuzz_about(fuzz.input, 5);
    message->grant.slots = slots;
    message->grant.tag = slots[0]; /* 0 is none */
    message->grant.slot_count = fuzz_below(fuzz.input, 16) == 15 ? fuzz_below(fuzz.input, 65) : 1;
    message->grant.quota_bytes = fuzz_about(fuzz.input, fuzz_below(fuzz.input, 4) * UINT64_C(4096));
    message->grant.quota_offset = fuzz_about(fuzz.input, 0);
    message->grant.quota_keys = keys;
    message->grant.quota_key_count = (uint32_t)fuzz_about(fuzz.input, FUZZ_RAILS) % KVR_RAILS_MAX;
}

static void peer_epoch_ended(struct kvr_message *message)
{
    static uint32_t epoch;
    struct kvr_msg_epoch_ended *ended = &message->epoch_ended;

    message->transfer = 0;
    epoch = 1 + fuzz_below(fuzz.input, 8);
    ended->rail = (uint32_t)fuzz_about(fuzz.input, fuzz_below(fuzz.input, FUZZ_RAILS));
    ended->epoch = (uint32_t)fuzz_about(fuzz.input, epoch);
    ended->successor.rail = (uint32_t)fuzz_about(fuzz.input, ended->rail);
    ended->successor.epoch = (uint32_t)fuzz_about(fuzz.input, epoch + 1);
    if (fuzz_below(fuzz.input, 4) != 3)
        fuzz.world.fabric.ops->endpoint_address(fuzz.world.far_endpoints[ended->rail % FUZZ_RAILS],
                                                ended->successor.address, &ended->successor.bytes);
}

static const struct source_transfer *some_transfer(uint32_t peer)
{
    uint32_t skip = fuzz_below(fuzz.input, 8);

    for (uint32_t i = 0; i < outbound.transfers.reach; i++) {
        const struct source_transfer *transfer = kvr_pool_at(&outbound.transfers, i, NULL);

        if (transfer != NULL && transfer->peer == peer && skip-- == 0)
            return transfer;
    }
    return NULL;
}

static void peer_message(uint32_t peer)
{
    static const kvr_message_kind kinds[] = {
        KVR_MSG_PAGES,   KVR_MSG_PAGES,  KVR_MSG_GRANT,  KVR_MSG_GRANT,
        KVR_MSG_MISSING, KVR_MSG_LANDED, KVR_MSG_CANCEL, KVR_MSG_EPOCH_ENDED,
        KVR_MSG_UNKNOWN, KVR_MSG_ROOM,   KVR_MSG_SKIP,   KVR_MSG_SENDER_KNOWN};
    static struct kvr_chunk_run chunks[8];
    const struct source_transfer *transfer = some_transfer(peer);
    struct kvr_message message = {
        .kind =
            fuzz_below(fuzz.input, 32) == 31
                ? (kvr_message_kind)(KVR_MSG_REGIONS + 1 +
                                     fuzz_below(fuzz.input, KVR_MSG_KIND_END - KVR_MSG_REGIONS - 1))
                : kinds[fuzz_below(fuzz.input, sizeof(kinds) / sizeof(kinds[0]))],
        .transfer = fuzz_about(fuzz.input, transfer != NULL ? transfer->nonce : 1)};

    if (message.kind == KVR_MSG_PAGES) {
        peer_pages(&message, transfer);
    } else if (message.kind == KVR_MSG_GRANT) {
        peer_grant(&message);
    } else if (message.kind == KVR_MSG_SKIP) {
        peer_skip(&message);
    } else if (message.kind == KVR_MSG_ROOM) {
        message.room.round =
            (uint32_t)fuzz_about(fuzz.input, transfer != NULL ? transfer->settle.round + 1 : 1);
        message.room.position_end =
            fuzz_about(fuzz.input, transfer != NULL && transfer->grant.job != NULL
                                       ? transfer->grant.job->quota.room + 4096
                                       : 0);
    } else if (message.kind == KVR_MSG_MISSING) {
        message.missing.round =
            (uint32_t)fuzz_about(fuzz.input, transfer != NULL ? transfer->settle.round + 1 : 1);
        message.missing.runs = chunks;
        message.missing.run_count = fuzz_chunk_runs(fuzz.input, chunks);
    } else if (message.kind == KVR_MSG_EPOCH_ENDED) {
        peer_epoch_ended(&message);
    } else if (message.kind == KVR_MSG_SENDER_KNOWN) {
        message.transfer = 0;
        message.sender_known.rail =
            (uint32_t)fuzz_about(fuzz.input, fuzz_below(fuzz.input, FUZZ_RAILS));
        message.sender_known.epoch = (uint32_t)fuzz_about(fuzz.input, 1);
    } else if (message.kind == KVR_MSG_LANDED || message.kind == KVR_MSG_CANCEL) {
        message.reason.status = fuzz_below(fuzz.input, 2) ? KVR_OK : KVR_CANCELLED;
    }
    outbound_message(&outbound, fuzz.world.now, peer, &message);
}

/* ---- everything ---- */

static void act(uint8_t what, uint32_t engine, uint32_t peer)
{
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
        break;
    case 3:
    case 4:
    case 5:
        engine_request(engine);
        break;
    case 6:
        atomic_store(&fuzz.world.pages[engine].words[fuzz_below(fuzz.input, 3)],
                     fuzz_about(fuzz.input, 2));
        break;
    case 7:
        peer_up(peer);
        break;
    case 8:
        if (fuzz_below(fuzz.input, 8) == 7)
            fuzz_peer_lost(peer);
        break;
    case 9:
        if (fuzz_peer_speaks(peer))
            fuzz_peer_regions(peer);
        break;
    case 10:
        if (fuzz_peer_speaks(peer))
            peer_want(peer);
        break;
    case 11:
    case 12:
    case 13:
        if (fuzz_peer_speaks(peer))
            peer_message(peer);
        break;
    case 14:
        fuzz.peers[peer].full = fuzz_below(fuzz.input, 8) == 7;
        if (!fuzz.peers[peer].full && fuzz.peers[peer].up)
            outbound_peer_writable(&outbound, fuzz.world.now, peer);
        break;
    default:
        fuzz_run(fuzz_below(fuzz.input, 4) == 3 ? KVR_S / 8 : KVR_MS);
        outbound_tick(&outbound, fuzz.world.now);
        break;
    }
}

/* A good beginning, or its first steps: random bytes alone would seldom get there. */
static void begin(uint32_t steps)
{
    if (steps > 0) { /* an engine and a peer, both with regions */
        FUZZ_SCRIPT(fuzz_engine_up, "");
        FUZZ_SCRIPT(fuzz_engine_region, "");
        FUZZ_SCRIPT(peer_up, "");
        FUZZ_SCRIPT(fuzz_peer_regions, "");
    }
    if (steps > 1) { /* a publish with two announced pages */
        FUZZ_SCRIPT(engine_request, "");
        FUZZ_SCRIPT(engine_request, "\2\0\0\3");
        FUZZ_SCRIPT(engine_request, "\4\0\0\0\0\0\7");
    }
    if (steps > 2) { /* its target, with known pages; in the last step it lands in staging memory */
        if (steps == 7)
            FUZZ_SCRIPT(peer_want, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3");
        else
            FUZZ_SCRIPT(peer_want, "");
        FUZZ_SCRIPT(peer_message, "\0\0\0\0\0\0\1\0\2");
    }
    if (steps > 3) { /* the grant, after which it may write */
        if (steps == 7)
            FUZZ_SCRIPT(peer_message, "\0\0\2\0\0\0\1");
        else
            FUZZ_SCRIPT(peer_message, "\0\0\2");
        atomic_store(&fuzz.world.pages[0].words[0], steps > 4 ? 2 : 1);
        fuzz_run(KVR_MS);
    }
}

/* ---- the machine ---- */

static bool busy(void)
{
    return outbound.tombs > 0 || outbound.parked > 0 || push.open_count > 0;
}

static struct kvr_machine open_machine(void)
{
    struct outbound_options options = {
        .silence_ns = KVR_S,
        .quiet_ns = KVR_S / 5,
        .lease_default_ns = KVR_S,
        .rail_count = FUZZ_RAILS,
        .limits = {.pieces_local = 2, .pieces_remote = 2, .chunk_bytes_max = 4096},
    };
    static struct kvr_ports ports; /* the machine keeps a pointer */
    struct kvr_group_user user = push_user(&push);

    ports = fuzz_ports();
    memset(&push, 0, sizeof(push));
    fuzz_agent_open(&user);
    push.group = fuzz.world.group;
    if (outbound_init(&outbound, &options, &ports, &fuzz.world.buddy) != KVR_OK)
        abort();
    return outbound_machine(&outbound);
}

static const struct fuzz_ops ops = {
    .open = open_machine,
    .busy = busy,
    .beginnings = 8,
    .begin = begin,
    .act = act,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_agent_play(&ops, data, size);
}
