/* Malformed sessions of the control channel: as a decode-agent that is broken or hostile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/garbage.h"
#include "tests/support/garbage_tls.h"
#include "tests/support/messages.h"
#include "wire/frame.h"

#define FRAME_BYTES (KVR_FRAME_HEADER_BYTES + KVR_FRAME_BYTES_MAX)
#define OPENING     16384

static uint8_t frame[FRAME_BYTES];
static struct messages_memory memory;
static uint64_t session; /* the last one; 0: it was not welcome */
static uint32_t beat_ms = 10;

static size_t encode(const struct kvr_message *message, uint8_t *to, size_t capacity)
{
    size_t bytes = 0;

    if (capacity <= KVR_FRAME_HEADER_BYTES ||
        kvr_message_encode(message, to + KVR_FRAME_HEADER_BYTES, capacity - KVR_FRAME_HEADER_BYTES,
                           &bytes) != KVR_OK)
        return 0;
    kvr_frame_header((uint32_t)bytes, to);
    return bytes + KVR_FRAME_HEADER_BYTES;
}

static bool say(struct garbage *garbage, const struct kvr_message *message)
{
    size_t bytes = encode(message, frame, sizeof(frame));

    return bytes > 0 && garbage_send(garbage, frame, bytes);
}

/* ---- good messages to begin with ---- */

static char agent_name[KVR_NAME_BYTES] = "garbage";

static struct kvr_message good_hello(struct garbage *garbage)
{
    static struct kvr_rail_address rails[2];
    struct kvr_message message = {.kind = KVR_MSG_HELLO};
    struct kvr_msg_hello *hello = &message.hello;

    *hello = (struct kvr_msg_hello){
        .version_min = KVR_PROTOCOL_MIN,
        .version_max = KVR_PROTOCOL_MAX,
        .boot = kvr_rng_next(&garbage->rng) | 1,
        .provider = "tcp",
        .host = "nowhere",
        .beat_ms = beat_ms,
        .limits = {.pieces_local = 1, .pieces_remote = 1, .chunk_bytes_max = 65536},
        .rails = rails,
        .rail_count = 2,
    };
    for (uint32_t i = 0; i < 2; i++) { /* addresses of the right size without a listener */
        rails[i] = (struct kvr_rail_address){.rail = i, .epoch = 1, .bytes = 16};
        memcpy(rails[i].address, (uint8_t[]){2, 0, 0, 9, 127, 0, 0, 1}, 8);
    }
    snprintf(hello->agent, sizeof(hello->agent), "%s", agent_name);
    return message;
}

static struct kvr_rank rank_of(uint8_t number)
{
    return (struct kvr_rank){
        .engine.bytes = {0xba, number}, .generation = 1, .tp_size = 1, .pp_size = 1};
}

static struct kvr_message good_regions(uint8_t number)
{
    static struct kvr_region_layout layout = {.layer_count = 1,
                                              .part_count = 1,
                                              .parts = {KVR_PART_KV},
                                              .head_count = 1,
                                              .page_tokens = 16,
                                              .page_count = 1u << 20,
                                              .bytes = 1ull << 34,
                                              .page_stride = 16 * 64,
                                              .token_stride = 64,
                                              .head_stride = 64,
                                              .head_bytes = 64};
    static struct kvr_remote_key keys[2];
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};

    message.regions = (struct kvr_msg_regions){.rank = rank_of(number),
                                               .compat = {.model = "m", .dtype = "d"},
                                               .layouts = &layout,
                                               .layout_count = 1,
                                               .keys = keys,
                                               .rail_count = 2};
    return message;
}

/* Of the session that greet() began last; now and then a wrong one, or none. */
static void prove(struct garbage *garbage, uint64_t transfer, struct kvr_msg_want *want)
{
    const struct kvr_rank source = {.engine = want->source_engine};
    struct kvr_proof_key key;

    kvr_proof_key(&garbage_secret, want->request, want->attempt, &source, &key);
    kvr_proof(&key, session, transfer, &want->target, &want->proof);
    if (kvr_rng_percent(&garbage->rng, 20))
        want->proof.bytes[kvr_rng_below(&garbage->rng, KVR_PROOF_BYTES)]++;
    if (kvr_rng_percent(&garbage->rng, 5))
        want->proof = (struct kvr_proof){{0}};
}

