#include "tools/bench/bench_device.h"

#include <stdio.h>
#include <string.h>

#include "device/device_cuda.h"
#include "device/device_emulated.h"

/* About what a PCIe 5 card does; what is measured over it shows that the way works, and no speed.
 */
#define EMULATED_COPY_NS      (20 * KVR_US)
#define EMULATED_BYTES_PER_US 20000

static bool said(kvr_status status, const struct kvr_error *error)
{
    if (status == KVR_OK)
        return true;
    fprintf(stderr, "kvrail bench: %s\n", error->detail);
    return false;
}

static bool open_one(const char *kind, kvr_cuda_copier copier, struct kvr_device **ret_device)
{
    struct kvr_device_emulated_options emulated = {
        .seed = 1, .latency_ns = EMULATED_COPY_NS, .bytes_per_us = EMULATED_BYTES_PER_US};
    struct kvr_error error = {0};

    if (strcmp(kind, "emulated") == 0)
        return said(kvr_device_emulated_open(&emulated, ret_device, &error), &error);
    return said(kvr_device_cuda_open(0, copier, ret_device, &error), &error);
}

bool bench_device_open(struct bench_device *device, const char *kind)
{
    struct kvr_error error = {0};

    *device = (struct bench_device){0};
    /* The kernel is measured wherever there is one, also where an agent would not take it. */
    return ((strcmp(kind, "cuda") == 0 &&
             kvr_device_cuda_open(0, KVR_CUDA_COPIER_KERNEL, &device->device, &error) == KVR_OK) ||
            open_one(kind, KVR_CUDA_COPIER_AUTO, &device->device)) &&
           open_one(kind, KVR_CUDA_COPIER_DRIVER, &device->plain);
}

bool bench_device_pack(struct bench_device *device, const char *kind)
{
    struct kvr_error error = {0};

    return strcmp(kind, "cuda") == 0 &&
           kvr_device_cuda_open(0, KVR_CUDA_COPIER_PACKED, &device->packed, &error) == KVR_OK;
}

bool bench_device_allocate(struct bench_device *device, uint64_t bytes)
{
    const struct kvr_device_import *import = &device->allocation.import;
    struct kvr_error error = {0};

    return said(kvr_allocation_open(device->device, bytes, &device->allocation, &error), &error) &&
           said(device->device->ops->import(device->device, import, &device->memory, &error),
                &error) &&
           said(device->plain->ops->import(device->plain, import, &device->plain_memory, &error),
                &error) &&
           (device->packed == NULL ||
            said(
                device->packed->ops->import(device->packed, import, &device->packed_memory, &error),
                &error));
}

void bench_device_close(struct bench_device *device)
{
    if (device->memory != NULL)
        device->device->ops->release(device->device, device->memory);
    if (device->plain_memory != NULL)
        device->plain->ops->release(device->plain, device->plain_memory);
    if (device->packed_memory != NULL)
        device->packed->ops->release(device->packed, device->packed_memory);
    kvr_allocation_close(&device->allocation);
    kvr_device_close(device->packed);
    kvr_device_close(device->plain);
    kvr_device_close(device->device);
    *device = (struct bench_device){0};
}

bool bench_device_move(const struct bench_device *device, kvr_device_way way, void *host)
{
    struct kvr_device_piece piece = {
        .memory = device->plain_memory, .host = host, .bytes = device->plain_memory->bytes};
    const struct kvr_device_ops *ops = device->plain->ops;
    struct kvr_device_copied copied = {0};

    if (ops->copy(device->plain, kvr_clock_now(), way, &piece, 1, 0) == KVR_OK)
        while (ops->poll(device->plain, kvr_clock_now(), &copied, 1) == 0)
            ;
    else
        copied.status = KVR_COPY_FAILED;
    if (copied.status != KVR_OK)
        fprintf(stderr, "kvrail bench: a copy of %llu bytes %s the device failed\n",
                (unsigned long long)piece.bytes, way == KVR_DEVICE_GATHER ? "from" : "to");
    return copied.status == KVR_OK;
}

/* ---- from the device to itself --------------------------------------------------------------- */

#define BESIDE_DEPTH 8

static double rate_of(uint64_t bytes, kvr_ns began)
{
    return (double)bytes / (double)(kvr_clock_now() - began);
}

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

static double beside_cuda(const struct bench_device *device, kvr_ns duration)
{
    uint64_t half = device->memory->bytes / 2, bytes = 0;
    uint64_t address = device->device->ops->hint(device->memory).address;
    const struct kvr_cuda *cuda;
    CUresult code = CUDA_SUCCESS;
    CUstream stream;
    kvr_ns began;

    if (kvr_cuda_open(&cuda, NULL) != KVR_OK ||
        cuda->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return 0;
    began = kvr_clock_now();
    do {
        for (int i = 0; i < BESIDE_DEPTH && code == CUDA_SUCCESS; i++)
            code = cuda->MemcpyDtoDAsync(address + half, address, half, stream);
        if (code == CUDA_SUCCESS)
            code = cuda->StreamSynchronize(stream);
        bytes += BESIDE_DEPTH * half;
    } while (code == CUDA_SUCCESS && kvr_clock_now() - began < duration);
    (void)cuda->StreamDestroy(stream);
    return code == CUDA_SUCCESS ? rate_of(bytes, began) : 0;
}

#else

static double beside_cuda(const struct bench_device *device, kvr_ns duration)
{
    (void)device, (void)duration;
    return 0;
}

#endif

static double beside_memory(const struct bench_device *device, kvr_ns duration)
{
    struct kvr_device_piece piece = {.memory = device->memory};
    uint8_t *base = kvr_device_emulated_address(&piece);
    uint64_t half = device->memory->bytes / 2, bytes = 0;
    kvr_ns began = kvr_clock_now();

    do {
        memcpy(base + half, base, half);
        bytes += half;
    } while (kvr_clock_now() - began < duration);
    return rate_of(bytes, began);
}

double bench_device_beside(const struct bench_device *device, kvr_ns duration)
{
    return strcmp(device->device->ops->name, "cuda") == 0 ? beside_cuda(device, duration)
                                                          : beside_memory(device, duration);
}
