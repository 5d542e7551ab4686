/* What an agent's copies and moves cost a model that computes on the same GPU in another process,
 * and what the model costs them. The model is a child: it launches kernels one behind the other, of
 * as many blocks as the GPU runs at once. A store to a word of the host follows each of them, which
 * is the readiness of a layer. The parent copies and moves pages in each way that device_cuda has.
 *
 *   gpu_beside SECONDS
 *
 * SECONDS is the time of each of the eleven phases. Prints one JSON object; a member is missing
 * where the device has no such way. Exit 77: there is no GPU, or it refuses a call. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "device/allocation.h"
#include "device/device_cuda.h"
#include "tests/support/gpu_beside_model.h"

#define PAGE_BYTES   65536u
#define PIECES       64u
#define COPY_BYTES   (PIECES * PAGE_BYTES)
#define COPIES       4u /* under way */
#define REGION_BYTES ((uint64_t)256 << 20)
#define TIMES_MAX    65536u

static struct model *model; /* shared with the child */
static kvr_ns phase_ns;

static int failed(const char *what, const struct kvr_error *error)
{
    printf("beside no: %s: %s\n", what, error->detail);
    return 77;
}

/* ---- times --------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double percentile(float *times, uint32_t count, uint32_t of_hundred)
{
    if (count == 0)
        return 0;
    qsort(times, count, sizeof(times[0]), by_time);
    return times[(uint64_t)(count - 1) * of_hundred / 100];
}

/* ---- the agent's side ---------------------------------------------------------------------- */

struct side {
    struct kvr_device *device;
    struct kvr_device_memory *memory;
    uint8_t *host; /* COPIES * COPY_BYTES, pinned */
    float *times;
    uint32_t time_count;
    kvr_ns began[COPIES];
};

struct outcome {
    double gb_s, p50_us, p99_us;
};

static void time_add(struct side *side, kvr_ns began)
{
    if (side->time_count < TIMES_MAX)
        side->times[side->time_count++] = (float)(kvr_clock_now() - began) / 1000;
}

/* Pages far apart, in another order each time. */
static uint64_t page_at(uint64_t round, uint32_t piece, uint64_t pages)
{
    return (round * PIECES + piece) * 127 % pages * PAGE_BYTES;
}

static bool copy_start(struct side *side, uint64_t round)
{
    struct kvr_device_piece pieces[PIECES];
    uint32_t slot = round % COPIES;

    for (uint32_t i = 0; i < PIECES; i++)
        pieces[i] =
            (struct kvr_device_piece){.memory = side->memory,
                                      .offset = page_at(round, i, REGION_BYTES / PAGE_BYTES),
                                      .host = side->host + (slot * PIECES + i) * PAGE_BYTES,
                                      .bytes = PAGE_BYTES};
    side->began[slot] = kvr_clock_now();
    return side->device->ops->copy(side->device, side->began[slot], KVR_DEVICE_GATHER, pieces,
                                   PIECES, slot) == KVR_OK;
}

static bool gather(struct side *side, uint64_t *ret_bytes)
{
    kvr_ns end = kvr_clock_now() + phase_ns;
    uint64_t started = 0, ended = 0;
    bool good = true;

    while (good && (kvr_clock_now() < end || ended < started)) {
        struct kvr_device_copied copied[COPIES];
        unsigned count;

        while (good && started - ended < COPIES && kvr_clock_now() < end)
            good = copy_start(side, started++);
        count = side->device->ops->poll(side->device, kvr_clock_now(), copied, COPIES);
        for (unsigned i = 0; i < count; i++) {
            good = good && copied[i].status == KVR_OK;
            time_add(side, side->began[copied[i].token]);
        }
        ended += count;
    }
    *ret_bytes = ended * COPY_BYTES;
    return good;
}

/* From one half of the memory to the other. */
static bool move(struct side *side, uint64_t *ret_bytes)
{
    kvr_ns end = kvr_clock_now() + phase_ns;
    struct kvr_device_move pieces[PIECES];
    uint64_t half = REGION_BYTES / 2, round = 0;
    bool good = true;

    for (; good && kvr_clock_now() < end; round++) {
        kvr_ns began = kvr_clock_now();

        for (uint32_t i = 0; i < PIECES; i++)
            pieces[i] = (struct kvr_device_move){
                .source = side->memory,
                .target = side->memory,
                .source_offset = page_at(round, i, half / PAGE_BYTES),
                .target_offset = half + page_at(round + 1, i, half / PAGE_BYTES),
                .bytes = PAGE_BYTES};
        good = side->device->ops->move(side->device, pieces, PIECES) == KVR_OK;
        time_add(side, began);
    }
    *ret_bytes = round * COPY_BYTES;
    return good;
}

static bool phase(struct side *side, bool moves, struct outcome *ret)
{
    kvr_ns began = kvr_clock_now();
    uint64_t bytes = 0;

    side->time_count = 0;
    if (!(moves ? move(side, &bytes) : gather(side, &bytes)))
        return false;
    ret->gb_s = (double)bytes / (double)(kvr_clock_now() - began);
    ret->p50_us = percentile(side->times, side->time_count, 50);
    ret->p99_us = percentile(side->times, side->time_count, 99);
    return true;
}

/* ---- the phases ---------------------------------------------------------------------------- */

struct steps {
    double per_s, p50_us, p99_us;
};

/* Where it has failed, no step is counted. */
static void model_start(void)
{
    model->step_count = 0;
    atomic_store(&model->runs, true);
    while (!atomic_load(&model->running) && !atomic_load(&model->failed))
        usleep(100);
}

static struct steps model_stop(kvr_ns began)
{
    kvr_ns took = kvr_clock_now() - began;
    uint32_t count;

