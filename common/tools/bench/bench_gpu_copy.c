#include "tools/bench/bench_gpu_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/bench/bench_pool.h"

#define MOVES      960u /* pieces of a call, as local rails have them */
#define FAR        127u /* primes */
#define FARTHER    131u
#define SLOTS      4u            /* copies under way */
#define SLOT_BYTES (32ull << 20) /* of pinned memory each */

static bool complain(const char *what)
{
    fprintf(stderr, "kvrail bench gpu: %s\n", what);
    return false;
}

static uint64_t page_count(const struct gpu_copies *copies)
{
    return copies->bytes / copies->page_bytes;
}

bool gpu_copies_open(struct gpu_copies *copies, struct bench_device *device, uint64_t page_bytes,
                     uint64_t bytes)
{
    struct kvr_error error = {0};
    struct kvr_rng rng;
    void *pinned;

    *copies = (struct gpu_copies){
        .device = device, .page_bytes = page_bytes, .bytes = bytes / SLOT_BYTES * SLOT_BYTES};
    kvr_rng_init(&rng, 1);
    copies->order = bench_page_order((uint32_t)page_count(copies), true, &rng);
    if (copies->order == NULL)
        return complain("no memory for an order of pages");
    if (!bench_device_allocate(device, copies->bytes))
        return false;
    pinned =
        mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pinned == MAP_FAILED)
        return complain("no memory to pin");
    memset(pinned, 0, SLOTS * SLOT_BYTES);
    if (device->device->ops->pin(device->device, pinned, SLOTS * SLOT_BYTES, &error) == KVR_OK) {
        copies->pinned = pinned;
        return true;
    }
    munmap(pinned, SLOTS * SLOT_BYTES);
    return complain(error.detail);
}

void gpu_copies_close(struct gpu_copies *copies)
{
    if (copies->pinned != NULL) {
        copies->device->device->ops->unpin(copies->device->device, copies->pinned);
        munmap(copies->pinned, SLOTS * SLOT_BYTES);
    }
    free(copies->order);
    *copies = (struct gpu_copies){0};
}

/* ---- one copy -------------------------------------------------------------------------------- */

struct way {
    kvr_device_way way;
    struct kvr_device *device;
    struct kvr_device_memory *memory; /* as it sees it */
    bool scattered;                   /* many pages */
};

static struct way way_of(const struct gpu_copies *copies, enum gpu_copy what)
{
    const struct bench_device *device = copies->device;
    bool packed = what == GPU_GATHER_PACKED || what == GPU_SCATTER_PACKED;
    bool ours = what == GPU_GATHER || what == GPU_SCATTER || what == GPU_MOVE;
    struct way way = {
        .way = what < GPU_IN ? KVR_DEVICE_GATHER : KVR_DEVICE_SCATTER,
        .device = device->plain,
        .memory = device->plain_memory,
        .scattered = what != GPU_OUT && what != GPU_IN,
    };

    if (packed || ours) {
        way.device = packed ? device->packed : device->device;
        way.memory = packed ? device->packed_memory : device->memory;
    }
    return way;
}

bool gpu_copies_can(const struct gpu_copies *copies, enum gpu_copy what)
{
    const struct kvr_device *device = way_of(copies, what).device;

    return device != NULL && (what < GPU_MOVE || device->ops->move != NULL);
}

/* The next pages of the order, as many as a copy takes; or the next slot's worth in a row. */
static uint32_t pieces_fill(struct gpu_copies *copies, const struct way *way, uint32_t slot,
                            struct kvr_device_piece *pieces)
{
    uint8_t *host = copies->pinned + slot * SLOT_BYTES;
    uint64_t pages = SLOT_BYTES / copies->page_bytes;

    if (!way->scattered) {
        pieces[0] = (struct kvr_device_piece){.memory = way->memory,
                                              .offset = copies->next * SLOT_BYTES % copies->bytes,
                                              .host = host,
                                              .bytes = SLOT_BYTES};
        copies->next++;
        return 1;
    }
    if (pages > KVR_DEVICE_PIECES_MAX)
        pages = KVR_DEVICE_PIECES_MAX;
    for (uint32_t i = 0; i < pages; i++)
        pieces[i] = (struct kvr_device_piece){
            .memory = way->memory,
            .offset = copies->order[copies->next++ % page_count(copies)] * copies->page_bytes,
            .host = host + i * copies->page_bytes,
            .bytes = copies->page_bytes};
    return (uint32_t)pages;
}

/* Bytes; 0: it was refused. */
static uint64_t copy_begin(struct gpu_copies *copies, const struct way *way, uint32_t slot)
{
    static struct kvr_device_piece pieces[KVR_DEVICE_PIECES_MAX];
    struct kvr_device *device = way->device;
    uint32_t count = pieces_fill(copies, way, slot, pieces);

    if (device->ops->copy(device, kvr_clock_now(), way->way, pieces, count, slot) != KVR_OK)
        return 0;
    return count * pieces[0].bytes;
}