static struct kvr_message good_want(struct garbage *garbage, uint64_t transfer)
{
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = transfer};

    snprintf(message.want.request, sizeof(message.want.request), "garbage-%u",
             (unsigned)kvr_rng_below(&garbage->rng, 1000));
    message.want.source_engine.bytes[0] = 1;
    message.want.target = rank_of(0);
    message.want.tokens = 64;
    message.want.deadline_ms = 60000;
    prove(garbage, transfer, &message.want);
    return message;
}

/* What an honest agent's first bytes look like. */
static size_t opening(struct garbage *garbage, uint8_t bytes[OPENING])
{
    struct kvr_page_run run = {0, 4};
    struct kvr_message pages = {.kind = KVR_MSG_PAGES, .transfer = 1, .sequence = 3};
    struct kvr_message resume = {.kind = KVR_MSG_RESUME, .seen = {1, 0}};
    struct kvr_message hello = good_hello(garbage), regions = good_regions(0);
    struct kvr_message want = good_want(garbage, 1);
    size_t used = encode(&hello, bytes, OPENING);

    regions.sequence = 1;
    want.sequence = 2;
    pages.pages = (struct kvr_msg_pages){.runs = &run, .run_count = 1};
    used += encode(&resume, bytes + used, OPENING - used);
    used += encode(&regions, bytes + used, OPENING - used);
    used += encode(&want, bytes + used, OPENING - used);
    return used + encode(&pages, bytes + used, OPENING - used);
}

/* HELLO, WELCOME, RESUME; the number of the session, 0 when it was not welcome. */
static uint64_t greet(struct garbage *garbage)
{
    static uint8_t buffer[KVR_FRAME_BUFFER_BYTES];
    static struct kvr_message_decoder *decoder;
    struct kvr_message message = good_hello(garbage);
    struct kvr_frame_parser parser;
    struct kvr_error error;
    const uint8_t *at;
    size_t bytes, room;

    if (decoder == NULL)
        decoder = kvr_message_decoder_open();
    session = 0;
    kvr_frame_parser_init(&parser, buffer);
    if (decoder == NULL || !say(garbage, &message))
        return 0;
    /* Each try waits 0.1 s for WELCOME: together two seconds, and as long as the patience. */
    for (int tries = 0; session == 0 && tries < 20 + garbage->patience_ms / 100; tries++) {
        uint8_t *into = kvr_frame_parser_room(&parser, &room);

        kvr_frame_parser_filled(&parser, garbage_receive(garbage, into, room, 100));
        if (kvr_frame_parser_next(&parser, &at, &bytes) == KVR_OK &&
            kvr_message_decode(decoder, at, bytes, &message, &error) == KVR_OK)
            session = message.hello.session;
    }
    message = (struct kvr_message){.kind = KVR_MSG_RESUME, .seen = {session, 0}};
    return session != 0 && say(garbage, &message) ? session : 0;
}

/* ---- wrong bytes ---- */

static void shape_truncated(struct garbage *garbage)
{
    uint8_t bytes[OPENING];
    size_t count = opening(garbage, bytes);

    (void)garbage_send(garbage, bytes, 1 + (size_t)kvr_rng_below(&garbage->rng, count));
}

static void shape_mutated(struct garbage *garbage)
{
    uint8_t bytes[OPENING];
    size_t count = opening(garbage, bytes);

    garbage_mutate(garbage, bytes, count);
    (void)garbage_send(garbage, bytes, count);
}

static void shape_oversized(struct garbage *garbage)
{
    uint8_t header[KVR_FRAME_HEADER_BYTES];
    uint32_t length = kvr_rng_percent(&garbage->rng, 50) ? KVR_FRAME_BYTES_MAX + 1 : UINT32_MAX;

    if (kvr_rng_percent(&garbage->rng, 30)) { /* the largest allowed, of nothing */
        memset(frame, 0, sizeof(frame));
        length = KVR_FRAME_BYTES_MAX;
    }
    kvr_frame_header(length, header);
    if (garbage_send(garbage, header, sizeof(header)))
        (void)garbage_send(garbage, frame, KVR_FRAME_BYTES_MAX);
}

static void shape_slow(struct garbage *garbage)
{
    uint8_t bytes[OPENING];
    size_t count = opening(garbage, bytes);

    for (size_t i = 0; i < count && i < 200 && garbage_send(garbage, bytes + i, 1); i++)
        garbage_pause(1);
}

/* ---- wrong messages ---- */

