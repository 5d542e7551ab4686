/* Goal: nothing that another process of this host does through local's shared memory and sockets
 * ends, hangs or misleads us, and what is let go is let go on both sides. Method: two rails in one
 * process as a well behaved pair; one of the two is then made to write nonsense where it may. What
 * the provider promises otherwise is in test_fabric_conformance.c. */
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

#include "base/memfd.h"
#include "device/device_emulated.h"
#include "fabric/fabric_local.h"
#include "fabric/fabric_local_state.h"

#define BYTES  65536u
#define ROUNDS 1000 /* polls after which nothing more is to come */

enum side {
    WRITER,
    TARGET,
};

struct side_of {
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
    struct kvr_memory *memory;
    struct kvr_remote_key key;
    uint8_t *bytes;
    int fd;
};

struct pair {
    struct kvr_fabric fabric;
    struct side_of sides[2];
    uint64_t peer;
    unsigned written, failed, uncopied, arrived; /* uncopied: of those that failed */
    uint32_t immediate;
};

static unsigned unseen;

static void on_unseen(const struct kvr_error *error)
{
    assert_true(strlen(error->detail) > 10);
    unseen++;
}

static void side_open(struct pair *pair, enum side which)
{
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct side_of *side = &pair->sides[which];
    struct kvr_rail_options options = {.provider = "local", .copy_threads = 2, .unseen = on_unseen};
    struct kvr_memory_span span = {.bytes = BYTES, .local = true, .remote = which == TARGET};
    struct kvr_error error;

    assert_int_equal(kvr_memfd_create(which == WRITER ? "kvr-test-w" : "kvr-test-t", BYTES, "test",
                                      &side->fd, &error),
                     KVR_OK);
    side->bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, side->fd, 0);
    assert_ptr_not_equal(side->bytes, MAP_FAILED);
    memset(side->bytes, which == WRITER ? 'w' : 't', BYTES);
    span.base = side->bytes;
    span.fd = side->fd;
    assert_int_equal(ops->rail_open(NULL, &options, &side->rail, &error), KVR_OK);
    assert_int_equal(ops->memory_register(side->rail, &span, &side->memory, &error), KVR_OK);
    assert_int_equal(ops->endpoint_open(side->rail, &side->endpoint, &error), KVR_OK);
    side->key = ops->memory_key(side->memory);
}

static void connect_to_target(struct pair *pair)
{
    uint8_t address[KVR_ADDRESS_BYTES];
    struct kvr_error error;
    uint32_t bytes;

    pair->fabric.ops->endpoint_address(pair->sides[TARGET].endpoint, address, &bytes);
    assert_int_equal(pair->fabric.ops->peer_insert(pair->sides[WRITER].endpoint, address, bytes,
                                                   &pair->peer, &error),
                     KVR_OK);
}

static int setup(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    assert_non_null(pair);
    kvr_fabric_local(&pair->fabric);
    side_open(pair, TARGET);
    side_open(pair, WRITER);
    connect_to_target(pair);
    *state = pair;
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;

    for (int i = 0; i < 2; i++) {
        struct side_of *side = &pair->sides[i];

        ops->endpoint_stop(side->endpoint);
        ops->endpoint_close(side->endpoint);
        ops->memory_release(side->memory);
        ops->rail_close(side->rail);
        munmap(side->bytes, BYTES);
        close(side->fd);
    }
    free(pair);
    return 0;
}

static unsigned move(struct pair *pair)
{
    struct kvr_completion completions[8];
    unsigned moved = 0;

    for (int i = 0; i < 2; i++) {
        unsigned count = pair->fabric.ops->poll(pair->sides[i].endpoint, completions, 8);

        for (unsigned k = 0; k < count; k++) {
            pair->written += completions[k].kind == KVR_COMPLETION_WRITTEN;
            pair->failed += completions[k].kind == KVR_COMPLETION_FAILED;
            pair->uncopied += completions[k].kind == KVR_COMPLETION_FAILED &&
                              completions[k].status == KVR_COPY_FAILED;
            pair->arrived += completions[k].kind == KVR_COMPLETION_ARRIVED;
            if (completions[k].kind == KVR_COMPLETION_ARRIVED)
                pair->immediate = completions[k].immediate;
        }
        moved += count;
    }
    return moved;
}

