/* Malformed sessions of a source: a prefill-agent that the decode-agent dials, which knows the
 * protocol and lies about the transfers that it is asked for. */
#include <stdio.h>
#include <string.h>

#include "tests/support/garbage.h"
#include "tests/support/garbage_tls.h"
#include "tests/support/messages.h"
#include "wire/frame.h"

static struct messages_memory memory;
static uint8_t buffer[KVR_FRAME_BUFFER_BYTES];
static struct kvr_message_decoder *decoder;
static struct kvr_frame_parser parser;
static uint64_t sequence;

static bool say(struct garbage *garbage, struct kvr_message *message)
{
    static uint8_t frame[KVR_FRAME_HEADER_BYTES + KVR_FRAME_BYTES_MAX];
    size_t bytes;

    if (kvr_message_numbered(message->kind))
        message->sequence = ++sequence;
    if (kvr_message_encode(message, frame + KVR_FRAME_HEADER_BYTES, KVR_FRAME_BYTES_MAX, &bytes) !=
        KVR_OK)
        return true; /* what no program can send */
    kvr_frame_header((uint32_t)bytes, frame);
    return garbage_send(garbage, frame, bytes + KVR_FRAME_HEADER_BYTES);
}

/* The next message, within two seconds; it lies in the decoder until the one after it. */
static bool hear(struct garbage *garbage, struct kvr_message *ret_message)
{
    const uint8_t *frame;
    size_t bytes, room;

    for (int tries = 0; tries < 20; tries++) {
        if (kvr_frame_parser_next(&parser, &frame, &bytes) == KVR_OK)
            return kvr_message_decode(decoder, frame, bytes, ret_message, NULL) == KVR_OK;
        uint8_t *into = kvr_frame_parser_room(&parser, &room);

        kvr_frame_parser_filled(&parser, garbage_receive(garbage, into, room, 100));
    }
    return false;
}

/* ---- the honest beginning ---- */

static bool welcome(struct garbage *garbage)
{
    struct kvr_message message, answer = {.kind = KVR_MSG_WELCOME};

    if (decoder == NULL)
        decoder = kvr_message_decoder_open();
    kvr_frame_parser_init(&parser, buffer);
    sequence = 0;
    if (decoder == NULL || !hear(garbage, &message) || message.kind != KVR_MSG_HELLO)
        return false;
    answer.hello = message.hello;
    answer.hello.version_min = answer.hello.version_max = KVR_PROTOCOL_MAX;
    answer.hello.boot = kvr_rng_next(&garbage->rng) | 1;
    answer.hello.session = kvr_rng_next(&garbage->rng) | 1;
    answer.hello.rail_count = answer.hello.compat_count = 0;
    strcpy(answer.hello.agent, "garbage");
    strcpy(answer.hello.host, "nowhere");
    if (!say(garbage, &answer))
        return false;
    message = (struct kvr_message){.kind = KVR_MSG_RESUME, .seen = {answer.hello.session, 0}};
    return say(garbage, &message);
}

/* Our engine has the target's layouts: what it wants could be planned. */
static bool mirror(struct garbage *garbage, const struct kvr_message *theirs)
{
    struct kvr_message message = *theirs;

    message.regions.rank.engine = (struct kvr_uuid){.bytes = {1}};
    message.regions.rail_count = 0;
    return say(garbage, &message);
}

/* ---- lies ---- */

static void plan_lie(struct garbage *garbage, const struct kvr_msg_want *want,
                     struct kvr_message *message)
{
    static struct kvr_page_run run;
    struct kvr_msg_plan *plan = &message->plan;

    run = (struct kvr_page_run){(uint32_t)garbage_number(garbage, 0),
                                (uint32_t)garbage_number(garbage, 8)};
    *plan = (struct kvr_msg_plan){
        .segment = (uint32_t)garbage_number(garbage, 0),
        .token_first = garbage_number(garbage, 0),
        .token_end = garbage_number(garbage, want->tokens),
        .chunk_first = (uint32_t)garbage_number(garbage, 0),
        .chunk_count = (uint32_t)garbage_number(garbage, 6),
        .hash = kvr_rng_next(&garbage->rng),
        .source = {.engine = {.bytes = {1}},
                   .generation = want->source_generation,
                   .tp_size = 1,
                   .pp_size = 1},
        .limits = {.pieces_local = (uint32_t)garbage_number(garbage, 1),
                   .pieces_remote = (uint32_t)garbage_number(garbage, 1),
                   .chunk_bytes_max = garbage_number(garbage, 65536)},
        .group = (uint32_t)garbage_number(garbage, 0),
        .page_first = (uint32_t)garbage_number(garbage, 0),
        .runs = &run,
        .run_count = 1,
        .more = kvr_rng_percent(&garbage->rng, 10),
        .revocation_word = (uint32_t)garbage_number(garbage, 0),
        .none = kvr_rng_percent(&garbage->rng, 10),
    };
}

