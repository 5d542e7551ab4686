/* Goal: a region is taken only when no act of its engine can kill the agent; it is registered on
 * every rail, and an error names the remedy. Method: memfds good and bad, on a fabric that
 * registers on paper. */
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfd.h"
#include "device/stage.h"
#include "fabric/region.h"

#define BYTES (64u << 10)
#define HUGE  (2u << 20)

struct kvr_rail {
    uint32_t registered, limit;
    bool refuses_dmabuf;
    struct kvr_rail_facts facts;
};

struct kvr_memory {
    struct kvr_rail *rail;
    void *base;
    uint64_t bytes;
    bool local, remote;
    struct kvr_memory_span span;
};

static kvr_status fake_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                struct kvr_memory **ret_memory, struct kvr_error *error)
{
    if (rail->registered == rail->limit)
        return kvr_error_set(error, KVR_SYSTEM, "fake", "the limit of locked memory");
    if (rail->refuses_dmabuf && span->kind == KVR_SPAN_DMABUF)
        return kvr_error_set(error, KVR_SYSTEM, "fake", "no dmabuf today");
    *ret_memory = malloc(sizeof(**ret_memory));
    **ret_memory =
        (struct kvr_memory){rail, span->base, span->bytes, span->local, span->remote, *span};
    rail->registered++;
    return KVR_OK;
}

static void fake_release(struct kvr_memory *memory)
{
    memory->rail->registered--;
    free(memory);
}

static struct kvr_remote_key fake_key(const struct kvr_memory *memory)
{
    return (struct kvr_remote_key){memory->remote ? (uintptr_t)memory : 0, (uintptr_t)memory->base};
}

static const struct kvr_rail_facts *fake_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

static const struct kvr_fabric_ops ops = {.rail_facts = fake_facts,
                                          .memory_register = fake_register,
                                          .memory_release = fake_release,
                                          .memory_key = fake_key};
static const struct kvr_fabric fabric = {.ops = &ops};
static struct kvr_rail rails[3];
static struct kvr_rail *const rail_list[3] = {&rails[0], &rails[1], &rails[2]};

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        rails[i] = (struct kvr_rail){.limit = 1};
    return 0;
}

static int make_memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("region", MFD_ALLOW_SEALING | MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Tries without a fault whether this process may write to a source's region. */
static bool source_is_writable(void)
{
    struct kvr_region_layout layout = {.bytes = BYTES};
    int fd = make_memfd(BYTES, F_SEAL_SHRINK), zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct kvr_region *region = NULL;
    struct kvr_error error;
    bool writable;

    assert_int_equal(kvr_region_open_memfd(&fabric, rail_list, 3, &layout, fd, 0, true,
                                           KVR_REMOTE_NONE, &region, &error),
                     KVR_OK);
    writable = read(zeros, region->base, 1) == 1;
    close(zeros);
    kvr_region_release(&fabric, region);
    return writable;
}

static void a_source_is_mapped_for_reading_where_rails_allow_it(void **state)
{
    (void)state;
    assert_false(source_is_writable());
    rails[2].facts.pins_writable = true;
    assert_true(source_is_writable());
}

static kvr_status open_fd(int fd, uint64_t bytes, uint64_t fd_offset,
                          struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_region_layout layout = {.region = 7, .bytes = bytes};

    return kvr_region_open_memfd(&fabric, rail_list, 3, &layout, fd, fd_offset, true,
                                 KVR_REMOTE_ALWAYS, ret_region, error);
}

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* The engine has used the first half of its memory: the agent touches that half without faults. The
 * other half is not allocated for it. */
static void what_is_there_is_mapped_at_once(void **state)
{
    enum { PAGES = 512, PAGE = 4096 };
    int fd = make_memfd(PAGES * PAGE, F_SEAL_SHRINK), again = dup(fd);
    uint8_t *engine = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct kvr_region *region = NULL;
    struct kvr_error error;
    struct stat before, after;
    long counted;

    (void)state;
    memset(engine, 1, PAGES / 2 * PAGE);
    assert_int_equal(fstat(fd, &before), 0);
    if (madvise(engine, PAGE, 22) != 0) /* MADV_POPULATE_READ: this kernel is too old */
        skip();
    assert_int_equal(open_fd(fd, PAGES * PAGE, 0, &region, &error), KVR_OK);
    assert_int_equal(fstat(again, &after), 0);
    assert_int_equal(after.st_blocks, before.st_blocks);
    counted = faults();
    for (unsigned i = 0; i < PAGES / 2; i++)
        region->base[i * PAGE] = 2;
    if (getenv("KVRAIL_SANITIZE") == NULL || getenv("KVRAIL_SANITIZE")[0] == '\0')
        assert_true(faults() - counted < PAGES / 4); /* a sanitizer causes faults of its own */
    kvr_region_release(&fabric, region);
    munmap(engine, PAGES * PAGE);
    close(again);
}

/* A part of a huge page cannot be unmapped alone. */
static void huge_pages_are_let_go(void **state)
{
    int fd = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC);
    struct kvr_region *region = NULL;
    struct kvr_error error;
    unsigned char there;
    uint8_t *base;

    (void)state;
    if (fd < 0 || ftruncate(fd, 2 * HUGE) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0 ||
        open_fd(fd, HUGE + 4096, 0, &region, &error) != KVR_OK)
        skip(); /* this host has no huge page free: /proc/sys/vm/nr_hugepages */
    base = region->base;
    assert_int_equal(mincore(base, 1, &there), 0);
    kvr_region_release(&fabric, region);
    assert_int_equal(mincore(base, 1, &there), -1);
}

