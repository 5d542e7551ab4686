/* `kvrail topo`: what this host has that a rail could use, and where it lies. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "fabric/fabric_ofi.h"
#include "tools/tool.h"
#include "topology/topology.h"

#define RAILS_LISTED_MAX 64

struct topo_options {
    char provider[16];
    bool json;
};

static const struct kvr_option options[] = {
    {.name = "provider",
     .section = "topology",
     .choices = "tcp|shm|verbs|efa",
     KVR_OPTION_CHOICE(struct topo_options, provider),
     .help = "Only the rails of this provider."},
    {.name = "json",
     .section = "topology",
     KVR_OPTION_BOOL(struct topo_options, json),
     .help = "Print one JSON object instead."},
};

static const struct kvr_command command = {
    .name = "kvrail topo",
    .description =
        "Shows this host's NUMA nodes, network cards and GPUs, and which rails libfabric\n"
        "offers on them: what --provider and --rail of an agent can name.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};

/* Rails of one provider, or why it has none. */
struct provider_rails {
    const char *provider;
    struct kvr_rail_facts rails[RAILS_LISTED_MAX];
    unsigned count;
    struct kvr_error error;
};

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

static void print_host(FILE *stream, const struct kvr_topology *topology)
{
    fprintf(stream, "%-4s %10s  %s\n", "NODE", "MEMORY", "CORES");
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
        fprintf(stream, " %-5s %-13s %s\n",
                card->kind != KVR_CARD_INTERFACE ? ""
                : card->up                       ? "up"
                                                 : "down",
                card->pci[0] != '\0' ? card->pci : "-", card->model);
    }
    if (topology->truncated)
        fprintf(stream, "(there is more than is listed)\n");
}

static void print_rails(FILE *stream, const struct kvr_topology *topology,
                        const struct provider_rails *list)
{
    unsigned shown = list->count < RAILS_LISTED_MAX ? list->count : RAILS_LISTED_MAX;

    if (list->count == 0) {
        fprintf(stream, "%-8s none: %s\n", list->provider, list->error.detail);
        return;
    }
    for (unsigned i = 0; i < shown; i++) {
        const struct kvr_rail_facts *rail = &list->rails[i];

        fprintf(stream, "%-8s %-16s %-12s %-28s ", rail->provider, rail->name,
                rail->interface[0] != '\0' ? rail->interface : "-",
                rail->source[0] != '\0' ? rail->source : "-");
        print_node(stream, topology, kvr_topology_node_of(topology, rail->pci, rail->interface));
        fputc(' ', stream);
        print_speed(stream, rail->speed_bps);
        fprintf(stream, " %-16s %u/%u\n", rail->provider_path, rail->write.pieces_local,
                rail->write.pieces_remote);
    }
    if (list->count > shown)
        fprintf(stream, "(%u more)\n", list->count - shown);
}

static json_t *node_json(const struct kvr_topology *topology, uint32_t node)
{
    return node == KVR_NODE_UNKNOWN ? json_null()
                                    : json_integer((json_int_t)topology->nodes[node].number);
}

/* null: no limit. */
static json_t *limit_json(uint64_t bytes)
{
    return bytes > INT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *host_json(const struct kvr_topology *topology)
{
    json_t *nodes = json_array(), *cards = json_array();

    for (uint32_t i = 0; i < topology->node_count; i++)
        json_array_append_new(nodes,
                              json_pack("{s:i, s:I, s:i}", "node", (int)topology->nodes[i].number,
                                        "memory_bytes", (json_int_t)topology->nodes[i].memory_bytes,
                                        "cores", (int)topology->nodes[i].core_count));
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        json_array_append_new(cards,
                              json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:b}", "kind",
                                        kvr_card_kind_name(card->kind), "name", card->name, "model",
                                        card->model, "pci", card->pci, "speed_bits_per_second",
                                        (json_int_t)card->speed_bps, "node",
                                        node_json(topology, card->node), "up", card->up));
    }
    return json_pack("{s:s, s:o, s:o}", "libfabric", kvr_fabric_ofi_version(), "nodes", nodes,
                     "cards", cards);
}

static void add_rails_json(json_t *array, const struct kvr_topology *topology,
                           const struct provider_rails *list)
{
    for (unsigned i = 0; i < list->count && i < RAILS_LISTED_MAX; i++) {
        const struct kvr_rail_facts *rail = &list->rails[i];
        uint32_t node = kvr_topology_node_of(topology, rail->pci, rail->interface);

        json_array_append_new(
            array,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:i, s:i, s:o, s:b}", "provider",
                      rail->provider, "provider_path", rail->provider_path, "name", rail->name,
                      "interface", rail->interface, "address", rail->source, "pci", rail->pci,
                      "speed_bits_per_second", (json_int_t)rail->speed_bps, "node",
                      node_json(topology, node), "pieces_local", (int)rail->write.pieces_local,
                      "pieces_remote", (int)rail->write.pieces_remote, "write_bytes_max",
                      limit_json(rail->write.bytes_max), "same_host_only", rail->same_host_only));
    }
}

static void list_rails(const char *provider, struct provider_rails *ret_list)
{
    memset(ret_list, 0, sizeof(*ret_list));
    ret_list->provider = provider;
    ret_list->count =
        kvr_fabric_ofi_list(provider, ret_list->rails, RAILS_LISTED_MAX, &ret_list->error);
}

static void show(const struct topo_options *config, const struct kvr_topology *topology)
{
    static const char *const providers[] = {"efa", "verbs", "tcp", "shm"};
    static struct provider_rails list;
    json_t *host = config->json ? host_json(topology) : NULL, *rails = json_array();

    if (!config->json) {
        print_host(stdout, topology);
        printf("\n%-8s %-16s %-12s %-28s %4s %9s %-16s %s\n", "PROVIDER", "RAIL", "INTERFACE",
               "ADDRESS", "NODE", "SPEED", "LIBFABRIC", "PIECES A WRITE, LOCAL/REMOTE");
    }
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        if (config->provider[0] != '\0' && strcmp(config->provider, providers[i]) != 0)
            continue;
        list_rails(providers[i], &list);
        if (config->json)
            add_rails_json(rails, topology, &list);
        else
            print_rails(stdout, topology, &list);
    }
    if (config->json) {
        json_object_set_new(host, "rails", rails);
        json_dumpf(host, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(host);
        return;
    }
    printf("\nlibfabric %s\n", kvr_fabric_ofi_version());
    json_decref(rails);
}

int tool_topo_main(int argc, char **argv)
{
    struct topo_options config = {0};
    struct kvr_topology *topology;
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (kvr_topology_read(&topology, &error) != KVR_OK) {
        fprintf(stderr, "kvrail topo: %s\n", error.detail);
        return 1;
    }
    show(&config, topology);
    kvr_topology_free(topology);
    return 0;
}
