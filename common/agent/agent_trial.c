/* What the cards say to a dmabuf of a GPU, tried and logged before any engine attaches. */
#include <string.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "device/device_cuda.h"
#include "fabric/device_trial.h"
#include "fabric/fabric_provider.h"

struct trial_count {
    uint32_t wanted, taken;
    struct kvr_error refusal; /* the first */
};

static void try_rails(const struct kvr_agent *agent, const struct kvr_device_trial *gpu,
                      struct trial_count *count)
{
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        struct kvr_rail *rail = agent->rails[i];
        struct kvr_error error = {0};

        if (!kvr_device_trial_wanted(agent->fabric.ops->rail_facts(rail)))
            continue;
        count->wanted++;
        if (kvr_device_trial_register(gpu, &agent->fabric, rail, &error) == KVR_OK)
            count->taken++;
        else if (count->refusal.status == KVR_OK)
            count->refusal = error;
    }
}

static bool any_wanted(const struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        if (kvr_device_trial_wanted(agent->fabric.ops->rail_facts(agent->rails[i])))
            return true;
    }
    return false;
}

static void say(const struct trial_count *count)
{
    if (count->taken > 0)
        kvr_log_info("%u of %u rails take a dmabuf of GPU 0: their cards can reach pages on GPUs",
                     count->taken, count->wanted);
    if (count->taken < count->wanted)
        kvr_log_warning("%u of %u rails refuse a dmabuf of GPU 0, so pages on GPUs will probably "
                        "be staged for them: %s",
                        count->wanted - count->taken, count->wanted, count->refusal.detail);
}

/* Said only where cards could take device memory. */
static void driver_say(const struct kvr_agent *agent)
{
    if (strcmp(agent->config->device, "cuda") == 0 &&
        kvr_provider_find(agent->provider)->libfabric.device_memory &&
        access(KVR_CUDA_CONTROL, F_OK) != 0)
        kvr_log_info("%s is not there, so the cards are opened for host memory alone: if GPUs are "
                     "to come, start the agent after NVIDIA's driver",
                     KVR_CUDA_CONTROL);
}

void agent_trial(const struct kvr_agent *agent)
{
    struct kvr_device *device = NULL;
    struct kvr_device_trial gpu = {0};
    struct kvr_error error = {0};
    struct trial_count count = {0};

    if (!any_wanted(agent)) {
        driver_say(agent);
        return;
    }
    if (kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &device, &error) == KVR_OK &&
        kvr_device_trial_open(device, &gpu, &error) == KVR_OK) {
        try_rails(agent, &gpu, &count);
        kvr_device_trial_close(&gpu);
        say(&count);
    } else {
        kvr_log_info("no dmabuf of a GPU was tried on the rails: %s", error.detail);
    }
    kvr_device_close(device);
}
