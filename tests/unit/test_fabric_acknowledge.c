/* Goal: on a rail that acknowledges (tcp), a write completes only when its target has it. The
 * kernel's taking the bytes completes nothing. Each write completes once, also when either end
 * closes first.
 * Method: both ends in this process, on loopback, in one thread. A target stands still by not being
 * polled, so nothing depends on the machine's speed. Each wait lasts as long as a whole test may.
 */
#include "tests/support/check.h"

#include <poll.h>

#include "base/clock.h"
#include "fabric/ofi/fabric_ofi.h"

#define PIECE    (64u << 10)
#define ASKS     16u /* so many pieces ask for an acknowledgement, of a slow rail fewer */
#define WRITES   4096u
#define PATIENCE (20 * KVR_S)
#define TARGETS  2

struct end {
    struct kvr_rail *rail;
    struct kvr_memory *memory;
    struct kvr_endpoint *endpoint;
    uint64_t peer; /* of a target: its number at the source */
    unsigned arrived;
};

struct fixture {
    const struct kvr_fabric_ops *ops;
    struct end source, targets[TARGETS];
    unsigned accepted, written, failed;
    uint8_t told[WRITES];
};

static char bytes_here[1 << 20], bytes_there[1 << 20];

static void end_open(struct fixture *fixture, struct end *end, bool acknowledge, char *bytes)
{
    struct kvr_rail_options options = {
        .provider = "tcp", .name = "127.0.0.1", .acknowledge = acknowledge};
    struct kvr_memory_span span = {
        .base = bytes, .bytes = 1 << 20, .local = true, .remote = true, .fd = -1};
    struct kvr_error error;

    assert_int_equal(fixture->ops->rail_open(NULL, &options, &end->rail, &error), KVR_OK);
    assert_int_equal(fixture->ops->memory_register(end->rail, &span, &end->memory, &error), KVR_OK);
    assert_int_equal(fixture->ops->endpoint_open(end->rail, &end->endpoint, &error), KVR_OK);
}

static void endpoint_close(const struct fixture *fixture, struct end *end)
{
    if (end->endpoint == NULL)
        return;
    fixture->ops->endpoint_stop(end->endpoint);
    fixture->ops->endpoint_close(end->endpoint);
    end->endpoint = NULL;
}

static void end_close(const struct fixture *fixture, struct end *end)
{
    endpoint_close(fixture, end);
    fixture->ops->memory_release(end->memory);
    fixture->ops->rail_close(end->rail);
}

static void fixture_open(struct fixture *fixture, bool acknowledge)
{
    static struct kvr_fabric fabric;
    struct kvr_error error;

    memset(fixture, 0, sizeof(*fixture));
    kvr_fabric_ofi(&fabric);
    fixture->ops = fabric.ops;
    end_open(fixture, &fixture->source, acknowledge, bytes_here);
    for (unsigned i = 0; i < TARGETS; i++) {
        struct end *target = &fixture->targets[i];
        uint8_t address[KVR_ADDRESS_BYTES];
        uint32_t bytes;

        end_open(fixture, target, false, bytes_there);
        fixture->ops->endpoint_address(target->endpoint, address, &bytes);
        assert_int_equal(fixture->ops->peer_insert(fixture->source.endpoint, address, bytes,
                                                   &target->peer, &error),
                         KVR_OK);
    }
}

static void fixture_close(struct fixture *fixture)
{
    end_close(fixture, &fixture->source);
    for (unsigned i = 0; i < TARGETS; i++)
        end_close(fixture, &fixture->targets[i]);
}

/* Polls the source's completions; each write has one. */
static unsigned source_look(struct fixture *fixture)
{
    struct kvr_completion completions[16];
    unsigned count = fixture->ops->poll(fixture->source.endpoint, completions, 16);

    for (unsigned i = 0; i < count; i++) {
        assert_true(completions[i].has_context);
        assert_in_range(completions[i].context, 1, fixture->accepted);
        assert_int_equal(fixture->told[completions[i].context - 1]++, 0);
        fixture->written += completions[i].kind == KVR_COMPLETION_WRITTEN;
        fixture->failed += completions[i].kind == KVR_COMPLETION_FAILED;
    }
    return count;
}

