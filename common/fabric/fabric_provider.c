#include "fabric/fabric_provider.h"

#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "fabric/fabric_local.h"
#include "fabric/fabric_ofi.h"

static bool is_local(const char *provider)
{
    return strcmp(provider, KVR_FABRIC_LOCAL) == 0;
}

bool kvr_provider_cards(const char *mixed, char ret_provider[16])
{
    size_t bytes = strcspn(mixed, "+");

    snprintf(ret_provider, 16, "%.*s", (int)(bytes < 16 ? bytes : 15), mixed);
    return mixed[bytes] == '+';
}

uint32_t kvr_provider_rails(const char *provider)
{
    return strcmp(provider, "shm") == 0 ? 2 : 1;
}

void kvr_fabric_of(const char *provider, struct kvr_fabric *ret_fabric)
{
    if (is_local(provider))
        kvr_fabric_local(ret_fabric);
    else
        kvr_fabric_ofi(ret_fabric);
}

const char *kvr_fabric_version(const char *provider)
{
    static char libfabric[32];

    if (is_local(provider))
        return "kvrail " KVRAIL_VERSION;
    snprintf(libfabric, sizeof(libfabric), "libfabric %s", kvr_fabric_ofi_version());
    return libfabric;
}

unsigned kvr_fabric_list(const char *provider, struct kvr_rail_facts *ret_facts, unsigned capacity,
                         struct kvr_error *error)
{
    if (!is_local(provider))
        return kvr_fabric_ofi_list(provider, ret_facts, capacity, error);
    if (capacity > 0)
        kvr_fabric_local_facts(&ret_facts[0]);
    return 1;
}
