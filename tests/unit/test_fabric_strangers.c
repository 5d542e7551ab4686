/* Goal: who connects to a rail's port and hangs up leaves nothing behind. Method: raw sockets that
 * say too little or nothing, each before a poll of the endpoint with an old EAGAIN in errno, which
 * libfabric's tcp takes for that connection's. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "fabric/fabric_ofi.h"

#define STRANGERS 20

static unsigned descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void visit(const struct kvr_fabric *fabric, struct kvr_endpoint *endpoint, unsigned bytes)
{
    struct kvr_completion completions[16];
    uint8_t name[KVR_ADDRESS_BYTES];
    struct sockaddr_in address;
    uint32_t name_bytes;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fabric->ops->endpoint_address(endpoint, name, &name_bytes);
    memcpy(&address, name, sizeof(address));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, "GET / HTTP/1.1", bytes, 0), bytes);
    close(fd);
    for (unsigned i = 0; i < 20; i++) {
        errno = EAGAIN;
        (void)fabric->ops->poll(endpoint, completions, 16);
        usleep(200);
    }
}

static void strangers_leave_nothing_behind(void **state)
{
    struct kvr_rail_options options = {.provider = "tcp", .name = "127.0.0.1"};
    struct kvr_endpoint *endpoint;
    struct kvr_fabric fabric;
    struct kvr_rail *rail;
    struct kvr_error error;
    unsigned before;

    (void)state;
    kvr_fabric_ofi(&fabric);
    assert_int_equal(fabric.ops->rail_open(fabric.self, &options, &rail, &error), KVR_OK);
    assert_int_equal(fabric.ops->endpoint_open(rail, &endpoint, &error), KVR_OK);
    visit(&fabric, endpoint, 1);
    before = descriptors();
    for (unsigned i = 0; i < STRANGERS; i++)
        visit(&fabric, endpoint, i % 2 == 0 ? 0 : 3);
    for (unsigned tries = 0; tries < 100 && descriptors() > before; tries++)
        visit(&fabric, endpoint, 1);
    assert_in_range(descriptors(), 0, before);
    fabric.ops->endpoint_stop(endpoint);
    fabric.ops->endpoint_close(endpoint);
    fabric.ops->rail_close(rail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strangers_leave_nothing_behind)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
