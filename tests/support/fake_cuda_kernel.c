/* Kernels, played by name: what they would do with the same arguments. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/copy_kernel.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/gpu_beside_model.h"
#include "tools/bench/bench_gpu_ping_host.h"

/* Its pieces, in the stream's order. What the GPU does not see it finds out when it runs, and from
 * then on nothing of the context works. */
static CUresult copy_pieces(CUstream stream, void **arguments)
{
    uint64_t address = *(CUdeviceptr *)arguments[0];
    uint32_t count = *(uint32_t *)arguments[1];
    const struct kvr_copy_piece *pieces =
        (const struct kvr_copy_piece *)(const void *)fake_seen(address, count * sizeof(*pieces));
    CUresult code = CUDA_SUCCESS;

    for (uint32_t i = 0; pieces != NULL && i < count && code == CUDA_SUCCESS; i++) {
        const uint8_t *from = fake_seen(pieces[i].from, pieces[i].bytes);
        const uint8_t *to = fake_seen(pieces[i].to, pieces[i].bytes);

        if (from == NULL || to == NULL)
            pieces = NULL;
        else
            code = fake_queue_copy(stream, (uintptr_t)from, (uintptr_t)to, pieces[i].bytes);
    }
    if (pieces == NULL)
        fake_break(CUDA_ERROR_ILLEGAL_ADDRESS);
    return code;
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

/* It runs in a thread while the host waits for it. The end of the thread is the stream's next work.
 */
static CUresult ping(CUstream stream, void **arguments)
{
    uint8_t *words = fake_seen(*(CUdeviceptr *)arguments[0], sizeof(struct gpu_ping));
    pthread_t *thread = malloc(sizeof(*thread));

    if (words == NULL || pthread_create(thread, NULL, play, words) != 0) {
        free(thread);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return fake_LaunchHostFunc(stream, join, thread);
}

static void compute(void *unused)
{
    (void)unused;
    usleep(200);
}

/* What it computes is of no interest. */
static CUresult model_step(CUstream stream, void **arguments)
{
    return fake_seen(*(CUdeviceptr *)arguments[0], 4) != NULL
               ? fake_LaunchHostFunc(stream, compute, NULL)
               : CUDA_ERROR_INVALID_VALUE;
}

static const struct kernel {
    const char *name;
    unsigned threads;
    CUresult (*launch)(CUstream stream, void **arguments);
} kernels[] = {{KVR_COPY_KERNEL, KVR_COPY_THREADS, copy_pieces},
               {GPU_PING_KERNEL, 1, ping},
               {MODEL_KERNEL, MODEL_THREADS, model_step}};

CUresult fake_ModuleLoadDataEx(CUmodule *ret, const void *image, unsigned count,
                               CUjit_option *options, void **values)
{
    CUresult code = fake_ready();

    (void)options, (void)values;
    if (code != CUDA_SUCCESS)
        return code;
    if (getenv("FAKE_CUDA_OLD") != NULL)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (count != 0 || (*(const uint32_t *)image != 0xba55ed50 && /* a fat binary begins so */
                       strncmp(image, ".version ", 9) != 0))     /* and PTX so */
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

static _Atomic unsigned launches;

__attribute__((visibility("default"))) unsigned fake_cuda_launches(void)
{
    return launches;
}

CUresult fake_LaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                           unsigned threads, unsigned threads_y, unsigned threads_z,
                           unsigned shared, CUstream stream, void **arguments, void **extra)
{
    const struct kernel *kernel = (const struct kernel *)(uintptr_t)function;

    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (x == 0 || x > INT32_MAX || y == 0 || y > UINT16_MAX || z != 1 || shared != 0 ||
        extra != NULL || arguments == NULL || threads != kernel->threads || threads_y != 1 ||
        threads_z != 1)
        return CUDA_ERROR_INVALID_VALUE;
    launches++;
    return kernel->launch(stream, arguments);
}
