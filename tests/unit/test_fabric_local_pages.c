/* Goal: between devices of one host the target moves the pages that the source lends, in one
 * allocation or in hundreds. A page that the target cannot see, a failed move and an impossible
 * request cost other transfers nothing. Method: a pair of rails of provider local, and an emulated
 * device at the target. */
#include "tests/support/check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memfd.h"
#include "device/device_emulated.h"
#include "tests/support/descriptors.h"
#include "tests/support/local_pair.h"

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

/* Both ends register memory as engines would; the source's is of the given kind. */
static void paged_open(struct pair *pair, kvr_device_kind kind, uint32_t fail_promille,
                       struct paged *paged)
{
    struct kvr_device_emulated_options options = {.fail_promille = fail_promille};
    struct kvr_device_import import = {.kind = kind, .bytes = PAIR_BYTES};
    struct kvr_memory_span span = {.bytes = PAIR_BYTES, .kind = KVR_SPAN_PAGES, .import = &import};

    assert_int_equal(kvr_device_emulated_open(&options, &paged->device, NULL), KVR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kvr_memfd_create(i == WRITER ? "kvr-test-pw" : "kvr-test-pt", PAIR_BYTES,
                                          "test", &paged->fds[i], NULL),
                         KVR_OK);
        paged->bytes[i] =
            mmap(NULL, PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, paged->fds[i], 0);
        assert_ptr_not_equal(paged->bytes[i], MAP_FAILED);
        memset(paged->bytes[i], i == WRITER ? 'p' : 'q', PAIR_BYTES);
    }
    import.fd = kind == KVR_DEVICE_IPC ? -1 : paged->fds[WRITER];
    span.local = true;
    paged->memories[WRITER] = paged_register(pair, WRITER, &span);
    import.kind = KVR_DEVICE_VMM;
    import.fd = paged->fds[TARGET];
    assert_int_equal(paged->device->ops->import(paged->device, &import, &paged->pages, NULL),
                     KVR_OK);
    span = (struct kvr_memory_span){.bytes = PAIR_BYTES,
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

/* Releases as a helper does, while the rails go on; the release waits for the target. */
static void paged_release(struct pair *pair, struct paged *paged, enum side which)
{
    struct release it = {.pair = pair, .memory = paged->memories[which]};
    pthread_t helper;

    if (it.memory == NULL)
        return;
    assert_int_equal(pthread_create(&helper, NULL, release, &it), 0);
    while (!atomic_load(&it.done))
        pair_move(pair);
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
        munmap(paged->bytes[i], PAIR_BYTES);
        close(paged->fds[i]);
    }
}

/* Posts two crossed pieces of `bytes` each. */
static void paged_post(struct pair *pair, const struct paged *paged, uint64_t bytes)
{
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    uint64_t key = ops->memory_key(paged->memories[TARGET]).key;
    uint8_t *base = NULL; /* the region's name for its byte 0 */
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
    pair_settle(pair);
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
    pair_writes(pair); /* host memory works beside it */
    assert_int_equal(mappings_of("kvr-test-pw"), 2);
    paged_release(pair, &paged, WRITER);
    assert_int_equal(mappings_of("kvr-test-pw"),
                     1); /* ours: the target has unmapped its own first */
    paged_close(pair, &paged);
}

/* Neither the probe, which moves nothing, nor a real write costs the link anything. */
static void pages_that_are_not_seen_fail_alone(void **state)
{
    struct pair *pair = *state;
    struct paged paged;

    pair_unseen = 0;
    paged_open(pair, KVR_DEVICE_IPC, 0, &paged);
    for (unsigned i = 1; i <= 2; i++) {
        paged_post(pair, &paged, i == 1 ? 0 : 4096);
        assert_int_equal(pair->uncopied, i);
        assert_int_equal(pair->failed, i);
        assert_int_equal(pair->arrived, 0);
        assert_int_equal(pair_unseen, 1);
    }
    assert_int_equal(paged.bytes[TARGET][0], 'q');
    pair_writes(pair);
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
    pair_writes(pair);
    paged_close(pair, &paged);
}