    atomic_store(&model->runs, false);
    while (atomic_load(&model->running))
        usleep(100);
    count = model->step_count < MODEL_STEPS_MAX ? model->step_count : MODEL_STEPS_MAX;
    return (struct steps){.per_s = (double)model->step_count * 1e9 / (double)took,
                          .p50_us = percentile(model->step_us, count, 50),
                          .p99_us = percentile(model->step_us, count, 99)};
}

static void print_way(const char *name, const struct outcome *alone, const struct outcome *beside,
                      const struct steps *steps, const struct steps *undisturbed)
{
    printf(",\n  \"%s\": {\n    \"alone_gb_s\": %.3f,\n    \"beside_gb_s\": %.3f,\n", name,
           alone->gb_s, beside->gb_s);
    printf("    \"alone_p99_us\": %.1f,\n    \"beside_p50_us\": %.1f,\n"
           "    \"beside_p99_us\": %.1f,\n",
           alone->p99_us, beside->p50_us, beside->p99_us);
    printf("    \"model_slower\": %.3f,\n    \"ready_p50_us\": %.1f,\n    \"ready_p99_us\": %.1f\n"
           "  }",
           steps->per_s > 0 ? undisturbed->per_s / steps->per_s : 0, steps->p50_us, steps->p99_us);
}

static int run_way(struct side *side, const char *copier, bool moves,
                   const struct kvr_device_import *import, const struct steps *undisturbed,
                   char *said, size_t said_bytes)
{
    struct outcome alone, beside;
    struct kvr_error error = {0};
    struct steps steps;
    char name[32];
    kvr_ns began;
    bool good;

    snprintf(name, sizeof(name), "%s_%s", moves ? "move" : "gather", copier);
    if (kvr_device_cuda_open(0, kvr_cuda_copier_of(copier), &side->device, &error) != KVR_OK)
        return 0; /* as without nvcc */
    if (side->device->ops->import(side->device, import, &side->memory, &error) != KVR_OK ||
        side->device->ops->pin(side->device, side->host, (uint64_t)COPIES * COPY_BYTES, &error) !=
            KVR_OK)
        return failed(name, &error);
    good = phase(side, moves, &alone);
    model_start();
    began = kvr_clock_now();
    good = good && phase(side, moves, &beside);
    steps = model_stop(began);
    side->device->ops->unpin(side->device, side->host);
    side->device->ops->release(side->device, side->memory);
    kvr_device_close(side->device);
    if (!good) {
        printf("beside no: a %s failed\n", name);
        return 1;
    }
    print_way(name, &alone, &beside, &steps, undisturbed);
    snprintf(said + strlen(said), said_bytes - strlen(said), "; %s %.2f GB/s of %.2f, model %.2fx",
             name, beside.gb_s, alone.gb_s, steps.per_s > 0 ? undisturbed->per_s / steps.per_s : 0);
    return 0;
}

static int run_ways(struct side *side, const struct kvr_device_import *import)
{
    static const struct {
        const char *copier;
        bool moves;
    } ways[] = {{"kernel", false},
                {"packed", false},
                {"driver", false},
                {"kernel", true},
                {"driver", true}};
    struct kvr_device_cuda_facts facts = {.mps = false};
    char said[1024] = "";
    struct steps undisturbed;
    kvr_ns began;
    int code = 0;

    (void)kvr_device_cuda_list(&facts, 1, NULL);
    model_start();
    began = kvr_clock_now();
    usleep((useconds_t)(phase_ns / 1000));
    undisturbed = model_stop(began);
    printf("{\n  \"mps\": %d,\n  \"steps_s\": %.1f,\n  \"ready_p50_us\": %.1f,\n"
           "  \"ready_p99_us\": %.1f",
           facts.mps, undisturbed.per_s, undisturbed.p50_us, undisturbed.p99_us);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && code == 0; i++)
        code =
            run_way(side, ways[i].copier, ways[i].moves, import, &undisturbed, said, sizeof(said));
    printf("\n}\n%s%s\n", facts.mps ? "with MPS" : "without MPS", said);
    if (atomic_load(&model->failed))
        return failed("the model's kernels", &model->error);
    return code;
}

static int measure(void)
{
    static float times[TIMES_MAX];
    struct side side = {.times = times};
    struct kvr_allocation allocation = {0};
    struct kvr_device *device = NULL;
    struct kvr_error error = {0};
    int code;

    side.host = mmap(NULL, (size_t)COPIES * COPY_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (side.host == MAP_FAILED)
        return 1;
    if (kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &device, &error) != KVR_OK ||
        kvr_allocation_open(device, REGION_BYTES, &allocation, &error) != KVR_OK)
        code = failed("device memory", &error);
    else
        code = run_ways(&side, &allocation.import);
    kvr_allocation_close(&allocation);
    kvr_device_close(device);
    return code;
}

int main(int argc, char **argv)
{
    pid_t child;
    int code, status = 0;

    if (argc != 2 || atof(argv[1]) <= 0) {
        fprintf(stderr, "usage: gpu_beside SECONDS\n");
        return 2;
    }
    phase_ns = (kvr_ns)(atof(argv[1]) * 1e9);
    model = mmap(NULL, sizeof(*model), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (model == MAP_FAILED)
        return 1;
    (void)fflush(NULL);
    child = fork(); /* before this process has CUDA */
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        gpu_beside_model(model);
        _exit(0);
    }
    while (!atomic_load(&model->ready) && waitpid(child, &status, WNOHANG) == 0)
        usleep(1000);
    if (atomic_load(&model->ready) && !atomic_load(&model->failed)) {
        code = measure();
        atomic_store(&model->ends, true);
        (void)waitpid(child, NULL, 0);
    } else {
        code = failed("the model's kernels", &model->error);
    }
    return code;
}
