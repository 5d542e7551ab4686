/* Goal: the connections that a tcp rail writes over have the requested congestion control, and no
 * other connection does. Method: two rails in this process, on loopback, in one thread; after a
 * write has completed every socket of the process is read. The requested algorithm differs from the
 * host's default. */
#include "tests/support/check.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "fabric/ofi/fabric_ofi.h"

#define BYTES    4096u
#define PATIENCE (20 * KVR_S)

struct end {
    struct kvr_rail *rail;
    struct kvr_memory *memory;
    struct kvr_endpoint *endpoint;
    char bytes[BYTES];
};

static const struct kvr_fabric_ops *ops;
static struct end source, target;

static void end_open(struct end *end, const char *congestion)
{
    struct kvr_rail_options options = {.provider = "tcp", .name = "127.0.0.1", .acknowledge = true};
    struct kvr_memory_span span = {
        .base = end->bytes, .bytes = BYTES, .local = true, .remote = true, .fd = -1};
    struct kvr_error error;

    snprintf(options.congestion, sizeof(options.congestion), "%s", congestion);
    assert_int_equal(ops->rail_open(NULL, &options, &end->rail, &error), KVR_OK);
    assert_int_equal(ops->memory_register(end->rail, &span, &end->memory, &error), KVR_OK);
    assert_int_equal(ops->endpoint_open(end->rail, &end->endpoint, &error), KVR_OK);
}

static void end_close(struct end *end)
{
    ops->endpoint_stop(end->endpoint);
    ops->endpoint_close(end->endpoint);
    ops->memory_release(end->memory);
    ops->rail_close(end->rail);
}

static unsigned look(const struct end *end, kvr_completion_kind kind)
{
    struct kvr_completion completions[4];
    unsigned count = ops->poll(end->endpoint, completions, 4), found = 0;

    for (unsigned i = 0; i < count; i++)
        found += completions[i].kind == kind;
    return found;
}

/* One write from source to target; both ends see it. */
static void write_one(void)
{
    struct kvr_remote_key key = ops->memory_key(target.memory);
    struct kvr_fabric_piece piece = {.local = source.bytes,
                                     .memory = source.memory,
                                     .remote = key.base,
                                     .key = key.key,
                                     .bytes = BYTES};
    struct kvr_fabric_write write = {
        .pieces = &piece, .piece_count = 1, .immediate = 7, .context = 1};
    kvr_ns end = kvr_clock_now() + PATIENCE;
    unsigned written = 0, arrived = 0;
    uint8_t address[KVR_ADDRESS_BYTES];
    struct kvr_error error;
    uint32_t bytes;

    ops->endpoint_address(target.endpoint, address, &bytes);
    assert_int_equal(ops->peer_insert(source.endpoint, address, bytes, &write.peer, &error),
                     KVR_OK);
    while (ops->write(source.endpoint, &write) == KVR_AGAIN && kvr_clock_now() < end) {
        (void)look(&source, KVR_COMPLETION_WRITTEN);
        (void)look(&target, KVR_COMPLETION_ARRIVED);
    }
    while ((written == 0 || arrived == 0) && kvr_clock_now() < end) {
        written += look(&source, KVR_COMPLETION_WRITTEN);
        arrived += look(&target, KVR_COMPLETION_ARRIVED);
    }
    assert_int_equal(written, 1);
    assert_int_equal(arrived, 1);
}

/* Connected sockets of this process that have it. */
static unsigned connected_with(const char *congestion)
{
    unsigned count = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage peer;
        socklen_t peer_bytes = sizeof(peer), name_bytes;
        char name[16] = "";

        name_bytes = sizeof(name) - 1;
        if (getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0 &&
            getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_bytes) == 0)
            count += strcmp(name, congestion) == 0;
    }
    return count;
}

static void hosts_own(char ret_name[16])
{
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%15s", ret_name), 1);
    fclose(file);
}

/* An algorithm that every host has, other than the host's default. */
static const char *other(void)
{
    char own[16];

    hosts_own(own);
    return strcmp(own, "reno") != 0 ? "reno" : "cubic";
}

static void the_writers_connection_has_what_was_asked_for(void **state)
{
    (void)state;
    end_open(&source, other());
    end_open(&target, "host");
    assert_int_equal(connected_with(other()), 0);
    write_one();
    assert_int_equal(connected_with(other()), 1); /* and the target's end has not */
    end_close(&source);
    end_close(&target);
}

static void without_a_wish_it_is_the_hosts(void **state)
{
    char own[16];

    (void)state;
    hosts_own(own);
    end_open(&source, "");
    end_open(&target, "host");
    write_one();
    assert_int_equal(connected_with(own), 2);
    end_close(&source);
    end_close(&target);
}

/* auto: no algorithm that paces; otherwise the host's default. */
static void bbr_is_not_left_to_chance(void **state)
{
    char own[16];

    (void)state;
    hosts_own(own);
    end_open(&source, "auto");
    end_open(&target, "host");
    write_one();
    if (strncmp(own, "bbr", 3) == 0)
        assert_int_equal(connected_with("cubic"), 1);
    else
        assert_int_equal(connected_with(own), 2);
    end_close(&source);
    end_close(&target);
}

static void a_name_that_the_host_lacks_is_refused(void **state)
{
    struct kvr_rail_options options = {
        .provider = "tcp", .name = "127.0.0.1", .congestion = "nosuch"};
    struct kvr_rail *rail;
    struct kvr_error error;

    (void)state;
    assert_int_equal(ops->rail_open(NULL, &options, &rail, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "'nosuch'"));
    assert_non_null(strstr(error.detail, "reno"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writers_connection_has_what_was_asked_for),
        cmocka_unit_test(without_a_wish_it_is_the_hosts),
        cmocka_unit_test(bbr_is_not_left_to_chance),
        cmocka_unit_test(a_name_that_the_host_lacks_is_refused),
    };
    static struct kvr_fabric fabric;

    kvr_fabric_ofi(&fabric);
    ops = fabric.ops;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
