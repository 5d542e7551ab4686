/* The facts of `kvrail topo` and `kvrail doctor`: of this host, or of one that a file describes. */
#include "tools/topo.h"

#include <string.h>

#include "base/removed.h"
#include "fabric/host_rails.h"
#include "fabric/shared_subnet.h"

static const struct kvr_option rows[] = {
    {.name = "provider",
     .section = "topology",
     .choices_from = kvr_provider_choices,
     .removed = kvr_removed_provider,
     KVR_OPTION_CHOICE(struct topo_host, provider),
     .help = "Only the rails of this provider."},
    KVR_OPTION_LIBFABRIC(struct topo_host),
    {.name = "xml",
     .value = "FILE",
     KVR_OPTION_STRING(struct topo_host, xml),
     .help = "A host that `lstopo --of xml FILE` described, in place of this one; every card in it "
             "counts as a rail."},
};
const struct kvr_option_table topo_host_options = {rows, sizeof(rows) / sizeof(rows[0])};
const struct kvr_option_part topo_parts[] = {{.table = &topo_host_options}, {.table = NULL}};

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

kvr_status topo_read(const struct topo_host *host, struct topo *topo, struct kvr_error *error)
{
    kvr_libfabric_choose(host->libfabric);
    KVR_TRY(kvr_topology_read(host->xml[0] != '\0' ? host->xml : NULL, &topo->topology, error));
    if (topo->topology->from_file) {
        kvr_host_rails_of_cards(topo->topology, kvr_provider_of_card, &topo->groups);
        keep_provider(&topo->groups, host->provider);
    } else {
        ask_providers(topo, host->provider);
        topo_try(topo);
        topo->gpu_count = kvr_device_cuda_list(topo->gpus, KVR_HOST_GROUPS_MAX, &topo->driver);
        topo->groups.topology = topo->topology;
        kvr_host_rails_choose(&topo->groups, topo->rails, topo->rail_count);
    }
    kvr_host_groups_make(&topo->groups);
    find_oddities(topo);
    return KVR_OK;
}