/* A probe of pages that were released meanwhile is no protocol error. */
static void looking_too_late_costs_nothing(void **state)
{
    struct pair *pair = *state;
    struct local_command command = pair_good_command(pair);
    struct paged paged;

    pair_writes(pair);
    paged_open(pair, KVR_DEVICE_VMM, 0, &paged);
    paged_post(pair, &paged, 0);
    assert_int_equal(pair->failed, 0);
    command.pieces[0].source = paged.memories[WRITER]->name;
    command.pieces[0].key = pair->fabric.ops->memory_key(paged.memories[TARGET]).key;
    command.pieces[0].bytes = 0;
    pair->fabric.ops->memory_release(paged.memories[TARGET]);
    paged.memories[TARGET] = NULL;
    pair_put(pair, &command);
    pair_settle(pair);
    assert_int_equal(pair->uncopied, 1);
    assert_int_equal(pair->failed, 1);
    pair_writes(pair);
    paged_close(pair, &paged);
}

/* One end is host memory: refused like an address outside the region. */
static void pages_and_host_memory_do_not_mix(void **state)
{
    struct pair *pair = *state;
    struct paged paged;

    paged_open(pair, KVR_DEVICE_VMM, 0, &paged);
    pair_writes(pair);
    for (unsigned i = 0; i < 2; i++) {
        struct local_command command = pair_good_command(pair);

        if (i == 0)
            command.pieces[0].key = pair->fabric.ops->memory_key(paged.memories[TARGET]).key;
        else
            command.pieces[0].source = paged.memories[WRITER]->name;
        paged_post(pair, &paged, 64); /* the target knows the pages */
        pair_put(pair, &command);
        pair_settle(pair);
        assert_int_equal(pair->failed, i + 1);
        assert_int_equal(pair->uncopied, 0);
        pair_writes(pair);
    }
    paged_close(pair, &paged);
}

/* ---- over several allocations ---------------------------------------------------------------- */

#define PAGE    4096u
#define EXTENTS 300u /* more than one packet carries */
#define START   1024u

struct spread {
    struct paged paged; /* its source memory is not used */
    struct kvr_extents *extents;
    uint8_t *bytes; /* all allocations, as the source's engine maps them */
};

static struct kvr_extents *make_extents(uint32_t count)
{
    struct kvr_extents *extents = kvr_extents_new(count);

    assert_non_null(extents);
    for (uint32_t i = 0; i < count; i++) {
        int fd = -1;

        assert_int_equal(kvr_memfd_create("kvr-extent", PAGE, "test", &fd, NULL), KVR_OK);
        kvr_extents_add(extents, fd, PAGE);
    }
    return extents;
}