static void settle(struct pair *pair)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        move(pair);
}

static kvr_status post(struct pair *pair, uint32_t immediate, uint64_t offset, bool more)
{
    struct kvr_fabric_piece piece = {
        .local = pair->sides[WRITER].bytes + offset,
        .memory = pair->sides[WRITER].memory,
        .remote = offset,
        .key = pair->sides[TARGET].key.key,
        .bytes = 4096,
    };
    struct kvr_fabric_write write = {.pieces = &piece,
                                     .piece_count = 1,
                                     .peer = pair->peer,
                                     .immediate = immediate,
                                     .context = immediate,
                                     .more = more};

    return pair->fabric.ops->write(pair->sides[WRITER].endpoint, &write);
}

/* A good write over the link that is there now. */
static void writes(struct pair *pair)
{
    unsigned arrived = pair->arrived, written = pair->written;

    memset(pair->sides[TARGET].bytes, 't', BYTES);
    assert_int_equal(post(pair, 77, 8192, false), KVR_OK);
    settle(pair);
    assert_int_equal(pair->arrived, arrived + 1);
    assert_int_equal(pair->written, written + 1);
    assert_int_equal(pair->immediate, 77);
    assert_int_equal(pair->sides[TARGET].bytes[8191], 't');
    assert_memory_equal(pair->sides[TARGET].bytes + 8192, pair->sides[WRITER].bytes + 8192, 4096);
    assert_int_equal(pair->sides[TARGET].bytes[8192 + 4096], 't');
}

/* The link came to its end, which both sides have seen, and a new one works. */
static void begins_anew(struct pair *pair)
{
    unsigned arrived = pair->arrived;

    settle(pair);
    assert_int_equal(pair->arrived, arrived);
    assert_int_equal(post(pair, 1, 0, false), KVR_RAIL_FAILED);
    pair->fabric.ops->peer_remove(pair->sides[WRITER].endpoint, pair->peer);
    connect_to_target(pair);
    writes(pair);
}

static struct local_target *link_of(struct pair *pair)
{
    return pair->sides[WRITER].endpoint->targets[pair->peer];
}

/* ---- a writer that writes nonsense ----------------------------------------------------------- */

/* As if the writer had put this command there itself. */
static void put(struct pair *pair, const struct local_command *command)
{
    struct local_target *link = link_of(pair);

    *local_ring_next(link->shared, link->posted) = *command;
    link->contexts[link->posted % LOCAL_WRITES] = 5;
    local_ring_post(link->shared, link->posted++);
}

static struct local_command good_command(struct pair *pair)
{
    return (struct local_command){.immediate = 9,
                                  .piece_count = 1,
                                  .pieces = {{.key = pair->sides[TARGET].key.key,
                                              .source = pair->sides[WRITER].memory->name,
                                              .bytes = 64}}};
}

static void counts_that_cannot_be_end_the_link(void **state)
{
    struct pair *pair = *state;

    writes(pair);
    link_of(pair)->shared->posted += LOCAL_WRITES + 1;
    begins_anew(pair);
    link_of(pair)->shared->posted -= 1;
    begins_anew(pair);
}

static void commands_that_cannot_be_end_the_link(void **state)
{
    static const uint32_t counts[] = {0, KVR_CHUNK_PIECES_MAX + 1, UINT32_MAX};
    struct pair *pair = *state;

    for (unsigned i = 0; i < 3; i++) {
        struct local_command command = good_command(pair);

        writes(pair);
        command.piece_count = counts[i];
        put(pair, &command);
        begins_anew(pair);
    }
}

