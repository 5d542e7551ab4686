/* A peer that does anything: the input is a list of actions against one session. In every case
 * lost() comes at most once and nothing is delivered after it.
 *
 * An action is a byte: its low three bits are the action, the rest is an operand:
 *   0 a frame of the next (length byte) bytes   1 a good RESUME or BEAT   2 a good numbered message
 *   3 connection cut and made again             4 send something          5 time passes
 *   6 the write side is blocked or free         7 a good greeting */
#include <assert.h>
#include <stdlib.h>

#include "wire/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct kvr_session *session;
    kvr_ns now;
    bool dials, connected, blocked, lost;
    uint64_t peer_number; /* the number of the last good message that the fuzzer sent */
};

static struct world world;
static struct kvr_message_decoder *decoder;

static void on_hello(void *self, struct kvr_msg_hello *ret_hello)
{
    (void)self;
    ret_hello->boot = 1;
    ret_hello->limits = (struct kvr_write_limits){1, 1, KVR_CHUNK_BYTES_MIN, false};
    strcpy(ret_hello->provider, "tcp");
}

static kvr_status on_write(void *self, const uint8_t *frame, size_t bytes)
{
    (void)self;
    assert(bytes <= KVR_FRAME_BYTES_MAX && !world.lost && world.connected);
    (void)frame;
    return world.blocked ? KVR_AGAIN : KVR_OK;
}

static void on_begun(void *self, kvr_ns now, const struct kvr_msg_hello *peer)
{
    (void)self;
    (void)now;
    assert(!world.lost && peer->boot != 0);
}

static void on_message(void *self, kvr_ns now, const struct kvr_message *message)
{
    (void)self;
    (void)now;
    assert(!world.lost && kvr_message_numbered(message->kind));
}

static void on_writable(void *self, kvr_ns now)
{
    (void)self;
    (void)now;
    assert(!world.lost);
}

static void on_lost(void *self, kvr_ns now, kvr_status status, const char *detail)
{
    (void)self;
    (void)now;
    assert(!world.lost && status < 0 && detail != NULL);
    world.lost = true;
}

static void give(const struct kvr_message *message)
{
    uint8_t frame[1024];
    size_t bytes;

    if (kvr_message_encode(message, frame, sizeof(frame), &bytes) == KVR_OK && world.connected)
        kvr_session_frame(world.session, world.now, frame, bytes);
}

static void give_number(uint8_t operand)
{
    struct kvr_message message = {.kind = KVR_MSG_CANCEL, .transfer = operand};

    message.sequence = world.peer_number + (operand == 31 ? 2 : operand % 2);
    if (message.sequence == world.peer_number + 1)
        world.peer_number++;
    give(&message);
}

static void greet(uint8_t operand)
{
    struct kvr_message message = {.kind = KVR_MSG_WELCOME};

    message.hello = (struct kvr_msg_hello){.version_min = KVR_PROTOCOL_MIN,
                                           .version_max = KVR_PROTOCOL_MAX,
                                           .boot = operand == 31 ? 3 : 2,
                                           .session = operand == 30 ? 0 : 7,
                                           .beat_ms = 100,
                                           .limits = {1, 1, KVR_CHUNK_BYTES_MIN, false},
                                           .provider = "tcp"};
    if (world.dials)
        return give(&message);
    if (operand == 31 || operand == 30)
        return; /* peer.c would not have passed it to this session */
    world.connected = true;
    kvr_session_accepted(world.session, world.now, &message.hello, KVR_PROTOCOL_MAX, 7);
}

static void reconnect(void)
{
    kvr_session_disconnected(world.session, world.now);
    world.connected = world.dials;
    if (world.dials)
        kvr_session_connected(world.session, world.now);
}

static void send_one(uint8_t operand)
{
    struct kvr_message message = {.kind = operand % 2 ? KVR_MSG_QUIET : KVR_MSG_UNKNOWN,
                                  .transfer = operand / 4};
    kvr_status status = kvr_session_send(world.session, world.now, &message);

    assert(status == KVR_OK || status == KVR_AGAIN);
}

static size_t act(const uint8_t *data, size_t size)
{
    uint8_t operand = data[0] >> 3;
    struct kvr_message seen = {.kind = operand % 2 ? KVR_MSG_BEAT : KVR_MSG_RESUME,
                               .seen = {7, operand / 2}};
    size_t used = 1;

    switch (data[0] & 7) {
    case 0:
        used = size > 1 ? 2u + data[1] : 1;
        used = used < size ? used : size;
        if (used > 2 && world.connected)
            kvr_session_frame(world.session, world.now, data + 2, used - 2);
        break;
    case 1:
        give(&seen);
        break;
    case 2:
        give_number(operand);
        break;
    case 3:
        reconnect();
        break;
    case 4:
        send_one(operand);
        break;
    case 5:
        world.now += operand * 20 * KVR_MS;
        kvr_session_tick(world.session, world.now);
        break;
    case 6:
        world.blocked = operand % 2;
        if (!world.blocked)
            kvr_session_writable(world.session, world.now);
        break;
    default:
        greet(operand);
        break;
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void *memory;
    struct kvr_session_options options = {
        .sink = {&world, on_hello, on_write, on_begun, on_message, on_writable, on_lost},
        .beat_ms = 100,
        .queue_bytes = KVR_SESSION_QUEUE_BYTES_MIN,
        .queue_count = KVR_SESSION_QUEUE_COUNT_MIN,
        .dials = size > 0 && data[0] % 2 == 0,
    };

    if (decoder == NULL) {
        decoder = kvr_message_decoder_open();
        memory = malloc(kvr_session_bytes(&options));
    }
    options.decoder = decoder;
    world = (struct world){.now = KVR_S, .dials = options.dials};
    world.session = kvr_session_init(memory, &options, world.now);
    if (world.dials)
        reconnect();
    for (size_t at = size > 0; at < size && !world.lost;)
        at += act(data + at, size - at);
    return 0;
}
