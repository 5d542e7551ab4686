/* Goal: a channel with TLS keeps what a plain one promises: whole frames in order, KVR_AGAIN after
 * as many frames. A side without TLS gets a sentence. Hosts that begin many handshakes keep no
 * other host away. Method: both ends on one loop over loopback, with certificates of a small CA;
 * the costs are printed. */
#include "tests/support/folder.h"
#include "tests/support/loop.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/certificates.h"
#include "wire/channel.h"
#include "wire/message.h"
#include "wire/young.h"

#define ROUND_TRIPS 4000
#define HANDSHAKES  100

struct end {
    struct kvr_credentials *credentials;
    struct kvr_channel *channel;
    uint32_t up, frames, closed, writable, admitted;
    bool in_order, echo;
    kvr_status status;
    kvr_tls_refusal refusal;
    char detail[KVR_DETAIL_BYTES];
};

static uv_loop_t loop;
static struct kvr_listener *listener;
static struct end server, client;
static char folder[FOLDER_BYTES];
static uint8_t big[KVR_FRAME_BYTES_MAX];

static void on_up(void *self, struct kvr_channel *channel)
{
    struct end *end = self;

    end->up++;
    end->channel = channel;
}

static void on_frame(void *self, struct kvr_channel *channel, const uint8_t *frame, size_t bytes)
{
    struct end *end = self;

    end->in_order &= memcmp(frame, &end->frames, 4) == 0;
    end->frames++;
    if (end->echo)
        assert_int_equal(kvr_channel_send(channel, frame, bytes), KVR_OK);
}

static void on_writable(void *self, struct kvr_channel *channel)
{
    (void)channel;
    ((struct end *)self)->writable++;
}

static void on_closed(void *self, struct kvr_channel *channel, kvr_status status,
                      const char *detail)
{
    struct end *end = self;

    end->closed++;
    end->status = status;
    end->refusal = kvr_channel_refusal(channel);
    if (end->channel == channel)
        end->channel = NULL;
    snprintf(end->detail, sizeof(end->detail), "%s", detail);
}

static bool on_admit(void *self, const char *name, uint64_t host)
{
    (void)name;
    (void)host;
    ((struct end *)self)->admitted++;
    return true;
}

#define RUN_UNTIL(condition) LOOP_UNTIL(&loop, condition)

static struct kvr_channel_options options_of(struct end *end, uint32_t roles)
{
    return (struct kvr_channel_options){
        .handler = {end, on_up, on_frame, on_writable, on_closed, NULL},
        .young_ms = 60000,
        .credentials = end->credentials,
        .roles = roles,
    };
}

static void begin(bool server_secure, bool client_secure)
{
    struct kvr_tls_config source = certificates_config(folder, "p", "ca", NULL);
    struct kvr_tls_config target = certificates_config(folder, "d", "ca", NULL);
    struct kvr_channel_options options;

    server = client = (struct end){.in_order = true};
    if (server_secure)
        assert_int_equal(kvr_credentials_open(&source, &server.credentials, NULL), KVR_OK);
    if (client_secure)
        assert_int_equal(kvr_credentials_open(&target, &client.credentials, NULL), KVR_OK);
    uv_loop_init(&loop);
    options = options_of(&server, 1u << KVR_IDENTITY_DECODE);
    options.handler.admit = on_admit;
    assert_int_equal(kvr_listener_open(&loop, "127.0.0.1:0", &options, &listener, NULL), KVR_OK);
}

static void finish(void)
{
    kvr_listener_close(listener);
    if (server.channel != NULL)
        kvr_channel_close(server.channel);
    if (client.channel != NULL)
        kvr_channel_close(client.channel);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    kvr_credentials_close(server.credentials);
    kvr_credentials_close(client.credentials);
}

static struct kvr_channel *dial(void)
{
    struct kvr_channel_options options = options_of(&client, 1u << KVR_IDENTITY_PREFILL);
    struct kvr_channel *channel;
    char address[32];

    snprintf(address, sizeof(address), "127.0.0.1:%u", kvr_listener_port(listener));
    assert_int_equal(kvr_channel_dial(&loop, address, &options, &channel, NULL), KVR_OK);
    return channel;
}

static void both_up(uint32_t times)
{
    (void)dial();
    RUN_UNTIL(client.up == times && server.up == times);
}

static void frames_arrive_whole(void **state)
{
    (void)state;
    begin(true, true);
    both_up(1);
    assert_string_equal(kvr_channel_peer(server.channel)->name, "d");
    assert_string_equal(kvr_channel_peer(client.channel)->name, "p");
    server.echo = true;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t size = i % 50 == 7 ? KVR_FRAME_BYTES_MAX : i * 13 % 5000 + 4;

        memcpy(big, &i, 4);
        assert_int_equal(kvr_channel_send(client.channel, big, size), KVR_OK);
        RUN_UNTIL(client.frames + 40 > i && (i % 50 != 7 || client.frames == i + 1));
    }
    RUN_UNTIL(client.frames == 200);
    assert_true(server.in_order && client.in_order);
    finish();
}