/* ---- huge pages, on hosts that have none: the kernel maps whole ones, and unmaps no part -------
 */

static bool huge;
static void *huge_at;

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!huge)
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    huge_at = __real_mmap(address, HUGE, protection, flags, fd, offset);
    return huge_at;
}

int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes)
{
    if (!huge || address != huge_at || bytes % HUGE == 0)
        return __real_munmap(address, bytes);
    errno = EINVAL;
    return -1;
}

/* Counts the mappings of this process with these words in their names. */
static uint32_t mappings_of(const char *words)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uint32_t count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        count += strstr(line, words) != NULL;
    fclose(maps);
    return count;
}

/* The query for a memory's node leaves no mapping, which would keep the memory after its engine's
 * end. */
static void the_node_of_memory_is_told(void **state)
{
    int fd = make_memfd(HUGE, F_SEAL_SHRINK);

    (void)state;
    assert_true(kvr_memfd_node(fd, 0) >= -1);
    assert_int_equal(kvr_memfd_node(fd, HUGE), -1); /* beyond its end */
    assert_int_equal(mappings_of("/memfd:region"), 0);
    huge = true;
    (void)kvr_memfd_node(fd, 0);
    huge = false;
    assert_int_equal(mappings_of("/memfd:region"), 0);
    close(fd);
}

static void region_lies_on_every_rail(void **state)
{
    int fd = make_memfd(2 * BYTES, F_SEAL_SHRINK);
    uint8_t *engine = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    assert_int_equal(open_fd(fd, BYTES, BYTES, &region, &error), KVR_OK);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* the region owns the descriptor */
    assert_int_equal(region->rail_count, 3);
    assert_int_equal(region->layout.region, 7);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(region->memory[i]->base, region->base);
        assert_int_equal(region->memory[i]->bytes, BYTES);
        assert_int_equal(region->keys[i].key, (uintptr_t)region->memory[i]);
        assert_int_equal(rails[i].registered, 1);
    }
    engine[BYTES + 5] = 77; /* the same memory, from the offset on */
    assert_int_equal(region->base[5], 77);
    region->base[6] = 78;
    assert_int_equal(engine[BYTES + 6], 78);
    kvr_region_release(&fabric, region);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rails[i].registered, 0);
    munmap(engine, 2 * BYTES);
    kvr_region_release(&fabric, NULL);
}

static void region_needs_the_seal(void **state)
{
    struct kvr_region *region = NULL;
    struct kvr_error error;
    int fds[2];

    (void)state;
    assert_int_equal(open_fd(make_memfd(BYTES, 0), BYTES, 0, &region, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "F_SEAL_SHRINK"));
    assert_int_equal(open_fd(make_memfd(BYTES, F_SEAL_GROW), BYTES, 0, &region, &error),
                     KVR_INVALID);
    assert_int_equal(pipe(fds), 0); /* no file at all */
    assert_int_equal(open_fd(fds[0], BYTES, 0, &region, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "MFD_ALLOW_SEALING"));
    close(fds[1]);
    assert_null(region);
}