/* Each fails, as a card's would, and the link goes on. */
static void commands_that_name_what_is_not_theirs_fail(void **state)
{
    struct pair *pair = *state;

    writes(pair);
    for (unsigned i = 0; i < 7; i++) {
        struct local_command command = good_command(pair);
        struct local_piece *piece = &command.pieces[0];
        unsigned failed = pair->failed, arrived = pair->arrived;

        piece->key ^= i == 0 ? UINT64_C(1) << 40 : 0;
        piece->key = i == 1 ? pair->sides[WRITER].key.key : piece->key;
        piece->source = i == 2 ? 12345 : piece->source;
        piece->source_offset = i == 3 ? BYTES - 63 : 0;
        piece->target_offset = i == 4 ? BYTES - 63 : i == 5 ? UINT64_MAX - 3 : 0;
        piece->bytes = i == 6 ? BYTES + 1 : 64;
        put(pair, &command);
        settle(pair);
        assert_int_equal(pair->failed, failed + 1);
        assert_int_equal(pair->arrived, arrived);
        writes(pair);
    }
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* What a stranger of our own user may send in place of HELLO and its kin. */
static void packets_that_cannot_be_end_the_link(void **state)
{
    struct pair *pair = *state;
    int unsealed = memfd_create("kvr-test-u", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    struct kvr_memory foreign = {.name = 5, .bytes = BYTES, .import = {.fd = unsealed}};
    uint64_t nonce = pair->sides[TARGET].endpoint->nonce;

    assert_int_equal(ftruncate(unsealed, BYTES), 0);
    for (unsigned i = 0; i < 9; i++) {
        int socket = local_connect(nonce, NULL);
        uint8_t byte;

        assert_true(socket >= 0);
        if (i == 0)
            assert_int_equal(send(socket, "hello", 5, 0), 5);
        if (i == 1) /* another endpoint's */
            assert_int_equal(local_say_hello(socket, nonce + 1, pair->sides[WRITER].fd), KVR_OK);
        if (i == 2) /* too small to be a link's memory */
            assert_int_equal(local_say_hello(socket, nonce, pair->sides[WRITER].fd), KVR_OK);
        if (i == 3)
            assert_int_equal(local_say_memory(socket, &foreign), KVR_OK);
        if (i == 4) { /* longer than it is */
            foreign.import.fd = pair->sides[WRITER].fd;
            foreign.bytes = UINT64_MAX - 4095;
            assert_int_equal(local_say_memory(socket, &foreign), KVR_OK);
        }
        if (i == 5) /* not on a page */
            assert_int_equal(
                local_say_memory(
                    socket, &(struct kvr_memory){.name = 5,
                                                 .bytes = 4096,
                                                 .import = {.fd = foreign.import.fd, .offset = 1}}),
                KVR_OK);
        if (i >= 6) { /* a device's: of this process alone, of no kind, without its descriptor */
            foreign.pages = true;
            foreign.import.kind = i == 6   ? KVR_DEVICE_MAPPED
                                  : i == 7 ? (kvr_device_kind)77
                                           : KVR_DEVICE_VMM;
            foreign.import.fd = i == 8 ? -1 : foreign.import.fd;
            assert_int_equal(local_say_memory(socket, &foreign), KVR_OK);
        }
        settle(pair);
        assert_int_equal(recv(socket, &byte, 1, MSG_DONTWAIT), 0); /* hung up */
        close(socket);
    }
    close(unsealed);
    writes(pair);
}

/* In another process: whether who connects is kept for longer than it takes to look at him. */
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
        skip(); /* nobody else to be */
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(setuid(65534) != 0 ? 2 : is_served(nonce));
    while (waitpid(child, &status, WNOHANG) == 0)
        move(pair);
    assert_int_equal(status, 0);
    writes(pair);
}

/* ---- a target that writes nonsense, or goes -------------------------------------------------- */

static void outcomes_that_cannot_be_fail_the_writes(void **state)
{
    struct pair *pair = *state;

    writes(pair);
    assert_int_equal(post(pair, 1, 0, false), KVR_OK);
    assert_int_equal(post(pair, 2, 0, false), KVR_OK);
    link_of(pair)->shared->done += 3;
    settle(pair);
    assert_int_equal(pair->failed, 2);
    begins_anew(pair);
}

static void a_target_that_goes_fails_the_writes(void **state)
{
    struct pair *pair = *state;
    unsigned accepted = 0;

    writes(pair);
    while (post(pair, accepted, 0, true) == KVR_OK)
        accepted++;
    assert_int_equal(accepted, LOCAL_WRITES);
    pair->fabric.ops->endpoint_stop(pair->sides[TARGET].endpoint);
    settle(pair);
    assert_int_equal(pair->failed, accepted);
    assert_int_equal(post(pair, 1, 0, false), KVR_RAIL_FAILED);
}

static unsigned mappings_of(const char *name)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned count = 0;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, name) != NULL;
    fclose(file);
    return count;
}

