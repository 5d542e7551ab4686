/* Copies by one stream in each direction; an event behind each copy reports its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/device_cuda_state.h"

#define COPY_PIECES       ((size_t)KVR_DEVICE_COPIES_MAX * KVR_DEVICE_PIECES_MAX)
#define PIECES_BYTES      ((COPY_PIECES + MOVES_MAX) * sizeof(struct kvr_copy_piece))
/* A batch of the driver copies pieces of this size as fast as the other ways. */
#define BATCH_PIECE_BYTES 16384u

kvr_status cuda_enter(const struct device_cuda *cuda, struct kvr_error *error)
{
    return kvr_cuda_check(cuda->cuda, cuda->cuda->CtxSetCurrent(cuda->context), error,
                          "to use the GPU's context");
}

/* ---- host memory --------------------------------------------------------------------------- */

static kvr_status cuda_pin(struct kvr_device *device, void *base, uint64_t bytes,
                           struct kvr_error *error)
{
    const struct device_cuda *cuda = (const struct device_cuda *)device;

    KVR_TRY(cuda_enter(cuda, error));
    return kvr_cuda_check(
        cuda->cuda,
        cuda->cuda->MemHostRegister(base, bytes,
                                    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
        error, "to pin staging memory");
}

static void cuda_unpin(struct kvr_device *device, void *base)
{
    const struct device_cuda *cuda = (const struct device_cuda *)device;

    if (cuda_enter(cuda, NULL) == KVR_OK)
        (void)cuda->cuda->MemHostUnregister(base);
}

/* ---- copies -------------------------------------------------------------------------------- */

CUresult cuda_launch(const struct device_cuda *cuda, CUstream stream, CUdeviceptr pieces,
                     uint32_t piece_count, uint64_t longest)
{
    void *arguments[] = {&pieces, &piece_count};
    uint64_t slices = (longest + KVR_COPY_SLICE_BYTES - 1) / KVR_COPY_SLICE_BYTES;

    if (slices > KVR_COPY_SLICES_MAX)
        slices = KVR_COPY_SLICES_MAX;
    return cuda->cuda->LaunchKernel(cuda->kernel, piece_count, slices > 0 ? (unsigned)slices : 1, 1,
                                    KVR_COPY_THREADS, 1, 1, 0, stream, arguments, NULL);
}

/* With unified addresses the GPU sees pinned memory at this process's addresses. */
static CUresult copy_by_kernel(const struct device_cuda *cuda, kvr_device_way way,
                               struct cuda_copy *copy, const struct kvr_device_piece *pieces,
                               uint32_t piece_count)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < piece_count; i++) {
        const struct kvr_device_piece *piece = &pieces[i];
        uint64_t address = ((const struct cuda_memory *)piece->memory)->address + piece->offset;
        uint64_t host = (uintptr_t)piece->host;

        copy->pieces[i] = (struct kvr_copy_piece){
            .from = way == KVR_DEVICE_GATHER ? address : host,
            .to = way == KVR_DEVICE_GATHER ? host : address,
            .bytes = piece->bytes,
        };
        if (piece->bytes > longest)
            longest = piece->bytes;
    }
    return cuda_launch(cuda, cuda->streams[way], copy->pieces_address, piece_count, longest);
}

/* Large pieces go by a batch where there is one: it holds up no kernel of the engine. */
static bool packs(const struct device_cuda *cuda, const struct kvr_device_piece *pieces,
                  uint32_t piece_count)
{
    uint64_t bytes = 0;

    if (cuda->packer == NULL || cuda->packs_all || cuda->batch == NULL)
        return cuda->packer != NULL;
    for (uint32_t i = 0; i < piece_count; i++)
        bytes += pieces[i].bytes;
    return bytes < (uint64_t)piece_count * BATCH_PIECE_BYTES;
}

static CUresult copy_pieces(struct device_cuda *cuda, kvr_device_way way, struct cuda_copy *copy,
                            const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    bool taken = false;
    CUresult code = CUDA_SUCCESS;

    if (cuda->direct)
        return copy_by_kernel(cuda, way, copy, pieces, piece_count);
    if (packs(cuda, pieces, piece_count))
        code = cuda_copy_packed(cuda, way, copy, pieces, piece_count, &taken);
    return taken || code != CUDA_SUCCESS ? code
                                         : cuda_copy_by_driver(cuda, way, pieces, piece_count);
}

static bool addressable(const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    for (uint32_t i = 0; i < piece_count; i++)
        if (((const struct cuda_memory *)pieces[i].memory)->address == 0)
            return false;
    return true;
}

