/* This host as one side of `kvrail doctor --peer`: the rails that an agent could use here. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/need.h"
#include "base/version.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "fabric/rail_link.h"
#include "tools/doctor_peer.h"

static const struct topo_provider *list_of(const struct topo *host, const char *provider)
{
    for (unsigned i = 0; i < host->provider_count; i++)
        if (strcmp(host->providers[i].provider, provider) == 0 && host->providers[i].count > 0)
            return &host->providers[i];
    return NULL;
}

static kvr_path device_path(const struct topo *host, uint32_t rail)
{
    struct kvr_path_choice choice;

    if (host->gpu_count == 0)
        return KVR_PATH_NONE;
    topo_device_path(&host->rails[rail], &host->trials[rail], &choice);
    return choice.path;
}

static void rail_fill(const struct topo *host, uint32_t index, struct kvr_rail_snapshot *rail)
{
    const struct kvr_rail_facts *facts = &host->rails[index];
    struct kvr_rail_traits *traits = &rail->traits;

    snprintf(rail->name, sizeof(rail->name), "%s", facts->name);
    snprintf(rail->provider, sizeof(rail->provider), "%s", facts->provider);
    snprintf(rail->address, sizeof(rail->address), "%s", facts->source);
    rail->state = KVR_RAIL_UP;
    rail->speed_bps = facts->speed_bps;
    traits->reported = true;
    snprintf(traits->network, sizeof(traits->network), "%s", facts->network);
    memcpy(traits->plane, traits->network, sizeof(traits->plane));
    kvr_rail_link_read(KVR_SYS, facts, &traits->link);
    traits->device_path = device_path(host, index);
    traits->pins_memory = facts->pins_memory;
}

/* The usable cards. A host without any has loopback, which an agent opens for a trial. */
static void rails_fill(const struct topo *host, const struct topo_provider *list,
                       struct kvr_agent_facts *facts)
{
    uint32_t usable[KVR_HOST_RAILS_MAX], first = (uint32_t)(list->rails - host->rails);
    uint32_t count = doctor_usable_rails(host, list, usable);

    for (; count == 0 && facts->rail_count < list->listed && facts->rail_count < KVR_RAILS_MAX;
         facts->rail_count++)
        rail_fill(host, first + facts->rail_count, &facts->rails[facts->rail_count]);
    for (; facts->rail_count < count && facts->rail_count < KVR_RAILS_MAX; facts->rail_count++)
        rail_fill(host, first + usable[facts->rail_count], &facts->rails[facts->rail_count]);
}

void doctor_side_own(const struct doctor_facts *facts, const char *provider, double ahead_s,
                     struct doctor_side *ret_side)
{
    struct kvr_agent_facts *own = &ret_side->facts;
    struct kvr_host_traits *traits = &own->traits;
    const struct topo_provider *list;
    char cards[16];

    memset(ret_side, 0, sizeof(*ret_side));
    kvr_provider_cards(provider, cards);
    list = list_of(facts->host, cards);
    snprintf(ret_side->name, sizeof(ret_side->name), "this host");
    ret_side->up = ret_side->traits_shown = true;
    ret_side->clock_heard = !isnan(ahead_s);
    ret_side->clock_ahead_s = ret_side->clock_heard ? ahead_s : 0;
    snprintf(own->version, sizeof(own->version), "%s", KVRAIL_VERSION);
    (void)gethostname(own->host, sizeof(own->host) - 1);
    if (list != NULL) {
        snprintf(own->provider, sizeof(own->provider), "%s", cards);
        rails_fill(facts->host, list, own);
    }
    traits->reported = true;
    snprintf(traits->libfabric, sizeof(traits->libfabric), "%s", kvr_libfabric_version());
    traits->files_limit = facts->process.files_limit;
    traits->lockable_bytes = kvr_lockable_bytes();
    traits->clock_known = facts->clock.error.status == KVR_OK;
    traits->clock_synchronised = facts->clock.synchronised;
    traits->clock_error_us = facts->clock.error_us;
}
