/* Copies pieces through a slot in the GPU's own memory. The kernel gathers the pieces into the
 * slot, which takes a thirtieth of the time. The driver then copies the slot as one piece, as fast
 * as its largest copies. The other direction is the reverse. The second half of one copy runs
 * together with the first half of the next. */
#include <stdlib.h>

#include "device/device_cuda_state.h"

#define SLOTS      2
#define SLOT_BYTES (8u << 20)
#define RUNS_MAX   16u /* of contiguous host bytes; with more runs packing saves no time */
#define ALIGN      256u

struct slot {
    CUdeviceptr base;
    CUevent filled, freed; /* the ends of the first half and of the second */
};

struct cuda_packer {
    CUstream ahead[WAYS]; /* streams of the first halves */
    struct slot slots[WAYS][SLOTS];
    uint32_t next[WAYS];
};

struct run {
    uint8_t *host;
    uint64_t at, bytes; /* in the slot */
};

struct plan {
    struct run runs[RUNS_MAX];
    uint32_t run_count;
    uint64_t longest; /* bytes of the longest piece */
};

/* Contiguous host bytes are contiguous in the slot. False: they do not fit. */
static bool pack(struct cuda_copy *copy, kvr_device_way way, CUdeviceptr base,
                 const struct kvr_device_piece *pieces, uint32_t piece_count, struct plan *plan)
{
    uint64_t end = 0;

    *plan = (struct plan){.run_count = 0};
    for (uint32_t i = 0; i < piece_count; i++) {
        const struct kvr_device_piece *piece = &pieces[i];
        CUdeviceptr page = ((const struct cuda_memory *)piece->memory)->address + piece->offset;
        struct run *run = plan->run_count > 0 ? &plan->runs[plan->run_count - 1] : NULL;

        if (run == NULL || piece->host != run->host + run->bytes) {
            if (plan->run_count == RUNS_MAX)
                return false;
            run = &plan->runs[plan->run_count++];
            /* The same place within 16 bytes as in the page: whole words move. */
            *run = (struct run){.host = piece->host,
                                .at = (end + ALIGN - 1) / ALIGN * ALIGN + page % 16};
        }
        end = run->at + run->bytes + piece->bytes;
        if (piece->bytes > SLOT_BYTES || end > SLOT_BYTES)
            return false;
        copy->pieces[i] = (struct kvr_copy_piece){
            .from = way == KVR_DEVICE_GATHER ? page : base + run->at + run->bytes,
            .to = way == KVR_DEVICE_GATHER ? base + run->at + run->bytes : page,
            .bytes = piece->bytes,
        };
        run->bytes += piece->bytes;
        if (piece->bytes > plan->longest)
            plan->longest = piece->bytes;
    }
    return true;
}

static CUresult copy_runs(const struct device_cuda *cuda, kvr_device_way way, CUdeviceptr base,
                          const struct plan *plan, CUstream stream)
{
    CUresult code = CUDA_SUCCESS;

    for (uint32_t i = 0; i < plan->run_count && code == CUDA_SUCCESS; i++) {
        const struct run *run = &plan->runs[i];

        code = way == KVR_DEVICE_GATHER
                   ? cuda->cuda->MemcpyDtoHAsync(run->host, base + run->at, run->bytes, stream)
                   : cuda->cuda->MemcpyHtoDAsync(base + run->at, run->host, run->bytes, stream);
    }
    return code;
}

static CUresult half(const struct device_cuda *cuda, kvr_device_way way, bool by_kernel,
                     const struct slot *slot, const struct cuda_copy *copy, uint32_t piece_count,
                     const struct plan *plan, CUstream stream)
{
    return by_kernel ? cuda_launch(cuda, stream, copy->pieces_address, piece_count, plan->longest)
                     : copy_runs(cuda, way, slot->base, plan, stream);
}

CUresult cuda_copy_packed(const struct device_cuda *cuda, kvr_device_way way,
                          struct cuda_copy *copy, const struct kvr_device_piece *pieces,
                          uint32_t piece_count, bool *ret_taken)
{
    const struct kvr_cuda *driver = cuda->cuda;
    struct cuda_packer *packer = cuda->packer;
    const struct slot *slot = &packer->slots[way][packer->next[way] % SLOTS];
    CUstream first = packer->ahead[way], second = cuda->streams[way];
    bool gathers = way == KVR_DEVICE_GATHER;
    struct plan plan;
    CUresult code;

    *ret_taken = pack(copy, way, slot->base, pieces, piece_count, &plan);
    if (!*ret_taken)
        return CUDA_SUCCESS;
    packer->next[way]++;
    code = driver->StreamWaitEvent(first, slot->freed, 0);
    if (code == CUDA_SUCCESS)
        code = half(cuda, way, gathers, slot, copy, piece_count, &plan, first);
    if (code == CUDA_SUCCESS)
        code = driver->EventRecord(slot->filled, first);
    if (code == CUDA_SUCCESS)
        code = driver->StreamWaitEvent(second, slot->filled, 0);
    if (code == CUDA_SUCCESS)
        code = half(cuda, way, !gathers, slot, copy, piece_count, &plan, second);
    if (code == CUDA_SUCCESS)
        code = driver->EventRecord(slot->freed, second);
    if (code != CUDA_SUCCESS)
        (void)driver->StreamSynchronize(first); /* the caller waits for the second half */
    return code;
}

static kvr_status slot_open(const struct kvr_cuda *driver, struct slot *slot,
                            struct kvr_error *error)
{
    CUresult code = driver->MemAlloc(&slot->base, SLOT_BYTES);

    if (code == CUDA_SUCCESS)
        code = driver->EventCreate(&slot->filled, CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS)
        code = driver->EventCreate(&slot->freed, CU_EVENT_DISABLE_TIMING);
    return kvr_cuda_check(driver, code, error, "device memory to pack pieces in");
}

kvr_status cuda_packer_open(struct device_cuda *cuda, struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;
    kvr_status status = KVR_OK;

    cuda->packer = calloc(1, sizeof(*cuda->packer));
    if (cuda->packer == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a device");
    for (unsigned way = 0; way < WAYS && status == KVR_OK; way++) {
        status = kvr_cuda_check(
            driver, driver->StreamCreate(&cuda->packer->ahead[way], CU_STREAM_NON_BLOCKING), error,
            "a stream for copies");
        for (uint32_t i = 0; i < SLOTS && status == KVR_OK; i++)
            status = slot_open(driver, &cuda->packer->slots[way][i], error);
    }
    return status;
}

void cuda_packer_close(struct device_cuda *cuda)
{
    const struct kvr_cuda *driver = cuda->cuda;

    for (unsigned way = 0; cuda->packer != NULL && way < WAYS; way++) {
        if (cuda->packer->ahead[way] != NULL)
            (void)driver->StreamDestroy(cuda->packer->ahead[way]);
        for (uint32_t i = 0; i < SLOTS; i++) {
            struct slot *slot = &cuda->packer->slots[way][i];

            if (slot->filled != NULL)
                (void)driver->EventDestroy(slot->filled);
            if (slot->freed != NULL)
                (void)driver->EventDestroy(slot->freed);
            if (slot->base != 0)
                (void)driver->MemFree(slot->base);
        }
    }
    free(cuda->packer);
    cuda->packer = NULL;
}