static bool lie(struct garbage *garbage, const struct kvr_msg_want *want, uint64_t transfer)
{
    static const kvr_message_kind kinds[] = {
        KVR_MSG_PLAN,    KVR_MSG_PLAN,        KVR_MSG_PLAN,         KVR_MSG_FINAL,
        KVR_MSG_TAIL,    KVR_MSG_QUIET,       KVR_MSG_QUIET,        KVR_MSG_RAIL_LOST,
        KVR_MSG_DIGEST,  KVR_MSG_EPOCH_ENDED, KVR_MSG_SENDER,       KVR_MSG_NO_RAIL,
        KVR_MSG_PROBE,   KVR_MSG_ALIVE,       KVR_MSG_GRANT,        KVR_MSG_WANT,
        KVR_MSG_LANDED,  KVR_MSG_PAGES,       KVR_MSG_SENDER_KNOWN, KVR_MSG_FAIL,
        KVR_MSG_UNKNOWN, KVR_MSG_CANCEL,      KVR_MSG_MISSING,      KVR_MSG_ROOM,
        KVR_MSG_REGIONS, KVR_MSG_SKIP};
    struct kvr_message message;

    messages_random(&garbage->rng,
                    kinds[kvr_rng_below(&garbage->rng, sizeof(kinds) / sizeof(kinds[0]))], 1,
                    &memory, &message);
    if (message.kind == KVR_MSG_PLAN)
        plan_lie(garbage, want, &message);
    message.transfer = garbage_number(garbage, transfer);
    return say(garbage, &message);
}

/* Answers the first WANT with lies, in any order. */
static void shape_lies(struct garbage *garbage)
{
    struct kvr_message message;
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 40);
    bool mirrored = false, wanted = false;

    if (!welcome(garbage))
        return;
    for (int heard = 0; heard < 20 && !wanted && hear(garbage, &message); heard++) {
        if (message.kind == KVR_MSG_REGIONS && !mirrored)
            mirrored = mirror(garbage, &message);
        wanted = message.kind == KVR_MSG_WANT;
    }
    for (uint64_t i = 0; wanted && i < count; i++)
        if (!lie(garbage, &message.want, message.transfer))
            return;
    garbage_pause(20);
}

static void shape_random(struct garbage *garbage)
{
    struct kvr_msg_want nothing = {.tokens = 64};
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 40);

    for (uint64_t i = 0; welcome(garbage) && i < count; i++)
        if (!lie(garbage, &nothing, 1 + kvr_rng_below(&garbage->rng, 4)))
            return;
}

/* Welcomes, and says no more. */
static void shape_mute(struct garbage *garbage)
{
    if (welcome(garbage))
        garbage_pause(500);
}

/* More session tickets than any client needs. */
static void shape_tickets(struct garbage *garbage)
{
    if (garbage->tls == NULL || !welcome(garbage))
        return;
    for (int i = 0; i < 200 && garbage_tls_ticket(garbage); i++)
        continue;
    garbage_pause(20);
}

/* Another agent's name than the certificate has. */
static void shape_name(struct garbage *garbage)
{
    struct kvr_message message = {.kind = KVR_MSG_WELCOME};

    message.hello = (struct kvr_msg_hello){.version_min = KVR_PROTOCOL_MAX,
                                           .version_max = KVR_PROTOCOL_MAX,
                                           .boot = 7,
                                           .session = 9,
                                           .agent = "prefill-0",
                                           .provider = "tcp",
                                           .host = "nowhere",
                                           .beat_ms = 1000,
                                           .limits = {1, 1, 65536, false}};
    sequence = 0;
    (void)say(garbage, &message);
    garbage_pause(20);
}

static const struct garbage_shape shapes[] = {
    {"lies", shape_lies},       {"lies", shape_lies},     {"lies", shape_lies},
    {"mute", shape_mute},       {"random", shape_random}, {"name", shape_name},
    {"tickets", shape_tickets},
};

const struct garbage_kind garbage_source = {"source", shapes, sizeof(shapes) / sizeof(shapes[0])};
