/* Goal: what a peer sent before it closed is read, whenever it closes.
 * Method: the kernel's answers are replaced, once each, by those that it gives seldom. */
#include "tests/support/check.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/packet_socket.h"

static int ends[2];
static ssize_t next_answer; /* of recvmsg; 1: the kernel's own */
static int calls;

ssize_t __real_recvmsg(int socket, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags);

ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags)
{
    ssize_t answer = next_answer;

    calls++;
    next_answer = 1;
    if (answer == 1)
        return __real_recvmsg(socket, message, flags);
    errno = ECONNRESET;
    if (answer == 0)
        message->msg_controllen = 0;
    return answer;
}

static int setup(void **state)
{
    (void)state;
    next_answer = 1;
    calls = 0;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int teardown(void **state)
{
    (void)state;
    close(ends[0]);
    return ends[1] < 0 ? 0 : close(ends[1]);
}

static void send_one(const struct kvr_packet_fds *fds)
{
    static const uint8_t packet[] = {1, 2, 3};

    assert_int_equal(kvr_packet_send(ends[1], packet, sizeof(packet), fds), KVR_OK);
}

static void close_peer(void)
{
    close(ends[1]);
    ends[1] = -1;
}

static kvr_status receive(struct kvr_packet_fds *fds)
{
    uint8_t packet[64];
    size_t bytes = 0;
    kvr_status status = kvr_packet_receive(ends[0], packet, sizeof(packet), &bytes, fds);

    if (status == KVR_OK)
        assert_int_equal(bytes, 3);
    return status;
}

/* The kernel found no packet, then one came with the end. */
static void an_end_that_was_seen_before_the_last_packet(void **state)
{
    struct kvr_packet_fds sent = {.count = 1, .fds = {STDERR_FILENO}}, fds;

    (void)state;
    send_one(&sent);
    close_peer();
    next_answer = 0;
    assert_int_equal(receive(&fds), KVR_OK);
    assert_int_equal(fds.count, 1);
    kvr_packet_fds_close(&fds);
    assert_int_equal(receive(&fds), KVR_PEER_LOST);
}

static void a_reset_comes_before_the_last_packet(void **state)
{
    struct kvr_packet_fds fds;

    (void)state;
    send_one(NULL);
    close_peer();
    next_answer = -1;
    assert_int_equal(receive(&fds), KVR_OK);
    assert_int_equal(receive(&fds), KVR_PEER_LOST);
}

static void a_peer_that_is_there_has_no_end(void **state)
{
    struct kvr_packet_fds fds;

    (void)state;
    assert_int_equal(receive(&fds), KVR_AGAIN);
    send_one(NULL);
    assert_int_equal(receive(&fds), KVR_OK);
    assert_int_equal(receive(&fds), KVR_AGAIN);
    assert_int_equal(calls, 3);
}

/* None of ours is empty, and a peer that sends only such ones is not read for ever. */
static void an_empty_packet_is_an_end(void **state)
{
    struct kvr_packet_fds fds;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(send(ends[1], "", 0, 0), 0);
    assert_int_equal(receive(&fds), KVR_PEER_LOST);
    assert_int_equal(calls, 2);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PAIR(an_end_that_was_seen_before_the_last_packet),
        WITH_PAIR(a_reset_comes_before_the_last_packet),
        WITH_PAIR(a_peer_that_is_there_has_no_end),
        WITH_PAIR(an_empty_packet_is_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
