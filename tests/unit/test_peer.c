/* Goal: every user of a peer gets each message once and in order, or one reason for the loss.
 * Method: a target's and a source's table in one process over loopback TCP with a short beat. A
 * relay between them cuts connections after a random number of bytes; plain sockets send nonsense.
 */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/entropy.h"
#include "base/rng.h"
#include "tests/support/peer_probe.h"

/* ---- living together ---- */

static void peer_meets_and_talks(void **state)
{
    uint32_t peer = dial(address), again = dial(address);
    struct kvr_peer_info info;

    (void)state;
    assert_int_equal(peer, again);
    for (uint32_t i = 1; i <= 100; i++) /* before it is up */
        assert_int_equal(send_counter(&target, peer, i, 10), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 100 && target.up == 1);
    for (uint32_t i = 1; i <= 100; i++)
        assert_int_equal(send_counter(&source, source.peer, i, 10), KVR_OK);
    LOOP_UNTIL(&loop, target.came == 100);
    assert_true(source.in_order && target.in_order);
    assert_true(kvr_peers_info(target.peers, peer, &info));
    assert_true(info.live && info.connected && info.boot == source.hello.boot);
    assert_string_equal(info.agent, "source");
    assert_string_equal(info.address, address);
    assert_false(kvr_peers_info(target.peers, peer + 1, &info));
    run_for(beat_ms * 8); /* beats keep it */
    assert_int_equal(source.lost + target.lost, 0);
    assert_int_equal(source.up + target.up, 2);
}

static void peer_pushes_back(void **state)
{
    uint32_t peer = meet(), sent = 0;

    (void)state;
    while (send_counter(&target, peer, sent + 1, 5000) == KVR_OK) {
        sent++;
        assert_true(sent < 10000);
    }
    assert_int_equal(send_counter(&target, peer, sent + 1, 5000), KVR_AGAIN);
    LOOP_UNTIL(&loop, target.writable > 0);
    assert_int_equal(send_counter(&target, peer, sent + 1, 5000), KVR_OK);
    LOOP_UNTIL(&loop, source.came == sent + 1);
    assert_true(source.in_order);
}

static void peer_says_goodbye(void **state)
{
    (void)state;
    meet();
    kvr_peers_end(source.peers, source.peer, KVR_DRAINING, "the agent is draining");
    assert_int_equal(source.lost, 0); /* from the loop, never at once */
    LOOP_UNTIL(&loop, source.lost == 1 && target.lost == 1);
    expect_lost(&source, KVR_DRAINING, "the agent is draining");
    expect_lost(&target, KVR_DRAINING, "the agent is draining");
    assert_true(strncmp(target.detail, address, strlen(address)) == 0);
}

static void peer_can_be_dialed_again(void **state)
{
    uint32_t peer = meet();

    (void)state;
    target.redial = true;
    strcpy(target.redial_address, address);
    kvr_peers_end(source.peers, source.peer, KVR_DRAINING, "for now");
    LOOP_UNTIL(&loop, target.up == 2 && source.up == 2);
    assert_int_equal(target.redialed_as, peer);
    assert_int_equal(send_counter(&target, peer, 1, 1), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 1);
}

static void peer_two_names_are_two_sessions(void **state)
{
    char other[64];

    (void)state;
    meet();
    snprintf(other, sizeof(other), "localhost:%u", kvr_peers_port(source.peers));
    dial(other);
    LOOP_UNTIL(&loop, target.up == 2 && source.up == 2);
    run_for(beat_ms * 5);
    assert_int_equal(target.lost + source.lost, 0);
}

static void stop_loop(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static kvr_ns cpu_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (kvr_ns)time.tv_sec * KVR_S + (kvr_ns)time.tv_nsec;
}

/* As many beats as agents have, at both ends. */
static void peer_a_hundred_idle_ones_cost_little(void **state)
{
    struct probe wide;
    uv_timer_t timer;
    kvr_ns before;
    char text[64];

    (void)state;
    open_table(&wide, &loop, "wide", kvr_random_u64() | 1);
    listen_at(&wide, "0.0.0.0:0");
    for (unsigned i = 1; i <= 100; i++) {
        snprintf(text, sizeof(text), "127.0.0.%u:%u", i, kvr_peers_port(wide.peers));
        dial(text);
        if (i % 16 == 0) /* of one host few may begin at once */
            LOOP_UNTIL(&loop, target.up >= i);
    }
    LOOP_UNTIL(&loop, target.up >= 100 && wide.up >= 100);
    run_for(beat_ms);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, stop_loop, 4ul * beat_ms, 0);
    before = cpu_time();
    uv_run(&loop, UV_RUN_DEFAULT);
    before = cpu_time() - before;
    uv_close((uv_handle_t *)&timer, NULL);
    run_for(1);
    print_message("a hundred peers, both ends, four beats: %.1f ms of CPU\n", (double)before / 1e6);
    assert_true(before < 100 * KVR_MS || sanitized());
    assert_int_equal(target.lost + wide.lost, 0);
    kvr_peers_close(wide.peers);
    run_for(1); /* the table lies on this stack until its handles are closed */
}

