/* Goal: endpoints of tcp listen inside --rail-ports and nowhere else, skip ports that other
 * programs hold, and refuse a full range in a sentence. Method: rails on loopback; the kernel's
 * list of sockets; --wrap plays a container, where each life of a program has one process number.
 */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/fabric_provider.h"

#define COUNT 4
#define REST  (300 * KVR_MS)
#define LIVES 16

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);

pid_t __wrap_getpid(void)
{
    return 1;
}

static struct kvr_fabric fabric;
static struct kvr_rail_ports ports;

static int bind_to(const char *host, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0)
        return fd;
    close(fd);
    return -1;
}

/* COUNT neighbouring ports below the kernel's own range, where no program listens. */
static int find_ports(void **state)
{
    (void)state;
    kvr_fabric_of("tcp", &fabric);
    for (uint16_t first = (uint16_t)(20000 + __real_getpid() % 8000); first < 32000;
         first += COUNT) {
        int free_ports = 0;

        for (uint16_t i = 0; i < COUNT; i++) {
            int fd = bind_to("127.0.0.1", first + i);

            free_ports += fd >= 0;
            if (fd >= 0)
                close(fd);
        }
        if (free_ports == COUNT) {
            ports = (struct kvr_rail_ports){first, (uint16_t)(first + COUNT - 1)};
            return 0;
        }
    }
    return -1;
}

static struct kvr_rail *rail_open(void)
{
    struct kvr_rail_options options = {
        .provider = "tcp", .name = "127.0.0.1", .ports = ports, .port_rest = REST};
    struct kvr_rail *rail = NULL;
    struct kvr_error error;

    if (fabric.ops->rail_open(fabric.self, &options, &rail, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    return rail;
}

static struct kvr_endpoint *open_one(struct kvr_rail *rail)
{
    struct kvr_endpoint *endpoint = NULL;
    struct kvr_error error;

    if (fabric.ops->endpoint_open(rail, &endpoint, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    return endpoint;
}

static uint16_t port_of(const struct kvr_endpoint *endpoint)
{
    uint8_t bytes[KVR_ADDRESS_BYTES];
    struct sockaddr_in address;
    uint32_t count;

    fabric.ops->endpoint_address(endpoint, bytes, &count);
    memcpy(&address, bytes, sizeof(address));
    return ntohs(address.sin_port);
}

static void close_one(struct kvr_endpoint *endpoint)
{
    fabric.ops->endpoint_stop(endpoint);
    fabric.ops->endpoint_close(endpoint);
}

static bool is_ours(const char *inode)
{
    char path[64], target[64], wanted[64];

    snprintf(wanted, sizeof(wanted), "socket:[%s]", inode);
    for (int fd = 0; fd < 1024; fd++) {
        ssize_t bytes;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        bytes = readlink(path, target, sizeof(target) - 1);
        if (bytes > 0 && (size_t)bytes == strlen(wanted) &&
            memcmp(target, wanted, (size_t)bytes) == 0)
            return true;
    }
    return false;
}

/* How many sockets of this process listen in the range; *ret_outside: elsewhere. */
static unsigned listeners(unsigned *ret_outside)
{
    FILE *file = fopen("/proc/self/net/tcp", "re");
    char line[512], inode[32];
    unsigned inside = 0, port, socket_state;

    *ret_outside = 0;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %31s", &port,
                   &socket_state, inode) != 3 ||
            socket_state != 10 || !is_ours(inode))
            continue;
        if (port >= ports.first && port <= ports.last)
            inside++;
        else
            ++*ret_outside;
    }
    fclose(file);
    return inside;
}

/* A peer that has not heard of an agent's end may still write to its old port. The first port of a
 * new life must not follow from the process number. */
static void lives_do_not_begin_at_one_port(void **state)
{
    unsigned seen = 0;

    (void)state;
    for (int i = 0; i < LIVES; i++) {
        pid_t child = fork();
        int status;

        if (child == 0)
            _exit(port_of(open_one(rail_open())) - ports.first);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < COUNT);
        seen |= 1u << WEXITSTATUS(status);
    }
    assert_true((seen & (seen - 1)) != 0); /* more than one port */
}

