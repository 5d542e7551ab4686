/* Goal: the emulated copy engine is as unordered as a real one may be, and the same for the same
 * seed. Method: copies in virtual time, checked before and after their ends. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/memfd.h"
#include "device/device_emulated.h"

#define PAGES      8u
#define PAGE_BYTES 64u

static struct kvr_device *device_of(const struct kvr_device_emulated_options *options)
{
    struct kvr_device *device = NULL;

    assert_int_equal(kvr_device_emulated_open(options, &device, NULL), KVR_OK);
    return device;
}

static struct kvr_device_memory *memory_of(struct kvr_device *device, uint8_t *bytes)
{
    struct kvr_device_import import = {
        .kind = KVR_DEVICE_MAPPED, .address = bytes, .bytes = PAGES * PAGE_BYTES};
    struct kvr_device_memory *memory = NULL;

    assert_int_equal(device->ops->import(device, &import, &memory, NULL), KVR_OK);
    return memory;
}

static kvr_status copy_all(struct kvr_device *device, kvr_ns now, struct kvr_device_memory *memory,
                           uint8_t *host, uint64_t token)
{
    struct kvr_device_piece pieces[PAGES];

    for (uint32_t i = 0; i < PAGES; i++)
        pieces[i] = (struct kvr_device_piece){.memory = memory,
                                              .offset = i * PAGE_BYTES,
                                              .host = host + i * PAGE_BYTES,
                                              .bytes = PAGE_BYTES};
    return device->ops->copy(device, now, KVR_DEVICE_SCATTER, pieces, PAGES, token);
}

static uint32_t moved(const uint8_t *bytes)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < PAGES * PAGE_BYTES; i++)
        count += bytes[i] == 1;
    return count;
}

static void bytes_are_whole_only_at_the_completion(void **state)
{
    struct kvr_device_emulated_options options = {.seed = 1, .latency_ns = 100};
    struct kvr_device *device = device_of(&options);
    uint8_t bytes[PAGES * PAGE_BYTES] = {0}, host[PAGES * PAGE_BYTES];
    struct kvr_device_memory *memory = memory_of(device, bytes);
    struct kvr_device_copied copied;

    (void)state;
    memset(host, 1, sizeof(host));
    assert_int_equal(copy_all(device, 1000, memory, host, 9), KVR_OK);
    assert_int_equal(moved(bytes), sizeof(bytes) / 2);
    assert_int_equal(device->ops->poll(device, kvr_device_emulated_next(device) - 1, &copied, 1),
                     0);
    assert_int_equal(moved(bytes), sizeof(bytes) / 2);
    assert_true(kvr_device_emulated_next(device) >= 1100);
    assert_int_equal(device->ops->poll(device, kvr_device_emulated_next(device), &copied, 1), 1);
    assert_int_equal(copied.status, KVR_OK);
    assert_int_equal(moved(bytes), sizeof(bytes));
    assert_true(kvr_device_emulated_next(device) == KVR_NEVER);
    device->ops->release(device, memory);
    kvr_device_close(device);
}

static void a_part_of_them_fails_half_done(void **state)
{
    struct kvr_device_emulated_options options = {
        .seed = 2, .latency_ns = 10, .fail_promille = 300};
    struct kvr_device *device = device_of(&options);
    uint8_t bytes[PAGES * PAGE_BYTES], host[PAGES * PAGE_BYTES];
    struct kvr_device_memory *memory = memory_of(device, bytes);
    struct kvr_device_copied copied;
    uint32_t failed = 0;

    (void)state;
    memset(host, 1, sizeof(host));
    for (kvr_ns now = 1000; now < 1001000; now += 1000) {
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(copy_all(device, now, memory, host, now), KVR_OK);
        assert_int_equal(device->ops->poll(device, now + 999, &copied, 1), 1);
        assert_int_equal(copied.token, now);
        assert_int_equal(moved(bytes), copied.status == KVR_OK ? sizeof(bytes) : sizeof(bytes) / 2);
        failed += copied.status == KVR_COPY_FAILED;
    }
    assert_true(failed > 200 && failed < 400);
    device->ops->release(device, memory);
    kvr_device_close(device);
}

static void an_engine_that_dies_fails_its_copies_alone(void **state)
{
    struct kvr_device_emulated_options options = {.seed = 3, .latency_ns = 10};
    struct kvr_device *device = device_of(&options);
    uint8_t one[PAGES * PAGE_BYTES] = {0}, two[PAGES * PAGE_BYTES] = {0}, host[PAGES * PAGE_BYTES];
    struct kvr_device_memory *dying = memory_of(device, one), *living = memory_of(device, two);
    struct kvr_device_copied copied[2];

    (void)state;
    memset(host, 1, sizeof(host));
    assert_int_equal(copy_all(device, 1000, dying, host, 1), KVR_OK);
    assert_int_equal(copy_all(device, 1000, living, host, 2), KVR_OK);
    kvr_device_emulated_lose(dying);
    assert_int_equal(copy_all(device, 1000, dying, host, 3), KVR_COPY_FAILED);
    assert_int_equal(device->ops->poll(device, 2000, copied, 2), 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(copied[i].status, copied[i].token == 1 ? KVR_COPY_FAILED : KVR_OK);
    assert_int_equal(moved(one), sizeof(one) / 2);
    assert_int_equal(moved(two), sizeof(two));
    device->ops->release(device, dying);
    device->ops->release(device, living);
    kvr_device_close(device);
}

static kvr_status move_all(struct kvr_device *device, struct kvr_device_memory *source,
                           struct kvr_device_memory *target)
{
    struct kvr_device_move pieces[PAGES];

    for (uint32_t i = 0; i < PAGES; i++)
        pieces[i] = (struct kvr_device_move){.source = source,
                                             .target = target,
                                             .source_offset = i * PAGE_BYTES,
                                             .target_offset = i * PAGE_BYTES,
                                             .bytes = PAGE_BYTES};
    return device->ops->move(device, pieces, PAGES);
}

static void moves_fail_and_die_as_copies_do(void **state)
{
    struct kvr_device_emulated_options options = {.seed = 5, .fail_promille = 300};
    struct kvr_device *device = device_of(&options);
    uint8_t from[PAGES * PAGE_BYTES], to[PAGES * PAGE_BYTES];
    struct kvr_device_memory *source = memory_of(device, from), *target = memory_of(device, to);
    uint32_t failed = 0;

    (void)state;
    memset(from, 1, sizeof(from));
    for (uint32_t n = 0; n < 1000; n++) {
        kvr_status status;

        memset(to, 0, sizeof(to));
        status = move_all(device, source, target);
        assert_int_equal(moved(to), status == KVR_OK ? sizeof(to) : sizeof(to) / 2);
        assert_true(status == KVR_OK || status == KVR_COPY_FAILED);
        failed += status == KVR_COPY_FAILED;
    }
    assert_true(failed > 200 && failed < 400);
    kvr_device_emulated_lose(source);
    assert_int_equal(move_all(device, source, target), KVR_COPY_FAILED);
    device->ops->release(device, source);
    device->ops->release(device, target);
    kvr_device_close(device);
}

static void the_same_seed_is_the_same_engine(void **state)
{
    struct kvr_device_emulated_options options = {
        .seed = 4, .latency_ns = 50 * KVR_US, .bytes_per_us = 100, .fail_promille = 100};
    uint8_t bytes[PAGES * PAGE_BYTES], host[PAGES * PAGE_BYTES] = {0};
    uint64_t traces[2] = {0}, overtaken = 0;

    (void)state;
    for (int run = 0; run < 2; run++) {
        struct kvr_device *device = device_of(&options);
        struct kvr_device_memory *memory = memory_of(device, bytes);
        struct kvr_device_copied copied;
        uint64_t last = 0;

        for (uint64_t n = 1; n <= 40; n++)
            assert_int_equal(copy_all(device, 1000 + n, memory, host, n), KVR_OK);
        while (kvr_device_emulated_next(device) != KVR_NEVER) {
            kvr_ns at = kvr_device_emulated_next(device);

            assert_int_equal(device->ops->poll(device, at, &copied, 1), 1);
            traces[run] = traces[run] * 31 + copied.token * 7 + at + (copied.status != KVR_OK);
            overtaken += copied.token < last;
            last = copied.token;
        }
        device->ops->release(device, memory);
        kvr_device_close(device);
    }
    assert_true(traces[0] == traces[1]);
    assert_true(overtaken > 0); /* and its copies overtake each other */
}