/* Waits for one that ends; its slot, or SLOTS where it failed. */
static uint32_t copy_end(const struct way *way)
{
    struct kvr_device *device = way->device;
    struct kvr_device_copied copied;

    while (device->ops->poll(device, kvr_clock_now(), &copied, 1) == 0)
        ;
    return copied.status == KVR_OK ? (uint32_t)copied.token : SLOTS;
}

/* From the first half of the memory to the second, as many pages as one call takes at a time, far
 * apart and each once in a round. */
static double moves_turn(struct gpu_copies *copies, const struct way *way, kvr_ns duration)
{
    static struct kvr_device_move pieces[MOVES];
    uint64_t half = page_count(copies) / 2, page = copies->page_bytes, bytes = 0;
    kvr_ns began = kvr_clock_now();

    while (kvr_clock_now() - began < duration) {
        for (uint32_t i = 0; i < MOVES; i++, copies->next++)
            pieces[i] = (struct kvr_device_move){
                .source = way->memory,
                .target = way->memory,
                .source_offset = page * (copies->next * FAR % half),
                .target_offset = page * (half + copies->next * FARTHER % half),
                .bytes = page};
        if (way->device->ops->move(way->device, pieces, MOVES) != KVR_OK)
            return (double)complain("a move failed");
        bytes += MOVES * page;
    }
    return (double)bytes / (double)(kvr_clock_now() - began);
}

double gpu_copies_turn(struct gpu_copies *copies, enum gpu_copy what, kvr_ns duration)
{
    struct way way = way_of(copies, what);
    uint32_t under_way = 0, slot = 0;
    uint64_t bytes = 0, begun;
    kvr_ns began = kvr_clock_now();

    if (what == GPU_BESIDE) {
        double rate = bench_device_beside(copies->device, duration);

        if (rate == 0)
            (void)complain("a copy within the device failed");
        return rate;
    }
    if (what == GPU_MOVE || what == GPU_MOVE_DRIVER)
        return moves_turn(copies, &way, duration);
    while (under_way > 0 || kvr_clock_now() - began < duration) {
        if (under_way < SLOTS && kvr_clock_now() - began < duration) {
            begun = copy_begin(copies, &way, slot);
            if (begun == 0)
                return (double)complain("the device took no copy");
            bytes += begun;
            slot = ++under_way < SLOTS ? under_way : slot;
            continue;
        }
        slot = copy_end(&way);
        under_way--;
        if (slot == SLOTS)
            return (double)complain("a copy failed");
    }
    return (double)bytes / (double)(kvr_clock_now() - began);
}

/* ---- whether they are right ------------------------------------------------------------------ */

/* As many pages as one copy takes, from `first` of the order on, by the given way. */
static bool check_copy(struct gpu_copies *copies, uint64_t first, struct way way)
{
    copies->next = first;
    if (copy_begin(copies, &way, 0) != 0 && copy_end(&way) == 0)
        return true;
    return complain("a copy failed");
}

static uint64_t word_of(uint64_t page, uint64_t at)
{
    return kvr_mix64(page << 32 | at);
}

/* Writes the words of these pages of the order, or looks whether they are there. */
static bool stamps(const struct gpu_copies *copies, uint64_t first, uint64_t pages, bool writes)
{
    for (uint64_t i = 0; i < pages; i++)
        for (uint64_t at = 0; at < copies->page_bytes; at += sizeof(uint64_t)) {
            uint64_t word = word_of(copies->order[(first + i) % page_count(copies)], at);
            uint8_t *place = copies->pinned + i * copies->page_bytes + at;

            if (writes)
                memcpy(place, &word, sizeof(word));
            else if (memcmp(place, &word, sizeof(word)) != 0)
                return complain("a page came back with other bytes");
        }
    return true;
}

bool gpu_copies_check(struct gpu_copies *copies)
{
    uint64_t pages = SLOT_BYTES / copies->page_bytes, count = page_count(copies);
    static const enum gpu_copy all_in[] = {GPU_SCATTER, GPU_SCATTER_DRIVER, GPU_SCATTER_PACKED};
    static const enum gpu_copy all_out[] = {GPU_GATHER_DRIVER, GPU_GATHER, GPU_GATHER_PACKED};
    uint32_t ways = gpu_copies_can(copies, GPU_GATHER_PACKED) ? 3 : 2;
    bool good = true;

    if (pages > KVR_DEVICE_PIECES_MAX)
        pages = KVR_DEVICE_PIECES_MAX;
    for (uint64_t first = 0; good && first < count; first += pages) {
        (void)stamps(copies, first, pages, true);
        good = check_copy(copies, first, way_of(copies, all_in[first / pages % ways]));
    }
    for (uint64_t first = 0; good && first < count; first += pages) {
        memset(copies->pinned, 0, pages * copies->page_bytes);
        good = check_copy(copies, first, way_of(copies, all_out[first / pages % ways])) &&
               stamps(copies, first, pages, false);
    }
    copies->next = 0;
    return good;
}
