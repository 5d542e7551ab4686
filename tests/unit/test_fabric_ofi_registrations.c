/* Goal: registrations work beside each other and beside the rail's own thread. Method: several
 * threads register and release on one tcp rail while another polls its endpoint. libfabric takes
 * the wrong lock for its table of registrations (its issue 9148): threads stayed in it for ever. */
#include "tests/support/check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "fabric/ofi/fabric_ofi.h"
#include "fabric/ofi/fabric_ofi_state.h"

#define THREADS 4
#define HELD    32

static struct kvr_fabric fabric;
static struct kvr_rail *rail;
static uint64_t rounds;
static _Atomic bool polling;
static _Atomic unsigned failed;

static void *come_and_go(void *self)
{
    static uint8_t bytes[4096];
    struct kvr_memory_span span = {
        .base = bytes, .bytes = sizeof(bytes), .local = true, .remote = true, .fd = -1};
    struct kvr_memory *held[HELD] = {0};
    struct kvr_error error;

    for (uint64_t i = 0; i < rounds; i++) {
        struct kvr_memory **memory = &held[i % HELD];

        if (*memory != NULL)
            fabric.ops->memory_release(*memory);
        if (fabric.ops->memory_register(rail, &span, memory, &error) != KVR_OK) {
            *memory = NULL;
            atomic_fetch_add(&failed, 1);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        fabric.ops->memory_release(held[i]);
    return self;
}

static void *poll_endpoint(void *self)
{
    struct kvr_completion completions[16];

    while (atomic_load(&polling))
        (void)fabric.ops->poll(self, completions, 16);
    return self;
}

static void registrations_come_and_go_in_threads(void **state)
{
    struct kvr_rail_options options = {.provider = "tcp", .name = "127.0.0.1"};
    struct kvr_endpoint *endpoint;
    pthread_t threads[THREADS], poller;
    struct kvr_error error;

    (void)state;
    rounds = check_cases(5000, 500000);
    kvr_fabric_ofi(&fabric);
    assert_int_equal(fabric.ops->rail_open(fabric.self, &options, &rail, &error), KVR_OK);
    assert_int_equal(fabric.ops->endpoint_open(rail, &endpoint, &error), KVR_OK);
    atomic_store(&polling, true);
    assert_int_equal(pthread_create(&poller, NULL, poll_endpoint, endpoint), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&polling, false);
    pthread_join(poller, NULL);
    fabric.ops->endpoint_stop(endpoint);
    fabric.ops->endpoint_close(endpoint);
    fabric.ops->rail_close(rail);
    assert_int_equal(failed, 0);
}

/* While the rail's thread holds the table, as in a poll, a registration at once does not wait. */
static void a_registration_at_once_waits_for_nobody(void **state)
{
    static uint8_t bytes[4096];
    struct kvr_rail_options options = {.provider = "tcp", .name = "127.0.0.1"};
    struct kvr_memory_span span = {
        .base = bytes, .bytes = 4096, .remote = true, .fd = -1, .key = 4096, .at_once = true};
    struct kvr_memory *memory = NULL;
    struct kvr_error error;

    (void)state;
    kvr_fabric_ofi(&fabric);
    assert_int_equal(fabric.ops->rail_open(fabric.self, &options, &rail, &error), KVR_OK);
    ofi_lock(rail);
    assert_int_equal(fabric.ops->memory_register(rail, &span, &memory, &error), KVR_AGAIN);
    assert_null(memory);
    ofi_unlock(rail);
    assert_int_equal(fabric.ops->memory_register(rail, &span, &memory, &error), KVR_OK);
    assert_int_equal(fabric.ops->memory_key(memory).key, 4096);
    fabric.ops->memory_release(memory);
    fabric.ops->rail_close(rail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registrations_come_and_go_in_threads),
        cmocka_unit_test(a_registration_at_once_waits_for_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