/* ---- several allocations ----------------------------------------------------------------------
 */

static uint32_t mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    uint32_t count = 0;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, "memfd:kvr-extent") != NULL;
    fclose(file);
    return count;
}

static struct kvr_extents *extents_of(uint32_t count)
{
    struct kvr_extents *extents = kvr_extents_new(count);
    int fd;

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(kvr_memfd_create("kvr-extent", 4096 << i % 2, "test", &fd, NULL), KVR_OK);
        assert_int_equal(pwrite(fd, &i, sizeof(i), 0), sizeof(i));
        kvr_extents_add(extents, fd, 4096u << i % 2);
    }
    return extents;
}

static void allocations_lie_side_by_side(void **state)
{
    struct kvr_device_emulated_options options = {.seed = 1};
    struct kvr_device *device = device_of(&options);
    struct kvr_extents *extents = extents_of(300);
    uint64_t whole = 150 * (4096 + 8192), at = 0;
    struct kvr_device_import import = {.kind = KVR_DEVICE_VMM,
                                       .fd = -1,
                                       .extents = extents,
                                       .offset = 1024,
                                       .bytes = whole - 2048};
    struct kvr_device_memory *memory = NULL;
    const uint8_t *base;
    struct kvr_error error;

    (void)state;
    assert_int_equal(device->ops->import(device, &import, &memory, &error), KVR_OK);
    assert_int_equal(memory->bytes, whole - 2048);
    assert_int_equal(mappings(), 300);
    base = (const uint8_t *)(uintptr_t)device->ops->hint(memory).address - 1024;
    for (uint32_t i = 0; i < 300; at += extents->at[i].bytes, i++)
        assert_memory_equal(base + at, &i, sizeof(i));
    kvr_extents_release(extents); /* the device holds them itself */
    assert_int_equal(base[at - 1], 0);
    device->ops->release(device, memory);
    assert_int_equal(mappings(), 0);
    kvr_device_close(device);
}