static void target_look(struct fixture *fixture, struct end *target)
{
    struct kvr_completion completions[16];
    unsigned count = fixture->ops->poll(target->endpoint, completions, 16);

    for (unsigned i = 0; i < count; i++)
        target->arrived += completions[i].kind == KVR_COMPLETION_ARRIVED;
}

static kvr_status write_one(struct fixture *fixture, const struct end *target, uint32_t bytes)
{
    struct kvr_remote_key key = fixture->ops->memory_key(target->memory);
    struct kvr_fabric_piece piece = {.local = bytes_here,
                                     .memory = fixture->source.memory,
                                     .remote = key.base,
                                     .key = key.key,
                                     .bytes = bytes};
    struct kvr_fabric_write write = {.pieces = &piece,
                                     .piece_count = 1,
                                     .peer = target->peer,
                                     .immediate = fixture->accepted,
                                     .context = fixture->accepted + 1};
    kvr_status status = fixture->ops->write(fixture->source.endpoint, &write);

    assert_true(status == KVR_OK || status == KVR_AGAIN);
    assert_in_range(fixture->accepted, 0, WRITES - 1);
    fixture->accepted += status == KVR_OK;
    return status;
}

static unsigned told(const struct fixture *fixture)
{
    return fixture->written + fixture->failed;
}

/* Writes `count` pieces, until the target has them and the source their completions. */
static void write_all(struct fixture *fixture, struct end *target, unsigned count)
{
    unsigned accepted = fixture->accepted + count, arrived = target->arrived + count;
    kvr_ns end = kvr_clock_now() + PATIENCE;

    while (told(fixture) < accepted || target->arrived < arrived) {
        assert_true(kvr_clock_now() < end);
        if (fixture->accepted < accepted)
            (void)write_one(fixture, target, PIECE);
        (void)source_look(fixture);
        target_look(fixture, target);
    }
    assert_int_equal(fixture->failed, 0);
}

/* Waits until `count` writes are complete; the targets stand still. */
static void wait_told(struct fixture *fixture, unsigned count)
{
    kvr_ns end = kvr_clock_now() + PATIENCE;

    while (told(fixture) < count) {
        assert_true(kvr_clock_now() < end);
        (void)source_look(fixture);
    }
}

static void arrive(struct fixture *fixture, struct end *target, unsigned count)
{
    kvr_ns end = kvr_clock_now() + PATIENCE;

    while (target->arrived < count) {
        assert_true(kvr_clock_now() < end);
        target_look(fixture, target);
    }
}

/* Posts writes until the rail takes no more. */
static void fill(struct fixture *fixture, struct end *target)
{
    while (write_one(fixture, target, PIECE) == KVR_OK)
        (void)source_look(fixture);
}

static void what_the_kernel_took_is_on_its_way(void **state)
{
    struct fixture fixture;
    unsigned before;

    (void)state;
    fixture_open(&fixture, true);
    write_all(&fixture, &fixture.targets[0], 100); /* the kernel's buffers grow */
    before = told(&fixture);
    fill(&fixture, &fixture.targets[0]);
    for (unsigned i = 0; i < 1000; i++)
        (void)source_look(&fixture);
    assert_in_range(told(&fixture) - before, 0, ASKS - 1);
    write_all(&fixture, &fixture.targets[0], 0);
    fixture_close(&fixture);
}

/* Proves that the case above tests something: without acknowledgements these writes complete. */
static void what_the_kernel_took_is_told_elsewhere(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_open(&fixture, false);
    write_all(&fixture, &fixture.targets[0], 100);
    for (unsigned i = 0; i < 4 * ASKS; i++)
        assert_int_equal(write_one(&fixture, &fixture.targets[0], PIECE), KVR_OK);
    wait_told(&fixture, 100 + ASKS);
    write_all(&fixture, &fixture.targets[0], 0);
    fixture_close(&fixture);
}

/* Waits as a rail group's thread does: with nothing to poll it sleeps until the descriptor is
 * readable. */
static void wait_asleep(struct fixture *fixture, unsigned count)
{
    struct pollfd readable = {.fd = fixture->ops->endpoint_wait_fd(fixture->source.endpoint),
                              .events = POLLIN};

    while (told(fixture) < count) {
        if (fixture->ops->endpoint_may_sleep(fixture->source.endpoint))
            assert_int_equal(poll(&readable, 1, (int)(PATIENCE / KVR_MS)), 1);
        (void)source_look(fixture);
    }
}