static kvr_status cuda_copy(struct kvr_device *device, kvr_ns now, kvr_device_way way,
                            const struct kvr_device_piece *pieces, uint32_t piece_count,
                            uint64_t token)
{
    struct device_cuda *cuda = (struct device_cuda *)device;
    struct cuda_copy *copy = cuda->free;
    CUresult code;

    (void)now;
    if (!kvr_device_pieces_fit(pieces, piece_count) || !addressable(pieces, piece_count))
        return KVR_INVALID;
    if (cuda->failed || cuda_enter(cuda, NULL) != KVR_OK)
        return KVR_COPY_FAILED;
    if (copy == NULL)
        return KVR_AGAIN;
    code = copy_pieces(cuda, way, copy, pieces, piece_count);
    if (code == CUDA_SUCCESS)
        code = cuda->cuda->EventRecord(copy->done, cuda->streams[way]);
    if (code != CUDA_SUCCESS) {
        /* Some pieces may be on their way. Copies accepted before fail with this one, once the
         * stream is idle. */
        cuda->failed = true;
        (void)cuda->cuda->StreamSynchronize(cuda->streams[way]);
        return KVR_COPY_FAILED;
    }
    cuda->free = copy->next;
    copy->token = token;
    copy->next = NULL;
    if (cuda->last[way] != NULL)
        cuda->last[way]->next = copy;
    else
        cuda->first[way] = copy;
    cuda->last[way] = copy;
    return KVR_OK;
}

/* A context's error belongs to no single copy: the GPU will do nothing of its pending work. */
static bool ended(struct device_cuda *cuda, const struct cuda_copy *copy)
{
    CUresult code = cuda->cuda->EventQuery(copy->done);

    if (code == CUDA_ERROR_NOT_READY)
        return false;
    if (code != CUDA_SUCCESS)
        cuda->failed = true;
    return true;
}

static unsigned cuda_poll(struct kvr_device *device, kvr_ns now,
                          struct kvr_device_copied *ret_copied, unsigned capacity)
{
    struct device_cuda *cuda = (struct device_cuda *)device;
    unsigned count = 0;

    (void)now;
    if (cuda->first[0] == NULL && cuda->first[1] == NULL)
        return 0;
    if (cuda_enter(cuda, NULL) != KVR_OK)
        cuda->failed = true;
    for (unsigned way = 0; way < WAYS; way++) {
        struct cuda_copy *copy;

        while (count < capacity && (copy = cuda->first[way]) != NULL && ended(cuda, copy)) {
            ret_copied[count++] = (struct kvr_device_copied){
                .token = copy->token, .status = cuda->failed ? KVR_COPY_FAILED : KVR_OK};
            cuda->first[way] = copy->next;
            if (copy->next == NULL)
                cuda->last[way] = NULL;
            copy->next = cuda->free;
            cuda->free = copy;
        }
    }
    return count;
}

/* ---- writes of cards ----------------------------------------------------------------------- */

static kvr_status cuda_flush(struct kvr_device *device)
{
    const struct device_cuda *cuda = (const struct device_cuda *)device;

    KVR_TRY(cuda_enter(cuda, NULL));
    return kvr_cuda_flush_writes(cuda->cuda, NULL);
}

/* ---- life ---------------------------------------------------------------------------------- */

static void cuda_close(struct kvr_device *device)
{
    struct device_cuda *cuda = (struct device_cuda *)device;
    const struct kvr_cuda *driver = cuda->cuda;

    if (cuda->context != NULL && cuda_enter(cuda, NULL) == KVR_OK) {
        for (unsigned way = 0; way < WAYS; way++) {
            if (cuda->streams[way] == NULL)
                continue;
            (void)driver->StreamSynchronize(cuda->streams[way]);
            (void)driver->StreamDestroy(cuda->streams[way]);
        }
        if (cuda->mover != NULL)
            (void)driver->StreamDestroy(cuda->mover); /* idle: each mover waits for its copy */
        if (cuda->moved != NULL)
            (void)driver->EventDestroy(cuda->moved);
        cuda_packer_close(cuda);
        for (uint32_t i = 0; i < KVR_DEVICE_COPIES_MAX; i++)
            if (cuda->copies[i].done != NULL)
                (void)driver->EventDestroy(cuda->copies[i].done);
        if (cuda->module != NULL)
            (void)driver->ModuleUnload(cuda->module);
        if (cuda->copies[0].pieces_address != 0)
            (void)driver->MemHostUnregister(cuda->pieces);
        (void)driver->CtxSetCurrent(NULL);
    }
    if (cuda->context != NULL)
        (void)driver->DevicePrimaryCtxRelease(cuda->number);
    if (cuda->pieces != NULL)
        munmap(cuda->pieces, PIECES_BYTES);
    cuda_batch_close(cuda);
    free(cuda);
}

