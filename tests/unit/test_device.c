/* Goal: each device keeps the promises of device.h; the argument names one of host, emulated, cuda.
 * Method: random pieces between two regions of a device and pinned bytes, compared with the result
 * of memcpy. A device that this host lacks is skipped. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/support/device_rig.h"

#define REGION_BYTES (1u << 20)
#define PINNED_BYTES (1u << 20)

static const char *device_name;

struct bench {
    struct device_rig rig;
    struct kvr_device *device;
    struct kvr_device_memory *memory;
    uint8_t *pinned, *model; /* model: the bytes that must be there */
    uint8_t *expected;       /* the bytes that the region has */
};

static void bench_open(struct bench *bench)
{
    struct kvr_error error;

    device_rig_open(&bench->rig, device_name);
    bench->device = bench->rig.device;
    bench->memory = device_rig_memory(&bench->rig, REGION_BYTES);
    bench->model = calloc(1, REGION_BYTES);
    bench->expected = calloc(1, REGION_BYTES);
    bench->pinned =
        mmap(NULL, PINNED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(bench->pinned != MAP_FAILED);
    assert_int_equal(bench->device->ops->pin(bench->device, bench->pinned, PINNED_BYTES, &error),
                     KVR_OK);
}

static void bench_close(struct bench *bench)
{
    bench->device->ops->unpin(bench->device, bench->pinned);
    device_rig_close(&bench->rig);
    munmap(bench->pinned, PINNED_BYTES);
    free(bench->model);
    free(bench->expected);
}

static void must_copy(struct bench *bench, kvr_device_way way,
                      const struct kvr_device_piece *pieces, uint32_t count)
{
    assert_int_equal(device_rig_copy(&bench->rig, way, pieces, count), KVR_OK);
}

/* Copies the whole region by one piece. */
static void whole(struct bench *bench, kvr_device_way way)
{
    struct kvr_device_piece piece = {
        .memory = bench->memory, .host = bench->pinned, .bytes = REGION_BYTES};

    must_copy(bench, way, &piece, 1);
}

static void fill(struct bench *bench, uint64_t seed)
{
    for (uint32_t i = 0; i < REGION_BYTES; i += 8) {
        uint64_t value = kvr_mix64(seed + i);

        memcpy(bench->pinned + i, &value, 8);
    }
}

/* Pieces that do not overlap at either end: each has a range of its own. */
static uint32_t pieces_choose(struct bench *bench, struct kvr_rng *rng,
                              struct kvr_device_piece *pieces)
{
    uint32_t count = (uint32_t)kvr_rng_between(rng, 1, KVR_DEVICE_PIECES_MAX);
    uint32_t share = REGION_BYTES / KVR_DEVICE_PIECES_MAX;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = kvr_rng_between(rng, 1, share), room = share - bytes;

        if (kvr_rng_percent(rng, 50))
            bytes = (bytes + 15) / 16 * 16, room = (share - bytes) / 16 * 16;
        pieces[i] = (struct kvr_device_piece){
            .memory = bench->memory,
            .offset = (uint64_t)(count - 1 - i) * share + kvr_rng_below(rng, room + 1) / 16 * 16,
            .host = bench->pinned + i * share + kvr_rng_below(rng, room + 1),
            .bytes = bytes,
        };
    }
    return count;
}

static void scatters_what_memcpy_would(void **state)
{
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
    struct bench bench;
    struct kvr_rng rng;

    (void)state;
    bench_open(&bench);
    kvr_rng_init(&rng, 1);
    for (uint64_t n = check_cases(50, 10000); n > 0; n--) {
        uint32_t count;

        memset(bench.pinned, 0xcc, PINNED_BYTES);
        memset(bench.model, 0xcc, REGION_BYTES);
        whole(&bench, KVR_DEVICE_SCATTER);
        fill(&bench, n);
        count = pieces_choose(&bench, &rng, pieces);
        for (uint32_t i = 0; i < count; i++)
            memcpy(bench.model + pieces[i].offset, pieces[i].host, pieces[i].bytes);
        must_copy(&bench, KVR_DEVICE_SCATTER, pieces, count);
        whole(&bench, KVR_DEVICE_GATHER);
        assert_memory_equal(bench.pinned, bench.model, REGION_BYTES);
    }
    bench_close(&bench);
}

