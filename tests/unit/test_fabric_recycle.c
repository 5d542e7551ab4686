/* Goal: an endpoint ends also while a connection to it is half open. Method: raw sockets connect to
 * its listening port and send nothing before it is replaced; nothing that they do afterwards may
 * touch it. libfabric's tcp keeps such a half-open connection pointing at the closed listener. */
#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "fabric/ofi/fabric_ofi.h"
#include "tests/support/check.h"

#define STRANGERS 4

struct recycle {
    struct kvr_fabric fabric;
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
    int strangers[STRANGERS];
};

static void poll_some(const struct recycle *recycle, struct kvr_endpoint *endpoint)
{
    struct kvr_completion completions[16];

    for (int i = 0; i < 50; i++) {
        recycle->fabric.ops->poll(endpoint, completions, 16);
        usleep(200);
    }
}

static int connect_to(const struct recycle *recycle)
{
    uint8_t bytes[KVR_ADDRESS_BYTES];
    struct sockaddr_in address;
    uint32_t count;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    recycle->fabric.ops->endpoint_address(recycle->endpoint, bytes, &count);
    memcpy(&address, bytes, sizeof(address));
    assert_int_equal(address.sin_family, AF_INET);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void recycle_open(struct recycle *recycle)
{
    struct kvr_rail_options options = {.provider = "tcp", .name = "127.0.0.1"};
    struct kvr_error error;

    kvr_fabric_ofi(&recycle->fabric);
    assert_int_equal(
        recycle->fabric.ops->rail_open(recycle->fabric.self, &options, &recycle->rail, &error),
        KVR_OK);
    assert_int_equal(recycle->fabric.ops->endpoint_open(recycle->rail, &recycle->endpoint, &error),
                     KVR_OK);
    for (int i = 0; i < STRANGERS; i++)
        recycle->strangers[i] = connect_to(recycle);
}

static void recycle_once(struct recycle *recycle)
{
    struct kvr_endpoint *successor;
    struct kvr_error error;

    assert_int_equal(recycle->fabric.ops->endpoint_open(recycle->rail, &successor, &error), KVR_OK);
    recycle->fabric.ops->endpoint_stop(recycle->endpoint);
    poll_some(recycle, recycle->endpoint);
    recycle->fabric.ops->endpoint_close(recycle->endpoint);
    recycle->endpoint = successor;
}

static void recycle_done(struct recycle *recycle)
{
    for (int i = 0; i < STRANGERS; i++)
        close(recycle->strangers[i]);
    poll_some(recycle, recycle->endpoint);
    recycle->fabric.ops->endpoint_close(recycle->endpoint);
    recycle->fabric.ops->rail_close(recycle->rail);
}

static void recycle_survives_who_speaks_late(void **state)
{
    struct recycle recycle = {0};
    static const char garbage[256] = "not what a libfabric peer would say";

    (void)state;
    recycle_open(&recycle);
    poll_some(&recycle,
              recycle.endpoint); /* they are accepted, and libfabric awaits their request */
    recycle_once(&recycle);
    for (int i = 0; i < STRANGERS; i++)
        (void)!send(recycle.strangers[i], garbage, sizeof(garbage), MSG_NOSIGNAL);
    poll_some(&recycle, recycle.endpoint);
    recycle_done(&recycle);
}

static void recycle_survives_who_was_not_accepted_yet(void **state)
{
    struct recycle recycle = {0};

    (void)state;
    recycle_open(&recycle);
    recycle_once(&recycle);
    poll_some(&recycle, recycle.endpoint);
    recycle_done(&recycle);
}

static void recycle_hangs_up_on_everybody(void **state)
{
    struct recycle recycle = {0};
    char byte;

    (void)state;
    recycle_open(&recycle);
    poll_some(&recycle, recycle.endpoint);
    recycle_once(&recycle);
    for (int i = 0; i < STRANGERS; i++)
        assert_true(recv(recycle.strangers[i], &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
    recycle_done(&recycle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recycle_survives_who_speaks_late),
        cmocka_unit_test(recycle_survives_who_was_not_accepted_yet),
        cmocka_unit_test(recycle_hangs_up_on_everybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