static kvr_status context_open(struct device_cuda *cuda, struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;
    int32_t ordinal = cuda->device.ordinal;

    if (ordinal < 0 || ordinal >= driver->device_count)
        return kvr_error_set(error, KVR_INVALID, "device", "GPU %d: this host has 0 to %d", ordinal,
                             driver->device_count - 1);
    KVR_TRY(kvr_cuda_check(driver, driver->DeviceGet(&cuda->number, ordinal), error, "the GPU"));
    cuda->device.order = kvr_cuda_write_order(driver, cuda->number);
    KVR_TRY(kvr_cuda_check(driver, driver->DevicePrimaryCtxRetain(&cuda->context, cuda->number),
                           error, "a context on the GPU"));
    return cuda_enter(cuda, error);
}

static kvr_status streams_open(struct device_cuda *cuda, struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;
    kvr_status status = KVR_OK;

    for (unsigned way = 0; way < WAYS && status == KVR_OK; way++)
        status = kvr_cuda_check(driver,
                                driver->StreamCreate(&cuda->streams[way], CU_STREAM_NON_BLOCKING),
                                error, "a stream for copies");
    if (status == KVR_OK)
        status = kvr_cuda_check(driver, driver->StreamCreate(&cuda->mover, CU_STREAM_NON_BLOCKING),
                                error, "a stream for moves");
    if (status == KVR_OK)
        status = kvr_cuda_check(driver, driver->EventCreate(&cuda->moved, CU_EVENT_DISABLE_TIMING),
                                error, "an event behind moves");
    for (uint32_t i = 0; i < KVR_DEVICE_COPIES_MAX && status == KVR_OK; i++)
        status = kvr_cuda_check(driver,
                                driver->EventCreate(&cuda->copies[i].done, CU_EVENT_DISABLE_TIMING),
                                error, "an event behind a copy");
    return status;
}

static kvr_status pieces_open(struct device_cuda *cuda, struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;
    CUdeviceptr address = 0;
    kvr_status status;
    void *pieces =
        mmap(NULL, PIECES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pieces == MAP_FAILED)
        return kvr_error_system(error, "device", errno, "%zu bytes for lists of pieces",
                                PIECES_BYTES);
    cuda->pieces = pieces;
    KVR_TRY(cuda_pin(&cuda->device, pieces, PIECES_BYTES, error));
    status = kvr_cuda_check(driver, driver->MemHostGetDevicePointer(&address, pieces, 0), error,
                            "the GPU's address of pinned memory");
    if (status != KVR_OK) {
        (void)driver->MemHostUnregister(pieces);
        return status;
    }
    for (uint32_t i = 0; i < KVR_DEVICE_COPIES_MAX; i++) {
        struct cuda_copy *copy = &cuda->copies[i];
        size_t at = (size_t)i * KVR_DEVICE_PIECES_MAX;

        copy->pieces = (struct kvr_copy_piece *)pieces + at;
        copy->pieces_address = address + at * sizeof(*copy->pieces);
        copy->next = cuda->free;
        cuda->free = copy;
    }
    cuda->moves = (struct kvr_copy_piece *)pieces + COPY_PIECES;
    cuda->moves_address = address + COPY_PIECES * sizeof(*cuda->moves);
    return KVR_OK;
}

static kvr_status module_open(struct device_cuda *cuda, struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;

    kvr_status status = kvr_cuda_check(
        driver, driver->ModuleLoadDataEx(&cuda->module, kvr_copy_kernel_image, 0, NULL, NULL),
        error,
        "the copy kernel (a driver older than the toolkit that built this has to be updated)");

    if (status != KVR_OK) {
        cuda->module = NULL;
        return status;
    }
    status = kvr_cuda_check(driver,
                            driver->ModuleGetFunction(&cuda->kernel, cuda->module, KVR_COPY_KERNEL),
                            error, "the copy kernel's entry");
    if (status != KVR_OK) {
        (void)driver->ModuleUnload(cuda->module);
        cuda->module = NULL;
    }
    return status;
}

/* The kernel addresses pinned memory as this process does. */
static kvr_status direct_open(struct device_cuda *cuda, struct kvr_error *error)
{
    int same = 0;

    (void)cuda->cuda->DeviceGetAttribute(
        &same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, cuda->number);
    cuda->direct = same != 0;
    return cuda->direct
               ? KVR_OK
               : kvr_error_set(error, KVR_UNSUPPORTED, "device",
                               "this GPU sees pinned memory at other addresses than processes do: "
                               "its kernels cannot copy to and from there");
}

/* A driver that refuses the kernel still copies and moves, piece by piece. device_cuda.h says which
 * way is taken when. */
static kvr_status kernel_open(struct device_cuda *cuda, kvr_cuda_copier copier,
                              struct kvr_error *error)
{
    bool chosen = copier != KVR_CUDA_COPIER_AUTO;
    kvr_status status;

