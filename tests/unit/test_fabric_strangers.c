/* Goal: a stranger that connects to a rail's port and hangs up leaves nothing behind: neither on an
 * idle rail, nor beside a peer's writes, nor when the process has no descriptor left. Method: raw
 * sockets that send too little or nothing. Before each poll of the endpoint errno has an old
 * EAGAIN, which libfabric's tcp takes for that connection's. */
#include "tests/support/check.h"
#include "tests/support/descriptors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/ofi/fabric_ofi.h"

#define STRANGERS 20

struct rail {
    struct kvr_fabric fabric;
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
};

static void rail_open(struct rail *rail)
{
    struct kvr_rail_options options = {.provider = "tcp", .name = "127.0.0.1"};
    struct kvr_error error;

    kvr_fabric_ofi(&rail->fabric);
    assert_int_equal(rail->fabric.ops->rail_open(NULL, &options, &rail->rail, &error), KVR_OK);
    assert_int_equal(rail->fabric.ops->endpoint_open(rail->rail, &rail->endpoint, &error), KVR_OK);
}

static void endpoint_close(const struct kvr_fabric *fabric, struct kvr_endpoint *endpoint)
{
    fabric->ops->endpoint_stop(endpoint);
    fabric->ops->endpoint_close(endpoint);
}

