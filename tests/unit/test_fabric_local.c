/* Goal: another process of this host reaches us through local's shared memory and sockets; nothing
 * that it does there ends, hangs or misleads us. Released memory is unmapped on both sides. Method:
 * two rails in one process as a well-behaved pair; then one of the two writes nonsense where it
 * may. The provider's other promises are in test_fabric_conformance.c. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/local_pair.h"

/* ---- a writer that writes nonsense ----------------------------------------------------------- */

static void counts_that_cannot_be_end_the_link(void **state)
{
    struct pair *pair = *state;

    pair_writes(pair);
    link_of(pair)->shared->posted += LOCAL_WRITES + 1;
    pair_begins_anew(pair);
    link_of(pair)->shared->posted -= 1;
    pair_begins_anew(pair);
}

static void commands_that_cannot_be_end_the_link(void **state)
{
    static const uint32_t counts[] = {0, KVR_CHUNK_PIECES_MAX + 1, UINT32_MAX};
    struct pair *pair = *state;

    for (unsigned i = 0; i < 3; i++) {
        struct local_command command = pair_good_command(pair);

        pair_writes(pair);
        command.piece_count = counts[i];
        pair_put(pair, &command);
        pair_begins_anew(pair);
    }
}

/* Each fails as a card's write would, and the link goes on. */
static void commands_that_name_what_is_not_theirs_fail(void **state)
{
    struct pair *pair = *state;

    pair_writes(pair);
    for (unsigned i = 0; i < 7; i++) {
        struct local_command command = pair_good_command(pair);
        struct local_piece *piece = &command.pieces[0];
        unsigned failed = pair->failed, arrived = pair->arrived;

        piece->key ^= i == 0 ? UINT64_C(1) << 40 : 0;
        piece->key = i == 1 ? pair->sides[WRITER].key.key : piece->key;
        piece->source = i == 2 ? 12345 : piece->source;
        piece->source_offset = i == 3 ? PAIR_BYTES - 63 : 0;
        piece->target_offset = i == 4 ? PAIR_BYTES - 63 : i == 5 ? UINT64_MAX - 3 : 0;
        piece->bytes = i == 6 ? PAIR_BYTES + 1 : 64;
        pair_put(pair, &command);
        pair_settle(pair);
        assert_int_equal(pair->failed, failed + 1);
        assert_int_equal(pair->arrived, arrived);
        pair_writes(pair);
    }
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* Packets that a stranger under our own user may send in place of HELLO and its kin. */
static void packets_that_cannot_be_end_the_link(void **state)
{
    struct pair *pair = *state;
    int unsealed = memfd_create("kvr-test-u", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    struct kvr_memory foreign = {.name = 5, .bytes = PAIR_BYTES, .import = {.fd = unsealed}};
    uint64_t nonce = pair->sides[TARGET].endpoint->nonce;

    assert_int_equal(ftruncate(unsealed, PAIR_BYTES), 0);
    for (unsigned i = 0; i < 9; i++) {
        int socket = local_connect(nonce, NULL);
        uint8_t byte;

        assert_true(socket >= 0);
        if (i == 0)
            assert_int_equal(send(socket, "hello", 5, 0), 5);
        if (i == 1) /* another endpoint's nonce */
            assert_int_equal(local_say_hello(socket, nonce + 1, pair->sides[WRITER].fd), KVR_OK);
        if (i == 2) /* too small for a link's memory */
            assert_int_equal(local_say_hello(socket, nonce, pair->sides[WRITER].fd), KVR_OK);
        if (i == 3)
            assert_int_equal(local_say_memory(socket, &foreign), KVR_OK);
        if (i == 4) { /* longer than the file is */
            foreign.import.fd = pair->sides[WRITER].fd;
            foreign.bytes = UINT64_MAX - 4095;
            assert_int_equal(local_say_memory(socket, &foreign), KVR_OK);
        }
        if (i == 5) /* not on a page's boundary */
            assert_int_equal(
                local_say_memory(
                    socket, &(struct kvr_memory){.name = 5,
                                                 .bytes = 4096,
                                                 .import = {.fd = foreign.import.fd, .offset = 1}}),
                KVR_OK);
        if (i >= 6) { /* device memory: of this process alone, of an unknown kind, without its
                         descriptor */
            foreign.pages = true;
            foreign.import.kind = i == 6   ? KVR_DEVICE_MAPPED
                                  : i == 7 ? (kvr_device_kind)77
                                           : KVR_DEVICE_VMM;
            foreign.import.fd = i == 8 ? -1 : foreign.import.fd;
            assert_int_equal(local_say_memory(socket, &foreign), KVR_OK);
        }
        pair_settle(pair);
        assert_int_equal(recv(socket, &byte, 1, MSG_DONTWAIT), 0); /* the link hung up */
        close(socket);
    }
    close(unsealed);
    pair_writes(pair);
}

/* Runs in another process: whether the endpoint keeps its connection open for longer than the check
 * of its user takes. */
static int is_served(uint64_t nonce)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
                          "kvrail-local-%016" PRIx64, nonce);
    uint8_t byte;

    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0)
        return 3;
    return poll(&end, 1, 5000) != 1 || recv(fd, &byte, 1, 0) != 0;
}