static void gathers_what_memcpy_would(void **state)
{
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
    struct bench bench;
    struct kvr_rng rng;

    (void)state;
    bench_open(&bench);
    kvr_rng_init(&rng, 2);
    fill(&bench, 7);
    memcpy(bench.model, bench.pinned, REGION_BYTES);
    whole(&bench, KVR_DEVICE_SCATTER);
    for (uint64_t n = check_cases(50, 10000); n > 0; n--) {
        uint32_t count = pieces_choose(&bench, &rng, pieces);
        uint64_t touched = 0, kept = 0;

        memset(bench.pinned, 0xcc, PINNED_BYTES);
        must_copy(&bench, KVR_DEVICE_GATHER, pieces, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_memory_equal(pieces[i].host, bench.model + pieces[i].offset, pieces[i].bytes);
            touched += pieces[i].bytes;
            memset(pieces[i].host, 0xcc, pieces[i].bytes);
        }
        for (uint32_t i = 0; i < PINNED_BYTES; i++)
            kept += bench.pinned[i] == 0xcc;
        assert_true(touched > 0);
        assert_int_equal(kept, PINNED_BYTES); /* no byte beside the pieces was written */
    }
    bench_close(&bench);
}

/* Pieces of a second region go into the first: more than one launch of a GPU takes. */
static void moves_what_memcpy_would(void **state)
{
    enum { MOVES = 2500, SHARE = REGION_BYTES / MOVES };
    struct kvr_device_move *pieces = calloc(MOVES, sizeof(*pieces));
    struct kvr_device_piece all = {.bytes = REGION_BYTES};
    struct bench bench;
    struct kvr_rng rng;

    (void)state;
    assert_non_null(pieces);
    bench_open(&bench);
    kvr_rng_init(&rng, 3);
    memset(bench.pinned, 0xcc, REGION_BYTES);
    memset(bench.model, 0xcc, REGION_BYTES);
    whole(&bench, KVR_DEVICE_SCATTER);
    fill(&bench, 9);
    all.memory = device_rig_memory(&bench.rig, REGION_BYTES);
    all.host = bench.pinned;
    must_copy(&bench, KVR_DEVICE_SCATTER, &all, 1);
    for (uint32_t i = 0; i < MOVES; i++) {
        uint64_t bytes = kvr_rng_between(&rng, 0, SHARE), room = SHARE - bytes;

        pieces[i] = (struct kvr_device_move){
            .source = all.memory,
            .target = bench.memory,
            .source_offset = (uint64_t)(MOVES - 1 - i) * SHARE + kvr_rng_below(&rng, room + 1),
            .target_offset = (uint64_t)i * SHARE + kvr_rng_below(&rng, room + 1),
            .bytes = bytes,
        };
        memcpy(bench.model + pieces[i].target_offset, bench.pinned + pieces[i].source_offset,
               bytes);
    }
    assert_int_equal(bench.device->ops->move(bench.device, pieces, MOVES), KVR_OK);
    whole(&bench, KVR_DEVICE_GATHER); /* the copy was waited for */
    assert_memory_equal(bench.pinned, bench.model, REGION_BYTES);
    assert_int_equal(bench.device->ops->move(bench.device, pieces, 0), KVR_OK);
    pieces[7].source_offset = REGION_BYTES - 1;
    pieces[7].bytes = 2;
    assert_int_equal(bench.device->ops->move(bench.device, pieces, MOVES), KVR_INVALID);
    pieces[7].source_offset = 0;
    pieces[7].target_offset = UINT64_MAX;
    assert_int_equal(bench.device->ops->move(bench.device, pieces, MOVES), KVR_INVALID);
    bench_close(&bench);
    free(pieces);
}

#define ROWS 8u /* concurrent copies, of an eighth of the bytes each */