/* ---- a device's pages -------------------------------------------------------------------------
 */

struct paged {
    struct kvr_device *device; /* the target's */
    struct kvr_device_memory *pages;
    struct kvr_memory *memories[2];
    uint8_t *bytes[2];
    int fds[2];
};

static struct kvr_memory *paged_register(struct pair *pair, enum side which,
                                         const struct kvr_memory_span *span)
{
    struct kvr_memory *memory = NULL;
    struct kvr_error error;

    assert_int_equal(
        pair->fabric.ops->memory_register(pair->sides[which].rail, span, &memory, &error), KVR_OK);
    return memory;
}

/* Both ends as engines would give them, the source's as such a kind. */
static void paged_open(struct pair *pair, kvr_device_kind kind, uint32_t fail_promille,
                       struct paged *paged)
{
    struct kvr_device_emulated_options options = {.fail_promille = fail_promille};
    struct kvr_device_import import = {.kind = kind, .bytes = BYTES};
    struct kvr_memory_span span = {.bytes = BYTES, .kind = KVR_SPAN_PAGES, .import = &import};

    assert_int_equal(kvr_device_emulated_open(&options, &paged->device, NULL), KVR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kvr_memfd_create(i == WRITER ? "kvr-test-pw" : "kvr-test-pt", BYTES,
                                          "test", &paged->fds[i], NULL),
                         KVR_OK);
        paged->bytes[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, paged->fds[i], 0);
        assert_ptr_not_equal(paged->bytes[i], MAP_FAILED);
        memset(paged->bytes[i], i == WRITER ? 'p' : 'q', BYTES);
    }
    import.fd = kind == KVR_DEVICE_IPC ? -1 : paged->fds[WRITER];
    span.local = true;
    paged->memories[WRITER] = paged_register(pair, WRITER, &span);
    import.kind = KVR_DEVICE_VMM;
    import.fd = paged->fds[TARGET];
    assert_int_equal(paged->device->ops->import(paged->device, &import, &paged->pages, NULL),
                     KVR_OK);
    span = (struct kvr_memory_span){.bytes = BYTES,
                                    .kind = KVR_SPAN_PAGES,
                                    .remote = true,
                                    .fd = -1,
                                    .mover = paged->device,
                                    .pages = paged->pages};
    paged->memories[TARGET] = paged_register(pair, TARGET, &span);
}

struct release {
    struct pair *pair;
    struct kvr_memory *memory;
    atomic_bool done;
};

static void *release(void *self)
{
    struct release *release = self;

    release->pair->fabric.ops->memory_release(release->memory);
    atomic_store(&release->done, true);
    return NULL;
}

/* As a helper does, while the rails go on; it waits for the target. */
static void paged_release(struct pair *pair, struct paged *paged, enum side which)
{
    struct release it = {.pair = pair, .memory = paged->memories[which]};
    pthread_t helper;

    if (it.memory == NULL)
        return;
    assert_int_equal(pthread_create(&helper, NULL, release, &it), 0);
    while (!atomic_load(&it.done))
        move(pair);
    pthread_join(helper, NULL);
    paged->memories[which] = NULL;
}

static void paged_close(struct pair *pair, struct paged *paged)
{
    paged_release(pair, paged, WRITER);
    paged_release(pair, paged, TARGET);
    paged->device->ops->release(paged->device, paged->pages);
    kvr_device_close(paged->device);
    for (int i = 0; i < 2; i++) {
        munmap(paged->bytes[i], BYTES);
        close(paged->fds[i]);
    }
}

/* Two pieces, crossed; `bytes` of each. */
static void paged_post(struct pair *pair, const struct paged *paged, uint64_t bytes)
{
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    uint64_t key = ops->memory_key(paged->memories[TARGET]).key;
    uint8_t *base = NULL; /* what its byte 0 is called */
    struct kvr_fabric_piece pieces[] = {
        {.local = base,
         .memory = paged->memories[WRITER],
         .remote = 8192,
         .key = key,
         .bytes = bytes},
        {.local = base + 8192, .memory = paged->memories[WRITER], .key = key, .bytes = bytes},
    };
    struct kvr_fabric_write write = {
        .pieces = pieces, .piece_count = 2, .peer = pair->peer, .immediate = 55, .context = 55};

    assert_int_equal(ops->write(pair->sides[WRITER].endpoint, &write), KVR_OK);
    settle(pair);
}

