/* Goal: frames arrive whole and in order however the bytes are cut. A channel with a frame too
 * large, a silent peer or too full a queue is closed with a reason. Method: real loopback
 * connections on one loop; plain blocking sockets play the misbehaving ends. */
#include "tests/support/check.h"
#include "tests/support/loop.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/channel.h"
#include "wire/young.h"

#define YOUNG_MS   1000  /* for cases that wait for a silent peer's end */
#define PATIENT_MS 60000 /* for all others, on however busy a machine */

struct probe {
    uint32_t up, frames, closed, writable;
    uint64_t bytes;
    bool in_order, echo, more; /* more: send another frame when there is room again */
    kvr_status status;
    char detail[KVR_DETAIL_BYTES];
    struct kvr_channel *channel; /* the last one that came up */
};

static uv_loop_t loop;
static struct kvr_listener *listener;
static struct probe server, client;
static uint8_t big[KVR_FRAME_BYTES_MAX];

static void on_up(void *self, struct kvr_channel *channel)
{
    struct probe *probe = self;

    probe->up++;
    probe->channel = channel;
}

static void on_frame(void *self, struct kvr_channel *channel, const uint8_t *frame, size_t bytes)
{
    struct probe *probe = self;

    if (bytes >= 4)
        probe->in_order &= memcmp(frame, &probe->frames, 4) == 0;
    probe->frames++;
    probe->bytes += bytes;
    if (probe->echo)
        assert_int_equal(kvr_channel_send(channel, frame, bytes), KVR_OK);
}

static void on_writable(void *self, struct kvr_channel *channel)
{
    struct probe *probe = self;

    probe->writable++;
    if (probe->more)
        assert_int_equal(kvr_channel_send(channel, big, 10), KVR_OK);
}

static void on_closed(void *self, struct kvr_channel *channel, kvr_status status,
                      const char *detail)
{
    struct probe *probe = self;

    probe->closed++;
    probe->status = status;
    if (probe->channel == channel)
        probe->channel = NULL;
    snprintf(probe->detail, sizeof(probe->detail), "%s", detail);
}

static struct kvr_channel_options options_of(struct probe *probe, uint32_t young_ms)
{
    return (struct kvr_channel_options){
        .handler = {probe, on_up, on_frame, on_writable, on_closed, NULL},
        .user_timeout_ms = 3000,
        .young_ms = young_ms,
    };
}

#define RUN_UNTIL(condition) LOOP_UNTIL(&loop, condition)

static int begin_with(uint32_t young_ms)
{
    struct kvr_channel_options options = options_of(&server, young_ms);

    server = client = (struct probe){.in_order = true};
    uv_loop_init(&loop);
    return kvr_listener_open(&loop, "127.0.0.1:0", &options, &listener, NULL);
}

static int begin(void **state)
{
    (void)state;
    return begin_with(PATIENT_MS);
}

static int begin_impatient(void **state)
{
    (void)state;
    return begin_with(YOUNG_MS);
}

static int end(void **state)
{
    (void)state;
    kvr_listener_close(listener);
    if (server.channel != NULL)
        kvr_channel_close(server.channel);
    if (client.channel != NULL)
        kvr_channel_close(client.channel);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static struct kvr_channel *dial(void)
{
    struct kvr_channel_options options = options_of(&client, PATIENT_MS);
    struct kvr_channel *channel;
    char address[32];

    snprintf(address, sizeof(address), "127.0.0.1:%u", kvr_listener_port(listener));
    assert_int_equal(kvr_channel_dial(&loop, address, &options, &channel, NULL), KVR_OK);
    RUN_UNTIL(client.up == 1 && server.up == 1);
    return channel;
}

static int raw_socket(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(kvr_listener_port(listener)),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void raw_write(int fd, const void *bytes, size_t count)
{
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
}

static bool raw_at_end(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void channel_there_and_back(void **state)
{
    struct kvr_channel *channel = dial();
    uint64_t bytes = 0;

    (void)state;
    server.echo = true;
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t size = i % 50 == 7 ? KVR_FRAME_BYTES_MAX : i * 13 % 5000 + 4;

        memcpy(big, &i, 4);
        assert_int_equal(kvr_channel_send(channel, big, size), KVR_OK);
        bytes += size;
        RUN_UNTIL(client.frames + 40 > i && (i % 50 != 7 || client.frames == i + 1));
    }
    RUN_UNTIL(client.frames == 300);
    assert_true(server.in_order && client.in_order);
    assert_true(client.bytes == bytes && server.bytes == bytes);
    assert_int_equal(strncmp(kvr_channel_name(server.channel), "127.0.0.1:", 10), 0);
}

static void channel_one_byte_at_a_time(void **state)
{
    uint8_t bytes[] = {0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 2, 0, 0, 0};
    int fd = raw_socket();

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        raw_write(fd, &bytes[i], 1);
        loop_run_some(&loop);
    }
    RUN_UNTIL(server.frames == 3);
    assert_true(server.in_order);
    close(fd);
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.status, KVR_SYSTEM);
}