/* ---- not getting there ---- */

static void peer_that_nobody_answers_is_lost(void **state)
{
    kvr_ns start = kvr_clock_now(), ran = loop_ran_ns;

    (void)state;
    dial("127.0.0.1:1");
    LOOP_UNTIL(&loop, target.lost == 1);
    assert_true(target.lost_at - start >= 3 * beat_ms * KVR_MS);
    assert_true(loop_ran_ns - ran < 6 * beat_ms * KVR_MS);
    expect_lost(&target, KVR_PEER_LOST, "connection refused");
}

static void peer_no_address(void **state)
{
    struct kvr_error error;
    uint32_t peer;

    (void)state;
    assert_int_equal(kvr_peers_dial(target.peers, "nowhere", &peer, &error), KVR_INVALID);
    assert_int_equal(send_counter(&target, 0, 1, 1), KVR_PEER_LOST);
}

static void peer_refusal_names_the_field(void **state)
{
    struct kvr_compat eight = {"llama", "bfloat16", 32, 8, 128};
    struct kvr_compat four = {"llama", "bfloat16", 32, 4, 128};

    (void)state;
    source.hello.compats = &eight;
    target.hello.compats = &four;
    source.hello.compat_count = target.hello.compat_count = 1;
    dial(address);
    LOOP_UNTIL(&loop, target.lost == 1);
    expect_lost(&target, KVR_INCOMPATIBLE, "num kv heads: the source has 8, the target has 4");
    assert_int_equal(source.turned_away, 1);
    assert_int_equal(source.up + source.lost, 0);
}

/* The error names both ranges, whichever side is older and whichever side detects it. */
static void peer_of_another_version_is_refused(void **state)
{
#define BOTH ": upgrade both agents together"
    static const struct {
        uint32_t source_min, source_max, target_min, target_max; /* 0: this version's own */
        const char *words;
    } cases[] = {
        {0, 0, 1, 1, "protocol version: the source speaks 7 to 7, the target speaks 1 to 1" BOTH},
        {0, 0, 8, 9, "protocol version: the source speaks 7 to 7, the target speaks 8 to 9" BOTH},
        {4, 6, 0, 0, "protocol version: the source speaks 4 to 6, the target speaks 7 to 7" BOTH},
    };

    (void)state;
    assert_int_equal(KVR_PROTOCOL_MIN, 7); /* the expected sentences depend on it */
    assert_int_equal(KVR_PROTOCOL_MAX, 7);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        source.hello.version_min = cases[i].source_min;
        source.hello.version_max = cases[i].source_max;
        target.hello.version_min = cases[i].target_min;
        target.hello.version_max = cases[i].target_max;
        target.lost = 0;
        dial(address);
        LOOP_UNTIL(&loop, target.lost == 1);
        expect_lost(&target, KVR_VERSION, cases[i].words);
        assert_int_equal(source.turned_away, i + 1);
        assert_string_equal(source.detail, cases[i].words);
    }
    assert_int_equal(source.up + target.up, 0);
}

/* ---- broken connections ---- */