static void endpoints_listen_in_the_range(void **state)
{
    struct kvr_rail *rail = rail_open();
    struct kvr_endpoint *endpoints[COUNT];
    bool seen[COUNT] = {false};
    unsigned outside;

    (void)state;
    assert_int_equal(listeners(&outside), 0);
    for (int i = 0; i < COUNT; i++) {
        uint16_t port;

        endpoints[i] = open_one(rail);
        port = port_of(endpoints[i]);
        assert_in_range(port, ports.first, ports.last);
        assert_false(seen[port - ports.first]);
        seen[port - ports.first] = true;
    }
    assert_int_equal(listeners(&outside), COUNT);
    assert_int_equal(outside, 0);
    for (int i = 0; i < COUNT; i++)
        close_one(endpoints[i]);
    assert_int_equal(listeners(&outside), 0);
    fabric.ops->rail_close(rail);
}

static void a_full_range_is_said(void **state)
{
    struct kvr_rail *rail = rail_open();
    struct kvr_endpoint *first, *second, *refused = NULL;
    struct kvr_error error;
    int fds[2];

    (void)state;
    usleep(REST / KVR_US); /* the ports of the previous case rest */
    fds[0] = bind_to("127.0.0.1", ports.first);
    fds[1] = bind_to("127.0.0.1", ports.last);
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    first = open_one(rail);
    second = open_one(rail);
    assert_int_equal(fabric.ops->endpoint_open(rail, &refused, &error), KVR_FULL);
    assert_non_null(strstr(error.detail, "has no free port: 2 taken by others, 2 open here"));
    assert_non_null(strstr(error.detail, "1 rail of this agent needs 2"));
    close_one(second);
    assert_int_equal(fabric.ops->endpoint_open(rail, &refused, &error), KVR_FULL);
    assert_non_null(strstr(error.detail, "1 closed within the last 0.3 s"));
    usleep(REST / KVR_US);
    second = open_one(rail); /* rested */
    close(fds[0]);
    close_one(first);
    first = open_one(rail); /* the other program has left it */
    assert_int_equal(port_of(first), ports.first);
    close(fds[1]);
    close_one(first);
    close_one(second);
    fabric.ops->rail_close(rail);
}

/* Bytes reach an endpoint that listens in the range from another such endpoint. */
static void rails_of_a_range_connect(void **state)
{
    struct kvr_rail *rails[2];
    struct kvr_endpoint *ends[2];
    uint8_t address[KVR_ADDRESS_BYTES], memory[4096] = {1};
    struct kvr_memory_span span = {
        .base = memory, .bytes = sizeof(memory), .local = true, .remote = true, .fd = -1};
    struct kvr_memory *registered[2];
    struct kvr_completion completion;
    struct kvr_fabric_piece piece = {.bytes = 64};
    struct kvr_fabric_write write = {.pieces = &piece, .piece_count = 1, .immediate = 7};
    kvr_ns until = kvr_clock_now() + 20 * KVR_S;
    struct kvr_error error;
    bool posted = false, arrived = false;
    unsigned outside;
    uint32_t bytes;

    (void)state;
    usleep(REST / KVR_US);
    for (int i = 0; i < 2; i++) {
        rails[i] = rail_open();
        ends[i] = open_one(rails[i]);
        assert_int_equal(fabric.ops->memory_register(rails[i], &span, &registered[i], &error),
                         KVR_OK);
    }
    fabric.ops->endpoint_address(ends[1], address, &bytes);
    assert_int_equal(fabric.ops->peer_insert(ends[0], address, bytes, &write.peer, &error), KVR_OK);
    piece.local = memory;
    piece.memory = registered[0];
    piece.key = fabric.ops->memory_key(registered[1]).key;
    piece.remote = fabric.ops->memory_key(registered[1]).base + 2048;
    while (!arrived && kvr_clock_now() < until) {
        posted = posted || fabric.ops->write(ends[0], &write) == KVR_OK;
        (void)fabric.ops->poll(ends[0], &completion, 1);
        arrived = fabric.ops->poll(ends[1], &completion, 1) == 1 &&
                  completion.kind == KVR_COMPLETION_ARRIVED && completion.immediate == 7;
    }
    assert_true(arrived);
    assert_int_equal(memory[2048], 1);
    assert_int_equal(listeners(&outside), 2);
    assert_int_equal(outside, 0);
    for (int i = 0; i < 2; i++) {
        close_one(ends[i]);
        fabric.ops->memory_release(registered[i]);
        fabric.ops->rail_close(rails[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_do_not_begin_at_one_port),
        cmocka_unit_test(endpoints_listen_in_the_range),
        cmocka_unit_test(a_full_range_is_said),
        cmocka_unit_test(rails_of_a_range_connect),
    };

    return cmocka_run_group_tests(tests, find_ports, NULL);
}
