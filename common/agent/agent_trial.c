/* What the cards say to a dmabuf of a GPU, tried and logged with the first GPU that has a region.
 *
 * Not earlier: the trial needs a context, which takes some hundred MiB of the GPU. An engine that
 * measures the free memory of its GPU while it starts would see them come and go, also on a GPU
 * that no engine of this agent has. `kvrail topo` tries it before. */
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

static void say(const struct trial_count *count, int32_t ordinal)
{
    if (count->taken > 0)
        kvr_log_info("%u of %u rails take a dmabuf of GPU %d: their cards can reach pages on GPUs",
                     count->taken, count->wanted, ordinal);
    if (count->taken < count->wanted)
        kvr_log_warning("%u of %u rails refuse a dmabuf of GPU %d, so pages on GPUs will probably "
                        "be staged for them: %s",
                        count->wanted - count->taken, count->wanted, ordinal,
                        count->refusal.detail);
}

/* Said only where cards could take device memory. */
void agent_trial_announce(const struct kvr_agent *agent)
{
    if (strcmp(agent->config->device, "cuda") != 0)
        return;
    if (any_wanted(agent))
        kvr_log_info("what the cards say to memory of a GPU is tried with the first region on one; "
                     "`kvrail topo` tries it at once");
    else if (kvr_provider_find(agent->provider)->libfabric.device_memory &&
             access(KVR_CUDA_CONTROL, F_OK) != 0)
        kvr_log_info("%s is not there, so the cards are opened for host memory alone: if GPUs are "
                     "to come, start the agent after NVIDIA's driver",
                     KVR_CUDA_CONTROL);
}

void agent_trial(const struct kvr_agent *agent, struct kvr_device *device)
{
    struct kvr_device_trial gpu = {0};
    struct kvr_error error = {0};
    struct trial_count count = {0};

    if (!any_wanted(agent))
        return;
    if (kvr_device_trial_open(device, &gpu, &error) == KVR_OK) {
        try_rails(agent, &gpu, &count);
        kvr_device_trial_close(&gpu);
        say(&count, device->ordinal);
    } else {
        kvr_log_info("no dmabuf of GPU %d was tried on the rails: %s", device->ordinal,
                     error.detail);
    }
}
