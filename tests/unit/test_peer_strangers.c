/* Goal: agents that dial in great number, or under another's name, do not harm those that are
 * there. Method: a source's table; sockets that say HELLO, answer WELCOME and say nothing more,
 * from several addresses of loopback. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/peer/hello_limit.h"
#include "base/entropy.h"
#include "tests/support/peer_probe.h"
#include "wire/compat.h"

#define STRANGERS_MAX 2000

static int strangers[STRANGERS_MAX];
static uint32_t stranger_count;
static struct kvr_message_decoder *decoder;

static void say(int fd, const struct kvr_message *message)
{
    uint8_t frame[4096];
    uint32_t length;
    size_t bytes;

    assert_int_equal(kvr_message_encode(message, frame + 4, sizeof(frame) - 4, &bytes), KVR_OK);
    length = htonl((uint32_t)bytes);
    memcpy(frame, &length, sizeof(length));
    assert_int_equal(send(fd, frame, bytes + 4, MSG_NOSIGNAL), (ssize_t)bytes + 4);
}

static void say_hello(int fd, const char *name, uint64_t boot)
{
    struct kvr_message message = {.kind = KVR_MSG_HELLO};

    message.hello = target.hello;
    snprintf(message.hello.agent, sizeof(message.hello.agent), "%s", name);
    message.hello.boot = boot;
    message.hello.version_min = KVR_PROTOCOL_MIN;
    message.hello.version_max = KVR_PROTOCOL_MAX;
    message.hello.beat_ms = KVR_BEAT_MS_MAX;
    say(fd, &message);
}

/* Answers a WELCOME, without which no owner hears of the peer. False: none has come. */
static bool answer(int fd)
{
    struct kvr_message message, resume = {.kind = KVR_MSG_RESUME};
    uint8_t frame[4096];
    struct kvr_error error;
    ssize_t came = recv(fd, frame, sizeof(frame), MSG_DONTWAIT | MSG_PEEK);
    uint32_t length = 0;

    if (came > 4) {
        memcpy(&length, frame, sizeof(length));
        length = ntohl(length);
    }
    if (length == 0 || came - 4 < (ssize_t)length)
        return false;
    assert_int_equal(kvr_message_decode(decoder, frame + 4, length, &message, &error), KVR_OK);
    assert_int_equal(message.kind, KVR_MSG_WELCOME);
    resume.seen.session = message.hello.session;
    say(fd, &resume);
    return true;
}

/* A connection from 127.0.0.`host`. */
static int connect_from(uint8_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK - 1 + host)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(kvr_peers_port(source.peers))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static uint32_t heard(void)
{
    return source.up + source.turned_away;
}

static void stranger(uint8_t host, const char *name)
{
    uint32_t before = heard();
    int fd = connect_from(host);
    bool answered = false;

    assert_true(stranger_count < STRANGERS_MAX);
    strangers[stranger_count++] = fd;
    say_hello(fd, name, kvr_random_u64() | 1);
    LOOP_UNTIL(&loop, heard() > before || answered || (answered = answer(fd)));
    LOOP_UNTIL(&loop, heard() > before);
}

/* Cuts every connection to the source that is no stranger's. */
static void cut_off_target(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in to = {0};
        socklen_t bytes = sizeof(to);
        bool strange = false;

        for (uint32_t i = 0; i < stranger_count; i++)
            strange |= strangers[i] == fd;
        if (!strange && getpeername(fd, (struct sockaddr *)&to, &bytes) == 0 &&
            to.sin_port == htons(kvr_peers_port(source.peers)))
            shutdown(fd, SHUT_RDWR);
    }
}

static int leave(void **state)
{
    while (stranger_count > 0)
        close(strangers[--stranger_count]);
    return end(state);
}

static void a_flood_of_hellos_is_put_off(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        stranger(2, "flood");
        close(strangers[--stranger_count]);
    }
    assert_true(source.up <= HELLO_HOST_BURST + 60 * HELLO_HOST_RATE); /* of a slow machine */
    assert_true(source.up < 900);
    assert_true(source.up >= HELLO_HOST_BURST && source.turned_away > 0);
    target.up = source.up = 0;
    (void)meet(); /* from 127.0.0.1 */
}

static void a_crowd_leaves_places_to_others(void **state)
{
    struct kvr_peer_info info;
    uint32_t first;

    (void)state;
    stranger(2, "there before the crowd");
    first = source.peer;
    for (uint32_t i = 1; i < 128; i++)
        stranger(2, "crowd");
    for (uint32_t i = 0; i < 128; i++)
        stranger(3, "crowd");
    assert_int_equal(source.up, KVR_PEERS_MAX);
    for (uint32_t i = 0; i < KVR_PEERS_MAX / 8; i++)
        stranger(4, "others");
    assert_int_equal(source.up, KVR_PEERS_MAX + KVR_PEERS_MAX / 8);
    assert_int_equal(source.turned_away, 0);
    assert_int_equal(source.lost, KVR_PEERS_MAX / 8);
    assert_int_equal(source.status, KVR_FULL);
    stranger(2, "crowd"); /* of a host that has more than the others */
    assert_int_equal(source.up, KVR_PEERS_MAX + KVR_PEERS_MAX / 8);
    assert_int_equal(source.turned_away, 1);
    assert_true(kvr_peers_info(source.peers, first, &info));
    assert_true(info.live);
    assert_string_equal(info.agent, "there before the crowd");
}

/* One that lost its connection dials again; newcomers do not get its place meanwhile. */
static void a_short_absence_costs_no_place(void **state)
{
    struct kvr_peer_info info;

    (void)state;
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++)
        stranger((uint8_t)(2 + i / 8), "one of many");
    close(strangers[0]);
    LOOP_UNTIL(&loop, kvr_peers_info(source.peers, 0, &info) && !info.connected);
    strangers[0] = -1;
    for (uint32_t i = 0; i < 4; i++)
        stranger(100, "newcomer");
    assert_int_equal(source.lost, 0);
    assert_int_equal(source.turned_away, 4);
}

/* Any process may use a name: the agent that lives, and resumes its session, keeps it. */
static void a_name_does_not_end_a_session(void **state)
{
    uint32_t peer = meet();
    struct kvr_peer_info info;

    (void)state;
    stranger(1, "target");
    cut_off_target();
    run_for(beat_ms * 2);
    assert_int_equal(source.lost + target.lost, 0);
    cut_off_target();
    stranger(1, "target"); /* also in the moment without a connection */
    run_for(beat_ms * 2);
    assert_int_equal(source.lost + target.lost, 0);
    assert_true(kvr_peers_info(target.peers, peer, &info));
    assert_true(info.connected);
    assert_int_equal(send_counter(&target, peer, 1, 1), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flood_of_hellos_is_put_off, begin_patient, leave),
        cmocka_unit_test_setup_teardown(a_crowd_leaves_places_to_others, begin_patient, leave),
        cmocka_unit_test_setup_teardown(a_short_absence_costs_no_place, begin_patient, leave),
        cmocka_unit_test_setup_teardown(a_name_does_not_end_a_session, begin_as_agents, leave),
    };
    int failed;

    decoder = kvr_message_decoder_open();
    failed = cmocka_run_group_tests_name("peer_strangers", tests, NULL, NULL);
    kvr_message_decoder_close(decoder);
    return failed;
}