/* The queue takes as many frames as its size says, to the byte. */
static void again_is_exact(void **state)
{
    uint32_t most = KVR_CHANNEL_QUEUE_BYTES / (100000 + KVR_FRAME_HEADER_BYTES), sent = 0;

    (void)state;
    begin(true, true);
    both_up(1);
    for (memcpy(big, &sent, 4); kvr_channel_send(client.channel, big, 100000) == KVR_OK;
         memcpy(big, &sent, 4))
        assert_true(++sent <= most);
    assert_int_equal(sent, most);
    RUN_UNTIL(client.writable == 1);
    assert_int_equal(kvr_channel_send(client.channel, big, 100000), KVR_OK);
    RUN_UNTIL(server.frames == sent + 1);
    assert_true(server.in_order);
    finish();
}

static void queue_reaches_the_other_side_before_the_end(void **state)
{
    (void)state;
    begin(true, true);
    both_up(1);
    for (uint32_t i = 0; i < 8; i++) {
        memcpy(big, &i, 4);
        assert_int_equal(kvr_channel_send(client.channel, big, 100000), KVR_OK);
    }
    kvr_channel_finish(client.channel);
    client.channel = NULL;
    RUN_UNTIL(server.closed == 1);
    assert_int_equal(server.frames, 8);
    assert_int_equal(server.status, KVR_SYSTEM);
    finish();
}

/* An older agent says HELLO without TLS: it gets a frame that it can read. */
static void plain_hello_gets_a_sentence(void **state)
{
    struct kvr_message_decoder *decoder = kvr_message_decoder_open();
    struct kvr_message message;
    const uint8_t hello[] = {0, 0, 0, 4, 1, 2, 3, 4};
    uint8_t answer[1024];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ssize_t got = -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    begin(true, true);
    to.sin_port = htons(kvr_listener_port(listener));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, hello, sizeof(hello)), sizeof(hello));
    RUN_UNTIL((got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT | MSG_PEEK)) > 0);
    assert_int_equal(kvr_message_decode(decoder, answer + KVR_FRAME_HEADER_BYTES,
                                        (size_t)got - KVR_FRAME_HEADER_BYTES, &message, NULL),
                     KVR_OK);
    assert_int_equal(message.kind, KVR_MSG_REFUSED);
    assert_non_null(strstr(message.reason.detail, "--tls-certificate"));
    assert_int_equal(server.closed, 1);
    assert_int_equal(server.refusal, KVR_TLS_PLAIN);
    assert_int_equal(server.up, 0);
    close(fd);
    kvr_message_decoder_close(decoder);
    finish();
}

static void plain_listener_is_named(void **state)
{
    (void)state;
    begin(false, true);
    (void)dial();
    RUN_UNTIL(client.closed == 1 && server.closed == 1);
    assert_int_equal(client.status, KVR_REFUSED);
    assert_non_null(strstr(client.detail, "--insecure"));
    assert_non_null(strstr(client.detail, "together"));
    assert_int_equal(client.up, 0);
    assert_int_equal(server.status, KVR_MALFORMED);
    assert_non_null(strstr(server.detail, "speaks TLS"));
    finish();
}

/* ---- many that say nothing ---- */

/* A connection from 127.0.0.`host` that begins a handshake and says no more. */
static int half_open(uint8_t host)
{
    static const uint8_t begins[] = {0x16, 3, 1, 2, 0, 1};
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK - 1 + host)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(kvr_listener_port(listener))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, begins, sizeof(begins)), sizeof(begins));
    return fd;
}

/* 2,000 from one host; meanwhile another host dials again and again. */
static void half_open_ones_keep_nobody_away(void **state)
{
    int fds[100];
    uint32_t ups = 0;

    (void)state;
    memset(fds, -1, sizeof(fds)); /* none */
    begin(true, true);
    for (uint32_t i = 0; i < 2000; i++) {
        kvr_ns start = loop_ran_ns;

        close(fds[i % 100]);
        fds[i % 100] = half_open(2);
        if (i % 100 != 20)
            continue;
        (void)dial();
        for (uint32_t k = 0; k < 70; k++) { /* all of them come after it, in one turn */
            close(fds[++i % 100]);
            fds[i % 100] = half_open(2);
        }
        ups++;
        RUN_UNTIL(client.up == ups && server.up == ups);
        assert_true(loop_ran_ns - start < KVR_S);
        kvr_channel_close(client.channel);
        client.channel = NULL;
    }
    assert_true(ups >= 10);
    assert_true(kvr_listener_counts(listener).crowded > 1000);
    for (uint32_t i = 0; i < 100; i++)
        close(fds[i]);
    finish();
}

