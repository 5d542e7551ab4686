/* Copies by the driver: all pieces in one call where the driver takes that (CUDA 12.8), else a call
 * for each piece. On an H100 a call cost 2 us, and a piece of a batch 0.5 us. */
#include <stdlib.h>

#include "device/device_cuda_state.h"

struct cuda_batch { /* the arguments of one call */
    CUdeviceptr from[KVR_DEVICE_PIECES_MAX], to[KVR_DEVICE_PIECES_MAX];
    size_t bytes[KVR_DEVICE_PIECES_MAX];
};

static CUdeviceptr address_of(const struct kvr_device_piece *piece)
{
    return ((const struct cuda_memory *)piece->memory)->address + piece->offset;
}

static CUresult copy_one(const struct device_cuda *cuda, kvr_device_way way,
                         const struct kvr_device_piece *piece)
{
    CUstream stream = cuda->streams[way];
    CUdeviceptr address = address_of(piece);

    return way == KVR_DEVICE_GATHER
               ? cuda->cuda->MemcpyDtoHAsync(piece->host, address, piece->bytes, stream)
               : cuda->cuda->MemcpyHtoDAsync(address, piece->host, piece->bytes, stream);
}

#if CUDA_VERSION >= 12080

kvr_status cuda_batch_open(struct device_cuda *cuda, struct kvr_error *error)
{
    if (cuda->cuda->MemcpyBatchAsync == NULL)
        return KVR_OK;
    cuda->batch = malloc(sizeof(*cuda->batch));
    return cuda->batch != NULL
               ? KVR_OK
               : kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a device");
}

static CUresult copy_all(const struct device_cuda *cuda, kvr_device_way way,
                         const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    struct cuda_batch *batch = cuda->batch;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first = 0, failed = 0, count = 0;

    for (uint32_t i = 0; i < piece_count; i++) {
        CUdeviceptr address = address_of(&pieces[i]), host = (uintptr_t)pieces[i].host;

        if (pieces[i].bytes == 0) /* the driver refuses these */
            continue;
        batch->from[count] = way == KVR_DEVICE_GATHER ? address : host;
        batch->to[count] = way == KVR_DEVICE_GATHER ? host : address;
        batch->bytes[count++] = pieces[i].bytes;
    }
    if (count == 0)
        return CUDA_SUCCESS;
    return cuda->cuda->MemcpyBatchAsync(batch->to, batch->from, batch->bytes, count, &attributes,
                                        &first, 1, &failed, cuda->streams[way]);
}

#else

kvr_status cuda_batch_open(struct device_cuda *cuda, struct kvr_error *error)
{
    (void)cuda, (void)error;
    return KVR_OK;
}

static CUresult copy_all(const struct device_cuda *cuda, kvr_device_way way,
                         const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    (void)cuda, (void)way, (void)pieces, (void)piece_count;
    return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

void cuda_batch_close(struct device_cuda *cuda)
{
    free(cuda->batch);
    cuda->batch = NULL;
}

/* After a refusal some pieces may be on their way: copied again they hold the same bytes. */
CUresult cuda_copy_by_driver(struct device_cuda *cuda, kvr_device_way way,
                             const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    CUresult code = CUDA_SUCCESS;

    if (cuda->batch != NULL && piece_count > 1) {
        if (copy_all(cuda, way, pieces, piece_count) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        cuda_batch_close(cuda);
    }
    for (uint32_t i = 0; i < piece_count && code == CUDA_SUCCESS; i++)
        code = copy_one(cuda, way, &pieces[i]);
    return code;
}