static void other_users_are_turned_away(void **state)
{
    struct pair *pair = *state;
    uint64_t nonce = pair->sides[TARGET].endpoint->nonce;
    int status = 0;
    pid_t child;

    if (geteuid() != 0)
        skip(); /* without privilege there is no other user to become */
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(setuid(65534) != 0 ? 2 : is_served(nonce));
    while (waitpid(child, &status, WNOHANG) == 0)
        pair_move(pair);
    assert_int_equal(status, 0);
    pair_writes(pair);
}

/* ---- a target that writes nonsense, or goes -------------------------------------------------- */

static void outcomes_that_cannot_be_fail_the_writes(void **state)
{
    struct pair *pair = *state;

    pair_writes(pair);
    assert_int_equal(pair_post(pair, 1, 0, false), KVR_OK);
    assert_int_equal(pair_post(pair, 2, 0, false), KVR_OK);
    link_of(pair)->shared->done += 3;
    pair_settle(pair);
    assert_int_equal(pair->failed, 2);
    pair_begins_anew(pair);
}

static void a_target_that_goes_fails_the_writes(void **state)
{
    struct pair *pair = *state;
    unsigned accepted = 0;

    pair_writes(pair);
    while (pair_post(pair, accepted, 0, true) == KVR_OK)
        accepted++;
    assert_int_equal(accepted, LOCAL_WRITES);
    pair->fabric.ops->endpoint_stop(pair->sides[TARGET].endpoint);
    pair_settle(pair);
    assert_int_equal(pair->failed, accepted);
    assert_int_equal(pair_post(pair, 1, 0, false), KVR_RAIL_FAILED);
}

/* ---- releases -------------------------------------------------------------------------------- */

/* Mapping does not wait for the first write. It covers memory from before the link, and memory that
 * is registered later, while the target sleeps. */
static void a_source_is_mapped_before_its_first_write(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct kvr_endpoint *target = pair->sides[TARGET].endpoint;
    struct pollfd awake = {.fd = ops->endpoint_wait_fd(target), .events = POLLIN};
    struct kvr_memory_span span = {.base = pair->sides[WRITER].bytes,
                                   .bytes = PAIR_BYTES,
                                   .local = true,
                                   .fd = pair->sides[WRITER].fd};
    struct kvr_error error;

    pair_settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 2); /* the writer's and the target's */
    ops->memory_release(pair->sides[WRITER].memory);
    pair_settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 1);
    assert_true(ops->endpoint_may_sleep(target));
    assert_int_equal(poll(&awake, 1, 0), 0);
    assert_int_equal(
        ops->memory_register(pair->sides[WRITER].rail, &span, &pair->sides[WRITER].memory, &error),
        KVR_OK);
    assert_int_equal(poll(&awake, 1, 5000), 1);
    pair_settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 2);
    pair_writes(pair);
    assert_false(target->writers[0]->looked); /* no write had to look for memory */
}

