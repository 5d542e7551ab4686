/* What the cards themselves say, beside libfabric's promises: each rail that may take device memory
 * is opened, and a small dmabuf of GPU 0 is registered on it. */
#include <stdio.h>

#include "device/device_cuda.h"
#include "fabric/device_trial.h"
#include "tools/topo.h"

static bool asks_rail(const struct kvr_rail_facts *rail)
{
    const struct kvr_provider *provider = kvr_provider_find(rail->provider);

    return provider != NULL && provider->libfabric.efa_options;
}

static kvr_status rail_open(const struct kvr_fabric *fabric, const struct kvr_rail_facts *facts,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    struct kvr_rail_options options = {.device_memory = kvr_device_trial_wanted(facts)};

    snprintf(options.provider, sizeof(options.provider), "%s", facts->provider);
    snprintf(options.name, sizeof(options.name), "%s",
             facts->source[0] != '\0' ? facts->source : facts->name);
    return fabric->ops->rail_open(fabric->self, &options, ret_rail, error);
}

/* gpu: NULL where there is no dmabuf to try. */
static void try_rail(struct kvr_rail_facts *facts, const struct kvr_device_trial *gpu,
                     struct topo_trial *trial)
{
    struct kvr_rail_device_facts listed = facts->device;
    struct kvr_fabric fabric;
    struct kvr_rail *rail = NULL;

    kvr_fabric_of(facts->provider, &fabric);
    if (rail_open(&fabric, facts, &rail, &trial->error) != KVR_OK)
        return;
    *facts = *fabric.ops->rail_facts(rail);
    if (!trial->wanted)
        facts->device = listed; /* it was not opened for device memory */
    if (gpu != NULL && kvr_device_trial_wanted(facts))
        trial->result = kvr_device_trial_register(gpu, &fabric, rail, &trial->error) == KVR_OK
                            ? TOPO_TAKEN
                            : TOPO_REFUSED;
    fabric.ops->rail_close(rail);
}

static void try_rails(struct topo *topo, const struct kvr_device_trial *gpu,
                      const struct kvr_error *why_none)
{
    for (unsigned i = 0; i < topo->rail_count; i++) {
        struct kvr_rail_facts *facts = &topo->rails[i];
        struct topo_trial *trial = &topo->trials[i];

        trial->wanted = kvr_device_trial_wanted(facts);
        if (trial->wanted)
            trial->error = *why_none;
        if ((trial->wanted && gpu != NULL) || asks_rail(facts))
            try_rail(facts, gpu, trial);
    }
}

static bool any_wanted(const struct topo *topo)
{
    for (unsigned i = 0; i < topo->rail_count; i++) {
        if (kvr_device_trial_wanted(&topo->rails[i]))
            return true;
    }
    return false;
}

void topo_try(struct topo *topo)
{
    struct kvr_device *device = NULL;
    struct kvr_device_trial gpu = {0};
    struct kvr_error error = {0};
    bool open = any_wanted(topo) &&
                kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &device, &error) == KVR_OK &&
                kvr_device_trial_open(device, &gpu, &error) == KVR_OK;

    try_rails(topo, open ? &gpu : NULL, &error);
    if (open)
        kvr_device_trial_close(&gpu);
    kvr_device_close(device);
}

void topo_device_path(const struct kvr_rail_facts *rail, const struct topo_trial *trial,
                      struct kvr_path_choice *ret_choice)
{
    struct kvr_path_form form = {.dmabuf = true,
                                 .address = true,
                                 .copies = true,
                                 .refused_dmabuf = trial->result == TOPO_REFUSED};

    kvr_path_choose(&rail->device, rail->same_host_only, rail->moves_pages, &form, ret_choice);
}

bool topo_trial_text(const struct topo_trial *trial, char text[TOPO_TRIAL_BYTES])
{
    if (!trial->wanted)
        return false;
    if (trial->result == TOPO_TAKEN)
        snprintf(text, TOPO_TRIAL_BYTES, "a dmabuf of GPU 0 was registered");
    else
        snprintf(text, TOPO_TRIAL_BYTES, "%s: %s",
                 trial->result == TOPO_REFUSED ? "a dmabuf of GPU 0 was refused"
                                               : "no dmabuf was tried",
                 trial->error.detail);
    return true;
}
