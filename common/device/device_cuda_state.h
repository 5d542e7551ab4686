/* Shared by the files of device_cuda. */
#ifndef KVR_DEVICE_DEVICE_CUDA_STATE_H
#define KVR_DEVICE_DEVICE_CUDA_STATE_H

#include "base/cuda_driver.h"
#include "device/copy_kernel.h"
#include "device/device_cuda.h"

#define WAYS      2
#define MOVES_MAX 1024u /* pieces of one launch that moves */

struct cuda_copy {
    CUevent done;
    uint64_t token;
    struct cuda_copy *next;        /* in the list of pending or of free copies */
    struct kvr_copy_piece *pieces; /* KVR_DEVICE_PIECES_MAX, pinned */
    CUdeviceptr pieces_address;    /* as the GPU sees them */
};

struct cuda_packer;
struct cuda_batch;

struct device_cuda {
    struct kvr_device device;
    const struct kvr_cuda *cuda;
    CUdevice number;
    CUcontext context;
    CUmodule module; /* NULL: the driver copies and moves pieces */
    CUfunction kernel;
    bool direct;                /* the kernel copies to and from host memory itself */
    struct cuda_packer *packer; /* NULL: nothing is packed */
    bool packs_all;             /* also what a batch of the driver copies as fast */
    struct cuda_batch *batch;   /* NULL: the driver takes a call for each piece */
    CUstream streams[WAYS];
    bool failed; /* after an error that the context does not recover from: all copies fail */
    struct cuda_copy copies[KVR_DEVICE_COPIES_MAX];
    struct cuda_copy *free, *first[WAYS], *last[WAYS]; /* a stream ends copies in order */
    void *pieces;
    CUstream mover;
    CUevent moved;                /* behind the moves under way */
    struct kvr_copy_piece *moves; /* MOVES_MAX, pinned */
    CUdeviceptr moves_address;
};

struct cuda_memory {
    struct kvr_device_memory memory;
    kvr_device_kind kind;
    CUdeviceptr address; /* of byte 0 of the region; 0: only a dmabuf */
    CUdeviceptr base;    /* the mapping that was opened or reserved; 0: none */
    uint64_t base_bytes; /* VMM: reserved */
    uint64_t *mapped;    /* VMM: from base on, the bytes of each allocation that is mapped */
    uint32_t mapped_count;
    int dmabuf; /* -1: none */
    uint64_t dmabuf_offset;
    int32_t ordinal;
    bool not_for_cards; /* the allocation was made without gpuDirectRDMACapable */
};

/* device_cuda_memory.c */
kvr_status cuda_memory_import(struct kvr_device *device, const struct kvr_device_import *import,
                              struct kvr_device_memory **ret_memory, struct kvr_error *error);
void cuda_memory_release(struct kvr_device *device, struct kvr_device_memory *memory);
struct kvr_device_hint cuda_memory_hint(const struct kvr_device_memory *memory);
/* device_cuda_move.c */
kvr_status cuda_move(struct kvr_device *device, const struct kvr_device_move *pieces,
                     uint32_t piece_count);
/* device_cuda_batch.c */
kvr_status cuda_batch_open(struct device_cuda *cuda, struct kvr_error *error);
void cuda_batch_close(struct device_cuda *cuda);
CUresult cuda_copy_by_driver(struct device_cuda *cuda, kvr_device_way way,
                             const struct kvr_device_piece *pieces, uint32_t piece_count);
/* device_cuda_packed.c. Not taken: the pieces do not fit, and nothing was done. */
kvr_status cuda_packer_open(struct device_cuda *cuda, struct kvr_error *error);
void cuda_packer_close(struct device_cuda *cuda);
CUresult cuda_copy_packed(const struct device_cuda *cuda, kvr_device_way way,
                          struct cuda_copy *copy, const struct kvr_device_piece *pieces,
                          uint32_t piece_count, bool *ret_taken);
/* device_cuda.c: from here on the calls of this thread go to this device. */
kvr_status cuda_enter(const struct device_cuda *cuda, struct kvr_error *error);
/* One launch of the kernel for a list of pieces that the GPU can read. The longest piece has
 * `longest` bytes. */
CUresult cuda_launch(const struct device_cuda *cuda, CUstream stream, CUdeviceptr pieces,
                     uint32_t piece_count, uint64_t longest);

/* device_cuda_kernel.c: the fat binary, empty where nvcc was not found. */
extern const unsigned char kvr_copy_kernel_image[], kvr_copy_kernel_image_end[];

#endif