/* libuv alone would accept all of them in one turn, and more while they come. */
static void one_that_dials_fast_has_no_turn_for_itself(void **state)
{
    int fds[200];
    uint32_t most = 0;

    (void)state;
    begin(true, true);
    for (uint32_t i = 0; i < 200; i++)
        fds[i] = half_open(2);
    for (kvr_ns start = kvr_clock_now();
         server.admitted < 200 && kvr_clock_now() - start < 20 * KVR_S;) {
        uint32_t before = server.admitted;

        uv_run(&loop, UV_RUN_NOWAIT);
        most = server.admitted - before > most ? server.admitted - before : most;
    }
    assert_int_equal(server.admitted, 200);
    assert_in_range(most, 2, 32);
    for (uint32_t i = 0; i < 200; i++)
        close(fds[i]);
    finish();
}

/* Many at once: each turn of the loop takes a few steps alone, and all come up in the end. */
static void handshakes_take_turns(void **state)
{
    struct kvr_channel *channels[KVR_YOUNG_SHARE];
    uint32_t before = 0, most = 0;

    (void)state;
    begin(true, true);
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        channels[i] = dial();
    for (kvr_ns start = kvr_clock_now();
         server.up < KVR_YOUNG_SHARE && kvr_clock_now() - start < 20 * KVR_S; before = server.up) {
        uv_run(&loop, UV_RUN_NOWAIT);
        most = server.up - before > most ? server.up - before : most;
    }
    assert_int_equal(server.up, KVR_YOUNG_SHARE);
    assert_in_range(most, 1, KVR_YOUNG_STEPS);
    assert_true(kvr_listener_counts(listener).waited > 0);
    for (uint32_t i = 0; i < KVR_YOUNG_SHARE; i++)
        kvr_channel_close(channels[i]);
    client.channel = server.channel = NULL; /* the listener closes its own, which are young */
    finish();
}

/* ---- costs ---- */

static int by_time(const void *a, const void *b)
{
    kvr_ns left = *(const kvr_ns *)a, right = *(const kvr_ns *)b;

    return left < right ? -1 : left > right;
}

static double round_trip_us(bool secure)
{
    static kvr_ns times[ROUND_TRIPS];

    begin(secure, secure);
    both_up(1);
    server.echo = true;
    for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
        kvr_ns start = kvr_clock_now();

        memcpy(big, &i, 4);
        assert_int_equal(kvr_channel_send(client.channel, big, 200), KVR_OK);
        while (client.frames == i)
            uv_run(&loop, UV_RUN_NOWAIT);
        times[i] = kvr_clock_now() - start;
    }
    finish();
    qsort(times, ROUND_TRIPS, sizeof(times[0]), by_time);
    return (double)times[ROUND_TRIPS / 2] / 1e3;
}

static kvr_ns cpu_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (kvr_ns)time.tv_sec * KVR_S + (kvr_ns)time.tv_nsec;
}

static void costs(void **state)
{
    double plain = round_trip_us(false), secure = round_trip_us(true);
    kvr_ns start;
    double ms;

    (void)state;
    begin(true, true);
    start = cpu_time();
    for (uint32_t i = 1; i <= HANDSHAKES; i++) {
        both_up(i);
        kvr_channel_close(client.channel);
        client.channel = NULL;
        RUN_UNTIL(server.closed == i);
    }
    ms = (double)(cpu_time() - start) / 1e6 / HANDSHAKES;
    finish();
    print_message("a frame of 200 bytes there and back: plain %.1f us, TLS %.1f us; a "
                  "connection with its handshake, both ends: %.2f ms of CPU\n",
                  plain, secure, ms);
    assert_true(secure < plain + 1000); /* a bar for a mistake, not for a machine */
}

static int group_begin(void **state)
{
    struct authority ca;

    (void)state;
    folder_make(folder);
    authority_make(&ca, folder, "ca");
    certificate_make(&ca, "p", &(struct certificate_shape){.uri = "kvrail://f/prefill/p"});
    certificate_make(&ca, "d", &(struct certificate_shape){.uri = "kvrail://f/decode/d"});
    authority_done(&ca);
    return 0;
}

static int group_end(void **state)
{
    (void)state;
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_whole),
        cmocka_unit_test(again_is_exact),
        cmocka_unit_test(queue_reaches_the_other_side_before_the_end),
        cmocka_unit_test(plain_hello_gets_a_sentence),
        cmocka_unit_test(plain_listener_is_named),
        cmocka_unit_test(half_open_ones_keep_nobody_away),
        cmocka_unit_test(one_that_dials_fast_has_no_turn_for_itself),
        cmocka_unit_test(handshakes_take_turns),
        cmocka_unit_test(costs),
    };

    return cmocka_run_group_tests(tests, group_begin, group_end);
}
