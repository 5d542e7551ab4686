/* Goal: every message of a session is delivered exactly once and in order whatever the connection
 * does, and a session that ends says why, once.
 * Method: two sessions over two pipes of bytes in virtual time. A seed decides what is sent, how
 * the bytes are cut into reads, when a connection breaks (at any byte), who notices, how small the
 * pipes are. Then scripted cases, one for each way to end. */
#include "tests/support/check.h"
#include "tests/support/messages.h"

#include <stdio.h>

#include "wire/compat.h"
#include "wire/frame.h"
#include "wire/session.h"

#define BEAT_MS    1000
#define PIPE_BYTES (KVR_FRAME_BYTES_MAX + 8192)
#define TRANSFERS  6

enum side { TARGET, SOURCE, SIDES };

struct end {
    struct kvr_session *session;
    void *memory;
    struct kvr_msg_hello hello;
    struct kvr_frame_parser parser; /* of what arrives here */
    uint8_t *parser_memory;
    uint8_t *pipe; /* what this side wrote and nobody has read */
    size_t pipe_start, pipe_end, pipe_capacity;
    bool blocked;
    uint32_t begun, lost, writable;
    kvr_status lost_status;
    char lost_detail[KVR_DETAIL_BYTES];
    /* messages carry a counter: what was sent, and what came by class and transfer */
    uint32_t sent, came, last_bulk, last_of[TRANSFERS];
};

struct world {
    kvr_ns now;
    bool connected;
    bool adopted; /* the source writes to this connection, not to one that it believes to be up */
    bool silent[SIDES]; /* its bytes stay in the pipe */
    struct end ends[SIDES];
};

static struct world world;
static uint64_t playing; /* the seed, for whoever looks at a failure */
static struct kvr_message_decoder *decoder;
static struct messages_memory memory;

static struct end *end_of(void *self)
{
    return self;
}

/* ---- the sink ---- */

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
    if (playing != 0)
        fail_msg("seed %d: lost: %s", (int)playing, detail);
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

static void new_world(void)
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
    }
    world.now = 1000 * KVR_S;
    world.connected = world.adopted = false;
    world.silent[TARGET] = world.silent[SOURCE] = false;
    new_session(TARGET);
    new_session(SOURCE);
}

static void connect_both(void)
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

static void cut(bool source_notices)
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
    kvr_session_accepted(session, world.now, &message.hello, 1, 4711);
    return true;
}

/* At most `most` bytes that `from` wrote reach the other side. */
static void deliver(enum side from, size_t most)
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

static void settle(void)
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

static void pass(uint64_t ms)
{
    world.now += ms * KVR_MS;
    for (int side = 0; side < SIDES; side++)
        if (world.ends[side].lost == 0)
            kvr_session_tick(world.ends[side].session, world.now);
}

static void meet(void)
{
    new_world();
    connect_both();
    settle();
    assert_int_equal(world.ends[TARGET].begun, 1);
    assert_int_equal(world.ends[SOURCE].begun, 1);
}

static kvr_status send_kind(enum side side, kvr_message_kind kind, uint32_t transfer,
                            uint32_t run_count)
{
    struct end *end = &world.ends[side];
    struct kvr_message message = {.kind = kind, .transfer = transfer};
    uint32_t counter = end->sent + 1;
    kvr_status status;

    if (kind == KVR_MSG_PAGES)
        message.pages = (struct kvr_msg_pages){0, counter, memory.page_runs, run_count, false};
    else if (kind == KVR_MSG_QUIET)
        message.quiet.round = counter;
    else
        snprintf(message.reason.detail, sizeof(message.reason.detail), "%u", counter);
    status = kvr_session_send(end->session, world.now, &message);
    if (status == KVR_OK)
        end->sent++;
    return status;
}

/* ---- random worlds ---- */