/* An engine that leaves gets its memory back although the target has mapped it and sleeps. */
static void a_released_source_is_unmapped_at_the_target(void **state)
{
    struct pair *pair = *state;
    struct kvr_memory_span span = {
        .bytes = PAIR_BYTES, .local = true, .fd = pair->sides[WRITER].fd};
    struct pollfd awake = {.fd = pair->fabric.ops->endpoint_wait_fd(pair->sides[TARGET].endpoint),
                           .events = POLLIN};
    struct kvr_error error;

    pair_writes(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 2); /* the writer's and the target's */
    assert_true(pair->fabric.ops->endpoint_may_sleep(pair->sides[TARGET].endpoint));
    pair->fabric.ops->memory_release(pair->sides[WRITER].memory);
    assert_int_equal(poll(&awake, 1, 5000), 1);
    pair_settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 1);
    span.base = pair->sides[WRITER].bytes;
    assert_int_equal(pair->fabric.ops->memory_register(pair->sides[WRITER].rail, &span,
                                                       &pair->sides[WRITER].memory, &error),
                     KVR_OK);
    pair_writes(pair); /* a new name, at the old address */
}

static void a_writer_that_goes_leaves_nothing_mapped(void **state)
{
    struct pair *pair = *state;

    pair_writes(pair);
    pair->fabric.ops->peer_remove(pair->sides[WRITER].endpoint, pair->peer);
    pair_settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 1);
    assert_int_equal(mappings_of("kvrail-local"), 0);
    connect_to_target(pair);
    pair_writes(pair);
}

static void a_source_that_is_no_memfd_is_refused(void **state)
{
    struct pair *pair = *state;
    struct kvr_memory_span span = {
        .base = pair->sides[WRITER].bytes, .bytes = PAIR_BYTES, .local = true, .fd = -1};
    struct kvr_memory *memory = NULL;
    struct kvr_error error;

    assert_int_equal(
        pair->fabric.ops->memory_register(pair->sides[WRITER].rail, &span, &memory, &error),
        KVR_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "memfd"));
    assert_null(memory);
}

/* ---- sleep ----------------------------------------------------------------------------------- */

/* Each side sleeps on its descriptor, and an act of the other side wakes it once. */
static void sleepers_are_woken(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct kvr_endpoint *writer = pair->sides[WRITER].endpoint;
    struct kvr_endpoint *target = pair->sides[TARGET].endpoint;
    struct pollfd writer_fd = {.fd = ops->endpoint_wait_fd(writer), .events = POLLIN};
    struct pollfd target_fd = {.fd = ops->endpoint_wait_fd(target), .events = POLLIN};
    struct kvr_completion completion;

    pair_writes(pair);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(ops->endpoint_may_sleep(target));
        assert_true(ops->endpoint_may_sleep(writer));
        assert_int_equal(poll(&target_fd, 1, 0), 0);
        assert_int_equal(pair_post(pair, i, 0, i % 2 == 1), KVR_OK);
        if (i % 2 == 1) { /* another write was promised and never came */
            assert_int_equal(poll(&target_fd, 1, 0), 0);
            (void)ops->endpoint_may_sleep(writer);
        }
        assert_int_equal(poll(&target_fd, 1, 5000), 1);
        assert_int_equal(poll(&writer_fd, 1, 0), 0);
        assert_int_equal(ops->poll(target, &completion, 1), 1);
        assert_int_equal(poll(&writer_fd, 1, 5000), 1);
        assert_false(ops->endpoint_may_sleep(writer));
        assert_int_equal(ops->poll(writer, &completion, 1), 1);
    }
}

/* A polling end finds completions without a bell. An end that is rung finds the bytes there
 * already. */
