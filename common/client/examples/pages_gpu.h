/* Common to the examples with a GPU, for nvcc: an engine with pages in device memory, and the
 * contents that a model would have written. */
#ifndef EXAMPLE_PAGES_GPU_H
#define EXAMPLE_PAGES_GPU_H

#include <stdlib.h>

#include <cuda_runtime.h>

#include "engine.h"

#define NO_GPU 77 /* exit status */

/* As a kernel takes them: where the pages of one layer lie. */
struct pages {
    uint32_t *layer; /* in device memory */
    uint64_t part_words, page_words;
    uint32_t number;     /* of the layer */
    uint32_t ids[PAGES]; /* logical page → physical page */
};

/* Each word of K and V of each layer and token has its own contents. A block for each page of K and
 * of V, a thread for each of their words in turn. */
static __device__ uint32_t content_of(uint32_t layer, uint32_t part, uint32_t page, uint32_t word)
{
    uint32_t mixed = ((layer * 2 + part) * PAGES + page) * 65536 + word + 1;

    mixed = (mixed ^ mixed >> 16) * 0x7feb352du;
    return (mixed ^ mixed >> 15) * 0x846ca68bu;
}

static __device__ uint32_t *page_at(const struct pages *pages)
{
    return pages->layer + blockIdx.y * pages->part_words +
           pages->ids[blockIdx.x] * pages->page_words;
}

static inline void gpu_check(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}

/* 0, 1 or NO_GPU, with the reason on stderr. */
static inline int gpu_start(const char *socket, const char *name, uint8_t id, struct engine *engine,
                            void **ret_memory)
{
    struct kvrail_error error;
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);

    if (code != cudaSuccess || count == 0) {
        fprintf(stderr, "this host has no GPU to compute on: %s\n", cudaGetErrorString(code));
        return NO_GPU;
    }
    engine_layout(&engine->region);
    gpu_check(cudaMalloc(ret_memory, engine->region.bytes), "device memory for the pages");
    gpu_check(cudaMemset(*ret_memory, 0, engine->region.bytes), "empty pages");
    gpu_check(cudaDeviceSynchronize(), "empty pages");
    if (kvrail_region_of_device(&engine->region, (uint64_t)(uintptr_t)*ret_memory, &error) !=
        KVRAIL_OK)
        return engine_failed("region", &error);
    return engine_join(socket, name, id, engine);
}

static inline struct pages pages_of(const struct engine *engine, void *memory, uint32_t layer,
                                    const uint32_t ids[PAGES])
{
    const struct kvrail_region *region = &engine->region;
    struct pages pages;

    pages.layer = (uint32_t *)((char *)memory + layer * region->layer_stride);
    pages.part_words = region->part_stride / sizeof(uint32_t);
    pages.page_words = region->page_stride / sizeof(uint32_t);
    pages.number = layer;
    memcpy(pages.ids, ids, sizeof(pages.ids));
    return pages;
}

#endif