static int stranger_connect(const struct rail *rail)
{
    uint8_t name[KVR_ADDRESS_BYTES];
    struct sockaddr_in address;
    uint32_t name_bytes;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    rail->fabric.ops->endpoint_address(rail->endpoint, name, &name_bytes);
    memcpy(&address, name, sizeof(address));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static unsigned seen; /* entries of the rail's queue */

static void look(const struct rail *rail, unsigned times)
{
    struct kvr_completion completions[16];

    for (unsigned i = 0; i < times; i++) {
        errno = EAGAIN;
        seen += rail->fabric.ops->poll(rail->endpoint, completions, 16);
        errno = EAGAIN;
        (void)rail->fabric.ops->endpoint_may_sleep(rail->endpoint);
        usleep(200);
    }
}

static void visit(const struct rail *rail, unsigned bytes)
{
    int fd = stranger_connect(rail);

    assert_int_equal(send(fd, "GET / HTTP/1.1", bytes, 0), bytes);
    close(fd);
    look(rail, 20);
}

static void strangers_leave_nothing_behind(void **state)
{
    struct rail rail;
    unsigned before;

    (void)state;
    rail_open(&rail);
    visit(&rail, 1);
    before = descriptors();
    for (unsigned i = 0; i < STRANGERS; i++)
        visit(&rail, i % 2 == 0 ? 0 : 3);
    for (unsigned tries = 0; tries < 100 && descriptors() > before; tries++)
        visit(&rail, 1);
    assert_in_range(descriptors(), 0, before);
    endpoint_close(&rail.fabric, rail.endpoint);
    rail.fabric.ops->rail_close(rail.rail);
}

/* The same before each sleep. Where libfabric's fi_trywait does not work, that polls the queue as
 * well. Where it works, the strangers wait until the queue is read: a look accepts one of them,
 * and the next look hangs up on it. */
static void strangers_before_a_sleep_leave_nothing_behind(void **state)
{
    struct rail rail;
    unsigned before;

    (void)state;
    rail_open(&rail);
    visit(&rail, 1);
    before = descriptors();
    for (unsigned i = 0; i < STRANGERS; i++) {
        int fd = stranger_connect(&rail);

        assert_int_equal(send(fd, "GET / HTTP/1.1", 3, 0), 3);
        close(fd);
        for (unsigned k = 0; k < 20; k++) {
            errno = EAGAIN;
            (void)rail.fabric.ops->endpoint_may_sleep(rail.endpoint);
        }
    }
    look(&rail, 2 * STRANGERS);
    assert_in_range(descriptors(), 0, before);
    endpoint_close(&rail.fabric, rail.endpoint);
    rail.fabric.ops->rail_close(rail.rail);
}

struct writer {
    struct kvr_endpoint *endpoint;
    struct kvr_memory *memory;
    uint64_t peer;
};

static char bytes_here[1 << 20], bytes_there[1 << 20]; /* more than a socket's buffers hold */

static void writer_open(struct rail *rail, struct writer *writer, struct kvr_memory **ret_target)
{
    struct kvr_memory_span here = {
        .base = bytes_here, .bytes = sizeof(bytes_here), .local = true, .fd = -1};
    struct kvr_memory_span there = {
        .base = bytes_there, .bytes = sizeof(bytes_there), .remote = true, .fd = -1};
    const struct kvr_fabric_ops *ops = rail->fabric.ops;
    uint8_t name[KVR_ADDRESS_BYTES];
    struct kvr_error error;
    uint32_t name_bytes;

    assert_int_equal(ops->memory_register(rail->rail, &here, &writer->memory, &error), KVR_OK);
    assert_int_equal(ops->memory_register(rail->rail, &there, ret_target, &error), KVR_OK);
    assert_int_equal(ops->endpoint_open(rail->rail, &writer->endpoint, &error), KVR_OK);
    ops->endpoint_address(rail->endpoint, name, &name_bytes);
    assert_int_equal(ops->peer_insert(writer->endpoint, name, name_bytes, &writer->peer, &error),
                     KVR_OK);
}

static kvr_status write_once(const struct rail *rail, const struct writer *writer,
                             const struct kvr_memory *target)
{
    struct kvr_remote_key key = rail->fabric.ops->memory_key(target);
    struct kvr_fabric_piece piece = {.local = bytes_here,
                                     .memory = writer->memory,
                                     .remote = key.base,
                                     .key = key.key,
                                     .bytes = sizeof(bytes_here)};
    struct kvr_fabric_write write = {
        .pieces = &piece, .piece_count = 1, .peer = writer->peer, .context = 1};

    return rail->fabric.ops->write(writer->endpoint, &write);
}

/* A socket that is read until it is empty leaves an EAGAIN behind, in the very call that reads a
 * stranger's socket next. */
static void strangers_beside_writes_leave_nothing_behind(void **state)
{
    struct kvr_completion completions[16];
    unsigned open;
    struct kvr_memory *target;
    struct writer writer;
    struct rail rail;

    (void)state;
    rail_open(&rail);
    writer_open(&rail, &writer, &target);
    while (write_once(&rail, &writer, target) == KVR_AGAIN)
        look(&rail, 1);
    open = descriptors();
    for (unsigned i = 0; i < STRANGERS; i++) {
        int fd = stranger_connect(&rail);
        kvr_status status = KVR_AGAIN;

        look(&rail, 5); /* the stranger is accepted */
        for (unsigned k = 0; k < 1000 && status == KVR_AGAIN; k++) {
            status = write_once(&rail, &writer, target);
            if (status == KVR_AGAIN)
                look(&rail, 1);
        }
        assert_int_equal(status, KVR_OK);
        assert_int_equal(send(fd, "GET / HTTP/1.1", 3, 0), 3);
        close(fd);
        for (unsigned k = 0; k < 5; k++) {
            (void)rail.fabric.ops->poll(writer.endpoint, completions, 16);
            look(&rail, 1);
        }
    }
    look(&rail, 20);
    assert_in_range(descriptors(), 0, open);
    endpoint_close(&rail.fabric, writer.endpoint);
    endpoint_close(&rail.fabric, rail.endpoint);
    rail.fabric.ops->memory_release(writer.memory);
    rail.fabric.ops->memory_release(target);
    rail.fabric.ops->rail_close(rail.rail);
}

/* How a write with this key ends. */
static kvr_completion_kind write_with_key(const struct rail *rail, const struct writer *writer,
                                          uint64_t key, bool acknowledged)
{
    struct kvr_fabric_piece piece = {
        .local = bytes_here, .memory = writer->memory, .key = key, .bytes = 8};
    struct kvr_fabric_write write = {.pieces = &piece,
                                     .piece_count = 1,
                                     .peer = writer->peer,
                                     .context = 2,
                                     .acknowledged = acknowledged};
    struct kvr_completion completion;
    kvr_status status = KVR_AGAIN;

    for (unsigned i = 0; i < 10000 && status == KVR_AGAIN; i++) {
        status = rail->fabric.ops->write(writer->endpoint, &write);
        look(rail, status == KVR_AGAIN);
    }
    assert_int_equal(status, KVR_OK);
    for (unsigned i = 0; i < 50000; i++) {
        if (rail->fabric.ops->poll(writer->endpoint, &completion, 1) == 1)
            return completion.kind;
        look(rail, 1);
    }
    fail_msg("no completion came");
    return KVR_COMPLETION_FAILED;
}

/* Else a warm-up write to memory that is not there would look as if it had come through. */
static void a_write_with_a_dead_key_is_not_acknowledged(void **state)
{
    struct kvr_memory *target;
    struct writer writer;
    struct rail rail;

    (void)state;
    rail_open(&rail);
    writer_open(&rail, &writer, &target);
    assert_int_equal(write_with_key(&rail, &writer, rail.fabric.ops->memory_key(target).key, true),
                     KVR_COMPLETION_WRITTEN);
    assert_int_equal(write_with_key(&rail, &writer, 4711, true), KVR_COMPLETION_FAILED);
    endpoint_close(&rail.fabric, writer.endpoint);
    endpoint_close(&rail.fabric, rail.endpoint);
    rail.fabric.ops->memory_release(writer.memory);
    rail.fabric.ops->memory_release(target);
    rail.fabric.ops->rail_close(rail.rail);
}

/* A key that was asked for (kvr_rail_facts.grant_keys) and is released. The target's queue shows
 * nothing, so nothing there counts such a write or renews the rail. The other writer's connection
 * stays, and the one that wrote connects anew. */
static void a_closed_key_costs_its_writer_one_connection(void **state)
{
    struct kvr_memory_span span = {
        .base = bytes_there, .bytes = 8, .remote = true, .fd = -1, .key = 0x1122334455667788};
    const struct kvr_fabric_ops *ops;
    struct kvr_memory *target, *other_target, *granted;
    struct writer writer, other;
    struct kvr_error error;
    struct rail rail;
    uint64_t key;

    (void)state;
    rail_open(&rail);
    ops = rail.fabric.ops;
    if (!ops->rail_facts(rail.rail)->grant_keys)
        fail_msg("tcp takes keys that are chosen");
    writer_open(&rail, &writer, &target);
    writer_open(&rail, &other, &other_target);
    key = ops->memory_key(target).key;
    assert_int_equal(ops->memory_register(rail.rail, &span, &granted, &error), KVR_OK);
    assert_int_equal(ops->memory_key(granted).key, span.key);
    seen = 0;
    memset(bytes_here, 'a', 8);
    assert_int_equal(write_with_key(&rail, &writer, span.key, true), KVR_COMPLETION_WRITTEN);
    assert_int_equal(write_with_key(&rail, &other, key, true), KVR_COMPLETION_WRITTEN);
    assert_int_equal(bytes_there[0], 'a');
    ops->memory_release(granted);
    memset(bytes_here, 'b', 8);
    assert_int_equal(seen, 2);
    assert_int_equal(write_with_key(&rail, &writer, span.key, true), KVR_COMPLETION_FAILED);
    look(&rail, 100);
    assert_int_equal(seen, 2);
    assert_int_equal(bytes_there[0], 'a');
    assert_int_equal(write_with_key(&rail, &other, key, true), KVR_COMPLETION_WRITTEN);
    assert_int_equal(bytes_there[0], 'b');
    memset(bytes_here, 'c', 8);
    assert_int_equal(write_with_key(&rail, &writer, key, true), KVR_COMPLETION_WRITTEN);
    assert_int_equal(bytes_there[0], 'c');
    assert_int_equal(seen, 4);
    endpoint_close(&rail.fabric, writer.endpoint);
    endpoint_close(&rail.fabric, other.endpoint);
    endpoint_close(&rail.fabric, rail.endpoint);
    ops->memory_release(writer.memory);
    ops->memory_release(other.memory);
    ops->memory_release(target);
    ops->memory_release(other_target);
    ops->rail_close(rail.rail);
}

struct place {
    uint8_t name[KVR_ADDRESS_BYTES];
    uint32_t name_bytes;
    struct kvr_remote_key key;
};

/* Writes without end to the place that it reads from the pipe. In a process of its own, because the
 * endpoints of one process make progress together. */
static void write_without_end(int pipe_end)
{
    struct kvr_memory_span here = {
        .base = bytes_here, .bytes = sizeof(bytes_here), .local = true, .fd = -1};
    struct kvr_completion completions[16];
    struct writer writer = {0};
    struct kvr_error error;
    struct place place;
    struct rail rail;

    rail_open(&rail);
    if (read(pipe_end, &place, sizeof(place)) != sizeof(place) ||
        rail.fabric.ops->memory_register(rail.rail, &here, &writer.memory, &error) != KVR_OK ||
        rail.fabric.ops->peer_insert(rail.endpoint, place.name, place.name_bytes, &writer.peer,
                                     &error) != KVR_OK)
        _exit(1);
    for (;;) {
        struct kvr_fabric_piece piece = {.local = bytes_here,
                                         .memory = writer.memory,
                                         .remote = place.key.base,
                                         .key = place.key.key,
                                         .bytes = sizeof(bytes_here)};
        struct kvr_fabric_write write = {
            .pieces = &piece, .piece_count = 1, .peer = writer.peer, .context = 1};

        (void)rail.fabric.ops->write(rail.endpoint, &write);
        (void)rail.fabric.ops->poll(rail.endpoint, completions, 16);
    }
}

/* A peer that hangs up while its write is on its way. */
static void a_write_that_breaks_off_is_shown_as_a_peers(void **state)
{
    struct kvr_memory_span there = {
        .base = bytes_there, .bytes = sizeof(bytes_there), .remote = true, .fd = -1};
    struct kvr_completion completion = {0};
    struct kvr_memory *target;
    struct kvr_error error;
    struct place place = {0};
    struct rail rail;
    int ends[2];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0)
        write_without_end(ends[0]);
    rail_open(&rail);
    assert_int_equal(rail.fabric.ops->memory_register(rail.rail, &there, &target, &error), KVR_OK);
    rail.fabric.ops->endpoint_address(rail.endpoint, place.name, &place.name_bytes);
    place.key = rail.fabric.ops->memory_key(target);
    assert_int_equal(write(ends[1], &place, sizeof(place)), sizeof(place));
    for (unsigned i = 0; i < 50000 && completion.kind != KVR_COMPLETION_ARRIVED; i++) {
        (void)rail.fabric.ops->poll(rail.endpoint, &completion, 1);
        usleep(200);
    }
    assert_int_equal(completion.kind, KVR_COMPLETION_ARRIVED);
    usleep(100000); /* its next writes fill the sockets, and the last of these is cut */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (unsigned i = 0; i < 5000 && completion.kind != KVR_COMPLETION_FAILED; i++)
        if (rail.fabric.ops->poll(rail.endpoint, &completion, 1) == 0)
            usleep(200);
    assert_int_equal(completion.kind, KVR_COMPLETION_FAILED);
    assert_false(completion.has_context);
    assert_int_equal(completion.status, KVR_PEER_LOST);
    close(ends[0]);
    close(ends[1]);
    endpoint_close(&rail.fabric, rail.endpoint);
    rail.fabric.ops->memory_release(target);
    rail.fabric.ops->rail_close(rail.rail);
}