/* Copies as staging makes them: random pages, contiguous host bytes, several copies under way.
 * Returns the number of bytes. */
static uint64_t row_copy(struct bench *bench, struct kvr_rng *rng, kvr_device_way way, uint32_t row)
{
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
    uint32_t share = REGION_BYTES / ROWS, page = 16u << kvr_rng_below(rng, 10);
    uint32_t count = share / page, odd = kvr_rng_percent(rng, 30) ? 3 : 0;
    uint64_t bytes = 0;

    if (count > KVR_DEVICE_PIECES_MAX)
        count = KVR_DEVICE_PIECES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place =
            (i * 7 + row) % (share / page); /* 7 and the count have no common divisor */
        struct kvr_device_piece *piece = &pieces[i];

        *piece = (struct kvr_device_piece){.memory = bench->memory,
                                           .offset = row * share + place * page,
                                           .host = bench->pinned + row * share + bytes,
                                           .bytes = page - odd};
        if (way == KVR_DEVICE_SCATTER)
            memcpy(bench->model + piece->offset, piece->host, piece->bytes);
        else
            memcpy(bench->model + row * share + bytes, bench->expected + piece->offset,
                   piece->bytes);
        bytes += piece->bytes;
    }
    assert_int_equal(bench->device->ops->copy(bench->device, device_rig_now(&bench->rig), way,
                                              pieces, count, row),
                     KVR_OK);
    return bytes;
}

static void end_copies(struct bench *bench, uint32_t count)
{
    struct kvr_device_copied copied;

    while (count > 0) {
        unsigned got =
            bench->device->ops->poll(bench->device, device_rig_now(&bench->rig), &copied, 1);

        assert_true(got == 0 || copied.status == KVR_OK);
        count -= got;
    }
}

static void copies_bytes_in_a_row_as_memcpy_would(void **state)
{
    uint32_t share = REGION_BYTES / ROWS;
    uint64_t bytes[ROWS];
    struct bench bench;
    struct kvr_rng rng;

    (void)state;
    bench_open(&bench);
    kvr_rng_init(&rng, 3);
    for (uint64_t n = check_cases(50, 2000); n > 0; n--) {
        fill(&bench, n);
        memcpy(bench.model, bench.pinned, REGION_BYTES);
        whole(&bench, KVR_DEVICE_SCATTER);
        fill(&bench, n + 1);
        for (uint32_t row = 0; row < ROWS; row++)
            (void)row_copy(&bench, &rng, KVR_DEVICE_SCATTER, row);
        end_copies(&bench, ROWS);
        whole(&bench, KVR_DEVICE_GATHER);
        assert_memory_equal(bench.pinned, bench.model, REGION_BYTES);
        memcpy(bench.expected, bench.model, REGION_BYTES);
        for (uint32_t row = 0; row < ROWS; row++)
            bytes[row] = row_copy(&bench, &rng, KVR_DEVICE_GATHER, row);
        end_copies(&bench, ROWS);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_memory_equal(bench.pinned + row * share, bench.model + row * share, bytes[row]);
    }
    bench_close(&bench);
}

static void tells_every_copy_once_and_pushes_back(void **state)
{
    uint32_t told[KVR_DEVICE_COPIES_MAX + 1] = {0}, accepted = 0, left;
    struct kvr_device_piece piece;
    struct kvr_device_copied copied[3];
    struct bench bench;
    kvr_status status;

    (void)state;
    bench_open(&bench);
    for (; accepted <= KVR_DEVICE_COPIES_MAX; accepted++) {
        piece = (struct kvr_device_piece){.memory = bench.memory,
                                          .offset = accepted * 4096,
                                          .host = bench.pinned + accepted * 4096,
                                          .bytes = 4096};
        status = bench.device->ops->copy(bench.device, device_rig_now(&bench.rig),
                                         KVR_DEVICE_GATHER, &piece, 1, accepted);
        if (status != KVR_OK)
            break;
    }
    assert_int_equal(status, KVR_AGAIN);
    assert_int_equal(accepted, KVR_DEVICE_COPIES_MAX);
    for (left = accepted; left > 0;) {
        unsigned count =
            bench.device->ops->poll(bench.device, device_rig_now(&bench.rig), copied, 3);

        assert_true(count <= 3 && count <= left);
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(copied[i].status, KVR_OK);
            assert_true(copied[i].token < accepted);
            assert_int_equal(told[copied[i].token]++, 0);
        }
        left -= count;
    }
    assert_int_equal(bench.device->ops->poll(bench.device, device_rig_now(&bench.rig), copied, 3),
                     0);
    must_copy(&bench, KVR_DEVICE_GATHER, &piece, 1); /* there is room again */
    bench_close(&bench);
}