static void send_something(struct kvr_rng *rng, bool heavy)
{
    static const kvr_message_kind kinds[] = {KVR_MSG_PAGES, KVR_MSG_PAGES, KVR_MSG_PAGES,
                                             KVR_MSG_CANCEL, KVR_MSG_QUIET};
    uint32_t runs = (uint32_t)kvr_rng_below(rng, heavy && kvr_rng_percent(rng, 20) ? 32768 : 40);
    enum side side = (enum side)kvr_rng_below(rng, 2);
    kvr_status status;

    if (world.ends[side].lost)
        return;
    status = send_kind(side, kinds[kvr_rng_below(rng, 5)], (uint32_t)kvr_rng_below(rng, TRANSFERS),
                       runs);
    assert_true(status == KVR_OK || status == KVR_AGAIN);
}

static void one_step(struct kvr_rng *rng, bool heavy)
{
    uint64_t what = kvr_rng_below(rng, 100);

    if (what < 40)
        send_something(rng, heavy);
    else if (what < 90 && world.connected)
        deliver((enum side)kvr_rng_below(rng, 2),
                kvr_rng_below(rng, kvr_rng_percent(rng, 50) ? 100 : 200000) + 1);
    else if (what < 93 && world.connected)
        cut(kvr_rng_percent(rng, 50));
    else if (!world.connected)
        connect_both();
    else
        pass(kvr_rng_below(rng, 20));
}

static void play(uint64_t seed)
{
    struct kvr_rng rng;
    bool heavy = seed % 5 == 0;

    kvr_rng_init(&rng, seed);
    new_world();
    for (int side = 0; side < SIDES; side++)
        world.ends[side].pipe_capacity =
            kvr_rng_percent(&rng, 50) ? PIPE_BYTES : 200 + kvr_rng_below(&rng, 5000);
    for (int i = 0; i < 400; i++) {
        one_step(&rng, heavy);
        if (i % 20 == 0)
            pass(1); /* nobody is silent for long: deliver something of both */
        if (i % 50 == 49 && world.connected)
            settle();
    }
    for (int i = 0; i < 20; i++) {
        if (!world.connected)
            connect_both();
        settle();
        pass(BEAT_MS / 2);
    }
    for (int side = 0; side < SIDES; side++) {
        if (world.ends[!side].came != world.ends[side].sent || world.ends[side].begun != 1)
            fail_msg("seed %d: %u sent, %u came", (int)seed, world.ends[side].sent,
                     world.ends[!side].came);
    }
}

static void session_delivers_once_and_in_order(void **state)
{
    uint64_t cases = check_cases(1000, 20000);
    const char *only = getenv("KVRAIL_SEED");

    (void)state;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        if (only != NULL)
            seed = strtoull(only, NULL, 10);
        playing = seed;
        play(seed);
        if (only != NULL)
            break;
    }
    playing = 0;
}

/* ---- scripted ---- */

static void session_sends_what_was_queued_before_it_began(void **state)
{
    (void)state;
    new_world();
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 2, 3), KVR_OK);
    connect_both();
    settle();
    assert_int_equal(world.ends[SOURCE].came, 2);
    assert_true(kvr_session_connected_now(world.ends[TARGET].session));
    assert_int_equal(kvr_session_number(world.ends[TARGET].session), 4711);
    assert_int_equal(kvr_session_peer_boot(world.ends[TARGET].session), 101);
}

/* CANCEL overtakes what other transfers have queued, not its own. */
static void session_urgent_passes_other_transfers(void **state)
{
    struct end *source;

    (void)state;
    new_world();
    source = &world.ends[SOURCE];
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 2, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 2, 3), KVR_OK);
    assert_int_equal(send_kind(TARGET, KVR_MSG_CANCEL, 1, 0), KVR_OK);
    connect_both();
    while (source->came < 2) /* byte by byte */
        for (int side = 0; side < SIDES; side++)
            deliver((enum side)side, 1);
    assert_int_equal(source->last_of[1], 4);
    assert_int_equal(source->last_of[2], 0);
    settle();
    assert_int_equal(source->came, 4);
}