static void spread_open(struct pair *pair, struct spread *spread)
{
    struct kvr_device_import import = {
        .kind = KVR_DEVICE_VMM, .fd = -1, .offset = START, .bytes = EXTENTS * PAGE - 2 * START};
    struct kvr_memory_span span = {
        .bytes = import.bytes, .local = true, .kind = KVR_SPAN_PAGES, .import = &import};

    pair_writes(pair); /* the link is open: from here on its descriptors can be counted */
    pair->arrived = 0;
    paged_open(pair, KVR_DEVICE_VMM, 0, &spread->paged);
    paged_release(pair, &spread->paged, WRITER);
    spread->extents = make_extents(EXTENTS);
    spread->bytes =
        mmap(NULL, EXTENTS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (uint32_t i = 0; i < EXTENTS; i++) {
        assert_ptr_not_equal(mmap(spread->bytes + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_FIXED, spread->extents->at[i].fd, 0),
                             MAP_FAILED);
        memset(spread->bytes + i * PAGE, (int)(1 + i % 251), PAGE);
    }
    import.extents = spread->extents;
    spread->paged.memories[WRITER] = paged_register(pair, WRITER, &span);
    pair_settle(pair); /* the link is open, with its descriptor */
}

static void spread_close(struct pair *pair, struct spread *spread)
{
    paged_close(pair, &spread->paged);
    munmap(spread->bytes, EXTENTS * PAGE);
    kvr_extents_release(spread->extents);
}

/* Writes from an offset in the source's memory to the same offset, modulo its size, in the
 * target's. */
static kvr_status spread_post(struct pair *pair, const struct spread *spread, uint64_t from,
                              uint64_t bytes)
{
    struct kvr_memory *target = spread->paged.memories[TARGET];
    struct kvr_fabric_piece piece = {.local = (void *)(uintptr_t)from,
                                     .memory = spread->paged.memories[WRITER],
                                     .remote = from % PAIR_BYTES,
                                     .key = pair->fabric.ops->memory_key(target).key,
                                     .bytes = bytes};
    struct kvr_fabric_write write = {
        .pieces = &piece, .piece_count = 1, .peer = pair->peer, .immediate = 55, .context = 55};

    return pair->fabric.ops->write(pair->sides[WRITER].endpoint, &write);
}

static void spread_arrives(struct pair *pair, const struct spread *spread, uint64_t from,
                           uint64_t bytes)
{
    unsigned arrived = pair->arrived;

    assert_int_equal(spread_post(pair, spread, from, bytes), KVR_OK);
    pair_settle(pair);
    assert_int_equal(pair->arrived, arrived + 1);
    assert_memory_equal(spread->paged.bytes[TARGET] + from % PAIR_BYTES,
                        spread->bytes + START + from, bytes);
}

static void pages_over_many_allocations_are_moved(void **state)
{
    struct pair *pair = *state;
    struct spread spread;
    uint32_t before;

    spread_open(pair, &spread);
    before = descriptors();
    for (uint64_t from = 0; from + 3 * PAGE < EXTENTS * PAGE - 2 * START; from += 4096 * 11)
        if (from % PAIR_BYTES + 3 * PAGE <= PAIR_BYTES)
            spread_arrives(pair, &spread, from, 3 * PAGE);
    spread_arrives(pair, &spread, EXTENTS * PAGE - 2 * START - 64, 64);
    pair_writes(pair); /* host memory works beside it */
    assert_int_equal(mappings_of("kvr-extent"), 2 * EXTENTS);
    paged_release(pair, &spread.paged, WRITER);
    assert_int_equal(mappings_of("kvr-extent"),
                     EXTENTS); /* ours: the target has unmapped its own first */
    assert_int_equal(descriptors(), before);
    spread_close(pair, &spread);
}

/* The target's socket takes only some of the descriptors at a time: none is lost, none comes twice.
 */
static void a_target_that_is_slow_gets_them_in_turns(void **state)
{
    struct pair *pair = *state;
    int least = 1;
    struct spread spread;
    uint32_t before, turns = 0;
    kvr_status status;

    spread_open(pair, &spread);
    before = descriptors();
    assert_int_equal(
        setsockopt(link_of(pair)->socket, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    while ((status = spread_post(pair, &spread, 0, PAGE)) == KVR_AGAIN && turns++ < 100)
        pair_settle(pair);
    assert_int_equal(status, KVR_OK);
    assert_true(turns > 0);
    pair_settle(pair);
    assert_int_equal(pair->arrived, 1);
    assert_memory_equal(spread.paged.bytes[TARGET], spread.bytes + START, PAGE);
    spread_arrives(pair, &spread, 299 * PAGE - 2 * START, PAGE);
    paged_release(pair, &spread.paged, WRITER);
    assert_int_equal(descriptors(), before);
    spread_close(pair, &spread);
}

/* Only some descriptors were sent when the engine took its memory back. */
static void what_was_told_in_part_is_forgotten(void **state)
{
    struct pair *pair = *state;
    int least = 1;
    struct spread spread;
    uint32_t before;

    spread_open(pair, &spread);
    before = descriptors();
    assert_int_equal(
        setsockopt(link_of(pair)->socket, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    assert_int_equal(spread_post(pair, &spread, 0, PAGE), KVR_AGAIN);
    pair_settle(pair);
    assert_true(descriptors() > before);
    paged_release(pair, &spread.paged, WRITER);
    pair_settle(pair);
    assert_int_equal(descriptors(), before);
    pair_writes(pair);
    spread_close(pair, &spread);
}

/* This case must come last: the lowered limit stays low. */
static void pages_that_nobody_may_hold_are_not_seen(void **state)
{
    struct pair *pair = *state;
    struct rlimit low;
    struct spread spread;
    uint32_t before;

    spread_open(pair, &spread);
    pair_unseen = 0;
    before = descriptors();
    low.rlim_cur = low.rlim_max = before + KVR_PACKET_FDS_MAX + 32;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (unsigned i = 0; i < 50 && pair->failed == 0; i++) {
        (void)spread_post(pair, &spread, 0, PAGE); /* too many under way: retried */
        pair_settle(pair);
    }
    assert_int_equal(pair->failed, 1);
    assert_int_equal(pair->uncopied, 1);
    assert_int_equal(pair_unseen, 1);
    assert_int_equal(descriptors(), before);
    pair_writes(pair); /* the link goes on */
    spread_close(pair, &spread);
}

/* Sends each allocation under another name, and no pages that use it: the list that the target must
 * search grows too long. */
static void tell_too_many(struct pair *pair, struct kvr_extents *extents)
{
    struct kvr_memory memory = {.import = {.kind = KVR_DEVICE_VMM, .fd = -1, .extents = extents}};
    int socket = local_connect(pair->sides[TARGET].endpoint->nonce, NULL);
    uint32_t before = descriptors();
    uint8_t byte;

    extents->count = 1;
    extents->at[0].bytes = PAGE;
    for (memory.name = 1; memory.name <= 513; memory.name++) {
        uint32_t said = 0;

        if (local_say_extents(socket, &memory, &said) != KVR_OK)
            break;
        if (memory.name % 32 == 0)
            pair_settle(pair);
    }
    extents->count = 4;
    pair_settle(pair);
    assert_int_equal(recv(socket, &byte, 1, MSG_DONTWAIT), 0); /* the link hung up */
    close(socket);
    pair_settle(pair);
    assert_int_equal(descriptors(), before - 1);
}

/* Allocations that a stranger under our own user may announce. */
static void extents_that_cannot_be_end_the_link(void **state)
{
    struct pair *pair = *state;
    struct kvr_extents *extents = make_extents(4);
    uint64_t nonce = pair->sides[TARGET].endpoint->nonce;
    uint32_t before;

    pair_writes(pair); /* opens the link */
    before = descriptors();
    for (unsigned i = 0; i < 6; i++) {
        struct kvr_memory memory = {.name = i == 3 ? 0 : 5,
                                    .bytes = 4 * PAGE,
                                    .pages = true,
                                    .import = {.kind = i == 1 ? KVR_DEVICE_DMABUF : KVR_DEVICE_VMM,
                                               .fd = i == 4 ? extents->at[0].fd : -1,
                                               .extents = extents}};
        int socket = local_connect(nonce, NULL);
        uint32_t said = i == 2 ? 1 : 0; /* the first of them never came */
        uint8_t byte;

        assert_true(socket >= 0);
        if (i != 0) /* 0: no allocations came first */
            assert_int_equal(local_say_extents(socket, &memory, &said), KVR_OK);
        extents->count -= i == 5; /* fewer than were sent */
        if (i != 2 && i != 3)
            assert_int_equal(local_say_memory(socket, &memory), KVR_OK);
        extents->count += i == 5;
        pair_settle(pair);
        assert_int_equal(recv(socket, &byte, 1, MSG_DONTWAIT), 0); /* the link hung up */
        close(socket);
        pair_settle(pair);
        assert_int_equal(descriptors(), before);
    }
    pair_writes(pair);
    tell_too_many(pair, extents);
    kvr_extents_release(extents);
    pair_writes(pair);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_devices_pages_are_moved_by_the_target),  CASE(pages_that_are_not_seen_fail_alone),
        CASE(moves_that_fail_arrive_nowhere),           CASE(looking_too_late_costs_nothing),
        CASE(pages_and_host_memory_do_not_mix),         CASE(pages_over_many_allocations_are_moved),
        CASE(a_target_that_is_slow_gets_them_in_turns), CASE(what_was_told_in_part_is_forgotten),
        CASE(pages_that_nobody_may_hold_are_not_seen),  CASE(extents_that_cannot_be_end_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