/* The last allocation is invalid, or the region ends elsewhere: all is undone. */
static void allocations_come_whole_or_not_at_all(void **state)
{
    struct kvr_device_emulated_options options = {.seed = 1};
    struct kvr_device *device = device_of(&options);
    struct kvr_extents *extents = extents_of(6);
    struct kvr_device_import import = {
        .kind = KVR_DEVICE_VMM, .fd = -1, .extents = extents, .bytes = 3 * (4096 + 8192)};
    struct kvr_device_memory *memory = NULL;
    struct kvr_error error;
    int good = extents->at[5].fd;

    (void)state;
    extents->at[5].fd = -1;
    assert_int_not_equal(device->ops->import(device, &import, &memory, &error), KVR_OK);
    extents->at[5].fd = good;
    extents->at[5].bytes = 1 << 20; /* more than it has */
    import.bytes = 3 * 4096 + 2 * 8192 + (1 << 20);
    assert_int_equal(device->ops->import(device, &import, &memory, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "lie outside the memfd of 8192 bytes"));
    extents->at[5].bytes = 8192;
    import.bytes = 4096;
    assert_int_equal(device->ops->import(device, &import, &memory, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "end in the last of 6 allocations"));
    assert_null(memory);
    assert_int_equal(mappings(), 0);
    kvr_extents_release(extents);
    kvr_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_whole_only_at_the_completion),
        cmocka_unit_test(a_part_of_them_fails_half_done),
        cmocka_unit_test(an_engine_that_dies_fails_its_copies_alone),
        cmocka_unit_test(moves_fail_and_die_as_copies_do),
        cmocka_unit_test(the_same_seed_is_the_same_engine),
        cmocka_unit_test(allocations_lie_side_by_side),
        cmocka_unit_test(allocations_come_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
