/* `kvrail topo` for people. */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/topo.h"

#include "fabric/ofi/fabric_ofi.h"

static void print_node(FILE *stream, const struct kvr_topology *topology, uint32_t node)
{
    if (node == KVR_NODE_UNKNOWN)
        fprintf(stream, "%4s", "-");
    else
        fprintf(stream, "%4u", topology->nodes[node].number);
}

static void print_speed(FILE *stream, uint64_t speed_bps)
{
    if (speed_bps == 0)
        fprintf(stream, "%9s", "-");
    else
        fprintf(stream, "%4.0f Gb/s", (double)speed_bps / 1e9);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* "0-11,96-107" */
static void print_cores(FILE *stream, const int *cores, uint32_t count)
{
    int sorted[KVR_CORES_MAX] = {0};

    for (uint32_t i = 0; i < count; i++)
        sorted[i] = cores[i];
    qsort(sorted, count, sizeof(sorted[0]), by_number);
    for (uint32_t i = 0; i < count;) {
        uint32_t last = i;

        while (last + 1 < count && sorted[last + 1] == sorted[last] + 1)
            last++;
        fprintf(stream, "%s%d", i > 0 ? "," : "", sorted[i]);
        if (last > i)
            fprintf(stream, "-%d", sorted[last]);
        i = last + 1;
    }
}

static void print_group(FILE *stream, const struct topo *topo, uint32_t index)
{
    const struct kvr_host_group *group = &topo->groups.groups[index];
    char name[KVR_NAME_BYTES];

    fprintf(stream, "%s", kvr_host_group_name(&topo->groups, index, name));
    if (group->gpu != NULL && group->node != KVR_NODE_UNKNOWN)
        fprintf(stream, " %s, NUMA node %u", group->gpu->pci,
                topo->topology->nodes[group->node].number);
    else if (group->gpu != NULL)
        fprintf(stream, " %s, NUMA node unknown", group->gpu->pci);
    fprintf(stream, ", cores ");
    print_cores(stream, group->cores, group->core_count);
    for (uint32_t i = 0; i < group->rail_count; i++) {
        const struct kvr_host_rail *rail = &topo->groups.rails[group->rails[i].rail];

        fprintf(stream, "%s %s (%s, %s", i == 0 ? ":" : ",", rail->name,
                rail->pci[0] != '\0' ? rail->pci : "not on PCI", rail->provider);
        if (rail->speed_bps > 0)
            fprintf(stream, ", %.0f Gb/s", (double)rail->speed_bps / 1e9);
        if (group->gpu != NULL)
            fprintf(stream, ", %s", kvr_nearness_name(group->rails[i].distance.nearness));
        fprintf(stream, ")");
    }
    if (group->owner != index)
        fprintf(stream, " of %s", kvr_host_group_name(&topo->groups, group->owner, name));
    fprintf(stream, "%s\n", group->rail_count == 0 ? ": no card" : "");
}

const char *topo_oddity_text(const struct kvr_oddity *oddity, char ret_text[TOPO_ODDITY_BYTES])
{
    snprintf(ret_text, TOPO_ODDITY_BYTES, "%s; %s", oddity->text, kvr_odd_remedy(oddity->kind));
    return ret_text;
}

static void print_groups(FILE *stream, const struct topo *topo)
{
    char text[TOPO_ODDITY_BYTES];

    for (uint32_t i = 0; i < topo->groups.group_count; i++)
        print_group(stream, topo, i);
    if (topo->oddities.count > 0)
        fprintf(stream, "%sWhat is odd:\n", topo->groups.group_count > 0 ? "\n" : "");
    for (uint32_t i = 0; i < topo->oddities.count; i++)
        fprintf(stream, "  %s\n", topo_oddity_text(&topo->oddities.list[i], text));
}

static void print_host(FILE *stream, const struct kvr_topology *topology)
{
    fprintf(stream, "\n%-4s %10s  %s\n", "NODE", "MEMORY", "CORES");
    for (uint32_t i = 0; i < topology->node_count; i++) {
        const struct kvr_topology_node *node = &topology->nodes[i];

        fprintf(stream, "%4u %7.1f GB  %u of %u\n", node->number, (double)node->memory_bytes / 1e9,
                node->core_count, topology->core_count);
    }
    fprintf(stream, "\n%-10s %-16s %4s %9s %-5s %-13s %s\n", "CARD", "NAME", "NODE", "SPEED", "",
            "PCI", "MODEL");
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        fprintf(stream, "%-10s %-16s ", kvr_card_kind_name(card->kind), card->name);
        print_node(stream, topology, card->node);
        fputc(' ', stream);
        print_speed(stream, card->speed_bps);
        fprintf(stream, " %-5s %-13s %s\n", card->down ? "down" : "",
                card->pci[0] != '\0' ? card->pci : "-", card->model);
    }
}