static void session_full_queue_says_again_then_writable(void **state)
{
    uint32_t count = 0;

    (void)state;
    new_world();
    while (send_kind(TARGET, KVR_MSG_PAGES, 1, 10) == KVR_OK)
        count++;
    assert_int_equal(count, KVR_SESSION_QUEUE_COUNT_MIN - 16);
    assert_int_equal(send_kind(TARGET, KVR_MSG_CANCEL, 2, 0), KVR_OK); /* the reserve */
    connect_both();
    settle();
    pass(BEAT_MS);
    settle();
    assert_int_equal(world.ends[SOURCE].came, count + 1);
    assert_int_equal(world.ends[TARGET].writable, 1);
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 10), KVR_OK);
}

static void session_refuses_what_it_cannot_send(void **state)
{
    struct kvr_message beat = {.kind = KVR_MSG_BEAT};

    (void)state;
    meet();
    assert_int_equal(kvr_session_send(world.ends[TARGET].session, world.now, &beat), KVR_INVALID);
}

/* Much received is acknowledged without waiting for the beat. */
static void session_acknowledges_early(void **state)
{
    (void)state;
    meet();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 20000), KVR_OK);
        settle(); /* time stands still */
    }
    assert_int_equal(world.ends[SOURCE].came, 100);
}

static void session_silence_is_death(void **state)
{
    struct end *target;

    (void)state;
    meet();
    target = &world.ends[TARGET];
    world.silent[SOURCE] = true;
    for (int i = 0; i < 29; i++) {
        pass(100);
        settle();
    }
    assert_int_equal(target->lost, 0);
    pass(100);
    assert_int_equal(target->lost, 1);
    assert_int_equal(target->lost_status, KVR_PEER_LOST);
    assert_string_equal(target->lost_detail, "nothing was heard from it for 3000 ms");
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 1), KVR_PEER_LOST);
    settle(); /* and it told the other side */
    assert_int_equal(world.ends[SOURCE].lost, 1);
    assert_int_equal(world.ends[SOURCE].lost_status, KVR_PEER_LOST);
}

static void session_beats_keep_it_alive(void **state)
{
    (void)state;
    meet();
    for (int i = 0; i < 100; i++) {
        kvr_ns wake = kvr_session_wake(world.ends[TARGET].session);

        assert_true(wake <= world.now + BEAT_MS * KVR_MS);
        world.now = wake;
        pass(0);
        settle();
    }
    assert_int_equal(world.ends[TARGET].lost + world.ends[SOURCE].lost, 0);
    cut(true);
    pass(2900);
    assert_int_equal(world.ends[TARGET].lost + world.ends[SOURCE].lost, 0);
    connect_both();
    settle();
    pass(1000);
    settle();
    assert_int_equal(world.ends[TARGET].lost + world.ends[SOURCE].lost, 0);
    assert_int_equal(world.ends[TARGET].begun + world.ends[SOURCE].begun, 2);
}

static void session_never_answered_is_lost(void **state)
{
    (void)state;
    new_world();
    assert_int_equal(send_kind(TARGET, KVR_MSG_PAGES, 1, 1), KVR_OK);
    pass(2999);
    assert_int_equal(world.ends[TARGET].lost, 0);
    pass(1);
    assert_int_equal(world.ends[TARGET].lost, 1);
    assert_int_equal(world.ends[TARGET].lost_status, KVR_PEER_LOST);
}

static size_t frame_of(const struct kvr_message *message, uint8_t *buffer)
{
    size_t bytes;

    assert_int_equal(kvr_message_encode(message, buffer, 65536, &bytes), KVR_OK);
    return bytes;
}

static void give(enum side side, const struct kvr_message *message)
{
    uint8_t buffer[65536];
    size_t bytes = frame_of(message, buffer);

    kvr_session_frame(world.ends[side].session, world.now, buffer, bytes);
}

