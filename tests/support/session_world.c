#include "tests/support/session_world.h"

#include <stdio.h>

#include "tests/support/check.h"
#include "tests/support/messages.h"
#include "wire/message.h"

struct session_world world;
static struct kvr_message_decoder *decoder;
static struct messages_memory memory;

/* ---- the sink ---- */

static struct end *end_of(void *self)
{
    return self;
}

static void sink_hello(void *self, struct kvr_msg_hello *ret_hello)
{
    *ret_hello = end_of(self)->hello;
}

static kvr_status sink_write(void *self, const uint8_t *frame, size_t bytes)
{
    struct end *end = self;

    assert_true(bytes <= KVR_FRAME_BYTES_MAX);
    if (!world.adopted && end == &world.ends[SOURCE])
        return KVR_OK;
    if (end->pipe_end - end->pipe_start + bytes + 4 > end->pipe_capacity &&
        end->pipe_end > end->pipe_start) {
        end->blocked = true;
        return KVR_AGAIN;
    }
    memmove(end->pipe, end->pipe + end->pipe_start, end->pipe_end - end->pipe_start);
    end->pipe_end -= end->pipe_start;
    end->pipe_start = 0;
    kvr_frame_header((uint32_t)bytes, end->pipe + end->pipe_end);
    memcpy(end->pipe + end->pipe_end + 4, frame, bytes);
    end->pipe_end += bytes + 4;
    return KVR_OK;
}

static void sink_begun(void *self, kvr_ns now, const struct kvr_msg_hello *peer)
{
    (void)now;
    end_of(self)->begun++;
    assert_true(peer->boot != 0);
}

static uint32_t counter_of(const struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_PAGES:
        return message->pages.page_first;
    case KVR_MSG_QUIET:
        return message->quiet.round;
    case KVR_MSG_ROOM:
        return message->room.round;
    default:
        return (uint32_t)atoi(message->reason.detail);
    }
}

static void sink_message(void *self, kvr_ns now, const struct kvr_message *message)
{
    struct end *end = self;
    uint32_t counter = counter_of(message), transfer = (uint32_t)message->transfer;

    (void)now;
    assert_true(transfer < TRANSFERS);
    assert_true(counter > end->last_of[transfer]); /* never passes its own transfer */
    end->last_of[transfer] = counter;
    if (message->kind == KVR_MSG_PAGES) {
        assert_true(counter > end->last_bulk);
        end->last_bulk = counter;
    }
    end->came++;
}

static void sink_writable(void *self, kvr_ns now)
{
    (void)now;
    end_of(self)->writable++;
}

static void sink_lost(void *self, kvr_ns now, kvr_status status, const char *detail)
{
    struct end *end = self;

    (void)now;
    if (world.seed != 0)
        fail_msg("seed %d: lost: %s", (int)world.seed, detail);
    end->lost++;
    end->lost_status = status;
    snprintf(end->lost_detail, sizeof(end->lost_detail), "%s", detail);
}

/* ---- the world ---- */

static struct kvr_session_options options_of(enum side side)
{
    return (struct kvr_session_options){
        .sink = {&world.ends[side], sink_hello, sink_write, sink_begun, sink_message, sink_writable,
                 sink_lost},
        .decoder = decoder,
        .beat_ms = BEAT_MS,
        .queue_bytes = KVR_SESSION_QUEUE_BYTES_MIN,
        .queue_count = KVR_SESSION_QUEUE_COUNT_MIN,
        .dials = side == TARGET,
    };
}

static void new_session(enum side side)
{
    struct kvr_session_options options = options_of(side);
    struct end *end = &world.ends[side];

    if (end->memory == NULL) {
        end->memory = malloc(kvr_session_bytes(&options));
        end->parser_memory = malloc(KVR_FRAME_BUFFER_BYTES);
        end->pipe = malloc(2 * PIPE_BYTES);
    }
    end->session = kvr_session_init(end->memory, &options, world.now);
}

void new_world(void)
{
    for (int i = 0; i < SIDES; i++) {
        struct end *end = &world.ends[i];

        *end = (struct end){.memory = end->memory,
                            .parser_memory = end->parser_memory,
                            .pipe = end->pipe,
                            .pipe_capacity = PIPE_BYTES};
        snprintf(end->hello.agent, sizeof(end->hello.agent), "agent %d", i);
        strcpy(end->hello.provider, "tcp");
        end->hello.boot = (uint64_t)i + 100;
        end->hello.limits = (struct kvr_write_limits){1, 1, KVR_CHUNK_BYTES_MIN, false};
    }
    world.now = 1000 * KVR_S;
    world.connected = world.adopted = false;
    world.silent[TARGET] = world.silent[SOURCE] = false;
    new_session(TARGET);
    new_session(SOURCE);
}