static void region_stays_inside_its_file(void **state)
{
    static const uint64_t cases[][2] = {
        {BYTES + 1, 0},
        {BYTES, 4096},
        {0, 0},
        {BYTES, 100},
        {UINT64_MAX, 0},
        {1, BYTES},
        {4096, 1ull << 40},
        {UINT64_MAX - 4095, 4096},
        {1, UINT64_MAX - 4095},
    };
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(
            open_fd(make_memfd(BYTES, F_SEAL_SHRINK), cases[i][0], cases[i][1], &region, &error),
            KVR_INVALID);
    assert_null(region);
}

static void region_undoes_what_failed(void **state)
{
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    rails[2].limit = 0;
    assert_int_equal(open_fd(make_memfd(BYTES, F_SEAL_SHRINK), BYTES, 0, &region, &error),
                     KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "locked memory"));
    assert_int_equal(rails[0].registered + rails[1].registered, 0);
    assert_null(region);
}

/* Such a rail finds the memory there, and opens nothing for a peer. */
static void region_opens_nothing_before_a_grant(void **state)
{
    struct kvr_rail *const one[3] = {&rails[0], &rails[1], NULL};
    struct kvr_region_layout layout = {.bytes = BYTES};
    struct kvr_memory *memory[KVR_RAILS_MAX];
    struct kvr_region *region = NULL;
    struct kvr_error error;
    static uint8_t bytes[BYTES];

    (void)state;
    rails[1].facts.grant_keys = rails[2].facts.grant_keys = true;
    assert_int_equal(kvr_region_open_mapped(&fabric, one, 3, &layout, bytes, false,
                                            KVR_REMOTE_GRANTED, &region, &error),
                     KVR_OK);
    assert_true(region->memory[0]->remote && !region->memory[0]->local);
    assert_true(!region->memory[1]->remote && region->memory[1]->local);
    assert_true(region->keys[0].key != 0 && region->keys[1].key == 0);
    assert_false(kvr_region_is_granted(region, 0));
    assert_true(kvr_region_is_granted(region, 1));
    assert_false(kvr_region_is_granted(region, 2)); /* it is not there */
    assert_int_equal(
        kvr_region_register(&fabric, region, rail_list, false, KVR_REMOTE_GRANTED, memory, &error),
        KVR_OK);
    assert_true(kvr_region_adopt(&fabric, region, memory));
    assert_true(kvr_region_is_granted(region, 2));
    kvr_region_release(&fabric, region);
    assert_int_equal(kvr_region_open_mapped(&fabric, one, 3, &layout, bytes, false,
                                            KVR_REMOTE_ALWAYS, &region, &error),
                     KVR_OK);
    assert_true(region->memory[1]->remote && region->keys[1].key != 0);
    kvr_region_release(&fabric, region);
}

static void region_takes_memory_of_the_caller(void **state)
{
    static uint8_t memory[BYTES];
    struct kvr_region_layout layout = {.bytes = BYTES};
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_region_open_mapped(&fabric, rail_list, 2, &layout, memory, true,
                                            KVR_REMOTE_NONE, &region, &error),
                     KVR_OK);
    assert_true(region->memory[1]->local && !region->memory[1]->remote);
    assert_int_equal(region->path, KVR_PATH_HOST);
    kvr_region_release(&fabric, region);
    rails[0].facts.target_copies = rails[1].facts.target_copies = true;
    assert_int_equal(kvr_region_open_mapped(&fabric, rail_list, 2, &layout, memory, true,
                                            KVR_REMOTE_NONE, &region, &error),
                     KVR_OK);
    assert_int_equal(region->path, KVR_PATH_LOCAL);
    kvr_region_release(&fabric, region);
    memory[0] = 1; /* still there */
}

/* ---- device memory -------------------------------------------------------------------------- */

static const struct kvr_rail_device_facts takes_all = {.dmabuf = KVR_WHY_NOTHING,
                                                       .hmem = KVR_WHY_NOTHING};
static const struct kvr_device_form whole_form = {.dmabuf = 9,
                                                  .dmabuf_offset = 4096,
                                                  .addressable = true,
                                                  .address = 0x7f0000001000,
                                                  .ordinal = 3,
                                                  .copies = true};