static void print_rails(FILE *stream, const struct kvr_topology *topology,
                        const struct topo_provider *list)
{
    if (list->count == 0) {
        fprintf(stream, "%-8s none: %s\n", list->provider, list->error.detail);
        return;
    }
    for (unsigned i = 0; i < list->listed; i++) {
        const struct kvr_rail_facts *rail = &list->rails[i];
        const struct kvr_topology_card *card =
            kvr_topology_card_of(topology, rail->pci, rail->interface);

        fprintf(stream, "%-8s %-16s %-12s %-28s ", rail->provider, rail->name,
                rail->interface[0] != '\0' ? rail->interface : "-",
                rail->source[0] != '\0' ? rail->source : "-");
        print_node(stream, topology, card != NULL ? card->node : KVR_NODE_UNKNOWN);
        fputc(' ', stream);
        print_speed(stream, rail->speed_bps);
        fprintf(stream, " %-16s %u/%u%s\n", rail->provider_path, rail->write.pieces_local,
                rail->write.pieces_remote,
                rail->writes == KVR_WRITES_EMULATED ? ", by sends and copies: no RDMA write here"
                                                    : "");
    }
    if (list->count > list->listed)
        fprintf(stream, "(%u more)\n", list->count - list->listed);
}

static void print_device_path(FILE *stream, const struct kvr_rail_facts *rail,
                              const struct topo_trial *trial)
{
    struct kvr_path_choice choice;
    char reasons[KVR_DETAIL_BYTES], said[TOPO_TRIAL_BYTES] = "";

    topo_device_path(rail, trial, &choice);
    kvr_path_reasons(&choice, reasons, sizeof(reasons));
    (void)topo_trial_text(trial, said);
    fprintf(stream, "%-8s %-16s %-7s %s%s%s\n", rail->provider, rail->name,
            kvr_path_name(choice.path), reasons, reasons[0] != '\0' && said[0] != '\0' ? "; " : "",
            said);
}

static void print_device_paths(FILE *stream, const struct topo *topo)
{
    fprintf(stream, "\n%-8s %-16s %s\n", "PROVIDER", "RAIL",
            "WAY OF DEVICE MEMORY, AND WHAT IS AGAINST A BETTER ONE");
    for (unsigned i = 0; i < topo->rail_count; i++)
        print_device_path(stream, &topo->rails[i], &topo->trials[i]);
}

static void print_memory(char *text, size_t bytes, const struct kvr_gpu_memory *memory)
{
    if (memory->total_bytes == 0)
        snprintf(text, bytes, "no NVML");
    else
        snprintf(text, bytes, "%" PRIu64 " of %" PRIu64,
                 (memory->total_bytes - memory->used_bytes) >> 20, memory->total_bytes >> 20);
}

const char *topo_order_text(kvr_write_order order)
{
    static const char *const orders[KVR_ORDERS] = {
        [KVR_ORDER_UNKNOWN] = "unknown",
        [KVR_ORDER_KEPT] = "in order",
        [KVR_ORDER_FLUSHED] = "after a flush, which comes before every event and word",
        [KVR_ORDER_NONE] = "in no order, and the driver has no flush: a decode-agent stages",
    };

    return orders[order];
}

static void print_gpus(FILE *stream, const struct topo *topo)
{
    if (topo->gpu_count > 0)
        fprintf(stream, "\n%-4s %-13s %-20s %-4s %s\n", "GPU", "PCI", "MiB FREE OF", "MPS",
                "SEES WRITES OF CARDS");
    for (unsigned i = 0; i < topo->gpu_count; i++) {
        const struct kvr_device_cuda_facts *gpu = &topo->gpus[i];
        char memory[48];

        print_memory(memory, sizeof(memory), &gpu->memory);
        fprintf(stream, "%-4u %-13s %-20s %-4s %s\n", i, gpu->gpu.pci, memory,
                gpu->mps ? "yes" : "no", topo_order_text(gpu->order));
    }
}

void topo_print(const struct topo *topo, FILE *stream)
{
    const char *libfabric = kvr_libfabric_describe();

    print_groups(stream, topo);
    print_host(stream, topo->topology);
    if (topo->provider_count == 0)
        return;
    fprintf(stream, "\n%-8s %-16s %-12s %-28s %4s %9s %-16s %s\n", "PROVIDER", "RAIL", "INTERFACE",
            "ADDRESS", "NODE", "SPEED", "LIBFABRIC", "PIECES A WRITE, LOCAL/REMOTE");
    for (unsigned i = 0; i < topo->provider_count; i++)
        print_rails(stream, topo->topology, &topo->providers[i]);
    print_device_paths(stream, topo);
    print_gpus(stream, topo);
    fprintf(stream, "\n%s\n", libfabric[0] != '\0' ? libfabric : "no libfabric is loaded");
}