static void refuses_pieces_outside(void **state)
{
    static const struct {
        uint64_t offset, bytes;
    } outside[] = {
        {REGION_BYTES, 1}, {REGION_BYTES - 7, 8}, {UINT64_MAX, 2}, {0, REGION_BYTES + 1}};
    struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX + 1];
    struct bench bench;

    (void)state;
    bench_open(&bench);
    for (uint32_t i = 0; i <= KVR_DEVICE_PIECES_MAX; i++)
        pieces[i] =
            (struct kvr_device_piece){.memory = bench.memory, .host = bench.pinned, .bytes = 16};
    assert_int_equal(device_rig_copy(&bench.rig, KVR_DEVICE_GATHER, pieces, 0), KVR_INVALID);
    assert_int_equal(
        device_rig_copy(&bench.rig, KVR_DEVICE_GATHER, pieces, KVR_DEVICE_PIECES_MAX + 1),
        KVR_INVALID);
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        pieces[1].offset = outside[i].offset;
        pieces[1].bytes = outside[i].bytes;
        assert_int_equal(device_rig_copy(&bench.rig, KVR_DEVICE_SCATTER, pieces, 2), KVR_INVALID);
    }
    bench_close(&bench);
}

static void refuses_what_cannot_be_imported(void **state)
{
    struct device_rig rig;
    struct kvr_device_memory *memory = NULL;
    struct kvr_device_import import = {.kind = KVR_DEVICE_MEMFD, .bytes = 8192};
    struct kvr_error error;
    int fd = memfd_create("device", MFD_ALLOW_SEALING | MFD_CLOEXEC);

    (void)state;
    device_rig_open(&rig, device_name);
    if (strncmp(device_name, "cuda", 4) == 0) {
        import.kind = KVR_DEVICE_DMABUF; /* an invalid descriptor */
    } else {
        import.kind = KVR_DEVICE_IPC;
        assert_int_equal(rig.device->ops->import(rig.device, &import, &memory, &error),
                         KVR_UNSUPPORTED);
        import.kind = KVR_DEVICE_MEMFD;
    }
    assert_true(fd >= 0 && ftruncate(fd, 8192) == 0);
    import.fd = fd;
    assert_int_not_equal(rig.device->ops->import(rig.device, &import, &memory, &error), KVR_OK);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    import.offset = 100;
    assert_int_not_equal(rig.device->ops->import(rig.device, &import, &memory, &error), KVR_OK);
    import.offset = 4096;
    assert_int_not_equal(rig.device->ops->import(rig.device, &import, &memory, &error), KVR_OK);
    import.fd = -1;
    assert_int_not_equal(rig.device->ops->import(rig.device, &import, &memory, &error), KVR_OK);
    assert_true(strlen(error.detail) > 10);
    assert_null(memory);
    close(fd);
    device_rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scatters_what_memcpy_would),
        cmocka_unit_test(gathers_what_memcpy_would),
        cmocka_unit_test(moves_what_memcpy_would),
        cmocka_unit_test(copies_bytes_in_a_row_as_memcpy_would),
        cmocka_unit_test(tells_every_copy_once_and_pushes_back),
        cmocka_unit_test(refuses_pieces_outside),
        cmocka_unit_test(refuses_what_cannot_be_imported),
    };

    device_name = argc > 1 ? argv[1] : "host";
    if (!device_rig_possible(device_name))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