static void channel_closes_what_is_too_large(void **state)
{
    int fd = raw_socket();

    (void)state;
    raw_write(fd, "GET / HTTP/1.0\r\n\r\n", 18);
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.status, KVR_MALFORMED);
    assert_string_equal(server.detail, "a frame of 1195725856 bytes: at most 1048576 are allowed");
    RUN_UNTIL(raw_at_end(fd));
    close(fd);
}

static void channel_closes_who_says_nothing(void **state)
{
    int silent = raw_socket(), trusted = raw_socket();
    kvr_ns start = kvr_clock_now();

    (void)state;
    RUN_UNTIL(server.up == 2);
    kvr_channel_trust(server.channel);
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.status, KVR_TIMED_OUT);
    assert_true(kvr_clock_now() - start >= (YOUNG_MS - 10) * KVR_MS);
    for (int i = 0; i < 100; i++)
        loop_run_some(&loop);
    assert_int_equal(server.closed, 1);
    close(silent);
    close(trusted);
    RUN_UNTIL(server.closed == 2);
}

static void channel_bounds_the_young(void **state)
{
    int fds[KVR_YOUNG_SHARE + 4];

    (void)state;
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE + 4; i++) {
        fds[i] = raw_socket();
        loop_run_some(&loop);
    }
    RUN_UNTIL(server.up == KVR_YOUNG_SHARE + 4);
    assert_true(server.closed >= 4);
    RUN_UNTIL(raw_at_end(fds[0]));
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE + 4; i++)
        close(fds[i]);
    RUN_UNTIL(server.closed == KVR_YOUNG_SHARE + 4);
}

static void channel_pushes_back(void **state)
{
    struct kvr_channel *channel;
    uint32_t sent = 0;
    kvr_status status;

    (void)state;
    channel = dial();
    for (;; sent++) { /* the loop does not run, so the frames stay unread */
        memcpy(big, &sent, 4);
        status = kvr_channel_send(channel, big, 100000);
        if (status != KVR_OK)
            break;
        assert_true(sent < 1000);
    }
    assert_int_equal(status, KVR_AGAIN);
    RUN_UNTIL(client.writable == 1);
    assert_int_equal(kvr_channel_send(channel, big, 100000), KVR_OK);
    RUN_UNTIL(server.frames == sent + 1);
    assert_true(server.in_order);
}

/* Frames of one turn of the loop leave together when the turn ends, or when the channel is closed.
 */