static void shape_version(struct garbage *garbage)
{
    struct kvr_message message = good_hello(garbage);

    message.hello.version_min = (uint32_t)garbage_number(garbage, 2);
    message.hello.version_max = (uint32_t)garbage_number(garbage, 1);
    message.hello.beat_ms = (uint32_t)garbage_number(garbage, 1000);
    message.hello.session = garbage_number(garbage, 0);
    message.hello.boot = garbage_number(garbage, 7);
    (void)say(garbage, &message);
    garbage_pause(2);
}

static void shape_hello_random(struct garbage *garbage)
{
    struct kvr_message message;

    messages_random(&garbage->rng, KVR_MSG_HELLO, 30, &memory, &message);
    message.hello.version_min = message.hello.version_max = KVR_PROTOCOL_MAX;
    strcpy(message.hello.provider, "tcp");
    message.hello.compat_count = 0;
    message.hello.beat_ms = 10;
    message.hello.session = 0;
    if (say(garbage, &message))
        garbage_pause(5);
}

static void shape_hello_twice(struct garbage *garbage)
{
    struct kvr_message message = good_hello(garbage);

    if (greet(garbage) != 0 && say(garbage, &message))
        garbage_pause(2);
}

/* Any message at any place, with good numbers. */
static void shape_order(struct garbage *garbage)
{
    struct kvr_message message;
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 40), sequence = 0;
    bool greeted = kvr_rng_percent(&garbage->rng, 80) && greet(garbage) != 0;

    for (uint64_t i = 0; i < count; i++) {
        kvr_message_kind kind = (kvr_message_kind)kvr_rng_between(
            &garbage->rng, greeted ? KVR_MSG_REGIONS : 1, KVR_MSG_KIND_END - 1);

        messages_random(&garbage->rng, kind, 2, &memory, &message);
        if (kvr_message_numbered(kind))
            message.sequence = kvr_rng_percent(&garbage->rng, 2) ? 77 : ++sequence;
        if (kvr_rng_percent(&garbage->rng, 50))
            message.transfer = kvr_rng_below(&garbage->rng, 4);
        if (!say(garbage, &message))
            return;
    }
}

/* Well formed and senseless: a target that knows the protocol and lies. */
static void senseless(struct garbage *garbage, struct kvr_message *message)
{
    struct kvr_rail_address *successor = &message->epoch_ended.successor;

    messages_random(&garbage->rng, message->kind, 1, &memory, message);
    message->transfer = 1 + kvr_rng_below(&garbage->rng, 4);
    if (message->kind == KVR_MSG_WANT) {
        *message = good_want(garbage, garbage_number(garbage, message->transfer));
        message->want.tokens = garbage_number(garbage, 64);
        message->want.skip_tokens = garbage_number(garbage, 0);
        message->want.deadline_ms = (uint32_t)garbage_number(garbage, 60000);
        message->want.skips_follow = kvr_rng_percent(&garbage->rng, 30);
    } else if (message->kind == KVR_MSG_EPOCH_ENDED) {
        message->transfer = 0;
        message->epoch_ended.rail = (uint32_t)garbage_number(garbage, 0);
        message->epoch_ended.epoch = (uint32_t)garbage_number(garbage, 1);
        successor->rail = message->epoch_ended.rail;
        successor->epoch = (uint32_t)garbage_number(garbage, message->epoch_ended.epoch + 1);
    } else if (message->kind == KVR_MSG_SENDER_KNOWN) {
        message->transfer = 0;
        message->sender_known.rail = (uint32_t)garbage_number(garbage, 0);
        message->sender_known.epoch = (uint32_t)garbage_number(garbage, 1);
    } else if (message->kind == KVR_MSG_REGIONS) {
        *message = good_regions((uint8_t)kvr_rng_below(&garbage->rng, 4));
    }
}

static void shape_senseless(struct garbage *garbage)
{
    static const kvr_message_kind kinds[] = {
        KVR_MSG_WANT,   KVR_MSG_WANT,    KVR_MSG_PAGES,       KVR_MSG_GRANT,
        KVR_MSG_QUIET,  KVR_MSG_MISSING, KVR_MSG_EPOCH_ENDED, KVR_MSG_LANDED,
        KVR_MSG_CANCEL, KVR_MSG_ROOM,    KVR_MSG_SKIP,        KVR_MSG_SENDER_KNOWN};
    struct kvr_message message = good_regions(0);
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 60);

    if (greet(garbage) == 0)
        return;
    for (uint64_t sequence = 1; sequence <= count; sequence++) {
        message.sequence = sequence;
        if (!say(garbage, &message))
            return;
        message.kind = kinds[kvr_rng_below(&garbage->rng, sizeof(kinds) / sizeof(kinds[0]))];
        senseless(garbage, &message);
    }
}