static void a_devices_pages_are_moved_by_the_target(void **state)
{
    struct pair *pair = *state;
    struct paged paged;

    paged_open(pair, KVR_DEVICE_VMM, 0, &paged);
    paged.bytes[WRITER][8192] = 'x';
    paged_post(pair, &paged, 4096);
    assert_int_equal(pair->arrived, 1);
    assert_int_equal(pair->written, 1);
    assert_memory_equal(paged.bytes[TARGET] + 8192, paged.bytes[WRITER], 4096);
    assert_memory_equal(paged.bytes[TARGET], paged.bytes[WRITER] + 8192, 4096);
    assert_int_equal(paged.bytes[TARGET][4096], 'q');
    assert_int_equal(paged.bytes[TARGET][8192 + 4096], 'q');
    writes(pair); /* host memory beside it */
    assert_int_equal(mappings_of("kvr-test-pw"), 2);
    paged_release(pair, &paged, WRITER);
    assert_int_equal(mappings_of("kvr-test-pw"), 1); /* ours: the target's went before */
    paged_close(pair, &paged);
}

/* Asked with nothing to move, as with something: it costs the link nothing. */
static void pages_that_are_not_seen_fail_alone(void **state)
{
    struct pair *pair = *state;
    struct paged paged;

    unseen = 0;
    paged_open(pair, KVR_DEVICE_IPC, 0, &paged);
    for (unsigned i = 1; i <= 2; i++) {
        paged_post(pair, &paged, i == 1 ? 0 : 4096);
        assert_int_equal(pair->uncopied, i);
        assert_int_equal(pair->failed, i);
        assert_int_equal(pair->arrived, 0);
        assert_int_equal(unseen, 1);
    }
    assert_int_equal(paged.bytes[TARGET][0], 'q');
    writes(pair);
    paged_close(pair, &paged);
}

static void moves_that_fail_arrive_nowhere(void **state)
{
    struct pair *pair = *state;
    struct paged paged;

    paged_open(pair, KVR_DEVICE_VMM, 1000, &paged);
    paged_post(pair, &paged, 4096);
    assert_int_equal(pair->uncopied, 1);
    assert_int_equal(pair->arrived, 0);
    writes(pair);
    paged_close(pair, &paged);
}

/* A look for pages that were let go meanwhile is no nonsense. */
static void looking_too_late_costs_nothing(void **state)
{
    struct pair *pair = *state;
    struct local_command command = good_command(pair);
    struct paged paged;

    writes(pair);
    paged_open(pair, KVR_DEVICE_VMM, 0, &paged);
    paged_post(pair, &paged, 0);
    assert_int_equal(pair->failed, 0);
    command.pieces[0].source = paged.memories[WRITER]->name;
    command.pieces[0].key = pair->fabric.ops->memory_key(paged.memories[TARGET]).key;
    command.pieces[0].bytes = 0;
    pair->fabric.ops->memory_release(paged.memories[TARGET]);
    paged.memories[TARGET] = NULL;
    put(pair, &command);
    settle(pair);
    assert_int_equal(pair->uncopied, 1);
    assert_int_equal(pair->failed, 1);
    writes(pair);
    paged_close(pair, &paged);
}

/* One end is host memory: refused, as what lies outside. */
static void pages_and_host_memory_do_not_mix(void **state)
{
    struct pair *pair = *state;
    struct paged paged;

    paged_open(pair, KVR_DEVICE_VMM, 0, &paged);
    writes(pair);
    for (unsigned i = 0; i < 2; i++) {
        struct local_command command = good_command(pair);

        if (i == 0)
            command.pieces[0].key = pair->fabric.ops->memory_key(paged.memories[TARGET]).key;
        else
            command.pieces[0].source = paged.memories[WRITER]->name;
        paged_post(pair, &paged, 64); /* it is known there */
        put(pair, &command);
        settle(pair);
        assert_int_equal(pair->failed, i + 1);
        assert_int_equal(pair->uncopied, 0);
        writes(pair);
    }
    paged_close(pair, &paged);
}

