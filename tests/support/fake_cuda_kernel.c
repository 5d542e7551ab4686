/* Kernels, played by name: what they would do with the same arguments. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/copy_kernel.h"
#include "tests/support/fake_cuda.h"
#include "tools/bench_gpu_ping_host.h"

/* By the GPU: its own, or pinned. */
static bool is_seen(uint64_t address, uint64_t bytes)
{
    return fake_is_device(address, bytes) ||
           fake_is_pinned((const uint8_t *)(uintptr_t)address, bytes);
}

/* Its pieces, in the stream's order. */
static CUresult copy_pieces(CUstream stream, void **arguments)
{
    const struct kvr_copy_piece *pieces =
        (const struct kvr_copy_piece *)(uintptr_t) * (CUdeviceptr *)arguments[0];
    uint32_t count = *(uint32_t *)arguments[1];

    if (!fake_is_pinned((const uint8_t *)pieces, count * sizeof(*pieces)))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < count; i++) {
        const struct kvr_copy_piece *piece = &pieces[i];

        if (!is_seen(piece->from, piece->bytes) || !is_seen(piece->to, piece->bytes))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (fake_queue_copy(stream, piece->from, piece->to, piece->bytes) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    return CUDA_SUCCESS;
}

static void *play(void *ping)
{
    gpu_ping_host_play(ping);
    return NULL;
}

static void join(void *self)
{
    pthread_t *thread = self;

    (void)pthread_join(*thread, NULL);
    free(thread);
}

/* It runs while the host waits for it: in a thread, whose end is the stream's next work. */
static CUresult ping(CUstream stream, void **arguments)
{
    uint8_t *words = (uint8_t *)(uintptr_t) * (CUdeviceptr *)arguments[0];
    pthread_t *thread = malloc(sizeof(*thread));

    if (!fake_is_pinned(words, sizeof(struct gpu_ping)) ||
        pthread_create(thread, NULL, play, words) != 0) {
        free(thread);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return fake_LaunchHostFunc(stream, join, thread);
}

static const struct kernel {
    const char *name;
    unsigned threads;
    CUresult (*launch)(CUstream stream, void **arguments);
} kernels[] = {{KVR_COPY_KERNEL, KVR_COPY_THREADS, copy_pieces}, {GPU_PING_KERNEL, 1, ping}};

CUresult fake_ModuleLoadDataEx(CUmodule *ret, const void *image, unsigned count,
                               CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    if (*(const uint32_t *)image != 0xba55ed50) /* a fat binary begins so */
        return CUDA_ERROR_INVALID_IMAGE;
    *ret = (CUmodule)(uintptr_t)1;
    return CUDA_SUCCESS;
}

CUresult fake_ModuleUnload(CUmodule module)
{
    return module == (CUmodule)(uintptr_t)1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_ModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
    (void)module;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (strcmp(name, kernels[i].name) != 0)
            continue;
        *ret = (CUfunction)(uintptr_t)&kernels[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult fake_LaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                           unsigned threads, unsigned threads_y, unsigned threads_z,
                           unsigned shared, CUstream stream, void **arguments, void **extra)
{
    const struct kernel *kernel = (const struct kernel *)(uintptr_t)function;

    (void)shared, (void)extra;
    if (x == 0 || y == 0 || z != 1 || threads != kernel->threads || threads_y != 1 ||
        threads_z != 1)
        return CUDA_ERROR_INVALID_VALUE;
    return kernel->launch(stream, arguments);
}