static void expect_lost(enum side side, kvr_status status, const char *words)
{
    assert_int_equal(world.ends[side].lost, 1);
    assert_int_equal(world.ends[side].lost_status, status);
    if (strstr(world.ends[side].lost_detail, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", world.ends[side].lost_detail, words);
}

static void session_restarted_peer(void **state)
{
    struct kvr_message welcome = {.kind = KVR_MSG_WELCOME};

    (void)state;
    meet();
    cut(true);
    kvr_session_connected(world.ends[TARGET].session, world.now);
    welcome.hello = world.ends[SOURCE].hello;
    welcome.hello.boot = 999;
    give(TARGET, &welcome);
    expect_lost(TARGET, KVR_PEER_RESTARTED, "another boot");
}

static void session_forgotten_by_the_peer(void **state)
{
    struct kvr_message welcome = {.kind = KVR_MSG_WELCOME};

    (void)state;
    meet();
    cut(true);
    kvr_session_connected(world.ends[TARGET].session, world.now);
    welcome.hello = world.ends[SOURCE].hello;
    give(TARGET, &welcome);
    expect_lost(TARGET, KVR_PEER_LOST, "given up");
}

static void session_refusals_reach_the_other_side(void **state)
{
    struct kvr_message refused = {.kind = KVR_MSG_REFUSED,
                                  .refused = {KVR_INCOMPATIBLE, "num kv heads: 8 and 4"}};

    (void)state;
    new_world();
    connect_both();
    give(TARGET, &refused);
    expect_lost(TARGET, KVR_INCOMPATIBLE, "num kv heads: 8 and 4");

    meet();
    kvr_session_end(world.ends[SOURCE].session, world.now, KVR_DRAINING, "the agent is stopping");
    expect_lost(SOURCE, KVR_DRAINING, "stopping");
    settle();
    expect_lost(TARGET, KVR_DRAINING, "the agent is stopping");
}

static void session_target_checks_the_welcome(void **state)
{
    (void)state;
    new_world();
    strcpy(world.ends[SOURCE].hello.provider, "shm");
    connect_both();
    settle();
    expect_lost(TARGET, KVR_INCOMPATIBLE,
                "provider: the source has \"shm\", the target has \"tcp\"");
    expect_lost(SOURCE, KVR_INCOMPATIBLE, "provider");
}

static void session_breaks_off_at_nonsense(void **state)
{
    struct kvr_message cancel = {.kind = KVR_MSG_CANCEL, .sequence = 1};
    struct kvr_message seen = {.kind = KVR_MSG_BEAT, .seen = {4711, 0}};
    struct kvr_message hello = {.kind = KVR_MSG_HELLO};

    (void)state;
    meet();
    cancel.sequence = 2;
    give(SOURCE, &cancel);
    expect_lost(SOURCE, KVR_MALFORMED, "message 2 followed message 0");
    settle();
    expect_lost(TARGET, KVR_MALFORMED, "message 2 followed message 0");

    meet();
    seen.seen.seen = 1;
    give(SOURCE, &seen);
    expect_lost(SOURCE, KVR_MALFORMED, "never sent");

    meet();
    seen.seen = (struct kvr_msg_seen){4712, 0};
    give(SOURCE, &seen);
    expect_lost(SOURCE, KVR_MALFORMED, "BEAT");

    meet();
    give(SOURCE, &hello);
    expect_lost(SOURCE, KVR_MALFORMED, "HELLO");

    meet();
    kvr_session_frame(world.ends[SOURCE].session, world.now, (const uint8_t *)"garbage", 7);
    expect_lost(SOURCE, KVR_MALFORMED, "no message");
}

static void session_duplicates_are_dropped(void **state)
{
    struct kvr_message cancel = {
        .kind = KVR_MSG_CANCEL, .sequence = 1, .transfer = 1, .reason = {KVR_OK, "1"}};

    (void)state;
    meet();
    give(SOURCE, &cancel);
    give(SOURCE, &cancel);
    assert_int_equal(world.ends[SOURCE].came, 1);
    assert_int_equal(world.ends[SOURCE].lost, 0);
}

/* ---- compat ---- */

static struct kvr_compat llama(void)
{
    return (struct kvr_compat){"llama-3.1-8b", "bfloat16", 32, 8, 128};
}

static void compat_names_the_field_and_both_values(void **state)
{
    struct kvr_compat source = llama(), target = llama(), list[2] = {llama(), llama()};
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_compat_check(&source, &target, &error), KVR_OK);
    target.kv_heads_total = 4;
    assert_int_equal(kvr_compat_check(&source, &target, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, "num kv heads: the source has 8, the target has 4");
    strcpy(list[0].model, "qwen3");
    assert_int_equal(kvr_compat_check_any(list, 2, &target, 1, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, "num kv heads: the source has 8, the target has 4");
    assert_int_equal(kvr_compat_check_any(list, 2, &source, 1, &error), KVR_OK);
    assert_int_equal(kvr_compat_check_any(list, 0, &source, 1, &error), KVR_OK);
    strcpy(target.dtype, "float8_e4m3");
    assert_int_equal(kvr_compat_check(&source, &target, NULL), KVR_INCOMPATIBLE);
}

static void compat_versions(void **state)
{
    struct kvr_msg_hello source = {1, 3, .boot = 1, .beat_ms = 1000};
    struct kvr_msg_hello target = {2, 5, .boot = 2, .beat_ms = 1000};
    struct kvr_error error;
    uint32_t version = 0;

    (void)state;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_OK);
    assert_int_equal(version, 3);
    target.version_min = 4;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_VERSION);
    assert_string_equal(error.detail, "protocol version: the source speaks 1 to 3, the target "
                                      "speaks 4 to 5");
    target.version_min = 1;
    target.beat_ms = 0;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_INVALID);
    target.beat_ms = 1000;
    target.boot = 0;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_INVALID);
}

