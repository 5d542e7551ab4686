/* `kvrail topo`: what this host, or the one that a file describes, has that a rail could use, which
 * cards belong together, and what is odd about it. */
#include "tools/topo.h"

#include "tools/tool.h"

struct topo_options {
    struct topo_host host; /* first: topo_parts fills it */
    bool json;
};

static const struct kvr_option options[] = {
    {.name = "json",
     .section = "rails",
     KVR_OPTION_BOOL(struct topo_options, json),
     .help = "Print one JSON object instead."},
};

static const struct kvr_command command = {
    .name = "kvrail topo",
    .description =
        "Shows which network cards belong together: a line for each GPU with the NUMA node, the\n"
        "cores for the thread that drives them and the cards, nearest first come; cards without a\n"
        "GPU near, by NUMA node. Then what is odd, then NUMA nodes, cards, and the rails that\n"
        "libfabric offers: what --provider and --rail of an agent can name. Last, which way pages\n"
        "on a GPU would take over each of them (--device cuda), why no better one, what the card\n"
        "said to a small dmabuf of GPU 0; of each GPU its free memory, whether processes\n"
        "share it by MPS, and when it sees what cards have written.",
    .parts = topo_parts,
    KVR_OPTION_ROWS(options),
    .footer =
        "Beside a card of a GPU's group: switch, both are below one PCIe switch; host bridge,\n"
        "below one root of PCIe; node, in one NUMA node; far, in two or at an unknown place.\n"
        "Distance counts links of the PCI tree between card and GPU, and 10 for each of host\n"
        "bridge, NUMA node and other NUMA node on the way.",
};

static void show(const struct topo *topo, bool as_json)
{
    json_t *json;

    if (!as_json) {
        topo_print(topo, stdout);
        return;
    }
    json = topo_json(topo);
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

int tool_topo_main(int argc, char **argv)
{
    static struct topo topo; /* large */
    static struct topo_options config;
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (topo_read(&config.host, &topo, &error) != KVR_OK) {
        fprintf(stderr, "kvrail topo: %s\n", error.detail);
        return 1;
    }
    show(&topo, config.json);
    kvr_topology_free(topo.topology);
    return 0;
}