static kvr_status open_direct(const struct kvr_device_form *form, struct kvr_region **ret_region,
                              struct kvr_error *error)
{
    struct kvr_region_layout layout = {.bytes = BYTES};

    return kvr_region_open_direct(&fabric, rail_list, 3, &layout, form, false, true, ret_region,
                                  error);
}

static void cards_are_told_of_device_memory(void **state)
{
    struct kvr_device_form form = whole_form;
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    for (int i = 0; i < 3; i++)
        rails[i].facts.device = takes_all;
    rails[1].facts.device.dmabuf = KVR_WHY_OLD_LIBRARY;
    rails[2].refuses_dmabuf = true;
    assert_int_equal(open_direct(&form, &region, &error), KVR_OK);
    assert_int_equal(region->memory[0]->span.kind, KVR_SPAN_DMABUF);
    assert_int_equal(region->memory[0]->span.fd, 9);
    assert_int_equal(region->memory[0]->span.fd_offset, 4096);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(region->memory[i]->span.kind, i == 0 ? KVR_SPAN_DMABUF : KVR_SPAN_CUDA);
        assert_true((uintptr_t)region->memory[i]->base == form.address);
        assert_int_equal(region->memory[i]->span.device, 3);
        assert_true(region->memory[i]->remote && !region->memory[i]->local);
    }
    assert_int_equal(region->path, KVR_PATH_HMEM); /* the rail's least direct path */
    assert_true((uintptr_t)region->base == form.address);
    kvr_region_release(&fabric, region);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rails[i].registered, 0);
}

/* Without a context on the GPU: byte 0 has the address that it has in the descriptor. */
static void a_dmabuf_alone_needs_no_address(void **state)
{
    struct kvr_device_form form = {.dmabuf = 9, .dmabuf_offset = 8192};
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    for (int i = 0; i < 3; i++)
        rails[i].facts.device = takes_all;
    assert_int_equal(open_direct(&form, &region, &error), KVR_OK);
    assert_int_equal(region->path, KVR_PATH_DMABUF);
    assert_true((uintptr_t)region->memory[1]->base == 8192);
    kvr_region_release(&fabric, region);
    rails[2].refuses_dmabuf = true;
    rails[2].facts = (struct kvr_rail_facts){.name = "mlx5_2", .device = takes_all};
    assert_int_equal(open_direct(&form, &region, &error), KVR_UNSUPPORTED);
    assert_string_equal(error.detail,
                        "rail mlx5_2 does not reach device memory: dmabuf: the card refuses it; "
                        "hmem: the agent has no device address of the memory (no dmabuf today)");
    assert_int_equal(rails[0].registered + rails[1].registered, 0);
}

/* Either all its rails reach the memory, or the region is staged. */
static void one_card_that_cannot_is_named(void **state)
{
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    rails[0].facts.device = rails[2].facts.device = takes_all;
    snprintf(rails[1].facts.name, sizeof(rails[1].facts.name), "eth1");
    assert_int_equal(open_direct(&whole_form, &region, &error), KVR_UNSUPPORTED);
    assert_string_equal(error.detail, "rail eth1 does not reach device memory: dmabuf, hmem: its "
                                      "provider moves host memory only");
    assert_int_equal(rails[0].registered, 0);
    assert_null(region);
}

static void device_memory_stays_with_its_rail_group(void **state)
{
    struct kvr_memory *memory[KVR_RAILS_MAX];
    struct kvr_region *region = NULL;
    struct kvr_error error;

    (void)state;
    for (int i = 0; i < 3; i++)
        rails[i].facts.device = takes_all;
    assert_int_equal(open_direct(&whole_form, &region, &error), KVR_OK);
    assert_int_equal(
        kvr_region_register(&fabric, region, rail_list, false, KVR_REMOTE_ALWAYS, memory, &error),
        KVR_UNSUPPORTED);
    kvr_region_release(&fabric, region);
}

