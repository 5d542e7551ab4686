#include "fabric/device_trial.h"

#define TRIAL_BYTES (64u << 10)

bool kvr_device_trial_wanted(const struct kvr_rail_facts *facts)
{
    return facts->device.dmabuf == KVR_WHY_NOTHING;
}

kvr_status kvr_device_trial_open(struct kvr_device *device, struct kvr_device_trial *ret_trial,
                                 struct kvr_error *error)
{
    struct kvr_device_trial trial = {.device = device};
    struct kvr_device_import import;
    kvr_status status;

    KVR_TRY(kvr_allocation_open(device, TRIAL_BYTES, &trial.allocation, error));
    import = trial.allocation.import;
    import.for_cards = true;
    status = device->ops->import(device, &import, &trial.memory, error);
    if (status == KVR_OK)
        trial.hint = device->ops->hint(trial.memory);
    if (status == KVR_OK && trial.hint.dmabuf < 0)
        status = kvr_error_set(error, KVR_UNSUPPORTED, "device",
                               "GPU %d gives no dmabuf of its memory (needs the driver's open "
                               "kernel modules and Linux 5.12 or later)",
                               device->ordinal);
    if (status == KVR_OK)
        *ret_trial = trial;
    else
        kvr_device_trial_close(&trial);
    return status;
}

void kvr_device_trial_close(struct kvr_device_trial *trial)
{
    if (trial->memory != NULL)
        trial->device->ops->release(trial->device, trial->memory);
    trial->memory = NULL;
    kvr_allocation_close(&trial->allocation);
}

kvr_status kvr_device_trial_register(const struct kvr_device_trial *trial,
                                     const struct kvr_fabric *fabric, struct kvr_rail *rail,
                                     struct kvr_error *error)
{
    uint64_t base = trial->hint.addressable ? trial->hint.address : trial->hint.dmabuf_offset;
    struct kvr_memory_span span = {.base = (void *)(uintptr_t)base,
                                   .bytes = TRIAL_BYTES,
                                   .local = true,
                                   .remote = true,
                                   .kind = KVR_SPAN_DMABUF,
                                   .fd = trial->hint.dmabuf,
                                   .fd_offset = trial->hint.dmabuf_offset,
                                   .device = trial->hint.ordinal};
    struct kvr_memory *memory = NULL;

    KVR_TRY(fabric->ops->memory_register(rail, &span, &memory, error));
    fabric->ops->memory_release(memory);
    return KVR_OK;
}