static void channel_joins_the_frames_of_a_turn(void **state)
{
    int fd = raw_socket();

    (void)state;
    RUN_UNTIL(server.up == 1);
    for (uint32_t i = 0; i < 20; i++) {
        memcpy(big, &i, 4);
        assert_int_equal(kvr_channel_send(server.channel, big, 50 + i), KVR_OK);
    }
    assert_int_equal(recv(fd, big, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    loop_run_some(&loop);
    assert_int_equal(recv(fd, big, sizeof(big), MSG_DONTWAIT), 20 * (50 + 4) + 19 * 20 / 2);
    assert_int_equal(kvr_channel_send(server.channel, big, 50), KVR_OK);
    kvr_channel_close(server.channel);
    server.channel = NULL;
    assert_int_equal(recv(fd, big, sizeof(big), 0), 50 + 4);
    close(fd);
}

/* Small frames fill the queue as large ones do. */
static void channel_pushes_back_small_frames(void **state)
{
    struct kvr_channel *channel = dial();
    uint32_t sent = 0;

    (void)state;
    for (memcpy(big, &sent, 4); kvr_channel_send(channel, big, 3000) == KVR_OK;
         memcpy(big, &sent, 4))
        assert_true(++sent < 10000);
    RUN_UNTIL(client.writable == 1);
    RUN_UNTIL(server.frames == sent);
    assert_true(server.in_order);
}

/* Frames sent from the room callback leave in the same turn: a later turn may come only when a beat
 * is due. */
static void channel_lets_out_what_room_brings(void **state)
{
    const struct timeval patience = {.tv_sec = 2};
    int fd = raw_socket();
    ssize_t expected = 10 + 4, came = 0, bytes;

    (void)state;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    RUN_UNTIL(server.up == 1);
    kvr_channel_trust(server.channel);
    server.more = true;
    while (kvr_channel_send(server.channel, big, 3000) == KVR_OK)
        expected += 3000 + 4;
    uv_run(&loop, UV_RUN_NOWAIT);
    if (server.writable == 0)
        skip(); /* the socket takes less than a whole queue */
    while (came < expected && (bytes = recv(fd, big, sizeof(big), 0)) > 0)
        came += bytes;
    assert_int_equal(came, expected);
    close(fd);
}

/* Finishes while bytes are unread on our side. */
static void finish_with_frames_of(uint32_t small_bytes)
{
    struct kvr_channel *channel = dial();

    for (uint32_t i = 0; i < 10; i++) {
        memcpy(big, &i, 4);
        assert_int_equal(kvr_channel_send(channel, big, i % 2 == 0 ? small_bytes : 100000), KVR_OK);
        assert_int_equal(kvr_channel_send(server.channel, big, 100000), KVR_OK);
    }
    kvr_channel_finish(channel);
    client.channel = NULL;
    RUN_UNTIL(server.frames == 10 && server.closed == 1);
    assert_true(server.in_order);
    assert_int_equal(client.frames + client.closed, 0);
}

static void channel_finish_lets_the_last_words_out(void **state)
{
    (void)state;
    finish_with_frames_of(100000);
}

/* The deferred send of the turn is still to come when the frames have left already. */
static void channel_finishes_once(void **state)
{
    (void)state;
    finish_with_frames_of(40);
}

static void channel_says_why_it_cannot_connect(void **state)
{
    struct kvr_channel_options options = options_of(&client, PATIENT_MS);
    struct kvr_channel *channel;
    struct kvr_error error;
    char address[32];

    (void)state;
    snprintf(address, sizeof(address), "127.0.0.1:%u", kvr_listener_port(listener));
    kvr_listener_close(listener);
    loop_run_some(&loop);
    assert_int_equal(kvr_channel_dial(&loop, address, &options, &channel, &error), KVR_OK);
    RUN_UNTIL(client.closed == 1);
    assert_string_equal(client.detail, "cannot connect: connection refused");
    assert_int_equal(kvr_channel_dial(&loop, "no port", &options, &channel, &error), KVR_INVALID);
    options = options_of(&server, PATIENT_MS);
    assert_int_equal(kvr_listener_open(&loop, "127.0.0.1:0", &options, &listener, &error), KVR_OK);
}

static void channel_two_listeners_one_port(void **state)
{
    struct kvr_channel_options options = options_of(&server, PATIENT_MS);
    struct kvr_listener *second;
    struct kvr_error error;
    char address[32];

    (void)state;
    snprintf(address, sizeof(address), "127.0.0.1:%u", kvr_listener_port(listener));
    assert_int_equal(kvr_listener_open(&loop, address, &options, &second, &error), KVR_SYSTEM);
    assert_int_equal(error.os_errno, EADDRINUSE);
}

static void channel_by_name(void **state)
{
    struct kvr_channel_options options = options_of(&client, PATIENT_MS);
    struct kvr_channel *channel;
    char address[32];

    (void)state;
    snprintf(address, sizeof(address), "localhost:%u", kvr_listener_port(listener));
    for (options.attempt = 0; client.up == 0 && options.attempt < 4; options.attempt++) {
        uint32_t closed = client.closed;

        assert_int_equal(kvr_channel_dial(&loop, address, &options, &channel, NULL), KVR_OK);
        RUN_UNTIL(client.up == 1 || client.closed > closed);
    }
    assert_int_equal(client.up, 1);
    /* a channel is closed while its name is still being looked up */
    assert_int_equal(kvr_channel_dial(&loop, address, &options, &channel, NULL), KVR_OK);
    kvr_channel_close(channel);
}

static bool no_memory;

struct kvr_channel *__real_kvr_channel_new(uv_loop_t *with,
                                           const struct kvr_channel_options *options);
struct kvr_channel *__wrap_kvr_channel_new(uv_loop_t *with,
                                           const struct kvr_channel_options *options);

struct kvr_channel *__wrap_kvr_channel_new(uv_loop_t *with,
                                           const struct kvr_channel_options *options)
{
    return no_memory ? NULL : __real_kvr_channel_new(with, options);
}

/* A connection that finds no memory is turned away; a later one is served. */
static void channel_listens_on_after_want_of_memory(void **state)
{
    int turned_away[4];
    char byte;

    (void)state;
    no_memory = true;
    for (int i = 0; i < 4; i++)
        turned_away[i] = raw_socket();
    for (int i = 0; i < 4; i++) {
        RUN_UNTIL(recv(turned_away[i], &byte, 1, MSG_DONTWAIT) == 0);
        close(turned_away[i]);
    }
    no_memory = false;
    (void)dial();
}

#define channel_test(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        channel_test(channel_there_and_back),
        channel_test(channel_one_byte_at_a_time),
        channel_test(channel_closes_what_is_too_large),
        cmocka_unit_test_setup_teardown(channel_closes_who_says_nothing, begin_impatient, end),
        channel_test(channel_bounds_the_young),
        channel_test(channel_pushes_back),
        channel_test(channel_joins_the_frames_of_a_turn),
        channel_test(channel_pushes_back_small_frames),
        channel_test(channel_lets_out_what_room_brings),
        channel_test(channel_finish_lets_the_last_words_out),
        channel_test(channel_finishes_once),
        channel_test(channel_says_why_it_cannot_connect),
        channel_test(channel_two_listeners_one_port),
        channel_test(channel_by_name),
        channel_test(channel_listens_on_after_want_of_memory),
    };

    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