/* ---- frames ---- */

static void frame_of_any_length_is_cut_out(void **state)
{
    uint8_t *buffer = malloc(KVR_FRAME_BUFFER_BYTES), header[4];
    struct kvr_frame_parser parser;
    const uint8_t *frame;
    size_t room, bytes;

    (void)state;
    kvr_frame_parser_init(&parser, buffer);
    kvr_frame_header(KVR_FRAME_BYTES_MAX, header);
    for (size_t i = 0; i < KVR_FRAME_BYTES_MAX + 4; i++) {
        assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_AGAIN);
        *kvr_frame_parser_room(&parser, &room) = i < 4 ? header[i] : 7;
        kvr_frame_parser_filled(&parser, 1);
    }
    assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_OK);
    assert_int_equal(bytes, KVR_FRAME_BYTES_MAX);
    assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_AGAIN);

    kvr_frame_header(KVR_FRAME_BYTES_MAX + 1, kvr_frame_parser_room(&parser, &room));
    kvr_frame_parser_filled(&parser, 4);
    assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_MALFORMED);
    assert_int_equal(bytes, KVR_FRAME_BYTES_MAX + 1);
    free(buffer);
}

static int open_all(void **state)
{
    (void)state;
    decoder = kvr_message_decoder_open();
    for (uint32_t i = 0; i < KVR_RUNS_PER_MESSAGE; i++)
        memory.page_runs[i] = (struct kvr_page_run){i * 7919, i % 100};
    return decoder == NULL;
}

static int close_all(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_delivers_once_and_in_order),
        cmocka_unit_test(session_sends_what_was_queued_before_it_began),
        cmocka_unit_test(session_urgent_passes_other_transfers),
        cmocka_unit_test(session_full_queue_says_again_then_writable),
        cmocka_unit_test(session_refuses_what_it_cannot_send),
        cmocka_unit_test(session_acknowledges_early),
        cmocka_unit_test(session_silence_is_death),
        cmocka_unit_test(session_beats_keep_it_alive),
        cmocka_unit_test(session_never_answered_is_lost),
        cmocka_unit_test(session_restarted_peer),
        cmocka_unit_test(session_forgotten_by_the_peer),
        cmocka_unit_test(session_refusals_reach_the_other_side),
        cmocka_unit_test(session_target_checks_the_welcome),
        cmocka_unit_test(session_breaks_off_at_nonsense),
        cmocka_unit_test(session_duplicates_are_dropped),
        cmocka_unit_test(compat_names_the_field_and_both_values),
        cmocka_unit_test(compat_versions),
        cmocka_unit_test(frame_of_any_length_is_cut_out),
    };

    return cmocka_run_group_tests_name("session", tests, open_all, close_all);
}
