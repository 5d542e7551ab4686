/* How long an agent takes to register a large region on a GPU: as large as the engine says, or half
 * of it, and so on, where the GPU has less memory.
 *
 *   gpu_region SOCKET GIB
 *
 * A small region comes first: with it the agent makes its context and its staging memory. Prints
 * one JSON object. Exit 77: there is no GPU, or it gives no memory that processes can share. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvrail.h>

#include "base/clock.h"
#include "base/cuda_driver.h"

#define LAYERS      64u
#define PAGE_TOKENS 16u
#define HEADS       2u
#define HEAD_BYTES  128u
#define PAGE_BYTES  ((uint64_t)LAYERS * 2 * PAGE_TOKENS * HEADS * HEAD_BYTES) /* of all layers */
#define SMALL_BYTES ((uint64_t)16 << 20)
#define GIB         ((uint64_t)1 << 30)
#define WAIT_MS     50000

static struct kvrail *agent;

static int failed(const char *what, const struct kvrail_error *error)
{
    printf("region no: %s: %s\n", what, error->detail);
    return 1;
}

static double ms_since(kvr_ns began)
{
    return (double)(kvr_clock_now() - began) / 1e6;
}

static int attach(const char *socket)
{
    struct kvrail_identity me = {.size = sizeof(struct kvrail_identity),
                                 .name = "large",
                                 .engine = {3},
                                 .tp_size = 1,
                                 .pp_size = 1,
                                 .generation = kvr_clock_wall(),
                                 .model = "large",
                                 .dtype = "bfloat16",
                                 .layers_total = LAYERS,
                                 .kv_heads_total = HEADS,
                                 .head_dim = HEAD_BYTES / 2};
    struct kvrail_error error;

    return kvrail_open(socket, &me, WAIT_MS, &agent, &error) == KVRAIL_OK ? 0
                                                                          : failed("open", &error);
}

static int add(const struct kvrail_device_memory *memory, uint64_t bytes, double *ret_ms,
               uint32_t *ret_id)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .name = "kv",
                                   .layer_count = LAYERS,
                                   .part_count = 2,
                                   .parts = {KVRAIL_PART_K, KVRAIL_PART_V},
                                   .head_count = HEADS,
                                   .page_tokens = PAGE_TOKENS,
                                   .page_count = (uint32_t)(bytes / PAGE_BYTES),
                                   .head_bytes = HEAD_BYTES};
    struct kvrail_error error;
    kvr_ns began;

    kvrail_region_dense(&region);
    if (kvrail_region_of_device(&region, memory->address, &error) != KVRAIL_OK)
        return failed("its descriptor", &error);
    began = kvr_clock_now();
    if (kvrail_region_add(agent, &region, WAIT_MS, ret_id) != KVRAIL_OK)
        return failed("region_add", kvrail_last_error(agent));
    *ret_ms = ms_since(began);
    return 0;
}

static int drop(uint32_t id, double *ret_ms)
{
    struct pollfd events = {.fd = kvrail_event_fd(agent), .events = POLLIN};
    struct kvrail_event event = {.kind = 0};
    kvr_ns began = kvr_clock_now();

    if (kvrail_region_drop(agent, id) != KVRAIL_OK)
        return failed("region_drop", kvrail_last_error(agent));
    while (event.kind != KVRAIL_EVENT_REGION_GONE) {
        int count = kvrail_poll(agent, &event, 1);

        if (count < 0)
            return failed("poll", kvrail_last_error(agent));
        if (count == 0 && poll(&events, 1, WAIT_MS) <= 0) {
            printf("region no: it was not given back in %d s\n", WAIT_MS / 1000);
            return 1;
        }
    }
    *ret_ms = ms_since(began);
    return 0;
}

/* The library describes memory in a context of the caller. */
static int enter(void)
{
    const struct kvr_cuda *cuda;
    struct kvr_error error;
    CUcontext context;

    if (kvr_cuda_open(&cuda, &error) == KVR_OK &&
        kvr_cuda_check(cuda, cuda->DevicePrimaryCtxRetain(&context, 0), &error, "a context") ==
            KVR_OK &&
        kvr_cuda_check(cuda, cuda->CtxSetCurrent(context), &error, "to enter a context") == KVR_OK)
        return 0;
    printf("region no: %s\n", error.detail);
    return 77;
}

/* Half as much, and so on, where the GPU has less. */
static int allocate(uint64_t *bytes, struct kvrail_device_memory *memory)
{
    struct kvrail_error error;
    kvrail_status status;

    while ((status = kvrail_device_memory_create(0, *bytes, memory, &error)) != KVRAIL_OK &&
           *bytes > GIB)
        *bytes /= 2;
    if (status == KVRAIL_OK)
        return 0;
    printf("region no: %s\n", error.detail);
    return 77;
}

int main(int argc, char **argv)
{
    struct kvrail_device_memory small, large;
    double create_ms, first_ms, add_ms, drop_ms;
    uint64_t bytes, small_bytes = SMALL_BYTES;
    uint32_t small_id, id;
    kvr_ns began;
    int code;

    if (argc != 3 || atoi(argv[2]) <= 0) {
        fprintf(stderr, "usage: gpu_region SOCKET GIB\n");
        return 2;
    }
    bytes = (uint64_t)atoi(argv[2]) * GIB;
    if ((code = enter()) != 0 || (code = allocate(&small_bytes, &small)) != 0)
        return code;
    began = kvr_clock_now();
    if ((code = allocate(&bytes, &large)) != 0)
        return code;
    create_ms = ms_since(began);
    if (attach(argv[1]) != 0 || add(&small, small_bytes, &first_ms, &small_id) != 0 ||
        add(&large, bytes, &add_ms, &id) != 0 || drop(id, &drop_ms) != 0)
        return 1;
    kvrail_close(agent);
    kvrail_device_memory_destroy(&large);
    kvrail_device_memory_destroy(&small);
    printf("{\n  \"gib\": %.3f,\n  \"create_ms\": %.2f,\n  \"first_ms\": %.2f,\n"
           "  \"add_ms\": %.2f,\n  \"drop_ms\": %.2f\n}\n",
           (double)bytes / GIB, create_ms, first_ms, add_ms, drop_ms);
    printf(
        "%.0f GiB: made in %.0f ms, registered in %.1f ms, given back in %.1f ms; the first region "
        "took %.0f ms\n",
        (double)bytes / GIB, create_ms, add_ms, drop_ms, first_ms);
    return 0;
}