static void who_is_awake_is_not_rung(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct kvr_endpoint *writer = pair->sides[WRITER].endpoint;
    struct kvr_endpoint *target = pair->sides[TARGET].endpoint;
    struct pollfd writer_fd = {.fd = ops->endpoint_wait_fd(writer), .events = POLLIN};
    struct pollfd target_fd = {.fd = ops->endpoint_wait_fd(target), .events = POLLIN};
    struct kvr_completion completion;

    pair_writes(pair);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(ops->endpoint_may_sleep(target));
        assert_true(ops->endpoint_may_sleep(writer));
        assert_int_equal(ops->poll(target, &completion, 1), 0); /* something else woke it */
        assert_int_equal(ops->poll(writer, &completion, 1), 0);
        assert_int_equal(pair_post(pair, i, 0, false), KVR_OK);
        assert_int_equal(poll(&target_fd, 1, 0), 0);
        assert_int_equal(ops->poll(target, &completion, 1), 1);
        assert_int_equal(poll(&writer_fd, 1, 0), 0);
        assert_int_equal(ops->poll(writer, &completion, 1), 1);
        assert_true(ops->endpoint_may_sleep(target));
        assert_int_equal(pair_post(pair, i, 0, false), KVR_OK);
        assert_int_equal(ops->poll(target, &completion, 1), 1);
        assert_int_equal(poll(&target_fd, 1, 0), 1);
        assert_true(ops->endpoint_may_sleep(target));
        assert_int_equal(poll(&target_fd, 1, 0), 0);
        pair_settle(pair);
    }
}

/* A target that always has something to copy still reads its sockets. */
static void who_is_busy_hears_too(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct kvr_memory_span span = {.base = pair->sides[WRITER].bytes,
                                   .bytes = PAIR_BYTES,
                                   .local = true,
                                   .fd = pair->sides[WRITER].fd};
    struct kvr_memory *other = NULL;
    struct kvr_completion completion;
    struct kvr_error error;
    unsigned polls = 0;

    assert_int_equal(ops->memory_register(pair->sides[WRITER].rail, &span, &other, &error), KVR_OK);
    pair_settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 3);
    ops->memory_release(other);
    for (; mappings_of("kvr-test-w") == 3 && polls < 200; polls++) {
        assert_int_equal(pair_post(pair, polls, 0, false), KVR_OK);
        assert_int_equal(ops->poll(pair->sides[TARGET].endpoint, &completion, 1), 1);
        assert_int_equal(ops->poll(pair->sides[WRITER].endpoint, &completion, 1), 1);
    }
    assert_true(polls > 0 && polls < 200);
}

struct local_batch *__real_local_batch_new(void);
struct local_batch *__wrap_local_batch_new(void);
static bool no_batches;

struct local_batch *__wrap_local_batch_new(void)
{
    return no_batches ? NULL : __real_local_batch_new();
}

static void an_endpoint_without_memory_closes_nothing_else(void **state)
{
    struct pair *pair = *state;
    struct kvr_endpoint *endpoint = NULL;
    int first = dup(pair->sides[WRITER].fd), outer = dup(0);
    struct kvr_error error;
    kvr_status status;
    bool open;

    assert_true(first >= 0 && dup2(first, 0) == 0);
    no_batches = true;
    status = pair->fabric.ops->endpoint_open(pair->sides[WRITER].rail, &endpoint, &error);
    no_batches = false;
    open = fcntl(0, F_GETFD) >= 0;
    if (outer >= 0)
        (void)dup2(outer, 0);
    close(outer);
    close(first);
    assert_int_equal(status, KVR_NO_MEMORY);
    assert_true(open);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        CASE(counts_that_cannot_be_end_the_link),
        CASE(commands_that_cannot_be_end_the_link),
        CASE(commands_that_name_what_is_not_theirs_fail),
        CASE(packets_that_cannot_be_end_the_link),
        CASE(other_users_are_turned_away),
        CASE(outcomes_that_cannot_be_fail_the_writes),
        CASE(a_target_that_goes_fails_the_writes),
        CASE(a_source_is_mapped_before_its_first_write),
        CASE(a_released_source_is_unmapped_at_the_target),
        CASE(a_writer_that_goes_leaves_nothing_mapped),
        CASE(a_source_that_is_no_memfd_is_refused),
        CASE(sleepers_are_woken),
        CASE(who_is_awake_is_not_rung),
        CASE(who_is_busy_hears_too),
        CASE(an_endpoint_without_memory_closes_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