/* ---- what is let go -------------------------------------------------------------------------- */

/* An engine that leaves gets its memory back although the target has mapped it and sleeps. */
static void a_released_source_is_unmapped_at_the_target(void **state)
{
    struct pair *pair = *state;
    struct kvr_memory_span span = {.bytes = BYTES, .local = true, .fd = pair->sides[WRITER].fd};
    struct pollfd awake = {.fd = pair->fabric.ops->endpoint_wait_fd(pair->sides[TARGET].endpoint),
                           .events = POLLIN};
    struct kvr_error error;

    writes(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 2); /* the writer's and the target's */
    assert_true(pair->fabric.ops->endpoint_may_sleep(pair->sides[TARGET].endpoint));
    pair->fabric.ops->memory_release(pair->sides[WRITER].memory);
    assert_int_equal(poll(&awake, 1, 5000), 1);
    settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 1);
    span.base = pair->sides[WRITER].bytes;
    assert_int_equal(pair->fabric.ops->memory_register(pair->sides[WRITER].rail, &span,
                                                       &pair->sides[WRITER].memory, &error),
                     KVR_OK);
    writes(pair); /* under a new name in the old place */
}

static void a_writer_that_goes_leaves_nothing_mapped(void **state)
{
    struct pair *pair = *state;

    writes(pair);
    pair->fabric.ops->peer_remove(pair->sides[WRITER].endpoint, pair->peer);
    settle(pair);
    assert_int_equal(mappings_of("kvr-test-w"), 1);
    assert_int_equal(mappings_of("kvrail-local"), 0);
    connect_to_target(pair);
    writes(pair);
}

static void a_source_that_is_no_memfd_is_refused(void **state)
{
    struct pair *pair = *state;
    struct kvr_memory_span span = {
        .base = pair->sides[WRITER].bytes, .bytes = BYTES, .local = true, .fd = -1};
    struct kvr_memory *memory = NULL;
    struct kvr_error error;

    assert_int_equal(
        pair->fabric.ops->memory_register(pair->sides[WRITER].rail, &span, &memory, &error),
        KVR_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "memfd"));
    assert_null(memory);
}

/* ---- sleep ----------------------------------------------------------------------------------- */

/* Each side sleeps on its descriptor and is woken by what the other does, once. */
static void sleepers_are_woken(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct kvr_endpoint *writer = pair->sides[WRITER].endpoint;
    struct kvr_endpoint *target = pair->sides[TARGET].endpoint;
    struct pollfd writer_fd = {.fd = ops->endpoint_wait_fd(writer), .events = POLLIN};
    struct pollfd target_fd = {.fd = ops->endpoint_wait_fd(target), .events = POLLIN};
    struct kvr_completion completion;

    writes(pair);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(ops->endpoint_may_sleep(target));
        assert_true(ops->endpoint_may_sleep(writer));
        assert_int_equal(poll(&target_fd, 1, 0), 0);
        assert_int_equal(post(pair, i, 0, i % 2 == 1), KVR_OK);
        if (i % 2 == 1) { /* another was promised and never came */
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
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(counts_that_cannot_be_end_the_link),
        CASE(commands_that_cannot_be_end_the_link),
        CASE(commands_that_name_what_is_not_theirs_fail),
        CASE(packets_that_cannot_be_end_the_link),
        CASE(other_users_are_turned_away),
        CASE(outcomes_that_cannot_be_fail_the_writes),
        CASE(a_target_that_goes_fails_the_writes),
        CASE(a_devices_pages_are_moved_by_the_target),
        CASE(pages_that_are_not_seen_fail_alone),
        CASE(moves_that_fail_arrive_nowhere),
        CASE(looking_too_late_costs_nothing),
        CASE(pages_and_host_memory_do_not_mix),
        CASE(a_released_source_is_unmapped_at_the_target),
        CASE(a_writer_that_goes_leaves_nothing_mapped),
        CASE(a_source_that_is_no_memfd_is_refused),
        CASE(sleepers_are_woken),
        CASE(an_endpoint_without_memory_closes_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
