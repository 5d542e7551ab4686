#include "fabric/fabric_provider.h"

#include <string.h>

#include "fabric/fabric_local.h"
#include "fabric/fabric_ofi.h"

static bool is_local(const char *provider)
{
    return strcmp(provider, KVR_FABRIC_LOCAL) == 0;
}

void kvr_fabric_of(const char *provider, struct kvr_fabric *ret_fabric)
{
    if (is_local(provider))
        kvr_fabric_local(ret_fabric);
    else
        kvr_fabric_ofi(ret_fabric);
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