    if (copier == KVR_CUDA_COPIER_DRIVER)
        return KVR_OK;
    if (&kvr_copy_kernel_image[0] == &kvr_copy_kernel_image_end[0])
        return chosen ? kvr_error_set(error, KVR_UNSUPPORTED, "device",
                                      "this build has no copy kernel: nvcc was not found")
                      : KVR_OK;
    status = module_open(cuda, error);
    if (status != KVR_OK && !chosen) {
        cuda->device.slower = *error;
        return KVR_OK;
    }
    KVR_TRY(status);
    if (copier == KVR_CUDA_COPIER_KERNEL)
        return direct_open(cuda, error);
    cuda->packs_all = chosen;
    return chosen || kvr_cuda_mps(cuda->cuda, cuda->number) ? cuda_packer_open(cuda, error)
                                                            : KVR_OK;
}

static const char *copier_say(const struct device_cuda *cuda)
{
    if (cuda->direct)
        return "a kernel copies";
    if (cuda->packer == NULL)
        return cuda->batch != NULL ? "the driver copies, all pages of a copy in one call"
                                   : "the driver copies each page";
    return cuda->batch != NULL && !cuda->packs_all
               ? "the driver copies, all pages of a copy in one call; small ones are gathered "
                 "within the GPU by a kernel first"
               : "a kernel gathers them within the GPU, and the driver copies";
}

kvr_status kvr_device_cuda_ordinal(const struct kvr_gpu *gpu, int32_t *ret_ordinal,
                                   struct kvr_error *error)
{
    const struct kvr_cuda *driver;

    KVR_TRY(kvr_cuda_open(&driver, error));
    return kvr_cuda_ordinal(driver, gpu, ret_ordinal, error);
}

uint32_t kvr_device_cuda_list(struct kvr_device_cuda_facts *ret_facts, uint32_t capacity,
                              struct kvr_error *error)
{
    const struct kvr_cuda *driver;
    uint32_t count = 0;

    if (kvr_cuda_open(&driver, error) != KVR_OK)
        return 0;
    for (int32_t i = 0; i < driver->device_count && count < capacity; i++) {
        struct kvr_device_cuda_facts *facts = &ret_facts[count];
        CUdevice device;

        if (driver->DeviceGet(&device, i) != CUDA_SUCCESS ||
            kvr_cuda_gpu(driver, i, &facts->gpu, error) != KVR_OK)
            continue;
        facts->order = kvr_cuda_write_order(driver, device);
        facts->mps = kvr_cuda_mps(driver, device);
        facts->memory = (struct kvr_gpu_memory){0};
        (void)kvr_gpu_memory(facts->gpu.pci, &facts->memory);
        count++;
    }
    return count;
}

/* Of all processes. False: not known. */
static bool used_bytes(const struct kvr_cuda *driver, int32_t ordinal, uint64_t *ret_bytes)
{
    struct kvr_gpu_memory memory;
    struct kvr_gpu gpu;

    if (kvr_cuda_gpu(driver, ordinal, &gpu, NULL) != KVR_OK || !kvr_gpu_memory(gpu.pci, &memory))
        return false;
    *ret_bytes = memory.used_bytes;
    return true;
}

kvr_status kvr_device_cuda_open(int32_t ordinal, kvr_cuda_copier copier,
                                struct kvr_device **ret_device, struct kvr_error *error)
{
    static const struct kvr_device_ops ops = {
        .name = "cuda",
        .import = cuda_memory_import,
        .release = cuda_memory_release,
        .hint = cuda_memory_hint,
        .pin = cuda_pin,
        .unpin = cuda_unpin,
        .copy = cuda_copy,
        .poll = cuda_poll,
        .move = cuda_move,
        .flush = cuda_flush,
        .close = cuda_close,
    };
    const struct kvr_cuda *driver;
    uint64_t before = 0, after = 0;
    struct device_cuda *cuda;
    kvr_status status;
    bool known;

    KVR_TRY(kvr_cuda_open(&driver, error));
    known = used_bytes(driver, ordinal, &before);
    cuda = calloc(1, sizeof(*cuda));
    if (cuda == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a device");
    cuda->device = (struct kvr_device){.ops = &ops, .ordinal = ordinal};
    cuda->cuda = driver;
    status = context_open(cuda, error);
    if (status == KVR_OK)
        status = streams_open(cuda, error);
    if (status == KVR_OK)
        status = pieces_open(cuda, error);
    if (status == KVR_OK)
        status = cuda_batch_open(cuda, error);
    if (status == KVR_OK)
        status = kernel_open(cuda, copier, error);
    if (status != KVR_OK) {
        cuda_close(&cuda->device);
        return status;
    }
    cuda->device.copier = copier_say(cuda);
    if (known && used_bytes(driver, ordinal, &after) && after > before)
        cuda->device.held_bytes = after - before; /* other processes may have taken some of it */
    *ret_device = &cuda->device;
    return KVR_OK;
}
