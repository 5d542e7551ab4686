#include "tests/support/device_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/device_cuda.h"
#include "device/device_emulated.h"
#include "tests/support/check.h"

/* "cuda_kernel", or "cuda": the device chooses. */
static kvr_cuda_copier copier_of(const char *name)
{
    return name[4] == '_' ? kvr_cuda_copier_of(name + 5) : KVR_CUDA_COPIER_AUTO;
}

bool device_rig_possible(const char *name)
{
    struct kvr_device *device;
    struct kvr_error error = {0};

    if (strncmp(name, "cuda", 4) != 0)
        return true;
    if (kvr_device_cuda_open(0, copier_of(name), &device, &error) != KVR_OK) {
        fprintf(stderr, "%s\n", error.detail);
        return false;
    }
    kvr_device_close(device);
    return true;
}

void device_rig_open(struct device_rig *rig, const char *name)
{
    struct kvr_device_emulated_options emulated = {
        .seed = 5, .latency_ns = 20 * KVR_US, .bytes_per_us = 10000};
    struct kvr_error error = {0};

    kvr_status status;

    *rig = (struct device_rig){.virtual_time = strcmp(name, "emulated") == 0, .now = KVR_S};
    if (rig->virtual_time)
        status = kvr_device_emulated_open(&emulated, &rig->device, &error);
    else if (strncmp(name, "cuda", 4) == 0)
        status = kvr_device_cuda_open(0, copier_of(name), &rig->device, &error);
    else
        status = kvr_device_host_open(&rig->device, &error);
    if (status != KVR_OK)
        fail_msg("%s", error.detail);
}

void device_rig_close(struct device_rig *rig)
{
    for (uint32_t i = 0; i < rig->memory_count; i++) {
        rig->device->ops->release(rig->device, rig->memories[i]);
        kvr_allocation_close(&rig->allocations[i]);
    }
    kvr_device_close(rig->device);
}

kvr_ns device_rig_now(struct device_rig *rig)
{
    return rig->virtual_time ? rig->now += KVR_US : kvr_clock_now();
}

struct kvr_device_memory *device_rig_memory(struct device_rig *rig, uint64_t bytes)
{
    struct kvr_allocation *allocation;
    struct kvr_error error = {0};

    assert_true(rig->memory_count < DEVICE_RIG_MEMORIES);
    allocation = &rig->allocations[rig->memory_count];
    if ((getenv("KVRAIL_EXTENTS") != NULL
             ? kvr_allocation_open_extents(rig->device, bytes, allocation, &error)
             : kvr_allocation_open(rig->device, bytes, allocation, &error)) != KVR_OK ||
        rig->device->ops->import(rig->device, &allocation->import,
                                 &rig->memories[rig->memory_count], &error) != KVR_OK)
        fail_msg("%s", error.detail);
    return rig->memories[rig->memory_count++];
}

kvr_status device_rig_copy(struct device_rig *rig, kvr_device_way way,
                           const struct kvr_device_piece *pieces, uint32_t piece_count)
{
    struct kvr_device_copied copied = {.token = 0};
    kvr_status status = rig->device->ops->copy(rig->device, device_rig_now(rig), way, pieces,
                                               piece_count, 0xabcdef0123456789);

    if (status != KVR_OK)
        return status;
    while (rig->device->ops->poll(rig->device, device_rig_now(rig), &copied, 1) == 0)
        ;
    assert_int_equal(copied.token, 0xabcdef0123456789);
    return copied.status;
}
