/* `kvrail topo`: what this host, or the one that a file describes, has that a rail could use, which
 * cards belong together, and what is odd about it. */
#include "tools/topo.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/removed.h"
#include "fabric/host_rails.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "fabric/shared_subnet.h"
#include "tools/tool.h"

struct topo_options {
    char provider[16];
    char xml[4096];
    char libfabric[KVR_LIBFABRIC_FOLDER_BYTES];
    bool json;
};

static const struct kvr_option options[] = {
    {.name = "provider",
     .section = "topology",
     .choices_from = kvr_provider_choices,
     .removed = kvr_removed_provider,
     KVR_OPTION_CHOICE(struct topo_options, provider),
     .help = "Only the rails of this provider."},
    KVR_OPTION_LIBFABRIC(struct topo_options),
    {.name = "xml",
     .value = "FILE",
     KVR_OPTION_STRING(struct topo_options, xml),
     .help = "A host that `lstopo --of xml FILE` described, in place of this one; every card in it "
             "counts as a rail."},
    {.name = "json",
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
        "said to a small dmabuf of GPU 0, and when each GPU sees what cards have written.",
    KVR_OPTION_ROWS(options),
    .footer =
        "Distance counts links of the PCI tree between card and GPU, and 10 for each of host\n"
        "bridge, NUMA node and other NUMA node on the way.",
};

static void ask_providers(struct topo *topo, const char *only)
{
    const struct kvr_provider *provider;

    for (unsigned i = 0; (provider = kvr_provider_at(i)) != NULL; i++) {
        struct topo_provider *list = &topo->providers[topo->provider_count];
        unsigned room = KVR_HOST_RAILS_MAX - topo->rail_count;

        if (only[0] != '\0' && strcmp(only, provider->name) != 0)
            continue;
        list->provider = provider->name;
        list->rails = &topo->rails[topo->rail_count];
        list->count = kvr_fabric_list(list->provider, list->rails, room, &list->error);
        list->listed = list->count < room ? list->count : room;
        topo->rail_count += list->listed;
        topo->provider_count++;
    }
}

static void find_shared_subnets(struct topo *topo)
{
    static struct kvr_ip_port ports[KVR_HOST_RAILS_MAX]; /* large */
    uint32_t count = kvr_ip_ports_read(topo->rails, topo->rail_count, ports, KVR_HOST_RAILS_MAX);

    kvr_ip_ports_odd(ports, count, &topo->oddities);
}

static void find_oddities(struct topo *topo)
{
    struct kvr_host_offer offers[KVR_PROVIDERS_MAX];

    for (unsigned i = 0; i < topo->provider_count; i++)
        offers[i] = (struct kvr_host_offer){.provider = topo->providers[i].provider,
                                            .rail_count = topo->providers[i].count,
                                            .reason = topo->providers[i].error.detail};
    kvr_host_groups_odd(&topo->groups, kvr_provider_of_card, offers, topo->provider_count,
                        &topo->oddities);
    find_shared_subnets(topo);
}

static void keep_provider(struct kvr_host_groups *groups, const char *only)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < groups->rail_count; i++) {
        if (only[0] == '\0' || strcmp(groups->rails[i].provider, only) == 0)
            groups->rails[kept++] = groups->rails[i];
    }
    groups->rail_count = kept;
}

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
    kvr_libfabric_choose(config.libfabric);
    if (kvr_topology_read(config.xml[0] != '\0' ? config.xml : NULL, &topo.topology, &error) !=
        KVR_OK) {
        fprintf(stderr, "kvrail topo: %s\n", error.detail);
        return 1;
    }
    if (topo.topology->from_file) {
        kvr_host_rails_of_cards(topo.topology, kvr_provider_of_card, &topo.groups);
        keep_provider(&topo.groups, config.provider);
    } else {
        ask_providers(&topo, config.provider);
        topo_try(&topo);
        topo.gpu_count = kvr_device_cuda_list(topo.gpus, KVR_HOST_GROUPS_MAX);
        topo.groups.topology = topo.topology;
        kvr_host_rails_choose(&topo.groups, topo.rails, topo.rail_count);
    }
    kvr_host_groups_make(&topo.groups);
    find_oddities(&topo);
    show(&topo, config.json);
    kvr_topology_free(topo.topology);
    return 0;
}