struct relay {
    pthread_t thread;
    int listener;
    uint16_t port, to_port;
    _Atomic bool stop;
    _Atomic uint32_t cuts;
    uint64_t seed;
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static int raw_socket(uint16_t port)
{
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Moves at most `budget` bytes in all, then cuts both connections where they are. */
static void relay_one(struct relay *relay, int a, int b, uint64_t budget)
{
    struct pollfd fds[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    uint8_t bytes[4096];

    while (!relay->stop && budget > 0) {
        if (poll(fds, 2, 20) <= 0)
            continue;
        for (int i = 0; i < 2 && budget > 0; i++) {
            if (fds[i].revents == 0)
                continue;
            ssize_t count = read(fds[i].fd, bytes, budget < sizeof(bytes) ? budget : sizeof(bytes));

            if (count <= 0 || write(fds[!i].fd, bytes, (size_t)count) != count)
                return;
            budget -= (uint64_t)count;
        }
    }
}

static void *relay_run(void *self)
{
    struct relay *relay = self;
    struct pollfd fd = {relay->listener, POLLIN, 0};
    struct kvr_rng rng;

    kvr_rng_init(&rng, relay->seed);
    while (!relay->stop) {
        if (poll(&fd, 1, 20) <= 0)
            continue;
        int a = accept(relay->listener, NULL, NULL), b = raw_socket(relay->to_port);

        relay_one(relay, a, b,
                  kvr_rng_percent(&rng, 20) ? kvr_rng_below(&rng, 300) + 1
                                            : kvr_rng_below(&rng, 400000) + 1);
        relay->cuts++;
        close(a);
        close(b);
    }
    return NULL;
}

/* Returns its port. */
static uint16_t listen_raw(int listener)
{
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof(at);

    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    return ntohs(at.sin_port);
}

static void relay_start(struct relay *relay, uint16_t to_port, uint64_t seed)
{
    memset(relay, 0, sizeof(*relay));
    relay->seed = seed;
    relay->to_port = to_port;
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    relay->port = listen_raw(relay->listener);
    assert_int_equal(pthread_create(&relay->thread, NULL, relay_run, relay), 0);
}

static void relay_stop(struct relay *relay)
{
    relay->stop = true;
    pthread_join(relay->thread, NULL);
    close(relay->listener);
}

static void peer_survives_cut_connections(void **state)
{
    uint32_t cases = (uint32_t)check_cases(3, 60), sent[2] = {0, 0}, want = 400, peer;
    struct relay relay;
    char through[64];

    (void)state;
    for (uint32_t seed = 1; seed <= cases; seed++, sent[0] = sent[1] = 0) {
        source.up = target.up = source.came = target.came = 0;
        relay_start(&relay, kvr_peers_port(source.peers), seed);
        snprintf(through, sizeof(through), "127.0.0.1:%u", relay.port);
        peer = dial(through);
        LOOP_UNTIL(&loop, target.up == 1 && source.up >= 1);
        while (sent[0] < want || sent[1] < want) {
            if (source.lost + target.lost > 0) /* the relay would wait for ever */
                fail_msg("lost: \"%s\", \"%s\"", source.detail, target.detail);
            if (sent[0] < want && send_counter(&target, peer, sent[0] + 1, 1000) == KVR_OK)
                sent[0]++;
            if (sent[1] < want && source.up == 1 &&
                send_counter(&source, source.peer, sent[1] + 1, 500) == KVR_OK)
                sent[1]++;
            loop_run_some(&loop);
        }
        LOOP_UNTIL(&loop, source.came == want && target.came == want);
        assert_int_equal(source.lost + target.lost, 0);
        assert_int_equal(source.up + target.up, 2);
        assert_true(source.in_order && target.in_order);
        assert_true(relay.cuts > 0);
        kvr_peers_end(target.peers, peer, KVR_CANCELLED, "the case is over");
        LOOP_UNTIL(&loop, source.lost == 1 && target.lost == 1);
        source.lost = target.lost = 0;
        relay_stop(&relay);
    }
}

/* ---- strangers ---- */

static void peer_garbage_harms_nobody(void **state)
{
    uint64_t cases = check_cases(200, 2000);
    uint16_t port = kvr_peers_port(source.peers);
    uint32_t peer = meet(), sent = 0;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 5);
    for (uint64_t i = 0; i < cases; i++) {
        uint8_t bytes[600];
        size_t count = (size_t)kvr_rng_between(&rng, 1, sizeof(bytes));
        int fd = raw_socket(port);

        assert_true(fd >= 0);
        for (size_t j = 0; j < count; j++)
            bytes[j] = (uint8_t)kvr_rng_next(&rng);
        if (i % 2 == 0) { /* a frame of the right length */
            bytes[0] = bytes[1] = bytes[2] = 0;
            bytes[3] = (uint8_t)kvr_rng_below(&rng, 60);
        }
        assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
        if (send_counter(&target, peer, sent + 1, 10) == KVR_OK)
            sent++;
        loop_run_some(&loop);
        close(fd);
    }
    LOOP_UNTIL(&loop, source.came == sent && source.turned_away == cases);
    assert_int_equal(source.lost + target.lost, 0);
    assert_true(source.in_order);
}

/* One that says HELLO and never RESUME: to the owner it is a stranger that was turned away. */
static void peer_that_does_not_answer_is_never_up(void **state)
{
    struct kvr_message message = {.kind = KVR_MSG_HELLO, .hello = target.hello};
    int fd = raw_socket(kvr_peers_port(source.peers));
    uint8_t frame[1024], length[4] = {0}, byte;
    size_t bytes;

    (void)state;
    message.hello.version_min = KVR_PROTOCOL_MIN;
    message.hello.version_max = KVR_PROTOCOL_MAX;
    message.hello.beat_ms = beat_ms;
    assert_int_equal(kvr_message_encode(&message, frame, sizeof(frame), &bytes), KVR_OK);
    length[2] = (uint8_t)(bytes >> 8);
    length[3] = (uint8_t)bytes;
    assert_int_equal(send(fd, length, sizeof(length), MSG_NOSIGNAL), sizeof(length));
    assert_int_equal(send(fd, frame, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    LOOP_UNTIL(&loop, recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1);
    run_for(beat_ms / 4);
    assert_int_equal(source.up, 0);
    close(fd);
    LOOP_UNTIL(&loop, source.turned_away == 1);
    assert_int_equal(source.up + source.lost, 0);
}

static void peer_table_can_be_full(void **state)
{
    struct kvr_error error;
    char text[64];
    uint32_t peer;

    (void)state;
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++) {
        snprintf(text, sizeof(text), "127.0.0.%u:1", i % 250 + 1);
        if (i >= 250)
            snprintf(text, sizeof(text), "127.0.1.%u:1", i - 249);
        assert_int_equal(dial(text), i);
    }
    assert_int_equal(kvr_peers_dial(target.peers, "127.0.9.9:1", &peer, &error), KVR_FULL);
    LOOP_UNTIL(&loop, target.lost == KVR_PEERS_MAX);
    assert_int_equal(kvr_peers_dial(target.peers, address, &peer, &error), KVR_OK);
    LOOP_UNTIL(&loop, target.up == 1);
}

/* Accepts that many connections and closes each at once. */
static void hang_up_on(int listener, int times)
{
    struct pollfd fd = {listener, POLLIN, 0};

    while (times > 0) {
        loop_run_some(&loop);
        if (poll(&fd, 1, 0) <= 0)
            continue;
        close(accept(listener, NULL, NULL));
        times--;
    }
}

/* Dead addresses do not use up the places of others. */
static void peer_places_come_back_from_the_dead(void **state)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[64], longest[96];
    struct kvr_error error;
    uint32_t peer;

    (void)state;
    snprintf(longest, sizeof(longest), "127.0.0.1:%u", listen_raw(listener));
    assert_int_equal(dial(longest), 0);
    for (uint32_t i = 1; i < KVR_PEERS_UNREACHED; i++) {
        snprintf(text, sizeof(text), "127.0.0.%u:1", i + 1);
        assert_int_equal(dial(text), i);
    }
    hang_up_on(listener, 2); /* the last error of the first connection goes with the next dial */
    assert_int_equal(target.lost, 0);
    assert_int_equal(kvr_peers_dial(target.peers, address, &peer, &error), KVR_OK);
    LOOP_UNTIL(&loop, target.lost == 1);
    strcat(longest, ": no agent answers there, and others are dialed");
    expect_lost(&target, KVR_PEER_LOST, longest);
    LOOP_UNTIL(&loop, target.up == 1);
    assert_int_equal(target.peer, peer);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        peer_test(peer_meets_and_talks),
        peer_test(peer_pushes_back),
        peer_test(peer_says_goodbye),
        peer_test(peer_can_be_dialed_again),
        peer_test(peer_two_names_are_two_sessions),
        cmocka_unit_test_setup_teardown(peer_a_hundred_idle_ones_cost_little, begin_as_agents, end),
        peer_test(peer_that_nobody_answers_is_lost),
        peer_test(peer_no_address),
        peer_test(peer_refusal_names_the_field),
        peer_test(peer_of_another_version_is_refused),
        patient_peer_test(peer_survives_cut_connections),
        peer_test(peer_garbage_harms_nobody),
        peer_test(peer_that_does_not_answer_is_never_up),
        peer_test(peer_table_can_be_full),
        patient_peer_test(peer_places_come_back_from_the_dead),
    };

    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