/* More engine ranks than a peer can have, or more WANTs than a table holds. */
static void shape_flood(struct garbage *garbage)
{
    bool regions = kvr_rng_percent(&garbage->rng, 30);
    struct kvr_message message = good_regions(0);
    uint64_t count = regions ? 1200 : 3000;

    if (greet(garbage) == 0)
        return;
    for (uint64_t sequence = 1; sequence <= count; sequence++) {
        message.sequence = sequence;
        if (!say(garbage, &message))
            return;
        if (regions) {
            message = good_regions((uint8_t)sequence);
            message.regions.rank.tp = (uint32_t)sequence;
        } else {
            message = good_want(garbage, sequence);
        }
    }
}

/* As many WANTs of nothing as a target may have, to the farthest deadline, and the session stays.
 */
static void shape_crowd(struct garbage *garbage)
{
    struct kvr_message message = good_regions(0);
    uint64_t first = kvr_rng_next(&garbage->rng); /* no transfer of two sessions */

    beat_ms = 60000;
    garbage->patience_ms = 30000; /* a busy machine is no end */
    /* Of one name only the latest would stay. */
    if (garbage->name != NULL)
        snprintf(agent_name, sizeof(agent_name), "%s", garbage->name);
    else
        snprintf(agent_name, sizeof(agent_name), "crowd-%" PRIu64, kvr_rng_next(&garbage->rng));
    if (greet(garbage) == 0)
        return;
    for (uint64_t sequence = 1; sequence <= 3000; sequence++) {
        message.sequence = sequence;
        if (!say(garbage, &message))
            return;
        message = good_want(garbage, first + sequence);
        message.want.deadline_ms = UINT32_MAX;
    }
    garbage_pause(60000);
}

/* A session that begins, under a name of its own unless a certificate says it, and ends. */
static void shape_hello(struct garbage *garbage)
{
    struct kvr_message message = good_hello(garbage);

    if (garbage->name != NULL)
        snprintf(message.hello.agent, sizeof(message.hello.agent), "%s", garbage->name);
    else
        snprintf(message.hello.agent, sizeof(message.hello.agent), "stranger-%u",
                 (unsigned)kvr_rng_below(&garbage->rng, 1000000));
    (void)say(garbage, &message);
}

/* Every message is answered, and no answer is read. */
static void shape_deaf(struct garbage *garbage)
{
    struct kvr_message message = {.kind = KVR_MSG_LANDED};

    if (greet(garbage) == 0)
        return;
    garbage->reads = false;
    for (uint64_t sequence = 1; sequence < 20000; sequence++) {
        message.sequence = message.transfer = sequence;
        if (!say(garbage, &message))
            return;
    }
}

/* One that says it beats once a minute, and goes: its place is kept for three. */
static void shape_lingering(struct garbage *garbage)
{
    struct kvr_message message = good_hello(garbage);

    message.hello.beat_ms = 60000;
    if (say(garbage, &message))
        garbage_pause(2);
}

/* More changes of keys than any peer needs. */
static void shape_key_updates(struct garbage *garbage)
{
    if (garbage->tls == NULL || greet(garbage) == 0)
        return;
    for (int i = 0; i < 200 && garbage_tls_update(garbage); i++)
        continue;
    garbage_pause(20);
}

static const struct garbage_shape shapes[] = {
    {"key-updates", shape_key_updates},
    {"truncated", shape_truncated},
    {"mutated", shape_mutated},
    {"oversized", shape_oversized},
    {"slow", shape_slow},
    {"version", shape_version},
    {"hello-random", shape_hello_random},
    {"hello-twice", shape_hello_twice},
    {"order", shape_order},
    {"senseless", shape_senseless},
    {"senseless", shape_senseless},
    {"flood", shape_flood},
    {"deaf", shape_deaf},
    {"lingering", shape_lingering},
};

const struct garbage_kind garbage_control = {"control", shapes, sizeof(shapes) / sizeof(shapes[0])};

static const struct garbage_shape crowd_shapes[] = {{"crowd", shape_crowd}};
static const struct garbage_shape hello_shapes[] = {{"hello", shape_hello}};
const struct garbage_kind garbage_crowd = {"crowd", crowd_shapes, 1};
const struct garbage_kind garbage_hello = {"hello", hello_shapes, 1};
