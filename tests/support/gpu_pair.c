/* A source engine and a target engine in one process, with pages in host or in device memory:
 * requests with random page tables, and every byte of both pools looked at.
 *
 *   gpu_pair SOURCE-SOCKET TARGET-SOCKET HOST:PORT KIND KIND REQUESTS
 *
 * A kind is host; ipc, of cuMemAlloc; vmm, of one VMM allocation; or segments, of one each 2 MiB,
 * as PyTorch's expandable segments are, from the middle of the first on. Exit 0: all bytes were
 * right. 77: there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cuda_driver.h"
#include "base/rng.h"
#include "tests/support/small_engine.h"
#include "tests/support/test_secret.h"

#define LAYERS 3
#define PAGES  64u
#define GRAIN  ((size_t)2 << 20) /* of VMM allocations */

static const struct kvr_cuda *cuda;

/* The engine's `memory` stays as the mirror in which its pages are written and read. */
struct device_engine {
    struct engine engine;
    const char *kind;
    CUdeviceptr pages;
    uint8_t *expected;
};

static struct device_engine source, target;
static kvrail_store stored_by, waited_by;
static uint64_t generation; /* larger in every later process */

/* In allocations of `each`, side by side; the region begins at `offset`. */
static int allocate_vmm(struct device_engine *device, size_t bytes, size_t each, size_t offset)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemAccessDesc access = {.location = properties.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t whole = (offset + bytes + each - 1) / each * each;
    CUmemGenericAllocationHandle allocation;
    CUdeviceptr base = 0;

    if (cuda->MemAddressReserve(&base, whole, 0, 0, 0) != CUDA_SUCCESS)
        return 1;
    for (size_t at = 0; at < whole; at += each)
        if (cuda->MemCreate(&allocation, each, &properties, 0) != CUDA_SUCCESS ||
            cuda->MemMap(base + at, each, 0, allocation, 0) != CUDA_SUCCESS ||
            cuda->MemRelease(allocation) != CUDA_SUCCESS)
            return 1;
    device->pages = base + offset;
    return cuda->MemSetAccess(base, whole, &access, 1) != CUDA_SUCCESS;
}

static int allocate(struct device_engine *device, size_t bytes)
{
    if (strcmp(device->kind, "vmm") == 0)
        return allocate_vmm(device, bytes, (bytes + GRAIN - 1) / GRAIN * GRAIN, 0);
    if (strcmp(device->kind, "segments") == 0)
        return allocate_vmm(device, bytes, GRAIN, GRAIN / 2);
    return cuda->MemAlloc(&device->pages, bytes) != CUDA_SUCCESS;
}

/* Before the region is registered: device memory instead of the mirror. */
static int place(struct engine *engine)
{
    struct device_engine *device = engine == &source.engine ? &source : &target;
    struct kvrail_error error = {0};

    if (strcmp(device->kind, "host") == 0)
        return 0;
    if (allocate(device, engine->region.bytes) != 0) {
        printf("no device memory of %llu bytes\n", (unsigned long long)engine->region.bytes);
        return 1;
    }
    if (kvrail_region_of_device(&engine->region, device->pages, &error) != KVRAIL_OK) {
        printf("region: %s\n", error.detail);
        return 1;
    }
    if (strcmp(device->kind, "segments") == 0 && engine->region.allocation_count < 2) {
        printf("the region lies over %u allocations, not over several\n",
               engine->region.allocation_count);
        return 1;
    }
    return 0;
}

/* Between the mirror and the pages, of layers [first, end): to them in the stream's order, from
 * them at once. */
static int copy(const struct device_engine *device, bool to_pages, unsigned first, unsigned end,
                CUstream stream)
{
    uint64_t from = first * device->engine.region.layer_stride;
    size_t bytes = (end - first) * device->engine.region.layer_stride;
    uint8_t *mirror = (uint8_t *)device->engine.memory.address + from;
    CUdeviceptr pages = device->pages + from;

    if (device->pages == 0)
        return 0;
    return (to_pages ? cuda->MemcpyHtoDAsync(pages, mirror, bytes, stream)
                     : cuda->MemcpyDtoHAsync(mirror, pages, bytes, stream)) != CUDA_SUCCESS ||
           (!to_pages && cuda->StreamSynchronize(stream) != CUDA_SUCCESS);
}

static void fill(uint8_t *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i + 8 <= count; i += 8) {
        uint64_t value = kvr_mix64(seed + i);

        memcpy(bytes + i, &value, 8);
    }
}

static uint64_t page_at(const struct kvrail_region *region, unsigned layer, unsigned part,
                        uint32_t page)
{
    return layer * region->layer_stride + part * region->part_stride + page * region->page_stride;
}

/* What the target must hold when these pages have moved. */
static void expect(const uint32_t *from, const uint32_t *to, uint32_t count)
{
    const struct kvrail_region *region = &target.engine.region;

    for (unsigned layer = 0; layer < LAYERS; layer++)
        for (unsigned part = 0; part < region->part_count; part++)
            for (uint32_t i = 0; i < count; i++)
                memcpy(target.expected + page_at(region, layer, part, to[i]),
                       source.expected + page_at(region, layer, part, from[i]),
                       region->page_stride);
}

static void shuffle(uint32_t *pages, struct kvr_rng *rng)
{
    for (uint32_t i = 0; i < PAGES; i++) {
        uint32_t at = (uint32_t)kvr_rng_below(rng, i + 1);

        pages[i] = pages[at];
        pages[at] = i;
    }
}

