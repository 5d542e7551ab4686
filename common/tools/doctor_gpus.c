/* What `kvrail doctor` says about GPUs and their driver. Pure. */
#include "tools/doctor.h"

#define VENDOR_NVIDIA 0x10de

static uint32_t count_gpus(const struct topo *host, bool nvidia)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < host->topology->card_count; i++)
        count += host->topology->cards[i].kind == KVR_CARD_GPU &&
                 (host->topology->cards[i].vendor == VENDOR_NVIDIA) == nvidia;
    return count;
}

uint32_t doctor_gpu_count(const struct topo *host)
{
    uint32_t count = count_gpus(host, true);

    return count > host->gpu_count ? count : host->gpu_count;
}

static void judge_driver(const struct topo *host, struct doctor_findings *findings)
{
    const char *check = "gpu_driver";
    uint32_t count = doctor_gpu_count(host), others = count_gpus(host, false);

    if (count == 0 && others > 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "there is no GPU of NVIDIA; kvrail moves no memory of the %u others", others);
    else if (count == 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "there is no GPU");
    else if (host->gpu_count == 0)
        doctor_add(findings, check, DOCTOR_WRONG,
                   "install NVIDIA's driver of CUDA 12.0 or later, so that nvidia-smi lists the "
                   "GPUs; give a container its GPUs",
                   "%u GPU%s on PCI, and none can be used: %s", count, count == 1 ? "" : "s",
                   host->driver.detail);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL, "the driver shows %u of %u GPU%s",
                   host->gpu_count, count, count == 1 ? "" : "s");
}

static void judge_nodes(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct doctor_nodes *nodes = &facts->nodes;
    const char *check = "gpu_nodes";
    static const char *const remedy =
        "start nvidia-persistenced, or run `nvidia-modprobe -u -c 0`, before the agents; give a "
        "container the nodes";

    if (doctor_gpu_count(facts->host) == 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "there is no GPU");
    else if (!nodes->control || !nodes->memory)
        doctor_add(findings, check, DOCTOR_WRONG, remedy,
                   "%s is missing, so agents would open their cards for host memory alone",
                   nodes->control ? "/dev/nvidia-uvm" : KVR_CUDA_CONTROL);
    else if (nodes->gpus < facts->host->gpu_count || nodes->gpus == 0)
        doctor_add(findings, check, DOCTOR_WRONG, remedy, "%u nodes /dev/nvidiaN for %u GPUs",
                   nodes->gpus, doctor_gpu_count(facts->host));
    else
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   KVR_CUDA_CONTROL ", /dev/nvidia-uvm and %u nodes of GPUs", nodes->gpus);
}

static void judge_copies(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const char *check = "gpu_copies";
    uint32_t fine = 0;

    for (uint32_t i = 0; i < facts->host->gpu_count; i++) {
        const struct doctor_gpu *gpu = &facts->gpus[i];
        const char *pci = facts->host->gpus[i].gpu.pci;

        if (gpu->opened.status != KVR_OK)
            doctor_add(findings, check, DOCTOR_WRONG,
                       "see nvidia-smi: the GPU may be in exclusive mode, or its memory used up",
                       "GPU %s cannot be opened: %s", pci, gpu->opened.detail);
        else if (gpu->slower.status != KVR_OK)
            doctor_add(findings, check, DOCTOR_WARNING,
                       "update the driver to the CUDA version that kvrail was built with",
                       "GPU %s copies piece by piece: %s", pci, gpu->slower.detail);
        else
            fine++;
    }
    if (fine > 0)
        doctor_add(findings, check, DOCTOR_OK, NULL, "%u GPU%s can be opened and copies", fine,
                   fine == 1 ? "" : "s");
    else if (facts->host->gpu_count == 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "no GPU can be used");
}

static void judge_orders(const struct topo *host, struct doctor_findings *findings)
{
    const char *check = "gpu_order";

    for (kvr_write_order order = KVR_ORDER_UNKNOWN; order < KVR_ORDERS; order++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < host->gpu_count; i++)
            count += host->gpus[i].order == order;
        if (count == 0)
            continue;
        doctor_add(
            findings, check, order == KVR_ORDER_NONE ? DOCTOR_WARNING : DOCTOR_OK,
            order == KVR_ORDER_NONE
                ? "update the driver; without a flush a decode-agent stages these GPUs' pages"
                : NULL,
            "%u GPU%s writes of cards %s", count, count == 1 ? " sees" : "s see",
            topo_order_text(order));
    }
    if (host->gpu_count == 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "no GPU can be used");
}

void doctor_judge_gpus(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    judge_driver(facts->host, findings);
    judge_nodes(facts, findings);
    judge_copies(facts, findings);
    judge_orders(facts->host, findings);
}