/* The acknowledgement comes while an earlier completion that waits for it is still unread. */
static void nobody_sleeps_beside_a_word_that_came(void **state)
{
    struct fixture fixture;
    struct end *target = &fixture.targets[0];

    (void)state;
    fixture_open(&fixture, true);
    write_all(&fixture, target, ASKS - 1);
    assert_int_equal(write_one(&fixture, target, PIECE), KVR_OK); /* asks */
    assert_int_equal(write_one(&fixture, target, 8), KVR_OK);     /* the kernel takes it */
    arrive(&fixture, target, ASKS + 1);
    wait_asleep(&fixture, ASKS + 1);
    fixture_close(&fixture);
}

static void one_target_does_not_wait_for_another(void **state)
{
    struct fixture fixture;
    struct end *still = &fixture.targets[0], *other = &fixture.targets[1];

    (void)state;
    fixture_open(&fixture, true);
    write_all(&fixture, other, 1);
    write_all(&fixture, still, ASKS - 1);
    assert_int_equal(write_one(&fixture, still, PIECE), KVR_OK); /* asks */
    assert_int_equal(write_one(&fixture, other, 8), KVR_OK);
    wait_told(&fixture, ASKS + 1);
    assert_int_equal(fixture.told[ASKS], 0);
    write_all(&fixture, still, 0);
    fixture_close(&fixture);
}

/* A target that takes 1 MiB in 100 ms or more: then each piece asks, and none counts as there while
 * the target stands still. */
static void a_slow_rail_asks_more_often(void **state)
{
    struct fixture fixture;
    struct end *target = &fixture.targets[0];
    unsigned before;

    (void)state;
    fixture_open(&fixture, true);
    write_all(&fixture, target, 1); /* connects */
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned piece = 0; piece < ASKS; piece++)
            assert_int_equal(write_one(&fixture, target, PIECE), KVR_OK);
        assert_int_equal(poll(NULL, 0, 100), 0);
        write_all(&fixture, target, 0);
    }
    before = told(&fixture);
    for (unsigned piece = 0; piece < ASKS / 2; piece++)
        assert_int_equal(write_one(&fixture, target, PIECE), KVR_OK);
    for (unsigned i = 0; i < 1000; i++)
        (void)source_look(&fixture);
    assert_int_equal(told(&fixture), before);
    write_all(&fixture, target, 0);
    fixture_close(&fixture);
}

/* The target may have read some of the writes, all, or none. */
static void a_target_that_ends_ends_its_writes(void **state)
{
    (void)state;
    for (unsigned looks = 0; looks < 40; looks += 13) {
        struct fixture fixture;
        struct end *target = &fixture.targets[0];

        fixture_open(&fixture, true);
        write_all(&fixture, target, 3);
        fill(&fixture, target);
        for (unsigned i = 0; i < looks; i++)
            target_look(&fixture, target);
        endpoint_close(&fixture, target);
        wait_told(&fixture, fixture.accepted);
        assert_int_not_equal(fixture.failed, 0);
        fixture.failed = 0;
        fixture.written = fixture.accepted;
        write_all(&fixture, &fixture.targets[1], 2 * ASKS);
        fixture_close(&fixture);
    }
}

/* The queue is read until it is empty, past the completions that were held back. */
static void a_source_that_ends_tells_what_it_has(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_open(&fixture, true);
    write_all(&fixture, &fixture.targets[0], ASKS - 1);
    assert_int_equal(write_one(&fixture, &fixture.targets[0], PIECE), KVR_OK); /* asks */
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(write_one(&fixture, &fixture.targets[0], 8), KVR_OK);
    fixture.ops->endpoint_stop(fixture.source.endpoint);
    while (source_look(&fixture) > 0)
        ;
    assert_int_equal(told(&fixture), fixture.accepted);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_kernel_took_is_on_its_way),
        cmocka_unit_test(what_the_kernel_took_is_told_elsewhere),
        cmocka_unit_test(nobody_sleeps_beside_a_word_that_came),
        cmocka_unit_test(one_target_does_not_wait_for_another),
        cmocka_unit_test(a_slow_rail_asks_more_often),
        cmocka_unit_test(a_target_that_ends_ends_its_writes),
        cmocka_unit_test(a_source_that_ends_tells_what_it_has),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* one case, run by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