void connect_both(void)
{
    for (int i = 0; i < SIDES; i++) {
        struct end *end = &world.ends[i];

        end->pipe_start = end->pipe_end = 0;
        end->blocked = false;
        kvr_frame_parser_init(&end->parser, end->parser_memory);
    }
    world.connected = true;
    kvr_session_connected(world.ends[TARGET].session, world.now);
}

void cut(bool source_notices)
{
    world.connected = world.adopted = false;
    for (int i = 0; i < SIDES; i++) /* what was on its way is gone */
        world.ends[i].pipe_start = world.ends[i].pipe_end = 0;
    kvr_session_disconnected(world.ends[TARGET].session, world.now);
    if (source_notices)
        kvr_session_disconnected(world.ends[SOURCE].session, world.now);
}

/* What peer.c does with the first frame of a connection that was accepted. */
static bool take_hello(const uint8_t *frame, size_t bytes)
{
    struct kvr_session *session = world.ends[SOURCE].session;
    struct kvr_message message;
    struct kvr_error error;

    assert_int_equal(kvr_message_decode(decoder, frame, bytes, &message, &error), KVR_OK);
    if (message.kind != KVR_MSG_HELLO)
        return false;
    /* When WELCOME or what followed was lost, the target knows of no session yet. */
    if (kvr_session_confirmed(session))
        assert_true(message.hello.session == kvr_session_number(session));
    world.adopted = true;
    kvr_session_accepted(session, world.now, &message.hello, KVR_PROTOCOL_MAX, 4711);
    return true;
}

void deliver(enum side from, size_t most)
{
    struct end *writer = &world.ends[from], *reader = &world.ends[!from];
    const uint8_t *frame;
    size_t room, bytes;

    while (most > 0 && world.connected && writer->pipe_end > writer->pipe_start) {
        uint8_t *into = kvr_frame_parser_room(&reader->parser, &room);

        bytes = writer->pipe_end - writer->pipe_start;
        bytes = bytes < most ? bytes : most;
        bytes = bytes < room ? bytes : room;
        memcpy(into, writer->pipe + writer->pipe_start, bytes);
        writer->pipe_start += bytes;
        most -= bytes;
        kvr_frame_parser_filled(&reader->parser, bytes);
        while (kvr_frame_parser_next(&reader->parser, &frame, &bytes) == KVR_OK) {
            if (reader->lost || (from == TARGET && take_hello(frame, bytes)))
                continue;
            kvr_session_frame(reader->session, world.now, frame, bytes);
        }
        if (writer->blocked) {
            writer->blocked = false;
            kvr_session_writable(writer->session, world.now);
        }
    }
}

void settle(void)
{
    for (int i = 0; i < 1000; i++) { /* each round, until both pipes stay empty */
        bool empty = true;

        for (int side = 0; side < SIDES; side++)
            if (!world.silent[side])
                deliver((enum side)side, SIZE_MAX);
        for (int side = 0; side < SIDES; side++)
            empty &= world.silent[side] || world.ends[side].pipe_start == world.ends[side].pipe_end;
        if (empty)
            return;
    }
}

void pass(uint64_t ms)
{
    world.now += ms * KVR_MS;
    for (int side = 0; side < SIDES; side++)
        if (world.ends[side].lost == 0)
            kvr_session_tick(world.ends[side].session, world.now);
}

void meet(void)
{
    new_world();
    connect_both();
    settle();
    assert_int_equal(world.ends[TARGET].begun, 1);
    assert_int_equal(world.ends[SOURCE].begun, 1);
}

kvr_status send_kind(enum side side, kvr_message_kind kind, uint32_t transfer, uint32_t run_count)
{
    struct end *end = &world.ends[side];
    struct kvr_message message = {.kind = kind, .transfer = transfer};
    uint32_t counter = end->sent + 1;
    kvr_status status;

    if (kind == KVR_MSG_PAGES)
        message.pages = (struct kvr_msg_pages){0, counter, memory.page_runs, run_count, false};
    else if (kind == KVR_MSG_QUIET)
        message.quiet.round = counter;
    else if (kind == KVR_MSG_ROOM)
        message.room.round = counter;
    else if (kind == KVR_MSG_PLAN || kind == KVR_MSG_FINAL || kind == KVR_MSG_TAIL)
        ; /* empty ones: nobody counts them */
    else
        snprintf(message.reason.detail, sizeof(message.reason.detail), "%u", counter);
    status = kvr_session_send(end->session, world.now, &message);
    if (status == KVR_OK)
        end->sent++;
    return status;
}

int world_open(void **state)
{
    (void)state;
    decoder = kvr_message_decoder_open();
    for (uint32_t i = 0; i < KVR_RUNS_PER_MESSAGE; i++)
        memory.page_runs[i] = (struct kvr_page_run){i * 7919, i % 100};
    return decoder == NULL;
}

int world_close(void **state)
{
    (void)state;
    for (int i = 0; i < SIDES; i++) {
        free(world.ends[i].memory);
        free(world.ends[i].parser_memory);
        free(world.ends[i].pipe);
    }
    kvr_message_decoder_close(decoder);
    return 0;
}
