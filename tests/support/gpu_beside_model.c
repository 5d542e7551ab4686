#include "tests/support/gpu_beside_model.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cuda_driver.h"

#define STEP_US     300.0 /* about a layer of a large model */
#define ROUNDS_MIN  64u
#define ROUNDS_MAX  (1u << 28)
#define FIRST_ROUND 20000u
#define AHEAD       2u /* steps launched and not ended: the GPU is never idle */

/* Any GPU from sm_80 on, and any driver from CUDA 11 on, compiles this. Each thread makes `rounds`
 * dependent multiplications, so an interrupted step has as much to do as any. */
static const char image[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry " MODEL_KERNEL "(.param .u64 result, .param .u32 rounds)\n"
    "{\n"
    ".reg .pred %more;\n.reg .b32 %at, %end;\n.reg .f32 %x, %y;\n.reg .b64 %to;\n"
    "ld.param.u64 %to, [result];\nld.param.u32 %end, [rounds];\n"
    "mov.u32 %at, 0;\nmov.f32 %x, 0f3F800000;\nmov.f32 %y, 0f3F7FFFFF;\n"
    "again:\n"
    "fma.rn.f32 %x, %x, %y, %y;\nadd.u32 %at, %at, 1;\nsetp.lt.u32 %more, %at, %end;\n"
    "@%more bra again;\n"
    "st.global.f32 [%to], %x;\nret;\n"
    "}\n";

struct gpu {
    const struct kvr_cuda *cuda;
    CUfunction step;
    CUstream stream;
    CUevent events[AHEAD];
    CUdeviceptr result, word_address;
    volatile uint64_t *word;
    unsigned blocks;
    uint32_t rounds;
    uint64_t launched;
};

static bool did(struct gpu *gpu, CUresult code, struct kvr_error *error, const char *what)
{
    return kvr_cuda_check(gpu->cuda, code, error, what) == KVR_OK;
}

static bool word_open(struct gpu *gpu, struct kvr_error *error)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    gpu->word = page;
    return page != MAP_FAILED &&
           did(gpu,
               gpu->cuda->MemHostRegister(
                   page, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
               error, "to pin a word") &&
           did(gpu, gpu->cuda->MemHostGetDevicePointer(&gpu->word_address, page, 0), error,
               "the GPU's address of a word");
}

static bool gpu_open(struct gpu *gpu, struct kvr_error *error)
{
    CUcontext context;
    CUmodule module;
    int processors = 0;

    if (kvr_cuda_open(&gpu->cuda, error) != KVR_OK ||
        !did(gpu, gpu->cuda->DevicePrimaryCtxRetain(&context, 0), error, "a context") ||
        !did(gpu, gpu->cuda->CtxSetCurrent(context), error, "to enter a context") ||
        !did(gpu, gpu->cuda->ModuleLoadDataEx(&module, image, 0, NULL, NULL), error,
             "a kernel as text") ||
        !did(gpu, gpu->cuda->ModuleGetFunction(&gpu->step, module, MODEL_KERNEL), error,
             "the kernel's entry") ||
        !did(
            gpu,
            gpu->cuda->DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
            error, "the number of its processors") ||
        !did(gpu, gpu->cuda->MemAlloc(&gpu->result, 4096), error, "device memory") ||
        !did(gpu, gpu->cuda->StreamCreate(&gpu->stream, CU_STREAM_NON_BLOCKING), error,
             "a stream") ||
        !word_open(gpu, error))
        return false;
    for (uint32_t i = 0; i < AHEAD; i++)
        if (!did(gpu, gpu->cuda->EventCreate(&gpu->events[i], CU_EVENT_DISABLE_TIMING), error,
                 "an event"))
            return false;
    gpu->blocks = (unsigned)processors * 8; /* of 256 threads: as many as one runs at once */
    gpu->rounds = FIRST_ROUND;
    return true;
}

static bool launch(struct gpu *gpu, struct kvr_error *error)
{
    void *arguments[] = {&gpu->result, &gpu->rounds};
    uint64_t number = gpu->launched++;

    return did(gpu,
               gpu->cuda->LaunchKernel(gpu->step, gpu->blocks, 1, 1, MODEL_THREADS, 1, 1, 0,
                                       gpu->stream, arguments, NULL),
               error, "a kernel") &&
           did(gpu,
               gpu->cuda->StreamWriteValue64(gpu->stream, gpu->word_address, number + 1,
                                             CU_STREAM_WRITE_VALUE_DEFAULT),
               error, "a store by a stream") &&
           did(gpu, gpu->cuda->EventRecord(gpu->events[number % AHEAD], gpu->stream), error,
               "an event");
}

/* Until step `number` has raised its word. Looks at the event too: that ends the wait if the
 * context has failed. */
static bool await_word(struct gpu *gpu, uint64_t number, struct kvr_error *error)
{
    CUresult code = CUDA_SUCCESS;

    while (*gpu->word <= number) {
        code = gpu->cuda->EventQuery(gpu->events[number % AHEAD]);
        if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
            return did(gpu, code, error, "the kernel's end");
    }
    return true;
}

static bool step(struct gpu *gpu, struct kvr_error *error)
{
    return launch(gpu, error) && await_word(gpu, gpu->launched - 1, error);
}

/* How many rounds take about STEP_US on the idle GPU. */
static bool calibrate(struct gpu *gpu, struct kvr_error *error)
{
    for (int i = 0; i < 4; i++) {
        kvr_ns began;
        double rounds;

        if (!step(gpu, error)) /* the clocks rise */
            return false;
        began = kvr_clock_now();
        if (!step(gpu, error))
            return false;
        rounds = gpu->rounds * STEP_US * 1000 / (double)(kvr_clock_now() - began + 1);
        gpu->rounds = rounds < ROUNDS_MIN   ? ROUNDS_MIN
                      : rounds > ROUNDS_MAX ? ROUNDS_MAX
                                            : (uint32_t)rounds;
    }
    return true;
}

static bool run(struct gpu *gpu, struct model *model)
{
    uint64_t awaited = gpu->launched;
    kvr_ns last;

    for (uint32_t i = 0; i < AHEAD; i++)
        if (!launch(gpu, &model->error))
            return false;
    atomic_store(&model->running, true);
    last = kvr_clock_now();
    while (atomic_load(&model->runs)) {
        kvr_ns now;

        if (!await_word(gpu, awaited++, &model->error) || !launch(gpu, &model->error))
            return false;
        now = kvr_clock_now();
        model->step_us[model->step_count++ % MODEL_STEPS_MAX] = (float)(now - last) / 1000;
        last = now;
    }
    return await_word(gpu, gpu->launched - 1, &model->error);
}

void gpu_beside_model(struct model *model)
{
    struct gpu gpu = {.blocks = 0};
    bool good = gpu_open(&gpu, &model->error) && calibrate(&gpu, &model->error);

    atomic_store(&model->failed, !good);
    atomic_store(&model->ready, true);
    while (good && !atomic_load(&model->ends)) {
        if (atomic_load(&model->runs)) {
            good = run(&gpu, model);
            atomic_store(&model->failed, !good);
            atomic_store(&model->running, false);
        }
        usleep(100);
    }
}