static int check(unsigned number, unsigned first, unsigned end, const char *when)
{
    uint64_t stride = target.engine.region.layer_stride, from = first * stride;

    if (memcmp((uint8_t *)target.engine.memory.address + from, target.expected + from,
               (end - first) * stride) == 0)
        return 0;
    printf("request %u: bytes of layers %u to %u are wrong %s\n", number, first, end - 1, when);
    return 1;
}

/* As a model does, a layer after the other: computed, and final in the stream's order. */
static int compute(unsigned layer, CUstream stream)
{
    return copy(&source, true, layer, layer + 1, stream) != 0 ||
           kvrail_ready_on_stream(source.engine.agent, 0, source.engine.base + layer + 1, stream,
                                  &stored_by) != KVRAIL_OK ||
           cuda->StreamSynchronize(stream) != CUDA_SUCCESS;
}

/* As a decode stream does: behind the landed word of the layer, before any event, and before the
 * source has computed the next. */
static int decode(unsigned number, unsigned layer, CUstream stream)
{
    if (kvrail_landed_on_stream(target.engine.agent, 0, (uint64_t)number * LAYERS + layer + 1,
                                stream, &waited_by) != KVRAIL_OK ||
        copy(&target, false, layer, layer + 1, stream) != 0 ||
        cuda->StreamSynchronize(stream) != CUDA_SUCCESS)
        return 1;
    return check(number, layer, layer + 1, "behind the landed word");
}

static int request(unsigned number, const char *agent, struct kvr_rng *rng, CUstream stream)
{
    uint32_t from[PAGES], to[PAGES], count = (uint32_t)kvr_rng_between(rng, 1, PAGES);
    struct kvrail_source_address address = {.size = sizeof(struct kvrail_source_address),
                                            .agent = agent,
                                            .engine = {1},
                                            .generation = generation};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .tokens = (uint64_t)count * 16,
                                          .sources = &address,
                                          .source_count = 1,
                                          .secret = TEST_SECRET};
    struct kvrail_event event;
    char name[32];

    snprintf(name, sizeof(name), "gpu-%u", number);
    fetch.request = name;
    shuffle(from, rng);
    shuffle(to, rng);
    fill(source.expected, source.engine.region.bytes, kvr_rng_next(rng));
    memcpy(source.engine.memory.address, source.expected, source.engine.region.bytes);
    expect(from, to, count);
    source.engine.ended = target.engine.ended = false;
    source.engine.base = (uint64_t)number * LAYERS;
    if (engine_publish(&source.engine, name, from, count) != 0 ||
        kvrail_source_end(source.engine.agent, source.engine.handle, KVRAIL_OK) != KVRAIL_OK ||
        engine_fetch(&target.engine, &fetch, to, count) != 0 ||
        kvrail_target_watch(target.engine.agent, target.engine.handle, 0,
                            (uint64_t)number * LAYERS) != KVRAIL_OK)
        return 1;
    usleep(number % 2 * 2000); /* the agent waits for the word, and sleeps, or comes late */
    for (unsigned layer = 0; layer < LAYERS; layer++)
        if (compute(layer, stream) != 0 || (number % 2 == 1 && decode(number, layer, stream) != 0))
            return 1;
    while (!target.engine.ended)
        if (!engine_take(&target.engine, "target", &event))
            return 1;
    while (!source.engine.ended)
        if (!engine_take(&source.engine, "source", &event))
            return 1;
    if (!target.engine.done || copy(&target, false, 0, LAYERS, stream) != 0)
        return 1;
    return check(number, 0, LAYERS, "at the end");
}

static int attach(struct device_engine *device, const char *socket, uint8_t number,
                  const char *kind)
{
    struct engine_shape shape = {.model = "gpu",
                                 .generation = generation,
                                 .layers = LAYERS,
                                 .page_tokens = 16,
                                 .pages = PAGES,
                                 .place = place};

    device->kind = kind;
    if (engine_attach(&device->engine, socket, number, &shape) != 0)
        return 1;
    device->expected = calloc(1, device->engine.region.bytes);
    return device->expected == NULL;
}

int main(int argc, char **argv)
{
    struct kvr_error error;
    struct kvr_rng rng;
    CUcontext context;
    CUstream stream;
    unsigned requests;

    if (argc != 7) {
        printf("usage: gpu_pair SOURCE-SOCKET TARGET-SOCKET HOST:PORT KIND KIND REQUESTS\n");
        return 2;
    }
    if (kvr_cuda_open(&cuda, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    if (cuda->DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuda->CtxSetCurrent(context) != CUDA_SUCCESS ||
        cuda->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return 1;
    generation = kvr_clock_wall();
    kvr_rng_init(&rng, 1);
    if (attach(&source, argv[1], 1, argv[4]) != 0 || attach(&target, argv[2], 2, argv[5]) != 0 ||
        copy(&target, true, 0, LAYERS, stream) != 0)
        return 1;
    requests = (unsigned)atoi(argv[6]);
    for (unsigned i = 0; i < requests; i++)
        if (request(i, argv[3], &rng, stream) != 0)
            return 1;
    kvrail_close(source.engine.agent);
    kvrail_close(target.engine.agent);
    (void)cuda->StreamDestroy(stream);
    printf("%u requests from %s to %s memory, every byte right; ready by %s, awaited by %s\n",
           requests, argv[4], argv[5],
           stored_by == KVRAIL_STORE_GPU ? "a stream's store" : "a host function",
           waited_by == KVRAIL_STORE_GPU ? "a stream" : "a host function");
    return 0;
}