/* Released registrations must not be in the answer: the caller adopts all that it finds there. */
static void more_rails_take_it_all_or_none(void **state)
{
    struct kvr_rail *const one[3] = {&rails[0], NULL, NULL};
    struct kvr_region_layout layout = {.bytes = BYTES};
    struct kvr_memory *memory[KVR_RAILS_MAX];
    struct kvr_region *region = NULL;
    struct kvr_error error;
    static uint8_t bytes[BYTES];

    (void)state;
    assert_int_equal(kvr_region_open_mapped(&fabric, one, 3, &layout, bytes, true, KVR_REMOTE_NONE,
                                            &region, &error),
                     KVR_OK);
    rails[2].limit = 0;
    assert_int_equal(
        kvr_region_register(&fabric, region, rail_list, true, KVR_REMOTE_NONE, memory, &error),
        KVR_SYSTEM);
    assert_int_equal(rails[1].registered, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_null(memory[i]);
    rails[2].limit = 1;
    assert_int_equal(
        kvr_region_register(&fabric, region, rail_list, true, KVR_REMOTE_NONE, memory, &error),
        KVR_OK);
    assert_true(kvr_region_adopt(&fabric, region, memory));
    kvr_region_release(&fabric, region);
    assert_int_equal(rails[0].registered + rails[1].registered + rails[2].registered, 0);
}

/* ---- pages that the target moves --------------------------------------------------------------
 */

static struct kvr_device_hint fake_hint(const struct kvr_device_memory *memory)
{
    (void)memory;
    return (struct kvr_device_hint){.address = 0x7f0000001000};
}

static const struct kvr_device_ops device_ops = {.hint = fake_hint};
static struct kvr_device device = {.ops = &device_ops};
static struct kvr_stage stage = {.device = &device};
static struct kvr_device_memory device_pages = {.bytes = BYTES};

/* A region with staging memory, over two rails with targets that can move its pages. */
static struct kvr_region staged_region(void)
{
    rails[0].facts.moves_pages = rails[1].facts.moves_pages = true;
    return (struct kvr_region){.layout = {.bytes = BYTES},
                               .rail_count = 3,
                               .path = KVR_PATH_STAGED,
                               .keys = {{.key = 10}, {.key = 11}, {.key = 12}},
                               .stage = &stage,
                               .pages = &device_pages};
}

static void pages_that_targets_move_have_keys_of_their_own(void **state)
{
    const struct kvr_device_import import = {0};
    struct kvr_region region = staged_region();
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_region_move(&fabric, rail_list, &region, &import, false, true, &error),
                     KVR_OK);
    assert_int_equal(region.keys[0].key, (uintptr_t)region.moved->memory[0]);
    assert_int_equal(region.keys[1].key, (uintptr_t)region.moved->memory[1]);
    assert_int_equal(region.keys[2].key, 12); /* no target moves pages over this rail */
    kvr_region_release(&fabric, region.moved);
}

static void a_rail_that_cannot_leaves_every_key_as_it_was(void **state)
{
    const struct kvr_device_import import = {0};
    struct kvr_region region = staged_region();
    struct kvr_error error;

    (void)state;
    rails[1].limit = 0;
    assert_int_equal(kvr_region_move(&fabric, rail_list, &region, &import, true, false, &error),
                     KVR_SYSTEM);
    assert_null(region.moved);
    assert_int_equal(rails[0].registered, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(region.keys[i].key, 10 + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_there_is_mapped_at_once, setup),
        cmocka_unit_test_setup(huge_pages_are_let_go, setup),
        cmocka_unit_test(the_node_of_memory_is_told),
        cmocka_unit_test_setup(region_lies_on_every_rail, setup),
        cmocka_unit_test_setup(a_source_is_mapped_for_reading_where_rails_allow_it, setup),
        cmocka_unit_test_setup(region_needs_the_seal, setup),
        cmocka_unit_test_setup(region_stays_inside_its_file, setup),
        cmocka_unit_test_setup(region_undoes_what_failed, setup),
        cmocka_unit_test_setup(cards_are_told_of_device_memory, setup),
        cmocka_unit_test_setup(a_dmabuf_alone_needs_no_address, setup),
        cmocka_unit_test_setup(one_card_that_cannot_is_named, setup),
        cmocka_unit_test_setup(device_memory_stays_with_its_rail_group, setup),
        cmocka_unit_test_setup(region_opens_nothing_before_a_grant, setup),
        cmocka_unit_test_setup(region_takes_memory_of_the_caller, setup),
        cmocka_unit_test_setup(more_rails_take_it_all_or_none, setup),
        cmocka_unit_test_setup(pages_that_targets_move_have_keys_of_their_own, setup),
        cmocka_unit_test_setup(a_rail_that_cannot_leaves_every_key_as_it_was, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