/* Connected strangers are hung up on although the folder of descriptors cannot be opened. */
static void strangers_are_hung_up_on_without_descriptors(void **state)
{
    struct timeval patience = {.tv_sec = 10};
    struct rlimit limit, none;
    struct rail rail;
    char byte;
    int fd;

    (void)state;
    rail_open(&rail);
    fd = stranger_connect(&rail);
    look(&rail, 5); /* the stranger is accepted, and its socket is unread */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rail.fabric.ops->endpoint_stop(rail.endpoint);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_in_range(recv(fd, &byte, 1, 0) + 1, 0, 1); /* its end, or a reset */
    assert_int_not_equal(errno, EAGAIN);
    close(fd);
    rail.fabric.ops->endpoint_close(rail.endpoint);
    rail.fabric.ops->rail_close(rail.rail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_leave_nothing_behind),
        cmocka_unit_test(strangers_before_a_sleep_leave_nothing_behind),
        cmocka_unit_test(strangers_beside_writes_leave_nothing_behind),
        cmocka_unit_test(a_write_with_a_dead_key_is_not_acknowledged),
        cmocka_unit_test(a_closed_key_costs_its_writer_one_connection),
        cmocka_unit_test(a_write_that_breaks_off_is_shown_as_a_peers),
        cmocka_unit_test(strangers_are_hung_up_on_without_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
